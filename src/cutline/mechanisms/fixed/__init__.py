r"""Mechanisms that are told k and try a stability test before they select."""
