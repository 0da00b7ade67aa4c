r"""What is checked of each mechanism, one file each, and what several of them share."""
