r"""Aggregators: votes of teachers in, labels out, one file each."""
