r"""Exact draws from random bits: a law inverted at a uniform real, coins, whole numbers below a bound, and subsets.

`invert` is behind all laws on reals. Let U be uniform on [0, 1), an infinite string of bits, and 0 <= b_1 <= ... <=
b_{G-1} <= 1 the exact, real boundaries of a law on G outcomes; the outcome is the number of boundaries at or below U.
Nothing here ever rounds U or a boundary:

- **Fast path.** The first 64 bits W put U in [W/2^64, (W+1)/2^64). Float boundaries that are certain to be within
  `_band` of the real ones decide, unless that interval comes within the band of one of them.
- **Refinement.** W is kept, 64 more bits are appended, and the boundaries are enclosed in balls (`flint.arb`) at twice
  the precision, until every comparison is certain. W is never drawn again: that would favour outcomes far from
  boundaries and lose those narrower than the band.

So the law of the outcome is the mathematical law, an outcome rarer than 2^-64 included. Refinement ends with
probability one, because a boundary is a single point. Ball arithmetic is right at any precision; should another thread
change flint's global precision meanwhile, balls are wider or narrower but never wrong, and at worst one more round is
needed.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial
from itertools import accumulate
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from flint import arb, fmpq, fmpz

from cutline.arrays import BoolArray, FloatArray, IntArray
from cutline.errors import ParameterError
from cutline.rounding import working_precision
from cutline.sampling.source import Source, resolve

Enclose: TypeAlias = Callable[[int, int], Sequence[Any]]
"""``enclose(row, precision)``: balls around the G - 1 inner boundaries of that row."""

WORD_BITS = 64
_CHUNK = 32_768  # the buffers of one chunk stay in the cache: several passes cost about as much as one
_HEAD_BITS = 62  # p * 2^62 fits in a signed 64-bit integer for p = 1 too, so 1 needs no case of its own
_HOPELESS_PRECISION = 2**20  # a ball that is still infinite here is a broken law, not an unlucky draw


def invert(boundaries: FloatArray, enclose: Enclose, *, source: Source) -> IntArray:
    r"""Draw one outcome 0..G-1 per row of a batch of laws.

    Parameters
    ----------
    boundaries
        The inner boundaries b_1 <= ... <= b_{G-1} of each row, shape (rows, G - 1), nondecreasing, within 4 gamma of
        the real ones, gamma = 2^-40 + G 2^-53. It is enough that each weight has relative error 2^-40 and that they are
        summed one after the other: sum and total then have relative error (1 + 2^-40)(1 + 2^-53)^(G-1) - 1 < 1.01 gamma
        each, so the quotient is off by less than 2.1 gamma, and what underflows by far less than the rest of 4 gamma.
    enclose
        Gives balls around the same boundaries at a precision. It is called with flint's precision already set.
    source
        One word per row is drawn at once; a row in need of refinement draws one word a round. One outcome draws none.

    Raises
    ------
    ParameterError
        If a boundary is not a number, or the balls stay infinite at any precision.
    """
    rows, inner = boundaries.shape
    if inner == 0 or rows == 0:
        return np.zeros(rows, dtype=np.int64)
    if np.isnan(boundaries).any():
        raise ParameterError("boundaries of a law must be numbers", "NaN", "Check the weights or probabilities.")
    words = source.words(rows)
    band, low = _band(inner + 1), words * 2.0**-WORD_BITS
    outcomes: IntArray = np.sum(boundaries < (low - band)[:, None], axis=1, dtype=np.int64)
    following = boundaries[np.arange(rows), np.minimum(outcomes, inner - 1)]
    certain = (outcomes == inner) | (low + (band + 2.0**-WORD_BITS) < following)
    for row in np.flatnonzero(~certain).tolist():
        outcomes[row] = _refine(int(words[row]), row, enclose, source)
    return outcomes


def _band(groups: int) -> float:
    """Return how far a comparison of floats may be off: 4 gamma, and 2^-52 for rounding W and the sums."""
    gamma = 2.0**-40 + groups * 2.0**-53
    return 4 * gamma + 2.0**-52


def _refine(word: int, row: int, enclose: Enclose, source: Source) -> int:
    """Append words to ``word`` until balls around the row's boundaries leave no doubt."""
    bits, precision = WORD_BITS, 2 * WORD_BITS
    while True:
        word = word << WORD_BITS | int(source.words(1)[0])
        bits, precision = bits + WORD_BITS, 2 * precision
        # At least twice as many digits as bits: doubt comes from U and hardly ever from the balls. Scaling
        # by 2^bits moves no digit, so nothing is lost by comparing with whole numbers.
        with working_precision(precision):
            scale, low, high = arb(1 << bits), arb(word), arb(word + 1)
            balls = [ball * scale for ball in enclose(row, precision)]
            below = sum(1 for ball in balls if ball <= low)
            above = sum(1 for ball in balls if ball >= high)
        if below + above == len(balls):
            return below
        if precision >= _HOPELESS_PRECISION and not all(ball.is_finite() for ball in balls):
            raise ParameterError(
                "enclosures of a law must become finite as the precision grows",
                f"an infinite ball at {precision} bits",
                "Check the callable that encloses the probabilities.",
            )


def bernoulli(probabilities: npt.ArrayLike, *, rng: Source | None = None) -> BoolArray:
    r"""Answer yes with probability exactly p, for an array of floats p within [0, 1]; one word is drawn per entry.

    A float is a dyadic number a / 2^e. The first 62 bits of U are compared with floor(p 2^62): smaller is yes, larger
    is no, both for certain. On a tie the comparison goes on in whole numbers, with the word's last 2 bits and then with
    further words until it is settled; e may be as large as 1074.

    Raises
    ------
    ParameterError
        If an entry is NaN or outside [0, 1], or the type does not convert to float64 exactly.

    Examples
    --------
    >>> bernoulli([0.0, 1.0]).tolist()
    [False, True]
    """
    source = resolve(rng)
    array = _as_floats(probabilities)
    flat = array.reshape(-1)
    answers = np.empty(flat.shape, dtype=np.bool_)
    size = min(_CHUNK, flat.size)
    scaled = np.empty(size)
    heads = np.empty(size, dtype=np.int64)
    bits = np.empty(size, dtype=np.uint64)
    for start in range(0, flat.size, _CHUNK):
        chunk = flat[start : start + _CHUNK]
        n = chunk.size
        _check_range(chunk, slack=0.0)
        words = source.words(n)
        np.multiply(chunk, 2.0**_HEAD_BITS, out=scaled[:n])  # exact: a power of two
        np.copyto(heads[:n], scaled[:n], casting="unsafe")  # floor, exactly
        drawn = np.right_shift(words, np.uint64(WORD_BITS - _HEAD_BITS), out=bits[:n]).view(np.int64)
        answer = np.less(drawn, heads[:n], out=answers[start : start + n])
        ties = drawn == heads[:n]
        if ties.any():
            for at in np.flatnonzero(ties).tolist():
                answer[at] = settle(partial(Fraction, float(chunk[at])), int(words[at]), WORD_BITS, source)
    return answers.reshape(array.shape)


def bernoulli_real(
    approximate: npt.ArrayLike, enclose: Callable[[int, int], Any], *, rng: Source | None = None
) -> BoolArray:
    r"""Answer yes with probability exactly p, for real numbers p known through enclosures.

    ``approximate`` is a row of floats within 2^-40 of the probabilities; one that is NaN or farther than 2^-40 from
    [0, 1] is refused. ``enclose(index, precision)`` is a ball (`flint.arb`) around the probability at ``index`` that
    shrinks to it as the precision grows; it is called with flint's precision already set, and almost never.

    Examples
    --------
    >>> from flint import arb
    >>> from cutline.sampling import SeededSource
    >>> near = np.full(10_000, np.exp(-1))
    >>> answers = bernoulli_real(near, lambda index, precision: arb(-1).exp(), rng=SeededSource(0))
    >>> bool(abs(answers.mean() - np.exp(-1)) < 0.02)
    True
    """
    source = resolve(rng)
    boundaries: FloatArray = _as_floats(approximate)
    if boundaries.ndim != 1:
        way_out = "Number the probabilities in a row."
        raise ParameterError("approximate must have one dimension", f"{boundaries.ndim}", way_out)
    _check_range(boundaries, slack=2.0**-40)
    outcomes = invert(boundaries[:, None], lambda row, precision: [enclose(row, precision)], source=source)
    return np.asarray(outcomes == 0)


def _as_floats(values: npt.ArrayLike) -> FloatArray:
    array = np.asarray(values)
    exact = array.dtype.kind in "biu" or (array.dtype.kind == "f" and array.dtype.itemsize <= 8)
    if not exact and array.size:
        rule = "probabilities must be floats of at most 64 bits"
        raise ParameterError(rule, f"{array.dtype}", "Use bernoulli_real for other numbers.")
    return np.ascontiguousarray(array, dtype=np.float64).reshape(array.shape)


def _check_range(values: FloatArray, *, slack: float) -> None:
    with np.errstate(invalid="ignore"):
        # Written so that NaN, which minimum and maximum pass on, fails.
        within = values.size == 0 or (values.min() >= -slack and values.max() <= 1 + slack)
    if not within:
        raise ParameterError("probabilities must be within [0, 1]", "", "NaN is refused too; check how they were made.")


def settle(bias: Callable[[], Any], whole: int, bits: int, source: Source) -> bool:
    """Say whether U < p for a U whose first ``bits`` bits are ``whole``, drawing further words until it is certain.

    ``bias()`` is p: the exact Fraction, or a ball around the real number at flint's present precision.
    """
    while True:
        with working_precision(2 * bits + WORD_BITS):
            value = bias()
            scaled = value * (1 << bits) if isinstance(value, Fraction) else value * arb(1 << bits)
            if scaled >= whole + 1:
                return True
            if scaled <= whole:
                return False
        whole = whole << WORD_BITS | int(source.words(1)[0])
        bits += WORD_BITS


def enclose_rational(value: int | Fraction) -> Any:
    """Return a ball around a rational number at flint's present precision."""
    return arb(fmpq(fmpz(value.numerator), fmpz(value.denominator)))


def integers_below(bounds: npt.ArrayLike, *, rng: Source | None = None) -> IntArray:
    r"""Draw a uniform integer from 0..bound-1 for every bound, from 1 to 2^63 - 1; a bound of 1 draws no bits.

    With t = 2^64 mod bound, the words from t up are a whole number of times ``bound`` many, so the remainder of such a
    word is uniform; a word below t is drawn again, which happens with probability below bound / 2^64 <= 1/2.

    Raises
    ------
    ParameterError
        If a bound is below 1, above 2^63 - 1 or not an integer. Bounds are private: the message shows none.

    Examples
    --------
    >>> integers_below([1, 1]).tolist(), bool(integers_below(6) < 6)
    ([0, 0], True)
    """
    source = resolve(rng)
    array = np.asarray(bounds)
    if array.dtype.kind not in "iu" or (array.size and not (array.min() >= 1 and array.max() < 2**63)):
        rule = "bounds must be integers from 1 to 2**63 - 1"
        raise ParameterError(rule, f"{array.dtype}", "Pass the number of values to choose from.")
    flat = array.reshape(-1).astype(np.uint64)
    drawn = np.zeros(flat.shape, dtype=np.int64)
    pending = np.flatnonzero(flat > 1)
    while pending.size:
        words, bound = source.words(pending.size), flat[pending]
        accepted = words >= (np.uint64(0) - bound) % bound  # unsigned: 0 - bound is 2^64 - bound
        drawn[pending[accepted]] = (words % bound)[accepted]
        pending = pending[~accepted]
    return drawn.reshape(array.shape)


def integer_below(bound: int, *, rng: Source | None = None) -> int:
    """Return a uniform integer from 0..bound-1, for a bound of any size; by rejection, fewer than two tries on average.

    Examples
    --------
    >>> integer_below(1), integer_below(10**40) < 10**40
    (0, True)
    """
    source = resolve(rng)
    if bound < 1:
        raise ParameterError("bounds must be integers of at least 1")
    bits = (bound - 1).bit_length()
    words = -(-bits // WORD_BITS)
    while True:
        drawn = int.from_bytes(source.words(words).astype("<u8").tobytes(), "little") >> (words * WORD_BITS - bits)
        if drawn < bound:
            return drawn


def choice(weights: Sequence[int], *, rng: Source | None = None) -> int:
    """Return an index with probability exactly its share of whole weights of any size.

    Examples
    --------
    >>> choice([0, 10**30, 0])
    1
    """
    sums = list(accumulate(weights))
    return bisect_right(sums, integer_below(sums[-1] if sums else 0, rng=rng))


def subset(size: int, of: int, *, rng: Source | None = None) -> set[int]:
    """Return a uniform subset of 0..of-1 with ``size`` elements [Floyd's algorithm].

    Examples
    --------
    >>> sorted(subset(3, 3)), len(subset(5, 10**9))
    ([0, 1, 2], 5)
    """
    if not 0 <= size <= of:
        raise ParameterError("a subset has at most as many elements as there are")
    drawn: set[int] = set()
    for top, pick in enumerate(integers_below(np.arange(of - size, of) + 1, rng=rng).tolist(), start=of - size):
        drawn.add(top if pick in drawn else pick)
    return drawn
