"""What each aggregator is, beyond what all of them keep."""

import math
from fractions import Fraction

import numpy as np
import pytest
from flint import arb, ctx
from scipy.special import log_ndtr, ndtr

from cutline.errors import LawTooLarge, ParameterError
from cutline.histogram import ClosedHistogram
from cutline.mechanisms.adaptive.choosers import GapArgmax, GapExponential
from cutline.mechanisms.adaptive.gap_tests import GaussianTest, TableTest
from cutline.mechanisms.adaptive.preference import Preference
from cutline.mechanisms.adaptive.stable_top_k import StableTopK
from cutline.pate.aggregators.gaussian_votes import BinaryVote, PateGaussian, PateTau
from cutline.pate.aggregators.noisy_max_votes import GNMax, PowersetVote
from cutline.pate.aggregators.optimal_vote import OptimalVote
from cutline.pate.aggregators.stable_majority import StableMajority, confidences, majorities
from cutline.pate.aggregators.stable_sets import StableConfident, StableTopKVote
from cutline.privacy import Adjacency, BitTable, Budget
from cutline.sampling import SeededSource

ADDS, REPLACES = Adjacency.ADD_REMOVE, Adjacency.REPLACE
EXP3 = Budget(epsilon=3.66, delta=1e-6, releases=600)
STEEP = BitTable.stability(order=3.0, rdp=1.2, delta=0.02)


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


class TestOptimalVote:
    def test_the_middle_is_that_of_the_teachers_whatever_came(self):
        for teachers in (8, 9):
            table = BitTable.voting(order=3.0, rdp=0.4, teachers=teachers)
            vote = OptimalVote(table=table, teachers=teachers, labels=1)
            chances = [vote.law(np.array([n]))[1,] for n in range(teachers + 1)]
            assert chances == sorted(chances)
            assert all(a + b == 1 for a, b in zip(chances, reversed(chances), strict=True))
            few = vote.law(vote.tally(np.ones((3, 1, 1), dtype=int))[0])  # all of the three that came, of 8 or 9
            assert few[1,] < 0.5

    def test_a_ballot_limit_is_charged_for_the_labels_that_can_move(self):
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

    def test_a_limit_buys_accuracy(self):
        free = OptimalVote.calibrate(EXP3, teachers=800, labels=40)
        limited = OptimalVote.calibrate(EXP3, teachers=800, labels=40, limit=5)
        at = np.array([480])
        assert 0.68 < free.table(at)[0] < 0.69
        assert limited.table(at)[0] > 0.83

    def test_it_beats_gaussian_voting_at_every_count_for_the_same_budget(self):
        counts = np.arange(401, 801)
        best = OptimalVote.calibrate(EXP3, teachers=800, labels=40).chances(counts)[0]
        bits = BinaryVote.calibrate(EXP3, teachers=800, labels=40).chances(counts)[0]
        vector = PateGaussian.calibrate(EXP3, teachers=800, labels=40).chances(counts)[0]
        # In the very middle both are the same straight line; their orders differ a little.
        assert (best > bits - 1e-6).all()
        assert (best > bits)[10:].all()
        assert (bits > vector).all()

    def test_a_law_of_too_many_outcomes_is_refused_by_name(self):
        vote = OptimalVote.calibrate(EXP3, teachers=800, labels=40)
        with pytest.raises(LawTooLarge, match="labels=40"):
            vote.law(np.zeros(40, dtype=int))

    def test_what_is_no_table_is_refused(self):
        with pytest.raises(ParameterError, match="bit table"):
            OptimalVote(table=[0.5], teachers=3, labels=1)


class TestGaussianVotes:
    def test_charges(self):
        shape = {"sigma": 10.0, "teachers": 50, "labels": 9}
        for adjacency, moved in ((ADDS, 2), (REPLACES, 4)):
            vector = PateGaussian(**shape, adjacency=adjacency).cost.rdp(8.0)
            tau = PateTau(**shape, adjacency=adjacency, limit=2).cost.rdp(8.0)
            bits = BinaryVote(**shape, adjacency=adjacency).cost.rdp(8.0)
            assert vector == pytest.approx(9 * 8 / 200)
            assert tau == pytest.approx(moved * 8 / 200)
            assert bits / vector == pytest.approx(2 / math.pi, rel=0.02)

    def test_the_bit_is_charged_for_its_dearest_pair(self):
        """Against the definition, over the counts there can be; what lies beyond them may only add."""
        vote = BinaryVote(sigma=1.5, teachers=7, labels=1)
        for order in (1.5, 3.0, 9.0):
            inside, beyond = (dearest_pair(np.arange(most + 1) / 1.5 - 7 / 3, order) for most in (7, 40))
            assert inside <= vote.cost.rdp(order)
            assert vote.cost.rdp(order) == pytest.approx(beyond, rel=1e-9)

    def test_the_coin_is_phi_and_one_half_is_exact(self):
        vote = PateGaussian(sigma=4.0, teachers=8, labels=2)
        assert vote.law(np.array([4, 4])) == {(a, b): 0.25 for a in (0, 1) for b in (0, 1)}
        coins = vote.coins()
        assert coins.bias(4) == Fraction(1, 2)
        with ctx.workprec(200):
            assert abs(float(coins.bias(6)) - ndtr(0.5)) < 1e-15
            assert coins.bias(6).overlaps((1 + (arb(1) / 2 / arb(2).sqrt()).erf()) / 2)
        assert coins.first.tolist() == [int(p * 2**8) for p in ndtr((np.arange(9) - 4) / 4)]

    def test_limits_belong_to_pate_tau(self):
        with pytest.raises(ParameterError, match="pate-tau"):
            PateGaussian(sigma=1.0, teachers=3, labels=2, limit=1)
        with pytest.raises(ParameterError, match="needs a ballot limit"):
            PateTau(sigma=1.0, teachers=3, labels=2)

    def test_noise_that_is_no_number_is_refused(self):
        for kind in (PateGaussian, BinaryVote, GNMax, PowersetVote):
            for sigma in (0.0, -1.0, math.nan, math.inf):
                with pytest.raises(ParameterError, match="sigma"):
                    kind(sigma=sigma, teachers=3, labels=2)


class TestNoisyMaxVotes:
    def test_two_classes_are_one_coin(self):
        vote = GNMax(sigma=3.0, teachers=20, labels=2)
        law = vote.law(np.array([12, 8]))
        assert law[1, 0] == pytest.approx(ndtr(4 / (3 * math.sqrt(2))), rel=1e-12)
        # Ayes and noes with noise sqrt(2) sigma each: the same law as a noisy majority with sigma.
        binary = BinaryVote(sigma=3.0 / math.sqrt(2), teachers=20, labels=1).law(np.array([12]))
        assert law[1, 0] == pytest.approx(binary[1,], rel=1e-12)

    def test_charges(self):
        for kind in (GNMax, PowersetVote):
            assert kind(sigma=5.0, teachers=9, labels=3).cost.rdp(8.0) == pytest.approx(8 / 25)
            assert kind(sigma=5.0, teachers=9, labels=3, adjacency=ADDS).cost.rdp(8.0) == pytest.approx(8 / 50)

    def test_one_vote_a_teacher(self):
        vote = GNMax(sigma=5.0, teachers=9, labels=3)
        assert vote.limit == 1
        assert vote.tally(np.array([[[1, 1, 1]], [[0, 0, 1]], [[0, 0, 0]]])).tolist() == [[1, 0, 1]]
        with pytest.raises(ParameterError, match="one vote"):
            GNMax(sigma=5.0, teachers=9, labels=3, limit=2)

    def test_sets_are_numbered_by_their_labels(self):
        vote = PowersetVote(sigma=0.01, teachers=9, labels=3)
        assert vote.release(np.array([[0, 0, 0, 0, 0, 0, 9, 0], [9, 0, 0, 0, 0, 0, 0, 0]])).values.tolist() == [
            [0, 1, 1],
            [0, 0, 0],
        ]
        with pytest.raises(ParameterError, match="at most 16"):
            PowersetVote(sigma=1.0, teachers=9, labels=17)


class TestStableVotes:
    def test_confidence_counts_the_ballots_that_must_change(self):
        for teachers in (1, 2, 7, 8):
            counts = np.arange(teachers + 1)
            majority = majorities(counts, teachers)
            assert majority.tolist() == [int(2 * n > teachers) for n in counts]
            expected = [min(abs(n - other) for other in counts if majority[other] != majority[n]) for n in counts]
            assert confidences(counts, teachers).tolist() == expected
            assert np.abs(np.diff(confidences(counts, teachers))).max() <= 1

    def test_majorities_go_out_whole_or_not_at_all(self):
        vote = StableMajority(table=STEEP, teachers=20, labels=3)
        law = vote.law(np.array([19, 2, 14]))
        assert law == {(1, 0, 1): STEEP(np.array([3]))[0], (None, None, None): 1 - STEEP(np.array([3]))[0]}
        assert vote.law(np.array([19, 10, 14]))[1, 0, 1] == 0.02
        values = vote.release(np.tile([19, 2, 14], (500, 1)), rng=SeededSource(0)).values
        assert {tuple(row) for row in values.tolist()} == {(1, 0, 1), (-1, -1, -1)}

    @pytest.mark.parametrize("adjacency", list(Adjacency))
    @pytest.mark.parametrize("chooser", [GapExponential(epsilon=0.7), GapArgmax()])
    def test_votes_for_the_top_are_stable_top_k_with_less_shown(self, adjacency, chooser):
        preference = Preference(max_k=3)
        parts = {"preference": preference, "chooser": chooser, "test": TableTest(table=STEEP), "adjacency": adjacency}
        counts = np.array([9, 17, 9, 30])
        vote = StableTopKVote(**parts, teachers=30, labels=4)
        base = StableTopK(**parts)
        expected: dict = {}
        for (_, items), p in base.law(ClosedHistogram.from_counts(counts)).items():
            row = (None,) * 4 if items is None else tuple(int(i in items) for i in range(4))
            expected[row] = expected.get(row, 0.0) + p
        law = vote.law(counts)
        assert vote.cost == base.cost
        assert {row: p for row, p in law.items() if p} == pytest.approx({row: p for row, p in expected.items() if p})

    def test_the_surest_labels_go_out_with_their_majorities(self):
        vote = StableConfident(
            preference=Preference(max_k=3), chooser=GapArgmax(), test=TableTest(table=STEEP), teachers=40, labels=3
        )
        law = vote.law(np.array([39, 1, 22]))  # confidences 19, 20, 2: the gap of 17 leaves out the third
        assert max(law, key=law.get) == (1, 0, None)
        # All three: the gap below the last is read as twice its confidence, so its distance is one less than that.
        law = vote.law(np.array([39, 1, 33]))
        assert law[1, 0, 1] == STEEP(np.array([min(12, (2 * 13 - 6 - 4 + 3) // 4)]))[0]

    def test_the_last_label_has_the_distance_of_the_majority_vector(self):
        only = Preference(max_k=2, min_k=2)
        vote = StableConfident(preference=only, chooser=GapArgmax(), test=TableTest(table=STEEP), teachers=20, labels=2)
        whole = StableMajority(table=STEEP, teachers=20, labels=2)
        for counts in np.ndindex(21, 21):
            assert vote.law(np.array(counts)) == whole.law(np.array(counts))

    def test_confidences_take_the_constants_of_replace_always(self):
        parts = {"preference": Preference(max_k=2), "chooser": GapExponential(epsilon=1.0), "teachers": 9, "labels": 2}
        for test in (TableTest(table=STEEP), GaussianTest.exact(sigma=2.0, delta=0.01)):
            one, other = (StableConfident(**parts, test=test, adjacency=a) for a in Adjacency)
            assert one.law(np.array([8, 2])) == other.law(np.array([8, 2]))
            assert (one.cost.uses, one.cost.adjacency, other.cost.adjacency) == (other.cost.uses, ADDS, REPLACES)

    def test_refusals(self):
        with pytest.raises(ParameterError, match="at most the number of labels"):
            StableTopKVote.calibrate(EXP3, teachers=9, labels=3, max_k=4)
        parts = {"preference": Preference(max_k=2), "chooser": GapArgmax(), "teachers": 9, "labels": 2}
        with pytest.raises(ParameterError, match="table test"):
            StableConfident(**parts, test=GaussianTest.exact(sigma=2.0, delta=0.01))
        with pytest.raises(ParameterError, match="starts at 0"):
            StableMajority(table=BitTable.voting(order=3.0, rdp=0.4, teachers=60), teachers=60, labels=1)


def test_a_batch_that_is_no_part_of_its_budget_speaks_for_itself():
    vote = OptimalVote.calibrate(Budget(epsilon=1.0, delta=1e-6, releases=2), teachers=50, labels=2)
    within, beyond = (vote.release(np.full((n, 2), 20)).guarantee for n in (2, 3))
    assert within.startswith("(1, 1e-06)-DP")
    assert "these 3 queries" in beyond
    assert 1.0 < float(beyond[1:].split(",")[0]) < 1.5
    alone = OptimalVote(table=vote.table, teachers=50, labels=2).release(np.full((1, 2), 20))
    assert "this one query" in alone.guarantee


def test_deltas_that_add_up_to_one_promise_nothing_and_say_so():
    vote = StableMajority(table=STEEP, teachers=50, labels=2)
    some, all_spent = (vote.release(np.full((n, 2), 20)) for n in (49, 50))
    assert some.stated()[1] < 1
    assert all_spent.stated() == (math.inf, 1.0)
    assert all_spent.guarantee.startswith("(inf, 1)-DP")


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
