r"""The exponential mechanism as a finite law: its weights, exact draws from it, and its probabilities.

The weight of group j is ``multiplicity_j * exp(rate * score_j)``, a real number. It is evaluated

- as floats with relative error below 2^-40, fast (`float_weights`): for the draw's fast path;
- as floats with their exponents kept apart, relative error below 2^-48 at any magnitude (`scaled_weights`):
  for laws, and for multiplicities that no float can hold;
- as balls at any precision (`enclose_boundaries`): for the draw's refinement.

All three first subtract the best score of the row *as integers*. The law does not change, the best group weighs at
least its multiplicity, and no digit is lost: exp(rate * 10^9) / exp(rate * (10^9 + 1)) costs as little as exp(-rate).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate
from typing import Any

import numpy as np
import numpy.typing as npt
from flint import arb

from cutline.arrays import FloatArray, IntArray
from cutline.errors import ParameterError
from cutline.sampling.draws import enclose_rational, invert
from cutline.sampling.source import Source, resolve

_SCORE_LIMIT = 2**62  # the difference of two scores fits in 64 bits
_RATE_LIMIT = 2**64  # past it exp(-rate) is 0 beside any multiplicity that fits in memory (below 2^(2^60))
_FRACTION_BITS = 128
_LOG2_E_BITS = 320
# floor(2^320 / ln 2): a constant, so that no thread's precision can spoil it
_LOG2_E = 0x171547652B82FE1777D0FFDA0D23A7D11D6AEF551BAD2B4B1164A2CD9A342648FBC3887EEAA2ED9AC
_LARGEST_PLAIN = 2.0**500
_FLOAT_EXPONENTS = 1200  # 2^-1200 is 0 in float64, with room for a mantissa


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Weights:
    r"""Rows of groups; group j weighs ``multiplicities[j] * exp(rate * scores[j])``.

    Scores are integers below 2^62 in size, shape (rows, groups); they are private, no repr and no message shows one.
    The rate is exact and at least 0; ``Fraction(epsilon) / 2`` keeps a float's value exactly. Multiplicities say how
    many equal members a group has, one each if None, broadcast to the shape of ``scores``: machine integers, or Python
    integers and Fractions of any size (an object array). 0 means impossible; no row is all 0.

    Examples
    --------
    >>> Weights(scores=np.array([[3, 1, 0]]), rate=Fraction(1, 2))
    Weights(rows=1, groups=3)
    """

    scores: IntArray
    rate: Fraction
    multiplicities: npt.NDArray[Any] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "scores", check_scores(self.scores))
        object.__setattr__(self, "rate", _check_rate(self.rate))
        if self.multiplicities is not None:
            checked = _check_multiplicities(self.multiplicities, self.scores.shape)
            object.__setattr__(self, "multiplicities", checked)

    def __repr__(self) -> str:
        rows, groups = self.scores.shape
        return f"Weights(rows={rows}, groups={groups})"


def categorical(weights: Weights, *, rng: Source | None = None) -> IntArray:
    r"""Draw one group per row, with probability exactly its share of the row's weight; one group draws no bits.

    `float_weights` has relative error below 2^-40 per weight and `numpy.cumsum` adds one after the other, which is what
    `cutline.sampling.draws.invert` asks for; cumulative sums of floats of at least 0 never decrease.

    Examples
    --------
    >>> from fractions import Fraction
    >>> from cutline.sampling import SeededSource
    >>> scores = np.tile([0, 5], (10_000, 1))
    >>> draws = categorical(Weights(scores=scores, rate=Fraction(1, 5)), rng=SeededSource(0))
    >>> bool(abs(draws.mean() - 1 / (1 + np.exp(-1))) < 0.02)
    True
    """
    source = resolve(rng)
    rows, groups = weights.scores.shape
    if groups == 1:
        return np.zeros(rows, dtype=np.int64)
    with np.errstate(under="ignore"):
        sums = np.cumsum(float_weights(weights), axis=1)
        boundaries = sums[:, :-1] / sums[:, -1:]
    return invert(boundaries, lambda row, _precision: enclose_boundaries(weights, row), source=source)


def probabilities(weights: Weights) -> FloatArray:
    r"""Return the law of every row, shape (rows, groups), each entry with relative error below 1e-12.

    Entries above 2^-1022 have that accuracy however small they are beside the rest: mantissas and exponents are kept
    apart until the end (`scaled_weights`, relative error 2^-48), and the total is a sum of numbers of at least 0, added
    in pairs, so that its error is a few units of 2^-53 per doubling of the number of groups.

    Examples
    --------
    >>> from fractions import Fraction
    >>> law = probabilities(Weights(scores=np.array([[0, -700]]), rate=Fraction(1)))
    >>> bool(abs(law[0, 1] / np.exp(-700.0) - 1) < 1e-12)
    True
    """
    mantissas, exponents = scaled_weights(weights)
    with np.errstate(under="ignore"):
        totals = np.ldexp(mantissas, exponents).sum(axis=1, keepdims=True)
        return np.asarray(np.ldexp(mantissas / totals, exponents))


def float_weights(weights: Weights) -> FloatArray:
    r"""Return each row's weights up to a common factor, with relative error below 2^-40.

    With x = rate * (score - best): x has three roundings (the difference, the rate, their product), so its absolute
    error is below 3.01 * 745 * 2^-53 < 2^-41.8 wherever exp(x) is not 0 in float64 (x > -745), and exp and the product
    with a machine integer add a few units of 2^-53. What underflows is below 2^63 * 2^-1022, beside a total of at least
    1. Multiplicities without a machine type are rounded once (Python does so correctly) if all are 0 or from 1 to
    2^500, where the same holds; others go through `scaled_weights`, which is better than that.
    """
    counts = weights.multiplicities
    if counts is not None and counts.dtype == object:
        counts = _plain_floats(counts)
        if counts is None:
            mantissas, exponents = scaled_weights(weights)
            with np.errstate(under="ignore"):
                return np.asarray(np.ldexp(mantissas, exponents))
    with np.errstate(under="ignore"):
        values = _below_best(weights).astype(np.float64)
        values *= float(min(weights.rate, Fraction(_RATE_LIMIT)))
        np.exp(values, out=values)
        if counts is not None:
            np.multiply(values, counts, out=values)
    return values


def _plain_floats(counts: npt.NDArray[Any]) -> FloatArray | None:
    """Return exact multiplicities as floats, or None if one is neither 0 nor from 1 to 2^500."""
    try:
        floats = counts.astype(np.float64)
    except OverflowError:
        return None
    plain = ((floats >= 1) & (floats <= _LARGEST_PLAIN)) | (counts == 0)
    return floats if plain.all() else None


def scaled_weights(weights: Weights) -> tuple[FloatArray, npt.NDArray[np.int32]]:
    r"""Return mantissas f and exponents e: the weights are f * 2^e up to a factor common to the row.

    Mantissas are 0 or within [1/2, 4) and the largest exponent of a row is 0, so nothing overflows; exponents below
    -1200 are 0 in float64 and cut there.

    exp(x) = 2^(x / ln 2) with x / ln 2 = n + r, n whole and 0 <= r < 1, in fixed point: rate / ln 2 is rounded once, to
    128 bits after the point, and multiplied by integers below 2^63, so that r is off by less than 2^-63 whatever the
    size of n. Multiplicities are split into f 2^e by one correctly rounded division. The relative error of a weight is
    therefore a few units of 2^-53 (rounding r, exp2, the product), below 2^-48.
    """
    mantissas, exponents = _split(weights.multiplicities)
    binary = _below_best(weights).astype(object) * _rate_over_log2(weights.rate)
    whole = binary >> _FRACTION_BITS
    fraction = (binary - (whole << _FRACTION_BITS)) >> (_FRACTION_BITS - 64)
    mantissas = mantissas * np.exp2(fraction.astype(np.float64) * 2.0**-64)
    exponents = np.broadcast_to(exponents + whole, mantissas.shape)
    possible = mantissas > 0
    # An impossible group must not set the scale: its exponent is put below every other.
    top = np.where(possible, exponents, exponents.min(initial=0)).max(axis=1, keepdims=True)
    exponents = np.where(possible, np.maximum(exponents - top, -_FLOAT_EXPONENTS), -_FLOAT_EXPONENTS)
    return mantissas, exponents.astype(np.int32)


def enclose_boundaries(weights: Weights, row: int) -> list[Any]:
    """Return balls around the inner boundaries of one row, at flint's present precision.

    A boundary behind which only impossible groups lie is exactly 1.
    """
    counts = weights.multiplicities
    scores = _below_best(weights, row)[0].tolist()
    groups = len(scores)
    members = [1] * groups if counts is None else np.broadcast_to(counts, weights.scores.shape)[row].tolist()
    last = max(j for j in range(groups) if members[j])
    powers = {
        score: enclose_rational(weights.rate * score).exp() for score in set(scores)
    }  # equal scores: one exponential
    summands = (powers[score] * enclose_rational(m) for score, m in zip(scores, members, strict=True))
    sums = list(accumulate(summands))
    return [sums[j] / sums[-1] if j < last else arb(1) for j in range(groups - 1)]


def _below_best(weights: Weights, row: int | None = None) -> IntArray:
    """Return score minus the row's best possible score: never above 0, and 0 for impossible groups."""
    rows = slice(None) if row is None else slice(row, row + 1)
    scores = weights.scores[rows]
    if weights.multiplicities is None:
        return np.asarray(scores - scores.max(axis=1, keepdims=True))
    possible = np.broadcast_to(weights.multiplicities, weights.scores.shape)[rows] > 0
    best = np.where(possible, scores, -_SCORE_LIMIT).max(axis=1, keepdims=True)
    return np.where(possible, scores - best, 0)


@lru_cache(maxsize=64)
def _rate_over_log2(rate: Fraction) -> int:
    """Return rate / ln 2 in fixed point, with an error below 2 in the last place."""
    capped = min(rate, Fraction(_RATE_LIMIT))
    return capped.numerator * _LOG2_E // (capped.denominator << (_LOG2_E_BITS - _FRACTION_BITS))


def _split(counts: npt.NDArray[Any] | None) -> tuple[FloatArray, npt.NDArray[Any]]:
    """Write multiplicities as f * 2^e with f = 0 or 1/2 <= f <= 2, to relative 2^-53."""
    if counts is None:
        return np.ones((1, 1)), np.zeros((1, 1), dtype=object)
    if counts.dtype != object:
        mantissas, exponents = np.frexp(counts.astype(np.float64))
        return mantissas, exponents.astype(object)
    pairs = [_split_one(count) for count in counts.flat]
    floats = np.array([f for f, _ in pairs], dtype=np.float64).reshape(counts.shape)
    return floats, np.array([e for _, e in pairs], dtype=object).reshape(counts.shape)


def _split_one(count: int | Fraction) -> tuple[float, int]:
    numerator, denominator = count.numerator, count.denominator
    exponent = numerator.bit_length() - denominator.bit_length()
    # Python's division of integers of any size is correctly rounded.
    if exponent >= 0:
        return numerator / (denominator << exponent), exponent
    return (numerator << -exponent) / denominator, exponent


def check_scores(scores: npt.ArrayLike) -> IntArray:
    """Return the scores as int64, or refuse what is not rows of whole numbers below 2^62; no score is shown."""
    array = np.asarray(scores)
    if array.ndim != 2 or array.shape[1] == 0 or not np.issubdtype(array.dtype, np.integer):
        raise ParameterError(
            "scores must be integers in rows of at least one group",
            f"{array.dtype} of {array.ndim} dimensions",
            "Pass an int64 array of shape (rows, groups).",
        )
    if array.size and not (int(array.min()) > -_SCORE_LIMIT and int(array.max()) < _SCORE_LIMIT):
        raise ParameterError("scores must be below 2**62 in size", "", "Count in larger units.")
    return array.astype(np.int64, copy=False)


def _check_rate(rate: Fraction) -> Fraction:
    if not isinstance(rate, Fraction | int) or rate < 0:
        raise ParameterError(
            "the rate must be an exact number of at least 0",
            f"a {type(rate).__name__}" if not isinstance(rate, Fraction | int) else f"{float(rate):.3g}",
            "Pass Fraction(epsilon), divided as exactly as needed.",
        )
    return Fraction(rate)


def _check_multiplicities(counts: npt.NDArray[Any], shape: tuple[int, ...]) -> npt.NDArray[Any]:
    way_out = "Pass whole numbers or Fractions of at least 0, with one above 0 in every row."
    array = np.atleast_2d(np.asarray(counts))
    if array.dtype == np.uint64:
        array = array.astype(object)
    if array.dtype == object:
        array = _check_objects(array, way_out)
    elif np.issubdtype(array.dtype, np.integer):
        array = array.astype(np.int64, copy=False)
    else:
        raise ParameterError("multiplicities must be exact", f"{array.dtype}", way_out)
    try:
        full = np.broadcast_to(array, shape)
    except ValueError:
        raise ParameterError(
            "multiplicities must have the shape of the scores", f"{array.shape} for {shape}", way_out
        ) from None
    if (array < 0).any():
        raise ParameterError("multiplicities must be at least 0", "", way_out)
    if not (full > 0).any(axis=1).all():
        raise ParameterError("every row must have a possible group", "", way_out)
    return array


def _check_objects(array: npt.NDArray[Any], way_out: str) -> npt.NDArray[Any]:
    if {*map(type, array.flat)} <= {int, Fraction}:
        return array.copy()
    exact = np.empty(array.shape, dtype=object)
    for at, value in np.ndenumerate(array):
        if isinstance(value, bool) or not isinstance(value, int | Fraction | np.integer):
            raise ParameterError("multiplicities must be exact", f"a {type(value).__name__}", way_out)
        exact[at] = value if isinstance(value, Fraction) else int(value)
    return exact
