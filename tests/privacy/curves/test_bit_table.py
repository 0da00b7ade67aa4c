"""Tables: proved, greedy, symmetric, and dear where they should be."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from flint import arb
from hypothesis import given, settings
from hypothesis import strategies as st

from cutline.errors import ParameterError
from cutline.privacy import BitTable
from cutline.privacy.curves.bit_table import ALMOST_ONE, coin_divergence_ball

orders = st.floats(min_value=1.05, max_value=400.0)
costs = st.floats(min_value=1e-3, max_value=3.0)
deltas = st.floats(min_value=1e-12, max_value=0.5)


def both_ways(p: float, q: float, order: float):
    return coin_divergence_ball(p, q, order, bits=300), coin_divergence_ball(q, p, order, bits=300)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(order=orders, rdp=costs, delta=deltas)
def test_stability_table_keeps_every_inequality(order, rdp, delta):
    table = BitTable.stability(order=order, rdp=rdp, delta=delta)
    values = table.values
    assert values[0] == delta
    assert 1 - 1e-12 <= values[-1] <= ALMOST_ONE
    for p, q in itertools.pairwise(values):
        assert p < q
        assert all(d <= arb(rdp) for d in both_ways(p, q, order))


@settings(max_examples=60, deadline=None)
@given(order=orders, rdp=costs, delta=deltas)
def test_greedy_is_tight_no_value_can_be_raised(order, rdp, delta):
    values = BitTable.stability(order=order, rdp=rdp, delta=delta).values
    for p, q in itertools.pairwise(values):
        raised = min(q + 1e-6 * min(q - p, 1 - q), 1 - 2.0**-53)
        if 1 - q > 1e-9 and raised > q:
            assert any(d > arb(rdp) for d in both_ways(p, raised, order))


def test_the_middle_follows_the_sine_law():
    order, rdp = 4.0, 1e-4
    table = BitTable.stability(order=order, rdp=rdp, delta=0.01)
    angles = np.arcsin(np.sqrt(np.array(table.values)))
    steps = np.diff(angles[(np.array(table.values) > 0.2) & (np.array(table.values) < 0.8)])
    assert steps == pytest.approx(np.full(len(steps), math.sqrt(rdp / (2 * order))), rel=1e-2)


def test_rdp_at_the_building_order_is_the_price_and_elsewhere_is_exact():
    table = BitTable.stability(order=7.5, rdp=8.1e-4, delta=1e-11)
    assert 8.1e-4 * (1 - 1e-6) < table.rdp(7.5) < 8.1e-4 * (1 + 1e-9)
    assert table.rdp(7.5 * 1.25) > 100 * table.rdp(7.5)  # a table is dear at other orders: charge it exactly
    other = max(
        float(max(both_ways(p, q, 3.0), key=float)) for p, q in zip(table.values, table.values[1:], strict=False)
    )
    assert table.rdp(3.0) == pytest.approx(other, rel=1e-9)
    assert table.rdp(3.0) >= other


@given(teachers=st.integers(1, 300), order=orders, rdp=costs)
@settings(max_examples=50, deadline=None)
def test_voting_table_is_symmetric_and_within_its_price(teachers, order, rdp):
    table = BitTable.voting(order=order, rdp=rdp, teachers=teachers)
    n = np.arange(-1, teachers + 2)
    assert np.all(table(n) + table(teachers - n) == 1.0)
    assert all(Fraction(p) + Fraction(q) == 1 for p, q in zip(table(n), table(teachers - n), strict=True))
    assert table.values[0] >= 2.0**-50
    assert table.rdp(order) <= rdp * (1 + 1e-9)
    if teachers % 2 == 0:
        assert table(np.array([teachers // 2]))[0] == 0.5


def test_odd_vote_splits_the_middle_as_far_as_it_may():
    table = BitTable.voting(order=4.0, rdp=0.05, teachers=5)
    low, high = table(np.array([2, 3]))
    assert low + high == 1
    assert float(coin_divergence_ball(high, low, 4.0)) == pytest.approx(0.05, rel=1e-9)


def test_approximate_table_follows_its_recursion_from_below():
    epsilon, delta = 0.5, 1e-6
    values = BitTable.approximate(epsilon=epsilon, delta=delta).values
    assert values[0] == delta
    assert values[-1] == 1.0
    for p, q in itertools.pairwise(values):
        best = min(math.exp(epsilon) * p + delta, 1 - math.exp(-epsilon) * (1 - p - delta), 1.0)
        assert best * (1 - 1e-14) <= q <= best * (1 + 1e-15)
    assert BitTable(values=values).rdp(2.0) == math.inf  # it reaches certainty: not a Rényi table


@pytest.mark.parametrize(
    "build",
    [
        lambda: BitTable(values=()),
        lambda: BitTable(values=(0.5, 0.4)),
        lambda: BitTable(values=(0.5, math.nan)),
        lambda: BitTable(values=(-0.1, 0.4)),
        lambda: BitTable(values=(0.5, 1.1)),
        lambda: BitTable.stability(order=1.0, rdp=0.1, delta=1e-6),
        lambda: BitTable.stability(order=math.nan, rdp=0.1, delta=1e-6),
        lambda: BitTable.stability(order=2.0, rdp=0.0, delta=1e-6),
        lambda: BitTable.stability(order=2.0, rdp=math.inf, delta=1e-6),
        lambda: BitTable.stability(order=2.0, rdp=0.1, delta=0.0),
        lambda: BitTable.stability(order=2.0, rdp=0.1, delta=1.0),
        lambda: BitTable.voting(order=2.0, rdp=0.1, teachers=0),
        lambda: BitTable.voting(order=2.0, rdp=0.1, teachers=2.5),
        lambda: BitTable.approximate(epsilon=-1.0, delta=1e-6),
        lambda: BitTable.approximate(epsilon=1.0, delta=math.nan),
    ],
)
def test_refusals(build):
    with pytest.raises(ParameterError):
        build()


def test_constant_outside_the_stored_range():
    table = BitTable(values=(0.1, 0.5, 0.9), start=3)
    assert table(np.array([-5, 3, 4, 5, 99])).tolist() == [0.1, 0.1, 0.5, 0.9, 0.9]


def test_tables_too_long_or_too_steep_end_well():
    assert BitTable.approximate(epsilon=800.0, delta=1e-6).values[-1] >= 1 - 2.0**-52
    with pytest.raises(ParameterError, match="fit"):
        BitTable.stability(order=16.0, rdp=1e-30, delta=1e-7)
    with pytest.raises(ParameterError, match="fit"):
        BitTable.approximate(epsilon=1e-9, delta=1e-12)
