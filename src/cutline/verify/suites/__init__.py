r"""What is checked of every mechanism and aggregator, and the negative controls that must fail."""
