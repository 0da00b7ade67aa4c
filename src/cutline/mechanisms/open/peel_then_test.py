r"""The top k of an open domain, drawn first and tested once: one coin decides whether all that was drawn may be shown.

Limited Domain keeps items that only one neighbour has out of its list by a bottom element of weight ``max_k / delta``. Here
they may be drawn, but what was drawn is shown only if every item of it stands clear of the first count that was left out. That
is one question about one number, for which a bit table is the best answer.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Self

import numpy as np

from cutline.errors import ParameterError
from cutline.histogram import Histogram, Item, OpenHistogram
from cutline.mechanisms.adaptive.gap_tests import TableTest
from cutline.mechanisms.adaptive.stable_top_k_calibration import table_profile
from cutline.mechanisms.base import Mechanism, Parameter, check_k, check_window, declare, resolve_max_k
from cutline.mechanisms.calibration import (
    FAILURE,
    INSIDE,
    approximate_step,
    check_test_share,
    log_odds_needed,
    part_of,
    spend,
)
from cutline.mechanisms.fixed.continuation import rest_of
from cutline.mechanisms.open.limited_domain import Groups, LimitedDomain, require_open
from cutline.outcome import Law, Outcome
from cutline.privacy import Adjacency, BitTable, BoundedRange, Budget, Cost, Filter
from cutline.privacy.curves.base import check_positive
from cutline.rounding import fraction_down
from cutline.sampling import Source, bernoulli

_FIRST = 0.05  # what the test for a cliff gets of both limits
_TEST = 0.2  # what the test of what was drawn gets of the Rényi limit that is left; the draws get the rest
_CLEAR = 0.9  # the bottom is where the test passes this often


@dataclass(frozen=True, slots=True, kw_only=True)
class PeelThenTest(Mechanism):
    r"""The top items of an open domain, at most k of them: all k as a set at a cliff, otherwise in the order drawn; or nothing.

    If there is a first test, it asks for little whether the top k end at a cliff, like `TestFirst`; passed, they go out as they
    are, and nothing else is charged.

    Otherwise candidates are ``max_k`` slots: the seen items of the first ranks, and empty slots of count 0 if fewer were seen;
    and a bottom element, ``c + c bottom`` above the first count left out, c = 1 (ADD_REMOVE) or 2 (REPLACE), that weighs as
    much as ``k^2 / 10`` slots of its count (at least 1, at most ``max_k``). k times one is drawn without replacement with
    probability proportional to ``exp(epsilon * count / c)``; drawing the bottom ends the list. Then one coin, whose bias
    depends on how far the lowest item of the list is above the first count left out, decides whether the list goes out, without
    its empty slots. If not, nothing is shown. An empty list needs no coin.

    **Privacy.** ``k R_BR(a, epsilon)`` and the table's cost, outside the table's first value; all of it is charged whatever
    comes of the draws, since they stay hidden when the list is withheld. The first test costs what it costs
    [docs/proofs/peel-then-test.md].

    Parameters
    ----------
    k
        How many items at most.
    max_k
        How many ranks may be candidates; public, at least k.
    epsilon
        Of one draw.
    table
        The coin's bias at each distance; its first value is the chance where an item could be missing on a neighbour.
    bottom
        At which distance the bottom stands; None for no bottom.
    first
        The stability test at k that comes first; None for none.

    Examples
    --------
    >>> from cutline.sampling import SeededSource
    >>> mechanism = PeelThenTest.calibrate(Budget(epsilon=1.0, delta=1e-6), k=3, max_k=20)
    >>> counts = OpenHistogram.from_counts({"a": 340, "b": 270, "c": 200, "d": 12, "e": 11}, max_k=20)
    >>> release = mechanism.release(counts, rng=SeededSource(0))
    >>> release.steps, release.listed()
    (('test', 'release'), ['a', 'b', 'c'])
    """

    name: ClassVar[str] = "peel-then-test"
    ordered: ClassVar[bool] = False  # a set at a cliff
    domains: ClassVar[tuple[str, ...]] = ("open",)
    reference: ClassVar[str] = "DR19"
    cost_rule: ClassVar[str] = "one coin, then k bounded-range steps and another + delta"
    parameters: ClassVar[tuple[Parameter, ...]] = declare("max_k", "test_share", required=("k",))

    k: int
    max_k: int
    epsilon: float
    table: BitTable
    bottom: int | None
    first: TableTest | None = None

    def __post_init__(self) -> None:
        Mechanism.__post_init__(self)
        object.__setattr__(self, "k", check_k(self.k))
        check_window(self.k, self.max_k)
        check_positive("epsilon", self.epsilon)
        TableTest(table=self.table)  # checks where it starts
        if self.bottom is not None and not self.bottom >= 0:
            raise ParameterError("bottom must be a distance of at least 0", f"bottom={self.bottom}", "Or None.")

    @classmethod
    def calibrate(
        cls,
        budget: Budget,
        *,
        adjacency: Adjacency = Adjacency.ADD_REMOVE,
        limits: Filter | None = None,
        k: int,
        max_k: int | None = None,
        test_share: float = _TEST,
    ) -> Self:
        r"""Calibrate as `Mechanism.calibrate` says.

        The Rényi order and the share of delta minimise the one-gap number: how far k equal counts must stand above all others
        so that exactly they come out. ``test_share`` is what the test gets of the Rényi limit. By default ``max_k`` is
        ``max(100, 10 k)``.
        """
        ranks = resolve_max_k(k, max_k)
        adjacency = Adjacency(adjacency)
        test_share = check_test_share(test_share, usual=_TEST)

        def build(whole: Filter, kind: type[Self] = cls) -> Self:
            first = TableTest.within(part_of(whole, _FIRST))
            limits = rest_of(whole, first.cost(adjacency))
            table = BitTable.stability(order=limits.order, rdp=test_share * limits.rdp, delta=limits.delta)
            left = (Fraction(limits.rdp) - Fraction(table.rdp(limits.order))) / k * Fraction(INSIDE)
            step = BoundedRange.within(order=limits.order, rdp=fraction_down(left))
            clear = next((n for n, p in enumerate(table.values) if p >= _CLEAR), len(table.values) - 1)
            return kind(
                k=k,
                max_k=ranks,
                epsilon=step.epsilon,
                table=table,
                bottom=clear,
                first=first,
                adjacency=adjacency,
                budget=budget,
            )

        return spend(budget, limits, needed=lambda limits: _gap_needed(limits, k, ranks, test_share), build=build)

    @property
    def cost(self) -> Cost:
        """The dearest path: both tests and all draws."""
        first = Cost(adjacency=self.adjacency) if self.first is None else self.first.cost(self.adjacency)
        draws = self.k * Cost.of(BoundedRange(epsilon=self.epsilon), adjacency=self.adjacency)
        return first + draws + TableTest(table=self.table).cost(self.adjacency)

    def run(self, histogram: Histogram, source: Source) -> tuple[Outcome, Cost]:
        counts = self._require_open(histogram)
        if self.first is not None and bool(bernoulli([self.cliff(counts)], rng=source)[0]):
            return self._at_cliff(counts), self.first.cost(self.adjacency)
        ranks = self.draws.ranks(counts, source)
        passed = not ranks or bool(bernoulli([self.passing(counts, ranks)], rng=source)[0])
        return self.outcome(self._named(counts, ranks) if passed else None), self.cost

    def outcome(self, items: tuple[Item, ...] | None) -> Outcome:
        """Return the outcome in which this list goes out, or nothing does."""
        first = () if self.first is None else ("test",)
        return Outcome(items=items, k=self.k, steps=(*first, "peel", "test"))

    def cliff(self, histogram: OpenHistogram) -> float:
        """Return the probability that the first test passes, if there is one."""
        if self.first is None:
            return 0.0
        return float(self.first.table(self.adjacency.distance(histogram.gaps(self.k)[-1:]))[0])

    def _at_cliff(self, histogram: OpenHistogram) -> Outcome:
        return Outcome(items=frozenset(histogram.top(self.k)), k=self.k, steps=("test", "release"))

    @property
    def draws(self) -> Draws:
        """What draws the list."""
        height = 0 if self.bottom is None else self.adjacency.count_range * (1 + self.bottom)
        return Draws(
            k=self.k,
            max_k=self.max_k,
            epsilon=self.epsilon,
            delta=0.5,  # not used: nothing is excluded by weight
            height=height,
            weight=0 if self.bottom is None else self.bottom_weight,
            adjacency=self.adjacency,
        )

    @property
    def bottom_weight(self) -> int:
        """As how many slots of its count the bottom weighs; a number of k and max_k, tuned on public logs."""
        return max(1, min(int(self.max_k), self.k**2 // 10))

    def passing(self, histogram: OpenHistogram, ranks: Sequence[int]) -> float:
        """Return the probability that a list of these ranks goes out; ranks past the seen items are empty slots."""
        lowest = max(ranks, default=0)  # ranks are by count
        distance = self.distance(int(histogram.counts[lowest] - histogram.counts[self.max_k]))
        return float(self.table(np.array([distance]))[0])

    def distance(self, above: int) -> int:
        """Return the distance to instability of an item so far above the first count left out."""
        return int(self.adjacency.distance(np.array([above]))[0])

    def law(self, histogram: Histogram) -> Law:
        counts = self._require_open(histogram)
        cliff = self.cliff(counts)
        law = {} if self.first is None else {self._at_cliff(counts): cliff}
        for ranks, p in self.draws.law_of_ranks(counts).items():
            passing = self.passing(counts, ranks) if ranks else 1.0
            for outcome, chance in (
                (self.outcome(self._named(counts, ranks)), passing),
                (self.outcome(None), 1 - passing),
            ):
                law[outcome] = law.get(outcome, 0.0) + (1 - cliff) * p * chance
        return law

    def chance(self, histogram: Histogram, k: int) -> float:
        """Return the probability that exactly the top ``k`` go out, in any order; listed from the law if they are fewer."""
        counts = self._require_open(histogram)
        if k == self.k <= len(counts.items):
            cliff = self.cliff(counts)
            return cliff + (1 - cliff) * self.draws.chance(counts, k) * self.passing(counts, range(k))
        top = frozenset(counts.top(k))
        return math.fsum(p for outcome, p in self.law(counts).items() if frozenset(outcome.items or ()) == top)

    def public_parameters(self) -> dict[str, Any]:
        return {
            "k": self.k,
            "max_k": int(self.max_k),
            "first": None if self.first is None else self.first.name,
            "epsilon": self.epsilon,
            "bottom": self.bottom,
        }

    def _require_open(self, histogram: Histogram) -> OpenHistogram:
        """Return the histogram, or raise if its domain is not open or has too few counts."""
        histogram.gaps(self.max_k)
        return require_open(histogram, self.name)

    def _named(self, histogram: OpenHistogram, ranks: Sequence[int]) -> tuple[Item, ...]:
        return tuple(histogram.items[rank] for rank in ranks if rank < len(histogram.items))


@dataclass(frozen=True, slots=True, kw_only=True)
class Draws(LimitedDomain):
    """The draws of Limited Domain among slots, empty ones included, with a bottom that has another place and weight.

    Parameters
    ----------
    height
        How far the bottom is above the first count left out.
    weight
        How many slots of its count it weighs as much as.
    """

    height: int
    weight: int

    @property
    def _margin(self) -> int:
        return self.height

    @property
    def _bottom(self) -> Fraction:
        return Fraction(self.weight)

    def _groups(self, histogram: Histogram) -> Groups:
        counts = require_open(histogram, self.name)
        # Every slot is named by its rank; those past the seen items are empty, with count 0.
        slots = OpenHistogram(items=tuple(range(self.max_k)), counts=counts.counts, max_k=counts.max_k)
        return LimitedDomain._groups(self, slots)  # super() does not see through slots

    def ranks(self, histogram: OpenHistogram, rng: Source) -> tuple[int, ...]:
        """Draw one list of ranks."""
        return tuple(int(str(rank)) for rank in self.sample(histogram, 1, rng=rng)[0])

    def law_of_ranks(self, histogram: OpenHistogram) -> dict[tuple[int, ...], float]:
        """Return the exact law of the list of ranks."""
        return {tuple(int(str(rank)) for rank in ranks): p for ranks, p in self.law_of_lists(histogram).items()}


def _gap_needed(limits: Filter, k: int, max_k: int, share: float) -> float:
    """Return the one-gap number within these limits, in units of the count range and roughly: draws and test pass in turn."""
    epsilon = approximate_step(limits.order, (1 - share) * limits.rdp / k)
    if not (epsilon > 0 and limits.delta > 0):
        return FAILURE
    steps, logits = table_profile(limits.order, share * limits.rdp, limits.delta)
    clear = math.log(_CLEAR / (1 - _CLEAR))
    if logits[-1] < clear:
        return FAILURE
    return float(np.interp(clear, logits, steps)) + (math.log(2 * max_k) + log_odds_needed(k)) / epsilon
