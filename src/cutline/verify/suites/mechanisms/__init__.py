r"""What is checked of each mechanism, one file for each kind, and what they share."""
