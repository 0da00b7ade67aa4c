r"""A bit table for a sum of weighted votes: one person moves it by some eighths, and pays by the square of the weight.

A user with many items may give each a small weight instead of keeping only a few. If the weights are multiples of 1/8 and
their squares sum to at most D, the user costs what D whole votes cost, provided that the table obeys its bound at every step of
1 to 8 eighths, each in proportion to its square.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import ClassVar, Self

import numpy as np

from cutline.arrays import FloatArray, IntArray
from cutline.errors import ParameterError
from cutline.privacy.curves.base import check_order, check_positive, check_whole, register
from cutline.privacy.curves.bit_table import ALMOST_ONE, CoinPairs, Guesses, rise
from cutline.rounding import fraction_down, fraction_up

_INSIDE = (1 - 1e-9, 1 - 1e-6)  # how far the greedy steps stay below the bound, so that it can be proved
_LONGEST = 1_000_000


@register
@dataclass(frozen=True, slots=True, kw_only=True)
class WeightedTable:
    r"""A nondecreasing sequence of coin biases at multiples of 1/parts of a vote, constant above the stored range.

    **Privacy.** A step of j parts costs at most ``(j/parts)^2`` times `rdp`, and an item that j parts bring above the start
    goes out with probability at most ``(j/parts)^2`` times `outside` [docs/proofs/table-threshold.md].

    Examples
    --------
    >>> table = WeightedTable.stability(order=8.0, rdp=0.25, delta=1e-6)
    >>> [f"{p:.4f}" for p in table(np.array([7, 39, 79, 119, 159]))]
    ['0.0000', '0.0002', '0.0263', '0.3333', '0.8691']
    >>> 0.2499 < table.rdp(8.0) <= 0.25 and table.outside <= 1e-6
    True
    """

    kind: ClassVar[str] = "weighted-table"
    values: tuple[float, ...]
    parts: int = 8

    def __post_init__(self) -> None:
        array = np.asarray(self.values, dtype=np.float64)
        check_whole("parts", self.parts, "Try parts=8.")
        if array.size == 0 or not np.all((array >= 0) & (array <= 1)) or np.any(np.diff(array) < 0):
            rule = "a weighted table must be a nondecreasing sequence of probabilities"
            raise ParameterError(rule, "", "Build it with WeightedTable.stability.")

    @classmethod
    def stability(cls, *, order: float, rdp: float, delta: float, parts: int = 8) -> Self:
        """Build the table that is greedy under all steps of 1 to ``parts`` parts; ``rdp`` and ``delta`` are of a whole vote."""
        check_order(order)
        check_positive("rdp", rdp)
        check_positive("delta", delta)
        if parts * math.sqrt(2 * order / rdp) > _LONGEST / 8 or not delta < 1:
            got = f"order={order:.3g}, rdp={rdp:.3g}, delta={delta:.3g}"
            raise ParameterError(f"a table must fit in {_LONGEST} values", got, "Raise epsilon or delta.")
        for inside in _INSIDE:
            table = cls(values=_greedy(order, inside * rdp, delta, parts), parts=parts)
            if table.rdp(order) <= rdp and table.outside <= delta:
                return table
        raise ParameterError("a weighted table must keep its bound", f"rdp={rdp:.3g}", "Raise epsilon.")

    def __call__(self, n: IntArray) -> FloatArray:
        """Return the probability of "yes" at each number of parts above the start."""
        index = np.clip(np.asarray(n), 0, len(self.values) - 1)
        return np.asarray(self.values, dtype=np.float64)[index]

    @property
    def start(self) -> int:
        """Where the table begins, as for a `BitTable`."""
        return 0

    @property
    def outside(self) -> float:
        """The chance of an item that a whole vote brought above the start, or more for less; rounded up."""
        first = enumerate(self.values[: self.parts], 1)
        return fraction_up(max(Fraction(p) * self.parts**2 / j**2 for j, p in first))

    def rdp(self, order: float) -> float:
        """Return the largest divergence of a step, for a whole vote: over all steps and both directions, rounded up.

        Nothing is said of pure DP. A use stands for up to ``parts^2`` smaller steps, and though their epsilons add up to no
        more than its own, the optimal composition of pure steps would count one of them: too few for votes of 7/8, say.
        """
        return math.inf if check_order(order) == math.inf else _dearest(self.values, self.parts, order)

    def __repr__(self) -> str:
        return f"WeightedTable({len(self.values)} values in {self.parts} parts)"


@lru_cache(maxsize=1024)
def _dearest(values: tuple[float, ...], parts: int, order: float) -> float:
    array, worst = np.asarray(values, dtype=np.float64), Fraction(0)
    for j in range(1, min(parts, len(values) - 1) + 1):
        low, high = array[:-j], array[j:]
        pairs = CoinPairs.of(np.concatenate([high, low]), np.concatenate([low, high]))
        bound = float(pairs.divergence(order).max(initial=0.0))
        if not math.isfinite(bound):
            return math.inf
        worst = max(worst, Fraction(bound) * parts**2 / j**2)
    return fraction_up(worst)


def _greedy(order: float, rdp: float, delta: float, parts: int) -> tuple[float, ...]:
    """Return the values one after the other, each as large as every value up to one vote below it allows."""
    guesses = [Guesses() for _ in range(parts)]
    values: list[float] = []
    while len(values) < _LONGEST:
        place = len(values)
        p = fraction_down(Fraction(delta) * (place + 1) ** 2 / parts**2) if place < parts else ALMOST_ONE
        for j in range(1, min(place, parts) + 1):
            before = values[-j]
            allowed = rdp * (j / parts) ** 2
            if before < ALMOST_ONE:
                # Next to 1 a float's last bit is much of the chance of "no": down.
                p = min(p, math.nextafter(rise(before, 1 - before, order, allowed, guesses[j - 1])[0], 0))
        values.append(max(p, values[-1]) if values else p)
        if place > parts and values[-1] == values[-1 - parts]:
            break  # a constant tail is free
    return tuple(values)
