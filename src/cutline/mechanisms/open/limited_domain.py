r"""The top of an open domain in order: exponential mechanisms over the seen items and a bottom element that ends the list."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from cutline.arrays import FloatArray, IntArray
from cutline.errors import BudgetError, DomainError
from cutline.histogram import Histogram, Item, OpenHistogram
from cutline.mechanisms.base import Mechanism, Parameter, check_k, check_listable, check_window, declare, resolve_max_k
from cutline.mechanisms.calibration import INSIDE, approximate_step, log_odds_needed, spend
from cutline.outcome import Law, Outcome
from cutline.privacy import Adjacency, BoundedRange, Budget, Cost, Filter, LimitedDomainDraws
from cutline.rounding import fraction_down
from cutline.sampling import Source, Weights, categorical, integers_below, probabilities, resolve

_TRAPEZOID = 1 / 8
_LEFT, _RIGHT = -60.0, 12.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitedDomain(Mechanism):
    r"""The top items of an open domain, at most k of them, in the order drawn.

    Candidates are the seen items among the top ``max_k``, and a bottom element. k times an item is drawn without replacement
    with probability proportional to ``exp(epsilon * count / c)``, c = 1 (ADD_REMOVE) or 2 (REPLACE); the bottom has the count
    ``h_(max_k+1) + c`` and ``max_k / delta`` times the weight, and drawing it ends the list. This is the law of adding
    Gumbel noise of scale c/epsilon once to all, and listing what beats the bottom.

    **Privacy.** ``k R_BR(a, epsilon) + (k + a/(a-1)) ln(1 + delta)`` outside probability ``delta / (1 + delta)``
    [DR19, Algorithm 1; docs/proofs/limited-domain.md].

    Parameters
    ----------
    k
        How many items at most.
    max_k
        How many ranks may be candidates; public, at least k.
    epsilon
        Of one draw.
    delta
        How little all items that only one neighbour has may weigh beside the bottom.

    Examples
    --------
    >>> from cutline.sampling import SeededSource
    >>> mechanism = LimitedDomain.calibrate(Budget(epsilon=1.0, delta=1e-6), k=3, max_k=20)
    >>> counts = OpenHistogram.from_counts({"a": 340, "b": 270, "c": 200, "d": 12, "e": 11}, max_k=20)
    >>> mechanism.release(counts, rng=SeededSource(0)).items
    ('a', 'b', 'c')
    """

    name: ClassVar[str] = "limited-domain"
    ordered: ClassVar[bool] = True
    domains: ClassVar[tuple[str, ...]] = ("open",)
    reference: ClassVar[str] = "DR19"
    cost_rule: ClassVar[str] = "k bounded-range steps + delta"
    parameters: ClassVar[tuple[Parameter, ...]] = declare("max_k", required=("k",))

    k: int
    max_k: int
    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        Mechanism.__post_init__(self)
        object.__setattr__(self, "k", check_k(self.k))
        check_window(self.k, self.max_k)
        self._draws()  # checks epsilon and delta

    @classmethod
    def calibrate(
        cls,
        budget: Budget,
        *,
        adjacency: Adjacency = Adjacency.ADD_REMOVE,
        limits: Filter | None = None,
        k: int,
        max_k: int | None = None,
    ) -> Self:
        r"""Calibrate as `Mechanism.calibrate` says.

        The Rényi order and the share of delta minimise the one-gap number: how far k equal counts must stand above all others
        so that exactly they come out with probability 0.9. It is ``c + c (ln(max_k / delta) + const(k)) / epsilon``.
        By default ``max_k`` is ``max(100, 10 k)``.
        """
        ranks = resolve_max_k(k, max_k)
        adjacency = Adjacency(adjacency)
        found = spend(
            budget,
            limits,
            needed=lambda limits: gap_needed(limits, k=k, max_k=ranks),
            build=lambda limits: cls.within(limits, k=k, max_k=ranks, adjacency=adjacency),
        )
        return replace(found, budget=budget)

    @classmethod
    def within(cls, limits: Filter, *, k: int, max_k: int, adjacency: Adjacency) -> Self:
        """Build the mechanism whose one release spends these limits."""
        outside = Fraction(limits.delta) * Fraction(INSIDE)
        delta = fraction_down(outside / (1 - outside))
        left = limits.rdp - _toll(limits.order, k, delta)
        if not (left > 0 and delta > 0):
            raise BudgetError(
                "the limits must leave something to draw with",
                f"rdp={limits.rdp:.3g}, delta={limits.delta:.3g}, k={k}",
                "Raise epsilon, or lower k.",
            )
        step = BoundedRange.within(order=limits.order, rdp=left / k * INSIDE)
        return cls(k=k, max_k=max_k, epsilon=step.epsilon, delta=delta, adjacency=adjacency)

    def after(self, prefix: int, *, epsilon: float) -> Self:
        """Return the mechanism that completes a released prefix of that size on the remaining items."""
        return replace(self, k=self.k - prefix, max_k=self.max_k - prefix, epsilon=epsilon)

    @property
    def cost(self) -> Cost:
        """The cost of one release; the same whatever comes out."""
        draws = self._draws()
        return Cost.of(draws, adjacency=self.adjacency, delta=draws.outside)

    def _draws(self) -> LimitedDomainDraws:
        return LimitedDomainDraws(k=self.k, epsilon=self.epsilon, delta=self.delta)

    def run(self, histogram: Histogram, source: Source) -> tuple[Outcome, Cost]:
        return self.outcome(self.sample(histogram, 1, rng=source)[0]), self.cost

    def outcome(self, items: tuple[Item, ...]) -> Outcome:
        """Return the outcome in which this list goes out."""
        return Outcome(items=items, k=self.k, steps=(self.name,))

    def sample(self, histogram: Histogram, runs: int, *, rng: Source | None = None) -> list[tuple[Item, ...]]:
        """Draw ``runs`` independent lists; for simulations, since each run is a release of its own."""
        source = resolve(rng)
        groups = self._groups(histogram)
        scores = np.broadcast_to(groups.scores, (runs, len(groups.scores)))
        left = np.tile(groups.members, (runs, 1))
        live = np.arange(runs)
        taken: list[list[int]] = [[] for _ in range(runs)]  # the ranks each run has drawn, in order
        for _ in range(self.k):
            weights = Weights(scores=scores[live], rate=self._rate, multiplicities=left[live])
            drawn = categorical(weights, rng=source)
            going = drawn < len(groups.starts)
            live, drawn = live[going], drawn[going]
            if live.size == 0:
                break
            places = integers_below(left[live, drawn].astype(np.int64), rng=source)
            for row, group, place in zip(live.tolist(), drawn.tolist(), places.tolist(), strict=True):
                _take(taken[row], groups.starts[group], place)
            left[live, drawn] -= 1
        return [groups.named(ranks) for ranks in taken]

    def law(self, histogram: Histogram) -> Law:
        return {self.outcome(items): chance for items, chance in self.law_of_lists(histogram).items()}

    def law_of_lists(self, histogram: Histogram) -> dict[tuple[Item, ...], float]:
        """Return the exact probability of every list, to a relative 1e-12."""
        groups = self._groups(histogram)
        candidates = len(groups.items)
        outcomes = sum(math.perm(candidates, n) for n in range(min(self.k, candidates) + 1))
        check_listable(outcomes, f"k={self.k}, max_k={self.max_k}")
        chances = self._chances(groups)
        law: dict[tuple[Item, ...], float] = {}
        level: list[tuple[tuple[int, ...], float]] = [((), 1.0)]  # ranks drawn so far, and their chance
        for _ in range(self.k):
            after = []
            for ranks, p in level:
                stop, each = chances[groups.used(ranks)]
                law[groups.named(ranks)] = p * stop
                after += [((*ranks, r), p * each[groups.group_of[r]]) for r in range(candidates) if r not in ranks]
            level = after
        return law | {groups.named(ranks): p for ranks, p in level}

    def _chances(self, groups: Groups) -> dict[tuple[int, ...], tuple[float, list[float]]]:
        """Return, for each state (members used per group), the chance of the bottom and of one member of each group."""
        sizes = groups.members[:-1].tolist()
        states: list[tuple[int, ...]] = [()]
        for size in sizes:
            states = [(*s, n) for s in states for n in range(min(size, self.k - 1 - sum(s)) + 1)]
        left = groups.members - np.array([(*s, 0) for s in states], dtype=object)
        scores = np.broadcast_to(groups.scores, left.shape)
        chances = probabilities(Weights(scores=scores, rate=self._rate, multiplicities=left))
        each = chances[:, :-1] / np.maximum(left[:, :-1].astype(np.float64), 1.0)
        stops = chances[:, -1].tolist()
        return {state: (stop, row) for state, stop, row in zip(states, stops, each.tolist(), strict=True)}

    def chance(self, histogram: Histogram, k: int) -> float:
        r"""Return the probability that exactly the top ``k`` go out, in any order.

        With exponential clocks of rate w_i, all of a set S ring before any other: the integral of
        ``W e^{-W t} prod over S of (1 - e^{-w_i t})`` with W the weight of the others; in ln t the trapezoidal rule
        converges exponentially.
        """
        groups = self._groups(histogram)
        size = min(k, len(histogram.items))  # past the last item, the top set is all of them
        if size > self.k:
            return 0.0
        rate = float(self._rate)
        counts = np.repeat(groups.scores[:-1], groups.members[:-1].astype(np.int64)).astype(np.float64)
        bottom = rate * float(groups.scores[-1]) + (math.log(self._bottom) if self._bottom else -math.inf)
        others = np.append(rate * counts[size:], bottom)
        total = float(np.logaddexp.reduce(others))
        chance = all_before(rate * counts[:size] - total)
        # A shorter list than k ends with the bottom.
        return chance if size == self.k else chance * math.exp(bottom - total)

    def public_parameters(self) -> dict[str, Any]:
        return {"k": self.k, "max_k": int(self.max_k), "epsilon": self.epsilon, "delta": self.delta}

    @property
    def _rate(self) -> Fraction:
        return Fraction(self.epsilon) / self.adjacency.count_range

    @property
    def _margin(self) -> int:
        """How far above ``h_(max_k+1)`` an item that only one neighbour has can be."""
        return self.adjacency.count_range

    @property
    def _bottom(self) -> Fraction:
        """How many times the weight of one item of its score the bottom has."""
        return Fraction(int(self.max_k)) / Fraction(self.delta)

    def _groups(self, histogram: Histogram) -> Groups:
        """Return the candidates as groups of equal counts, the bottom last."""
        histogram = require_open(histogram, self.name)
        histogram.gaps(self.max_k)  # refuses a histogram counted with a smaller max_k
        items = histogram.top(self.max_k)
        counts = histogram.counts[: len(items)]
        values, sizes = np.unique(counts, return_counts=True)
        return Groups(
            items=items,
            scores=np.append(values[::-1], histogram.counts[self.max_k] + self._margin),
            members=np.array([*sizes[::-1].tolist(), self._bottom], dtype=object),
            starts=(np.cumsum(sizes[::-1]) - sizes[::-1]).tolist(),
            group_of=np.repeat(np.arange(len(sizes)), sizes[::-1]).tolist(),
        )


@dataclass(frozen=True, slots=True, kw_only=True, repr=False, eq=False)
class Groups:
    """Candidates by rank in groups of equal counts; scores and members have one more entry, the bottom's."""

    items: tuple[Item, ...]
    scores: IntArray
    members: npt.NDArray[Any]
    starts: list[int]
    group_of: list[int]

    def used(self, ranks: tuple[int, ...]) -> tuple[int, ...]:
        """Return how many members of each group these ranks are."""
        used = [0] * len(self.starts)
        for rank in ranks:
            used[self.group_of[rank]] += 1
        return tuple(used)

    def named(self, ranks: Sequence[int]) -> tuple[Item, ...]:
        return tuple(self.items[rank] for rank in ranks)


def require_open(histogram: Histogram, name: str) -> OpenHistogram:
    """Return the histogram, or raise if its domain is closed; ``name`` is the mechanism's."""
    if isinstance(histogram, OpenHistogram):
        return histogram
    raise DomainError(
        f"{name} works on a domain that is open",
        "a domain that is closed",
        "Leave the candidates out, or use peeling-em.",
    )


def _take(ranks: list[int], start: int, place: int) -> None:
    """Add the member at this place among those left in the group that starts at this rank."""
    rank = start + place
    for taken in sorted(r for r in ranks if r >= start):
        rank += taken <= rank
    ranks.append(rank)


def _toll(order: float, k: int, delta: float) -> float:
    """Return what the bottom's finite weight adds to the draws' curve."""
    return (k + order / (order - 1)) * math.log1p(delta)


def gap_needed(limits: Filter, *, k: int, max_k: int) -> float:
    """Return the one-gap number within these limits, in units of the count range and without its constant 1."""
    delta = limits.delta / (1 - limits.delta)
    epsilon = approximate_step(limits.order, (limits.rdp - _toll(limits.order, k, delta)) / k)
    return (math.log(max_k / delta) + log_odds_needed(k)) / epsilon if epsilon > 0 else math.inf


def all_before(logs: FloatArray) -> float:
    r"""Return the chance that exponential clocks with rates ``e^logs`` all ring before one of rate 1.

    Examples
    --------
    >>> f"{all_before(np.log(np.array([2.0, 3.0]))):.12f}", f"{2 / 6 * 3 / 4 + 3 / 6 * 2 / 3:.12f}"
    ('0.583333333333', '0.583333333333')
    """
    x = np.arange(_LEFT, _RIGHT, _TRAPEZOID)
    rates, times = np.unique(logs, return_counts=True)
    with np.errstate(over="ignore", under="ignore", divide="ignore"):
        terms = x - np.exp(x)
        for log_rate, n in zip(rates.tolist(), times.tolist(), strict=True):
            terms = terms + n * np.log(-np.expm1(-np.exp(np.minimum(x + log_rate, 700.0))))
        return min(1.0, float(np.exp(terms).sum()) * _TRAPEZOID)
