"""The exact composition of bounded-range steps: closed forms, convergence from above, and what must not be tighter."""

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cutline.privacy import ZCDP, Adjacency, BitTable, BoundedRange, Cost, Gaussian, GaussianBit, Pure
from cutline.privacy.curves.gaussian import normal_profile
from cutline.privacy.rules.exact import adaptive_profile, exact

ADD = Adjacency.ADD_REMOVE
TABLE = Cost.of(BitTable.stability(order=8.0, rdp=0.01, delta=1e-9), adjacency=ADD, delta=1e-9)


def em(epsilon, times=1):
    return times * Cost.of(BoundedRange(epsilon=epsilon), adjacency=ADD)


def one_step(epsilon, delta):
    """The inverse of the closed-form profile of one step."""
    return max(0.0, epsilon + 2 * math.log1p(-math.sqrt(delta * -math.expm1(-epsilon))))


@pytest.mark.parametrize("epsilon", [1e-3, 0.05, 1.0, 10.0, 100.0])
@pytest.mark.parametrize("delta", [1e-3, 1e-6, 1e-10])
def test_one_step_is_the_inverse_of_its_profile(epsilon, delta):
    value = exact(em(epsilon), delta)
    assert one_step(epsilon, delta) <= value * (1 + 1e-12)
    assert value == pytest.approx(one_step(epsilon, delta), rel=2e-5)


@pytest.mark.parametrize("x", [0.0, 0.2, 0.5, 0.8, 1.0, 1.15])
def test_two_steps_agree_with_a_fine_scan_over_t(x):
    epsilon = 0.6
    t = np.linspace(0, epsilon, 20001)
    p = np.expm1(t - epsilon) / math.expm1(-epsilon)
    profile = BoundedRange(epsilon=epsilon).profile
    scanned = float((p * profile(x - t) + (1 - p) * profile(x - t + epsilon)).max())
    h, values = adaptive_profile(epsilon, 2, 500, 2 * epsilon)
    bound = float(np.interp(math.exp(x), np.exp(h * np.arange(len(values))), values))
    assert scanned <= bound + 1e-15
    assert bound == pytest.approx(scanned, rel=2e-3, abs=1e-9)


@pytest.mark.parametrize(("epsilon", "times"), [(0.05, 200), (0.3, 20), (2.0, 10)])
def test_a_finer_grid_only_tightens(epsilon, times):
    coarse_to_fine = []
    for cells in (2, 4, 8, 16, 32):
        h, values = adaptive_profile(epsilon, times, cells, times * epsilon / 2)
        per_cell = cells // 2
        coarse_to_fine.append(values[::per_cell][: int(times * epsilon / 2 / (epsilon / 2))])
        assert h >= epsilon / cells
    for coarse, fine in pairwise(coarse_to_fine):
        assert np.all(fine <= coarse * (1 + 1e-9))
    gains = [float((a - b).max()) for a, b in pairwise(coarse_to_fine)]
    assert gains[-1] < gains[0] / 8  # second order would be 64


def test_reference_values():
    assert 2.93 < exact(em(0.05, 600), 4e-7) < 2.945  # rdp: 3.131
    scale = 50 * math.sqrt(6) / math.pi  # Gumbel noise of standard deviation 50, 600 queries (docs/errata.md)
    assert exact(em(2 / scale, 600), 1e-6) == pytest.approx(2.905, abs=2e-3)
    assert exact(em(4 / scale, 600), 1e-6) == pytest.approx(6.363, abs=4e-3)


@pytest.mark.slow
@pytest.mark.parametrize(("epsilon", "times"), [(0.5, 2), (0.3, 10), (0.1, 100), (0.05, 600), (1.0, 50), (0.02, 2000)])
@pytest.mark.parametrize("delta", [1e-3, 1e-6, 1e-9])
def test_never_above_the_renyi_rule_but_for_the_grid(epsilon, times, delta):
    cost = em(epsilon, times)
    assert exact(cost, delta) <= cost.epsilons(delta)["rdp"] * (1 + 2e-4)


@pytest.mark.slow
@settings(max_examples=12, deadline=None)
@given(epsilon=st.floats(1e-3, 2.0), times=st.integers(1, 12), delta=st.floats(1e-9, 1e-2))
def test_more_steps_longer_steps_and_less_delta_never_cost_less(epsilon, times, delta):
    value = exact(em(epsilon, times), delta)
    assert value <= times * epsilon * (1 + 1e-9)
    assert exact(em(epsilon, times + 1), delta) >= value * (1 - 1e-3)
    assert exact(em(epsilon * 1.1, times), delta) >= value * (1 - 1e-3)
    assert exact(em(epsilon, times), delta / 3) >= value * (1 - 1e-3)


def test_the_deltas_of_uses_are_taken_off_first():
    slack = Cost.of(BoundedRange(epsilon=0.1), adjacency=ADD, delta=1e-8)
    left = (1e-6 - 1e-7) / (1 - 1e-7)
    assert exact(10 * slack, 1e-6) == pytest.approx(exact(em(0.1, 10), left), rel=1e-6)
    assert exact(10 * slack, 1e-7) == math.inf


@pytest.mark.parametrize("other", [TABLE, Cost.of(Gaussian(sigma=40.0), adjacency=ADD), em(0.03)])
def test_other_parts_cost_something_and_no_order_of_writing_matters(other):
    steps = em(0.05, 60)
    both = exact(steps + 30 * other, 1e-6)
    assert both == exact(30 * other + steps, 1e-6)
    assert exact(steps, 1e-6) < both < math.inf


@pytest.mark.slow
def test_gaussians_beside_negligible_steps_keep_their_own_profile():
    cost = em(1e-4) + 600 * Cost.of(Gaussian(sigma=60.0), adjacency=ADD)
    value = exact(cost, 4e-7)
    assert float(normal_profile(math.sqrt(600) / 60, np.array([value - 1e-3]))[0]) > 3.5e-7
    assert value == pytest.approx(1.8848, abs=2e-3)


def test_unequal_steps_cost_at_least_the_worst_order():
    """Small steps first was the worst order in every case tried; playing it by hand must stay below the rule."""
    small, large, x = 0.3, 0.7, 0.6
    t = np.linspace(0, small, 4001)
    p = np.expm1(t - small) / math.expm1(-small)
    profile = BoundedRange(epsilon=large).profile
    by_hand = float((p * profile(x - t) + (1 - p) * profile(x - t + small)).max())
    assert exact(em(small) + em(large), by_hand) >= x * (1 - 1e-9)


@pytest.mark.parametrize(
    "cost",
    [
        Cost(adjacency=ADD),
        TABLE,
        em(0.1) + Cost.of(ZCDP(rho=0.1), adjacency=ADD),
        em(0.1) + Cost.of(Gaussian(sigma=5.0, discrete=True), adjacency=ADD),
        em(0.1, 10**7),
    ],
)
def test_leaves_itself_out_where_it_does_not_apply(cost):
    assert exact(cost, 1e-6) == math.inf


@pytest.mark.parametrize("delta", [0.0, math.nan, -1.0])
def test_no_delta_no_answer(delta):
    assert exact(em(0.1, 3), delta) == math.inf
    assert exact(em(0.1, 3) + Cost.of(Pure(epsilon=0.1), adjacency=ADD), delta) == math.inf


def test_a_large_delta_needs_no_epsilon():
    assert exact(em(0.1), 0.5) == 0.0
    assert exact(em(0.1) + Cost.of(GaussianBit(sigma=50.0, offset=5.0, reach=1), adjacency=ADD), 0.5) == 0.0
