r"""The exhaustive checks of coins on bounded counts and of finding, then choosing; both relations, and negative controls."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np

from cutline.arrays import FloatArray, IntArray
from cutline.histogram import BoundedHistogram, ClosedHistogram
from cutline.mechanisms.open.find_then_choose import Choice, FindThenChoose, build_rounds
from cutline.mechanisms.open.table_threshold import TableStep, TableThreshold, moved
from cutline.privacy import Adjacency, BitTable, Cost, Filter, WeightedTable
from cutline.verify.check import Check, Subject
from cutline.verify.suites.shared import Altered, Charged, UnderReplace, fails
from cutline.verify.universe import BoundedHistograms, Histograms, Pairs, Universe, WeightedHistograms

# Bound, start, order, rdp and delta of all coins, universe (items, largest count). Steep tables, so that they saturate there.
_COINS: tuple[tuple[int, int, float, float, float, tuple[int, int]], ...] = (
    (1, 1, 3.0, 1.5, 0.05, (4, 5)),
    (2, 1, 8.0, 2.0, 0.01, (4, 5)),
    (3, 1, 2.0, 2.0, 0.2, (4, 4)),
    (4, 1, 4.0, 3.0, 0.1, (5, 3)),
    (2, 2, 4.0, 2.0, 0.05, (3, 7)),
    (3, 3, 3.0, 3.0, 0.1, (3, 7)),
    (1, 1, 2.0, 0.2, 0.02, (1, 24)),
)
# Parts of a vote, bound, order, rdp and delta of all coins, universe (items, largest count in parts).
_WEIGHTED: tuple[tuple[int, int, float, float, float, tuple[int, int]], ...] = (
    (2, 1, 4.0, 3.0, 0.1, (3, 6)),
    (2, 3, 3.0, 4.0, 0.2, (3, 6)),
    (3, 2, 8.0, 4.0, 0.05, (2, 14)),
    (8, 1, 8.0, 4.0, 0.05, (2, 26)),
    (8, 2, 4.0, 2.0, 0.1, (1, 60)),
)
# k, bound, order, rdp and delta of one release, universe (items, largest bounded count, how far full ones can be above).
_FOUND: tuple[tuple[int, int, float, float, float, tuple[int, int, int]], ...] = (
    (1, 1, 4.0, 12.0, 0.3, (3, 3, 1)),
    (1, 2, 8.0, 20.0, 0.2, (3, 2, 1)),
    (2, 1, 8.0, 16.0, 0.2, (3, 3, 1)),
    (2, 3, 4.0, 24.0, 0.3, (3, 3, 0)),
    (2, 4, 4.0, 24.0, 0.3, (4, 2, 0)),  # as many to choose as to drop
    (3, 4, 8.0, 30.0, 0.2, (4, 2, 0)),  # drops one
    (5, 2, 4.0, 12.0, 0.1, (3, 3, 0)),  # more than there are
)
# How many of how many candidates, order and rdp, universe.
_CHOSEN: tuple[tuple[int, int, float, float, str], ...] = (
    (1, 3, 3.0, 0.5, "closed 3 x 6"),
    (2, 3, 2.0, 0.3, "closed 3 x 6"),  # drops one
    (1, 4, 8.0, 1.0, "closed 4 x 5"),
    (2, 4, 4.0, 0.5, "closed 4 x 5"),
    (3, 4, 3.0, 1.0, "closed 4 x 5"),
)


def table_threshold() -> list[Check]:
    """Return all checks of coins on bounded counts."""
    adds = Adjacency.ADD_REMOVE
    holding = [
        _holds(
            f"D = {bound}, from {start}",
            _coins(_step(bound, start, order, rdp, delta, adjacency), adjacency),
            BoundedHistograms(items=items, largest=largest, bound=bound, adjacency=adjacency),
        )
        for adjacency in Adjacency
        for bound, start, order, rdp, delta, (items, largest) in _COINS
    ]
    holding += [
        _holds(
            f"votes in {parts} parts, D = {bound}",
            _coins(_weighted(parts, bound, order, rdp, delta, adjacency), adjacency),
            WeightedHistograms(items=items, largest=largest, parts=parts, bound=bound, adjacency=adjacency),
            size=f"{items} items, counts to {largest} parts",
        )
        for adjacency in Adjacency
        for parts, bound, order, rdp, delta, (items, largest) in _WEIGHTED
    ]
    right = _weighted(4, 1, 3.0, 2.0, 1e-5, adds)
    whole_steps = BitTable.stability(order=3.0, rdp=2.0, delta=1e-5).values
    drawn = np.interp(np.arange(1, 4 * len(whole_steps) + 1) / 4, np.arange(1, len(whole_steps) + 1), whole_steps)
    single = BitTable.stability(order=3.0, rdp=2.0 / 16, delta=1e-5 / 16).values
    parted = WeightedHistograms(items=2, largest=16, parts=4, bound=1, adjacency=adds)
    one, two, three = (_step(bound, 1, 8.0, 2.0, 0.01, adds) for bound in (1, 2, 3))
    whole = replace(three, table=BitTable.stability(order=8.0, rdp=2 / 3, delta=0.01))
    zeroed = ZeroedStep(table=BitTable.stability(order=8.0, rdp=2 / 3, delta=0.01 / 3), max_items_per_user=3, start=3)
    wrong: dict[str, tuple[Subject, Universe]] = {
        "one item charged and three moved": (_coins(one, adds), _universe(adds, 3, 4, 3)),
        "the whole delta for each of a user's items": (
            Charged(subject=_coins(whole, adds), charge=three.cost(adds)),
            _universe(adds, 3, 4, 3),
        ),
        "replace charged one moved item": (
            UnderReplace(subject=_coins(one, adds)),
            _universe(Adjacency.REPLACE, 3, 4, 1),
        ),
        "replace charged two moved items": (
            UnderReplace(subject=_coins(two, adds)),
            _universe(Adjacency.REPLACE, 4, 5, 2),
        ),
        "a table from 1 that is zeroed below 3": (_coins(zeroed, adds), _universe(adds, 3, 7, 3)),
        "a table of whole votes interpolated for parts of them": (
            _with_values(right, tuple(drawn.tolist()), adds),
            parted,
        ),
        "a weighted table that bounds single parts alone": (_with_values(right, single, adds), parted),
        "a user's item is the one that most others have": (_coins(one, adds), PopularItems(users=5, adjacency=adds)),
    }
    return holding + _controls(TableThreshold.name, wrong)


def find_then_choose() -> list[Check]:
    """Return all checks of finding, then choosing: of the release, and of the whole transcript, candidates included."""
    holding = []
    for adjacency in Adjacency:
        for k, bound, order, rdp, delta, (items, largest, more) in _FOUND:
            mechanism = _find(k, bound, order, rdp, delta, adjacency)
            universe = BoundedHistograms(items=items, largest=largest, more=more, bound=bound, adjacency=adjacency)
            holding.append(_holds(f"k = {k}, D = {bound}", mechanism, universe))
            if items == 3:
                holding.append(_holds(f"transcript, k = {k}, D = {bound}", Transcript(subject=mechanism), universe))
        for k, candidates, order, rdp, size in _CHOSEN:
            alone = ChoosingAlone(k=k, candidates=candidates, order=order, rdp=rdp, adjacency=adjacency)
            domain = Histograms.named(size, adjacency, max_k=candidates)
            holding.append(_holds(f"choosing {k} of {candidates} alone", alone, domain, size=size))
    adds, replaces = Adjacency.ADD_REMOVE, Adjacency.REPLACE
    right = _find(1, 1, 4.0, 3.0, 0.1, adds)
    pair = ChoosingAlone(k=2, candidates=4, order=3.0, rdp=0.5, adjacency=adds)
    wrong: dict[str, tuple[Subject, Universe]] = {
        "the whole delta in every round of coins": (
            Charged(subject=_find(1, 1, 4.0, 3.0, 0.3, adds), charge=right.cost),
            _universe(adds, 2, 3, 1),
        ),
        "two draws at the price of one": (
            Charged(subject=replace(pair, rdp=1.0), charge=pair.cost),
            Histograms.named("closed 4 x 5", adds, max_k=4),
        ),
        "choosing with add-remove constants under replace": (
            UnderReplace(subject=pair),
            Histograms.named("closed 4 x 5", replaces, max_k=4),
        ),
        "add-remove constants under replace, find then choose": (
            UnderReplace(subject=right),
            _universe(replaces, 3, 3, 1, more=1),
        ),
        "one item charged and three moved, find then choose": (right, _universe(adds, 3, 3, 3)),
    }
    return holding + _controls(FindThenChoose.name, wrong)


def _step(bound: int, start: int, order: float, rdp: float, delta: float, adjacency: Adjacency) -> TableStep:
    step = TableStep.within(Filter(order=order, rdp=rdp, delta=delta), max_items_per_user=bound, adjacency=adjacency)
    return replace(step, start=start)


def _weighted(parts: int, bound: int, order: float, rdp: float, delta: float, adjacency: Adjacency) -> TableStep:
    shared = moved(bound, adjacency)
    table = WeightedTable.stability(order=order, rdp=rdp / shared, delta=delta / bound, parts=parts)
    return TableStep(table=table, max_items_per_user=bound)


def _with_values(right: TableStep, values: tuple[float, ...], adjacency: Adjacency) -> Subject:
    """Return coins with another table, at the price of the right one."""
    table = WeightedTable(values=values, parts=right.parts)
    return Charged(subject=_coins(replace(right, table=table), adjacency), charge=right.cost(adjacency))


def _coins(step: TableStep, adjacency: Adjacency) -> TableThreshold:
    return TableThreshold(step=step, adjacency=adjacency)


def _find(k: int, bound: int, order: float, rdp: float, delta: float, adjacency: Adjacency) -> FindThenChoose:
    limits = Filter(order=order, rdp=rdp, delta=delta)
    rounds = build_rounds(limits, k=k, max_items_per_user=bound, adjacency=adjacency)
    return FindThenChoose(k=k, rounds=rounds, order=order, adjacency=adjacency)


def _universe(adjacency: Adjacency, items: int, largest: int, bound: int, *, more: int = 0) -> BoundedHistograms:
    return BoundedHistograms(items=items, largest=largest, bound=bound, more=more, adjacency=adjacency)


def _holds(words: str, subject: Subject, universe: Universe, *, size: str | None = None) -> Check:
    if isinstance(universe, BoundedHistograms):
        size = f"{universe.items} items, counts to {universe.largest} and {universe.more} more"
    name = TableThreshold.name if isinstance(subject, TableThreshold) else FindThenChoose.name
    return Check(
        name=f"{name}: {words}; {universe.adjacency}; {size}",
        mechanism=name,
        expected="holds",
        subject=subject,
        universe=universe,
    )


def _controls(name: str, wrong: Mapping[str, tuple[Subject, Universe]]) -> list[Check]:
    return [fails(words, name, subject, universe) for words, (subject, universe) in wrong.items()]


@dataclass(frozen=True, slots=True, kw_only=True)
class Transcript(Altered):
    """Shows the candidates after every round, and what was chosen of them: all that the proof takes for public."""

    subject: FindThenChoose

    def law(self, data: BoundedHistogram, /) -> Mapping[Any, float]:
        mechanism = self.subject
        full = data.full_counts(range(len(data.items)))
        names = data.named(range(len(data.items)))
        law: dict[Any, float] = {}
        chains: dict[tuple[frozenset[int], ...], float] = {(): 1.0}
        for going in mechanism.rounds:
            found = going.step.law(data)
            longer: dict[tuple[frozenset[int], ...], float] = {}
            for chain, p in chains.items():
                for new, chance in found.items():
                    after = (*chain, chain[-1] | new if chain else new)
                    longer[after] = longer.get(after, 0.0) + p * chance
            ended = {chain: p for chain, p in longer.items() if len(chain[-1]) >= going.enough}
            choices = mechanism.law_of_choices(going, list({chain[-1] for chain in ended}), full)
            for chain, p in ended.items():
                for ranks, chance in choices[chain[-1]].items():
                    law[_named(names, (*chain, ranks))] = p * chance
            chains = {chain: p for chain, p in longer.items() if chain not in ended}
        return law | {_named(names, chain): p for chain, p in chains.items()}


def _named(names: tuple[Any, ...], chain: tuple[frozenset[int], ...]) -> tuple[frozenset[Any], ...]:
    return tuple(frozenset(names[rank] for rank in ranks) for ranks in chain)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChoosingAlone:
    """Chooses k of a public list of candidates by their counts, within a Rényi limit at one order."""

    k: int
    candidates: int
    order: float
    rdp: float
    adjacency: Adjacency

    @property
    def choice(self) -> Choice:
        return Choice.within(self.rdp, order=self.order, k=self.k, candidates=self.candidates, adjacency=self.adjacency)

    @property
    def cost(self) -> Cost:
        return self.choice.cost

    def law(self, data: ClosedHistogram, /) -> Mapping[Any, float]:
        names = data.named(range(data.size))
        (law,) = self.choice.laws(np.repeat(data.values, data.multiplicities)[None, :])
        return {frozenset(names[place] for place in places): p for places, p in law.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class ZeroedStep(TableStep):
    """Takes a table that starts at 1 and lets nothing out below ``start``: a jump that its delta was not made for."""

    def chances(self, counts: IntArray) -> FloatArray:
        return np.where(counts >= self.start, self.table(counts - 1), 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class PopularItems(Universe):
    """Logs of up to ``users`` who have two items and count in the one that more users have, and of one each with a single item.

    The bound is kept, and still one user who joins can move everybody's vote: a rule must read the user's own rows alone.
    """

    users: int

    @property
    def size(self) -> int:
        # Steps along each axis of a grid of (users + 1) x 2 x 2 logs, both ways.
        return 2 * (4 * self.users + 2 * 2 * (self.users + 1))

    def inputs(self) -> tuple[BoundedHistogram, ...]:
        return tuple(map(self._build, self._logs()))

    def pairs(self) -> Pairs:
        logs = np.array(list(self._logs()))
        near = np.abs(logs[:, None] - logs[None, :]).sum(axis=2) == 1
        first, second = np.nonzero(near)
        return first, second

    def _logs(self) -> product[tuple[int, ...]]:
        return product(range(self.users + 1), range(2), range(2))

    def _build(self, log: tuple[int, ...]) -> BoundedHistogram:
        both, only_a, only_b = log
        first = only_a >= only_b
        bounded = {"a": only_a + both * first, "b": only_b + both * (not first)}
        return BoundedHistogram.from_counts({"a": both + only_a, "b": both + only_b}, bounded, max_items_per_user=1)
