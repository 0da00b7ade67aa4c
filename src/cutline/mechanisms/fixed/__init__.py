r"""Mechanisms for a given k that try a stability test before they select items."""
