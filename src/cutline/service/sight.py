r"""What a question would see: the chance that the right items come out, by how far they stand above the rest.

It follows from the mechanism's public parameters alone, so it is shown before anybody pays, and no row is read for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from cutline.errors import CutlineError
from cutline.mechanisms import Mechanism
from cutline.mechanisms.one_gap import FARTHEST, lone_gap, one_gap
from cutline.quote import TopWork

_POINTS = 32  # of the curve; a chance takes a millisecond or two


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """How sharp the eyes of one question are.

    Parameters
    ----------
    mechanism
        What will run.
    cut, max_k, bound
        The histogram that is asked about: ``cut`` items with as many users each, and nobody elsewhere.
    nine_in_ten
        How many users that must be for exactly these items to come out nine times in ten.
    curve
        Pairs of such a number of users and the chance.
    """

    mechanism: Mechanism
    cut: int
    max_k: int
    bound: int | None
    nine_in_ten: int
    curve: tuple[tuple[int, float], ...] = ()

    @classmethod
    def of(cls, work: TopWork) -> Self | None:
        """Return what the work of a question would see; None where no gap is enough, or where it cannot be worked out."""
        mechanism, bound = work.mechanism, work.question.max_items_per_user
        described = mechanism.describe()
        cut = int(described.get("k") or described.get("target") or described.get("min_k") or 1)
        closed = "open" not in mechanism.domains
        try:
            needed = one_gap(mechanism.chance, max_k=work.max_k, k=cut, closed=closed, bound=bound)
            if needed > FARTHEST:
                return None
            blind = cls(mechanism=mechanism, cut=cut, max_k=work.max_k, bound=bound, nine_in_ten=needed)
            sizes = sorted({*np.linspace(1, 1.6 * needed, _POINTS).astype(int).tolist(), needed})
            curve = tuple((size, blind.chance(size)) for size in sizes)
        except (CutlineError, NotImplementedError):
            return None
        return cls(mechanism=mechanism, cut=cut, max_k=work.max_k, bound=bound, nine_in_ten=needed, curve=curve)

    def chance(self, size: int) -> float:
        """Return the chance that exactly the right items come out if they have ``size`` users more than any other."""
        closed = "open" not in self.mechanism.domains
        within = min(max(size, 1), FARTHEST)  # without any gap the right items are not defined
        found = lone_gap(within, k=self.cut, max_k=self.max_k, closed=closed, bound=self.bound)
        return float(self.mechanism.chance(found, self.cut))
