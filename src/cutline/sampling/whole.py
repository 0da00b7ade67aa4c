r"""Exact uniform draws of combinatorial objects: whole numbers of any size, choices by whole weights, subsets."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate

import numpy as np

from cutline.errors import ParameterError
from cutline.sampling.inversion import WORD_BITS
from cutline.sampling.source import Source, resolve
from cutline.sampling.uniform import integers_below


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
