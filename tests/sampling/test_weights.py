from fractions import Fraction

import numpy as np
import pytest
from flint import arb, ctx

from cutline.errors import ParameterError
from cutline.sampling import Weights, weights

ONE = Fraction(1)


def test_repr_shows_the_shape_only():
    shown = repr(Weights(scores=np.array([[12345, 2], [3, 4]]), rate=ONE))
    assert shown == "Weights(rows=2, groups=2)"


def test_two_weights_are_never_equal_by_value():
    scores = np.array([[1, 2]])
    assert Weights(scores=scores, rate=ONE) != Weights(scores=scores, rate=ONE)


def test_log2_e_is_right_to_its_last_bit():
    with ctx.workprec(1000):
        exact = (arb(1 << weights._LOG2_E_BITS) / arb.const_log2()).floor().unique_fmpz()
    assert int(exact) == weights._LOG2_E


@pytest.mark.parametrize(
    "scores",
    [
        np.array([1, 2]),
        np.array([[0.5]]),
        np.array([[np.nan]]),
        np.empty((2, 0), dtype=int),
        np.array([[2**62]]),
    ],
)
def test_scores_that_are_no_rows_of_integers_are_refused(scores):
    with pytest.raises(ParameterError, match="scores must be"):
        Weights(scores=scores, rate=ONE)


@pytest.mark.parametrize("rate", [0.5, float("nan"), Fraction(-1, 3), "1", None])
def test_an_inexact_or_negative_rate_is_refused(rate):
    with pytest.raises(ParameterError, match="the rate must be an exact number"):
        Weights(scores=np.array([[1, 2]]), rate=rate)


@pytest.mark.parametrize(
    ("multiplicities", "rule"),
    [
        (np.array([0.5, 1.0]), "must be exact"),
        (np.array([1, float("nan")], dtype=object), "must be exact"),
        (np.array([1, True], dtype=object), "must be exact"),
        (np.array([1, -1]), "at least 0"),
        (np.array([1, Fraction(-1, 2)], dtype=object), "at least 0"),
        (np.array([1, 2, 3]), "shape of the scores"),
        (np.array([[1, 1], [0, 0]]), "possible group"),
    ],
)
def test_bad_multiplicities_are_refused(multiplicities, rule):
    with pytest.raises(ParameterError, match=rule):
        Weights(scores=np.array([[1, 2], [3, 4]]), rate=ONE, multiplicities=multiplicities)


def test_no_message_quotes_a_score_or_a_multiplicity():
    with pytest.raises(ParameterError) as caught:
        Weights(scores=np.array([[2**62 + 987]]), rate=ONE)
    assert "987" not in str(caught.value)
    with pytest.raises(ParameterError) as caught:
        Weights(scores=np.array([[1]]), rate=ONE, multiplicities=np.array([-987]))
    assert "987" not in str(caught.value)


def test_float_weights_keep_their_promise_to_two_to_the_minus_40():
    generator = np.random.default_rng(4)
    base = 10**15  # a float product rate * score would be wrong in the first digits of the weight
    for rate in (Fraction(1, 3), Fraction(0.1), Fraction(7), Fraction(1, 10**6)):
        span = int(700 / rate)
        scores = base - generator.integers(0, span, size=200)
        scores[0] = base
        counts = generator.integers(1, 2**62, size=200)
        batch = Weights(scores=scores[None], rate=rate, multiplicities=counts)
        floats = weights.float_weights(batch)[0]
        with ctx.workprec(200):
            for value, score, count in zip(floats, scores, counts, strict=True):
                exponent = rate * int(score - base)
                exact = arb(int(count)) * (arb(exponent.numerator) / arb(exponent.denominator)).exp()
                assert abs(arb(float(value)) / exact - 1) < arb(2) ** -40


@pytest.mark.parametrize(
    ("counts", "plain"),
    [
        ([7, Fraction(500, 1) / Fraction(2.3e-7), 0, 2**64 + 1], True),
        ([1, 2**499, 3, 0], True),
        ([7, 2**501, 1, 1], False),  # products of many of these could leave the floats
        ([10**400, 3, 1, 1], False),
        ([7, Fraction(1, 3), 1, 1], False),  # the best may then weigh next to nothing
        ([7, Fraction(1, 10**400), 1, 0], False),  # not 0, though its float is
    ],
)
def test_exact_multiplicities_are_floats_where_floats_are_good_enough(counts, plain):
    exact = np.array([counts], dtype=object)
    assert (weights._plain_floats(exact) is not None) == plain
    law = Weights(scores=np.array([[3, 0, 90, -200]]), rate=Fraction(1, 7), multiplicities=exact)
    found = weights.float_weights(law)[0]
    with ctx.workprec(200):
        best = max(score for score, n in zip((3, 0, 90, -200), counts, strict=True) if n)
        true = [
            arb(n.numerator) / arb(n.denominator) * (arb(score - best) / 7).exp()
            for score, n in zip((3, 0, 90, -200), counts, strict=True)
        ]
        share = [float(t / sum(true)) for t in true]
    assert (found / found.sum()).tolist() == pytest.approx(share, rel=2**-39, abs=1e-290)
