r"""The exhaustive checks of Top Stable: both relations, both domains, other orders of the tests, the published slip."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from cutline.arrays import IntArray
from cutline.histogram import Histogram
from cutline.mechanisms.open.top_stable import TopStable
from cutline.outcome import Law
from cutline.privacy import Adjacency
from cutline.verify.check import Check, Subject
from cutline.verify.suites.shared import Altered, UnderReplace, controls, holds

_MAX_K = 4
_of = partial(TopStable, k=3, max_k=3, epsilon=5.0, delta=0.01)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ByDistance(Altered):
    """A Top Stable that integrates the law of each vector of distances once: many histograms share one."""

    subject: TopStable
    shift: int = 0  # read the gap this many ranks below the one that is released
    known: dict[tuple[int, ...], list[float]] = field(default_factory=dict)

    def law(self, histogram: Histogram, /) -> Law:
        distances = tuple(self.distances(histogram).tolist())
        if distances not in self.known:
            self.known[distances] = self.subject.chances(distances)
        cuts = (*self.subject.tested, 0)
        return {self.subject.outcome(histogram, k): p for k, p in zip(cuts, self.known[distances], strict=True)}

    def distances(self, histogram: Histogram) -> IntArray:
        if self.shift == 0:
            return self.subject.distances(histogram)
        ranks = np.asarray(self.subject.tested) + self.shift
        gaps = np.append(np.iinfo(np.int64).max // 4, histogram.gaps(_MAX_K))  # nothing is above rank 1: surely stable
        shifted: IntArray = self.subject.adjacency.distance(gaps)[ranks]
        return shifted


def checks() -> list[Check]:
    """Return all checks of Top Stable; the off-by-one passes at (0.5, 0.2), so the parameters of its controls matter."""
    found = []
    for adjacency in Adjacency:
        found += [
            _check("k = 3", _of(adjacency=adjacency), size) for size in ("open 4 x 6", "closed 2 x 6", "closed 3 x 6")
        ]
        found.append(_check("k = 2, delta for 3", _of(adjacency=adjacency, k=2), "closed 4 x 6"))
        found.append(_check("upwards", _of(adjacency=adjacency, ranks=(1, 2, 3)), "open 3 x 6"))
        found.append(
            _check("k = 2, gentle", _of(adjacency=adjacency, k=2, max_k=2, epsilon=1.5, delta=1e-3), "open 2 x 24")
        )
    wrong: dict[str, Subject] = {
        f"top-stable off by one, {where}; {adjacency}": ByDistance(
            subject=_of(adjacency=adjacency, epsilon=2.0), shift=shift
        )
        for adjacency in Adjacency
        for where, shift in {"a rank too low": 1, "a rank too high": -1}.items()
    }
    right = ByDistance(subject=_of(adjacency=Adjacency.ADD_REMOVE))
    wrong["top-stable, add-remove constants under replace"] = UnderReplace(subject=right)
    return found + controls(TopStable.name, "open 4 x 6", _MAX_K, wrong)


def _check(what: str, mechanism: TopStable, size: str) -> Check:
    return replace(holds(what, mechanism, size, max_k=_MAX_K), subject=ByDistance(subject=mechanism))
