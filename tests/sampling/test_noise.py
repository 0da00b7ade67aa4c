"""Continuous noise: certain comparisons, refined where floats cannot tell, with the right law."""

import math
from fractions import Fraction

import numpy as np
import pytest
from flint import arb, ctx
from scipy import stats
from scipy.integrate import quad

from cutline.errors import ParameterError
from cutline.sampling import SeededSource, noise
from cutline.sampling.noise import EXPONENTIAL, LAPLACE, NORMAL, first_above, noisy_argmax

FULL, HALF = 2**64 - 1, 2**63
KINDS = {"exponential": EXPONENTIAL, "laplace": LAPLACE, "gaussian": NORMAL}
SCIPY = {"exponential": stats.expon, "laplace": stats.laplace, "gaussian": stats.norm}
each_kind = pytest.mark.parametrize("kind", KINDS)


@each_kind
def test_float_quantiles_are_within_their_bound_of_the_whole_range(kind):
    rng = np.random.default_rng(0)
    small = (rng.integers(0, 2**63, 40, dtype=np.uint64) >> np.arange(0, 40, dtype=np.uint64)).astype(np.uint64)
    words = np.concatenate([small, ~small, np.array([0, 1, HALF - 1, HALF, FULL - 1, FULL], dtype=np.uint64)])
    values, errors = KINDS[kind].approximate(words)
    assert np.isfinite(values).all()
    with ctx.workprec(400):
        for word, value, error in zip(words.tolist(), values.tolist(), errors.tolist(), strict=True):
            for whole in (word, word + 1):
                end = KINDS[kind].quantile(whole, 64)
                assert error == math.inf or abs(end - arb(value)) <= arb(error)
    middle = (words > 2**50) & (words < FULL - 2**50)
    assert errors[middle].max() < 2**-30


@each_kind
def test_quantiles_agree_with_scipy(kind):
    for whole in (1, 12345, 2**20 - 1, 2**19):
        with ctx.workprec(200):
            assert float(KINDS[kind].quantile(whole, 20)) == pytest.approx(SCIPY[kind].ppf(whole / 2**20), abs=1e-12)
    with ctx.workprec(200):
        assert KINDS[kind].quantile(2**20, 20) == arb.pos_inf()


def test_equal_words_are_told_apart_by_later_ones(script):
    for kind in KINDS.values():
        for words, leader in (([7, 9], 1), ([9, 7], 0)):
            source = script([HALF, HALF, *words])
            assert noisy_argmax([[4, 4]], scale=Fraction(1), noise=kind, rng=source).tolist() == [leader]
            assert source.used == 4
        source = script([HALF, HALF, 5, 5, 5, 5, 8, 3])  # doubt lasts as long as the words agree
        assert noisy_argmax([[4, 4]], scale=Fraction(1), noise=kind, rng=source).tolist() == [0]
        assert source.used == 8


def test_only_contenders_are_refined(script):
    source = script([HALF, HALF, HALF, 1, 5])
    assert noisy_argmax([[9, 0, 9]], scale=Fraction(1), noise=LAPLACE, rng=source).tolist() == [2]
    assert source.used == 5
    source = script([HALF, HALF])
    assert noisy_argmax([[9, 0]], scale=Fraction(1), noise=LAPLACE, rng=source).tolist() == [0]
    assert source.used == 2


def test_the_last_word_may_be_arbitrarily_large_noise(script):
    # All ones: between 44 and infinity. A next word of zeros bounds it below 45, one of ones puts it above 88.
    for then, leader in ((0, 0), (FULL, 1)):
        source = script([HALF, FULL, 0, then])
        found = noisy_argmax([[60, 0]], scale=Fraction(1), noise=EXPONENTIAL, rng=source)
        assert found.tolist() == [leader]


def test_huge_scores_differ_by_one():
    scores = np.array([[2**61, 2**61 + 1]])
    with pytest.raises(ParameterError, match="2\\*\\*62"):
        noisy_argmax(2 * scores, scale=Fraction(1), noise=LAPLACE)
    found = noisy_argmax(np.tile(scores, (4000, 1)), scale=Fraction(1, 10), noise=LAPLACE, rng=SeededSource(0))
    assert 0.99 < found.mean() <= 1


def below(x):
    """The Laplace distribution function at scale 1."""
    return 1 - math.exp(-x) / 2 if x > 0 else math.exp(x) / 2


def argmax_law(kind, scores, scale):
    law = SCIPY[kind]

    def share(i):
        def density(x):
            rest = math.prod(law.cdf(x - s / scale) for j, s in enumerate(scores) if j != i)
            return law.pdf(x - scores[i] / scale) * rest

        ends = [s / scale for s in scores]
        return quad(density, min(ends) - 40, max(ends) + 40, points=ends, limit=400)[0]

    return np.array([share(i) for i in range(len(scores))])


@pytest.mark.slow
@each_kind
@pytest.mark.parametrize("refine", [False, True])
def test_argmax_has_the_continuous_law_and_no_other(kind, refine, monkeypatch):
    if refine:
        monkeypatch.setattr(noise, "_ERROR", math.inf)
    runs = 1_500 if refine else 60_000
    scores = [0, 3, 4]
    drawn = noisy_argmax(np.tile(scores, (runs, 1)), scale=Fraction(5, 2), noise=KINDS[kind], rng=SeededSource(2))
    observed = np.bincount(drawn, minlength=3)

    def p_value(factor):
        expected = argmax_law(kind, scores, 2.5 * factor)
        return stats.chisquare(observed, expected / expected.sum() * runs).pvalue

    assert p_value(1.0) > 1e-3
    if not refine:
        assert p_value(0.7) < 1e-6
        assert p_value(1.3) < 1e-6


def above_law(scores, scale, threshold, bar_scale):
    """Probability that each score is the first above, and last that none is."""

    def share(j):
        def density(x):
            missed = math.prod(below((x - s) / scale) for s in scores[:j])
            last = below((scores[j] - x) / scale) if j < len(scores) else 1.0
            return math.exp(-abs(x - threshold) / bar_scale) / 2 / bar_scale * missed * last

        return quad(density, -80, 120, points=[threshold, *scores], limit=400)[0]

    return np.array([share(j) for j in range(len(scores) + 1)])


@pytest.mark.parametrize("refine", [False, True])
def test_first_above_has_the_law_of_the_sparse_vector_technique(refine, monkeypatch):
    if refine:
        monkeypatch.setattr(noise, "_ERROR", math.inf)
    runs = 2_000 if refine else 60_000
    scores = [3, 0, 6]
    drawn = first_above(
        np.tile(scores, (runs, 1)),
        scale=Fraction(3, 2),
        threshold=lambda: arb(2).sqrt() * 3,
        threshold_scale=Fraction(2),
        rng=SeededSource(4),
    )
    observed = np.bincount(np.where(drawn < 0, 3, drawn), minlength=4)

    def p_value(factor):
        expected = above_law(scores, 1.5 * factor, 3 * math.sqrt(2), 2.0 * factor)
        return stats.chisquare(observed, expected / expected.sum() * runs).pvalue

    assert p_value(1.0) > 1e-3
    if not refine:
        assert p_value(0.7) < 1e-6
        assert p_value(1.3) < 1e-6


def test_a_tie_with_the_threshold_is_settled_by_later_words(script):
    for words, answer in (([9, 7], [0]), ([7, 9], [-1])):
        source = script([HALF, HALF, *words])  # threshold first
        found = first_above([[5]], scale=Fraction(1), threshold=lambda: arb(5), threshold_scale=Fraction(1), rng=source)
        assert found.tolist() == answer
        assert source.used == 4


def test_a_test_after_the_first_that_passes_needs_no_refinement(script):
    source = script([HALF, HALF, HALF])
    found = first_above(
        [[900, 5]], scale=Fraction(1), threshold=lambda: arb(5), threshold_scale=Fraction(1), rng=source
    )
    assert found.tolist() == [0]


def test_one_choice_draws_nothing(script):
    assert noisy_argmax([[3], [4]], scale=Fraction(1), noise=NORMAL, rng=script([])).tolist() == [0, 0]


@pytest.mark.parametrize("scale", [0.5, Fraction(0), Fraction(-1), Fraction(1, 2**70), Fraction(2**101)])
def test_scales_that_are_not_exact_or_too_far_are_refused(scale):
    with pytest.raises(ParameterError, match="scale"):
        noisy_argmax([[1, 2]], scale=scale, noise=LAPLACE)
    with pytest.raises(ParameterError, match="scale"):
        first_above([[1, 2]], scale=Fraction(1), threshold=lambda: arb(1), threshold_scale=scale)


@pytest.mark.parametrize("scores", [[1, 2], [[1.5, 2.0]], np.empty((3, 0), dtype=np.int64)])
def test_scores_must_be_rows_of_integers(scores):
    with pytest.raises(ParameterError, match="rows"):
        noisy_argmax(scores, scale=Fraction(1), noise=LAPLACE)
