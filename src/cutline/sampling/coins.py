r"""Many exact coins whose biases come from one short table: eight bits each, and more only where those leave doubt.

A vote over millions of cells tosses coins of a few hundred different biases. What is needed of a bias p to read the
first bits of U is worked out once per *entry* of the table: the first 8 bits of p, and the 16 that follow. A cell whose
first 8 bits W of U are below those of p is a certain yes, above them a certain no. At them (one cell in 256) the next
16 bits of U are drawn and compared with the next 16 of p; and where those agree too (one cell in 2^24), with p itself
and as many bits of U as it takes: in whole numbers for a float, which is a dyadic number; in balls (`flint.arb`) for a
real number. Bits are kept, never drawn again, so the answer is that of the comparison U < p for one infinite string of
bits U: the law is exactly Bernoulli(p).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any, Self, TypeAlias

import numpy as np
import numpy.typing as npt
from flint import arb

from cutline.arrays import BoolArray, FloatArray
from cutline.errors import ParameterError
from cutline.rounding import working_precision
from cutline.sampling.draws import WORD_BITS, settle
from cutline.sampling.source import Source, resolve

Bias: TypeAlias = Callable[[int], Any]
"""``bias(entry)``: the exact Fraction, or a ball around the real number at flint's present precision."""

_HEAD_BITS, _NEXT_BITS = 8, 16
_BOTH_BITS = _HEAD_BITS + _NEXT_BITS
_CHUNK = 1 << 16  # cells whose buffers stay in the cache
_HOPELESS_PRECISION = 1 << 14
_ERROR = 2.0**-40  # how far approximations of reals may be off


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Coins:
    r"""A table of biases, ready to be tossed in bulk.

    The first 8 bits of every bias, and the 16 after them, are all ones for p = 1, whose last piece is settled like any
    doubt.

    Examples
    --------
    >>> from cutline.sampling import SeededSource
    >>> coins = Coins.of_floats([0.0, 0.25, 1.0])
    >>> tossed = coins.toss(np.tile([0, 1, 2], (100_000, 1)), rng=SeededSource(0))
    >>> [f"{share:.2f}" for share in tossed.mean(axis=0)]
    ['0.00', '0.25', '1.00']
    """

    first: npt.NDArray[np.uint8]
    following: npt.NDArray[np.uint16]
    bias: Bias

    @classmethod
    def of_floats(cls, probabilities: npt.ArrayLike) -> Self:
        """Take floats within [0, 1], each of them an exact number."""
        array = np.asarray(probabilities, dtype=np.float64)
        _check(array, slack=0.0)
        whole = np.floor(array * 2.0**_BOTH_BITS)  # exact: a power of two
        return cls._split(whole, lambda entry: Fraction(float(array[entry])))

    @classmethod
    def of_reals(cls, approximate: npt.ArrayLike, bias: Bias) -> Self:
        r"""Take real numbers, by floats within 2^-40 of them and by enclosures.

        ``bias(entry)`` is a Fraction where the number is rational, so that refinement can end, and otherwise a ball
        that shrinks as flint's precision grows.
        """
        array = np.asarray(approximate, dtype=np.float64)
        _check(array, slack=_ERROR)
        # Next to 0 and 1 there is no doubt: a bias is within [0, 1], whatever its approximation is off by.
        last = 2.0**_BOTH_BITS - 1
        low, high = (np.clip(np.floor((array + off) * (last + 1)), 0, last) for off in (-_ERROR, _ERROR))
        for entry in np.flatnonzero(low != high).tolist():
            low[entry] = _exact_bits(bias, entry)
        return cls._split(low, bias)

    @classmethod
    def _split(cls, whole: FloatArray, bias: Bias) -> Self:
        """Take the first bits of every bias as one whole number."""
        bits = np.clip(whole, 0, 2**_BOTH_BITS - 1).astype(np.int64)
        following = (bits & (2**_NEXT_BITS - 1)).astype(np.uint16)
        return cls(first=(bits >> _NEXT_BITS).astype(np.uint8), following=following, bias=bias)

    def toss(self, entries: npt.NDArray[Any], *, rng: Source | None = None) -> BoolArray:
        r"""Toss one coin per cell, with the bias of the entry it names; entries outside the table take its nearest end.

        One word is drawn per eight cells, then one per four cells in doubt, then one at a time for those few still in
        doubt.
        """
        source = resolve(rng)
        flat = np.ascontiguousarray(entries).reshape(-1)
        answers = np.empty(flat.shape, dtype=np.bool_)
        size = min(_CHUNK, flat.size)
        first = np.empty(size, dtype=np.uint8)
        equal = np.empty(size, dtype=np.bool_)
        doubts = []
        for start in range(0, flat.size, _CHUNK):
            chunk = flat[start : start + _CHUNK]
            n = chunk.size
            drawn = source.words(-(-n * _HEAD_BITS // WORD_BITS)).view(np.uint8)[:n]
            np.take(self.first, chunk, out=first[:n], mode="clip")
            np.less(drawn, first[:n], out=answers[start : start + n])
            doubts.append(np.flatnonzero(np.equal(drawn, first[:n], out=equal[:n])) + start)
        if doubts:
            at = np.concatenate(doubts)
            answers[at] = self._look_closer(flat[at], source)
        return answers.reshape(entries.shape)

    def _look_closer(self, entries: npt.NDArray[Any], source: Source) -> BoolArray:
        """Settle cells whose first 8 bits are those of their bias."""
        entries = np.clip(entries.astype(np.int64), 0, len(self.first) - 1)
        drawn = source.words(-(-entries.size * _NEXT_BITS // WORD_BITS)).view(np.uint16)[: entries.size]
        following = self.following[entries]
        answers: BoolArray = drawn < following
        for at in np.flatnonzero(drawn == following).tolist():
            entry = int(entries[at])
            whole = int(self.first[entry]) << _NEXT_BITS | int(drawn[at])
            answers[at] = settle(partial(self.bias, entry), whole, _BOTH_BITS, source)
        return answers


def _exact_bits(bias: Bias, entry: int) -> int:
    """Return the first bits of a bias where floats leave them open."""
    precision = WORD_BITS
    while True:
        with working_precision(precision):
            value = bias(entry)
            if isinstance(value, Fraction):
                return int(value * 2**_BOTH_BITS)
            whole = (value * arb(1 << _BOTH_BITS)).floor()
            if whole.is_exact():
                return int(whole.unique_fmpz())
        precision *= 2
        if precision > _HOPELESS_PRECISION:
            rule = "a real bias must not sit on a multiple of 2**-24"
            raise ParameterError(rule, "", "Give a rational bias as a Fraction.")


def _check(values: FloatArray, *, slack: float) -> None:
    if values.ndim != 1 or not values.size or not np.all((values >= -slack) & (values <= 1 + slack)):
        raise ParameterError("a table of coins must be a row of probabilities", "", "NaN is refused too.")
