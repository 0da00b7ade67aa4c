r"""The exhaustive checks of fixed k, by testing first and by way of a stable set near k, and their negative controls."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

from cutline.histogram import Histogram, OpenHistogram
from cutline.mechanisms.adaptive.choosers import GapExponential, Preference
from cutline.mechanisms.adaptive.gap_tests import TableTest
from cutline.mechanisms.closed.peeling import PeelingEM
from cutline.mechanisms.fixed.stable_fixed import StableTopKFixed
from cutline.mechanisms.fixed.test_first import PlannedTest, TestFirst
from cutline.outcome import Law, Outcome
from cutline.privacy import Adjacency
from cutline.verify.check import Check, Subject
from cutline.verify.suites.mechanisms.stable_top_k import GENTLE, STEEP, AtZeroTest
from cutline.verify.suites.shared import Altered, Charged, UnderReplace, controls, hold

_CARELESS = AtZeroTest(table=STEEP.table)

# k, max_k, epsilon and delta of the fallback, test (at k, and from k = 2 on also under k), universe.
_TESTED_FIRST: tuple[tuple[int, int, float, float, TableTest, str], ...] = (
    (1, 2, 1.5, 0.1, STEEP, "open 4 x 6"),
    (2, 3, 1.5, 0.3, STEEP, "open 4 x 6"),
    (3, 3, 1.0, 0.2, STEEP, "open 4 x 6"),
    (4, 4, 1.5, 0.05, STEEP, "open 4 x 4"),  # two cuts under k
    (1, 1, 0.7, 0.1, GENTLE, "open 2 x 24"),
    (1, 9, 1.0, 0.1, STEEP, "closed 4 x 6"),  # peeling
    (2, 9, 1.0, 0.1, STEEP, "closed 4 x 6"),  # a subset
    (3, 9, 1.0, 0.1, STEEP, "closed 4 x 6"),
    (4, 9, 1.0, 0.1, STEEP, "closed 5 x 3"),
    (3, 9, 1.0, 0.1, STEEP, "closed 2 x 6"),  # more than there are
)
# k, max_k, epsilon and delta of the fallback, weight of the preference, universe.
_NEAR_K: tuple[tuple[int, int, float, float, float, str], ...] = (
    (1, 3, 1.5, 0.3, 0.5, "open 4 x 6"),  # picks one of two or three
    (2, 3, 1.5, 0.3, 0.0, "open 4 x 6"),  # fills up, or drops one
    (3, 5, 1.0, 0.2, 0.3, "open 4 x 6"),
    (2, 4, 0.7, 0.1, 1.0, "open 2 x 12"),
    (1, 4, 1.0, 0.1, 0.5, "closed 4 x 6"),
    (2, 4, 1.0, 0.1, 0.5, "closed 4 x 6"),
    (3, 5, 1.0, 0.1, 0.2, "closed 4 x 6"),
    (3, 5, 1.0, 0.1, 0.0, "closed 3 x 6"),  # as many as there are
)


def test_first() -> list[Check]:
    """Return all checks of testing first; the paper's fallback is a negative control."""
    adds = Adjacency.ADD_REMOVE
    right = _first(2, 3, 1.5, 0.1, STEEP, adds)
    wrong: dict[str, Subject] = {
        "test at q > 0, test first": _first(2, 3, 1.0, 0.001, _CARELESS, adds),
        "test under k without its margin": _first(4, 4, 1.0, 0.001, STEEP, adds, kind=NoMargin),
        "EM fallback on an open domain": SeenFallback(subject=right),
        "add-remove constants under replace, test first": UnderReplace(subject=right),
    }
    return hold(_first, _TESTED_FIRST) + controls(TestFirst.name, "open 3 x 6", 4, wrong)


def stable_top_k_fixed() -> list[Check]:
    """Return all checks of fixed k by way of a stable set."""
    right = _near(2, 3, 1.0, 0.05, 0.5, Adjacency.ADD_REMOVE)
    claimed, halved = (replace(right, chooser=GapExponential(epsilon=epsilon)) for epsilon in (4.0, 8.0))
    careless = replace(_near(2, 3, 1.0, 0.001, 5.0, Adjacency.ADD_REMOVE), test=_CARELESS)
    wrong: dict[str, Subject] = {
        "gap-EM at scale 1/eps, fixed k": Charged(subject=halved, charge=claimed.cost),
        "test at q > 0, fixed k": careless,
        "add-remove constants under replace, fixed k": UnderReplace(subject=right),
    }
    return hold(_near, _NEAR_K) + controls(StableTopKFixed.name, "open 3 x 6", 3, wrong)


def _first(
    k: int,
    max_k: int,
    epsilon: float,
    delta: float,
    test: TableTest,
    adjacency: Adjacency,
    *,
    kind: type[TestFirst] = TestFirst,
) -> TestFirst:
    nearby = test if k > 1 else None
    return kind(k=k, max_k=max_k, test=test, nearby=nearby, epsilon=epsilon, delta=delta, adjacency=adjacency)


def _near(k: int, max_k: int, epsilon: float, delta: float, weight: float, adjacency: Adjacency) -> StableTopKFixed:
    preference, chooser = Preference(max_k=max_k, target=k, weight=weight), GapExponential(epsilon=1.0)
    return StableTopKFixed(
        preference=preference, chooser=chooser, test=STEEP, epsilon=epsilon, delta=delta, adjacency=adjacency
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class NoMargin(TestFirst):
    """Tests the largest gap under k by its size alone, although another cut may be as large on a neighbour."""

    __test__: ClassVar[bool] = False

    def planned_tests(self, histogram: Histogram) -> Iterator[PlannedTest]:
        for planned in TestFirst.planned_tests(self, histogram):
            yield replace(planned, slack=planned.gap)


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenFallback(Altered):
    """Falls back on peeling the items that were seen, as the paper does: an item only one user has shows that user."""

    subject: TestFirst

    def law(self, histogram: Histogram, /) -> Law:
        assert isinstance(histogram, OpenHistogram)  # noqa: S101
        law = {outcome: p for outcome, p in self.subject.law(histogram).items() if "release" in outcome.steps}
        left = 1 - sum(law.values())
        seen = histogram.up_to(len(histogram.items))
        draws = min(self.subject.k, seen.size)
        if draws == 0:
            return law | {Outcome(items=(), k=self.subject.k, steps=("test", "nothing")): left}
        peels = PeelingEM(k=draws, epsilon=self.subject.epsilon, adjacency=self.subject.adjacency)
        return law | {replace(outcome, steps=("test", "peel")): left * p for outcome, p in peels.law(seen).items()}
