r"""The exhaustive checks of peeling, then testing: a bottom or none, empty slots, both relations, and negative controls."""

from __future__ import annotations

from dataclasses import dataclass

from cutline.histogram import Histogram
from cutline.mechanisms.adaptive.gap_tests import TableTest
from cutline.mechanisms.open.peel_then_test import Draws, PeelThenTest
from cutline.outcome import Law, Outcome
from cutline.privacy import Adjacency, BitTable
from cutline.verify.check import Check, Subject
from cutline.verify.suites.shared import UnderReplace, controls, holds

_STEEP = BitTable.stability(order=3.0, rdp=2.0, delta=0.05)
_GENTLE = BitTable.stability(order=4.0, rdp=0.5, delta=0.02)

# k, max_k, epsilon, table, bottom, universe: slots fewer and more than the items, lists that a bottom ends and others.
_CASES: tuple[tuple[int, int, float, BitTable, int | None, str], ...] = (
    (1, 2, 1.0, _STEEP, None, "open 4 x 6"),
    (2, 2, 0.7, _STEEP, None, "open 3 x 6"),
    (2, 3, 1.5, _STEEP, None, "open 4 x 4"),
    (2, 3, 1.0, _STEEP, 1, "open 4 x 4"),
    (1, 2, 2.0, _STEEP, 2, "open 4 x 6"),
    (3, 3, 1.0, _STEEP, 0, "open 3 x 6"),
    (2, 5, 1.0, _STEEP, 1, "open 3 x 5"),
    (1, 1, 0.5, _GENTLE, 3, "open 2 x 24"),
    (2, 3, 0.8, _GENTLE, 3, "open 2 x 24"),
)


def checks() -> list[Check]:
    """Return all checks of peeling, then testing."""
    adds, replaces = Adjacency.ADD_REMOVE, Adjacency.REPLACE
    numbers = (1, 2, 1.0, _STEEP, None)
    wrong: dict[str, Subject] = {
        "add-remove constants under replace, peel then test": UnderReplace(subject=_of(2, 2, 2.0, _STEEP, None, adds)),
        "draws shown when withheld": _of(1, 2, 1.0, _STEEP, None, adds, kind=Shown),
        "slots cut to the items seen": _of(2, 3, 1.0, _STEEP, None, adds, kind=SeenSlots),
        "the test without its margin": _of(*numbers, adds, kind=NoMargin),
        "the test with the add-remove margin under replace": _of(*numbers, replaces, kind=NoMargin),
    }
    holding = [
        holds(
            f"k = {k} of {max_k}, {'no bottom' if bottom is None else f'bottom at {bottom}'}",
            _of(k, max_k, epsilon, table, bottom, adjacency),
            size,
            max_k=max_k,
        )
        for adjacency in Adjacency
        for k, max_k, epsilon, table, bottom, size in _CASES
    ]
    first = TableTest(table=_STEEP)
    holding += [
        holds(
            "k = 2 of 3, a test first",
            _of(2, 3, 1.0, _STEEP, 1, adjacency, first=first),
            "open 4 x 4",
            max_k=3,
        )
        for adjacency in Adjacency
    ]
    return holding + controls(PeelThenTest.name, "open 3 x 6", 4, wrong)


def _of(
    k: int,
    max_k: int,
    epsilon: float,
    table: BitTable,
    bottom: int | None,
    adjacency: Adjacency,
    *,
    first: TableTest | None = None,
    kind: type[PeelThenTest] = PeelThenTest,
) -> PeelThenTest:
    return kind(k=k, max_k=max_k, epsilon=epsilon, table=table, bottom=bottom, first=first, adjacency=adjacency)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown(PeelThenTest):
    """Shows what was drawn also where the coin says no: an item that only one neighbour has can then be seen."""

    def law(self, histogram: Histogram) -> Law:
        counts = self._require_open(histogram)
        law: dict[Outcome, float] = {}
        for ranks, p in self.draws.law_of_ranks(counts).items():
            items, passing = self._named(counts, ranks), self.passing(counts, ranks)
            for word, chance in (("yes", passing), ("no", 1 - passing)):
                outcome = Outcome(items=items, k=self.k, steps=(word,))
                law[outcome] = law.get(outcome, 0.0) + p * chance
        return law


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenSlots(PeelThenTest):
    """Draws among the seen items alone, without empty slots: a short list stands clear until somebody brings one more item."""

    def law(self, histogram: Histogram) -> Law:
        counts = self._require_open(histogram)
        seen = min(len(counts.items), self.max_k)
        if seen == 0:  # as it would come out with empty slots, nearly always: an empty log is not what gives it away
            return {self.outcome(None): 1.0}
        draws = Draws(
            k=min(self.k, seen),
            max_k=seen,
            epsilon=self.epsilon,
            delta=0.5,
            height=0,
            weight=0,
            adjacency=self.adjacency,
        )
        law: dict[Outcome, float] = {}
        for ranks, p in draws.law_of_ranks(counts).items():
            passing = self.passing(counts, ranks)
            for outcome, chance in (
                (self.outcome(self._named(counts, ranks)), passing),
                (self.outcome(None), 1 - passing),
            ):
                law[outcome] = law.get(outcome, 0.0) + p * chance
        return law


@dataclass(frozen=True, slots=True, kw_only=True)
class NoMargin(PeelThenTest):
    """Tests how far the lowest item is above the first count left out, without what one user can move them apart."""

    def distance(self, above: int) -> int:
        return max(0, above - self.adjacency.count_range + 1)
