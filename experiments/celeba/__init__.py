r"""CelebA from a folder: many small networks, one ballot each, private labels, and a student; ``python -m experiments.celeba``.

The pictures are not shipped and not downloaded. Who has them runs the study on them; without a folder it runs on pictures of
faces that are drawn here, in the same layout.
"""
