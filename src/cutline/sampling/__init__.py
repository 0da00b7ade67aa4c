r"""Random bits, and the exact draws made from them. Nothing outside ``sampling/`` draws a bit.

A release is a draw from an explicit law, not a sum of a number and floating-point noise: `categorical` for
the exponential mechanism in all its forms, `bernoulli` and `bernoulli_real` for tests and votes,
`integers_below` for one of equals. Each returns the mathematical law exactly, so a privacy theorem applies as
it is stated. How, is in ``inversion.py``; everything else prepares weights for it or compares whole numbers.

All draws come in batches and take one keyword-only ``rng``: None is the operating system's source.
"""

from cutline.sampling.bernoulli import bernoulli, bernoulli_real
from cutline.sampling.categorical import categorical, probabilities
from cutline.sampling.inversion import invert
from cutline.sampling.source import SeededSource, Source, SystemSource, resolve
from cutline.sampling.uniform import integers_below
from cutline.sampling.weights import Weights

__all__ = [
    "SeededSource",
    "Source",
    "SystemSource",
    "Weights",
    "bernoulli",
    "bernoulli_real",
    "categorical",
    "integers_below",
    "invert",
    "probabilities",
    "resolve",
]
