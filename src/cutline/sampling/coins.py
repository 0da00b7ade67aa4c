r"""Many exact coins whose biases come from one short table: sixteen bits each, and more only where those leave doubt.

A vote over millions of cells tosses coins of a few hundred different biases. What is needed of a bias to read sixteen bits of U
is worked out once per *entry* of the table: ``head = floor(p 2^16)``. A cell whose sixteen bits W are below its entry's
head is a certain yes, above it a certain no, and at it (one cell in 65,536) U's next bits are drawn and compared with p itself:
in whole numbers for a float, which is a dyadic number; in balls (`flint.arb`) for a real number. W is kept, never drawn again,
so the answer is that of the comparison U < p for one infinite string of bits U: the law is exactly Bernoulli(p).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Self, TypeAlias

import numpy as np
import numpy.typing as npt
from flint import arb, ctx

from cutline.errors import ParameterError
from cutline.sampling.inversion import WORD_BITS, FloatArray
from cutline.sampling.source import Source, resolve

BoolArray: TypeAlias = npt.NDArray[np.bool_]
Heads: TypeAlias = npt.NDArray[np.uint16]
Bias: TypeAlias = Callable[[int], Any]
"""``bias(entry)``: the exact Fraction, or a ball around the real number at flint's present precision."""

_HEAD_BITS = 16
_PER_WORD = WORD_BITS // _HEAD_BITS
_CHUNK = 1 << 16  # cells whose buffers stay in the cache
_ERROR = 2.0**-40  # how far approximations of reals may be off


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Coins:
    r"""A table of biases, ready to be tossed in bulk.

    Parameters
    ----------
    heads
        ``floor(p 2^16)`` of every entry; 65535 also for p = 1, whose last sixteenth is settled like any doubt.
    bias
        Gives an entry's bias exactly, or by enclosures.

    Examples
    --------
    >>> from cutline.sampling import SeededSource
    >>> coins = Coins.of_floats([0.0, 0.25, 1.0])
    >>> tossed = coins.toss(np.tile([0, 1, 2], (100_000, 1)), rng=SeededSource(0))
    >>> [f"{share:.2f}" for share in tossed.mean(axis=0)]
    ['0.00', '0.25', '1.00']
    """

    heads: Heads
    bias: Bias

    @classmethod
    def of_floats(cls, probabilities: npt.ArrayLike) -> Self:
        """Take floats within [0, 1], each of them an exact number."""
        array = np.asarray(probabilities, dtype=np.float64)
        _check(array, slack=0.0)
        scaled = np.floor(array * 2.0**_HEAD_BITS)  # exact: a power of two
        return cls(heads=_heads(scaled), bias=lambda entry: Fraction(float(array[entry])))

    @classmethod
    def of_reals(cls, approximate: npt.ArrayLike, bias: Bias) -> Self:
        r"""Take real numbers, by floats within 2^-40 of them and by enclosures.

        ``bias(entry)`` is a Fraction where the number is rational, so that refinement can end, and otherwise a ball that
        shrinks as flint's precision grows.
        """
        array = np.asarray(approximate, dtype=np.float64)
        _check(array, slack=_ERROR)
        low, high = (np.floor((array + off) * 2.0**_HEAD_BITS) for off in (-_ERROR, _ERROR))
        for entry in np.flatnonzero(low != high).tolist():
            low[entry] = _exact_head(bias, entry)
        return cls(heads=_heads(low), bias=bias)

    def toss(self, entries: npt.NDArray[Any], *, rng: Source | None = None) -> BoolArray:
        r"""Toss one coin per cell, with the bias of the entry it names.

        Parameters
        ----------
        entries
            Signed integers of any shape; those outside the table take its nearest end.
        rng
            None for the operating system's source. One word per four cells, and one more for a cell in doubt.
        """
        source = resolve(rng)
        flat = np.ascontiguousarray(entries).reshape(-1)
        answers = np.empty(flat.shape, dtype=np.bool_)
        size = min(_CHUNK, flat.size)
        heads = np.empty(size, dtype=np.uint16)
        doubts = np.empty(size, dtype=np.bool_)
        for start in range(0, flat.size, _CHUNK):
            chunk = flat[start : start + _CHUNK]
            n = chunk.size
            drawn = source.words(-(-n // _PER_WORD)).view(np.uint16)[:n]
            np.take(self.heads, chunk, out=heads[:n], mode="clip")
            answer = np.less(drawn, heads[:n], out=answers[start : start + n])
            if np.equal(drawn, heads[:n], out=doubts[:n]).any():
                for at in np.flatnonzero(doubts[:n]).tolist():
                    entry = min(max(int(chunk[at]), 0), len(self.heads) - 1)
                    answer[at] = _settle(self.bias, entry, int(drawn[at]), source)
        return answers.reshape(entries.shape)


def _settle(bias: Bias, entry: int, whole: int, source: Source) -> bool:
    """Compare U, whose first bits are ``whole``, with the bias, drawing further words until it is certain."""
    bits = _HEAD_BITS
    while True:
        with ctx.workprec(2 * bits + WORD_BITS):
            value = bias(entry)
            scaled = value * (1 << bits) if isinstance(value, Fraction) else value * arb(1 << bits)
            if scaled >= whole + 1:
                return True
            if scaled <= whole:
                return False
        whole = whole << WORD_BITS | int(source.words(1)[0])
        bits += WORD_BITS


def _exact_head(bias: Bias, entry: int) -> int:
    """Return the floor of a bias times 2^16 where floats leave it open."""
    precision = WORD_BITS
    while True:
        with ctx.workprec(precision):
            value = bias(entry)
            if isinstance(value, Fraction):
                return int(value * 2**_HEAD_BITS)
            low = (value * arb(1 << _HEAD_BITS)).floor()
            if low.is_exact():
                return int(low.unique_fmpz())
        precision *= 2


def _heads(scaled: FloatArray) -> Heads:
    return np.clip(scaled, 0, 2**_HEAD_BITS - 1).astype(np.uint16)


def _check(values: FloatArray, *, slack: float) -> None:
    if values.ndim != 1 or not values.size or not np.all((values >= -slack) & (values <= 1 + slack)):
        raise ParameterError("a table of coins must be a row of probabilities", "", "NaN is refused too.")
