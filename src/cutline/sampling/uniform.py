r"""Exact uniform draws, by rejection: whole numbers below a bound, choices by whole weights, subsets."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate

import numpy as np
import numpy.typing as npt

from cutline.arrays import IntArray
from cutline.errors import ParameterError
from cutline.sampling.inversion import WORD_BITS
from cutline.sampling.source import Source, resolve


def integers_below(bounds: npt.ArrayLike, *, rng: Source | None = None) -> IntArray:
    r"""Draw a uniform integer from 0..bound-1 for every bound.

    With t = 2^64 mod bound, the words from t up are a whole number of times ``bound`` many, so the remainder
    of such a word is uniform; a word below t is drawn again, which happens with probability below bound /
    2^64 <= 1/2.

    Parameters
    ----------
    bounds
        Integers from 1 to 2^63 - 1, of any shape. A bound of 1 draws no bits.
    rng
        None for the operating system's source.

    Returns
    -------
    IntArray
        The integers, in the shape of ``bounds``.

    Raises
    ------
    ParameterError
        If a bound is below 1, above 2^63 - 1 or not an integer. Bounds are private: the message shows none.

    Examples
    --------
    >>> integers_below([1, 1]).tolist(), bool(integers_below(6) < 6)
    ([0, 0], True)
    """
    source = resolve(rng)
    array = np.asarray(bounds)
    if array.dtype.kind not in "iu" or (array.size and not (array.min() >= 1 and array.max() < 2**63)):
        raise ParameterError(
            "bounds must be integers from 1 to 2**63 - 1",
            f"{array.dtype}",
            "Pass the number of values to choose from.",
        )
    flat = array.reshape(-1).astype(np.uint64)
    drawn = np.zeros(flat.shape, dtype=np.int64)
    pending = np.flatnonzero(flat > 1)
    while pending.size:
        words, bound = source.words(pending.size), flat[pending]
        accepted = words >= (np.uint64(0) - bound) % bound  # unsigned: 0 - bound is 2^64 - bound
        drawn[pending[accepted]] = (words % bound)[accepted]
        pending = pending[~accepted]
    return drawn.reshape(array.shape)


def integer_below(bound: int, *, rng: Source | None = None) -> int:
    """Return a uniform integer from 0..bound-1, for a bound of any size; by rejection, fewer than two tries on average.

    Examples
    --------
    >>> integer_below(1), integer_below(10**40) < 10**40
    (0, True)
    """
    source = resolve(rng)
    if bound < 1:
        raise ParameterError("bounds must be integers of at least 1")
    bits = (bound - 1).bit_length()
    words = -(-bits // WORD_BITS)
    while True:
        drawn = int.from_bytes(source.words(words).astype("<u8").tobytes(), "little") >> (words * WORD_BITS - bits)
        if drawn < bound:
            return drawn


def choice(weights: Sequence[int], *, rng: Source | None = None) -> int:
    """Return an index with probability exactly its share of whole weights of any size.

    Examples
    --------
    >>> choice([0, 10**30, 0])
    1
    """
    sums = list(accumulate(weights))
    return bisect_right(sums, integer_below(sums[-1] if sums else 0, rng=rng))


def subset(size: int, of: int, *, rng: Source | None = None) -> set[int]:
    """Return a uniform subset of 0..of-1 with ``size`` elements [Floyd's algorithm].

    Examples
    --------
    >>> sorted(subset(3, 3)), len(subset(5, 10**9))
    ([0, 1, 2], 5)
    """
    if not 0 <= size <= of:
        raise ParameterError("a subset has at most as many elements as there are")
    drawn: set[int] = set()
    tops = range(of - size, of)
    for top, pick in zip(tops, integers_below(np.arange(of - size, of) + 1, rng=rng).tolist(), strict=True):
        drawn.add(top if pick in drawn else pick)
    return drawn
