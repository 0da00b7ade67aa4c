"""All majorities of a query, or none."""

import numpy as np
import pytest

from cutline.errors import ParameterError
from cutline.pate.aggregators.stable_majority import StableMajority, confidences, majorities
from cutline.privacy import BitTable
from cutline.sampling import SeededSource

STEEP = BitTable.stability(order=3.0, rdp=1.2, delta=0.02)


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
