"""The price of a coin: never below the truth, and not much above it."""

import math

import numpy as np
import pytest
from flint import arb, ctx
from hypothesis import given
from hypothesis import strategies as st

from cutline.privacy.curves.bit_table import CoinPairs, coin_divergence_ball

inside = st.floats(min_value=2.0**-60, max_value=1 - 2.0**-53)
orders = st.floats(min_value=1.001, max_value=5000.0)


def truth(p: float, q: float, order: float):
    with ctx.workprec(600):
        a, x, y = arb(order), arb(p), arb(q)
        return (x * ((a - 1) * (x / y).log()).exp() + (1 - x) * ((a - 1) * ((1 - x) / (1 - y)).log()).exp()).log() / (
            a - 1
        )


@given(p=inside, q=inside, order=orders)
def test_bound_is_above_the_truth_and_close(p, q, order):
    bound = float(CoinPairs.of(np.array([p]), np.array([q])).divergence(order)[0])
    exact = truth(p, q, order)
    assert arb(bound) >= exact or (p == q and bound == 0)
    assert bound <= float(exact.upper()) * (1 + 1e-6) + 1e-12 / (order - 1)


@given(q=st.floats(min_value=1e-9, max_value=1 - 1e-9), step=st.floats(min_value=1e-9, max_value=1e-2), order=orders)
def test_close_coins_keep_their_relative_accuracy(q, step, order):
    p = q + step * min(q, 1 - q)
    if p == q:
        return
    bound = float(CoinPairs.of(np.array([p]), np.array([q])).divergence(order)[0])
    exact = truth(p, q, order)
    assert arb(bound) >= exact
    # the allowance is 2^-50 relative of first-order terms, which the square of the step shrinks below
    assert bound <= float(exact.upper()) * (1 + 1e-9) + 1e-13


def test_ball_encloses_the_truth():
    ball = coin_divergence_ball(0.3, 0.2, 7.0)
    assert abs(float(ball.mid()) - float(truth(0.3, 0.2, 7.0).mid())) < 1e-15


@pytest.mark.parametrize(("p", "q"), [(0.5, 0.0), (0.5, 1.0), (1.0, 0.0), (0.0, 1.0)])
def test_impossible_outcomes_cost_infinity(p, q):
    assert CoinPairs.of(np.array([p]), np.array([q])).divergence(2.0)[0] == math.inf


@pytest.mark.parametrize(("p", "q", "expected"), [(0.0, 0.5, math.log(2)), (1.0, 0.5, math.log(2)), (0.0, 0.0, 0.0)])
def test_certain_coins_against_fair_ones(p, q, expected):
    value = CoinPairs.of(np.array([p]), np.array([q])).divergence(3.0)[0]
    assert expected <= value <= expected + 1e-12


def test_order_infinity_is_the_largest_log_ratio():
    value = CoinPairs.of(np.array([0.2]), np.array([0.1])).divergence(math.inf)[0]
    assert value == pytest.approx(math.log(2), rel=1e-12)
    assert value >= math.log(2)


@pytest.mark.parametrize(
    ("p", "q", "order"),
    [
        (0.8822398356845801, 3.941769045942984e-270, 1.0000000000560414),
        (0.5, 1e-300, 1.00001),
        (1e-300, 0.5, 900.0),
    ],
)
def test_tiny_coins_near_order_one_are_still_bounded_from_above(p, q, order):
    assert arb(float(CoinPairs.of(np.array([p]), np.array([q])).divergence(order)[0])) >= truth(p, q, order)
