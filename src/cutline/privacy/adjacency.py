r"""Who is protected: the two neighbouring relations, and every constant that follows from each.

The numbers by which one person can move counts and gaps stand here and nowhere else, so that a mechanism can only be right or
wrong about which relation it was given, never about a constant.
"""

from __future__ import annotations

from enum import StrEnum

import numpy as np
import numpy.typing as npt

from cutline.errors import ParameterError, shortened


class Adjacency(StrEnum):
    r"""A neighbouring relation between two logs.

    ``ADD_REMOVE``: one user joins or leaves; all counts move in one direction, by 0 or 1.
    ``REPLACE``: one voter's whole ballot changes; each count moves by -1, 0 or +1.

    Examples
    --------
    >>> Adjacency.ADD_REMOVE.gap_range, Adjacency.REPLACE.gap_range
    (2, 4)
    >>> Adjacency.REPLACE.distance(np.array([0, 2, 3, 4, 5])).tolist()
    [0, 0, 1, 1, 2]
    """

    ADD_REMOVE = "add-remove"
    REPLACE = "replace"

    @classmethod
    def parse(cls, name: Adjacency | str) -> Adjacency:
        """Return the relation of that name, or refuse it in our words."""
        try:
            return cls(name)
        except ValueError:
            raise ParameterError(
                "adjacency must be add-remove or replace",
                shortened(name),
                "Logs of users take add-remove, ballots of teachers replace.",
            ) from None

    @property
    def count_range(self) -> int:
        """How far apart the changes of two counts can be (range of the exponential mechanism on counts)."""
        return 1 if self is Adjacency.ADD_REMOVE else 2

    @property
    def gap_change(self) -> int:
        """How far one gap can move; also the largest gap at which the top set can differ between neighbours."""
        return self.count_range

    @property
    def gap_range(self) -> int:
        """How far apart the changes of two gaps can be (range of the exponential mechanism on gaps)."""
        return 2 * self.gap_change

    @property
    def protects(self) -> str:
        """The protected change, in words for a guarantee."""
        return "one user joining or leaving" if self is Adjacency.ADD_REMOVE else "one voter's whole ballot changing"

    def distance(self, gaps: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return the distance to instability of the top set with this gap below it; 1-Lipschitz, 0 where unstable."""
        # ceil((q - c)/c) for the gap change c, kept in integers.
        change = self.gap_change
        return np.maximum(0, -((change - gaps) // change))

    def margin_distance(self, margins: npt.NDArray[np.int64], *, unit: int) -> npt.NDArray[np.int64]:
        """Return the distance until another k could win; ``margins`` are in multiples of 1/unit."""
        change = self.gap_range * unit
        return np.maximum(0, -((change - margins) // change))
