r"""The privacy profile of coins: for each epsilon, how much more often than e^epsilon allows they answer "yes" or "no"."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cutline.arrays import FloatArray

_FARTHEST = 300.0  # the largest epsilon that is looked at
_PROFILE_BLOCK = 128
_MARGIN = 2.0**-45  # far more than the rounding of a divergence and a scale of 1


class Coins(NamedTuple):
    """Chances of "yes" and of "no", both with all their digits: where one is close to 1, the other is not its difference."""

    yes: FloatArray
    no: FloatArray


def coin_profile(low: Coins, high: Coins, epsilons: FloatArray) -> FloatArray:
    """Return, for each epsilon, the largest hockey-stick divergence over pairs of coins, both ways."""
    scale = np.exp(np.minimum(np.asarray(epsilons, dtype=np.float64), _FARTHEST))  # a profile only falls beyond
    best: FloatArray = np.maximum(1 - scale, 0.0)
    for i in range(0, len(scale), _PROFILE_BLOCK):
        some, found = scale[i : i + _PROFILE_BLOCK], best[i : i + _PROFILE_BLOCK]
        for a, b in ((low, high), (high, low)):
            # From the first scale to the last no divergence grows, rounded or not, and none falls faster than the scale
            # grows, up to rounding: most pairs are below the largest, or below what was found, wherever one looks.
            start, end = some.min(), some.max()
            first, last = _sticks(a, b, start), _sticks(a, b, end)
            kept = (first >= last.max(initial=0.0)) & (first > found.min())
            kept &= last + end >= first.max(initial=0.0) + start - _MARGIN * max(1.0, end)
            order = np.flatnonzero(kept)
            for j in range(0, len(order), _PROFILE_BLOCK):
                pairs = order[j : j + _PROFILE_BLOCK, None]
                one, other = (Coins(coin.yes[pairs], coin.no[pairs]) for coin in (a, b))
                np.maximum(found, _sticks(one, other, some).max(axis=0), out=found)
    return best


def _sticks(a: Coins, b: Coins, scale: FloatArray) -> FloatArray:
    """Return the hockey-stick divergence of every pair at a scale; of pairs in a column, at every scale of a row."""
    stick: FloatArray = np.maximum(a.yes - scale * b.yes, 0.0)
    stick += np.maximum(a.no - scale * b.no, 0.0)
    return stick
