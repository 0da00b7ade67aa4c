r"""What is checked of each aggregator, one file for each kind, and what they share."""
