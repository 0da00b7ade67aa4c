r"""The one exact draw: invert a cumulative law at a uniform real that is known bit by bit.

Let U be uniform on [0, 1), an infinite string of bits, and 0 <= b_1 <= ... <= b_{G-1} <= 1 the exact, real
boundaries of a law on G outcomes; the outcome is the number of boundaries at or below U. Nothing here ever
rounds U or a boundary:

- **Fast path.** The first 64 bits W put U in [W/2^64, (W+1)/2^64). Float boundaries that are certain to be
  within `_band` of the real ones decide, unless that interval comes within the band of one of them.
- **Refinement.** W is kept, 64 more bits are appended, and the boundaries are enclosed in balls (`flint.arb`)
  at twice the precision, until every comparison is certain. W is never drawn again: that would favour
  outcomes far from boundaries and lose those narrower than the band.

So the law of the outcome is the mathematical law, an outcome rarer than 2^-64 included. Refinement ends with
probability one, because a boundary is a single point. Ball arithmetic is right at any precision; should
another thread change flint's global precision meanwhile, balls are wider or narrower but never wrong, and at
worst one more round is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
from flint import arb, ctx

from cutline.arrays import FloatArray, IntArray
from cutline.errors import ParameterError
from cutline.sampling.source import Source

Enclose: TypeAlias = Callable[[int, int], Sequence[Any]]
"""``enclose(row, precision)``: balls around the G - 1 inner boundaries of that row."""

WORD_BITS = 64
_HOPELESS_PRECISION = 2**20  # a ball that is still infinite here is a broken law, not an unlucky draw


def invert(boundaries: FloatArray, enclose: Enclose, *, source: Source) -> IntArray:
    r"""Draw one outcome per row of a batch of laws.

    Parameters
    ----------
    boundaries
        The inner boundaries b_1 <= ... <= b_{G-1} of each row, shape (rows, G - 1), nondecreasing, within 4
        gamma of the real ones, gamma = 2^-40 + G 2^-53. It is enough that each weight has relative error
        2^-40 and that they are summed one after the other: sum and total then have relative error (1 +
        2^-40)(1 + 2^-53)^(G-1) - 1 < 1.01 gamma each, so the quotient is off by less than 2.1 gamma, and what
        underflows by far less than the rest of 4 gamma.
    enclose
        Gives balls around the same boundaries at a precision. It is called with flint's precision already
        set.
    source
        One word per row is drawn at once; a row in need of refinement draws one word a round. One outcome
        draws none.

    Returns
    -------
    IntArray
        Outcomes 0..G-1, shape (rows,).

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
    band = _band(inner + 1)
    low = words * 2.0**-WORD_BITS
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
        with ctx.workprec(precision):
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
