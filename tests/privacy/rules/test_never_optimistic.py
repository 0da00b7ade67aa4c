"""Every rule against sixty digits: no epsilon is below the true one, and no input makes a rule fail."""

import math
from functools import lru_cache

import mpmath
import pytest
from mpmath import mpf

from cutline.privacy import Adjacency, BoundedRange, Cost, Gaussian, Pure
from cutline.privacy.rules.registry import RULES

DELTAS = (0.5, 0.1, 1e-2, 1e-6, 1e-10, 1e-16, 1e-30, 1e-100, 1e-200)


def cost(curve, times=1):
    return times * Cost.of(curve, adjacency=Adjacency.ADD_REMOVE)


def digits():
    return mpmath.workdps(90)  # sixty are left where the two terms of a profile agree in thirty


def normal(sigma, times, x):
    """The profile of ``times`` Gaussians of sensitivity 1."""
    with digits():
        mu, x = mpmath.sqrt(times) / mpf(sigma), mpf(x)
        return mpmath.ncdf(mu / 2 - x / mu) - mpmath.exp(x) * mpmath.ncdf(-mu / 2 - x / mu)


def bounded_range(epsilon, x):
    """The profile of one bounded-range step."""
    with digits():
        return mpf(0) if x >= epsilon else (mpmath.expm1((mpf(x) - epsilon) / 2)) ** 2 / -mpmath.expm1(-mpf(epsilon))


def two_atoms(high, low, chance, times, x):
    """The profile of a loss that is ``high`` with this chance and else ``low``, ``times`` over."""
    with digits():
        x = mpf(x)
        p, loss, total = chance**times, times * high, mpf(0)
        falls, odds = mpmath.exp(high - low), (1 - chance) / chance
        ratio = mpmath.exp(x - loss)
        for failures in range(times + 1):
            if ratio >= 1:
                break
            total += p * (1 - ratio)
            p, ratio = p * odds * (times - failures) / (failures + 1), ratio * falls
        return total


def pure(epsilon, times, x):
    """The profile of randomised response."""
    with digits():
        e = mpf(epsilon)
        return two_atoms(e, -e, 1 / (1 + mpmath.exp(-e)), times, x)


def ranges(epsilon, times, x):
    """A profile that bounded-range steps reach: the symmetric pair again and again, and in one step the worst."""
    with digits():
        e = mpf(epsilon)
        chance = -mpmath.expm1(-e / 2) / -mpmath.expm1(-e)
        return max(two_atoms(e / 2, -e / 2, chance, times, x), bounded_range(epsilon, x))


def check(curve, times, true_delta, rules):
    """No rule is below the oracle, and a smaller delta never costs less."""
    total, dearest = cost(curve, times), dict.fromkeys(rules, 0.0)
    for delta in DELTAS:
        for rule in rules:
            epsilon = RULES[rule](total, delta)
            assert epsilon >= dearest[rule] * (1 - 1e-12), (rule, delta)
            assert epsilon == math.inf or true_delta(epsilon) <= delta, (rule, delta)
            dearest[rule] = epsilon
        assert min(dearest.values()) < math.inf


@pytest.mark.parametrize("times", [1, 30, 100_000])
@pytest.mark.parametrize("sigma", [1e-2, 0.3, 7.0, 1e3, 1e6, 1e9, 1e12])
def test_gaussians(sigma, times):
    check(Gaussian(sigma=sigma), times, lambda x: normal(sigma, times, x), ("rdp", "rdp-classic", "zcdp", "gdp"))


@pytest.mark.parametrize("times", [1, 30, 300])
@pytest.mark.parametrize("epsilon", [1e-9, 1e-5, 1e-2, 1.0, 8.0, 50.0])
@pytest.mark.parametrize(("curve", "oracle"), [(Pure, pure), (BoundedRange, ranges)])
def test_pure_and_bounded_range_steps(curve, oracle, epsilon, times):
    true_delta = lru_cache(lambda x: oracle(epsilon, times, x))
    check(curve(epsilon=epsilon), times, true_delta, ("rdp", "rdp-classic", "zcdp", "pure", "advanced"))


@pytest.mark.parametrize(("epsilon", "delta"), [(1e-3, 0.5), (1e-2, 1e-10)])
def test_the_optimal_composition_of_a_hundred_thousand_steps(epsilon, delta):
    """The logarithms of its binomial terms are near a million, and were once held to be good to 1e-12."""
    assert pure(epsilon, 100_000, RULES["advanced"](cost(Pure(epsilon=epsilon), 100_000), delta)) <= delta


@pytest.mark.parametrize(("epsilon", "times"), [(1e-9, 1), (1e-8, 30), (1e-2, 30), (1.0, 5), (50.0, 1), (50.0, 1000)])
def test_the_exact_price_of_bounded_range_steps(epsilon, times):
    """At epsilon 50 and many steps the bounds overflowed, and the price was 0."""
    for delta in (0.5, 1e-6, 1e-200):
        value = RULES["exact"](cost(BoundedRange(epsilon=epsilon), times), delta)
        assert value == math.inf or ranges(epsilon, times, value) <= delta


@pytest.mark.parametrize("delta", [0.5, 0.01, 1e-6])
@pytest.mark.parametrize(
    ("curve", "oracle"),
    [
        (BoundedRange(epsilon=1e-8), lambda x: bounded_range(1e-8, x)),
        (Pure(epsilon=1e-9), lambda x: pure(1e-9, 1, x)),
        (Gaussian(sigma=1e12), lambda x: normal(1e12, 1, x)),
        (Gaussian(sigma=1.0), lambda x: normal(1.0, 1, x)),
    ],
)
def test_loss_distributions_of_one_step(curve, oracle, delta):
    epsilon = cost(curve).epsilons(delta)["pld"]
    assert oracle(epsilon) <= delta


def test_many_tiny_steps_are_free_only_as_far_as_rounding_is_covered():
    assert RULES["pld"](cost(BoundedRange(epsilon=1e-9), 100), 0.5) == 0
    assert RULES["pld"](cost(BoundedRange(epsilon=1e-300), 10**6), 1e-9) == math.inf
    assert RULES["exact"](cost(BoundedRange(epsilon=1e4), 3), 1e-6) == math.inf


@pytest.mark.parametrize("delta", [0.5, 1e-10])
def test_a_gaussian_too_dear_to_follow_makes_no_rule_fail(delta):
    total = cost(BoundedRange(epsilon=1e-3), 5) + cost(Gaussian(sigma=1e-2), 1000)
    assert normal(1e-2, 1000, total.epsilon(delta)) <= delta
    assert RULES["exact"](total, delta) == math.inf
