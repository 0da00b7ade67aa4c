r"""The one-gap number: how large one gap must be, all others being 0, for the right set to go out.

It prices the whole mechanism, choosing k included, by one public number; calibration minimises it and the README quotes it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable

import numpy as np

from cutline.histogram import BoundedHistogram, ClosedHistogram, Histogram, OpenHistogram

FARTHEST = 1 << 30


def smallest(holds: Callable[[int], bool]) -> int:
    """Return the smallest positive integer at which a monotone condition holds."""
    high = 1
    while not holds(high):
        high *= 2
        if high > FARTHEST:
            return high
    return bisect_left(range(high), True, lo=high // 2 + 1, key=holds)


def lone_gap(gap: int, *, k: int, max_k: int, closed: bool = False, bound: int | None = None) -> Histogram:
    """Return the histogram of the one-gap number: k items with ``gap`` users each, and nobody anywhere else."""
    counts = dict.fromkeys(range(k), gap)
    if bound is not None:
        return BoundedHistogram.from_counts(counts, counts, max_items_per_user=bound)
    if closed:
        return ClosedHistogram.from_counts(np.where(np.arange(max_k) < k, gap, 0))
    return OpenHistogram.from_counts(counts, max_k=max_k)


def one_gap(
    chance: Callable[[Histogram, int], float],
    *,
    max_k: int,
    k: int | None = None,
    success: float = 0.9,
    closed: bool = False,
    bound: int | None = None,
) -> int:
    r"""Return the one-gap number of a mechanism, computed from its exact law; above `FARTHEST` if no gap is enough.

    Parameters
    ----------
    chance
        The probability that a mechanism releases exactly the top k, like `StableTopK.chance`.
    max_k
        How many counts the mechanism looks at.
    k
        Where the one gap is; the middle by default. Without a preference it does not matter where.
    success
        Required probability of releasing exactly the right set.
    closed
        Ask about a closed domain of ``max_k`` candidates.
    bound
        Ask about counts with this bound on items per user, which is met by all users as they are.
    """
    cut = k or (max_k + 1) // 2

    def holds(gap: int) -> bool:
        return chance(lone_gap(gap, k=cut, max_k=max_k, closed=closed, bound=bound), cut) >= success

    return smallest(holds)


def say_by_chance(chance: Callable[[Histogram, int], float], *, k: int, candidates: int) -> str:
    r"""Say how many of k items would be there by chance on a flat log, and what it takes for the right ones to come out.

    A list of candidates is always filled: where all of them have as many users, by chance, and the answer does not show it.

    Examples
    --------
    >>> from cutline.mechanisms.closed.peeling import PeelingEM
    >>> from cutline.privacy import Budget
    >>> ready = PeelingEM.calibrate(Budget(epsilon=0.1, delta=1e-6), k=10)
    >>> said = say_by_chance(ready.chance, k=10, candidates=100)
    >>> print(said.split(". ")[0])
    On a log where all 100 candidates have nearly as many users, about 9 of the 10 items would be there by chance
    >>> print(said.split(". ")[1])
    The right ones come out 9 times in 10 if each of them has 445 users more than any other.
    """
    needed = one_gap(chance, max_k=candidates, k=k, closed=True)
    return (
        f"On a log where all {candidates:,} candidates have nearly as many users, about {k - k * k / candidates:.0f} of the "
        f"{k} items would be there by chance. The right ones come out 9 times in 10 if each of them has {needed:,} users more "
        "than any other."
    )
