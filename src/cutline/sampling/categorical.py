r"""The exponential mechanism as a finite law: exact draws from it, and its probabilities."""

from __future__ import annotations

import numpy as np

from cutline.arrays import FloatArray, IntArray
from cutline.sampling.inversion import invert
from cutline.sampling.source import Source, resolve
from cutline.sampling.weights import Weights, enclose_boundaries, float_weights, scaled_weights


def categorical(weights: Weights, *, rng: Source | None = None) -> IntArray:
    r"""Draw one group per row, with probability exactly its share of the row's weight.

    Parameters
    ----------
    weights
        Rows of groups. A row of one group draws no bits.
    rng
        None for the operating system's source.

    Returns
    -------
    IntArray
        The drawn group of each row, shape (rows,).

    Notes
    -----
    `float_weights` has relative error below 2^-40 per weight and `numpy.cumsum` adds one after the other, which is
    what `cutline.sampling.inversion.invert` asks for; cumulative sums of floats of at least 0 never decrease.

    Examples
    --------
    >>> from fractions import Fraction
    >>> from cutline.sampling import SeededSource
    >>> scores = np.tile([0, 5], (10_000, 1))
    >>> draws = categorical(Weights(scores=scores, rate=Fraction(1, 5)), rng=SeededSource(0))
    >>> bool(abs(draws.mean() - 1 / (1 + np.exp(-1))) < 0.02)
    True
    """
    source = resolve(rng)
    rows, groups = weights.scores.shape
    if groups == 1:
        return np.zeros(rows, dtype=np.int64)
    with np.errstate(under="ignore"):
        sums = np.cumsum(float_weights(weights), axis=1)
        boundaries = sums[:, :-1] / sums[:, -1:]
    return invert(boundaries, lambda row, _precision: enclose_boundaries(weights, row), source=source)


def probabilities(weights: Weights) -> FloatArray:
    r"""Return the law of every row, each entry with relative error below 1e-12.

    Entries above 2^-1022 have that accuracy however small they are beside the rest: mantissas and exponents
    are kept apart until the end (`scaled_weights`, relative error 2^-48), and the total is a sum of numbers
    of at least 0, added in pairs, so that its error is a few units of 2^-53 per doubling of the number of
    groups.

    Parameters
    ----------
    weights
        Rows of groups.

    Returns
    -------
    FloatArray
        Shape (rows, groups); every row sums to 1.

    Examples
    --------
    >>> from fractions import Fraction
    >>> law = probabilities(Weights(scores=np.array([[0, -700]]), rate=Fraction(1)))
    >>> bool(abs(law[0, 1] / np.exp(-700.0) - 1) < 1e-12)
    True
    """
    mantissas, exponents = scaled_weights(weights)
    with np.errstate(under="ignore"):
        totals = np.ldexp(mantissas, exponents).sum(axis=1, keepdims=True)
        return np.asarray(np.ldexp(mantissas / totals, exponents))
