r"""What a mechanism can see: how likely it is to release a set, against how far the set stands above the rest.

It follows from the mechanism's public parameters and needs no data, so it may stand beside a release in a figure.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cutline.arrays import FloatArray, IntArray
from cutline.errors import CutlineError
from cutline.mechanisms import mechanism
from cutline.mechanisms.one_gap import lone_gap, one_gap
from cutline.release import Release


@dataclass(frozen=True, slots=True, kw_only=True)
class GapChance:
    """How likely a mechanism is to release against the size of a lone gap, and the smallest gap at which it is 0.9."""

    gaps: IntArray
    chances: FloatArray
    needed: int


def gap_chance(release: Release) -> GapChance | None:
    """Return the curve of the mechanism that made a release, or None if it cannot be known.

    Examples
    --------
    >>> from cutline.histogram import OpenHistogram
    >>> from cutline.mechanisms import StableTopK
    >>> from cutline.privacy import Budget
    >>> ready = StableTopK.calibrate(Budget(epsilon=1.0, delta=1e-6), max_k=100)
    >>> gap_chance(ready.release(OpenHistogram.from_counts({"a": 900}, max_k=100))).needed
    22
    """
    if release.budget is None or "max_k" not in release.mechanism:
        return None
    max_k = int(release.mechanism["max_k"])
    try:
        kind = mechanism(release.mechanism["name"])
        public = {name: value for name, value in release.mechanism.items() if kind.accepts(name)}
        own = kind.calibrate(release.budget, adjacency=release.cost.adjacency, **public)
        # Built from parameters, by a ledger's limits or with a hint, and not from the budget alone: no curve is known.
        if own.cost != (release.reserved or release.cost):
            return None
        cut = public.get("k") or public.get("target") or public.get("min_k") or 1
        needed = one_gap(own.chance, max_k=max_k, k=cut)
        farthest = min(int(2.4 * needed), 1 << 20)
        gaps = np.unique(np.append(np.linspace(1, farthest, 121).astype(int), min(needed, farthest)))
        chances = np.array([own.chance(lone_gap(int(gap), k=cut, max_k=max_k), cut) for gap in gaps])
    except CutlineError:  # built by hand from parts that no budget would give, or with a hint, which only a ledger has
        return None
    return GapChance(gaps=gaps, chances=chances, needed=needed)
