r"""Uses of curves, and what a rule may ask of a bag of them.

A rule turns uses into an epsilon, and `cutline.privacy.cost.Cost` asks every rule. So that neither needs the other, rules are
written against `Composition`, which a cost fulfils.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from cutline.errors import ParameterError
from cutline.privacy.curves.base import Curve, check_probability


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """A curve with the probability outside which it holds, and how many times it is used."""

    curve: Curve
    delta: float = 0.0
    times: int = 1

    def __post_init__(self) -> None:
        check_probability("delta", self.delta)
        if isinstance(self.times, bool) or not isinstance(self.times, int | np.integer) or self.times < 1:
            raise ParameterError("times must be a whole number of at least 1", f"times={self.times}", "")
        object.__setattr__(self, "times", int(self.times))


class Composition(Protocol):
    """Uses composed with each other, in any order and adaptively."""

    @property
    def uses(self) -> tuple[Use, ...]:
        """The uses, equal ones merged."""
        ...

    @property
    def delta(self) -> float:
        """The sum of the uses' deltas, rounded up."""
        ...

    def rdp(self, order: float) -> float:
        """Return the sum of the curves at ``order``, rounded up."""
        ...
