"""One class by one draw, and only where the teachers agree: costs against every vote that can be, laws, and refusals."""

import math
from dataclasses import replace
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from mpmath import log, mp, mpf

from cutline.errors import ParameterError
from cutline.pate import aggregator
from cutline.pate.aggregators.class_vote import ClassVote
from cutline.pate.aggregators.confident import ConfidentClassVote, ConfidentGNMax
from cutline.privacy import Adjacency, BitTable, BoundedRange, Budget, Cost
from cutline.privacy.curves.class_table import LIGHTEST, MOST_VOTES, ClassTable
from cutline.sampling import SeededSource

BUDGET = Budget(epsilon=2.0, delta=1e-5, releases=20)


def chances(table, votes):
    weights = [table.weights[n] for n in votes]
    return [Fraction(weight, sum(weights)) for weight in weights]


def brute_force(table, order):
    """The largest divergence between the laws of all votes one vote apart, from the definition and in fifty digits."""
    total, classes = len(table.weights) - 1, table.classes
    steps = [tuple(int(c == at) for c in range(classes)) for at in range(classes)]
    moves = [tuple(-n for n in step) for step in steps] + steps
    if table.moved == 2:
        moves += [tuple(a - b for a, b in zip(up, down, strict=True)) for up in steps for down in steps if up != down]
    worst = mpf(0)
    with mp.workdps(50):
        for votes in product(range(total + 1), repeat=classes):
            if list(votes) != sorted(votes) or sum(votes) > total:
                continue  # classes are alike
            p = chances(table, votes)
            for move in moves:
                other = tuple(n + m for n, m in zip(votes, move, strict=True))
                if min(other) < 0 or sum(other) > total:
                    continue
                ratios = [
                    (mpf(a.numerator) / a.denominator, mpf(b.numerator) / b.denominator)
                    for a, b in zip(p, chances(table, other), strict=True)
                ]
                worst = max(worst, log(sum(a**order * b ** (1 - order) for a, b in ratios)) / (order - 1))
    return worst


@pytest.mark.parametrize(
    ("order", "rdp", "votes", "classes"), [(3.0, 0.8, 4, 3), (8.0, 0.3, 9, 2), (2.0, 2.0, 6, 4), (16.0, 0.5, 7, 3)]
)
@pytest.mark.parametrize("moved", [1, 2])
def test_the_charge_is_what_the_worst_votes_cost(order, rdp, votes, classes, moved):
    table = ClassTable.build(order=order, rdp=rdp, votes=votes, classes=classes, moved=moved)
    for at in (order, 1.5, 3 * order):
        found = brute_force(table, at)
        # The rest weighs anything between its least and its most in the bound, but only what votes can give in truth.
        assert found * (1 - mpf(2) ** -45) <= table.rdp(at) <= (1.0 if at == order else 1.3) * max(rdp, 1.001 * found)
    assert table.rdp(order) == pytest.approx(rdp, rel=1e-7)
    assert float(brute_force(table, order)) > 0.97 * rdp
    assert table.rdp(math.inf) >= table.rdp(1000.0) >= table.rdp(order)


def test_exponential_weights_cost_what_bounded_range_does():
    """The exponential mechanism is one of the tables: a vote that changes moves two log-weights, by half of epsilon each."""
    weights = tuple(round(LIGHTEST * math.exp(0.15 * n)) for n in range(81))
    table = ClassTable(weights=weights, classes=4, moved=2)
    for order in (2.0, 8.0, 40.0):
        exact = BoundedRange(epsilon=0.3).rdp(order)
        assert 0.995 * exact <= table.rdp(order) <= exact * (1 + 1e-6)


@pytest.mark.parametrize("teachers", [20, 21])
def test_with_two_classes_it_is_close_to_the_best_bit(teachers):
    """Not equal: here teachers may give no vote at all, so that two classes can tie at any number of votes."""
    vote = ClassVote(
        table=ClassTable.build(order=5.0, rdp=0.1, votes=teachers, classes=2, moved=2), teachers=teachers, labels=2
    )
    best = BitTable.voting(order=5.0, rdp=0.1, teachers=teachers)
    for n in range(teachers + 1):
        yes = vote.law(np.array([n, teachers - n]))[1, 0]
        assert yes == pytest.approx(float(best(np.array([n]))[0]), abs=5e-3)


def test_it_is_right_more_often_than_its_rivals_at_equal_epsilon():
    clear, close = np.array([30, 10, 4, 3, 2, 1] + 4 * [0]), np.array([22, 14, 6, 4, 2, 1, 1] + 3 * [0])
    budget = Budget(epsilon=4.0, delta=1e-6, releases=100)
    ours, theirs = (aggregator(name).calibrate(budget, teachers=50, labels=10) for name in ("class-vote", "gnmax"))
    for votes in (clear, close):
        winner = (1,) + 9 * (0,)
        assert ours.law(votes)[winner] > 1.1 * theirs.law(votes)[winner]


@pytest.mark.parametrize(("epsilon", "teachers", "classes"), [(20.0, 5, 5), (60.0, 3, 3), (0.01, 2, 2)])
def test_budgets_far_from_the_usual_have_tables(epsilon, teachers, classes):
    """Of few votes and a large epsilon lighter classes stand at the bound exactly, and the cost jumps with what is aimed at."""
    vote = ClassVote.calibrate(Budget(epsilon=epsilon, delta=1e-5), teachers=teachers, labels=classes)
    assert 0.6 * epsilon < vote.cost.epsilon(1e-5) <= epsilon


def test_impossible_votes_are_none():
    vote = ClassVote.calibrate(BUDGET, teachers=20, labels=3)
    assert set(vote.law(np.array([20, 20, 0])).values()) == {1 / 3}
    assert set(vote.law(np.array([0, 0, 0])).values()) == {1 / 3}


def test_tables_are_made_for_their_votes():
    table = ClassTable.build(order=3.0, rdp=0.8, votes=4, classes=3, moved=2)
    for wrong in ({"teachers": 5}, {"labels": 4}, {"adjacency": "add-remove"}, {"limit": 2}):
        with pytest.raises(ParameterError):
            ClassVote(**{"table": table, "teachers": 4, "labels": 3} | wrong)
    for weights in ((3,), (3, 2), (0, 1), (1, 2**431), (2**60, 2**60 + 1)):
        with pytest.raises(ParameterError, match="weights"):
            ClassTable(weights=weights, classes=3, moved=2)
    with pytest.raises(ParameterError, match="gnmax"):
        ClassVote.calibrate(BUDGET, teachers=MOST_VOTES + 1, labels=3)
    with pytest.raises(ParameterError, match="at least two"):
        ClassVote.calibrate(BUDGET, teachers=9, labels=1)


@pytest.mark.parametrize("kind", [ConfidentClassVote, ConfidentGNMax], ids=lambda kind: kind.name)
class TestConfident:
    def test_withheld_queries_are_charged_for_the_check_alone(self, kind):
        vote = kind.calibrate(BUDGET, teachers=40, labels=3)
        labels = vote.release(np.tile([20, 10, 10], (20, 1)), rng=SeededSource(0))
        assert 0 < labels.withheld < 20
        assert labels.partial == 0
        assert labels.cost == 20 * vote.check.cost + labels.answered * vote.answer.cost
        assert labels.reserved == 20 * vote.cost
        assert labels.cost.rdp(8.0) < labels.worst.rdp(8.0)
        again = type(labels).from_record(labels.to_record())
        assert (again.cost, again.reserved, again.guarantee) == (labels.cost, labels.reserved, labels.guarantee)

    def test_the_sentence_never_states_the_refund(self, kind):
        """Of an aggregator without a budget the sentence tells the dearest way, however many queries were withheld."""
        vote = kind.calibrate(BUDGET, teachers=40, labels=3)
        bare = replace(vote, budget=None)
        few, many = (bare.release(np.tile(votes, (20, 1))) for votes in ([40, 0, 0], [14, 13, 13]))
        assert few.withheld < many.withheld
        assert few.stated() == many.stated()
        assert few.stated()[0] >= (20 * bare.cost).epsilon(1e-6) * (1 - 1e-9)

    def test_the_check_is_one_label_at_the_largest_count(self, kind):
        vote = kind.calibrate(BUDGET, teachers=40, labels=3, quorum=0.7)
        for votes in ([30, 5, 5], [5, 30, 1], [10, 9, 9]):
            check = vote.check.law(np.array([max(votes)]))
            assert vote.law(np.array(votes))[None, None, None] == pytest.approx(check[0,], rel=1e-12)
        assert vote.check.cost.adjacency is Adjacency.REPLACE
        assert vote.cost == Cost(adjacency="replace", uses=vote.check.cost.uses + vote.answer.cost.uses)

    def test_a_higher_quorum_withholds_more(self, kind):
        low, high = (kind.calibrate(BUDGET, teachers=40, labels=3, quorum=share) for share in (0.3, 0.8))
        votes = np.array([24, 10, 6])
        assert low.law(votes)[None, None, None] < high.law(votes)[None, None, None]
