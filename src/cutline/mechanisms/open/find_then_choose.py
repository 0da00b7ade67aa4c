r"""The top k of any log: find candidates by coins on bounded counts, then choose among them by the counts of all users.

On an open domain an item that one user brought must not go out because of that user. Coins on counts whose contributions are
bounded see to that, for little. What they let out is a public list, on which choosing k by the full counts needs no delta: the
bound decides what is found, never how it is ranked.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, ClassVar, Self

import numpy as np

from cutline.arrays import IntArray
from cutline.errors import ParameterError
from cutline.histogram import BoundedHistogram, Histogram, Item, check_bound
from cutline.mechanisms.base import Mechanism, Parameter, check_k, check_listable, declare
from cutline.mechanisms.calibration import INSIDE, spend
from cutline.mechanisms.closed.peeling import PeelingEM
from cutline.mechanisms.open.table_threshold import TableStep, count_needed, describe_step
from cutline.outcome import Law, Outcome
from cutline.privacy import Adjacency, BoundedRange, Budget, Cost, Filter, OneOrder
from cutline.privacy.curves.base import check_order, check_positive
from cutline.rounding import fraction_down, sum_up
from cutline.sampling import Source, Weights, probabilities

# Of each round: its share of the Rényi limit, and of how many candidates for each item wanted it takes to stop and choose with
# all that is left. Delta is split evenly. Tuned on public logs [docs/proofs/find-then-choose.md].
_FOUND = ((0.15, 1.5), (0.35, 1.0), (0.48, 1.0))
_SUCCESS = 0.5  # of the coins of a middling round: long tails have far more items at the edge than above it


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """Coins for all items, and what there is to choose with if enough candidates were found by then.

    Parameters
    ----------
    step
        The coins of this round.
    choosing
        The Rényi limit of choosing after this round, at the mechanism's order.
    enough
        At how many candidates it stops to find more, and chooses; more than k.
    """

    step: TableStep
    choosing: float
    enough: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FindThenChoose(Mechanism):
    r"""The top k of an open domain: candidates found by coins on bounded counts, k of them chosen by full counts.

    In at most three rounds, every item that is not yet a candidate becomes one by a coin on its bounded count, see
    `TableStep`. Once there are enough candidates, k of them are drawn by exponential mechanisms on the counts of all users, or
    those to be dropped are drawn if they are fewer. If no more than k were ever found, all of them go out. Released: the set,
    which steps ran, and how many candidates there were.

    **Privacy.** Every round costs what its coins cost, choosing costs ``n R_BR`` for n draws, without a delta; which of them
    run depends on what is public by then. The price known before is that of the dearest path at ``order``; what is charged is
    the path that ran [docs/proofs/find-then-choose.md].

    Parameters
    ----------
    k
        How many items at most.
    rounds
        The rounds of finding.
    order
        The Rényi order at which all of it is priced.

    Examples
    --------
    >>> from cutline.sampling import SeededSource
    >>> mechanism = FindThenChoose.calibrate(Budget(epsilon=1.0, delta=1e-6), k=20, max_items_per_user=50)
    >>> full = {f"venue {n}": 4000 // (n + 1) for n in range(500)}
    >>> bounded = {venue: count * 2 // 3 for venue, count in full.items()}
    >>> histogram = BoundedHistogram.from_counts(full, bounded, max_items_per_user=50)
    >>> release = mechanism.release(histogram, rng=SeededSource(0))
    >>> release.steps, len(release.items & {f"venue {n}" for n in range(20)})
    (('table', 'table', 'choose 20 of 30'), 17)
    """

    name: ClassVar[str] = "find-then-choose"
    ordered: ClassVar[bool] = False
    domains: ClassVar[tuple[str, ...]] = ("bounded",)
    reference: ClassVar[str] = "HM26"
    cost_rule: ClassVar[str] = "up to three rounds of coins, then up to k bounded-range steps"
    parameters: ClassVar[tuple[Parameter, ...]] = declare("vote_parts", required=("k", "max_items_per_user"))

    k: int
    rounds: tuple[Round, ...]
    order: float

    def __post_init__(self) -> None:
        Mechanism.__post_init__(self)
        object.__setattr__(self, "k", check_k(self.k))
        check_order(self.order)
        if not self.rounds or any(going.enough <= self.k for going in self.rounds):
            raise ParameterError("there must be more candidates than k to choose", f"k={self.k}", "Raise enough.")
        if len({(g.step.max_items_per_user, g.step.start, g.step.parts) for g in self.rounds}) > 1:
            raise ParameterError("all rounds must look at the same counts", "other bounds", "Take one bound.")
        for going in self.rounds:
            check_positive("choosing", going.choosing)

    @classmethod
    def calibrate(
        cls,
        budget: Budget,
        *,
        adjacency: Adjacency = Adjacency.ADD_REMOVE,
        limits: Filter | None = None,
        k: int,
        max_items_per_user: int,
        vote_parts: int = 1,
    ) -> Self:
        r"""Calibrate as `Mechanism.calibrate` says.

        The Rényi order and the share of delta minimise the count at which a middling round finds an item half of the time.
        ``vote_parts`` is 1, or 8 for counts of weighted votes.
        """
        k, bound, adjacency = check_k(k), check_bound(max_items_per_user), Adjacency(adjacency)
        middling = _FOUND[len(_FOUND) // 2][0]

        def build(limits: Filter, kind: type[Self] = cls) -> Self:
            rounds = build_rounds(limits, k=k, max_items_per_user=bound, adjacency=adjacency, vote_parts=vote_parts)
            return kind(k=k, rounds=rounds, order=limits.order, adjacency=adjacency, budget=budget)

        def needed(limits: Filter) -> float:
            part = Filter(order=limits.order, rdp=middling * limits.rdp, delta=limits.delta / len(_FOUND))
            return count_needed(part, max_items_per_user=bound, adjacency=adjacency, success=_SUCCESS)

        return spend(budget, limits, needed=needed, build=build)

    @property
    def cost(self) -> Cost:
        """The dearest path at ``order``: the coins so far and choosing, after whichever round; all coins' delta."""
        tables = Cost(adjacency=self.adjacency)
        paths = []
        for going in self.rounds:
            tables += going.step.cost(self.adjacency)
            paths.append(sum_up([(1, tables.rdp(self.order)), (1, going.choosing)]))
        bound = OneOrder(order=self.order, bound=max(paths))
        return Cost.of(bound, adjacency=self.adjacency, delta=tables.delta)

    def check_domain(self, histogram: Histogram) -> BoundedHistogram:
        return self.rounds[0].step.check(histogram, self.name)

    def run(self, histogram: Histogram, source: Source) -> tuple[Outcome, Cost]:
        bounded = self.check_domain(histogram)
        cost = Cost(adjacency=self.adjacency)
        found: set[int] = set()
        for number, going in enumerate(self.rounds, 1):
            cost += going.step.cost(self.adjacency)
            found.update(going.step.draw(bounded, source).tolist())
            if len(found) >= going.enough:
                choice = self.choice(going, len(found))
                items = choice.draw(bounded, sorted(found), source)
                return self.outcome(number, items, choice), cost + choice.cost
        return self.outcome(len(self.rounds), bounded.named(sorted(found)), None), cost

    def choice(self, going: Round, candidates: int) -> Choice:
        """Return how k of that many candidates are chosen after this round; a function of public numbers."""
        return Choice.within(
            going.choosing, order=self.order, k=self.k, candidates=candidates, adjacency=self.adjacency
        )

    def outcome(self, rounds: int, items: Iterable[Item], choice: Choice | None) -> Outcome:
        """Return the outcome in which these items go out after so many rounds of finding."""
        chosen = () if choice is None else (f"choose {choice.k} of {choice.candidates}",)
        return Outcome(items=frozenset(items), k=self.k, steps=("table",) * rounds + chosen)

    def law(self, histogram: Histogram) -> Law:
        bounded = self.check_domain(histogram)
        names = bounded.named(range(len(bounded.items)))
        full = bounded.full_counts(range(len(names)))
        law: dict[Outcome, float] = {}
        for number, ended in self.law_of_candidates(bounded):
            choices = {} if number is None else self.law_of_choices(self.rounds[number - 1], list(ended), full)
            for candidates, p in ended.items():
                if number is None:
                    outcome = self.outcome(len(self.rounds), (names[r] for r in candidates), None)
                    law[outcome] = law.get(outcome, 0.0) + p
                    continue
                choice = self.choice(self.rounds[number - 1], len(candidates))
                for ranks, chance in choices[candidates].items():
                    outcome = self.outcome(number, (names[r] for r in ranks), choice)
                    law[outcome] = law.get(outcome, 0.0) + p * chance
        return law

    def law_of_candidates(self, histogram: BoundedHistogram) -> list[tuple[int | None, dict[frozenset[int], float]]]:
        """Return the law of the candidates' ranks by the round after which they are chosen from; None if all go out."""
        going_on: dict[frozenset[int], float] = {frozenset(): 1.0}
        ended: list[tuple[int | None, dict[frozenset[int], float]]] = []
        for number, going in enumerate(self.rounds, 1):
            found = going.step.law(histogram)
            check_listable(len(found) * len(going_on), f"k={self.k}")
            united: dict[frozenset[int], float] = {}
            for before, p in going_on.items():
                for new, chance in found.items():
                    both = before | new
                    united[both] = united.get(both, 0.0) + p * chance
            enough = {ranks: p for ranks, p in united.items() if len(ranks) >= going.enough}
            ended.append((number, enough))
            going_on = {ranks: p for ranks, p in united.items() if ranks not in enough}
        return [*ended, (None, going_on)]

    def law_of_choices(
        self, going: Round, sets: list[frozenset[int]], full: IntArray
    ) -> dict[frozenset[int], dict[frozenset[int], float]]:
        """Return, for each set of candidates, the law of the k that are chosen of it."""
        laws: dict[frozenset[int], dict[frozenset[int], float]] = {}
        for size in sorted({len(ranks) for ranks in sets}):
            alike = [tuple(sorted(ranks)) for ranks in sets if len(ranks) == size]
            for ranks, law in zip(alike, self.choice(going, size).laws(full[np.array(alike)]), strict=True):
                laws[frozenset(ranks)] = {frozenset(ranks[place] for place in places): p for places, p in law.items()}
        return laws

    def chance(self, histogram: Histogram, k: int) -> float:
        """Return the probability that exactly the ``k`` items of the largest full counts go out; listed from the law."""
        bounded = self.check_domain(histogram)
        everything = bounded.chosen(range(len(bounded.items)))
        wanted = frozenset(everything.top(k))
        if everything.size <= self.k:  # whatever is found goes out
            missed = np.ones(everything.size)
            for going in self.rounds:
                missed *= 1 - going.step.chances(np.repeat(bounded.values, bounded.multiplicities))
            inside = np.array([item in wanted for item in bounded.items], dtype=np.bool_)
            return float(np.prod(1 - missed[inside]) * np.prod(missed[~inside]))
        return math.fsum(p for outcome, p in self.law(bounded).items() if outcome.items == wanted)

    def public_parameters(self) -> dict[str, Any]:
        return {"k": self.k, **describe_step(self.rounds[0].step), "rounds": len(self.rounds), "order": self.order}


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Choosing k of a public list of candidates: as many draws of the best, or of the worst to be dropped if they are fewer."""

    peels: PeelingEM
    k: int
    candidates: int

    @classmethod
    def within(cls, rdp: float, *, order: float, k: int, candidates: int, adjacency: Adjacency) -> Self:
        """Return the choice of k of so many candidates, more than k, that costs ``rdp`` at ``order``."""
        draws = min(k, candidates - k)
        peels = PeelingEM(k=draws, epsilon=_draw_epsilon(order, rdp, draws), adjacency=adjacency)
        return cls(peels=peels, k=k, candidates=candidates)

    @property
    def drops(self) -> bool:
        """Whether the worst are drawn."""
        return self.peels.k < self.k

    @property
    def cost(self) -> Cost:
        """The cost of the draws."""
        return self.peels.cost

    def draw(self, histogram: BoundedHistogram, ranks: Sequence[int], rng: Source) -> frozenset[Item]:
        """Draw k of the items at these ranks, by their full counts."""
        public = histogram.chosen(ranks)
        drawn = self.peels.run(public.upside_down() if self.drops else public, rng)[0].items
        items = frozenset(drawn or ())
        return frozenset(public.items) - items if self.drops else items

    def laws(self, counts: IntArray) -> list[dict[frozenset[int], float]]:
        """Return, for rows of the candidates' full counts, the exact law of the set of places that is chosen."""
        rows, size = counts.shape
        scores = -counts if self.drops else counts
        every = frozenset(range(size))
        reached: dict[frozenset[int], Any] = {frozenset(): np.ones(rows)}  # sets drawn so far, and their chances by row
        for _ in range(self.peels.k):
            after: dict[frozenset[int], Any] = {}
            for drawn, p in reached.items():
                left = np.array([place not in drawn for place in range(size)], dtype=np.int64)
                weights = Weights(scores=scores, rate=self.peels.rate, multiplicities=np.tile(left, (rows, 1)))
                chances = probabilities(weights)
                for place in every - drawn:
                    both = drawn | {place}
                    after[both] = after.get(both, 0.0) + p * chances[:, place]
            reached = after
        chosen = {(every - drawn if self.drops else drawn): p for drawn, p in reached.items()}
        return [{places: float(p[row]) for places, p in chosen.items()} for row in range(rows)]


def build_rounds(
    limits: Filter, *, k: int, max_items_per_user: int, adjacency: Adjacency, vote_parts: int = 1
) -> tuple[Round, ...]:
    """Return the rounds within the limits of one release; choosing gets what the coins before it left."""
    rounds: list[Round] = []
    spent = Cost(adjacency=adjacency)
    for share, candidates in _FOUND:
        part = Filter(
            order=limits.order,
            rdp=fraction_down(Fraction(share) * Fraction(limits.rdp)),
            delta=fraction_down(Fraction(limits.delta) / len(_FOUND)),
        )
        step = TableStep.within(part, max_items_per_user=max_items_per_user, adjacency=adjacency, vote_parts=vote_parts)
        spent += step.cost(adjacency)
        left = fraction_down((Fraction(limits.rdp) - Fraction(spent.rdp(limits.order))) * Fraction(INSIDE))
        rounds.append(Round(step=step, choosing=left, enough=max(math.ceil(candidates * k), k + 1)))
    return tuple(rounds)


@lru_cache(maxsize=4096)
def _draw_epsilon(order: float, rdp: float, draws: int) -> float:
    """Return the epsilon of one of so many draws that cost ``rdp`` together."""
    return BoundedRange.within(order=order, rdp=fraction_down(Fraction(rdp) / draws * Fraction(INSIDE))).epsilon
