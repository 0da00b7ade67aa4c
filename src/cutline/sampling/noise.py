r"""Exact continuous noise: F^-1(U) for a uniform real U whose bits are drawn as far as a comparison needs.

A mechanism that adds noise to numbers and publishes only how the sums compare never needs a noise *value*. U is an infinite
string of bits; its first 64, W, put U in [W/2^64, (W+1)/2^64) and the noise between the quantiles of the two ends:

- **Fast path.** Float quantiles, each with a bound on its distance from every point of that range, decide a
  comparison when the bounds do not overlap.
- **Refinement.** W is kept and never drawn again; 64 bits are appended to the noises still in doubt, and the
  quantiles of the ends are enclosed in balls (`flint.arb`) at twice the precision, until every comparison is certain.

So the outcome has the mathematical law of the continuous noise, and a proof about that law applies as it is stated. A tie has
probability 0, so refinement ends with probability 1.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
from flint import arb, ctx

from cutline.arrays import FloatArray, IntArray, WordArray
from cutline.errors import ParameterError
from cutline.sampling.draws import WORD_BITS, enclose_rational
from cutline.sampling.source import Source, resolve
from cutline.sampling.weights import check_scores

Real: TypeAlias = Callable[[], Any]
"""A real number: a ball around it at flint's present precision."""

_ERROR = 2.0**-40  # per unit of 1 + |value|: covers logarithms, the normal quantile and all roundings of float64
_ROOM_BITS = 192  # beyond twice the bits of U: scores have up to 63 bits, scales may be as small as 2^-60


class Noise(Protocol):
    """A continuous law by its quantiles, at scale 1."""

    name: ClassVar[str]

    def approximate(self, words: WordArray) -> tuple[FloatArray, FloatArray]:
        """Return floats near the noise of U in [W, W+1) / 2^64, and bounds on how far any such noise is from them."""

    def quantile(self, whole: int, bits: int) -> Any:
        """Return a ball around the quantile of ``whole / 2^bits``; infinite ends included."""


class Exponential:
    """Density ``exp(-x)`` on x >= 0: quantile ``-ln(1 - u)``."""

    name: ClassVar[str] = "exponential"

    def approximate(self, words: WordArray) -> tuple[FloatArray, FloatArray]:
        tail, blur, low = _tail(words)
        values = np.where(low, -np.log1p(-tail), -np.log(tail))
        # Below the median a word moves -ln(1 - u) by less than 2^-63.
        return values, np.where(low, 0.0, blur) + _ERROR * (1 + values)

    def quantile(self, whole: int, bits: int) -> Any:
        left = (1 << bits) - whole
        return arb.pos_inf() if left == 0 else _log_power(bits) - arb(left).log()


class Laplace:
    """Density ``exp(-|x|) / 2``: quantile ``ln(2u)`` up to 1/2 and its mirror image above."""

    name: ClassVar[str] = "laplace"

    def approximate(self, words: WordArray) -> tuple[FloatArray, FloatArray]:
        tail, blur, low = _tail(words)
        size = -np.log(2 * tail)
        return np.where(low, -size, size), blur + _ERROR * (1 + np.abs(size))

    def quantile(self, whole: int, bits: int) -> Any:
        left = (1 << bits) - whole
        if whole <= left:
            return arb.neg_inf() if whole == 0 else arb(2 * whole).log() - _log_power(bits)
        return arb.pos_inf() if left == 0 else _log_power(bits) - arb(2 * left).log()


class Normal:
    """The standard normal law."""

    name: ClassVar[str] = "gaussian"

    def approximate(self, words: WordArray) -> tuple[FloatArray, FloatArray]:
        from scipy.special import ndtri

        tail, blur, low = _tail(words)
        values = ndtri(tail)
        # The quantile moves by (relative move of the tail) * tail / density there, and that ratio is at most 1.2534.
        return np.where(low, values, -values), 1.26 * blur + _ERROR * (1 - values)

    def quantile(self, whole: int, bits: int) -> Any:
        left = (1 << bits) - whole
        if whole == 0 or left == 0:
            return arb.neg_inf() if whole == 0 else arb.pos_inf()
        tail = arb(2).sqrt() * (arb(2 * min(whole, left)) / arb(1 << bits)).erfcinv()
        return -tail if whole <= left else tail


EXPONENTIAL, LAPLACE, NORMAL = Exponential(), Laplace(), Normal()


def noisy_argmax(scores: npt.ArrayLike, *, scale: Fraction, noise: Noise, rng: Source | None = None) -> IntArray:
    r"""Return the index of the largest ``score + scale * noise`` of each row, with exactly the law of continuous noise.

    Parameters
    ----------
    scores
        Integers below 2^62 in size, shape (rows, choices). Private: no message shows one.
    scale
        Exact and above 0.
    noise
        `EXPONENTIAL`, `LAPLACE` or `NORMAL`.
    rng
        One word is drawn per number; a number in doubt draws one more a round.

    Examples
    --------
    >>> from cutline.sampling import SeededSource
    >>> scores = np.tile([0, 3], (10_000, 1))
    >>> second = noisy_argmax(scores, scale=Fraction(2), noise=NORMAL, rng=SeededSource(0)).mean()
    >>> bool(abs(second - 0.8556) < 0.01)  # Phi(3 / (2 sqrt 2))
    True
    """
    source = resolve(rng)
    array = check_scores(scores)
    check_scale(scale)
    rows, choices = array.shape
    if choices == 1 or rows == 0:
        return np.zeros(rows, dtype=np.int64)
    words = source.words(rows * choices).reshape(rows, choices)
    below = array - array.max(axis=1, keepdims=True)  # as integers: nothing is lost
    low, high = _sums(below, float(1 / scale), *noise.approximate(words))
    leaders: IntArray = np.argmax(low, axis=1)
    open_ = high >= low.max(axis=1, keepdims=True)
    for row in np.flatnonzero(open_.sum(axis=1) != 1).tolist():
        contenders = np.flatnonzero(open_[row]).tolist()
        draws = {j: _Draw(noise, int(words[row, j])) for j in contenders}
        leaders[row] = _leader(draws, {j: int(below[row, j]) / scale for j in contenders}, source)
    return leaders


def first_above(
    scores: npt.ArrayLike,
    *,
    scale: Fraction,
    threshold: Real,
    threshold_scale: Fraction,
    noise: Noise = LAPLACE,
    rng: Source | None = None,
) -> IntArray:
    r"""Return the first index of each row whose noisy score is above one noisy threshold, or -1 if none is.

    ``score + scale * noise > threshold + threshold_scale * noise'``, with one noise' per row and fresh noise per score: the
    comparisons of the sparse vector technique, exactly.

    Parameters
    ----------
    scores, scale, noise
        As in `noisy_argmax`; the scores are in the order in which they are tested.
    threshold, threshold_scale
        A real number by its enclosures, and the exact scale of the noise added to it.
    rng
        One word per row and one per score are drawn, needed or not.

    Examples
    --------
    >>> first_above([[0, 900, 900]], scale=Fraction(1), threshold=lambda: arb(450), threshold_scale=Fraction(1)).tolist()
    [1]
    """
    source = resolve(rng)
    array = check_scores(scores)
    check_scale(scale)
    check_scale(threshold_scale)
    rows, tests = array.shape
    words = source.words(rows * (tests + 1)).reshape(rows, tests + 1)
    low, high = _sums(array, float(1 / scale), *noise.approximate(words[:, 1:]))
    with ctx.workprec(2 * WORD_BITS):
        middle = float(threshold() / enclose_rational(scale))
    ratio = float(threshold_scale / scale)
    value, error = noise.approximate(words[:, 0])
    error = ratio * (error + _ERROR * np.abs(value)) + _ERROR * abs(middle)
    bar_low, bar_high = middle + ratio * value - error, middle + ratio * value + error
    above, below = low > bar_high[:, None], high < bar_low[:, None]
    first: IntArray = np.where(above.any(axis=1), np.argmax(above, axis=1), -1)
    stop = np.where(first < 0, tests, first)
    doubtful = ~below & (np.arange(tests) < stop[:, None])
    for row in np.flatnonzero(doubtful.any(axis=1)).tolist():
        bar = _Draw(noise, int(words[row, 0]))
        sums = [(_Draw(noise, int(word)), int(s)) for word, s in zip(words[row, 1:], array[row], strict=True)]
        over = (_is_above(draw, s, bar, scale, threshold_scale, threshold, source) for draw, s in sums)
        first[row] = next((i for i, yes in enumerate(over) if yes), -1)
    return first


@dataclass(slots=True, eq=False, repr=False)
class _Draw:
    """One noise: its law and the bits of U drawn so far."""

    noise: Noise
    word: int
    bits: int = WORD_BITS

    def refine(self, source: Source) -> None:
        self.word = self.word << WORD_BITS | int(source.words(1)[0])
        self.bits += WORD_BITS

    def ends(self) -> tuple[Any, Any]:
        return self.noise.quantile(self.word, self.bits), self.noise.quantile(self.word + 1, self.bits)


def _leader(draws: dict[int, _Draw], offsets: dict[int, Fraction], source: Source) -> int:
    """Refine the contenders, all alike, until one is certainly above every other."""
    left = list(draws)
    while len(left) > 1:
        for j in left:
            draws[j].refine(source)
        with ctx.workprec(2 * draws[left[0]].bits + _ROOM_BITS):
            ends = {j: [enclose_rational(offsets[j]) + end for end in draws[j].ends()] for j in left}
            left = [j for j in left if not any(ends[j][1] < ends[i][0] for i in left)]
    return left[0]


def _is_above(
    draw: _Draw, score: int, bar: _Draw, scale: Fraction, bar_scale: Fraction, threshold: Real, source: Source
) -> bool:
    """Compare one noisy score with the noisy threshold, refining both until it is certain."""
    while True:
        with ctx.workprec(2 * max(draw.bits, bar.bits) + _ROOM_BITS):
            low, high = (score + enclose_rational(scale) * end for end in draw.ends())
            bar_low, bar_high = (threshold() + enclose_rational(bar_scale) * end for end in bar.ends())
            if low > bar_high:
                return True
            if high < bar_low:
                return False
        draw.refine(source)
        bar.refine(source)


def _tail(words: WordArray) -> tuple[FloatArray, FloatArray, npt.NDArray[np.bool_]]:
    """Return the smaller tail of U as a float, how far off it may be relatively, and whether U is below 1/2."""
    low = words < np.uint64(1 << (WORD_BITS - 1))
    whole = np.where(low, words, ~words).astype(np.float64)  # the tail is within [whole, whole + 1] / 2^64
    with np.errstate(divide="ignore"):
        return (whole + 0.5) * 2.0**-WORD_BITS, 1 / whole, low


def _sums(scores: IntArray, rate: float, noise: FloatArray, error: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return bounds on ``rate * score + noise``."""
    scaled = scores * rate
    total, error = scaled + noise, error + np.abs(scaled) * 2.0**-50
    return total - error, total + error


def _log_power(bits: int) -> Any:
    return bits * arb(2).log()


def check_scale(scale: Fraction) -> None:
    """Refuse a scale of noise that is not exact, or that floats cannot hold with room to spare."""
    if not isinstance(scale, Fraction | int) or not Fraction(1, 2**60) <= scale <= 2**100:
        raise ParameterError(
            "a scale of noise must be exact and between 2**-60 and 2**100",
            f"a {type(scale).__name__}" if not isinstance(scale, Fraction | int) else f"{float(scale):.3g}",
            "Pass Fraction(sigma).",
        )
