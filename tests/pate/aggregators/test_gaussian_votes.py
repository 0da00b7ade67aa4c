"""Noisy counts compared with half of the teachers, as the coins they are, and one winner out of several."""

import math
from fractions import Fraction

import numpy as np
import pytest
from flint import arb, ctx
from scipy.special import log_ndtr, ndtr

from cutline.errors import ParameterError
from cutline.pate.aggregators import gaussian_votes
from cutline.pate.aggregators.gaussian_votes import BinaryVote, GNMax, PateGaussian, PateTau, PowersetVote
from cutline.privacy import Adjacency
from cutline.sampling.coins import Coins

ADDS, REPLACES = Adjacency.ADD_REMOVE, Adjacency.REPLACE


def dearest_pair(x, order):
    """The largest Rényi divergence between coins Phi(x) that follow each other, by its definition."""
    pairs = [(x[1:], x[:-1]), (x[:-1], x[1:])]
    return max(
        np.log(
            np.exp(order * log_ndtr(a) + (1 - order) * log_ndtr(b))
            + np.exp(order * log_ndtr(-a) + (1 - order) * log_ndtr(-b))
        ).max()
        / (order - 1)
        for a, b in pairs
    )


def test_charges():
    shape = {"sigma": 10.0, "teachers": 50, "labels": 9}
    for adjacency, moved in ((ADDS, 2), (REPLACES, 4)):
        vector = PateGaussian(**shape, adjacency=adjacency).cost.rdp(8.0)
        tau = PateTau(**shape, adjacency=adjacency, limit=2).cost.rdp(8.0)
        bits = BinaryVote(**shape, adjacency=adjacency).cost.rdp(8.0)
        assert vector == pytest.approx(9 * 8 / 200)
        assert tau == pytest.approx(moved * 8 / 200)
        assert bits / vector == pytest.approx(2 / math.pi, rel=0.02)


def test_the_bit_is_charged_for_its_dearest_pair():
    """Against the definition, over the counts there can be; what lies beyond them may only add."""
    vote = BinaryVote(sigma=1.5, teachers=7, labels=1)
    for order in (1.5, 3.0, 9.0):
        inside, beyond = (dearest_pair(np.arange(most + 1) / 1.5 - 7 / 3, order) for most in (7, 40))
        assert inside <= vote.cost.rdp(order)
        assert vote.cost.rdp(order) == pytest.approx(beyond, rel=1e-9)


def test_the_coin_is_phi_and_one_half_is_exact():
    vote = PateGaussian(sigma=4.0, teachers=8, labels=2)
    assert vote.law(np.array([4, 4])) == {(a, b): 0.25 for a in (0, 1) for b in (0, 1)}
    coins = vote.coins()
    assert coins.bias(4) == Fraction(1, 2)
    with ctx.workprec(200):
        assert abs(float(coins.bias(6)) - ndtr(0.5)) < 1e-15
        assert coins.bias(6).overlaps((1 + (arb(1) / 2 / arb(2).sqrt()).erf()) / 2)
    assert coins.first.tolist() == [int(p * 2**8) for p in ndtr((np.arange(9) - 4) / 4)]


def test_limits_belong_to_pate_tau():
    with pytest.raises(ParameterError, match="pate-tau"):
        PateGaussian(sigma=1.0, teachers=3, labels=2, limit=1)
    with pytest.raises(ParameterError, match="needs a ballot limit"):
        PateTau(sigma=1.0, teachers=3, labels=2)


def test_noise_that_is_no_number_is_refused():
    for kind in (PateGaussian, BinaryVote, GNMax, PowersetVote):
        for sigma in (0.0, -1.0, math.nan, math.inf):
            with pytest.raises(ParameterError, match="sigma"):
                kind(sigma=sigma, teachers=3, labels=2)


def test_two_classes_are_one_coin():
    vote = GNMax(sigma=3.0, teachers=20, labels=2)
    law = vote.law(np.array([12, 8]))
    assert law[1, 0] == pytest.approx(ndtr(4 / (3 * math.sqrt(2))), rel=1e-12)
    # Ayes and noes with noise sqrt(2) sigma each: the same law as a noisy majority with sigma.
    binary = BinaryVote(sigma=3.0 / math.sqrt(2), teachers=20, labels=1).law(np.array([12]))
    assert law[1, 0] == pytest.approx(binary[1,], rel=1e-12)


def test_charges_of_one_vote():
    for kind in (GNMax, PowersetVote):
        assert kind(sigma=5.0, teachers=9, labels=3).cost.rdp(8.0) == pytest.approx(8 / 25)
        assert kind(sigma=5.0, teachers=9, labels=3, adjacency=ADDS).cost.rdp(8.0) == pytest.approx(8 / 50)


def test_one_vote_a_teacher():
    vote = GNMax(sigma=5.0, teachers=9, labels=3)
    assert vote.limit == 1
    assert vote.tally(np.array([[[1, 1, 1]], [[0, 0, 1]], [[0, 0, 0]]])).tolist() == [[1, 0, 1]]
    with pytest.raises(ParameterError, match="one vote"):
        GNMax(sigma=5.0, teachers=9, labels=3, limit=2)


def test_sets_are_numbered_by_their_labels():
    vote = PowersetVote(sigma=0.01, teachers=9, labels=3)
    assert vote.release(np.array([[0, 0, 0, 0, 0, 0, 9, 0], [9, 0, 0, 0, 0, 0, 0, 0]])).values.tolist() == [
        [0, 1, 1],
        [0, 0, 0],
    ]
    with pytest.raises(ParameterError, match="at most 16"):
        PowersetVote(sigma=1.0, teachers=9, labels=17)


@pytest.mark.parametrize(("sigma", "teachers"), [(60.0, 10**7), (3.7, 10**7), (0.07, 10**6 + 1)])
def test_coins_of_very_many_teachers_are_as_exact_as_they_claim(sigma, teachers, monkeypatch):
    """Floats within 2^-40 of every bias, checked against balls where the coins are uncertain."""
    seen = []
    monkeypatch.setattr(Coins, "of_reals", lambda approximate, bias: seen.append((approximate, bias)))
    vote = PateGaussian(sigma=sigma, teachers=teachers, labels=1)
    gaussian_votes._coins.__wrapped__(sigma, teachers, teachers)
    ((approximate, bias),) = seen
    beside = max(int(2 * sigma), 2)
    entries = np.arange(teachers // 2 - beside, teachers // 2 + beside + 1)
    chances, _ = vote.chances(entries)
    for entry, chance in zip(entries.tolist(), chances.tolist(), strict=True):
        with ctx.workprec(300):
            exact = bias(entry)
        assert abs(approximate[entry] - float(exact)) <= 2.0**-40
        assert chance == pytest.approx(float(exact), rel=1e-12)
