r"""How sure the ensemble is of each label: the number of ballots that must change before its majority flips."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from cutline.arrays import IntArray


def majorities(counts: IntArray, teachers: int) -> npt.NDArray[np.int8]:
    """Return 1 where more than half of the teachers said yes, and 0 elsewhere."""
    return np.greater(counts, teachers // 2).astype(np.int8)


def confidences(counts: IntArray, teachers: int) -> IntArray:
    r"""Return, for each count, how many ballots must change before the majority flips; at least 1.

    It moves by at most 1 when the count does, and where the majority differs between neighbours it is 1 on both sides
    [docs/proofs/stable-majority.md].

    Examples
    --------
    >>> confidences(np.array([0, 1, 2, 3, 4]), 4).tolist(), confidences(np.array([0, 1, 2, 3, 4, 5]), 5).tolist()
    ([3, 2, 1, 1, 2], [3, 2, 1, 1, 2, 3])
    """
    half = teachers // 2
    return np.where(counts > half, counts - half, half + 1 - counts)
