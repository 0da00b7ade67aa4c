r"""Choose where the top ends, certify that the set above it is stable, and release that set as it is, or withhold it.

The paper's Algorithm 2 with exact constants for both adjacency relations, an optimal stability test in place of Gaussian
noise, and exact draws in place of floating-point ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from cutline.arrays import FloatArray, IntArray
from cutline.errors import ParameterError
from cutline.histogram import Histogram
from cutline.mechanisms.adaptive.choosers import Chooser, Preference
from cutline.mechanisms.adaptive.gap_tests import GapTest
from cutline.mechanisms.adaptive.stable_top_k_calibration import calibrate_parts
from cutline.mechanisms.base import Mechanism, Parameter, check_listable, declare
from cutline.privacy import Adjacency, Budget, Cost, Filter
from cutline.release import Law, Outcome
from cutline.sampling import Source, resolve

_ITEMS_EACH = 200  # a law may hold this many items an outcome on average, when it has as many outcomes as can be listed


@dataclass(frozen=True, slots=True, kw_only=True)
class StableTopK(Mechanism):
    r"""The top set at a privately chosen k, unordered and without noise, or nothing.

    Released: k, and the set of the k items with the highest counts (the seen ones, if fewer were seen), or "withheld". When
    choosing by argmax, a withheld release does not show k.

    **Privacy.** The cost is the chooser's plus the test's, under the stated adjacency; it is the same on every path
    [ZW22, Algorithm 2; docs/proofs/stable-top-k.md].

    Parameters
    ----------
    preference
        The window k is chosen from and what is preferred inside it; public.
    chooser
        `GapExponential` (default), `GapArgmax`, or one of `cutline.mechanisms.adaptive.choosers`.
    test
        `TableTest` (default), `GaussianTest` or `LaplaceTest`.

    Examples
    --------
    >>> from cutline import OpenHistogram
    >>> from cutline.sampling import SeededSource
    >>> mechanism = StableTopK.calibrate(Budget(epsilon=1.0, delta=1e-6), max_k=20)
    >>> counts = OpenHistogram.from_counts({"a": 340, "b": 333, "c": 329, "d": 12, "e": 11}, max_k=20)
    >>> release = mechanism.release(counts, rng=SeededSource(0))
    >>> release.k, release.listed()
    (3, ['a', 'b', 'c'])
    """

    name: ClassVar[str] = "stable-top-k"
    ordered: ClassVar[bool] = False
    domains: ClassVar[tuple[str, ...]] = ("open", "closed")
    reference: ClassVar[str] = "ZW22"
    cost_rule: ClassVar[str] = "choice (bounded range) + one coin"
    parameters: ClassVar[tuple[Parameter, ...]] = declare(
        "max_k", "min_k", "target", "weight", "clip", "choose", "test"
    )
    variants: ClassVar[tuple[dict[str, Any], ...]] = ({}, {"choose": "argmax"})

    preference: Preference
    chooser: Chooser
    test: GapTest

    def __post_init__(self) -> None:
        Mechanism.__post_init__(self)
        if not self.chooser.shows_k and not self.test.certifies_choice and len(self.preference.choices) > 1:
            raise ParameterError(
                "choosing by argmax needs the table test",
                f"test={self.test.name}",
                "Use test='table' or choose='em'.",
            )

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
        choose: str = "em",
        test: str = "table",
    ) -> Self:
        r"""Calibrate as `Mechanism.calibrate` says.

        The Rényi order, the share of delta and the split between choosing and testing minimise the one-gap number: the
        smallest single gap at which the right set is released with probability 0.9.

        Parameters
        ----------
        max_k, min_k, target, weight, clip
            See `Preference`.
        choose
            ``"em"``, ``"argmax"``, or report-noisy-max with other noise: ``"rnm-gaussian"``, ``"rnm-laplace"``,
            ``"permute-and-flip"``.
        test
            ``"table"``, ``"gaussian"`` (exact quantile), ``"laplace"``, or ``"paper"`` (the paper's test, even split and
            half of delta).
        """
        preference = Preference(max_k=max_k, min_k=min_k, target=target, weight=weight, clip=clip)
        adjacency = Adjacency(adjacency)
        chooser, gap_test = calibrate_parts(
            budget, limits, adjacency=adjacency, choices=len(preference.choices), choose=choose, test=test
        )
        return cls(preference=preference, chooser=chooser, test=gap_test, adjacency=adjacency, budget=budget)

    @property
    def cost(self) -> Cost:
        """The cost of one release; the same whatever comes out."""
        return self.chooser.cost(self.adjacency) + self.test.cost(self.adjacency)

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
        return Outcome(items=items, k=k if passed or self.chooser.shows_k else 0, steps=("choose", "test"))

    def sample(
        self, histogram: Histogram, runs: int, *, rng: Source | None = None
    ) -> tuple[IntArray, npt.NDArray[np.bool_]]:
        """Draw ``runs`` independent pairs (k, passed); for simulations, since each run is a release of its own."""
        source = resolve(rng)
        gaps = histogram.gaps(self.max_k)[None, :]
        scores = np.broadcast_to(self.preference.scores(gaps), (runs, len(self.preference.choices)))
        chosen = self.preference.choices[self.chooser.draw(scores, self.adjacency, source)]
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
        window = gaps[0, self.preference.choices - 1]
        slack = np.broadcast_to(self.chooser.slack(scores, self.adjacency), window.shape)
        return self.chooser.law(scores, self.adjacency)[0], *self.test.chances(window, slack, self.adjacency)

    def public_parameters(self) -> dict[str, Any]:
        preference = self.preference
        plain: dict[str, Any] = {"max_k": preference.max_k, "min_k": preference.min_k}
        if preference.target is not None:
            plain |= {"target": preference.target, "weight": preference.weight}
        if preference.clip is not None:
            plain["clip"] = preference.clip
        return plain | {"choose": self.chooser.name, "test": self.test.name}
