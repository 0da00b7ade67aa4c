r"""What is checked of each aggregator, one file each, and what several of them share."""
