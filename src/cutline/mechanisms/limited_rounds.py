r"""Limited Domain that pays for what it gets: draws left when the bottom ends a list buy a second list with less noise.

Limited Domain asked for 50 items stops at the bottom after three, say, and has paid for 50 draws. Here the 46 draws that were
never made are pooled into 23 of a larger epsilon, on the items not yet listed; and so on until all is spent or found.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from typing import Any, ClassVar, Self

from cutline.histogram import Histogram, Item
from cutline.mechanisms.cuts import without
from cutline.mechanisms.fixed_k_calibration import stretched
from cutline.mechanisms.limited_domain import LimitedDomain
from cutline.privacy import Adjacency, Budget, Cost, Filter
from cutline.privacy.curves import check_positive
from cutline.privacy.rounding import fraction_down
from cutline.release import Law, Release
from cutline.sampling import Source, resolve


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitedRounds:
    r"""The top items of an open domain, at most k of them, in the order drawn, in rounds of falling noise.

    The first round is `LimitedDomain` with k draws. If its bottom ends the list with draws left, half as many draws (rounded
    up) with the epsilon that costs the same are the next round, on what was not listed yet. Each round has half of the delta
    that is left, the last one all of it.

    **Privacy.** That of `LimitedDomain` with the same parameters: along every path the draws made cost at most k draws
    of epsilon, and the rounds' bottoms outweigh one-sided items by 1/delta together [DR19; docs/proofs/limited-rounds.md].

    Parameters
    ----------
    k
        How many items at most, and how many draws of ``epsilon`` are paid for.
    max_k
        How many ranks may be candidates; public, at least k.
    epsilon
        Of one draw of the first round.
    delta
        How little all items that only one neighbour has may weigh beside the bottoms of all rounds.
    adjacency
        Who is protected.
    budget
        What the mechanism was calibrated for, if it was.

    References
    ----------
    [DR19] Algorithm 1 and its pay-what-you-get composition; [SPEC] section 2.7.

    Examples
    --------
    >>> from cutline.histogram import OpenHistogram
    >>> from cutline.sampling import SeededSource
    >>> counts = OpenHistogram.from_counts({i: 2000 // (i + 1) for i in range(300)}, max_k=200)
    >>> budget = Budget(epsilon=1.0, delta=1e-6)
    >>> in_rounds = LimitedRounds.calibrate(budget, k=20).release(counts, rng=SeededSource(0)).items
    >>> in_one = LimitedDomain.calibrate(budget, k=20).release(counts, rng=SeededSource(0)).items
    >>> len(in_rounds), len(in_one)
    (12, 9)
    """

    name: ClassVar[str] = "limited-rounds"
    ordered: ClassVar[bool] = True
    domains: ClassVar[tuple[str, ...]] = ("open",)
    reference: ClassVar[str] = "DR19"
    cost_rule: ClassVar[str] = "k bounded-range steps + delta"
    variants: ClassVar[tuple[dict[str, Any], ...]] = ({},)

    k: int
    max_k: int
    epsilon: float
    delta: float
    adjacency: Adjacency
    budget: Budget | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "adjacency", Adjacency(self.adjacency))
        object.__setattr__(self, "k", self._as_one.k)  # refuses what Limited Domain refuses
        check_positive("epsilon", self.epsilon * math.sqrt(self.k))  # one draw that costs as much as all
        for _ in self._longest():  # so every round can be built, whatever will be found
            pass

    @classmethod
    def calibrate(
        cls,
        budget: Budget,
        *,
        adjacency: Adjacency = Adjacency.ADD_REMOVE,
        filter: Filter | None = None,  # noqa: A002 - named in the house contract
        k: int,
        max_k: int | None = None,
    ) -> Self:
        r"""Spend the whole budget as `LimitedDomain` does, whose price it has.

        Parameters
        ----------
        budget
            Total (epsilon, delta) for ``budget.releases`` releases.
        adjacency
            Who is protected.
        filter
            Fix the Rényi order and both limits instead of choosing them (a ledger's filter, for all releases together).
        k
            How many items at most.
        max_k
            How many ranks may be candidates; ``max(100, 10 k)`` by default.
        """
        return cls.of(LimitedDomain.calibrate(budget, adjacency=adjacency, filter=filter, k=k, max_k=max_k))

    @classmethod
    def of(cls, domain: LimitedDomain) -> Self:
        """Return the rounds that cost what this Limited Domain costs."""
        return cls(
            k=domain.k,
            max_k=domain.max_k,
            epsilon=domain.epsilon,
            delta=domain.delta,
            adjacency=domain.adjacency,
            budget=domain.budget,
        )

    def after(self, prefix: int, *, epsilon: float) -> Self:
        """Return the mechanism that completes a released prefix of that size on the remaining items."""
        return replace(self, k=self.k - prefix, max_k=self.max_k - prefix, epsilon=epsilon)

    @property
    def cost(self) -> Cost:
        """The cost of one release, Limited Domain's; the same whatever comes out."""
        return self._as_one.cost

    @property
    def first(self) -> Round:
        """The first round."""
        return Round.of(self._as_one, left=Fraction(self.delta))

    def release(self, histogram: Histogram, *, rng: Source | None = None) -> Release:
        """Run once on a histogram and return everything that becomes public."""
        source = resolve(rng)
        items: tuple[Item, ...] = ()
        going: Round | None = self.first
        while going is not None:
            found = going.domain.sample(without(histogram, items), 1, rng=source)[0]
            items += found
            going = going.after(len(found))
        return Release(
            items=items,
            k=self.k,
            steps=(self.name,),
            cost=self.cost,
            mechanism=self.describe(),
            budget=self.budget,
            seeded=source.seeded,
        )

    def law(self, histogram: Histogram) -> Law:
        """Return the exact probability of every list, to a relative 1e-12."""

        @cache
        def lists(listed: frozenset[Item], going: Round) -> dict[Hashable, float]:
            """Return the law of what is still to come once these are listed."""
            law: dict[Hashable, float] = {}
            for found, chance in going.domain.law(without(histogram, listed)).items():
                assert isinstance(found, tuple)  # noqa: S101 - Limited Domain lists
                after = going.after(len(found))
                rest: Law = {(): 1.0} if after is None else lists(listed.union(found), after)
                for more, p in rest.items():
                    assert isinstance(more, tuple)  # noqa: S101
                    law[found + more] = law.get(found + more, 0.0) + chance * p
            return law

        return lists(frozenset(), self.first)

    def chance(self, histogram: Histogram, k: int) -> float:
        """Return the probability that exactly the top ``k`` go out, in any order; listed from the law if they are fewer."""
        top = frozenset(histogram.top(k))
        if len(top) > self.k:
            return 0.0
        if (
            len(top) == self.k
        ):  # after a bottom fewer draws are left than are missing: only the first round can find all
            return self.first.domain.chance(histogram, k)
        return math.fsum(p for items, p in self.law(histogram).items() if isinstance(items, tuple) and top == {*items})

    def describe(self) -> dict[str, Any]:
        """Return name and public parameters as plain data."""
        return self._as_one.describe() | {"name": self.name}

    @property
    def _as_one(self) -> LimitedDomain:
        """Limited Domain with the same parameters: the price, not a round."""
        return LimitedDomain(
            k=self.k, max_k=self.max_k, epsilon=self.epsilon, delta=self.delta, adjacency=self.adjacency
        )

    def _longest(self) -> Iterator[Round]:
        """Yield the rounds of a run that finds nothing: no run has more, or leaves less delta."""
        going: Round | None = self.first
        while going is not None:
            yield going
            going = going.after(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """One list by Limited Domain, and what delta there was when it began; public, as every list and its length are."""

    domain: LimitedDomain
    left: Fraction

    @classmethod
    def of(cls, allowance: LimitedDomain, *, left: Fraction) -> Self:
        """Return the round of this many draws and this epsilon, with its part of the delta that is left."""
        part = left if allowance.k == 1 else left / 2  # after a round of one draw nothing can follow
        return cls(domain=replace(allowance, delta=fraction_down(part)), left=left)

    def after(self, found: int) -> Self | None:
        """Return the round after one that listed so many items; None if all its draws were made."""
        unused = self.domain.k - found - 1  # the bottom was a draw too
        if unused < 1:
            return None
        draws = (unused + 1) // 2
        allowance = replace(
            self.domain,
            k=draws,
            max_k=self.domain.max_k - found,
            epsilon=stretched(self.domain.epsilon, draws=unused, over=draws),
        )
        return self.of(allowance, left=(1 + self.left) / (1 + Fraction(self.domain.delta)) - 1)
