"""Every rule, curve, profile and conversion against sixty digits: nothing is below the truth, and no input makes one fail."""

import itertools
import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from mpmath import mpf

from cutline.privacy import (
    ZCDP,
    Adjacency,
    BitTable,
    BoundedRange,
    Budget,
    Cost,
    Filter,
    Gaussian,
    GaussianBit,
    LimitedDomainDraws,
    NoisyMaxGaussian,
    Pure,
)
from cutline.privacy.curves.base import Profiled, known_kinds
from cutline.privacy.curves.class_table import ClassTable
from cutline.privacy.curves.gaussian import normal_profile
from cutline.privacy.curves.pure import OneOrder
from cutline.privacy.curves.weighted_table import WeightedTable
from cutline.privacy.rules.rdp import epsilon_from_rdp, epsilon_from_rdp_classic, rdp_within, remaining_delta
from cutline.privacy.rules.registry import PLANNED_RULES, RULES
from fuzz.oracle import Normals, delta_at, digits, divergence, one_profile, profile_of

DELTAS = (0.5, 1e-2, 1e-6, 1e-16, 1e-100, 1e-200)
QUICK = ("rdp", "rdp-classic", "zcdp", "gdp", "pure", "advanced")
SIGMAS = (1e-2, 0.3, 7.0, 1e3, 1e6, 1e12)
EPSILONS = (1e-9, 1e-5, 1e-2, 1.0, 8.0, 36.5, 50.0)
CURVES = [
    *(Gaussian(sigma=sigma) for sigma in SIGMAS),
    Gaussian(sigma=3.0, squared_sensitivity=2.0),
    *(Gaussian(sigma=sigma, discrete=True) for sigma in (0.3, 7.0, 1e12)),
    OneOrder(order=8.0, bound=0.5),
    *(ZCDP(rho=rho) for rho in (1e-20, 1e-2, 1e3)),
    *(NoisyMaxGaussian(sigma=sigma, choices=40, change=2) for sigma in (1e-2, 7.0, 1e12)),
    *(kind(epsilon=epsilon) for kind in (Pure, BoundedRange) for epsilon in EPSILONS),
    *(LimitedDomainDraws(k=k, epsilon=e, delta=d) for k, e, d in ((1, 1e-9, 1e-200), (10, 0.1, 1e-6), (99, 5.0, 0.5))),
    *(GaussianBit(sigma=s, offset=o, reach=r) for s, o, r in ((1e-2, 0.0, 2), (0.3, 4.0, 1), (30.0, 6.0, 2))),
    *(GaussianBit(sigma=s, offset=4.0, reach=1) for s in (1e6, 1e12)),
    *(BitTable.stability(order=a, rdp=r, delta=d) for a, r, d in ((8.0, 0.01, 1e-9), (60.0, 3.0, 1e-200), (2.0, 9.0, 0.5))),
    BitTable.voting(order=8.0, rdp=0.05, teachers=51),
    *(ClassTable.build(order=a, rdp=r, votes=12, classes=c, moved=m) for a, r, c, m in ((8.0, 0.05, 5, 2), (2.0, 3.0, 2, 1))),
    *(WeightedTable.stability(order=a, rdp=r, delta=d) for a, r, d in ((8.0, 0.01, 1e-9), (2.0, 3.0, 0.1))),
]  # fmt: skip


def cost(curve, times=1, delta=0.0):
    return times * Cost.of(curve, adjacency=Adjacency.ADD_REMOVE, delta=delta)


def check(total, rules, deltas=DELTAS):
    """No rule is below the oracle, and a smaller delta never costs less."""
    for rule in rules:
        dearest = 0.0
        for delta in deltas:
            epsilon = RULES[rule](total, delta)
            assert epsilon >= dearest * (1 - 1e-12), (rule, delta)
            assert epsilon == math.inf or delta_at(total, epsilon) <= delta, (rule, delta)
            dearest = epsilon


def test_every_kind_of_curve_and_every_rule_is_held_here():
    assert {curve.kind for curve in CURVES} == set(known_kinds())
    assert {*QUICK, *SLOW} == set(RULES)
    assert set(PLANNED_RULES) == {"adaptive"}


@pytest.mark.parametrize("curve", CURVES, ids=str)
def test_every_curve(curve):
    for order in (1.0001, 1.5, 8.0, 64.0, 1e4, 1e8):
        assert curve.rdp(order) >= divergence(curve, order)


@pytest.mark.parametrize("curve", [curve for curve in CURVES if isinstance(curve, Profiled)], ids=str)
def test_every_profile(curve):
    """Pure(36.5) said 0 where the truth is 0.09, and bits lost their digits where "no" is rare."""
    scale = math.sqrt(curve.rdp(2.0))
    at = np.array(
        [-30.0, -1.0, 0.0, 0.1, 1.0, 5.0, 10.0, 30.0, 150.0, *(scale * f for f in (-0.5, 0.1, 0.9, 0.999, 4.0))]
    )
    for x, got in zip(at, curve.profile(at), strict=True):
        assert float(got) >= one_profile(curve, float(x)) - mpf(2) ** -47, x


@pytest.mark.parametrize("mu", [1e-12, 1e-3, 0.5, 3.0, 15.0])
def test_the_profile_of_gaussians_in_floats(mu):
    at = np.array([-20.0, -mu, 0.0, mu / 3, mu, 3 * mu, 9 * mu, 50.0, 150.0])
    for x, got in zip(at, normal_profile(mu, at), strict=True):
        with digits():
            assert abs(float(got) - profile_of(Normals(mpf(mu) ** 2), mpf(float(x)))) <= mpf(2) ** -47


@pytest.mark.slow
@pytest.mark.parametrize(("times", "delta"), [(1, 1e-7), (30, 0.0)])
@pytest.mark.parametrize("curve", CURVES, ids=str)
def test_every_quick_rule(curve, times, delta):
    check(cost(curve, times, delta), QUICK)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("curve", "rule", "delta"),
    [
        (Gaussian(sigma=1e-2), "gdp", 0.5),
        (Gaussian(sigma=1e9), "gdp", 1e-10),
        (Pure(epsilon=1e-3), "advanced", 0.5),
        (Pure(epsilon=1e-2), "advanced", 1e-10),
    ],
    ids=str,
)
def test_a_hundred_thousand_uses(curve, rule, delta):
    """The logarithms of the binomial terms are near a million, and were once held to be good to 1e-12."""
    check(cost(curve, 100_000), (rule,), (delta,))


SLOW = ("exact", "pld")
FEW = [Pure(epsilon=36.5), Pure(epsilon=1e-3), BoundedRange(epsilon=1e-2), Gaussian(sigma=7.0)]
FEW += [GaussianBit(sigma=sigma, offset=4.0, reach=1) for sigma in (0.3, 1e9)]


@pytest.mark.slow
@pytest.mark.parametrize("times", [1, 30, 3000])
@pytest.mark.parametrize("curve", FEW, ids=str)
def test_composed_losses(curve, times):
    check(cost(curve, times), SLOW, (0.1, 1e-6))


@pytest.mark.parametrize("delta", [0.5, 1e-6, 1e-200])
@pytest.mark.parametrize(("epsilon", "times"), [(1e-9, 1), (1e-8, 30), (1e-2, 30), (1.0, 5), (50.0, 1), (50.0, 300)])
def test_the_exact_price_of_bounded_range_steps(epsilon, times, delta):
    """At epsilon 50 and many steps the bounds overflowed, and the price was 0."""
    check(cost(BoundedRange(epsilon=epsilon), times), ("exact",), (delta,))


@pytest.mark.slow
@pytest.mark.parametrize("delta", [1e-3, 1e-8, 1e-12])
@pytest.mark.parametrize("step", [1e-6, 1e-3])
@pytest.mark.parametrize("other", [(Pure(epsilon=1e-3), 3000), (Gaussian(sigma=60.0), 600)], ids=str)
def test_steps_beside_other_uses(step, other, delta):
    """At 1e-12 the rounding of 3000 convolutions was more than the rule allowed for; with tiny steps it took a minute."""
    check(cost(BoundedRange(epsilon=step)) + cost(*other), SLOW, (delta,))


@pytest.mark.slow
@pytest.mark.parametrize(("times", "delta"), [(1, 1e-6), (30, 1e-2), (30, 1e-9)])
@pytest.mark.parametrize("step", [None, BoundedRange(epsilon=0.1)])
def test_planned_releases(step, times, delta):
    """A coin of a table, and before it a choice: the worst coin again and again is one adversary among those of the rule."""
    one = cost(BitTable.stability(order=8.0, rdp=0.05, delta=1e-12), delta=1e-12)
    one = one if step is None else one + cost(step)
    epsilon = PLANNED_RULES["adaptive"](one, delta, releases=times)
    assert epsilon < math.inf
    assert delta_at(times * one, epsilon) <= delta


@pytest.mark.parametrize("delta", [0.5, 1e-10])
def test_a_gaussian_too_dear_to_follow_makes_no_rule_fail(delta):
    total = cost(BoundedRange(epsilon=1e-3), 5) + cost(Gaussian(sigma=1e-2), 1000)
    assert delta_at(total, total.epsilon(delta)) <= delta
    assert RULES["exact"](total, delta) == math.inf


def test_many_tiny_steps_are_free_only_as_far_as_rounding_is_covered():
    assert RULES["pld"](cost(BoundedRange(epsilon=1e-9), 100), 0.5) == 0
    assert RULES["pld"](cost(BoundedRange(epsilon=1e-300), 10**6), 1e-9) == math.inf
    assert RULES["exact"](cost(BoundedRange(epsilon=1e4), 3), 1e-6) == math.inf


@pytest.mark.parametrize(
    "curve",
    [Gaussian(sigma=1e-200), Gaussian(sigma=1e300), Pure(epsilon=1e308), BoundedRange(epsilon=5e-324), ZCDP(rho=1e308)],
    ids=str,
)
def test_numbers_at_the_ends_of_the_floats_make_no_rule_fail(curve):
    for rule, times in itertools.product(RULES.values(), (1, 10**9)):
        assert rule(cost(curve, times), 1e-6) >= 0


def test_sums_are_rounded_up():
    total = cost(Pure(epsilon=0.1), 7, 1e-9) + cost(Gaussian(sigma=3.0), 11, 1e-17)
    assert Fraction(total.delta) >= 7 * Fraction(1e-9) + 11 * Fraction(1e-17)
    with digits():
        for order in (1.01, 8.0, 1e6):
            assert total.rdp(order) >= 7 * divergence(Pure(epsilon=0.1), order) + 11 * mpf(order) / 18


ORDERS = (1 + 1e-9, 1.01, 2.0, 64.0, 1e8)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("delta", DELTAS)
def test_conversions(order, delta):
    for rdp, part in itertools.product((0.0, 1e-12, 0.3, 50.0, 1e8), (0.0, 1e-30, 0.3, 1 - 1e-15)):
        slack = part * delta
        with digits():
            a, left = mpf(order), (mpf(delta) - mpf(slack)) / (1 - mpf(slack))
            toll = mpmath.log((a - 1) / a) - mpmath.log(left * a) / (a - 1)
            arguments = {"order": order, "delta": delta, "slack": slack}
            assert remaining_delta(delta=delta, slack=slack) <= left
            assert epsilon_from_rdp(rdp=rdp, **arguments) >= mpf(rdp) + toll
            assert epsilon_from_rdp_classic(rdp=rdp, **arguments) >= mpf(rdp) - mpmath.log(left) / (a - 1)
            assert rdp_within(epsilon=rdp, **arguments) <= mpf(rdp) - toll


@pytest.mark.parametrize("delta", [0.5, 1e-6, 1e-200])
@pytest.mark.parametrize("epsilon", [1e-9, 1e-2, 1.0, 50.0])
def test_filters_grant_no_more_than_their_budget(epsilon, delta):
    budget = Budget(epsilon=epsilon, delta=delta)
    for share in (0.0, 0.25, 0.999):
        order = 2 + 4 * (math.log(1 / delta) + 8) / epsilon
        limits = budget.filter(order=order, delta_share=share)
        assert budget.covers(limits)
        assert not budget.covers(Filter(order=order, rdp=limits.rdp * (1 + 1e-12), delta=limits.delta))
        with digits():
            a, left = mpf(order), (mpf(delta) - mpf(limits.delta)) / (1 - mpf(limits.delta))
            assert mpf(limits.rdp) + mpmath.log((a - 1) / a) - mpmath.log(left * a) / (a - 1) <= epsilon
        step = ZCDP(rho=limits.rdp / order / 3)
        spent, times = Fraction(0), 0
        while limits.admits(float(spent), 0.0, cost(step)):
            spent, times = spent + Fraction(step.rdp(order)), times + 1
        assert times in (2, 3)
        assert spent <= Fraction(limits.rdp)


@pytest.mark.parametrize(("epsilon", "delta"), [(1e-3, 1e-3), (0.1, 1e-9), (1.0, 1e-200), (50.0, 0.3)])
def test_approximate_tables(epsilon, delta):
    """Neighbouring coins, both ways, in sixty digits; and the table charges Pure with its delta, which dominates them."""
    values = BitTable.approximate(epsilon=epsilon, delta=delta).values
    assert values[0] <= delta
    with digits():
        grow = mpmath.exp(mpf(epsilon))
        for low, high in itertools.pairwise(map(mpf, values)):
            assert high <= grow * low + mpf(delta)
            assert 1 - low <= grow * (1 - high) + mpf(delta)
