r"""Mechanisms that find k themselves: choose where the top ends, then certify the set."""
