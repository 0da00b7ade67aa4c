r"""Selectors of a told k on a closed domain, where all candidates are listed."""
