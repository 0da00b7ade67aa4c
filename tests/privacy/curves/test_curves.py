"""Curves: exact values, monotone, readable back, refusing nonsense."""

import itertools
import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import log_ndtr, ndtr

from cutline.errors import ParameterError
from cutline.mechanisms.adaptive.gap_tests import GaussianTest
from cutline.privacy import Adjacency, BitTable, BoundedRange, Cost, GaussianBit, OneOrder, Pure, WeightedTable
from cutline.privacy.curves.base import curve_from_dict, curve_to_dict
from cutline.privacy.curves.bit_table import CoinPairs

CURVES = [
    BoundedRange(epsilon=0.3),
    Pure(epsilon=0.3),
    GaussianBit(sigma=7.0, offset=4.0, reach=1),
    GaussianBit(sigma=7.0, offset=4.0, reach=2),
    BitTable.stability(order=6.0, rdp=0.1, delta=1e-4),
    WeightedTable.stability(order=6.0, rdp=0.1, delta=1e-4),
    OneOrder(order=6.0, bound=0.1),
]


@pytest.mark.parametrize("curve", CURVES, ids=lambda c: c.kind)
def test_reads_back_equal_through_json(curve):
    assert curve_from_dict(json.loads(json.dumps(curve_to_dict(curve)))) == curve


@pytest.mark.parametrize("curve", CURVES, ids=lambda c: c.kind)
def test_grows_with_the_order_up_to_the_pure_epsilon(curve):
    values = [curve.rdp(a) for a in (1.01, 1.5, 2.0, 4.0, 16.0, 128.0, math.inf)]
    assert all(low <= high * (1 + 1e-9) for low, high in itertools.pairwise(values))
    assert values[0] > 0


@pytest.mark.parametrize("curve", CURVES, ids=lambda c: c.kind)
@pytest.mark.parametrize("order", [1.0, 0.5, -1.0, math.nan])
def test_orders_at_or_below_one_are_refused(curve, order):
    with pytest.raises(ParameterError):
        curve.rdp(order)


def test_unknown_kind_is_refused():
    with pytest.raises(ParameterError, match="kind"):
        curve_from_dict({"kind": "magic"})


@pytest.mark.parametrize("epsilon", [0.0, -1.0, math.nan, math.inf])
def test_steps_refuse_bad_epsilon(epsilon):
    for step in (BoundedRange, Pure):
        with pytest.raises(ParameterError):
            step(epsilon=epsilon)


def two_atoms(epsilon: float, t: float, order: float) -> float:
    """Divergence of the two-atom worst case with log-ratios t and t - epsilon."""
    p = math.expm1(t) / (math.exp(t) - math.exp(t - epsilon)) if t else 0.0  # mass of Q below, so that P sums to 1
    q_low = p
    q_high = 1 - p
    total = q_high * math.exp(order * t) + q_low * math.exp(order * (t - epsilon))
    return math.log(total) / (order - 1)


@pytest.mark.parametrize("epsilon", [0.01, 0.3, 1.0, 4.0])
@pytest.mark.parametrize("order", [1.1, 2.0, 8.0, 60.0])
def test_bounded_range_is_the_supremum_over_the_position(epsilon, order):
    exact = BoundedRange(epsilon=epsilon).rdp(order)
    observed = max(two_atoms(epsilon, epsilon * i / 20000, order) for i in range(1, 20000))
    assert observed <= exact * (1 + 1e-9)
    assert exact == pytest.approx(observed, rel=1e-5)
    assert exact <= order * epsilon**2 / 8 * (1 + 1e-12)
    assert exact <= Pure(epsilon=epsilon).rdp(order)


def test_bounded_range_reference_value():
    assert f"{BoundedRange(epsilon=1.0).rdp(8.0):.3f}" == "0.635"


@settings(deadline=None)
@given(order=st.floats(1.01, 1e4), rdp=st.floats(1e-9, 50.0))
def test_bounded_range_inverse_is_tight_and_within(order, rdp):
    step = BoundedRange.within(order=order, rdp=rdp)
    assert step.rdp(order) <= rdp
    assert BoundedRange(epsilon=step.epsilon * (1 + 1e-6)).rdp(order) > rdp


@pytest.mark.parametrize(
    ("epsilon", "order"), [(1e-8, 2.0), (1e-8, 1e6), (60.0, 1.001), (700.0, 50.0), (1e-3, 1.0000001)]
)
def test_extremes_stay_between_zero_and_the_bounds(epsilon, order):
    value = BoundedRange(epsilon=epsilon).rdp(order)
    assert 0 < value <= min(epsilon, order * epsilon**2 / 8 * (1 + 1e-9))


@pytest.mark.parametrize("reach", [1, 2])
@pytest.mark.parametrize(("sigma", "offset"), [(0.4, 2.0), (3.0, 5.0), (60.0, 6.0)])
@pytest.mark.parametrize("order", [1.2, 4.0, 30.0, 300.0])
def test_gaussian_bit_is_the_maximum_over_all_integers(sigma, offset, reach, order):
    n = np.arange(0, int(60 * sigma * max(1.0, order / sigma / 8)) + 200)
    best = 0.0
    for apart in range(1, reach + 1):
        low, high = n / sigma - offset, (n + apart) / sigma - offset
        for p, q in ((high, low), (low, high)):
            total = np.logaddexp(
                order * log_ndtr(p) - (order - 1) * log_ndtr(q), order * log_ndtr(-p) - (order - 1) * log_ndtr(-q)
            )
            best = max(best, float(total.max()) / (order - 1))
    claimed = GaussianBit(sigma=sigma, offset=offset, reach=reach).rdp(order)
    assert claimed >= best * (1 - 1e-9) - 1e-12
    assert claimed == pytest.approx(best, rel=1e-6, abs=1e-9)
    assert claimed <= order * (reach / sigma) ** 2 / 2 * (1 + 1e-6)  # never above releasing the noisy distance itself


def test_gaussian_bit_agrees_with_its_own_table():
    sigma, offset = 5.0, 4.0
    values = ndtr(np.arange(0, 60) / sigma - offset)
    table = max(
        CoinPairs.of(values[1:], values[:-1]).divergence(5.0).max(),
        CoinPairs.of(values[:-1], values[1:]).divergence(5.0).max(),
    )
    assert GaussianBit(sigma=sigma, offset=offset, reach=1).rdp(5.0) == pytest.approx(table, rel=1e-6)


def test_paper_threshold_has_a_smaller_true_delta():
    paper, exact = GaussianTest.paper(sigma=5.0, delta=1e-6), GaussianTest.exact(sigma=5.0, delta=1e-6)
    assert paper.delta < exact.delta <= 1e-6
    assert exact.delta == pytest.approx(1e-6, rel=1e-9)


@pytest.mark.parametrize("parts", [1, 2, 8])
def test_a_weighted_table_keeps_its_bound_at_every_step(parts):
    order, rdp, delta = 5.0, 0.3, 1e-4
    table = WeightedTable.stability(order=order, rdp=rdp, delta=delta, parts=parts)
    values = np.array(table.values)
    assert np.all(np.diff(values) >= 0)
    assert values[-1] > 1 - 1e-9
    for j in range(1, parts + 1):
        allowed = rdp * (j / parts) ** 2
        for p, q in ((values[j:], values[:-j]), (values[:-j], values[j:])):
            assert CoinPairs.of(p, q).divergence(order).max() <= allowed
        assert values[j - 1] <= delta * (j / parts) ** 2
    assert table.rdp(order) == pytest.approx(rdp, rel=1e-5)
    whole = np.array(BitTable.stability(order=order, rdp=rdp, delta=delta).values)
    votes = values[parts - 1 :: parts][: len(whole)]
    if parts == 1:
        assert np.allclose(votes, whole[: len(votes)], rtol=1e-6)
    else:  # more steps are bounded, so it rises later, by little
        assert np.all(votes <= whole[: len(votes)] * (1 + 1e-9))
        assert np.searchsorted(votes, 0.5) <= np.searchsorted(whole, 0.5) + 3


def test_a_weighted_table_says_nothing_of_pure_steps():
    table = WeightedTable.stability(order=4.0, rdp=0.5, delta=1e-4)
    together = 36 * Cost.of(table, adjacency=Adjacency.ADD_REMOVE, delta=table.outside)
    assert table.rdp(math.inf) == math.inf
    assert {*together.epsilons(0.1)} == {"rdp", "rdp-classic"}
    # Why: 47 votes of 7/8 have squares that fit into 36 whole ones, but as many steps compose to more than 36 pure ones do.
    whole, parted = (
        (times * Cost.of(Pure(epsilon=epsilon), adjacency=Adjacency.ADD_REMOVE)).epsilons(0.9903)["advanced"]
        for times, epsilon in ((36, 8.0), (47, 8.0 * 49 / 64))
    )
    assert 47 * 49 <= 36 * 64
    assert parted > whole


def test_a_weighted_table_refuses_nonsense():
    for wrong in ({"order": 1.0}, {"rdp": 0.0}, {"delta": 1.0}, {"delta": 0.0}, {"parts": 0}, {"rdp": 1e-12}):
        with pytest.raises(ParameterError):
            WeightedTable.stability(**({"order": 4.0, "rdp": 0.1, "delta": 1e-3} | wrong))
    with pytest.raises(ParameterError, match="nondecreasing"):
        WeightedTable(values=(0.2, 0.1))
