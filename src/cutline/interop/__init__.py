"""Bridges to other libraries: our costs and mechanisms as their objects, so that their users can compose ours with theirs.

Nothing here is needed to use Cutline. Each module imports the other library only when it is called, and refuses by the name of
the extra if it is missing.
"""
