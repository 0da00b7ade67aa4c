r"""One exhaustive check: a subject, a universe of inputs, and whether its claim is expected to hold or to fail.

The subject is anything with a ``law`` and a ``cost``: mechanisms and PATE aggregators are checked alike. Laws are laid out as
arrays once per input; pairs are then judged in blocks. Histograms with the same counts in another order of the items have the
same law under other names: it is computed once and renamed, and one input in thirteen is computed as it is, to see that this
holds.
"""

from __future__ import annotations

import math
import time
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol

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
_BLOCK = 1 << 12  # pairs judged at a time: few enough that their laws stay in the cache of a core
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
        for first, second in _blocks(pairs):
            p, q = laws.compare(first, second)
            verdict = judge(p, q, delta=delta, rdp=claim, epsilons=EPSILONS)
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

    @classmethod
    def of(cls, subject: Subject, inputs: tuple[Any, ...]) -> Laws:
        """Lay out the laws; refuse any that does not sum to 1."""
        laws = list_laws(subject, inputs)
        columns: dict[Hashable, int] = {}
        for law in laws:
            for outcome in law:
                columns.setdefault(outcome, len(columns))
        width = max(len(law) for law in laws)
        support = np.full((len(laws), width), len(columns), dtype=np.int64)
        values = np.zeros((len(laws), width))
        dense = np.zeros((len(laws), len(columns) + 1))
        for row, law in enumerate(laws):
            index = [columns[outcome] for outcome in law]
            support[row, : len(index)] = index
            values[row, : len(index)] = list(law.values())
        np.put_along_axis(dense, support, values, axis=1)
        dense[:, -1] = 0.0
        if np.abs(values.sum(axis=1) - 1).max() > _SUM_ERROR or values.min() < 0:
            raise CutlineError("a law must be non-negative and sum to 1", "", "The mechanism's law() is wrong.")
        return cls(support=support, values=values, dense=dense)

    def compare(self, first: IntArray, second: IntArray) -> tuple[FloatArray, FloatArray]:
        """Return P on its own support, and Q there, for pairs of inputs."""
        return self.values[first], self.dense[second[:, None], self.support[first]]


def list_laws(subject: Subject, inputs: tuple[Any, ...]) -> list[Mapping[Any, float]]:
    """Return the law of every input; of histograms that differ in their items' names only, renamed from one of them."""
    by_rank: dict[Hashable, Mapping[Any, float]] = {}
    laws: list[Mapping[Any, float]] = []
    for place, histogram in enumerate(inputs):
        if not isinstance(histogram, OpenHistogram | ClosedHistogram):
            break
        shape, ranked = _name_by_rank(histogram)
        if shape not in by_rank:
            by_rank[shape] = subject.law(ranked)
        law = _rename(by_rank[shape], tuple(histogram.items))
        if law is None or (place % _AS_IT_IS == 0 and not _agree(law, subject.law(histogram))):
            break
        laws.append(law)
    else:
        return laws
    return [subject.law(data) for data in inputs]  # a law of something else, or one that looks at names


def _name_by_rank(histogram: OpenHistogram | ClosedHistogram) -> tuple[Hashable, OpenHistogram | ClosedHistogram]:
    """Return what the law depends on beside names, and the same histogram with ranks for names."""
    ranks = tuple(range(len(histogram.items)))
    if isinstance(histogram, OpenHistogram):
        return (len(ranks), histogram.counts.tobytes()), replace(histogram, items=ranks)
    return (histogram.values.tobytes(), histogram.multiplicities.tobytes()), replace(histogram, items=ranks)


def _rename(law: Mapping[Any, float], items: tuple[Item, ...]) -> dict[Any, float] | None:
    """Return the law with items in the place of ranks; None if it is not a law of sets and lists of items."""
    names: dict[Item, Item] = dict(enumerate(items))
    named: dict[Items | None, Items | None] = {None: None}  # many outcomes differ in their steps alone
    renamed: dict[Any, float] = {}
    for outcome, chance in law.items():
        if not isinstance(outcome, Outcome):
            return None
        ranks = outcome.items
        if ranks is not None and ranks not in named:
            named[ranks] = type(ranks)([names[rank] for rank in ranks])
        renamed[Outcome(items=named[ranks], k=outcome.k, steps=outcome.steps)] = chance
    return renamed


def _agree(law: Mapping[Any, float], other: Mapping[Any, float]) -> bool:
    """Say whether two laws have the same outcomes with the same chances, to what laws are exact."""
    return law.keys() == other.keys() and all(math.isclose(law[o], other[o], rel_tol=1e-11) for o in law)


def _blocks(pairs: tuple[IntArray, IntArray]) -> Iterator[tuple[IntArray, IntArray]]:
    for start in range(0, len(pairs[0]), _BLOCK):
        yield pairs[0][start : start + _BLOCK], pairs[1][start : start + _BLOCK]
