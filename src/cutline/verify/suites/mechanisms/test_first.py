r"""The exhaustive checks of testing first, and its negative control: the paper's fallback."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from typing import ClassVar, Self

from cutline.histogram import Histogram, OpenHistogram
from cutline.mechanisms.adaptive.gap_tests import TableTest
from cutline.mechanisms.closed.peeling import PeelingEM
from cutline.mechanisms.fixed.test_first import PlannedTest, TestFirst
from cutline.privacy import Adjacency
from cutline.release import Law, Outcome
from cutline.verify.check import Check, Subject
from cutline.verify.suites.mechanisms.stable_top_k import GENTLE, STEEP, AtZeroTest
from cutline.verify.suites.shared import Altered, Relabelled, controls_of, holds

# k, max_k, epsilon and delta of the fallback, test (at k, and from k = 2 on also under k), universe.
_CASES: tuple[tuple[int, int, float, float, TableTest, str], ...] = (
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


def checks() -> list[Check]:
    """Return all checks of testing first."""
    return [
        holds(f"k = {k} of {max_k}", _of(k, max_k, epsilon, delta, test, adjacency), size, max_k=max_k)
        for adjacency in Adjacency
        for k, max_k, epsilon, delta, test, size in _CASES
    ] + controls()


def controls() -> list[Check]:
    """Return the negative controls, each at parameters under which it must fail."""
    adds = Adjacency.ADD_REMOVE
    right = _of(2, 3, 1.5, 0.1, STEEP, adds)
    careless = AtZeroTest(table=STEEP.table)
    wrong: dict[str, Subject] = {
        "test at q > 0, test first": _of(2, 3, 1.0, 0.001, careless, adds),
        "test under k without its margin": NoMargin.of(_of(4, 4, 1.0, 0.001, STEEP, adds)),
        "EM fallback on an open domain": SeenFallback(subject=right),
        "add-remove constants under replace, test first": Relabelled(subject=right, adjacency=Adjacency.REPLACE),
    }
    return controls_of(TestFirst.name, wrong, "open 3 x 6", max_k=4)


def _of(k: int, max_k: int, epsilon: float, delta: float, test: TableTest, adjacency: Adjacency) -> TestFirst:
    nearby = test if k > 1 else None
    return TestFirst(k=k, max_k=max_k, test=test, nearby=nearby, epsilon=epsilon, delta=delta, adjacency=adjacency)


@dataclass(frozen=True, slots=True, kw_only=True)
class NoMargin(TestFirst):
    """Tests the largest gap under k by its size alone, although another cut may be as large on a neighbour."""

    __test__: ClassVar[bool] = False

    @classmethod
    def of(cls, right: TestFirst) -> Self:
        return cls(**{field.name: getattr(right, field.name) for field in fields(right)})

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
