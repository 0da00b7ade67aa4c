r"""What is checked of each aggregator."""
