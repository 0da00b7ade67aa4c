r"""The exhaustive checks of StableTopK with a hint, and the control that shows why a hint must have been public."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from cutline.histogram import Histogram, OpenHistogram
from cutline.mechanisms.adaptive.choosers import GapArgmax, GapExponential, Preference
from cutline.mechanisms.adaptive.hinted import HintedTopK
from cutline.mechanisms.adaptive.stable_top_k import StableTopK
from cutline.privacy import Adjacency, Cost
from cutline.verify.check import Check, Subject
from cutline.verify.suites.mechanisms.stable_top_k import GENTLE, STEEP, AtZeroTest
from cutline.verify.suites.shared import UnderReplace, controls, holds

_MAX_K = 4
# Whether k is chosen by argmax, the hint, whether the tests are gentle, and the universe.
_CASES = (
    (False, 2, False, "open 4 x 6"),
    (True, 2, False, "open 4 x 6"),
    (False, 4, False, "open 3 x 6"),  # a hint past the last item
    (True, 1, True, "open 2 x 24"),
    (False, 2, False, "closed 3 x 6"),
    (True, 3, False, "closed 3 x 6"),  # as many as there are
)


def checks() -> list[Check]:
    """Return the checks of the hinted form; it belongs to StableTopK."""
    found = [
        replace(
            holds(f"hint {hint}, {'argmax' if argmax else 'em'}", built, size, max_k=_MAX_K), mechanism=StableTopK.name
        )
        for adjacency in Adjacency
        for argmax, hint, gentle, size in _CASES
        for built in [_hinted(argmax, hint, gentle, adjacency)]
    ]
    right = _hinted(False, 2, False, Adjacency.ADD_REMOVE)
    wrong: dict[str, Subject] = {
        "a hidden cut as tomorrow's hint": HiddenHint(first=_hinted(True, 2, False, Adjacency.ADD_REMOVE).then),
        "a hint tested at q > 0": replace(right, test=AtZeroTest(table=STEEP.table)),
        "add-remove constants under replace, hinted": UnderReplace(subject=right),
    }
    return found + controls(StableTopK.name, "open 2 x 6", _MAX_K, wrong)


def _hinted(argmax: bool, hint: int, gentle: bool, adjacency: Adjacency) -> HintedTopK:
    test = GENTLE if gentle else STEEP
    then = StableTopK(
        preference=Preference(max_k=_MAX_K),
        chooser=GapArgmax() if argmax else GapExponential(epsilon=1.0),
        test=test,
        adjacency=adjacency,
    )
    return HintedTopK(hint=hint, test=test, then=then, adjacency=adjacency)


@dataclass(frozen=True, slots=True, kw_only=True)
class HiddenHint:
    """Two days: argmax today, and its cut, shown or not, as the hint of a day on which every gap is large."""

    first: StableTopK

    @property
    def cost(self) -> Cost:
        return self.first.cost + self._tomorrow(1).cost

    def law(self, histogram: Histogram, /) -> Mapping[Any, float]:
        # Nobody in today's data is there tomorrow: tomorrow's histogram is the same for all of them.
        steep = OpenHistogram.from_counts({f"item {rank}": 60 - 12 * rank for rank in range(_MAX_K)}, max_k=_MAX_K)
        cut = int(np.argmax(histogram.gaps(_MAX_K))) + 1
        return {
            (today, tomorrow): p * q
            for today, p in self.first.law(histogram).items()
            for tomorrow, q in self._tomorrow(cut).law(steep).items()
        }

    def _tomorrow(self, cut: int) -> HintedTopK:
        assert self.first.test is not None  # noqa: S101 - for the type checker; argmax is tested
        return HintedTopK(hint=cut, test=self.first.test, then=self.first, adjacency=self.first.adjacency)
