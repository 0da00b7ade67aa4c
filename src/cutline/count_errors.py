r"""How far noisy counts may be from the true ones: a standard deviation that grows with the set, and an interval of 95 %.

The noise of a set of k items has ``sqrt(k)`` times the standard deviation that one item would have, because one person can move
k counts at once. So a set of any size costs the same, and the noise is that of the items that went out, not of all that might
have gone out [docs/proofs/noisy-counts.md].
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Self

LEVEL = 0.95
_DEVIATIONS = 1.9599639845400545  # the standard normal law has 95 % of its mass within so many


def spread(sigma: float, items: int) -> float:
    """Return ``sigma * sqrt(items)``, rounded up: with less noise than that, the set would cost more than one item.

    Examples
    --------
    >>> spread(13.5, 4), spread(1.0, 2) ** 2 > 2
    (27.0, True)
    """
    wanted = Fraction(sigma) ** 2 * items
    root = sigma * math.sqrt(items)
    while Fraction(root) ** 2 < wanted:
        root = math.nextafter(root, math.inf)
    return root


@dataclass(frozen=True, slots=True, kw_only=True)
class CountError:
    """The error of every noisy count of one release.

    Examples
    --------
    >>> error = CountError(deviation=27.0)
    >>> error.half_width, error.interval(632), error.interval(-12)
    (53, (579, 685), (0, 41))
    >>> print(error.in_words(632), error.in_words(-12), sep="; ")
    632 ± 53; at most 41 (-12 ± 53)
    """

    deviation: float

    @classmethod
    def of_release(cls, described: Mapping[str, Any], items: int) -> Self:
        """Return the error of the counts of so many items, from the public parameters that a release was made with."""
        if "sigma" in described:  # as kept until 0.1: the same for every set
            return cls(deviation=described["sigma"])
        return cls(deviation=spread(described["sigma_of_one"], min(items, described.get("moved", items))))

    @property
    def half_width(self) -> int:
        """How far the noise reaches at most, 95 times in 100, as a whole number of users."""
        # The discrete law has no more mass beyond a whole number than the normal law has beyond it.
        return math.ceil(_DEVIATIONS * self.deviation)

    def interval(self, count: int) -> tuple[int, int]:
        """Return the whole numbers that cover the true count, 95 times in 100 for each count alone; none is below 0."""
        return max(0, count - self.half_width), max(0, count + self.half_width)

    def in_words(self, count: int) -> str:
        """Return the count with its error; of a count below 0, which no log has, what it says about the true one."""
        noisy = f"{count:,} ± {self.half_width:,}"
        return noisy if count >= 0 else f"at most {self.interval(count)[1]:,} ({noisy})"

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {"level": LEVEL, "plus_minus": self.half_width, "deviation": self.deviation}
