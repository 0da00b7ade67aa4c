r"""What the suites share: the universes of the SPEC's sizes, and a claim moved to another adjacency."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from cutline.privacy import Adjacency, Cost
from cutline.verify.check import Subject
from cutline.verify.universe import Universe, closed_histograms, open_histograms


def universe(size: str, adjacency: Adjacency, *, max_k: int) -> Callable[[], Universe]:
    """Return the universe named like ``open 4 x 6`` or ``closed 3 x 6``: domain, items, largest count."""
    domain, items, _, largest = size.split()
    if domain == "open":
        return partial(open_histograms, items=int(items), largest=int(largest), adjacency=adjacency, max_k=max_k)
    return partial(closed_histograms, items=int(items), largest=int(largest), adjacency=adjacency)


@dataclass(frozen=True, slots=True, kw_only=True)
class Relabelled:
    """A mechanism of one adjacency that claims its cost under another: a negative control."""

    mechanism: Subject
    adjacency: Adjacency

    @property
    def cost(self) -> Cost:
        return Cost(adjacency=self.adjacency, uses=self.mechanism.cost.uses)

    def law(self, data: Any, /) -> Mapping[Hashable, float]:
        return self.mechanism.law(data)
