"""Rules: the reference values, agreement where they must agree, and repeat = compose for all of them."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from cutline.mechanisms.adaptive.gap_tests import exact_offset
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
from cutline.privacy.rules.registry import RULES

ADD = Adjacency.ADD_REMOVE


def cost(curve, *, delta=0.0, times=1):
    return times * Cost.of(curve, adjacency=ADD, delta=delta)


USES = {
    "bounded-range": cost(BoundedRange(epsilon=0.05)),
    "pure": cost(Pure(epsilon=0.04), delta=1e-10),
    "gaussian": cost(Gaussian(sigma=60.0)),
    "discrete-gaussian": cost(Gaussian(sigma=60.0, discrete=True)),
    "gaussian-bit": cost(GaussianBit(sigma=30.0, offset=6.0, reach=1), delta=1e-9),
    "bit-table": cost(BitTable.stability(order=8.0, rdp=0.002, delta=1e-9), delta=1e-9),
    "rnm-gaussian": cost(NoisyMaxGaussian(sigma=50.0, choices=39)),
    "zcdp": cost(ZCDP(rho=1e-4)),
    "limited-domain": cost(LimitedDomainDraws(k=5, epsilon=0.05, delta=1e-8), delta=1e-8),
}
MIXES = USES | {
    "em + table": USES["bounded-range"] + USES["bit-table"],
    "em + gaussian": USES["bounded-range"] + USES["gaussian"],
    "two gaussians": USES["gaussian"] + cost(Gaussian(sigma=30.0)),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", MIXES)
@pytest.mark.parametrize("rule", RULES)
def test_repeat_is_compose(name, rule):
    one = MIXES[name]
    composed = one + one + one + one + one
    assert RULES[rule](5 * one, 1e-6) == RULES[rule](composed, 1e-6)
    once, often = RULES[rule](one, 1e-6), RULES[rule](50 * one, 1e-6)
    assert once <= often  # a count that is ignored would show here
    assert once == math.inf or once < often


def test_six_hundred_gaussians():
    epsilons = (600 * USES["gaussian"]).epsilons(4e-7)
    assert f"{epsilons['zcdp']:.3f}" == "2.299"
    assert f"{epsilons['rdp']:.3f}" == "2.017"
    assert f"{epsilons['gdp']:.4f}" == "1.8848"


def test_six_hundred_exponential_mechanisms():
    epsilons = (600 * USES["bounded-range"]).epsilons(4e-7)
    assert epsilons["rdp"] <= 3.136
    assert epsilons["rdp"] < epsilons["zcdp"] < epsilons["advanced"] < epsilons["pure"]


@pytest.mark.slow
def test_rules_say_where_they_apply():
    assert set(USES["gaussian"].epsilons(1e-6)) >= {"rdp", "rdp-classic", "zcdp", "gdp"}
    assert "gdp" not in USES["discrete-gaussian"].epsilons(1e-6)
    assert "gdp" not in MIXES["em + gaussian"].epsilons(1e-6)
    assert "pure" not in USES["gaussian"].epsilons(1e-6)
    assert "zcdp" not in USES["bit-table"].epsilons(1e-6)
    assert "advanced" not in (USES["pure"] + USES["bounded-range"]).epsilons(1e-6)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("name", MIXES)
def test_no_rule_speaks_when_delta_is_used_up(name, rule):
    total = MIXES[name]
    for delta in (0.0, total.delta / 2):
        value = RULES[rule](total, delta)
        assert value == math.inf or (rule == "pure" and total.delta <= delta)


@pytest.mark.slow
@pytest.mark.parametrize("rule", RULES)
def test_smaller_delta_never_costs_less(rule):
    for one in MIXES.values():
        values = [RULES[rule](20 * one, delta) for delta in (1e-3, 1e-5, 1e-6)]
        assert values == sorted(values)


def brute_force_randomised_response(epsilon, times, x):
    """Hockey-stick of k-fold randomised response, term by term."""
    wrong = 1 / (1 + math.exp(epsilon))
    total = 0.0
    for losses in range(times + 1):
        p, q = binom.pmf(losses, times, wrong), binom.pmf(times - losses, times, wrong)
        total += max(0.0, p - math.exp(x) * q)
    return total


@settings(max_examples=40)
@given(epsilon=st.floats(0.01, 2.0), times=st.integers(1, 30), delta=st.floats(1e-8, 0.2))
def test_advanced_is_the_exact_profile_of_randomised_response(epsilon, times, delta):
    x = RULES["advanced"](cost(Pure(epsilon=epsilon), times=times), delta)
    assert brute_force_randomised_response(epsilon, times, x) <= delta * (1 + 1e-9)
    if 1e-6 < x < times * epsilon * (1 - 1e-9):
        assert brute_force_randomised_response(epsilon, times, x * (1 - 1e-6)) > delta * (1 - 1e-4)


@given(mu=st.floats(0.01, 3.0), delta=st.floats(1e-10, 0.1))
def test_gdp_inverts_the_normal_profile(mu, delta):
    from scipy.stats import norm

    x = RULES["gdp"](cost(Gaussian(sigma=1 / mu)), delta)
    profile = norm.cdf(-x / mu + mu / 2) - np.exp(x) * norm.cdf(-x / mu - mu / 2)
    assert profile <= delta * (1 + 1e-8)


class TestThePapersThirdExperiment:
    """600 queries, sigma_1 = 50, sigma = 60, delta_t = 1e-9, 40 labels, delta = 1e-6 (docs/errata.md)."""

    scale = 50 * math.sqrt(6) / math.pi  # Gumbel noise of standard deviation 50

    def test_the_papers_own_corollary(self):
        orders = 1 + np.exp(np.linspace(-1, 5, 2000))
        corollary = NoisyMaxGaussian(sigma=50.0, choices=40)
        test = Gaussian(sigma=60.0)
        classic = min(600 * (corollary.corollary(a) + test.rdp(a)) + math.log(1 / 4e-7) / (a - 1) for a in orders)
        assert f"{classic:.1f}" == "71.4"
        vector = 600 * (cost(NoisyMaxGaussian(sigma=50.0, choices=39)) + cost(test, delta=1e-9))
        assert f"{RULES['rdp'](vector, 1e-6):.1f}" == "20.5"

    def test_what_it_charged(self):
        charged = 600 * (cost(Gaussian(sigma=50.0)) + cost(Gaussian(sigma=60.0), delta=1e-9))
        assert f"{RULES['rdp-classic'](charged, 1e-6):.2f}" == "3.66"

    @pytest.mark.parametrize(
        ("span", "reach", "classic", "tight", "binary"),
        [(2, 1, "4.35", "3.92", "3.67"), (4, 2, "9.26", "8.58", "8.02")],
    )
    def test_gumbel_of_equal_deviation(self, span, reach, classic, tight, binary):
        epsilon = span / self.scale
        whole = Gaussian(sigma=60.0, squared_sensitivity=float(reach**2))
        full = 600 * (cost(ZCDP(rho=epsilon**2 / 8)) + cost(whole, delta=1e-9))
        assert f"{RULES['rdp-classic'](full, 1e-6):.2f}" == classic
        assert f"{RULES['rdp'](full, 1e-6):.2f}" == tight
        bit = GaussianBit(sigma=60.0, offset=exact_offset(1e-9), reach=reach)
        ours = 600 * (cost(BoundedRange(epsilon=epsilon)) + cost(bit, delta=1e-9))
        assert f"{RULES['rdp'](ours, 1e-6):.2f}" == binary
