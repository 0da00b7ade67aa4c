r"""What the analyst would like k to be, from public knowledge alone: a window, a target, a clip.

Scores are whole multiples of 2^-20, so that one person moves them by exactly what the proofs say and by no rounding more.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cutline.arrays import IntArray
from cutline.errors import ParameterError
from cutline.histogram import check_max_k

UNIT = 1 << 20
_LARGEST = 1 << 40  # scores stay within int64: counts are below 2^42


@dataclass(frozen=True, slots=True, kw_only=True)
class Preference:
    r"""A public regulariser of the gap: ``score(k) = min(gap_k, clip) - weight * |k - target|`` for min_k <= k <= max_k.

    Clipping keeps the score 1-Lipschitz in the gap; with the clip at the gap that surely passes the test, a preference for
    a certain k can win over the largest raw gap, which on long-tailed logs sits at the first ranks.

    Parameters
    ----------
    min_k, max_k
        The window k is chosen from; all of it, however few items were seen.
    target, weight
        The k wished for, and how much gap one rank of distance is worth. The weight is kept as a multiple of 2^-20.
    clip
        The gap above which more gap is worth nothing.

    Examples
    --------
    >>> preference = Preference(max_k=3, target=2, weight=0.5, clip=5)
    >>> (preference.scores(np.array([[9, 4, 1]])) / UNIT).tolist()
    [[4.5, 4.0, 0.5]]
    """

    max_k: int
    min_k: int = 1
    target: int | None = None
    weight: float = 0.0
    clip: int | None = None

    def __post_init__(self) -> None:
        check_max_k(self.max_k)
        if not _whole(self.min_k) or not 1 <= self.min_k <= self.max_k:
            raise ParameterError(
                "min_k must be a whole number from 1 to max_k",
                f"min_k={self.min_k}, max_k={self.max_k}",
                "Lower min_k or raise max_k.",
            )
        if not 0 <= self.weight * self.max_k < _LARGEST:
            raise ParameterError(
                "weight must be at least 0 and not huge",
                f"weight={self.weight}",
                "Try a few users per rank, like 2.",
            )
        if self.weight and self.target is None:
            raise ParameterError("a weight needs a target", f"weight={self.weight}", "Pass target=k.")
        if self.target is not None and (not _whole(self.target) or not 1 <= self.target <= self.max_k):
            raise ParameterError(
                "target must be a whole number from 1 to max_k",
                f"target={self.target}, max_k={self.max_k}",
                "",
            )
        if self.clip is not None and (not _whole(self.clip) or not 1 <= self.clip < _LARGEST):
            raise ParameterError("clip must be a whole number of at least 1", f"clip={self.clip}", "")
        object.__setattr__(self, "weight", round(self.weight * UNIT) / UNIT)

    @property
    def choices(self) -> npt.NDArray[np.int64]:
        """The values k can take."""
        return np.arange(self.min_k, self.max_k + 1)

    def scores(self, gaps: IntArray) -> IntArray:
        """Return the scores of the choices, in units of 2^-20, for rows of gaps of k = 1..max_k."""
        window = gaps[..., self.min_k - 1 : self.max_k]
        value = (window if self.clip is None else np.minimum(window, self.clip)) * UNIT
        if self.target is None:
            return value
        penalty: IntArray = round(self.weight * UNIT) * np.abs(self.choices - self.target)
        return value - penalty


def _whole(value: object) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)
