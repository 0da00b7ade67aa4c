r"""Exact noise: continuous noise that is only ever compared, and the discrete Gaussian.

A mechanism that adds continuous noise to numbers and publishes only how the sums compare never needs a noise *value*.
Noise is F^-1(U) for a uniform real U, an infinite string of bits that are drawn as far as a comparison needs. The first
64, W, put U in [W/2^64, (W+1)/2^64) and the noise between the quantiles of the two ends:

- **Fast path.** Float quantiles, each with a bound on its distance from every point of that range, decide a
  comparison when the bounds do not overlap.
- **Refinement.** W is kept and never drawn again; 64 bits are appended to the noises still in doubt, and the
  quantiles of the ends are enclosed in balls (`flint.arb`) at twice the precision, until every comparison is certain.

So the outcome has the mathematical law of the continuous noise, and a proof about that law applies as it is stated. A
tie has probability 0, so refinement ends with probability 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
from flint import arb

from cutline.arrays import BoolArray, FloatArray, IntArray, WordArray
from cutline.errors import ParameterError
from cutline.rounding import working_precision
from cutline.sampling.draws import WORD_BITS, bernoulli, bernoulli_real, enclose_rational, integers_below
from cutline.sampling.source import Source, resolve
from cutline.sampling.weights import check_scores

Real: TypeAlias = Callable[[], Any]
"""A real number: a ball around it at flint's present precision."""

_ERROR = 2.0**-40  # per unit of 1 + |value|: covers logarithms, the normal quantile and all roundings of float64
_LARGEST_SIGMA = 2.0**40  # of the discrete Gaussian: every number stays exact in 64 bits
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
        return arb.pos_inf() if left == 0 else bits * arb.const_log2() - arb(left).log()


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
            return arb.neg_inf() if whole == 0 else arb(2 * whole).log() - bits * arb.const_log2()
        return arb.pos_inf() if left == 0 else bits * arb.const_log2() - arb(2 * left).log()


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

    ``score + scale * noise > threshold + threshold_scale * noise'``, with one noise' per row and fresh noise per score:
    the comparisons of the sparse vector technique, exactly.

    Scores, in the order in which they are tested, scale and noise are as in `noisy_argmax`; ``threshold`` is a real
    number by its enclosures. One word per row and one per score are drawn, needed or not.

    Examples
    --------
    >>> one = Fraction(1)
    >>> first_above([[0, 900, 900]], scale=one, threshold=lambda: arb(450), threshold_scale=one).tolist()
    [1]
    """
    source = resolve(rng)
    array = check_scores(scores)
    check_scale(scale)
    check_scale(threshold_scale)
    rows, tests = array.shape
    words = source.words(rows * (tests + 1)).reshape(rows, tests + 1)
    low, high = _sums(array, float(1 / scale), *noise.approximate(words[:, 1:]))
    with working_precision(2 * WORD_BITS):
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
        with working_precision(2 * draws[left[0]].bits + _ROOM_BITS):
            ends = {j: [enclose_rational(offsets[j]) + end for end in draws[j].ends()] for j in left}
            left = [j for j in left if not any(ends[j][1] < ends[i][0] for i in left)]
    return left[0]


def _is_above(
    draw: _Draw, score: int, bar: _Draw, scale: Fraction, bar_scale: Fraction, threshold: Real, source: Source
) -> bool:
    """Compare one noisy score with the noisy threshold, refining both until it is certain."""
    while True:
        with working_precision(2 * max(draw.bits, bar.bits) + _ROOM_BITS):
            low, high = (score + enclose_rational(scale) * end for end in draw.ends())
            bar_low, bar_high = (threshold() + enclose_rational(bar_scale) * end for end in bar.ends())
            if low > bar_high:
                return True
            if high < bar_low:
                return False
        draw.refine(source)
        bar.refine(source)


def _tail(words: WordArray) -> tuple[FloatArray, FloatArray, BoolArray]:
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


def check_scale(scale: Fraction) -> None:
    """Refuse a scale of noise that is not exact, or that floats cannot hold with room to spare."""
    if not isinstance(scale, Fraction | int) or not Fraction(1, 2**60) <= scale <= 2**100:
        raise ParameterError(
            "a scale of noise must be exact and between 2**-60 and 2**100",
            f"a {type(scale).__name__}" if not isinstance(scale, Fraction | int) else f"{float(scale):.3g}",
            "Pass Fraction(sigma).",
        )


def discrete_gaussian(n: int, *, sigma: float, rng: Source | None = None) -> IntArray:
    r"""Draw ``n`` whole numbers z with probability proportional to ``exp(-z^2 / (2 sigma^2))``, exactly.

    Rejection from a discrete Laplace law of scale ``t = floor(sigma) + 1``, accepted with probability ``exp(-(|y| -
    sigma^2/t)^2 / (2 sigma^2))`` [CKS20, Algorithms 2 and 3]. sigma is taken as the exact rational number that the
    float is, and every coin ``exp(-x)`` of a rational x is drawn exactly by `bernoulli_real`: one word each, instead of
    the paper's series of rational coins, with the same law.

    sigma, from 2^-20 to 2^40, is the standard deviation of the continuous law, which the discrete one never exceeds.

    Examples
    --------
    >>> from cutline.sampling import SeededSource
    >>> draws = discrete_gaussian(20_000, sigma=3.0, rng=SeededSource(0))
    >>> bool(abs(draws.std() - 3) < 0.05), draws.dtype
    (True, dtype('int64'))
    """
    check_sigma(sigma)
    if isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 0:
        raise ParameterError("n must be a whole number of at least 0", f"n={n}")
    source = resolve(rng)
    variance = Fraction(sigma) ** 2
    t = math.floor(sigma) + 1
    centre = variance / t
    found = np.empty(n, dtype=np.int64)
    missing = np.arange(n)
    while missing.size:
        drawn = _discrete_laplace(missing.size, t, source)
        size = np.abs(drawn)
        x = (size - float(centre)) ** 2 / (2 * float(variance))
        kept = _exp_coins(x, lambda i, s=size: (int(s[i]) - centre) ** 2 / (2 * variance), source)
        found[missing[kept]] = drawn[kept]
        missing = missing[~kept]
    return found


def _discrete_laplace(n: int, t: int, source: Source) -> IntArray:
    """Draw whole numbers y with probability proportional to ``exp(-|y| / t)``."""
    found = np.empty(n, dtype=np.int64)
    missing = np.arange(n)
    while missing.size:
        low = integers_below(np.full(missing.size, t), rng=source)
        kept = _exp_coins(low / t, lambda i, u=low: Fraction(int(u[i]), t), source)
        size = low[kept] + t * _geometric(int(kept.sum()), source)
        negative = bernoulli(np.full(size.size, 0.5), rng=source)
        once = ~(negative & (size == 0))  # 0 has one sign only
        at = missing[kept][once]
        found[at] = np.where(negative, -size, size)[once]
        left = np.ones(missing.size, dtype=np.bool_)
        left[np.flatnonzero(kept)[once]] = False
        missing = missing[left]
    return found


def _geometric(n: int, source: Source) -> IntArray:
    """Draw how often a coin ``exp(-1)`` says yes before it first says no."""
    found = np.zeros(n, dtype=np.int64)
    going = np.arange(n)
    while going.size:
        yes = _exp_coins(np.ones(going.size), lambda _: Fraction(1), source)
        going = going[yes]
        found[going] += 1
    return found


def _exp_coins(approximate: FloatArray, exact: Any, source: Source) -> BoolArray:
    """Answer yes with probability ``exp(-x)`` for rational numbers ``exact(i)`` near floats."""

    def enclose(index: int, bits: int) -> Any:
        with working_precision(bits):
            return (-enclose_rational(exact(index))).exp()

    with np.errstate(under="ignore"):
        return bernoulli_real(np.exp(-approximate), enclose, rng=source)


def check_sigma(sigma: float) -> None:
    """Refuse a sigma out of the sampler's range; it is public."""
    if not 2.0**-20 <= sigma <= _LARGEST_SIGMA:
        raise ParameterError("sigma must be from 2**-20 to 2**40", f"sigma={sigma}", "Try sigma=10.0.")
