from fractions import Fraction
from math import comb

import numpy as np
import pytest
from flint import arb, ctx, fmpq
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from cutline.sampling import SeededSource, Weights, categorical, probabilities

FULL = 2**64 - 1


def exp_fraction(x: Fraction) -> Fraction:
    """exp(x) for x <= 0 to 400 bits, by halving and Taylor's series in fractions alone."""
    halvings = 0
    while abs(x) > Fraction(1, 8):
        x, halvings = x / 2, halvings + 1
    term, total = Fraction(1), Fraction(1)
    for n in range(1, 100):
        term = term * x / n
        term = Fraction(round(term * 2**700), 2**700)
        total += term
    for _ in range(halvings):
        total = Fraction(round(total * total * 2**700), 2**700)
    return total


def digits(value: Fraction, n: int) -> list[int]:
    """The first n words of the binary expansion of a fraction below 1."""
    whole = int(value * 2 ** (64 * n))
    return [(whole >> (64 * (n - 1 - i))) & FULL for i in range(n)]


def one_row(scores, rate, multiplicities=None):
    return Weights(scores=np.array([scores]), rate=Fraction(rate), multiplicities=multiplicities)


def exact_law(weights, row=0):
    """The law as balls, straight from the definition, with no shift of scores."""
    scores = weights.scores[row].tolist()
    counts = weights.multiplicities
    members = [1] * len(scores) if counts is None else np.broadcast_to(counts, weights.scores.shape)[row].tolist()
    with ctx.workprec(3000):
        rate = fmpq(weights.rate.numerator, weights.rate.denominator)
        masses = [
            arb(fmpq(Fraction(m).numerator, Fraction(m).denominator)) * arb(rate * s).exp()
            for s, m in zip(scores, members, strict=True)
        ]
        return [mass / sum(masses, arb(0)) for mass in masses]


def assert_law_matches(weights, law):
    assert np.allclose(law.sum(axis=1), 1, rtol=1e-12, atol=0)
    for row in range(len(law)):
        with ctx.workprec(3000):
            for got, exact in zip(law[row].tolist(), exact_law(weights, row), strict=True):
                if exact > arb(2) ** -1020:
                    assert abs(arb(got) - exact) <= exact * arb("1e-12")
                else:
                    assert 0 <= got < 2.0**-1019


# The tiny outcomes: exact digits of the boundary, from fractions alone.


@pytest.mark.parametrize("order", ["first", "last"])
@pytest.mark.parametrize("words", [3, 4, 5])
def test_an_outcome_of_weight_exp_minus_100_keeps_its_exact_share(script, order, words):
    rare = exp_fraction(Fraction(-100))
    share = rare / (1 + rare)
    scores, boundary = ([0, 100], share) if order == "first" else ([100, 0], 1 - share)
    tie = digits(boundary, words)
    assert tie[:2] == ([0, 0] if order == "first" else [FULL, FULL])  # far below the first word
    for step, outcome in ((-1, 0), (1, 1)):
        source = script([*tie[:-1], tie[-1] + step, 0])
        assert categorical(one_row(scores, 1), rng=source).tolist() == [outcome]
        assert source.used == words


def test_words_of_zeros_choose_a_tiny_first_outcome_only_once_they_are_enough(script):
    weights = one_row([0, 100], 1)  # share e^-100 = 2^-144.3: 128 zeros leave doubt, 192 do not
    source = script([0] * 10)
    assert categorical(weights, rng=source).tolist() == [0]
    assert source.used == 3
    assert categorical(weights, rng=script([0, 0, FULL])).tolist() == [1]


def test_words_of_ones_choose_a_tiny_last_outcome(script):
    weights = one_row([100, 0], 1)
    source = script([FULL] * 10)
    assert categorical(weights, rng=source).tolist() == [1]
    assert source.used == 3
    assert categorical(weights, rng=script([FULL, FULL, 0])).tolist() == [0]


def test_a_tiny_outcome_between_two_large_ones_is_reached(script):
    scores = [0, -200, 0]
    rare = exp_fraction(Fraction(-200))
    total = 2 + rare
    tie_low, tie_high = digits(1 / total, 6), digits((1 + rare) / total, 6)
    middle = digits((1 + rare / 2) / total, 6)
    low = script([*tie_low[:-1], tie_low[-1] - 1, 0])
    high = script([*tie_high[:-1], tie_high[-1] + 1, 0])
    assert categorical(one_row(scores, 1), rng=low).tolist() == [0]
    assert categorical(one_row(scores, 1), rng=high).tolist() == [2]
    source = script(middle)
    assert categorical(one_row(scores, 1), rng=source).tolist() == [1]
    assert source.used == 5  # 2^-288.5: five words of 64


def test_unthinkably_rare_outcomes_do_not_stop_the_draw(script):
    weights = one_row([2**61, -(2**61), 2**61], Fraction(10**30))
    assert categorical(weights, rng=script([2**62])).tolist() == [0]
    assert categorical(weights, rng=script([2**63 + 2**62])).tolist() == [2]
    assert categorical(weights, rng=script([2**63, 1])).tolist() == [2]
    assert probabilities(weights).tolist() == [[0.5, 0.0, 0.5]]


def test_impossible_groups_are_never_drawn_at_any_edge(script):
    counts = np.array([0, 1, 0, 0, 1, 0])
    weights = one_row([9, 0, 900, -5, 0, 2**61], 1, counts)
    for words, outcome in (([0, 0], 1), ([2**63 - 1, FULL], 1), ([2**63, 0], 4), ([FULL, FULL], 4)):
        assert categorical(weights, rng=script(words)).tolist() == [outcome]
    tiled = Weights(scores=np.tile(weights.scores, (20_000, 1)), rate=weights.rate, multiplicities=counts)
    assert set(categorical(tiled, rng=SeededSource(1)).tolist()) == {1, 4}
    assert probabilities(weights).tolist() == [[0, 0.5, 0, 0, 0.5, 0]]


def test_one_group_draws_no_bits(script):
    weights = Weights(scores=np.array([[5], [7]]), rate=Fraction(1))
    assert categorical(weights, rng=script([])).tolist() == [0, 0]
    assert probabilities(weights).tolist() == [[1.0], [1.0]]


def test_no_rows():
    weights = Weights(scores=np.empty((0, 3), dtype=np.int64), rate=Fraction(1))
    assert categorical(weights).shape == (0,)
    assert probabilities(weights).shape == (0, 3)


# Two paths, one law.

laws = st.integers(2, 6).flatmap(
    lambda groups: st.tuples(
        st.lists(st.integers(-60, 60), min_size=groups, max_size=groups),
        st.fractions(0, 3, max_denominator=50),
        st.none()
        | st.lists(st.integers(0, 5), min_size=groups, max_size=groups).filter(any)
        | st.lists(st.fractions(0, 9, max_denominator=7), min_size=groups, max_size=groups).filter(any),
    )
)
heads = st.sampled_from([0, FULL, 2**63, 2**63 - 1]) | st.integers(0, FULL)


def as_array(counts):
    return None if counts is None else np.array([*counts, None], dtype=object)[:-1]


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(law=laws, head=heads, tail=st.integers(0, 2**63))
def test_the_fast_path_agrees_with_always_refining(law, head, tail):
    scores, rate, counts = law
    weights = one_row(scores, rate, as_array(counts))

    class Tail:
        seeded = True

        def __init__(self):
            self.first, self.rest = [head], SeededSource(tail)

        def words(self, n):
            if self.first:
                return np.array([self.first.pop()], dtype=np.uint64)
            return self.rest.words(n)

    fast = categorical(weights, rng=Tail())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("cutline.sampling.draws._band", lambda groups: np.inf)
        refined = categorical(weights, rng=Tail())
    assert fast.tolist() == refined.tolist()


@settings(max_examples=60, deadline=None)
@given(
    scores=st.lists(st.integers(-30, 30), min_size=1, max_size=5),
    rate=st.fractions(0, 2, max_denominator=9),
    counts=st.lists(st.integers(0, 4), min_size=5, max_size=5),
    seed=st.integers(0, 2**32),
)
def test_a_multiplicity_is_the_score_repeated(scores, rate, counts, seed):
    counts = counts[: len(scores)]
    counts[0] += 1
    grouped = one_row(scores, rate, np.array(counts))
    repeated = one_row(np.repeat(scores, counts).tolist(), rate)
    ends = np.cumsum(counts)
    single = probabilities(repeated)[0]
    sums = [single[end - n : end].sum() for end, n in zip(ends, counts, strict=True)]
    assert np.allclose(probabilities(grouped)[0], sums, rtol=1e-12, atol=0)
    # Same words, same U, same cumulative law: the drawn member lies in the drawn group.
    rows = 50
    many = Weights(scores=np.tile(grouped.scores, (rows, 1)), rate=rate, multiplicities=np.array(counts))
    members = categorical(Weights(scores=np.tile(repeated.scores, (rows, 1)), rate=rate), rng=SeededSource(seed))
    groups = categorical(many, rng=SeededSource(seed))
    if len(scores) > 1 and repeated.scores.shape[1] > 1:
        assert np.searchsorted(ends, members, side="right").tolist() == groups.tolist()


# The empirical law, with power.


def p_value(draws, law):
    observed = np.bincount(draws, minlength=len(law))
    return stats.chisquare(observed, law * len(draws)).pvalue


@pytest.mark.slow
@pytest.mark.parametrize("multiplicities", [None, np.array([1, 7, 3, 2, 50]), np.array([Fraction(1, 3), 2, 5, 1, 9])])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_draws_follow_the_law_and_no_other(multiplicities, seed):
    scores, rows, rate = [12, 9, 7, 4, 0], 40_000, Fraction(1, 4)

    def batch(rate):
        return Weights(scores=np.tile(scores, (rows, 1)), rate=rate, multiplicities=multiplicities)

    draws = categorical(batch(rate), rng=SeededSource(seed))
    assert p_value(draws, probabilities(batch(rate))[0]) > 1e-4
    for factor in (Fraction(7, 10), Fraction(13, 10)):
        assert p_value(draws, probabilities(batch(rate * factor))[0]) < 1e-6


@pytest.mark.parametrize("seed", [0, 1])
def test_the_refined_law_is_the_law_too(seed, monkeypatch):
    monkeypatch.setattr("cutline.sampling.draws._band", lambda groups: np.inf)
    scores, rows = [3, 1, 0], 6_000
    weights = Weights(scores=np.tile(scores, (rows, 1)), rate=Fraction(1, 2))
    draws = categorical(weights, rng=SeededSource(seed))
    assert p_value(draws, probabilities(weights)[0]) > 1e-4
    for factor in (Fraction(7, 10), Fraction(13, 10)):
        other = one_row(scores, Fraction(1, 2) * factor)
        assert p_value(draws, probabilities(other)[0]) < 1e-6


def test_rows_have_laws_of_their_own():
    scores = np.array([[0, 1000], [1000, 0]] * 500)
    draws = categorical(Weights(scores=scores, rate=Fraction(1)), rng=SeededSource(0))
    assert draws.tolist() == [1, 0] * 500


# Large and small.


def test_huge_multiplicities_balance_huge_exponents(script):
    count = comb(100_000, 50_000)  # about 2^99991: far beyond a float
    with ctx.workprec(400):
        offset = int((arb(count).log() / fmpq(1, 1000)).floor().unique_fmpz())
    weights = one_row([offset, 0, 0], Fraction(1, 1000), np.array([1, count, 0], dtype=object))
    law = probabilities(weights)
    assert_law_matches(weights, law)
    assert 0.49 < law[0, 0] < 0.51
    tie = digits(Fraction(law[0, 0]), 1)[0]
    assert categorical(weights, rng=script([tie - 2**30])).tolist() == [0]
    assert categorical(weights, rng=script([tie + 2**30])).tolist() == [1]
    refined = script([tie, 0, 0])
    assert categorical(weights, rng=refined).tolist() in ([0], [1])
    assert refined.used == 2


def test_tiny_fractions_as_multiplicities():
    counts = np.array([Fraction(1, 10**400), Fraction(3, 10**400), 0], dtype=object)
    weights = one_row([5, 5, 800], 1, counts)
    assert np.allclose(probabilities(weights), [[0.25, 0.75, 0]], rtol=1e-12, atol=0)
    tiled = Weights(scores=np.tile([5, 5, 800], (4000, 1)), rate=Fraction(1), multiplicities=counts)
    assert abs(categorical(tiled, rng=SeededSource(0)).mean() - 0.75) < 0.04


@pytest.mark.slow
def test_a_million_groups():
    groups = 10**6
    weights = one_row(np.arange(groups), Fraction(1, 10**5))
    draws = [int(categorical(weights, rng=SeededSource(seed))[0]) for seed in range(40)]
    # From the top, the law is nearly geometric with mean 10^5.
    assert stats.kstest(groups - np.array(draws), "expon", args=(0, 1e5)).pvalue > 1e-4
    assert min(draws) >= 0
    assert abs(probabilities(weights).sum() - 1) < 1e-12


@settings(max_examples=60, deadline=None)
@given(law=laws)
def test_the_law_is_right_to_1e_12(law):
    scores, rate, counts = law
    weights = one_row(scores, rate, as_array(counts))
    assert_law_matches(weights, probabilities(weights))


@pytest.mark.parametrize("rate", [Fraction(0), Fraction(1, 3), Fraction(0.1), Fraction(5), Fraction(1, 10**12)])
def test_the_law_is_right_for_large_scores_and_tiny_entries(rate):
    generator = np.random.default_rng(8)
    span = int(min(740 / rate, 10**14)) if rate else 10**6
    scores = 10**15 - generator.integers(0, span, size=(3, 40))
    weights = Weights(scores=scores, rate=rate, multiplicities=generator.integers(0, 2**62, size=40) + 1)
    assert_law_matches(weights, probabilities(weights))
