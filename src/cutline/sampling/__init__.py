r"""Random bits, and the exact draws made from them. Nothing outside ``sampling/`` draws a bit.

A release is a draw from an explicit law, not a sum of a number and floating-point noise: `categorical` for the
exponential mechanism in all its forms, `bernoulli` and `bernoulli_real` for tests and votes, `integers_below` for one
of equals. Each returns the mathematical law exactly, so a privacy theorem applies as it is stated. How is in
``draws.py``; everything else prepares weights for it or compares whole numbers.

All draws come in batches and take one keyword-only ``rng``: None is the operating system's source.
"""

from cutline.sampling.draws import bernoulli, bernoulli_real, integers_below, invert
from cutline.sampling.source import SeededSource, Source, SystemSource, resolve
from cutline.sampling.weights import Weights, categorical, probabilities

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
