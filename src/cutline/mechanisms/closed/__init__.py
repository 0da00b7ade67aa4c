r"""Selectors of a given number of items on a closed domain, where all candidates are listed."""
