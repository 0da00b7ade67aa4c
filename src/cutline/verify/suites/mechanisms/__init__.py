r"""What is checked of each mechanism, one file a subject."""
