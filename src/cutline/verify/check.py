r"""One exhaustive check: a subject, a universe of inputs, and whether its claim is expected to hold or to fail.

The subject is anything with a ``law`` and a ``cost``: mechanisms and PATE aggregators are checked alike. Laws are laid out as
arrays once per input. All pairs are compared, in blocks; those with exactly the same chances have the same verdict and are
judged once. Histograms with the same counts in another order of the items have the same law under other names: it is computed
once and renamed, and one input in thirteen is computed as it is, to see that this holds.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np

from cutline.arrays import FloatArray, IntArray
from cutline.errors import AdjacencyError, CutlineError
from cutline.histogram import ClosedHistogram, Item, OpenHistogram
from cutline.outcome import Items, Outcome
from cutline.privacy import Cost
from cutline.verify.claim import judge
from cutline.verify.universe import Universe

ORDERS = (1.25, 1.5, 2.0, 3.0, 4.0, 8.0, 16.0, 64.0, math.inf)
EPSILONS = np.array([0.0, 0.1, 0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0])
_COMPARED = 1 << 21  # chances compared at a time
_JUDGED = 1 << 15  # and judged: few enough that they stay in the cache of a core
_SUM_ERROR = 1e-11
_AS_IT_IS = 13  # one input in so many; no divisor of how many values a count has, so that all of them are met


class Subject(Protocol):
    """What can be checked."""

    @property
    def cost(self) -> Cost:
        """The claim."""
        ...

    def law(self, data: Any, /) -> Mapping[Any, float]:
        """Return the exact output law, over outcomes of the subject's own type."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What a check found."""

    pairs: int
    violations: int
    worst: float
    seconds: float
    as_expected: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """A named claim with the universe it is tried on."""

    name: str
    mechanism: str
    expected: Literal["holds", "fails"]
    subject: Subject
    universe: Universe

    def run(self) -> Report:
        """Try every ordered pair of neighbours; count the pairs that break the claim."""
        started = time.perf_counter()
        universe = self.universe
        if universe.adjacency != self.subject.cost.adjacency:
            raise AdjacencyError(
                "a claim is checked under its own adjacency relation",
                f"{self.subject.cost.adjacency} and {universe.adjacency}",
                "Build the universe for the claim.",
            )
        laws = Laws.of(self.subject, universe.inputs())
        claim = {order: self.subject.cost.rdp(order) for order in ORDERS}
        delta = self.subject.cost.delta
        pairs = universe.pairs()
        violations, worst = 0, 0.0
        for p, q, times in laws.blocks(pairs):
            verdict = judge(p, q, times=times, delta=delta, rdp=claim, epsilons=EPSILONS)
            violations += verdict.violations
            worst = max(worst, verdict.worst)
        return Report(
            pairs=len(pairs[0]),
            violations=violations,
            worst=worst,
            seconds=time.perf_counter() - started,
            as_expected=(violations > 0) == (self.expected == "fails"),
        )


@dataclass(frozen=True, slots=True, kw_only=True, repr=False, eq=False)
class Laws:
    """All laws of a universe: each on its own support, and all of them on the union of supports."""

    support: IntArray  # (inputs, widest support): outcome columns; the last column of `dense` pads
    values: FloatArray  # the same shape
    dense: FloatArray  # (inputs, outcomes + 1)
    widths: IntArray  # of each support
    numbers: IntArray  # the first input whose law has the same chances in the same order

    @classmethod
    def of(cls, subject: Subject, inputs: tuple[Any, ...]) -> Laws:
        """Lay out the laws; refuse any that does not sum to 1."""
        laws = list_laws(subject, inputs)
        columns: dict[Hashable, int] = {}
        placed: dict[int, IntArray] = {}  # laws with the same outcomes share the tuple of them
        for law in laws:
            if id(law.outcomes) not in placed:
                placed[id(law.outcomes)] = np.array(
                    [columns.setdefault(outcome, len(columns)) for outcome in law.outcomes], dtype=np.int64
                )
        width = max(len(law.outcomes) for law in laws)
        support = np.full((len(laws), width), len(columns), dtype=np.int64)
        values = np.zeros((len(laws), width))
        dense = np.zeros((len(laws), len(columns) + 1))
        for row, law in enumerate(laws):
            support[row, : len(law.outcomes)] = placed[id(law.outcomes)]
            values[row, : len(law.outcomes)] = law.chances
        np.put_along_axis(dense, support, values, axis=1)
        dense[:, -1] = 0.0
        if np.abs(values.sum(axis=1) - 1).max() > _SUM_ERROR or values.min() < 0:
            raise CutlineError("a law must be non-negative and sum to 1", "", "The mechanism's law() is wrong.")
        widths = np.array([len(law.outcomes) for law in laws], dtype=np.int64)
        same: dict[tuple[float, ...], int] = {}
        numbers = np.array([same.setdefault(law.chances, row) for row, law in enumerate(laws)], dtype=np.int64)
        return cls(support=support, values=values, dense=dense, widths=widths, numbers=numbers)

    def blocks(self, pairs: tuple[IntArray, IntArray]) -> Iterator[tuple[FloatArray, FloatArray, IntArray]]:
        """Yield P on its own support, Q there, and how many of the pairs of inputs have exactly these chances."""
        order = np.lexsort((self.numbers[pairs[0]], self.widths[pairs[0]]))  # equal laws together, and equal widths
        first, second = pairs[0][order], pairs[1][order]
        ends = np.flatnonzero(np.diff(self.widths[first], append=-1)) + 1
        for start, end in pairwise([0, *ends.tolist()]):
            width = int(self.widths[first[start]])
            step = max(1, _COMPARED // width)
            for low in range(start, end, step):
                high = min(low + step, end)
                yield from self._distinct(first[low:high], second[low:high], width)

    def _distinct(
        self, first: IntArray, second: IntArray, width: int
    ) -> Iterator[tuple[FloatArray, FloatArray, IntArray]]:
        _, q = self.compare(first, second)
        rows: list[Any] = np.ascontiguousarray(q).view(np.dtype((np.void, 8 * width))).ravel().tolist()
        found = Counter(zip(self.numbers[first].tolist(), rows, strict=True))
        numbers = np.array([number for number, _ in found], dtype=np.int64)
        q = np.frombuffer(b"".join(row for _, row in found)).reshape(len(found), width)
        times = np.array(list(found.values()), dtype=np.int64)
        for start in range(0, len(found), max(1, _JUDGED // width)):
            block = slice(start, start + max(1, _JUDGED // width))
            yield self.values[numbers[block], :width], q[block], times[block]

    def compare(self, first: IntArray, second: IntArray) -> tuple[FloatArray, FloatArray]:
        """Return P on its own support, and Q there, for pairs of inputs."""
        width = self.widths[first].max()
        return self.values[first, :width], self.dense[second[:, None], self.support[first, :width]]


class Listed(NamedTuple):
    """A law as a list; laws with the same outcomes in the same order share the tuple of them."""

    outcomes: tuple[Any, ...]
    chances: tuple[float, ...]


def list_laws(subject: Subject, inputs: tuple[Any, ...]) -> list[Listed]:
    """Return the law of every input; of histograms that differ in their items' names only, renamed from one of them."""
    by_rank: dict[Hashable, Listed] = {}
    renamed: dict[tuple[int, tuple[Item, ...]], tuple[Any, ...]] = {}
    shared: dict[tuple[Any, ...], tuple[Any, ...]] = {}

    def listed(law: Mapping[Any, float]) -> Listed:
        outcomes = tuple(law)
        return Listed(shared.setdefault(outcomes, outcomes), tuple(law.values()))

    laws: list[Listed] = []
    for place, histogram in enumerate(inputs):
        if not isinstance(histogram, OpenHistogram | ClosedHistogram):
            break
        shape = _shape(histogram)
        if shape not in by_rank:
            by_rank[shape] = listed(subject.law(_name_by_rank(histogram)))
        ranked, items = by_rank[shape], tuple(histogram.items)
        key = id(ranked.outcomes), items
        if key not in renamed:
            named = _rename(ranked.outcomes, items)
            if named is None:
                break
            renamed[key] = shared.setdefault(named, named)
        law = Listed(renamed[key], ranked.chances)
        if place % _AS_IT_IS == 0 and not _agree(dict(zip(*law, strict=True)), subject.law(histogram)):
            break
        laws.append(law)
    else:
        return laws
    return [listed(subject.law(data)) for data in inputs]  # a law of something else, or one that looks at names


def _shape(histogram: OpenHistogram | ClosedHistogram) -> Hashable:
    """Return what the law depends on beside names."""
    if isinstance(histogram, OpenHistogram):
        return len(histogram.items), histogram.counts.tobytes()
    return histogram.values.tobytes(), histogram.multiplicities.tobytes()


def _name_by_rank(histogram: OpenHistogram | ClosedHistogram) -> OpenHistogram | ClosedHistogram:
    """Return the same histogram with ranks for names."""
    return replace(histogram, items=tuple(range(len(histogram.items))))


def _rename(outcomes: tuple[Any, ...], items: tuple[Item, ...]) -> tuple[Outcome, ...] | None:
    """Return the outcomes with items in the place of ranks; None if they are not all sets and lists of items."""
    if not all(isinstance(outcome, Outcome) for outcome in outcomes):
        return None
    names: dict[Item, Item] = dict(enumerate(items))
    named: dict[Items | None, Items | None] = {None: None}  # many outcomes differ in their steps alone
    for ranks in {outcome.items for outcome in outcomes} - {None}:
        named[ranks] = type(ranks)([names[rank] for rank in ranks])
    return tuple(Outcome(items=named[outcome.items], k=outcome.k, steps=outcome.steps) for outcome in outcomes)


def _agree(law: Mapping[Any, float], other: Mapping[Any, float]) -> bool:
    """Say whether two laws have the same outcomes with the same chances, to what laws are exact."""
    return law.keys() == other.keys() and all(math.isclose(law[o], other[o], rel_tol=1e-11) for o in law)
