"""The discrete Gaussian: its law, with power, on both paths of every coin."""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import chisquare

from cutline.errors import ParameterError
from cutline.sampling import SeededSource, SystemSource, draws
from cutline.sampling.noise import _discrete_laplace, _exp_coins, discrete_gaussian


def law(weights):
    values = np.array([weights(z) for z in range(-400, 401)])
    return values / values.sum()


def p_value(drawn, expected):
    """Chi-square over the values that should come up at least 8 times, the rest pooled at both ends."""
    counts = np.bincount(np.clip(drawn + 400, 0, 800), minlength=801)
    expected = expected * len(drawn)
    common = expected >= 8
    observed = np.append(counts[common], counts[~common].sum())
    wanted = np.append(expected[common], expected[~common].sum())
    if wanted[-1] < 1e-6:
        assert observed[-1] == 0
        observed, wanted = observed[:-1], wanted[:-1]
    return chisquare(observed, wanted * observed.sum() / wanted.sum()).pvalue


@pytest.mark.parametrize("sigma", [0.6, 1.0, 2.5, 20.0])
def test_the_law_with_power(sigma):
    drawn = discrete_gaussian(40_000, sigma=sigma, rng=SeededSource(5))

    def expected(factor):
        return law(lambda z: math.exp(-(z**2) / (2 * (sigma * factor) ** 2)))

    assert p_value(drawn, expected(1.0)) > 1e-3
    assert p_value(drawn, expected(0.7)) < 1e-6
    assert p_value(drawn, expected(1.3)) < 1e-6


@pytest.mark.parametrize("scale", [1, 3, 10])
def test_the_proposal_is_discrete_laplace(scale):
    drawn = _discrete_laplace(40_000, scale, SeededSource(6))
    assert p_value(drawn, law(lambda z: math.exp(-abs(z) / scale))) > 1e-3
    assert p_value(drawn, law(lambda z: math.exp(-abs(z) / (0.7 * scale)))) < 1e-6
    assert p_value(drawn, law(lambda z: math.exp(-abs(z) / (1.3 * scale)))) < 1e-6


def test_refined_coins_have_the_same_law(monkeypatch):
    monkeypatch.setattr(draws, "_band", lambda groups: np.inf)
    drawn = discrete_gaussian(3_000, sigma=1.5, rng=SeededSource(7))
    assert p_value(drawn, law(lambda z: math.exp(-(z**2) / (2 * 1.5**2)))) > 1e-3
    assert p_value(drawn, law(lambda z: math.exp(-(z**2) / (2 * 1.05**2)))) < 1e-6


def test_a_coin_is_settled_by_the_digits_of_its_exact_probability(script):
    word = int(math.exp(-1) * 2**53) << 11  # within the float's error of e^-1
    digits = "0.36787944117144232159552377016146086744581113103176783450783680169746149574489980335714727434591964374662732527"
    boundary = int(Fraction(digits) * 2**128)
    for shift, answer in ((-1, True), (1, False)):
        near = boundary + shift
        source = script([near >> 64, near & (2**64 - 1)])
        assert _exp_coins(np.array([1.0]), lambda i: Fraction(1), source).tolist() == [answer]
        assert source.used == 2
    assert abs((word >> 1) - (boundary >> 65)) < 2**20


def test_none_are_drawn_without_bits(script):
    assert discrete_gaussian(0, sigma=1.0, rng=script([])).shape == (0,)


def test_large_and_tiny_sigma_stay_in_range():
    assert np.abs(discrete_gaussian(500, sigma=2.0**40, rng=SystemSource())).max() < 2.0**45
    assert not discrete_gaussian(500, sigma=2.0**-20).any()


@pytest.mark.parametrize("sigma", [0.0, -1.0, math.nan, math.inf, 2.0**41, 2.0**-21])
def test_sigma_out_of_range_is_refused(sigma):
    with pytest.raises(ParameterError, match="sigma"):
        discrete_gaussian(3, sigma=sigma)


@pytest.mark.parametrize("n", [-1, 2.0, True])
def test_n_must_be_a_whole_number(n):
    with pytest.raises(ParameterError, match="whole"):
        discrete_gaussian(n, sigma=1.0)
