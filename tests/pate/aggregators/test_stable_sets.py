"""All majorities of a query or none, and a stable set of labels by votes and by confidence."""

import numpy as np
import pytest

from cutline.errors import ParameterError
from cutline.histogram import ClosedHistogram
from cutline.mechanisms.adaptive.choosers import GapArgmax, GapExponential, Preference
from cutline.mechanisms.adaptive.gap_tests import GaussianTest, TableTest
from cutline.mechanisms.adaptive.stable_top_k import StableTopK
from cutline.pate.aggregators.stable_sets import (
    StableConfident,
    StableMajority,
    StableTopKVote,
    confidences,
    majorities,
)
from cutline.privacy import Adjacency, BitTable, Budget
from cutline.sampling import SeededSource

ADDS, REPLACES = Adjacency.ADD_REMOVE, Adjacency.REPLACE
EXP3 = Budget(epsilon=3.66, delta=1e-6, releases=600)
STEEP = BitTable.stability(order=3.0, rdp=1.2, delta=0.02)


@pytest.mark.parametrize("adjacency", list(Adjacency))
@pytest.mark.parametrize("chooser", [GapExponential(epsilon=0.7), GapArgmax()])
def test_votes_for_the_top_are_stable_top_k_with_less_shown(adjacency, chooser):
    preference = Preference(max_k=3)
    parts = {"preference": preference, "chooser": chooser, "test": TableTest(table=STEEP), "adjacency": adjacency}
    counts = np.array([9, 17, 9, 30])
    vote = StableTopKVote(**parts, teachers=30, labels=4)
    base = StableTopK(**parts)
    expected: dict = {}
    for outcome, p in base.law(ClosedHistogram.from_counts(counts)).items():
        items = outcome.items
        row = (None,) * 4 if items is None else tuple(int(i in items) for i in range(4))
        expected[row] = expected.get(row, 0.0) + p
    law = vote.law(counts)
    assert vote.cost == base.cost
    assert {row: p for row, p in law.items() if p} == pytest.approx({row: p for row, p in expected.items() if p})


def test_the_surest_labels_go_out_with_their_majorities():
    vote = StableConfident(
        preference=Preference(max_k=3), chooser=GapArgmax(), test=TableTest(table=STEEP), teachers=40, labels=3
    )
    law = vote.law(np.array([39, 1, 22]))  # confidences 19, 20, 2: the gap of 17 leaves out the third
    assert max(law, key=law.get) == (1, 0, None)
    # All three: the gap below the last is read as twice its confidence, so its distance is one less than that.
    law = vote.law(np.array([39, 1, 33]))
    assert law[1, 0, 1] == STEEP(np.array([min(12, (2 * 13 - 6 - 4 + 3) // 4)]))[0]


def test_the_last_label_has_the_distance_of_the_majority_vector():
    only = Preference(max_k=2, min_k=2)
    vote = StableConfident(preference=only, chooser=GapArgmax(), test=TableTest(table=STEEP), teachers=20, labels=2)
    whole = StableMajority(table=STEEP, teachers=20, labels=2)
    for counts in np.ndindex(21, 21):
        assert vote.law(np.array(counts)) == whole.law(np.array(counts))


def test_confidences_take_the_constants_of_replace_always():
    parts = {"preference": Preference(max_k=2), "chooser": GapExponential(epsilon=1.0), "teachers": 9, "labels": 2}
    for test in (TableTest(table=STEEP), GaussianTest.exact(sigma=2.0, delta=0.01)):
        one, other = (StableConfident(**parts, test=test, adjacency=a) for a in Adjacency)
        assert one.law(np.array([8, 2])) == other.law(np.array([8, 2]))
        assert (one.cost.uses, one.cost.adjacency, other.cost.adjacency) == (other.cost.uses, ADDS, REPLACES)


def test_refusals():
    with pytest.raises(ParameterError, match="at most the number of labels"):
        StableTopKVote.calibrate(EXP3, teachers=9, labels=3, max_k=4)
    parts = {"preference": Preference(max_k=2), "chooser": GapArgmax(), "teachers": 9, "labels": 2}
    with pytest.raises(ParameterError, match="table test"):
        StableConfident(**parts, test=GaussianTest.exact(sigma=2.0, delta=0.01))


def test_confidence_counts_the_ballots_that_must_change():
    for teachers in (1, 2, 7, 8):
        counts = np.arange(teachers + 1)
        majority = majorities(counts, teachers)
        assert majority.tolist() == [int(2 * n > teachers) for n in counts]
        expected = [min(abs(n - other) for other in counts if majority[other] != majority[n]) for n in counts]
        assert confidences(counts, teachers).tolist() == expected
        assert np.abs(np.diff(confidences(counts, teachers))).max() <= 1


def test_majorities_go_out_whole_or_not_at_all():
    vote = StableMajority(table=STEEP, teachers=20, labels=3)
    law = vote.law(np.array([19, 2, 14]))
    assert law == {(1, 0, 1): STEEP(np.array([3]))[0], (None, None, None): 1 - STEEP(np.array([3]))[0]}
    assert vote.law(np.array([19, 10, 14]))[1, 0, 1] == 0.02
    values = vote.release(np.tile([19, 2, 14], (500, 1)), rng=SeededSource(0)).values
    assert {tuple(row) for row in values.tolist()} == {(1, 0, 1), (-1, -1, -1)}


def test_a_table_that_does_not_start_at_0_is_refused():
    with pytest.raises(ParameterError, match="starts at 0"):
        StableMajority(table=BitTable.voting(order=3.0, rdp=0.4, teachers=60), teachers=60, labels=1)
