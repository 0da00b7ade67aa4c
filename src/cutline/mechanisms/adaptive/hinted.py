r"""A list that is published again and again: test the last cut first, and choose a new one only if that fails.

Most days the top ends where it ended yesterday, and yesterday's cut is public. Testing it alone costs what testing a told k
costs, about half of choosing one as well.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from cutline.arrays import FloatArray, IntArray
from cutline.errors import BudgetError, ParameterError
from cutline.histogram import Histogram
from cutline.mechanisms.adaptive.choosers import GapArgmax
from cutline.mechanisms.adaptive.gap_tests import GapTest, TableTest
from cutline.mechanisms.adaptive.stable_top_k import StableTopK
from cutline.mechanisms.base import Mechanism, Parameter, declare
from cutline.mechanisms.calibration import check_limits, split_evenly
from cutline.outcome import Law, Outcome
from cutline.privacy import Adjacency, Budget, Cost, Filter
from cutline.sampling import Source


@dataclass(frozen=True, slots=True, kw_only=True)
class HintedTopK(Mechanism):
    r"""The top set at a hinted cut if it is stable there; otherwise at a privately chosen cut, or nothing.

    Released: the set above the hint and the step ``hint``, or whatever `StableTopK` releases after that step.

    **Privacy.** The hint is public and fixed before the data. The first test costs what it costs at a told k, and whether it
    passed is public, so the second step composes with it: the dearest path costs both, and a path costs what ran
    [docs/proofs/stable-top-k.md]. A cut that was never shown must not be a hint: with argmax, a withheld release hides its
    cut, and a later hint would tell it.

    Parameters
    ----------
    hint
        The cut that is tested first; public, and inside the window of ``then``.
    test
        The stability test at the hint.
    then
        What runs if the hint does not pass.
    hint_from
        Who gave the hint: ``"caller"``, or ``"ledger"`` if it is the last cut that the books have seen released.

    Examples
    --------
    >>> from cutline import OpenHistogram
    >>> from cutline.sampling import SeededSource
    >>> budget = Budget(epsilon=1.0, delta=1e-6, releases=100)
    >>> limits = budget.filter(order=18.0, delta_share=0.3)
    >>> mechanism = HintedTopK.calibrate(budget, limits=limits, hint=3, max_k=20)
    >>> counts = OpenHistogram.from_counts({"a": 640, "b": 633, "c": 629, "d": 12, "e": 11}, max_k=20)
    >>> release = mechanism.release(counts, rng=SeededSource(0))
    >>> release.steps, release.listed()
    (('hint',), ['a', 'b', 'c'])
    >>> f"{release.cost.rdp(18.0) / mechanism.cost.rdp(18.0):.2f} of what was reserved"
    '0.50 of what was reserved'
    """

    name: ClassVar[str] = "hinted-top-k"
    ordered: ClassVar[bool] = False
    domains: ClassVar[tuple[str, ...]] = StableTopK.domains
    reference: ClassVar[str] = StableTopK.reference
    cost_rule: ClassVar[str] = f"one coin, then {StableTopK.cost_rule}"
    parameters: ClassVar[tuple[Parameter, ...]] = (
        *declare("hint_from", required=("hint",)),
        *StableTopK.parameters,
    )

    hint: int
    test: GapTest
    then: StableTopK
    hint_from: str = "caller"

    def __post_init__(self) -> None:
        Mechanism.__post_init__(self)
        window = self.then.preference
        if not window.min_k <= self.hint <= window.max_k:
            raise ParameterError(
                "a hint lies in the window of cuts",
                f"hint={self.hint}, min_k={window.min_k}, max_k={window.max_k}",
                "Leave the hint out.",
            )

    @classmethod
    def calibrate(
        cls,
        budget: Budget,
        *,
        adjacency: Adjacency = Adjacency.ADD_REMOVE,
        limits: Filter | None = None,
        hint: int,
        hint_from: str = "caller",
        **parameters: Any,
    ) -> Self:
        r"""Return the hinted form of `StableTopK.calibrate`; each of its two steps gets what a release of its own would get.

        So the dearest path costs two releases of ``budget``, and the path on which the hint passes costs one. It needs the
        limits of a ledger: without one nothing is refunded, and a hint is not worth its price.
        """
        if limits is None or budget.releases < 2:
            raise BudgetError(
                "a hint is tested beside what a release costs anyway, which a ledger gives back if the hint passes",
                "no ledger" if limits is None else "a budget of one release, which two steps do not fit in",
                "Leave the hint out." if limits is None else "Leave the hint out, or plan at least two releases.",
            )
        check_limits(budget, limits)
        adjacency = Adjacency(adjacency)
        return cls(
            hint=hint,
            test=TableTest.within(split_evenly(limits, budget.releases)),
            then=StableTopK.calibrate(budget, adjacency=adjacency, limits=limits, **parameters),
            hint_from=hint_from,
            adjacency=adjacency,
            budget=replace(budget, releases=budget.releases // 2),
        )

    @property
    def cost(self) -> Cost:
        """The dearest path: the hint does not pass, and a cut is chosen and tested."""
        return self.test.cost(self.adjacency) + self.then.cost

    @property
    def max_k(self) -> int:
        """The largest k that can be chosen."""
        return self.then.max_k

    def run(self, histogram: Histogram, source: Source) -> tuple[Outcome, Cost]:
        cost = self.test.cost(self.adjacency)
        gap, slack = self._look(histogram)
        if self.test.passes(gap, slack, self.adjacency, source)[0]:
            return self._hinted(histogram), cost
        outcome, more = self.then.run(histogram, source)
        return _after_hint(outcome), cost + more

    def law(self, histogram: Histogram) -> Law:
        yes, no = self._chances(histogram)
        law = {_after_hint(outcome): float(no[0]) * p for outcome, p in self.then.law(histogram).items()}
        return {self._hinted(histogram): float(yes[0]), **law}

    def chance(self, histogram: Histogram, k: int) -> float:
        """Return the probability that exactly the top ``k`` go out, by the hint or without it."""
        yes, no = self._chances(histogram)
        return float(yes[0]) * (k == self.hint) + float(no[0]) * self.then.chance(histogram, k)

    def public_parameters(self) -> dict[str, Any]:
        return {"hint": self.hint, "hint_from": self.hint_from, **self.then.public_parameters()}

    def _hinted(self, histogram: Histogram) -> Outcome:
        return Outcome(items=frozenset(histogram.top(self.hint)), k=self.hint, steps=("hint",))

    def _look(self, histogram: Histogram) -> tuple[IntArray, npt.NDArray[np.int64]]:
        """Return the gap at the hint, and its slack: the cut is not chosen, so nothing else can be unstable."""
        gap = histogram.gaps(self.hint)[-1:]
        return gap, GapArgmax().slack(gap[:, None], self.adjacency)

    def _chances(self, histogram: Histogram) -> tuple[FloatArray, FloatArray]:
        gap, slack = self._look(histogram)
        return self.test.chances(gap, slack, self.adjacency)


def check_hint(hint: object, *, finds_k: bool, ledger: bool) -> None:
    """Raise if a hint is given where none can be taken; None and True take the last cut if there is one, False takes none."""
    if hint is None or isinstance(hint, bool):
        return
    if isinstance(hint, np.integer | int) and hint >= 1 and finds_k and ledger:
        return
    if not finds_k:
        rule, value = "a hint is for one list whose end is found by stable-top-k", "k, groups or another mechanism"
    elif not ledger:
        rule, value = "a hint needs a ledger, which gives back what did not run", "no ledger"
    else:
        rule, value = "a hint is a whole number of at least 1", f"hint={hint!r:.40}"
    raise ParameterError(rule, value, "Leave the hint out.")


def _after_hint(outcome: Outcome) -> Outcome:
    """Return the outcome with the step that did not pass before its own."""
    return replace(outcome, steps=("hint", *outcome.steps))
