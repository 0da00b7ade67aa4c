r"""Exactly k items: ask first, for little, whether the top k are stable; only if not, pay for selecting them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from cutline.arrays import IntArray
from cutline.errors import ParameterError
from cutline.histogram import Histogram
from cutline.mechanisms.adaptive.choosers import GapArgmax, Preference
from cutline.mechanisms.adaptive.gap_tests import GapTest, TableTest
from cutline.mechanisms.base import Mechanism, Parameter, check_listable, declare, resolve_max_k
from cutline.mechanisms.calibration import check_test_share, part_of, spend
from cutline.mechanisms.fixed.continuation import Continuation, check_histogram, complete, rest_of, select_all
from cutline.mechanisms.open.limited_domain import LimitedDomain, gap_needed
from cutline.mechanisms.open.limited_rounds import LimitedRounds
from cutline.outcome import Law, Outcome
from cutline.privacy import Adjacency, Budget, Cost, Filter
from cutline.sampling import Source

_TEST = 0.05  # what the test at k gets of both limits
_NEARBY = 0.5  # what the test under k gets beside the test at k


@dataclass(frozen=True, slots=True, kw_only=True)
class TestFirst(Mechanism):
    r"""The top k: as they are if a test finds the set stable, else selected with noise.

    Released: the steps that ran, and the items. If the test at k passed: the exact top k (the seen ones, if fewer were seen),
    a set without order, and only the test is charged. Not passed: the largest gap at j from k/2 up to k - 1 is tested for less
    (`nearby`); if it is stable, the j items above it are kept and only k - j are selected, with less noise. Otherwise the
    selector draws all k. On an open domain that is `LimitedRounds`, a list of at most k in order; on a closed one
    `PeelingEM`, or `SubsetEM` where the one-gap numbers of k and the number of candidates favour it.

    **Privacy.** The tests' cost plus Limited Domain's, on every domain and path: rounds cost no more, and neither do peels of
    the same epsilon, one draw of a subset with sqrt(k) times the epsilon, or fewer draws of as much more [ZW22, Algorithm 3
    in the limit of an infinite weight; DL09; docs/proofs/test-first.md].

    Parameters
    ----------
    k, max_k, epsilon, delta
        Of the fallback, as in `LimitedDomain`; epsilon is that of one draw on either domain.
    test
        The stability test at k.
    nearby
        The stability test of the largest gap a little under k; None to leave it out, as it must be with k = 1.

    Examples
    --------
    >>> from cutline import OpenHistogram
    >>> from cutline.sampling import SeededSource
    >>> mechanism = TestFirst.calibrate(Budget(epsilon=1.0, delta=1e-6), k=3)
    >>> counts = OpenHistogram.from_counts({"a": 340, "b": 333, "c": 329, "d": 12, "e": 11}, max_k=100)
    >>> release = mechanism.release(counts, rng=SeededSource(0))
    >>> release.steps, release.listed()
    (('test', 'release'), ['a', 'b', 'c'])
    >>> f"{release.cost.epsilon(1e-6):.2f} of {mechanism.cost.epsilon(1e-6):.2f}"
    '0.13 of 1.00'
    """

    __test__: ClassVar[bool] = False  # not a class of tests
    name: ClassVar[str] = "test-first"
    ordered: ClassVar[bool] = False
    domains: ClassVar[tuple[str, ...]] = ("open", "closed")
    reference: ClassVar[str] = "ZW22"
    cost_rule: ClassVar[str] = "one or two coins, then k bounded-range steps + delta"
    parameters: ClassVar[tuple[Parameter, ...]] = declare("max_k", "test_share", required=("k",))

    k: int
    max_k: int
    test: GapTest
    epsilon: float
    delta: float
    nearby: GapTest | None = None

    def __post_init__(self) -> None:
        Mechanism.__post_init__(self)
        object.__setattr__(self, "k", self.fallback.k)  # refuses what Limited Domain refuses
        if self.nearby is not None and (self.k == 1 or not self.nearby.certifies_choice):
            raise ParameterError(
                "a test under k must be a table test, and k above 1", f"k={self.k}", "Leave nearby out."
            )

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

        The Rényi order and the share of delta minimise the one-gap number of the fallback on an open domain. ``test_share``
        is the part of the allowance, of the Rényi cost and of delta alike, that tests at k; the test under k gets half as
        much. By default ``max_k`` is ``max(100, 10 k)``.
        """
        ranks = resolve_max_k(k, max_k)
        adjacency = Adjacency(adjacency)
        test_share = check_test_share(test_share, usual=_TEST)
        rest = 1 - (test_share if k == 1 else (1 + _NEARBY) * test_share)

        def build(limits: Filter, kind: type[Self] = cls) -> Self:
            test = TableTest.within(part_of(limits, test_share))
            nearby = TableTest.within(part_of(limits, _NEARBY * test_share)) if k > 1 else None
            spent = test.cost(adjacency) + (nearby.cost(adjacency) if nearby else Cost(adjacency=adjacency))
            fallback = LimitedDomain.within(rest_of(limits, spent), k=k, max_k=ranks, adjacency=adjacency)
            return kind(
                k=k,
                max_k=ranks,
                test=test,
                nearby=nearby,
                epsilon=fallback.epsilon,
                delta=fallback.delta,
                adjacency=adjacency,
                budget=budget,
            )

        def needed(limits: Filter) -> float:
            return gap_needed(part_of(limits, rest), k=k, max_k=ranks)

        return spend(budget, limits, needed=needed, build=build)

    @property
    def fallback(self) -> LimitedRounds:
        """What is run on an open domain when no test passes."""
        return LimitedRounds(
            k=self.k, max_k=self.max_k, epsilon=self.epsilon, delta=self.delta, adjacency=self.adjacency
        )

    @property
    def cost(self) -> Cost:
        """The dearest path: the tests, and Limited Domain."""
        tests = [self.test] if self.nearby is None else [self.test, self.nearby]
        return (
            sum((test.cost(self.adjacency) for test in tests), start=Cost(adjacency=self.adjacency))
            + self.fallback.cost
        )

    def run(self, histogram: Histogram, source: Source) -> tuple[Outcome, Cost]:
        check_histogram(histogram, max_k=self.max_k)
        cost = Cost(adjacency=self.adjacency)
        for planned in self.planned_tests(histogram):
            cost += planned.test.cost(self.adjacency)
            if planned.test.passes(planned.gap, planned.slack, self.adjacency, source)[0]:
                continuation = complete(histogram, planned.cut, self.fallback, steps=planned.passed)
                break
        else:
            continuation = select_all(histogram, self.fallback, steps=planned.failed)
        return continuation.outcome(continuation.draw(source), k=self.k), cost + continuation.cost(self.adjacency)

    def law(self, histogram: Histogram) -> Law:
        law: dict[Outcome, float] = {}
        for continuation, share in self._continuations(histogram):
            for items, chance in continuation.law().items():
                law[continuation.outcome(items, k=self.k)] = share * chance
        check_listable(len(law), f"k={self.k}")
        return law

    def chance(self, histogram: Histogram, k: int) -> float:
        """Return the probability that exactly the top ``k`` go out, whichever test passed."""
        return math.fsum(share * continuation.chance(k) for continuation, share in self._continuations(histogram))

    def planned_tests(self, histogram: Histogram) -> Iterator[PlannedTest]:
        """Yield the tests in the order in which they run, each only if none before it passed."""
        choose = GapArgmax()
        gap = histogram.gaps(self.k)[-1:]
        slack = choose.slack(gap[:, None], self.adjacency)  # k is not chosen: nothing else can be unstable
        yield PlannedTest(
            test=self.test, cut=self.k, gap=gap, slack=slack, passed=("test", "release"), failed=("test",)
        )
        if self.nearby is not None:
            under = Preference(min_k=(self.k + 1) // 2, max_k=self.k - 1)
            gaps = histogram.gaps(under.max_k)
            scores = under.scores(gaps[None, :])
            cut = int(under.choices[np.argmax(scores)])
            yield PlannedTest(
                test=self.nearby,
                cut=cut,
                gap=gaps[cut - 1 : cut],
                slack=choose.slack(scores, self.adjacency),
                passed=("test", f"nearby {cut}", "release"),
                failed=("test", "nearby"),
            )

    def _continuations(self, histogram: Histogram) -> Iterator[tuple[Continuation, float]]:
        """Yield every continuation, with its probability."""
        check_histogram(histogram, max_k=self.max_k)
        reached = 1.0
        for planned in self.planned_tests(histogram):
            yes, no = planned.test.chances(planned.gap, planned.slack, self.adjacency)
            continuation = complete(histogram, planned.cut, self.fallback, steps=planned.passed)
            yield continuation, reached * float(yes[0])
            reached *= float(no[0])
        yield select_all(histogram, self.fallback, steps=planned.failed), reached

    def public_parameters(self) -> dict[str, Any]:
        return {
            "k": self.k,
            "max_k": int(self.max_k),
            "test": self.test.name,
            "nearby": None if self.nearby is None else self.nearby.name,
            "epsilon": self.epsilon,
            "delta": self.delta,
        }


@dataclass(frozen=True, slots=True, kw_only=True, repr=False, eq=False)
class PlannedTest:
    """A test whether the set above a cut is stable: what it looks at, and the public steps if it passes and if it does not."""

    test: GapTest
    cut: int
    gap: IntArray
    slack: IntArray
    passed: tuple[str, ...]
    failed: tuple[str, ...]
