r"""Exactly k items: ask first, for little, whether the top k are stable; only if not, pay for selecting them."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from cutline.errors import LawTooLarge, ParameterError
from cutline.histogram import Histogram, IntArray, OpenHistogram
from cutline.mechanisms.choosers import GapArgmax
from cutline.mechanisms.closed_selection import LARGEST_LAW
from cutline.mechanisms.fixed_k_calibration import ranks_for, spend
from cutline.mechanisms.gap_tests import GapTest, TableTest
from cutline.mechanisms.limited_domain import LimitedDomain, gap_needed
from cutline.mechanisms.selection import Items, Selector, chance_of, drawn, law_of_items, rest_of, same_top, selector
from cutline.privacy import Adjacency, BitTable, Budget, Cost, Filter
from cutline.release import Law, Release
from cutline.sampling import Source, resolve

_STEPS = ("test", "release")


@dataclass(frozen=True, slots=True, kw_only=True)
class TestFirst:
    r"""The top k: as they are if a test finds the set stable, else selected with noise.

    Released: which way it went, and the items. The test passed: the exact top k (the seen ones, if fewer were seen), a set
    without order, and only the test is charged. Not passed: what the selector draws with the rest. On an open domain that is
    `LimitedDomain`, a list of at most k in order; on a closed one `PeelingEM`, or `SubsetEM` where the one-gap
    numbers of k and the number of candidates favour it.

    **Privacy.** The test's cost plus Limited Domain's, on every domain and path: peels of the same epsilon, or one draw of a
    subset with sqrt(k) times the epsilon, never cost more at any order [docs/proofs/test-first.md].

    Parameters
    ----------
    k
        How many items.
    max_k
        How many ranks may be candidates on an open domain; public, at least k.
    test
        The stability test at k.
    epsilon, delta
        Of the fallback: epsilon of one draw on either domain, delta of Limited Domain.
    adjacency
        Who is protected.
    budget
        What the mechanism was calibrated for, if it was.

    References
    ----------
    [ZW22] Algorithm 3 in the limit of an infinite weight; [DL09]; [SPEC] section 2.5.

    Examples
    --------
    >>> from cutline.sampling import SeededSource
    >>> mechanism = TestFirst.calibrate(Budget(epsilon=1.0, delta=1e-6), k=3)
    >>> counts = OpenHistogram.from_counts({"a": 340, "b": 333, "c": 329, "d": 12, "e": 11}, max_k=100)
    >>> release = mechanism.release(counts, rng=SeededSource(0))
    >>> release.steps, release.listed()
    (('test', 'release'), ['a', 'b', 'c'])
    >>> f"{release.cost.epsilon(1e-6):.2f} of {mechanism.cost.epsilon(1e-6):.2f}"
    '0.12 of 1.00'
    """

    __test__: ClassVar[bool] = False  # not a class of tests
    name: ClassVar[str] = "test-first"
    ordered: ClassVar[bool] = False
    domains: ClassVar[tuple[str, ...]] = ("open", "closed")
    reference: ClassVar[str] = "ZW22"
    cost_rule: ClassVar[str] = "one coin, then k bounded-range steps + delta"
    variants: ClassVar[tuple[dict[str, Any], ...]] = ({},)

    k: int
    max_k: int
    test: GapTest
    epsilon: float
    delta: float
    adjacency: Adjacency
    budget: Budget | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "adjacency", Adjacency(self.adjacency))
        object.__setattr__(self, "k", self.fallback.k)  # refuses what Limited Domain refuses

    @classmethod
    def calibrate(
        cls,
        budget: Budget,
        *,
        adjacency: Adjacency = Adjacency.ADD_REMOVE,
        filter: Filter | None = None,  # noqa: A002 - named in the house contract
        k: int,
        max_k: int | None = None,
        share: float = 0.05,
    ) -> Self:
        r"""Spend the whole budget as well as possible, from public numbers alone.

        The Rényi order and the share of delta minimise the one-gap number of the fallback on an open domain.

        Parameters
        ----------
        budget
            Total (epsilon, delta) for ``budget.releases`` releases.
        adjacency
            Who is protected.
        filter
            Fix the Rényi order and both limits instead of choosing them (a ledger's filter, for all releases together).
        k
            How many items.
        max_k
            How many ranks may be candidates on an open domain; ``max(100, 10 k)`` by default.
        share
            The test's part of the allowance, of the Rényi cost and of delta alike.
        """
        ranks = ranks_for(k, max_k)
        adjacency = Adjacency(adjacency)
        if not 0 < share < 1:
            raise ParameterError("share must be above 0 and below 1", f"share={share}", "Try share=0.05.")

        def needed(limits: Filter) -> float:
            rest = Filter(order=limits.order, rdp=(1 - share) * limits.rdp, delta=(1 - share) * limits.delta)
            return gap_needed(rest, k=k, max_k=ranks)

        return spend(
            budget,
            filter,
            needed=needed,
            build=lambda limits: cls._within(limits, budget, adjacency=adjacency, k=k, max_k=ranks, share=share),
        )

    @classmethod
    def _within(cls, limits: Filter, budget: Budget, *, adjacency: Adjacency, k: int, max_k: int, share: float) -> Self:
        """Build the mechanism whose dearest path spends the limits of one release."""
        table = BitTable.stability(order=limits.order, rdp=share * limits.rdp, delta=share * limits.delta)
        test = TableTest(table=table)
        rest = rest_of(limits, test.cost(adjacency))
        fallback = LimitedDomain.within(rest, k=k, max_k=max_k, adjacency=adjacency)
        return cls(
            k=k,
            max_k=max_k,
            test=test,
            epsilon=fallback.epsilon,
            delta=fallback.delta,
            adjacency=adjacency,
            budget=budget,
        )

    @property
    def fallback(self) -> LimitedDomain:
        """Limited Domain as it is run on an open domain when the test does not pass."""
        return LimitedDomain(
            k=self.k, max_k=self.max_k, epsilon=self.epsilon, delta=self.delta, adjacency=self.adjacency
        )

    @property
    def cost(self) -> Cost:
        """The dearest path: the test, and Limited Domain."""
        return self.test.cost(self.adjacency) + self.fallback.cost

    def release(self, histogram: Histogram, *, rng: Source | None = None) -> Release:
        """Run once on a histogram and return everything that becomes public."""
        source = resolve(rng)
        chosen = self._selector(histogram)
        items: Items
        if self.test.passes(*self._gap(histogram), self.adjacency, source)[0]:
            steps, items, cost = _STEPS, frozenset(histogram.top(self.k)), self.test.cost(self.adjacency)
        else:
            steps, items = ("test", chosen.name), drawn(chosen, histogram, source)
            cost = self.test.cost(self.adjacency) + chosen.cost
        return Release(
            items=items,
            k=self.k,
            steps=steps,
            cost=cost,
            mechanism=self.describe(),
            budget=self.budget,
            seeded=source.seeded,
            branched=True,
            reserved=self.cost,
        )

    def law(self, histogram: Histogram) -> Law:
        """Return the exact probability of every outcome, to a relative 1e-12."""
        chosen = self._selector(histogram)
        yes, no = self._chances(histogram)
        law: dict[Hashable, float] = {(_STEPS, frozenset(histogram.top(self.k))): yes}
        for items, chance in law_of_items(chosen, histogram).items():
            law[("test", chosen.name), items] = no * chance
        if len(law) > LARGEST_LAW:
            raise LawTooLarge(f"a law is listed up to {LARGEST_LAW} outcomes", f"k={self.k}", "Sample instead.")
        return law

    def chance(self, histogram: Histogram, k: int) -> float:
        """Return the probability that exactly the top ``k`` go out, by either way."""
        chosen = self._selector(histogram)
        yes, no = self._chances(histogram)
        return (yes if same_top(histogram, k, self.k) else 0.0) + no * chance_of(chosen, histogram, k)

    def _selector(self, histogram: Histogram) -> Selector:
        """Return what a failed test falls back on; refuses a histogram of too few counts before anything is drawn."""
        if isinstance(histogram, OpenHistogram):
            histogram.gaps(self.max_k)
        return selector(self.fallback, histogram, k=self.k)

    def _chances(self, histogram: Histogram) -> tuple[float, float]:
        yes, no = self.test.chances(*self._gap(histogram), self.adjacency)
        return float(yes[0]), float(no[0])

    def _gap(self, histogram: Histogram) -> tuple[IntArray, IntArray]:
        """Return the gap at k, and the slack of a choice among one: k is not chosen, so nothing else can be unstable."""
        gap = histogram.gaps(self.k)[-1:]
        return gap, GapArgmax().slack(gap[:, None], self.adjacency)

    def describe(self) -> dict[str, Any]:
        """Return name and public parameters as plain data."""
        return {
            "name": self.name,
            "k": self.k,
            "max_k": int(self.max_k),
            "test": self.test.name,
            "epsilon": self.epsilon,
            "delta": self.delta,
            "adjacency": str(self.adjacency),
        }
