r"""Exact yes-or-no draws: U < p for a uniform real U whose bits are drawn as far as needed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from cutline.arrays import BoolArray, FloatArray
from cutline.errors import ParameterError
from cutline.sampling.inversion import WORD_BITS, invert
from cutline.sampling.source import Source, resolve

_CHUNK = 32_768  # the buffers of one chunk stay in the cache: several passes cost about as much as one
_HEAD_BITS = 62  # p * 2^62 fits in a signed 64-bit integer for p = 1 too, so 1 needs no case of its own


def bernoulli(probabilities: npt.ArrayLike, *, rng: Source | None = None) -> BoolArray:
    r"""Answer yes with probability exactly p, for an array of floats p.

    A float is a dyadic number a / 2^e. The first 62 bits of U are compared with floor(p 2^62): smaller is
    yes, larger is no, both for certain. On a tie the comparison goes on in whole numbers, with the word's
    last 2 bits and then with further words until it is settled; e may be as large as 1074.

    Parameters
    ----------
    probabilities
        Floats within [0, 1], of any shape.
    rng
        None for the operating system's source. One word is drawn per entry.

    Returns
    -------
    BoolArray
        The answers, in the shape of ``probabilities``.

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
                answer[at] = _settle(float(chunk[at]), int(words[at]), source)
    return answers.reshape(array.shape)


def bernoulli_real(
    approximate: npt.ArrayLike, enclose: Callable[[int, int], Any], *, rng: Source | None = None
) -> BoolArray:
    r"""Answer yes with probability exactly p, for real numbers p known through enclosures.

    Parameters
    ----------
    approximate
        Floats within 2^-40 of the probabilities, shape (n,).
    enclose
        ``enclose(index, precision)``: a ball (`flint.arb`) around the probability at ``index`` that shrinks
        to it as the precision grows. Called with flint's precision already set; almost never called.
    rng
        None for the operating system's source.

    Returns
    -------
    BoolArray
        The answers, shape (n,).

    Raises
    ------
    ParameterError
        If an approximation is NaN or farther than 2^-40 from [0, 1].

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
        raise ParameterError(
            "approximate must have one dimension", f"{boundaries.ndim}", "Number the probabilities in a row."
        )
    _check_range(boundaries, slack=2.0**-40)
    outcomes = invert(boundaries[:, None], lambda row, precision: [enclose(row, precision)], source=source)
    return np.asarray(outcomes == 0)


def _as_floats(values: npt.ArrayLike) -> FloatArray:
    array = np.asarray(values)
    exact = array.dtype.kind in "biu" or (array.dtype.kind == "f" and array.dtype.itemsize <= 8)
    if not exact and array.size:
        raise ParameterError(
            "probabilities must be floats of at most 64 bits",
            f"{array.dtype}",
            "Use bernoulli_real for other numbers.",
        )
    return np.ascontiguousarray(array, dtype=np.float64).reshape(array.shape)


def _check_range(values: FloatArray, *, slack: float) -> None:
    with np.errstate(invalid="ignore"):
        # Written so that NaN, which minimum and maximum pass on, fails.
        within = values.size == 0 or (values.min() >= -slack and values.max() <= 1 + slack)
    if not within:
        raise ParameterError("probabilities must be within [0, 1]", "", "NaN is refused too; check how they were made.")


def _settle(probability: float, word: int, source: Source) -> bool:
    """Compare U, which begins with ``word``, with a dyadic number in whole numbers."""
    numerator, denominator = probability.as_integer_ratio()
    bits = WORD_BITS
    while True:
        target = numerator << bits  # U < p iff U 2^bits denominator < target
        if (word + 1) * denominator <= target:
            return True
        if word * denominator >= target:
            return False
        word = word << WORD_BITS | int(source.words(1)[0])
        bits += WORD_BITS
