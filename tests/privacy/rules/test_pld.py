"""The rule pld: reference values, never below the truth, repeat = compose, and where it leaves itself out."""

from __future__ import annotations

import math

import numpy as np
import pytest
from dp_accounting.pld import pld_pmf
from hypothesis import given, settings
from hypothesis import strategies as st

from cutline import Budget, StableTopK
from cutline.privacy import (
    ZCDP,
    Adjacency,
    BitTable,
    BoundedRange,
    Cost,
    Gaussian,
    GaussianBit,
    LimitedDomainDraws,
    NoisyMaxGaussian,
    Pure,
)
from cutline.privacy.curves.gaussian import normal_profile
from cutline.privacy.rules.pld import compose_parts, dominating_parts, grid_law, pld
from cutline.privacy.rules.rdp import rdp

TABLE = BitTable.stability(order=8.0, rdp=0.25, delta=1e-6)
PROFILED = [
    BoundedRange(epsilon=1.0),
    BoundedRange(epsilon=0.05),
    Pure(epsilon=0.5),
    TABLE,
    BitTable.voting(order=8.0, rdp=0.1, teachers=51),
    GaussianBit(sigma=20.0, offset=5.0, reach=2),
]


def of(curve, delta: float = 0.0) -> Cost:
    return Cost.of(curve, adjacency=Adjacency.ADD_REMOVE, delta=delta)


def hockey_stick(p, q, x: float) -> float:
    return float(np.maximum(np.asarray(p) - math.exp(x) * np.asarray(q), 0).sum())


def test_reference_value_of_600_gaussians() -> None:
    assert f"{pld(600 * of(Gaussian(sigma=60.0)), 4e-7):.4f}" == "1.8848"


@pytest.mark.parametrize(
    ("sigma", "times", "delta"), [(60.0, 600, 4e-7), (2.0, 1, 1e-5), (1.0, 9, 1e-9), (500.0, 3, 1e-3)]
)
def test_gaussians_are_gaussian_dp(sigma: float, times: int, delta: float) -> None:
    epsilon = pld(times * of(Gaussian(sigma=sigma)), delta)
    mu = math.sqrt(times) / sigma
    assert normal_profile(mu, np.array([epsilon]))[0] <= delta
    if epsilon > 0:
        assert normal_profile(mu, np.array([epsilon * (1 - 2e-4)]))[0] > delta


@pytest.mark.slow
@pytest.mark.parametrize("delta", [1e-3, 1e-6, 1e-9])
@pytest.mark.parametrize("curve", PROFILED, ids=lambda curve: curve.kind)
def test_one_use_inverts_the_profile_from_above(curve, delta: float) -> None:
    epsilon = pld(of(curve), delta)
    assert curve.profile(np.array([epsilon]))[0] <= delta
    if epsilon > 0:
        assert curve.profile(np.array([epsilon * (1 - 1e-3)]))[0] > delta


def test_one_bounded_range_use_is_the_closed_form() -> None:
    truth = 1 + 2 * math.log1p(-math.sqrt(1e-6 * -math.expm1(-1.0)))
    assert truth <= pld(of(BoundedRange(epsilon=1.0)), 1e-6) < truth + 1e-6


@pytest.mark.parametrize("interval", [1e-2, 1e-3, 7e-5])
@pytest.mark.parametrize("curve", PROFILED, ids=lambda curve: curve.kind)
def test_a_grid_law_dominates_between_the_dots_too(curve, interval: float) -> None:
    law = grid_law(curve.profile, interval=interval, tail=1e-12)
    one = pld_pmf.DensePLDPmf(interval, -law.reach, law.masses, law.infinite, True)
    x = np.sort(np.random.default_rng(1).uniform(-1.5, 1.5, 300))
    assert np.all(one.get_delta_for_epsilon(x) + 1e-13 >= curve.profile(x))
    assert law.masses.sum() + law.infinite >= 1 - 1e-13
    assert np.all(law.masses >= 0)


@pytest.mark.parametrize("times", [2, 5, 33])
@pytest.mark.parametrize("curve", PROFILED, ids=lambda curve: curve.kind)
def test_repeat_is_compose_in_dp_accounting_too(curve, times: int) -> None:
    cost = times * of(curve)
    assert cost == sum((of(curve) for _ in range(times - 1)), of(curve))
    parts = dominating_parts(cost.uses)
    assert parts is not None
    repeated = compose_parts(parts, interval=1e-3, tail=1e-15)
    law = grid_law(curve.profile, interval=1e-3, tail=1e-15, dots=max(2_000, 20_000 // times))
    one = pld_pmf.DensePLDPmf(1e-3, -law.reach, law.masses, law.infinite, True)
    explicit = one
    for _ in range(times - 1):
        explicit = explicit.compose(one)
    for x in (0.0, 0.1, 0.5):
        assert repeated.get_delta_for_epsilon(x) == pytest.approx(
            explicit.get_delta_for_epsilon(x), rel=1e-6, abs=1e-10
        )
        assert repeated.get_delta_for_epsilon(x) >= explicit.get_delta_for_epsilon(x)


@pytest.mark.slow
@settings(max_examples=30, deadline=None)
@given(
    epsilon=st.floats(0.05, 2.0),
    ends=st.lists(st.floats(0.0, 1.0), min_size=3, max_size=3),
    x=st.floats(0.0, 3.0),
)
def test_never_below_bounded_range_pairs_composed_by_hand(epsilon: float, ends: list[float], x: float) -> None:
    p, q = np.ones(1), np.ones(1)
    for end in ends:  # two atoms whose log-ratios are t and t - epsilon, for any t in [0, epsilon]
        t = end * epsilon
        low = -math.expm1(-t) / (
            math.exp(epsilon - t) - math.exp(-t)
        )  # weight under q of the atom with the larger ratio
        upper = np.array([min(1.0, low * math.exp(epsilon - t)), 0.0])
        upper[1] = 1 - upper[0]
        p, q = np.outer(p, upper).ravel(), np.outer(q, [low, 1 - low]).ravel()
    delta = max(hockey_stick(p, q, x), hockey_stick(q, p, x))
    if 1e-7 < delta < 1:
        assert pld(3 * of(BoundedRange(epsilon=epsilon)), delta * (1 - 1e-9)) >= x * (1 - 1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("first", [0, 5, 12, 18])
def test_never_below_a_sequence_of_table_tests(first: int) -> None:
    p, q = np.ones(1), np.ones(1)
    for n in (first, first + 1, first + 2, first):
        a, b = float(TABLE(np.array([n]))[0]), float(TABLE(np.array([n + 1]))[0])
        p, q = np.outer(p, [a, 1 - a]).ravel(), np.outer(q, [b, 1 - b]).ravel()
    for x in (0.1, 0.5, 1.0, 2.0):
        for delta in (hockey_stick(p, q, x), hockey_stick(q, p, x)):
            if 1e-7 < delta < 1:
                assert pld(4 * of(TABLE), delta * (1 - 1e-9)) >= x * (1 - 1e-9)


def test_randomised_response_composes_to_its_binomial() -> None:
    times, epsilon, x = 50, 0.2, 2.0
    losses = (2 * np.arange(times + 1) - times) * epsilon
    yes = 1 / (1 + math.exp(-epsilon))
    weights = [math.comb(times, i) * yes**i * (1 - yes) ** (times - i) for i in range(times + 1)]
    delta = float(sum(w * max(0.0, 1 - math.exp(x - loss)) for w, loss in zip(weights, losses, strict=True)))
    assert x * (1 - 1e-9) <= pld(times * of(Pure(epsilon=epsilon)), delta) < x * 1.001


def test_tighter_than_rdp_where_one_pair_is_the_worst() -> None:
    for curve in (Gaussian(sigma=30.0), Pure(epsilon=0.1)):
        assert pld(100 * of(curve), 1e-6) < rdp(100 * of(curve), 1e-6)


def test_valid_but_looser_than_rdp_where_the_worst_pair_differs_from_step_to_step() -> None:
    # One pair must dominate every bounded-range pair at once: its loss spreads over eps^2/3 where each single one has at
    # most eps^2/4. The rule `exact` knows better.
    cost = 600 * of(BoundedRange(epsilon=0.05))
    assert rdp(cost, 4e-7) < pld(cost, 4e-7) < 3.45


def test_mixed_costs_cost_more_than_their_parts() -> None:
    release = StableTopK.calibrate(Budget(epsilon=1.0, delta=1e-6), max_k=20).cost
    noisy = release + of(Gaussian(sigma=20.0))
    assert pld(release, 2e-6) < pld(noisy, 2e-6) < pld(release, 1e-6) + pld(of(Gaussian(sigma=20.0)), 1e-6) + 0.05


def test_deltas_are_taken_off_first() -> None:
    plain, outside = 10 * of(Gaussian(sigma=10.0)), 10 * of(Gaussian(sigma=10.0), delta=1e-8)
    share = (1e-6 - 1e-7) / (1 - 1e-7)
    assert pld(outside, 1e-6) == pytest.approx(pld(plain, share), rel=1e-9)
    assert pld(outside, 1e-7) == math.inf


@pytest.mark.slow
def test_monotone_in_delta_and_in_times() -> None:
    by_delta = [pld(30 * of(BoundedRange(epsilon=0.2)), delta) for delta in (1e-8, 1e-6, 1e-4, 1e-2, 0.5)]
    assert by_delta == sorted(by_delta, reverse=True)
    by_times = [pld(n * of(TABLE), 1e-5) for n in (1, 2, 5, 20)]
    assert by_times == sorted(by_times)


@pytest.mark.parametrize(
    "curve",
    [
        ZCDP(rho=0.1),
        Gaussian(sigma=3.0, discrete=True),
        NoisyMaxGaussian(sigma=9.0, choices=4),
        LimitedDomainDraws(k=2, epsilon=0.1, delta=1e-6),
        Pure(epsilon=500.0),
    ],
    ids=lambda curve: curve.kind,
)
def test_leaves_itself_out_where_it_does_not_apply(curve) -> None:
    assert pld(of(curve), 1e-6) == math.inf
    assert pld(of(curve) + of(Gaussian(sigma=60.0)), 1e-6) == math.inf


@pytest.mark.parametrize("delta", [0.0, math.nan, -1.0])
def test_no_delta_no_answer(delta: float) -> None:
    assert pld(of(Gaussian(sigma=60.0)), delta) == math.inf


def test_nothing_costs_nothing_and_a_delta_below_rounding_is_left_out() -> None:
    assert pld(Cost(adjacency=Adjacency.REPLACE), 1e-9) == 0
    assert pld(600 * of(BoundedRange(epsilon=0.05)), 1e-13) == math.inf
