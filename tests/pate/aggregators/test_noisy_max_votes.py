"""One winner out of several after Gaussian noise."""

import math

import numpy as np
import pytest
from scipy.special import ndtr

from cutline.errors import ParameterError
from cutline.pate.aggregators.gaussian_votes import BinaryVote
from cutline.pate.aggregators.noisy_max_votes import GNMax, PowersetVote
from cutline.privacy import Adjacency

ADDS = Adjacency.ADD_REMOVE


def test_two_classes_are_one_coin():
    vote = GNMax(sigma=3.0, teachers=20, labels=2)
    law = vote.law(np.array([12, 8]))
    assert law[1, 0] == pytest.approx(ndtr(4 / (3 * math.sqrt(2))), rel=1e-12)
    # Ayes and noes with noise sqrt(2) sigma each: the same law as a noisy majority with sigma.
    binary = BinaryVote(sigma=3.0 / math.sqrt(2), teachers=20, labels=1).law(np.array([12]))
    assert law[1, 0] == pytest.approx(binary[1,], rel=1e-12)


def test_charges():
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
