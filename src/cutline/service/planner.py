r"""A budget that works backwards: how many questions, how small a gap should each of them see, and so which epsilon."""

from __future__ import annotations

import functools
import math
from typing import Any

from cutline.errors import ParameterError
from cutline.explain import right_at_most
from cutline.ledger import usual_filter
from cutline.mechanisms import StableTopK
from cutline.mechanisms.one_gap import one_gap
from cutline.privacy import Adjacency, Budget

_SMALLEST_EPSILON, _LARGEST_EPSILON = 0.01, 20.0
_USUAL_MAX_K = 100
_CLOSE = 1.01  # how far an epsilon may be above the smallest that is enough
_A_LITTLE_MORE = 1.003


def plan_budget(*, questions: int, gap: int, delta: float = 1e-6) -> dict[str, Any]:
    """Return the smallest epsilon with which so many questions each see a gap of so many users nine times in ten.

    Works backwards from public wishes alone; what is returned is at most a hundredth above the smallest that is enough.
    """
    if not 1 <= questions <= 100_000 or not 1 <= gap <= 10**9:
        raise ParameterError(
            "a plan is for 1 to 100,000 questions and a gap of 1 to a billion users",
            f"questions={questions}, gap={gap}",
            "Try questions=50, gap=500.",
        )
    epsilon = _find_epsilon(questions, gap, delta)
    return {
        "questions": questions,
        "gap": gap,
        "epsilon": epsilon,
        "delta": delta,
        "sees": _seen(epsilon, questions, delta),
        "right_at_most": percent_right(epsilon, delta),
    }


def percent_right(epsilon: float, delta: float) -> float:
    """Return how often, in percent, a guess from even odds whether one person is in the log can be right; rounded up.

    Examples
    --------
    >>> percent_right(1.0, 1e-6), percent_right(0.0, 0.0)
    (73.2, 50.0)
    """
    return math.ceil(round(1000 * right_at_most(epsilon, delta), 6)) / 10


def _find_epsilon(questions: int, gap: int, delta: float) -> float:
    """Search between one epsilon that is not enough and one that is.

    What is seen is nearly inversely proportional to epsilon. So each answer says where to look next, and two or three
    calibrations do, which take a second or two each, where halving takes a dozen.
    """
    low, high, guess = 0.0, math.inf, 24 * questions**0.55 / gap
    while high / max(low, _SMALLEST_EPSILON) > _CLOSE:
        epsilon = math.ceil(min(max(guess, _SMALLEST_EPSILON), _LARGEST_EPSILON) * 1000) / 1000
        if epsilon in (low, high):
            break
        seen = _seen(epsilon, questions, delta)
        if seen <= gap:
            high = epsilon
            if gap >= 1 / (_CLOSE - 1) and seen >= gap / _CLOSE:  # of a smaller gap one user is more than a hundredth
                break
        elif epsilon < _LARGEST_EPSILON:
            low = epsilon
        else:
            raise ParameterError(
                f"a plan stays below epsilon {_LARGEST_EPSILON:g}, above which little is protected",
                f"questions={questions}, gap={gap}",
                "Plan for fewer questions, or for a larger gap.",
            )
        guess = epsilon * seen / gap * _A_LITTLE_MORE
        if low and high < math.inf and not low < guess < high:
            guess = math.sqrt(low * high)
    return high


@functools.lru_cache(maxsize=256)
def _seen(epsilon: float, questions: int, delta: float) -> int:
    """Return the gap that one usual question of such a budget sees nine times in ten."""
    budget = Budget(epsilon=epsilon, delta=delta, releases=questions)
    limits = usual_filter(budget, adjacency=Adjacency.ADD_REMOVE)
    mechanism = StableTopK.calibrate(budget, limits=limits, max_k=_USUAL_MAX_K)
    return one_gap(mechanism.chance, max_k=_USUAL_MAX_K)
