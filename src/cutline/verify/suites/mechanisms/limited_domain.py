r"""The exhaustive checks of Limited Domain, and its negative controls."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

from cutline.histogram import Histogram
from cutline.mechanisms.open.limited_domain import LimitedDomain
from cutline.privacy import Adjacency
from cutline.release import Law
from cutline.verify.check import Check, Subject
from cutline.verify.suites.shared import Relabelled, controls_of, holds

Cases = tuple[tuple[int, int, float, float, str], ...]  # k, max_k, epsilon, delta, universe

# Candidates fewer than the items, so that ranks come and go, and deltas large enough to see one-sided items.
_CASES: Cases = (
    (1, 2, 1.0, 0.1, "open 4 x 6"),
    (2, 2, 0.7, 0.02, "open 3 x 6"),
    (2, 3, 1.5, 0.3, "open 4 x 6"),
    (3, 3, 1.2, 0.3, "open 4 x 6"),
    (3, 5, 2.0, 0.1, "open 3 x 6"),
    (1, 1, 0.5, 0.02, "open 2 x 24"),
    (2, 3, 0.8, 0.01, "open 2 x 24"),
)


def checks() -> list[Check]:
    """Return all checks of Limited Domain."""
    return limited(LimitedDomain, _CASES) + controls()


def limited(kind: type[LimitedDomain], cases: Cases) -> list[Check]:
    """Return the checks that Limited Domain, or a kind of it, keeps its claim."""
    return [
        holds(
            f"k = {k} of {max_k}",
            kind(k=k, max_k=max_k, epsilon=epsilon, delta=delta, adjacency=adjacency),
            size,
            max_k=max_k,
        )
        for adjacency in Adjacency
        for k, max_k, epsilon, delta, size in cases
    ]


def controls() -> list[Check]:
    """Return the negative controls, each at parameters under which it must fail."""
    adds, replaces = Adjacency.ADD_REMOVE, Adjacency.REPLACE
    right = LimitedDomain(k=1, max_k=2, epsilon=3.0, delta=0.1, adjacency=adds)
    wrong: dict[str, Subject] = {
        "Limited Domain with +1 under replace": PlusOne(k=1, max_k=2, epsilon=3.0, delta=0.1, adjacency=replaces),
        "Limited Domain without +1": NoMargin(k=1, max_k=2, epsilon=3.0, delta=0.1, adjacency=adds),
        "add-remove constants under replace, limited domain": Relabelled(subject=right, adjacency=replaces),
        "bottom that does not count the candidates": LightBottom(k=1, max_k=2, epsilon=3.0, delta=0.1, adjacency=adds),
        "candidates cut to the items seen": SeenOnly(k=1, max_k=4, epsilon=3.0, delta=0.1, adjacency=adds),
    }
    return controls_of(LimitedDomain.name, wrong, "open 3 x 6", max_k=4)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlusOne(LimitedDomain):
    """Raises the bottom by 1, although one replaced ballot moves two counts apart by 2."""

    @property
    def _margin(self) -> int:
        return 1


@dataclass(frozen=True, slots=True, kw_only=True)
class NoMargin(LimitedDomain):
    """Puts the bottom at the first count that is left out itself."""

    @property
    def _margin(self) -> int:
        return 0


@dataclass(frozen=True, slots=True, kw_only=True)
class LightBottom(LimitedDomain):
    """Weighs the bottom against one one-sided item, although there may be max_k of them."""

    @property
    def _bottom(self) -> Fraction:
        return 1 / Fraction(self.delta)


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenOnly(LimitedDomain):
    """Looks at as many ranks as items were seen, and takes the last seen count for the first one left out."""

    def law(self, histogram: Histogram) -> Law:
        seen = max(1, min(len(histogram.items) - 1, self.max_k))
        # The parent's law on fewer ranks; super() does not see through slots.
        return LimitedDomain.law(replace(self, max_k=seen), histogram)
