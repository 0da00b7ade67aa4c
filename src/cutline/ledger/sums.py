r"""What is charged: two exact sums, so that books kept for years do not drift.

A charge is two floats, both already rounded up: the cost at the filter's order, and its delta. Sums of floats are kept as
exact fractions. Every float is a whole number divided by a power of two, and so are all sums and differences of floats;
`Fraction` adds and subtracts them without rounding. So the running total is at all times *equal* to the sum of the charges
in force: settling takes off exactly what reserving put on, in any order, and nothing ever falls below the true sum.
Databases keep the fractions as text (``"5/16"``), because a column of floating-point numbers could not hold them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Self

from cutline.errors import BudgetError
from cutline.privacy import Cost, Filter
from cutline.privacy.rounding import fraction_down, fraction_up


@dataclass(frozen=True, slots=True, kw_only=True)
class Sums:
    """A cost at one Rényi order and a delta, or sums of such, without rounding.

    Examples
    --------
    >>> tenth = Sums(rdp=Fraction(0.1), delta=Fraction(1e-7))
    >>> tenth + tenth + tenth - tenth - tenth == tenth  # not so in floating point
    True
    """

    rdp: Fraction = Fraction(0)
    delta: Fraction = Fraction(0)

    @classmethod
    def limits(cls, limits: Filter) -> Self:
        """Return a filter's two limits."""
        return cls(rdp=Fraction(limits.rdp), delta=Fraction(limits.delta))

    @classmethod
    def read(cls, rdp: str, delta: str) -> Self:
        """Read sums back from the books."""
        return cls(rdp=Fraction(rdp), delta=Fraction(delta))

    def written(self, prefix: str) -> dict[str, str]:
        """Return the columns ``<prefix>_rdp`` and ``<prefix>_delta``."""
        return {f"{prefix}_rdp": str(self.rdp), f"{prefix}_delta": str(self.delta)}

    def __add__(self, other: Sums) -> Sums:
        return Sums(rdp=self.rdp + other.rdp, delta=self.delta + other.delta)

    def __sub__(self, other: Sums) -> Sums:
        return Sums(rdp=self.rdp - other.rdp, delta=self.delta - other.delta)

    def within(self, limits: Sums) -> bool:
        """Say whether both sums are within the limits."""
        return self.rdp <= limits.rdp and self.delta <= limits.delta

    def rounded_up(self) -> tuple[float, float]:
        """Return both as floats, for what was spent."""
        return fraction_up(self.rdp), fraction_up(self.delta)

    def rounded_down(self) -> tuple[float, float]:
        """Return both as floats, for what is left."""
        return fraction_down(self.rdp), fraction_down(self.delta)

    def shares(self, limits: Sums) -> tuple[Fraction, Fraction]:
        """Return both as shares of the limits; of a limit of 0 nothing is ever used."""
        return (
            self.rdp / limits.rdp if limits.rdp else Fraction(0),
            self.delta / limits.delta if limits.delta else Fraction(0),
        )


@lru_cache(maxsize=256)
def charge(cost: Cost, order: float) -> Sums:
    """Return what a cost is charged at the filter's order, exactly as its own upward rounding says."""
    rdp, delta = cost.rdp(order), cost.delta
    if not (0 <= rdp < math.inf and 0 <= delta < math.inf):
        raise BudgetError(
            "a cost must be finite at the filter's order to be charged",
            f"rdp={rdp:.3g} at order={order:.3g}, delta={delta:.3g}",
            "Take a mechanism with a finite Rényi curve, calibrated with the dataset's filter.",
        )
    return Sums(rdp=Fraction(rdp), delta=Fraction(delta))
