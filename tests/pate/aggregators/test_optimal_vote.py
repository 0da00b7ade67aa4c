"""Every label by the best coin there is for its count."""

import numpy as np
import pytest

from cutline.errors import BudgetError, LawTooLarge, ParameterError
from cutline.pate.aggregators.gaussian_votes import BinaryVote, PateGaussian, PowersetVote
from cutline.pate.aggregators.optimal_vote import OptimalVote
from cutline.privacy import Adjacency, BitTable, Budget
from cutline.privacy.rules.adaptive import adaptive
from cutline.sampling import SeededSource

ADDS, REPLACES = Adjacency.ADD_REMOVE, Adjacency.REPLACE
EXP3 = Budget(epsilon=3.66, delta=1e-6, releases=600)


def test_the_middle_is_that_of_the_teachers_whatever_came():
    for teachers in (8, 9):
        table = BitTable.voting(order=3.0, rdp=0.4, teachers=teachers)
        vote = OptimalVote(table=table, teachers=teachers, labels=1)
        chances = [vote.law(np.array([n]))[1,] for n in range(teachers + 1)]
        assert chances == sorted(chances)
        assert all(a + b == 1 for a, b in zip(chances, reversed(chances), strict=True))
        few = vote.law(vote.tally(np.ones((3, 1, 1), dtype=int))[0])  # all of the three that came, of 8 or 9
        assert few[1,] < 0.5


def test_a_ballot_limit_is_charged_for_the_labels_that_can_move():
    table = BitTable.voting(order=3.0, rdp=0.4, teachers=8)
    for limit, adjacency, coins in (
        (None, ADDS, 9),
        (None, REPLACES, 9),
        (2, ADDS, 2),
        (2, REPLACES, 4),
        (7, REPLACES, 9),
    ):
        vote = OptimalVote(table=table, teachers=8, labels=9, adjacency=adjacency, limit=limit)
        assert vote.moved == coins
        assert vote.cost.rdp(3.0) == pytest.approx(coins * 0.4, rel=1e-9)
        assert vote.cost.delta == 0


def test_a_limit_buys_accuracy():
    free = OptimalVote.calibrate(EXP3, teachers=800, labels=40)
    limited = OptimalVote.calibrate(EXP3, teachers=800, labels=40, limit=5)
    at = np.array([480])
    assert 0.68 < free.table(at)[0] < 0.69
    assert limited.table(at)[0] > 0.83


def test_it_beats_gaussian_voting_at_every_count_for_the_same_budget():
    counts = np.arange(401, 801)
    best = OptimalVote.calibrate(EXP3, teachers=800, labels=40).chances(counts)[0]
    bits = BinaryVote.calibrate(EXP3, teachers=800, labels=40).chances(counts)[0]
    vector = PateGaussian.calibrate(EXP3, teachers=800, labels=40).chances(counts)[0]
    # In the very middle both are the same straight line; their orders differ a little.
    assert (best > bits - 1e-6).all()
    assert (best > bits)[10:].all()
    assert (bits > vector).all()


def test_a_law_of_too_many_outcomes_is_refused_by_name():
    vote = OptimalVote.calibrate(EXP3, teachers=800, labels=40)
    with pytest.raises(LawTooLarge, match="labels=40"):
        vote.law(np.zeros(40, dtype=int))


def test_what_is_no_table_is_refused():
    with pytest.raises(ParameterError, match="bit table"):
        OptimalVote(table=[0.5], teachers=3, labels=1)


def test_narrow_whole_numbers_do_not_wrap_around_in_the_charge():
    table = BitTable.voting(order=3.0, rdp=0.4, teachers=255)
    wide = OptimalVote(table=table, teachers=255, labels=200, limit=128)
    narrow = OptimalVote(table=table, teachers=np.uint8(255), labels=np.uint8(200), limit=np.uint8(128))
    assert (narrow, narrow.moved, narrow.cost) == (wide, 200, wide.cost)
    assert narrow.release(np.zeros((1, 200), dtype=int)).values.shape == (1, 200)
    shape = {"teachers": np.int8(20), "labels": np.int8(100), "limit": np.int8(70)}
    many = Budget(epsilon=1.0, delta=1e-6, releases=10)
    assert OptimalVote.calibrate(many, **shape) == OptimalVote.calibrate(many, teachers=20, labels=100, limit=70)
    assert PowersetVote(sigma=1.0, teachers=5, labels=np.int8(10)).width == 1024


@pytest.mark.slow
def test_a_fixed_number_of_queries_buys_more_by_adaptive_accounting(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    budget = Budget(epsilon=2.0, delta=1e-6, releases=12)
    usual, planned = (
        OptimalVote.calibrate(budget, teachers=60, labels=5, accounting=accounting)
        for accounting in ("renyi", "adaptive")
    )
    assert 1.9998 < adaptive(planned.cost, 1e-6, releases=12) <= 2.0
    assert budget.fits(planned.cost)
    counts = np.arange(31, 61)
    assert np.all(planned.table(counts) >= usual.table(counts))
    assert planned.table(np.array(36)) > usual.table(np.array(36)) + 0.004
    labels = planned.release(np.full((12, 5), 30), rng=SeededSource(0))
    assert labels.guarantee.startswith("(2, 1e-06)-DP")


def test_adaptive_accounting_is_not_for_a_filter():
    budget = Budget(epsilon=2.0, delta=1e-6, releases=12)
    limits = budget.filter(order=12.0, delta_share=0.0)
    with pytest.raises(BudgetError, match="no filter"):
        OptimalVote.calibrate(budget, teachers=60, labels=5, limits=limits, accounting="adaptive")
