r"""Choose where the top ends, certify that the set above it is stable, and release that set as it is, or withhold it.

The paper's Algorithm 2 with exact constants for both adjacency relations, an optimal stability test in place of Gaussian
noise, and exact draws in place of floating-point ones; or both steps in one draw, where that needs the smaller gap.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from cutline.arrays import BoolArray, FloatArray, IntArray
from cutline.errors import ParameterError
from cutline.histogram import Histogram
from cutline.mechanisms.adaptive.best_form import calibrate_best, calibrate_plan, calibrate_wished
from cutline.mechanisms.adaptive.choosers import Chooser, Preference
from cutline.mechanisms.adaptive.gap_tests import GapTest
from cutline.mechanisms.adaptive.joint_draw import JointDraw
from cutline.mechanisms.adaptive.stable_top_k_calibration import calibrate_parts, check_parts
from cutline.mechanisms.base import Mechanism, Parameter, check_listable, declare
from cutline.mechanisms.planned import check_accounting
from cutline.outcome import Law, Outcome
from cutline.privacy import Adjacency, Budget, Cost, Filter
from cutline.privacy.curves.base import check_flag
from cutline.sampling import Source, resolve

_ITEMS_EACH = 200  # a law may hold this many items an outcome on average, when it has as many outcomes as can be listed


@dataclass(frozen=True, slots=True, kw_only=True)
class StableSet(Mechanism):
    """A mechanism that draws k by its gaps and shows the set above the cut, or withholds it."""

    ordered: ClassVar[bool] = False
    domains: ClassVar[tuple[str, ...]] = ("open", "closed")

    preference: Preference
    chooser: Chooser
    test: GapTest | None = None

    def __post_init__(self) -> None:
        Mechanism.__post_init__(self)
        if isinstance(self.chooser, JointDraw):
            self.chooser.check_choices(len(self.preference.choices))
            if self.test is not None or self.preference.weight:
                raise ParameterError(
                    "a joint draw decides by itself, and prefers by a prior",
                    "a test, or a weight",
                    "Leave both out, or choose by em.",
                )
        elif self.test is None:
            raise ParameterError("a cut must be tested before its set is shown", "no test", "Use test='table'.")
        elif not self.chooser.shows_k and not self.test.certifies_choice and len(self.preference.choices) > 1:
            raise ParameterError(
                "choosing by argmax needs the table test",
                f"test={self.test.name}",
                "Use test='table' or choose='em'.",
            )

    @property
    def cost(self) -> Cost:
        """The cost of one release; the same whatever comes out."""
        chosen = self.chooser.cost(self.adjacency)
        return chosen if self.test is None else chosen + self.test.cost(self.adjacency)

    @property
    def max_k(self) -> int:
        """The largest k that can be chosen."""
        return self.preference.max_k

    def run(self, histogram: Histogram, source: Source) -> tuple[Outcome, Cost]:
        chosen, passed = self.sample(histogram, 1, rng=source)
        return self.outcome(histogram, int(chosen[0]), passed=bool(passed[0])), self.cost

    def outcome(self, histogram: Histogram, k: int, *, passed: bool) -> Outcome:
        """Return what becomes public when k was chosen and the test passed, or did not."""
        items = frozenset(histogram.top(k)) if passed else None
        steps = ("draw",) if self.test is None else ("choose", "test")
        return Outcome(items=items, k=k if passed or self.chooser.shows_k else 0, steps=steps)

    def sample(self, histogram: Histogram, runs: int, *, rng: Source | None = None) -> tuple[IntArray, BoolArray]:
        """Draw ``runs`` independent pairs (k, passed); for simulations, since each run is a release of its own."""
        source = resolve(rng)
        gaps = histogram.gaps(self.max_k)[None, :]
        scores = np.broadcast_to(self.preference.scores(gaps), (runs, len(self.preference.choices)))
        index = self.chooser.draw(scores, self.adjacency, source)
        chosen = self.preference.choices[index]
        if self.test is None:
            return chosen, self.chooser.passes(scores, index, self.adjacency, source)
        slack = np.broadcast_to(self.chooser.slack(scores[:1], self.adjacency), (runs,))
        return chosen, self.test.passes(gaps[0, chosen - 1], slack, self.adjacency, source)

    def law(self, histogram: Histogram) -> Law:
        choices = self.preference.choices
        listed = len(choices) * min(self.max_k, len(histogram.items))
        outcomes = max(2 * len(choices), -(-listed // _ITEMS_EACH))
        check_listable(outcomes, f"max_k={self.max_k}", "Lower max_k, or sample.")
        chance, yes, no = self.chances(histogram)
        law: dict[Outcome, float] = {}
        for i, k in enumerate(choices.tolist()):
            if chance[i] > 0:
                law[self.outcome(histogram, k, passed=True)] = float(chance[i] * yes[i])
                withheld = self.outcome(histogram, k, passed=False)
                law[withheld] = law.get(withheld, 0.0) + float(chance[i] * no[i])
        return law

    def chance(self, histogram: Histogram, k: int) -> float:
        """Return the probability that exactly the top ``k`` go out; one entry of the law, without listing it."""
        at = k - self.preference.min_k
        chance, yes, _ = self.chances(histogram)
        return float(chance[at] * yes[at])

    def chances(self, histogram: Histogram) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return the chance of each choice, and of passing and not passing the test there."""
        gaps = histogram.gaps(self.max_k)[None, :]
        scores = self.preference.scores(gaps)
        chance = self.chooser.law(scores, self.adjacency)[0]
        if self.test is None:
            yes, no = self.chooser.pass_chances(scores, self.adjacency)
            return chance, yes[0], no[0]
        window = gaps[0, self.preference.choices - 1]
        slack = np.broadcast_to(self.chooser.slack(scores, self.adjacency), window.shape)
        return chance, *self.test.chances(window, slack, self.adjacency)

    def public_parameters(self) -> dict[str, Any]:
        preference = self.preference
        plain: dict[str, Any] = {"max_k": preference.max_k, "min_k": preference.min_k}
        if preference.target is not None:
            plain |= {"target": preference.target, "weight": preference.weight}
        if preference.clip is not None:
            plain["clip"] = preference.clip
        if isinstance(self.chooser, JointDraw):
            plain |= self.chooser.describe_prior(preference)
        return plain | {"choose": self.chooser.name} | ({} if self.test is None else {"test": self.test.name})


@dataclass(frozen=True, slots=True, kw_only=True)
class StableTopK(StableSet):
    r"""The top set at a privately chosen k, unordered and without noise, or nothing.

    Released: k, and the set of the k items with the highest counts (the seen ones, if fewer were seen), or "withheld". When
    choosing by argmax or by a joint draw, a withheld release does not show k.

    **Privacy.** The cost is the chooser's plus the test's, under the stated adjacency; it is the same on every path
    [ZW22, Algorithm 2; docs/proofs/stable-top-k.md; docs/proofs/joint-stable.md].

    Parameters
    ----------
    preference
        The window k is chosen from and what is preferred inside it; public.
    chooser
        `JointDraw`, `GapExponential`, `GapArgmax`, or one of `cutline.mechanisms.adaptive.choosers`.
    test
        `TableTest`, `GaussianTest` or `LaplaceTest`; None with a joint draw, which decides by itself.

    Examples
    --------
    >>> from cutline import OpenHistogram
    >>> from cutline.sampling import SeededSource
    >>> mechanism = StableTopK.calibrate(Budget(epsilon=1.0, delta=1e-6), max_k=20)
    >>> counts = OpenHistogram.from_counts({"a": 340, "b": 333, "c": 329, "d": 12, "e": 11}, max_k=20)
    >>> release = mechanism.release(counts, rng=SeededSource(0))
    >>> release.k, release.listed(), mechanism.describe()["choose"]
    (3, ['a', 'b', 'c'], 'joint')
    """

    name: ClassVar[str] = "stable-top-k"
    reference: ClassVar[str] = "ZW22"
    cost_rule: ClassVar[str] = "one draw, or choice (bounded range) + one coin"
    parameters: ClassVar[tuple[Parameter, ...]] = declare(
        "max_k", "min_k", "target", "weight", "clip", "choose", "test", "prior", "prefer_larger", "accounting"
    )
    variants: ClassVar[tuple[dict[str, Any], ...]] = ({}, {"choose": "em"}, {"choose": "argmax"})

    @classmethod
    def calibrate(
        cls,
        budget: Budget,
        *,
        adjacency: Adjacency = Adjacency.ADD_REMOVE,
        limits: Filter | None = None,
        max_k: int = 100,
        min_k: int = 1,
        target: int | None = None,
        weight: float = 0.0,
        clip: int | None = None,
        choose: str | None = None,
        test: str | None = None,
        prior: Sequence[float] | None = None,
        prefer_larger: bool = False,
        accounting: str = "renyi",
    ) -> Self:
        r"""Calibrate as `Mechanism.calibrate` says.

        The Rényi order, the share of delta and the split between choosing and testing minimise the one-gap number: the
        smallest single gap at which the right set is released with probability 0.9. Unless a parameter asks for a certain
        form, it is the one of ``"joint"``, ``"em"`` and ``"argmax"`` with the smallest one-gap number for this budget or
        these limits; `describe` says which.

        Parameters
        ----------
        max_k, min_k, target, weight, clip
            See `Preference`. With a target, a weight or a clip, k is chosen by ``"em"`` unless ``choose`` says otherwise.
        choose
            ``"joint"``, ``"em"``, ``"argmax"``, or report-noisy-max with other noise: ``"rnm-gaussian"``, ``"rnm-laplace"``,
            ``"permute-and-flip"``.
        test
            ``"table"``, ``"gaussian"`` (exact quantile), ``"laplace"``, or ``"paper"`` (the paper's test, even split and
            half of delta). A joint draw has none.
        prior, prefer_larger
            Wishes about k that a joint draw takes, see `cutline.mechanisms.adaptive.joint_stable.JointStable`.
        accounting
            ``"renyi"``, or ``"adaptive"`` for a plan of exactly ``budget.releases`` releases: the rule of that name prices them
            exactly, so that smaller gaps are found; with the table test only, never with ``limits``, and the first time slow.
        """
        preference = Preference(max_k=max_k, min_k=min_k, target=target, weight=weight, clip=clip)
        adjacency = Adjacency(adjacency)
        asked = "em" if choose is None or (isinstance(choose, str) and choose == "joint") else choose
        check_parts(asked, "table" if test is None else test)
        prefer_larger = check_flag("prefer_larger", prefer_larger)
        wishes = prior is not None or prefer_larger
        free = choose is None and test is None and not wishes and preference == Preference(max_k=max_k, min_k=min_k)
        gap_test: GapTest | None
        if check_accounting(accounting, limits):
            if wishes:
                raise ParameterError("adaptive accounting takes no prior", "both", "Leave one of them out.")
            form = None if free else choose or "em"
            chooser, gap_test = calibrate_plan(
                budget, adjacency=adjacency, choices=len(preference.choices), choose=form, test=test or "table"
            )
        elif free:
            chooser, gap_test = calibrate_best(budget, limits, adjacency=adjacency, choices=len(preference.choices))
        elif choose == "joint" or (wishes and choose is None):
            if test is not None:
                raise ParameterError("a joint draw takes no test", f"test={test!r}", "Leave it out, or choose by em.")
            preference, chooser = calibrate_wished(
                budget, limits, adjacency=adjacency, preference=preference, prior=prior, prefer_larger=prefer_larger
            )
            gap_test = None
        else:
            if wishes:
                raise ParameterError("only a joint draw takes a prior", f"choose={choose!r}", "Leave choose out.")
            chooser, gap_test = calibrate_parts(
                budget,
                limits,
                adjacency=adjacency,
                choices=len(preference.choices),
                choose=choose or "em",
                test=test or "table",
            )
        return cls(preference=preference, chooser=chooser, test=gap_test, adjacency=adjacency, budget=budget)
