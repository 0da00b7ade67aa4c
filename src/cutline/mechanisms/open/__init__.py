r"""Selectors of a told k on an open domain, where any item may occur."""
