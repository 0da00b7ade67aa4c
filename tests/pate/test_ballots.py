import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from cutline.errors import ParameterError
from cutline.pate.ballots import count_ballots, count_powersets, limit_ballots

BALLOTS = hnp.arrays(
    np.int8, st.tuples(st.integers(0, 4), st.integers(1, 3), st.integers(1, 5)), elements=st.integers(0, 1)
)


def kept_by_hand(ballot, scores, tau):
    ones = [i for i, given in enumerate(ballot) if given]
    best = sorted(ones, key=lambda i: (-scores[i], i))[:tau]
    return [i in best for i in range(len(ballot))]


@settings(max_examples=120, deadline=None)
@given(ballots=BALLOTS, tau=st.integers(1, 6), data=st.data())
def test_a_limited_ballot_keeps_its_surest_ones(ballots, tau, data):
    scores = data.draw(
        hnp.arrays(np.float64, ballots.shape, elements=st.sampled_from([-np.inf, -1.0, 0.0, 0.5, np.inf]))
    )
    limited = limit_ballots(ballots, scores, tau)
    assert limited.sum(axis=-1).max(initial=0) <= tau
    for place in np.ndindex(*ballots.shape[:2]):
        assert limited[place].tolist() == kept_by_hand(ballots[place], scores[place], tau)


@settings(max_examples=60, deadline=None)
@given(ballots=BALLOTS, tau=st.integers(1, 4), seed=st.integers(0, 99))
def test_a_ballot_is_cut_by_itself_alone(ballots, tau, seed):
    scores = np.random.default_rng(seed).random(ballots.shape)
    together = limit_ballots(ballots, scores, tau)
    for j in range(len(ballots)):
        alone = limit_ballots(ballots[j : j + 1], scores[j : j + 1], tau)
        assert np.array_equal(alone[0], together[j])


def test_without_scores_the_first_labels_are_kept_and_nan_comes_last():
    ballots = np.ones((1, 1, 4), dtype=bool)
    assert limit_ballots(ballots, None, 2).astype(int).tolist() == [[[1, 1, 0, 0]]]
    scores = np.array([[[np.nan, 0.1, np.nan, 0.2]]])
    assert limit_ballots(ballots, scores, 3).astype(int).tolist() == [[[1, 1, 0, 1]]]
    assert limit_ballots(ballots, None, 9).all()


@settings(max_examples=60, deadline=None)
@given(ballots=BALLOTS)
def test_sets_of_labels_hold_the_counts_of_labels(ballots):
    sets = count_powersets(ballots)
    labels = ballots.shape[-1]
    assert (sets.sum(axis=1) == len(ballots)).all()
    members = np.arange(1 << labels)[:, None] >> np.arange(labels) & 1
    assert np.array_equal(sets @ members, count_ballots(ballots))


def test_anything_but_zero_is_one_vote():
    assert count_ballots(np.array([[[7, 0, -1]]])).tolist() == [[1, 0, 1]]
    assert count_powersets(np.array([[[7, 0, -1]]])).tolist() == [[0, 0, 0, 0, 0, 1, 0, 0]]


@pytest.mark.parametrize("bad", [np.zeros((2, 3), dtype=int), np.zeros((1, 2, 3)), np.array([[["yes"]]])])
def test_shapes_and_types_are_public_and_checked(bad):
    for count in (count_ballots, count_powersets, lambda b: limit_ballots(b, None, 1)):
        with pytest.raises(ParameterError, match="teachers, queries, labels"):
            count(bad)


def test_refusals():
    ballots = np.zeros((1, 1, 3), dtype=int)
    with pytest.raises(ParameterError, match="shape of the ballots"):
        limit_ballots(ballots, np.zeros((1, 1, 2)), 1)
    for told in (
        np.array([[["ana", "bo", "eve"]]]),
        np.array([[[0.5, "ana", 1]]], dtype=object),
        np.array([[[1j, 2, 3]]]),
    ):
        with pytest.raises(ParameterError, match="real numbers") as refused:
            limit_ballots(ballots, told, 1)
        assert "ana" not in str(refused.value)
    for tau in (0, True, 1.5):
        with pytest.raises(ParameterError, match="tau"):
            limit_ballots(ballots, None, tau)
    with pytest.raises(ParameterError, match="at most 16"):
        count_powersets(np.zeros((1, 1, 17), dtype=int))
