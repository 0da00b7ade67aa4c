"""The refinement path, forced by words that put U on or next to a boundary."""

from fractions import Fraction

import numpy as np
import pytest
from flint import arb, ctx, fmpq

from cutline.errors import ParameterError
from cutline.sampling import draws, invert

HALF, FULL = 2**63, 2**64 - 1


def rational_law(*boundaries):
    """Float boundaries and balls of a one-row law with rational boundaries."""
    floats = np.array([[float(b) for b in boundaries]])
    balls = [fmpq(Fraction(b).numerator, Fraction(b).denominator) for b in boundaries]
    return floats, lambda row, precision: [arb(b) for b in balls]


def model(words, boundaries):
    """Outcome and number of words when each comparison is made in exact fractions (at least two words)."""
    value = words[0]
    for used, word in enumerate(words[1:], start=2):
        value = value << 64 | word
        low, high = Fraction(value, 2 ** (64 * used)), Fraction(value + 1, 2 ** (64 * used))
        if all(b <= low or b >= high for b in boundaries):
            return sum(b <= low for b in boundaries), used
    raise AssertionError("words ran out")


@pytest.mark.parametrize(
    ("words", "outcome"),
    [([HALF - 1, FULL], 0), ([HALF - 1, 0], 0), ([HALF, 0], 1), ([HALF, FULL], 1), ([HALF + 1, 5], 1)],
)
def test_a_dyadic_boundary_is_settled_by_the_first_refinement(script, words, outcome):
    source = script(words)
    assert invert(*rational_law(Fraction(1, 2)), source=source).tolist() == [outcome]
    assert source.used == 2


def test_far_from_a_boundary_one_word_is_enough(script):
    source = script([HALF // 2, HALF + HALF // 2])
    floats, _ = rational_law(Fraction(1, 2))

    def never(row, precision):
        raise AssertionError("refined without need")

    assert invert(np.tile(floats, (2, 1)), never, source=source).tolist() == [0, 1]
    assert source.used == 2


@pytest.mark.parametrize("depth", [2, 3, 4, 6])
@pytest.mark.parametrize("side", [0, 1])
def test_deep_refinement_follows_the_digits_of_a_third(script, depth, side):
    # 1/3 = 0.0101..., so each tied word is 0x5555...; the last word falls on either side of the tie.
    tie = FULL // 3
    words = [tie] * (depth - 1) + [tie + (1 if side else -1)]
    source = script([*words, 0, 0])
    assert invert(*rational_law(Fraction(1, 3)), source=source).tolist() == [side]
    assert source.used == depth


def test_the_precision_doubles_and_the_words_are_kept(script):
    seen = []
    floats, balls = rational_law(Fraction(1, 3))

    def enclose(row, precision):
        seen.append((row, precision, ctx.prec))
        return balls(row, precision)

    before = ctx.prec
    tie = FULL // 3
    assert invert(floats, enclose, source=script([tie, tie, tie, tie + 1])).tolist() == [1]
    assert seen == [(0, 256, 256), (0, 512, 512), (0, 1024, 1024)]
    assert ctx.prec == before


def test_the_precision_is_restored_when_the_enclosure_fails(script):
    before = ctx.prec

    def fail(row, precision):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        invert(np.array([[0.5]]), fail, source=script([HALF, 0]))
    assert ctx.prec == before


def test_only_the_rows_in_doubt_draw_more(script):
    floats, balls = rational_law(Fraction(1, 2))
    rows = []

    def enclose(row, precision):
        rows.append(row)
        return balls(row, precision)

    source = script([HALF, 7, HALF - 1, FULL - 7, 0, FULL])
    assert invert(np.tile(floats, (4, 1)), enclose, source=source).tolist() == [1, 0, 0, 1]
    assert rows == [0, 2]
    assert source.used == 6


@pytest.mark.parametrize("power", [100, 130, 200])
def test_first_and_last_outcomes_below_two_to_the_minus_64_are_exact(script, power):
    rare = Fraction(1, 2**power)
    shift = -power % 64
    zeros = power // 64
    edge = 1 << shift if shift else None
    below = [0] * zeros + ([edge - 1] if edge else [])
    at = [0] * zeros + ([edge] if edge else []) if edge else [*[0] * (zeros - 1), 1]
    for words, outcome in ((below, 0), (at, 1)):
        assert model([*words, 0, 0], [rare]) == (outcome, len(words))
        source = script([*words, 0, 0])
        assert invert(*rational_law(rare), source=source).tolist() == [outcome]
        assert source.used == len(words)
    mirrored = [FULL - word for word in below]
    source = script([*mirrored, 0, 0])
    assert invert(*rational_law(1 - rare), source=source).tolist() == [1]
    mirrored[-1] -= 1
    assert invert(*rational_law(1 - rare), source=script([*mirrored, 0, 0])).tolist() == [0]


def test_random_ties_agree_with_exact_fractions(script):
    generator = np.random.default_rng(2)
    for _ in range(200):
        denominator = int(generator.integers(3, 10**9))
        cuts = sorted(int(c) for c in generator.integers(0, denominator + 1, size=3))
        boundaries = [Fraction(c, denominator) for c in cuts]
        word = min(max((cuts[1] << 64) // denominator + int(generator.integers(-2, 3)), 0), FULL)
        words = [word, *(int(w) for w in generator.integers(0, 2**64, size=4, dtype=np.uint64))]
        outcome, used = model(words, boundaries)
        source = script(words)
        assert invert(*rational_law(*boundaries), source=source).tolist() == [outcome]
        assert source.used == used


def test_one_outcome_or_no_rows_draw_nothing(script):
    def never(row, precision):
        raise AssertionError

    assert invert(np.empty((3, 0)), never, source=script([])).tolist() == [0, 0, 0]
    assert invert(np.empty((0, 4)), never, source=script([])).shape == (0,)


def test_nan_fails_closed(script):
    with pytest.raises(ParameterError, match="must be numbers"):
        invert(np.array([[0.2, np.nan]]), lambda row, precision: [], source=script([5]))


def test_endless_doubt_from_a_broken_enclosure_is_refused(script):
    with pytest.raises(ParameterError, match="must become finite"):
        invert(np.array([[0.5]]), lambda row, precision: [arb.nan()], source=script([HALF] + [0] * 64))


def test_the_band_is_the_promised_one():
    for groups in (2, 40, 10**6):
        assert draws._band(groups) >= 4 * (2**-40 + groups * 2**-53)


@pytest.mark.parametrize("groups", [2, 10_000])
@pytest.mark.parametrize("sign", [-1, 1])
def test_float_boundaries_may_be_wrong_by_all_that_is_allowed(script, groups, sign):
    allowed = 4 * (2**-40 + groups * 2**-53)
    floats = np.full((1, groups - 1), 0.5 + sign * allowed)
    for share in (0.01, 0.5, 0.99, 1.0):
        # Between the real boundaries, all at 1/2, and the floats: the floats would answer wrongly.
        word = HALF + sign * int(share * allowed * 2**64)
        source = script([word, 0])
        drawn = invert(floats, lambda row, precision: [arb(1) / 2] * (groups - 1), source=source)
        assert drawn.tolist() == [0 if sign < 0 else groups - 1]
        assert source.used == 2
