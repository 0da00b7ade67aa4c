r"""Limited Domain that pays for what it gets: draws left when the bottom ends a list buy a second list with less noise.

Limited Domain asked for 50 items stops at the bottom after three, say, and has paid for 50 draws. Here the 46 draws that were
never made are pooled into 23 of a larger epsilon, on the items not yet listed; and so on until all is spent or found.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from typing import ClassVar, Self

from cutline.histogram import Histogram, Item
from cutline.mechanisms.calibration import stretch_epsilon
from cutline.mechanisms.open.limited_domain import LimitedDomain, require_open
from cutline.privacy.curves.base import check_positive
from cutline.rounding import fraction_down
from cutline.sampling import Source, resolve


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitedRounds(LimitedDomain):
    r"""The top items of an open domain, at most k of them, in the order drawn, in rounds of falling noise.

    The first round is `LimitedDomain` with k draws. If its bottom ends the list with draws left, half as many draws (rounded
    up) with the epsilon that costs the same are the next round, on what was not listed yet. Each round has half of the delta
    that is left, the last one all of it.

    **Privacy.** That of `LimitedDomain` with the same parameters: along every path the draws made cost at most k draws
    of epsilon, and the rounds' bottoms outweigh one-sided items by 1/delta together [DR19, Algorithm 1 and its
    pay-what-you-get composition; docs/proofs/limited-rounds.md].

    Parameters
    ----------
    k, epsilon
        So many draws of so much are paid for; the first round makes them so.
    delta
        How little all items that only one neighbour has may weigh beside the bottoms of all rounds.

    Examples
    --------
    >>> from cutline import Budget, OpenHistogram
    >>> from cutline.sampling import SeededSource
    >>> counts = OpenHistogram.from_counts({i: 2000 // (i + 1) for i in range(300)}, max_k=200)
    >>> budget = Budget(epsilon=1.0, delta=1e-6)
    >>> in_rounds = LimitedRounds.calibrate(budget, k=20).release(counts, rng=SeededSource(0)).items
    >>> in_one = LimitedDomain.calibrate(budget, k=20).release(counts, rng=SeededSource(0)).items
    >>> len(in_rounds), len(in_one)
    (12, 9)
    """

    name: ClassVar[str] = "limited-rounds"

    def __post_init__(self) -> None:
        LimitedDomain.__post_init__(self)  # super() does not see through slots
        check_positive("epsilon", self.epsilon * math.sqrt(self.k))  # one draw that costs as much as all
        going: Round | None = self.first
        while going is not None:  # a run that finds nothing: no run has more rounds, so all of them can be built
            going = going.after(0)

    @property
    def first(self) -> Round:
        """The first round."""
        return Round.of(self._as_one, left=Fraction(self.delta))

    @property
    def _as_one(self) -> LimitedDomain:
        """Limited Domain with the same parameters: the price, not a round."""
        return LimitedDomain(**self.public_parameters(), adjacency=self.adjacency)

    def sample(self, histogram: Histogram, runs: int, *, rng: Source | None = None) -> list[tuple[Item, ...]]:
        source = resolve(rng)
        return [self._list(histogram, source) for _ in range(runs)]

    def _list(self, histogram: Histogram, rng: Source) -> tuple[Item, ...]:
        items: tuple[Item, ...] = ()
        counts = require_open(histogram, self.name)
        going: Round | None = self.first
        while going is not None:
            found = going.domain.sample(counts.without(items), 1, rng=rng)[0]
            items += found
            going = going.after(len(found))
        return items

    def law_of_lists(self, histogram: Histogram) -> dict[tuple[Item, ...], float]:
        counts = require_open(histogram, self.name)

        @cache
        def lists(listed: frozenset[Item], going: Round) -> dict[tuple[Item, ...], float]:
            """Return the law of what is still to come once these are listed."""
            law: dict[tuple[Item, ...], float] = {}
            following = [going.after(n) for n in range(going.domain.k + 1)]
            for found, chance in going.domain.law_of_lists(counts.without(listed)).items():
                after = following[len(found)]
                rest = {(): 1.0} if after is None else lists(listed.union(found), after)
                for more, p in rest.items():
                    law[found + more] = law.get(found + more, 0.0) + chance * p
            return law

        return lists(frozenset(), self.first)

    def chance(self, histogram: Histogram, k: int) -> float:
        """Return the probability that exactly the top ``k`` go out, in any order; listed from the law if they are fewer."""
        top = frozenset(histogram.top(k))
        if len(top) > self.k:
            return 0.0
        if len(top) == self.k:
            # Only the first round can find all: after a bottom fewer draws are left than are missing.
            return self.first.domain.chance(histogram, k)
        return math.fsum(p for items, p in self.law_of_lists(histogram).items() if top == {*items})


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
            epsilon=stretch_epsilon(self.domain.epsilon, draws=unused, over=draws),
        )
        return self.of(allowance, left=(1 + self.left) / (1 + Fraction(self.domain.delta)) - 1)
