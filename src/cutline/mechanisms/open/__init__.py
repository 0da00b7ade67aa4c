r"""Selectors of a given number of items on an open domain, where any item may occur."""
