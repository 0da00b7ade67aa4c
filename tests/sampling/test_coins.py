from fractions import Fraction

import numpy as np
import pytest
from flint import arb
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from cutline.errors import ParameterError
from cutline.sampling import SeededSource, SystemSource
from cutline.sampling.coins import Coins

FULL = 2**64 - 1


def words_of(whole):
    """The words that hold the first 24 bits of U for a single cell: 8 in one, 16 in the next."""
    first = np.array([whole >> 16, *[0] * 7], dtype=np.uint8).view(np.uint64)
    following = np.array([whole & 0xFFFF, 0, 0, 0], dtype=np.uint16).view(np.uint64)
    return [int(first[0]), int(following[0])]


def needed(probability, whole, words):
    """Words it takes to be certain: 8 bits of U, 16 more, then a word at a time."""
    target = min(int(probability * 2**24), 2**24 - 1)
    if whole >> 16 != target >> 16:
        return 1
    value, bits, used = whole, 24, 2
    while whole == target and not (
        Fraction(value + 1, 2**bits) <= probability or Fraction(value, 2**bits) >= probability
    ):
        value, bits, used = value << 64 | words[used - 2], bits + 64, used + 1
    return used


probabilities = st.one_of(
    st.floats(0, 1),
    st.builds(lambda m, e: m * 2.0**-e, st.floats(0.5, 1), st.integers(0, 1074)),
    st.sampled_from([0.0, 1.0, 0.5, 5e-324, 1 - 2**-53, 2.0**-8, 2.0**-24, 1 - 2.0**-24, 2.0**-25, 3 * 2.0**-26]),
)


@settings(max_examples=300, deadline=None)
@given(
    p=probabilities,
    nudge=st.sampled_from([-(2**16), -1, 0, 0, 1, 2**16]),
    shared=st.integers(0, 17),
    tail=st.lists(st.integers(0, FULL), min_size=20, max_size=20),
)
def test_scripted_bits_agree_with_exact_fractions(script, p, nudge, shared, tail):
    # U shares its first bits with p, so that refinement is forced as often as not, and goes on at random.
    whole = min(int(Fraction(p) * 2**24), 2**24 - 1)
    rest = Fraction(p) * 2**24 - whole
    same = [int(rest * 2 ** (64 * (i + 1))) & FULL for i in range(shared)]
    whole = min(max(whole + nudge, 0), 2**24 - 1)
    words = [*same, *tail]
    everything = whole
    for word in words:
        everything = everything << 64 | word
    source = script([*words_of(whole), *words])
    answer = Coins.of_floats([p]).toss(np.array([0]), rng=source)
    assert answer.tolist() == [Fraction(everything, 2 ** (24 + 64 * len(words))) < p]
    assert source.used == needed(Fraction(p), whole, words)


def test_real_biases_are_refined_in_balls_and_rational_ones_in_fractions(script):
    # The bits of 1/3 are 0101..., so that all its words are the same.
    third, same = int(Fraction(1, 3) * 2**24), int(Fraction(1, 3) * 2**64)
    coins = Coins.of_reals([1 / 3], lambda entry: arb(1) / 3)
    for last, answer in ((same - 1, True), (same + 1, False)):
        source = script([*words_of(third), same, same, last])
        assert coins.toss(np.array([0]), rng=source).tolist() == [answer]
        assert source.used == 5
    half = Coins.of_reals([0.5], lambda entry: Fraction(1, 2))
    for whole, answer in ((2**23 - 1, True), (2**23, False), (2**23 + 1, False), (0, True), (2**24 - 1, False)):
        assert half.toss(np.array([0]), rng=script(words_of(whole))).tolist() == [answer]


def test_a_real_bias_beside_a_boundary_is_placed_by_balls():
    just_below = Coins.of_reals([0.5], lambda entry: arb(1) / 2 - arb(2) ** -80)
    just_above = Coins.of_reals([0.5], lambda entry: arb(1) / 2 + arb(2) ** -80)
    assert [(int(c.first[0]), int(c.following[0])) for c in (just_below, just_above)] == [(127, 2**16 - 1), (128, 0)]


def test_a_rational_bias_in_the_guise_of_a_ball_is_refused_where_its_bits_stay_open():
    with pytest.raises(ParameterError, match="Fraction"):
        Coins.of_reals([0.5], lambda entry: (arb(2).sqrt() ** 2) / 4)


def test_entries_outside_the_table_take_its_ends():
    coins = Coins.of_floats([0.0, 1.0])
    tossed = coins.toss(np.array([[-7, 0], [1, 99]]), rng=SystemSource())
    assert tossed.tolist() == [[False, False], [True, True]]


def test_certain_coins_stay_certain_on_all_bits(script):
    for p, first, following in ((0.0, 0, 0), (1.0, 255, 2**16 - 1)):
        every = np.arange(256, dtype=np.uint8).view(np.uint64).tolist()  # one of them is the bias's own
        own = np.array([following, 0, 0, 0], dtype=np.uint16).view(np.uint64).tolist()
        source = script([*every, *own])
        assert (Coins.of_floats([p]).toss(np.zeros(256, dtype=np.int64), rng=source) == bool(p)).all()
        assert source.used == 32 + 1
        assert (Coins.of_floats([p]).first[0], Coins.of_floats([p]).following[0]) == (first, following)


def test_chunks_are_one_stream_and_shapes_are_kept():
    table = np.random.default_rng(0).random(50)
    entries = np.random.default_rng(1).integers(0, 50, (401, 331))
    heads = SeededSource(9).words(-(-entries.size // 8)).view(np.uint8)[: entries.size].reshape(entries.shape)
    clear = heads != (table[entries] * 2**8).astype(np.uint8)
    tossed = Coins.of_floats(table).toss(entries, rng=SeededSource(9))
    assert entries.size > 2 * 2**16
    assert clear.mean() > 0.99
    assert np.array_equal(tossed[clear], (heads < table[entries] * 2**8)[clear])
    assert Coins.of_floats(table).toss(np.empty((0, 3), dtype=np.int64)).shape == (0, 3)
    assert np.array_equal(
        Coins.of_floats(table).toss(entries.T, rng=SeededSource(3)),
        Coins.of_floats(table).toss(np.ascontiguousarray(entries.T), rng=SeededSource(3)),
    )


@pytest.mark.parametrize(("bits", "cells"), [(8, 1 << 16), (16, 1 << 22)])
def test_the_law_of_coins_rarer_than_their_first_bits(bits, cells):
    """Only refinement can say yes to a bias of 0.3 / 2^bits, and no to its complement."""
    p = 0.3 * 2.0**-bits
    for bias, rare in ((p, True), (1 - p, False)):
        seen = int((Coins.of_floats([bias]).toss(np.zeros(cells, dtype=np.int8), rng=SeededSource(5)) == rare).sum())
        for expected, holds in ((p, True), (2.0**-bits, False)):
            chance = min(stats.poisson.cdf(seen, cells * expected), stats.poisson.sf(seen - 1, cells * expected))
            assert (chance > 1e-4) == holds


def test_the_last_refinement_has_its_law(script):
    """Cells that begin with the 24 bits of their bias: the answer is a coin of what is left of it."""
    left = Fraction(3, 8)
    bias = Fraction(5, 2**24) + left / 2**24
    coins, n = Coins.of_floats([float(bias)]), 4000
    words = SeededSource(6).words(n).tolist()
    yes = sum(bool(coins.toss(np.array([0]), rng=script([*words_of(5), word]))[0]) for word in words)
    assert yes == sum(word < left * 2**64 for word in words)
    assert stats.binomtest(yes, n, float(left)).pvalue > 1e-4


@pytest.mark.parametrize("kind", ["floats", "reals"])
def test_chi_square_with_power(kind):
    table = np.array([0.02, 0.31, 0.5, 0.77, 0.995])
    coins = (
        Coins.of_floats(table)
        if kind == "floats"
        else Coins.of_reals(table, lambda entry: Fraction(float(table[entry])))
    )
    n = 60_000
    yes = coins.toss(np.tile(np.arange(5), (n, 1)), rng=SeededSource(2)).sum(axis=0)

    def p_value(expected):
        statistic = ((yes - n * expected) ** 2 / (n * expected * (1 - expected))).sum()
        return stats.chi2.sf(statistic, len(table))

    assert p_value(table) > 1e-4
    for factor in (0.7, 1.3):
        assert p_value(np.clip(table * factor, 0, 1 - 1e-9)) < 1e-9


@pytest.mark.parametrize("bad", [[float("nan")], [-1e-300], [1 + 2**-52], [], [[0.5]]])
def test_what_is_no_table_is_refused(bad):
    with pytest.raises(ParameterError, match="row of probabilities"):
        Coins.of_floats(bad)


def test_reals_far_outside_are_refused():
    with pytest.raises(ParameterError):
        Coins.of_reals([1.1], lambda entry: arb(1))


def test_biases_next_to_0_and_1_are_no_matter_of_doubt():
    near = arb(2) ** -500
    coins = Coins.of_reals([0.0, 1.0], lambda entry: 1 - near if entry else near)
    tossed = coins.toss(np.tile([0, 1], (100_000, 1)), rng=SeededSource(3))
    assert tossed.sum(axis=0).tolist() == [0, 100_000]
