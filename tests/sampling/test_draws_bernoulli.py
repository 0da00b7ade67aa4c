from fractions import Fraction

import numpy as np
import pytest
from flint import arb
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from cutline.errors import ParameterError
from cutline.sampling import SeededSource, SystemSource, bernoulli, bernoulli_real, draws

FULL = 2**64 - 1


def model(probability, words):
    """Answer and words used when U is compared with the fraction, word by word."""
    value = 0
    for used, word in enumerate(words, start=1):
        value = value << 64 | word
        scale = 2 ** (64 * used)
        if Fraction(value + 1, scale) <= probability:
            return True, used
        if Fraction(value, scale) >= probability:
            return False, used
    raise AssertionError("words ran out")


def words_of(probability, n):
    whole = int(Fraction(probability) * 2 ** (64 * n))
    return [(whole >> (64 * (n - 1 - i))) & FULL for i in range(n)]


probabilities = st.one_of(
    st.floats(0, 1),
    st.builds(lambda m, e: m * 2.0**-e, st.floats(0.5, 1), st.integers(0, 1074)),
    st.sampled_from([0.0, 1.0, 0.5, 5e-324, 1 - 2**-53, 2.0**-64, 2.0**-62, 2.0**-63, 3 * 2.0**-65]),
)


@pytest.mark.slow
@settings(max_examples=400, deadline=None)
@given(
    p=probabilities,
    nudge=st.integers(-2, 2),
    depth=st.integers(1, 18),
    tail=st.lists(st.integers(0, FULL), min_size=20, max_size=20),
)
def test_scripted_words_agree_with_exact_fractions(script, p, nudge, depth, tail):
    # U shares its first words with p, is nudged in one, and goes on at random.
    shared = words_of(p, depth) if p < 1 else [FULL] * depth
    shared[-1] = min(max(shared[-1] + nudge, 0), FULL)
    words = [*shared, *tail]
    answer, used = model(Fraction(p), words)
    source = script(words)
    assert bernoulli([p], rng=source).tolist() == [answer]
    assert source.used == used


@pytest.mark.parametrize(
    ("p", "words", "answer"),
    [
        (0.5, [2**63 - 1], True),
        (0.5, [2**63], False),
        (0.0, [0], False),
        (1.0, [FULL], True),
        (2.0**-64, [0], True),
        (2.0**-64, [1], False),
        (2.0**-65, [0, 2**63 - 1], True),
        (2.0**-65, [0, 2**63], False),
        (5e-324, [0] * 16 + [0], True),
        (5e-324, [0] * 16 + [2**14], False),
        (5e-324, [0] * 15 + [1], False),
    ],
)
def test_the_edge_of_every_word(script, p, words, answer):
    source = script(words)
    assert bernoulli([p], rng=source).tolist() == [answer]
    assert source.used == len(words)


def test_zero_and_one_are_certain():
    p = np.tile([0.0, 1.0], 50_000)
    assert np.array_equal(bernoulli(p, rng=SystemSource()), p == 1)


def test_any_shape_and_memory_order():
    p = np.asfortranarray(np.arange(12).reshape(3, 4) % 2)
    assert np.array_equal(bernoulli(p), p == 1)
    assert np.array_equal(bernoulli(p.T[::2]), p.T[::2] == 1)
    assert bernoulli(1.0).shape == ()
    assert bernoulli(np.empty((0, 3))).shape == (0, 3)
    assert bernoulli([]).shape == (0,)
    assert bernoulli(np.ones(5, dtype=np.float32)).all()


def test_chunks_are_one_stream():
    p = np.random.default_rng(0).random(100_003)
    words = SeededSource(9).words(len(p))
    assert np.array_equal(bernoulli(p, rng=SeededSource(9)), words < (p * 2.0**64).astype(np.uint64))


@pytest.mark.parametrize("bad", [float("nan"), -1e-300, 1 + 2**-52, float("inf"), -float("inf")])
def test_nan_and_values_outside_are_refused_wherever_they_are(bad):
    p = np.full(40_000, 0.5)
    p[-1] = bad
    with pytest.raises(ParameterError, match=r"within \[0, 1\]"):
        bernoulli(p)
    with pytest.raises(ParameterError, match=r"within \[0, 1\]"):
        bernoulli([bad])


@pytest.mark.parametrize("wrong", [[Fraction(1, 3)], np.array([0.5], dtype=np.longdouble), ["0.5"], [None]])
def test_types_that_would_round_are_refused(wrong):
    with pytest.raises(ParameterError, match="at most 64 bits"):
        bernoulli(wrong)


def two_sided(successes, n, p):
    return stats.binomtest(int(successes), n, p).pvalue


@pytest.mark.parametrize("p", [0.3, 0.5, 0.02, 1e-3])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_frequencies_with_power(p, seed):
    n = 1_500_000
    yes = bernoulli(np.full(n, p), rng=SeededSource(seed)).sum()
    assert two_sided(yes, n, p) > 1e-4
    assert two_sided(yes, n, 0.7 * p) < 1e-6
    assert two_sided(yes, n, 1.3 * p) < 1e-6


# Real probabilities.


def inverse_e(index, precision):
    return arb(-1).exp()


@pytest.mark.parametrize("refine", [False, True])
def test_a_real_probability_with_power(refine, monkeypatch):
    if refine:
        monkeypatch.setattr(draws, "_band", lambda groups: np.inf)
    n, p = 8_000, np.exp(-1)
    yes = bernoulli_real(np.full(n, p), inverse_e, rng=SeededSource(3)).sum()
    assert two_sided(yes, n, p) > 1e-4
    assert two_sided(yes, n, 0.7 * p) < 1e-6
    assert two_sided(yes, n, 1.3 * p) < 1e-6


def test_a_real_probability_is_settled_by_its_digits(script):
    def third(index, precision):
        return arb(1) / 3

    tie = FULL // 3
    for last, answer in ((tie - 1, True), (tie + 1, False)):
        source = script([tie, tie, last])
        assert bernoulli_real([1 / 3], third, rng=source).tolist() == [answer]
        assert source.used == 3


def test_each_index_has_its_own_enclosure(script):
    seen = []

    def enclose(index, precision):
        seen.append(index)
        return arb(index) / 4

    source = script([0, 2**62, 2**63, 2**63 + 2**62, 0, 0, 0, 0])
    assert bernoulli_real([0.0, 0.25, 0.5, 0.75], enclose, rng=source).tolist() == [False] * 4
    assert seen == [0, 1, 2, 3]


def test_real_zero_and_one_are_certain(script):
    assert bernoulli_real([0.0], lambda i, precision: arb(0), rng=script([0, 0])).tolist() == [False]
    assert bernoulli_real([1.0], lambda i, precision: arb(1), rng=script([FULL, FULL])).tolist() == [True]


@pytest.mark.parametrize("bad", [[float("nan")], [1.1], [-0.1], [[0.5]]])
def test_bad_approximations_are_refused(bad):
    with pytest.raises(ParameterError):
        bernoulli_real(bad, inverse_e)
