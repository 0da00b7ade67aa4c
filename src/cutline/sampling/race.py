r"""Exact races: every member of every group draws a uniform real, and the smallest one times its group's handicap wins.

Member i of a group with handicap x >= 0 draws V_i uniform on [0, 1); the winner has the smallest ``ln V_i + x``. This
is permute-and-flip (docs/proofs/permute-and-flip.md), and report-noisy-max with exponential noise, since ``-ln V`` is
exponential. Only the smallest of a group's members can win, and it is ``1 - (1 - T)^(1/members)`` for a single uniform
T: one word a group.
"""

from __future__ import annotations

from fractions import Fraction
from functools import reduce
from typing import Any

import numpy as np
from flint import arb

from cutline.arrays import FloatArray, IntArray, WordArray
from cutline.errors import ParameterError
from cutline.rounding import working_precision
from cutline.sampling.draws import WORD_BITS, enclose_rational
from cutline.sampling.source import Source, resolve

_ERROR = 2.0**-40  # of a float key, beside 1 + handicap
_HALF = np.uint64(1 << 63)


def race(handicaps: IntArray, members: IntArray, rate: Fraction, *, rng: Source | None = None) -> int:
    r"""Return the group of the winner; which of its members won is uniform.

    Handicaps are whole numbers of at least 0, one per group: a group is ``rate * handicap`` behind, for an exact rate of
    at least 0. As many run for a group as it has members, perhaps none; one word is drawn per group that runs.

    Notes
    -----
    T lies in [W/2^64, (W+1)/2^64), so a group's key ``ln(1 - (1-T)^(1/members)) + rate * handicap`` lies between
    its values at the two ends: it grows with T. In floats a key is off by less than ``2^-40 (1 + rate * handicap)``:
    1 - T is taken from the integer where T is above one half, so log, division, expm1 and log each lose a few units of
    2^-53 of a number below 64. If one group's upper end is below every other's lower end it has won. Otherwise those
    still in the race keep their words, append one each, and are compared as balls at twice the precision. Two keys are
    equal with probability 0.

    Examples
    --------
    >>> from cutline.sampling import SeededSource
    >>> race(np.array([0, 900]), np.array([1, 10**6]), Fraction(1), rng=SeededSource(0))
    0
    """
    source = resolve(rng)
    running = np.flatnonzero(members > 0)
    if not running.size or handicaps[running].min() < 0 or rate < 0:
        raise ParameterError("a race takes handicaps and a rate of at least 0, and at least one member")
    if running.size == 1:
        return int(running[0])
    words = source.words(running.size)
    with np.errstate(over="ignore", invalid="ignore"):
        behind = handicaps[running].astype(np.float64) * float(rate)
        slack = _ERROR * (1 + behind)
        low = _least(words, members[running], above=False) + behind - slack
        high = _least(words, members[running], above=True) + behind + slack
    left = np.flatnonzero(~(low > high.min()))  # written so that NaN stays in the race
    if left.size == 1:
        return int(running[left[0]])
    at = {int(running[i]): int(words[i]) for i in left.tolist()}
    return _refine(at, handicaps, members, rate, source)


def _least(words: WordArray, members: IntArray, *, above: bool) -> FloatArray:
    """Return ln(1 - (1-T)^(1/members)) at the lower or the upper end of what the words say of T."""
    size = 2.0**-WORD_BITS
    with np.errstate(divide="ignore", invalid="ignore"):
        if above:
            small, rest = np.log1p(-(words.astype(np.float64) + 1) * size), np.log((~words).astype(np.float64) * size)
        else:
            # 2^64 - W is 0 as an unsigned word where W is 0, but there T is small and the other branch is taken.
            small, rest = np.log1p(-words.astype(np.float64) * size), np.log((np.uint64(0) - words) * size)
        logs = np.where(words < _HALF, small, rest)
        return np.asarray(np.log(-np.expm1(logs / members)))


def _refine(at: dict[int, int], handicaps: IntArray, members: IntArray, rate: Fraction, source: Source) -> int:
    """Append words until balls leave one winner."""
    bits = WORD_BITS
    while True:
        for group, word in zip(at, source.words(len(at)).tolist(), strict=True):
            at[group] = at[group] << WORD_BITS | word
        bits += WORD_BITS
        with working_precision(2 * bits):
            keys = {}
            for group, word in at.items():
                behind = enclose_rational(rate * int(handicaps[group]))
                keys[group] = [_key(end, bits, int(members[group])) + behind for end in (word, word + 1)]
            leader = reduce(lambda one, other: other if keys[other][1] < keys[one][1] else one, keys)
            at = {group: word for group, word in at.items() if group == leader or not keys[group][0] > keys[leader][1]}
        if len(at) == 1:
            return next(iter(at))


def _key(end: int, bits: int, members: int) -> Any:
    """Return a ball around ln(1 - (1-T)^(1/members)) at T = end / 2^bits."""
    if end == 0:
        return arb("-inf")
    if end == 1 << bits:
        return arb(0)
    log = enclose_rational(Fraction((1 << bits) - end, 1 << bits)).log()
    return (-(log / members).expm1()).log()
