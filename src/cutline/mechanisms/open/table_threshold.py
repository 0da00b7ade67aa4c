r"""Which items have many users: a coin for each item, whose bias grows with a count that one person can move in few places."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from typing import Any, ClassVar, Self

import numpy as np

from cutline.arrays import FloatArray, IntArray
from cutline.errors import DomainError, ParameterError, shortened
from cutline.histogram import BoundedHistogram, Histogram, check_bound
from cutline.mechanisms.adaptive.stable_top_k_calibration import table_profile
from cutline.mechanisms.base import Mechanism, Parameter, check_listable, declare
from cutline.mechanisms.calibration import FAILURE, INSIDE, SUCCESS, spend
from cutline.outcome import Law, Outcome
from cutline.privacy import Adjacency, BitTable, Budget, Cost, Filter, Use, WeightedTable
from cutline.privacy.curves.base import check_whole
from cutline.rounding import fraction_down
from cutline.sampling import Source
from cutline.sampling.coins import Coins

_CHUNK = 1 << 20  # items whose coins are tossed at a time


@dataclass(frozen=True, slots=True, kw_only=True)
class TableStep:
    r"""Every item goes out independently with probability ``table(h - start)``, h its bounded count; never below ``start``.

    **Privacy.** One user moves at most D = ``max_items_per_user`` bounded counts (REPLACE: that many down and that many up).
    With probability at most ``D table(0)`` an item goes out that only one neighbour could show; besides, each moved coin costs
    what the table costs, and there are at most D of them (REPLACE: 2 D) [docs/proofs/table-threshold.md; HM26].

    Parameters
    ----------
    table
        A stability table: its first value is the chance of an item that has just reached ``start``. A weighted one is for
        counts in parts of a vote.
    max_items_per_user
        In how many items one user counts at most.
    start
        The smallest count that can go out, in parts of a vote; public.
    """

    table: BitTable | WeightedTable
    max_items_per_user: int
    start: int = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "max_items_per_user", check_bound(self.max_items_per_user))
        object.__setattr__(self, "start", check_whole("start", self.start, "Try start=1."))
        if self.table.start != 0:
            raise ParameterError(
                "a stability table starts at 0", f"start={self.table.start}", "Use BitTable.stability."
            )

    @classmethod
    def within(cls, limits: Filter, *, max_items_per_user: int, adjacency: Adjacency, vote_parts: int = 1) -> Self:
        """Return the step that spends these limits at their order; both are split evenly among the items, rounded down."""
        bound = check_bound(max_items_per_user)
        rdp = fraction_down(Fraction(limits.rdp) / moved(bound, adjacency) * Fraction(INSIDE))
        delta = fraction_down(Fraction(limits.delta) / bound)
        table: BitTable | WeightedTable = (
            BitTable.stability(order=limits.order, rdp=rdp, delta=delta)
            if check_parts(vote_parts) == 1
            else WeightedTable.stability(order=limits.order, rdp=rdp, delta=delta, parts=vote_parts)
        )
        return cls(table=table, max_items_per_user=bound)

    @property
    def parts(self) -> int:
        """In how many parts a vote is counted."""
        return self.table.parts if isinstance(self.table, WeightedTable) else 1

    @property
    def outside(self) -> float:
        """The chance of an item that one whole vote brought above the start."""
        return self.table.outside if isinstance(self.table, WeightedTable) else self.table.values[0]

    def cost(self, adjacency: Adjacency) -> Cost:
        """Return the cost of one round of coins."""
        bound, rest = self.max_items_per_user, moved(self.max_items_per_user, adjacency) - self.max_items_per_user
        uses = [Use(curve=self.table, delta=self.outside, times=bound)]
        uses += [Use(curve=self.table, times=rest)] if rest else []  # REPLACE: items that fall
        return Cost(adjacency=adjacency, uses=tuple(uses))

    def check(self, histogram: Histogram, name: str) -> BoundedHistogram:
        """Return the histogram if it was counted for this step; all of that is public."""
        if not isinstance(histogram, BoundedHistogram):
            raise DomainError(
                f"{name} works on counts with a bound on items per user",
                "counts without one",
                "Pass max_items_per_user.",
            )
        asked = {"max_items_per_user": self.max_items_per_user, "start": self.start, "parts": self.parts}
        given = {key: getattr(histogram, key) for key in asked}
        more = any(given[key] > asked[key] for key in ("max_items_per_user", "start"))
        if more or given["parts"] != self.parts:
            raise DomainError(
                f"{name} must be given counts with its own bound", f"{given}, made for {asked}", "Count again."
            )
        return histogram

    def chances(self, counts: IntArray) -> FloatArray:
        """Return the probability of going out at each bounded count."""
        return np.where(counts >= self.start, self.table(counts - self.start), 0.0)

    def draw(self, histogram: BoundedHistogram, rng: Source) -> IntArray:
        """Toss the coins; return the ranks of the items that go out."""
        reach = int(np.searchsorted(-histogram.values, -self.start, side="right"))  # groups from `start` up
        ends = np.cumsum(histogram.multiplicities[:reach])
        coins = Coins.of_floats(self.table.values)
        entries = np.minimum(histogram.values[:reach] - self.start, len(self.table.values) - 1)
        found = []
        for first in range(0, int(ends[-1]) if reach else 0, _CHUNK):
            ranks = np.arange(first, min(first + _CHUNK, int(ends[-1])))
            tossed = coins.toss(entries[np.searchsorted(ends, ranks, side="right")], rng=rng)
            found.append(ranks[tossed])
        return np.concatenate(found) if found else np.empty(0, dtype=np.int64)

    def law(self, histogram: BoundedHistogram) -> dict[frozenset[int], float]:
        """Return the exact probability of every set of ranks."""
        chances = self.chances(np.repeat(histogram.values, histogram.multiplicities)).tolist()
        live = [rank for rank, p in enumerate(chances) if p > 0]
        check_listable(2 ** min(len(live), 64), f"start={self.start}")
        sets = (frozenset(ranks) for size in range(len(live) + 1) for ranks in combinations(live, size))
        return {ranks: math.prod(chances[r] if r in ranks else 1 - chances[r] for r in live) for ranks in sets}


@dataclass(frozen=True, slots=True, kw_only=True)
class TableThreshold(Mechanism):
    r"""The items that have many users: a set of any size, without a k.

    Each user counts in at most ``max_items_per_user`` items; every item then goes out by a coin of its own, whose bias rises
    from almost 0 to almost 1 as steeply as the budget allows.

    **Privacy.** That of its coins, see `TableStep` [HM26; docs/proofs/table-threshold.md].

    Parameters
    ----------
    step
        The coins.

    Examples
    --------
    >>> from cutline.sampling import SeededSource
    >>> mechanism = TableThreshold.calibrate(Budget(epsilon=1.0, delta=1e-6), max_items_per_user=10)
    >>> counts = {"castle": 340, "harbour": 170, "museum": 120, "kiosk": 12, "garage": 1}
    >>> histogram = BoundedHistogram.from_counts(counts, counts, max_items_per_user=10)
    >>> mechanism.release(histogram, rng=SeededSource(0)).listed()
    ['castle', 'harbour', 'museum']
    >>> mechanism.count_found(0.5), mechanism.count_found(0.9)
    (52, 67)
    """

    name: ClassVar[str] = "table-threshold"
    ordered: ClassVar[bool] = False
    domains: ClassVar[tuple[str, ...]] = ("bounded",)
    reference: ClassVar[str] = "HM26"
    cost_rule: ClassVar[str] = "a coin for each item that one user may move"
    parameters: ClassVar[tuple[Parameter, ...]] = declare("vote_parts", required=("max_items_per_user",))

    step: TableStep

    @classmethod
    def calibrate(
        cls,
        budget: Budget,
        *,
        adjacency: Adjacency = Adjacency.ADD_REMOVE,
        limits: Filter | None = None,
        max_items_per_user: int,
        vote_parts: int = 1,
    ) -> Self:
        r"""Calibrate as `Mechanism.calibrate` says.

        The Rényi order and the share of delta minimise the count at which an item goes out nine times in ten. ``vote_parts`` is
        1, or 8 for counts of weighted votes.
        """
        bound, adjacency = check_bound(max_items_per_user), Adjacency(adjacency)

        def build(limits: Filter, kind: type[Self] = cls) -> Self:
            step = TableStep.within(limits, max_items_per_user=bound, adjacency=adjacency, vote_parts=vote_parts)
            return kind(step=step, adjacency=adjacency, budget=budget)

        return spend(
            budget,
            limits,
            needed=lambda limits: count_needed(limits, max_items_per_user=bound, adjacency=adjacency),
            build=build,
        )

    @property
    def cost(self) -> Cost:
        """The cost of one release; the same whatever comes out."""
        return self.step.cost(self.adjacency)

    def count_found(self, success: float) -> int | None:
        """Return the smallest bounded count, in whole votes, that goes out with this probability; None if none does."""
        values = self.step.table.values
        above = next((n for n, p in enumerate(values) if p >= success), None)
        return None if above is None else math.ceil((self.step.start + above) / self.step.parts)

    def check_domain(self, histogram: Histogram) -> BoundedHistogram:
        return self.step.check(histogram, self.name)

    def run(self, histogram: Histogram, source: Source) -> tuple[Outcome, Cost]:
        bounded = self.check_domain(histogram)
        ranks = self.step.draw(bounded, source).tolist()
        return self._outcome(bounded, ranks), self.cost

    def _outcome(self, histogram: BoundedHistogram, ranks: list[int]) -> Outcome:
        return Outcome(items=frozenset(histogram.named(ranks)), steps=("table",))

    def law(self, histogram: Histogram) -> Law:
        bounded = self.check_domain(histogram)
        return {self._outcome(bounded, sorted(ranks)): p for ranks, p in self.step.law(bounded).items()}

    def chance(self, histogram: Histogram, k: int) -> float:
        """Return the probability that exactly the items of the ``k`` largest bounded counts go out."""
        bounded = self.check_domain(histogram)
        chances = self.step.chances(np.repeat(bounded.values, bounded.multiplicities))
        return float(np.prod(chances[:k]) * np.prod(1 - chances[k:]))

    def public_parameters(self) -> dict[str, Any]:
        return describe_step(self.step)


def describe_step(step: TableStep) -> dict[str, Any]:
    """Return what is public of a step beside its table, as plain data."""
    usual = {"start": 1, "vote_parts": 1}
    others = {"start": step.start, "vote_parts": step.parts}
    unusual = {name: value for name, value in others.items() if value != usual[name]}
    return {"max_items_per_user": step.max_items_per_user, **unusual}


def check_parts(vote_parts: object) -> int:
    """Return in how many parts a vote is counted; raise if it is neither 1 nor 8."""
    parts = check_whole("vote_parts", vote_parts, "Leave it out, or take 8.")
    if parts not in (1, 8):
        raise ParameterError("vote_parts must be 1 or 8", f"vote_parts={shortened(parts)}", "Leave it out, or take 8.")
    return parts


def moved(max_items_per_user: int, adjacency: Adjacency) -> int:
    """Return how many bounded counts one person can move: under REPLACE some fall and as many others rise."""
    return max_items_per_user if adjacency is Adjacency.ADD_REMOVE else 2 * max_items_per_user


def count_needed(limits: Filter, *, max_items_per_user: int, adjacency: Adjacency, success: float = SUCCESS) -> float:
    """Return, in plain floats, the count at which an item goes out with this probability within these limits."""
    rdp, delta = limits.rdp / moved(max_items_per_user, adjacency), limits.delta / max_items_per_user
    if not (rdp > 0 and delta > 0):
        return FAILURE
    steps, logits = table_profile(limits.order, rdp, delta)
    wanted = math.log(success / (1 - success))
    return float(np.interp(wanted, logits, steps)) if logits[-1] >= wanted else FAILURE
