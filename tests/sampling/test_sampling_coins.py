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


def word_of(*heads):
    return int(np.array(heads, dtype=np.uint16).view(np.uint64)[0])


def model(probability, head, words):
    """Answer and further words used when U, which begins with sixteen bits, is compared with a fraction."""
    value, bits = head, 16
    for used in range(len(words) + 1):
        if Fraction(value + 1, 2**bits) <= probability:
            return True, used
        if Fraction(value, 2**bits) >= probability:
            return False, used
        value, bits = value << 64 | words[used], bits + 64
    raise AssertionError("words ran out")


probabilities = st.one_of(
    st.floats(0, 1),
    st.builds(lambda m, e: m * 2.0**-e, st.floats(0.5, 1), st.integers(0, 1074)),
    st.sampled_from([0.0, 1.0, 0.5, 5e-324, 1 - 2**-53, 2.0**-16, 1 - 2.0**-16, 2.0**-17, 3 * 2.0**-18]),
)


@settings(max_examples=300, deadline=None)
@given(
    p=probabilities,
    nudge=st.integers(-1, 1),
    shared=st.integers(0, 17),
    tail=st.lists(st.integers(0, FULL), min_size=20, max_size=20),
)
def test_scripted_bits_agree_with_exact_fractions(script, p, nudge, shared, tail):
    # U shares its first bits with p, so that refinement is forced as often as not, and goes on at random.
    head = min(int(Fraction(p) * 2**16), 2**16 - 1)
    rest = Fraction(p) * 2**16 - head
    same = [int(rest * 2 ** (64 * (i + 1))) & FULL for i in range(shared)]
    head = min(max(head + nudge, 0), 2**16 - 1)
    words = [*same, *tail]
    answer, used = model(Fraction(p), head, words)
    source = script([word_of(head, 0, 0, 0), *words])
    assert Coins.of_floats([p]).toss(np.array([0]), rng=source).tolist() == [answer]
    assert source.used == 1 + used


def test_real_biases_are_refined_in_balls_and_rational_ones_in_fractions(script):
    # 1/3 is no dyadic number and no boundary of sixteen bits: all words of 1/3 are the same.
    third = int(Fraction(1, 3) * 2**16)
    same = int(Fraction(1, 3) * 2**64)  # the remaining bits of 1/3 repeat with period 2: 0101...
    coins = Coins.of_reals([1 / 3], lambda entry: arb(1) / 3)
    for last, answer in ((same - 1, True), (same + 1, False)):
        source = script([word_of(third, 0, 0, 0), same, same, last])
        assert coins.toss(np.array([0]), rng=source).tolist() == [answer]
        assert source.used == 4
    half = Coins.of_reals([0.5], lambda entry: Fraction(1, 2))
    assert half.toss(np.array([0, 0, 0, 0]), rng=script([word_of(2**15 - 1, 2**15, 0, FULL >> 48)])).tolist() == [
        True,
        False,
        True,
        False,
    ]


def test_a_real_bias_beside_a_boundary_is_placed_by_balls():
    just_below = Coins.of_reals([0.5], lambda entry: arb(1) / 2 - arb(2) ** -80)
    just_above = Coins.of_reals([0.5], lambda entry: arb(1) / 2 + arb(2) ** -80)
    assert (just_below.heads.tolist(), just_above.heads.tolist()) == ([2**15 - 1], [2**15])


def test_entries_outside_the_table_take_its_ends():
    coins = Coins.of_floats([0.0, 1.0])
    tossed = coins.toss(np.array([[-7, 0], [1, 99]]), rng=SystemSource())
    assert tossed.tolist() == [[False, False], [True, True]]


def test_certain_coins_stay_certain_on_every_sixteen_bits(script):
    words = np.arange(2**16, dtype=np.uint16).view(np.uint64).tolist()
    extra = [FULL] * 2  # p = 1 at the last head asks for no more: it is settled at once
    for p in (0.0, 1.0):
        source = script([*words, *extra])
        assert (Coins.of_floats([p]).toss(np.zeros(2**16, dtype=np.int64), rng=source) == bool(p)).all()
        assert source.used == len(words)


def test_chunks_are_one_stream_and_shapes_are_kept():
    table = np.random.default_rng(0).random(50)
    entries = np.random.default_rng(1).integers(0, 50, (401, 331))
    heads = SeededSource(9).words(-(-entries.size // 4)).view(np.uint16)[: entries.size].reshape(entries.shape)
    clear = heads != (table[entries] * 2**16).astype(np.uint16)
    tossed = Coins.of_floats(table).toss(entries, rng=SeededSource(9))
    first = np.arange(entries.size).reshape(entries.shape) < 2**16  # later chunks come after the first one's refinement
    assert clear[first].mean() > 0.999
    assert np.array_equal(tossed[first & clear], (heads < table[entries] * 2**16)[first & clear])
    assert Coins.of_floats(table).toss(np.empty((0, 3), dtype=np.int64)).shape == (0, 3)
    assert np.array_equal(
        Coins.of_floats(table).toss(entries.T, rng=SeededSource(3)),
        Coins.of_floats(table).toss(np.ascontiguousarray(entries.T), rng=SeededSource(3)),
    )


def test_the_law_of_coins_rarer_than_sixteen_bits():
    """Only refinement can answer yes here, and no with the right frequency above: p = 0.3 * 2^-16 and 1 - that."""
    n, p = 1 << 22, 0.3 * 2.0**-16
    for bias, rare in ((p, True), (1 - p, False)):
        seen = int((Coins.of_floats([bias]).toss(np.zeros(n, dtype=np.int8), rng=SeededSource(5)) == rare).sum())
        assert stats.poisson.cdf(seen, n * p) > 1e-4
        assert stats.poisson.sf(seen - 1, n * p) > 1e-4
        assert 0 < seen < 64  # without refinement it would be 0 or about 64


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
