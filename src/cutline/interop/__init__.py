"""Our costs and mechanisms in the words of other libraries, so that their users can compose ours with theirs.

Nothing here is needed to use Cutline; each module imports the other library only when it is called.
"""
