r"""Exactly k items, with the help of a large gap near k: release the stable set there, then fill it up or cut it down to k.

The paper's Algorithm 3, with what it needs to be private: Limited Domain where the domain is open, the constants of the
stated relation, and selection priced by its exact curve.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

from cutline.errors import ParameterError
from cutline.histogram import ClosedHistogram, Histogram
from cutline.mechanisms.adaptive.choosers import GapExponential, Preference
from cutline.mechanisms.adaptive.gap_tests import GapTest
from cutline.mechanisms.adaptive.stable_top_k import StableTopK
from cutline.mechanisms.adaptive.stable_top_k_calibration import calibrate_parts, check_parts
from cutline.mechanisms.base import Mechanism, Parameter, check_listable, declare, resolve_max_k
from cutline.mechanisms.calibration import SMALLEST_PART, part_of, spend, stretch_epsilon
from cutline.mechanisms.closed.peeling import PeelingEM
from cutline.mechanisms.fixed.continuation import Continuation, check_histogram, complete, rest_of, select_all
from cutline.mechanisms.open.limited_domain import LimitedDomain, gap_needed
from cutline.outcome import Law, Outcome
from cutline.privacy import Adjacency, Budget, Cost, Filter
from cutline.privacy.curves.base import check_number
from cutline.sampling import Source


@dataclass(frozen=True, slots=True, kw_only=True)
class StableTopKFixed(Mechanism):
    r"""The top k by way of a stable set near k.

    A cut j is drawn by its gap and its nearness to k, and the set above it is tested. Stable: with j = k it is the answer;
    with j < k the missing k - j items are selected among the rest; with j > k the answer is selected inside the set, by
    picking k items or by dropping j - k, whichever is fewer. Not stable: k items are selected from scratch. What selects is
    said in `cutline.mechanisms.fixed.continuation`; inside a released set it is peeling.

    Released: the steps, which name j and how it went on, and the items: a set, or a list in order where it was selected from
    scratch or picked.

    **Privacy.** The chooser's cost plus the test's plus Limited Domain's with k draws; every path costs at most that at every
    order, and is charged for what it ran [ZW22, Algorithm 3; docs/proofs/stable-top-k-fixed.md].

    Parameters
    ----------
    preference, chooser, test
        How the cut is drawn and its set tested, as in `StableTopK`; the preference's target is k.
    epsilon, delta
        Of Limited Domain with all k draws; the epsilon is stretched where fewer are made.

    Examples
    --------
    >>> from cutline import OpenHistogram
    >>> from cutline.sampling import SeededSource
    >>> mechanism = StableTopKFixed.calibrate(Budget(epsilon=1.0, delta=1e-6), k=4, max_k=20)
    >>> counts = {"a": 940, "b": 933, "c": 929, "d": 402, "e": 11}
    >>> release = mechanism.release(OpenHistogram.from_counts(counts, max_k=20), rng=SeededSource(0))
    >>> release.steps, release.listed()
    (('choose 3', 'test', 'release', 'limited-domain'), ['a', 'b', 'c', 'd'])
    """

    name: ClassVar[str] = "stable-top-k-fixed"
    ordered: ClassVar[bool] = False
    domains: ClassVar[tuple[str, ...]] = ("open", "closed")
    reference: ClassVar[str] = "ZW22"
    cost_rule: ClassVar[str] = "choice + one coin + k bounded-range steps"
    parameters: ClassVar[tuple[Parameter, ...]] = declare("max_k", "weight", "test_share", "test", required=("k",))

    preference: Preference
    chooser: GapExponential
    test: GapTest
    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        Mechanism.__post_init__(self)
        if self.preference.target is None:
            raise ParameterError("the preference's target is k", "no target", "Pass Preference(target=k, ...).")
        _ = self.fallback  # refuses what Limited Domain refuses

    @classmethod
    def calibrate(
        cls,
        budget: Budget,
        *,
        adjacency: Adjacency = Adjacency.ADD_REMOVE,
        limits: Filter | None = None,
        k: int,
        max_k: int | None = None,
        weight: float | None = None,
        test_share: float = 0.5,
        test: str = "table",
    ) -> Self:
        r"""Calibrate as `Mechanism.calibrate` says.

        The Rényi order and the share of delta minimise the one-gap number of the selection on an open domain; the split between
        choosing and testing that of the released set, as in `StableTopK`.

        Parameters
        ----------
        max_k
            The largest cut, and how many ranks may be candidates on an open domain; ``max(100, 10 k)`` by default.
        weight
            The paper's lambda: how much gap one rank of distance from k is worth. By default as much as makes a cut e times
            less likely per rank, the scale of the chooser's noise.
        test_share
            The part of choosing and testing, of the Rényi cost and of delta alike; half, as in the paper.
        test
            ``"table"``, ``"gaussian"`` or ``"paper"``, as in `StableTopK`.
        """
        ranks = resolve_max_k(k, max_k)
        adjacency = Adjacency(adjacency)
        test_share = check_number("test_share", test_share)
        check_parts("em", test)
        if not SMALLEST_PART <= test_share < 1:
            raise ParameterError(
                f"test_share must be at least {SMALLEST_PART} and below 1",
                f"test_share={test_share}",
                "Try test_share=0.5.",
            )

        def build(limits: Filter, kind: type[Self] = cls) -> Self:
            first = part_of(limits, test_share)
            chooser, gap_test = calibrate_parts(
                replace(budget, releases=1), first, adjacency=adjacency, choices=max(ranks, 2), choose="em", test=test
            )
            assert isinstance(chooser, GapExponential)  # noqa: S101 - em draws
            rest = rest_of(limits, chooser.cost(adjacency) + gap_test.cost(adjacency))
            fallback = LimitedDomain.within(rest, k=k, max_k=ranks, adjacency=adjacency)
            by_noise = adjacency.gap_range / chooser.epsilon
            return kind(
                preference=Preference(max_k=ranks, target=k, weight=by_noise if weight is None else weight),
                chooser=chooser,
                test=gap_test,
                epsilon=fallback.epsilon,
                delta=fallback.delta,
                adjacency=adjacency,
                budget=budget,
            )

        def needed(limits: Filter) -> float:
            return gap_needed(part_of(limits, 1 - test_share), k=k, max_k=ranks)

        return spend(budget, limits, needed=needed, build=build)

    @property
    def k(self) -> int:
        """How many items."""
        return self.preference.target or 0

    @property
    def max_k(self) -> int:
        """The largest cut, and how many ranks may be candidates on an open domain."""
        return self.preference.max_k

    @property
    def fallback(self) -> LimitedDomain:
        """Limited Domain as it is run on an open domain when the test does not pass."""
        return LimitedDomain(
            k=self.k,
            max_k=self.preference.max_k,
            epsilon=self.epsilon,
            delta=self.delta,
            adjacency=self.adjacency,
        )

    @property
    def first(self) -> StableTopK:
        """The first steps: a cut is drawn, and the set above it tested."""
        return StableTopK(preference=self.preference, chooser=self.chooser, test=self.test, adjacency=self.adjacency)

    @property
    def cost(self) -> Cost:
        """The dearest path: choose, test, and Limited Domain with all k draws."""
        return self.first.cost + self.fallback.cost

    def run(self, histogram: Histogram, source: Source) -> tuple[Outcome, Cost]:
        check_histogram(histogram, max_k=self.max_k)
        cuts, passed = self.first.sample(histogram, 1, rng=source)
        continuation = self.continue_after(histogram, int(cuts[0]), passed=bool(passed[0]))
        cost = self.first.cost + continuation.cost(self.adjacency)
        return continuation.outcome(continuation.draw(source), k=self.k), cost

    def law(self, histogram: Histogram) -> Law:
        chances, yes, no = self.first.chances(histogram)
        law: dict[Outcome, float] = {}
        from_scratch = self.continue_after(histogram, self.k, passed=False).law()
        for i, cut in enumerate(self.preference.choices.tolist()):
            stable, unstable = (self.continue_after(histogram, cut, passed=passed) for passed in (True, False))
            for items, p in stable.law().items():
                law[stable.outcome(items, k=self.k)] = float(chances[i] * yes[i]) * p
            for items, p in from_scratch.items():
                law[unstable.outcome(items, k=self.k)] = float(chances[i] * no[i]) * p
            check_listable(len(law), f"k={self.k}, max_k={self.max_k}")
        return law

    def chance(self, histogram: Histogram, k: int) -> float:
        """Return the probability that exactly the top ``k`` go out, whichever cut was drawn."""
        chances, yes, no = self.first.chances(histogram)
        scratch = self.continue_after(histogram, self.k, passed=False).chance(k)
        total = 0.0
        for i, cut in enumerate(self.preference.choices.tolist()):
            if chances[i] * yes[i] > 0:
                total += float(chances[i] * yes[i]) * self.continue_after(histogram, cut, passed=True).chance(k)
            total += float(chances[i] * no[i]) * scratch
        return total

    def continue_after(self, histogram: Histogram, cut: int, *, passed: bool = True) -> Continuation:
        """Return how it goes on after cut and test; depends on the histogram only through what the cut released."""
        steps: tuple[str, ...] = (f"choose {cut}", "test")
        if not passed:
            return select_all(histogram, self.fallback, steps=steps)
        steps = (*steps, "release")
        if cut <= self.k:
            return complete(histogram, cut, self.fallback, steps=steps)
        above = len(histogram.top(cut))
        continuation = Continuation(steps=steps, whole=histogram, prefix=above)
        if above <= self.k:  # fewer were seen, or are there, than the cut says
            return continuation
        reach = min(cut, histogram.size) if isinstance(histogram, ClosedHistogram) else cut
        return self._cut_down(continuation, histogram.up_to(cut), surplus=reach - self.k)

    def _cut_down(self, continuation: Continuation, part: ClosedHistogram, *, surplus: int) -> Continuation:
        """Pick k of a released set, or drop the surplus; charged for the surplus of the cut, even if fewer items were seen."""
        draws = min(self.k, surplus)
        epsilon = stretch_epsilon(self.epsilon, draws=self.k, over=draws)
        if self.k <= surplus:
            keep = PeelingEM(k=self.k, epsilon=epsilon, adjacency=self.adjacency)
            return replace(continuation, steps=(*continuation.steps, "pick"), prefix=None, selector=keep, part=part)
        drop = PeelingEM(k=part.size - self.k, epsilon=epsilon, adjacency=self.adjacency)
        steps = (*continuation.steps, "drop")
        return replace(
            continuation, steps=steps, selector=drop, part=part.upside_down(), drops=True, spare=surplus - drop.k
        )

    def public_parameters(self) -> dict[str, Any]:
        return {
            "k": self.k,
            "max_k": int(self.max_k),
            "weight": self.preference.weight,
            "choose": self.chooser.name,
            "test": self.test.name,
            "epsilon": self.epsilon,
            "delta": self.delta,
        }
