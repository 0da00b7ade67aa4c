r"""A set that ends where the mechanism finds that the top ends: how it is drawn and shown, whatever chooses and tests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from cutline.arrays import BoolArray, FloatArray, IntArray
from cutline.errors import ParameterError
from cutline.histogram import Histogram
from cutline.mechanisms.adaptive.choosers import Chooser, Preference
from cutline.mechanisms.adaptive.gap_tests import GapTest
from cutline.mechanisms.adaptive.joint_draw import JointDraw
from cutline.mechanisms.base import Mechanism, check_listable
from cutline.privacy import Cost
from cutline.release import Law, Outcome
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
