"""A label is set when a public share of the teachers says so: half of them, or another."""

import numpy as np
import pytest

from cutline import PATEClassifier, label
from cutline.errors import ParameterError
from cutline.pate import AGGREGATORS, OptimalVote
from cutline.pate.aggregators.base import double_quorum
from cutline.privacy import Adjacency, Budget
from cutline.sampling import SeededSource

BUDGET = Budget(epsilon=1.5, delta=1e-3)
TAKES = [kind for kind in AGGREGATORS if "quorum" in {each.name for each in kind.parameters}]
REST = [kind for kind in AGGREGATORS if kind not in TAKES]
OF_LABELS = [kind for kind in TAKES if not kind.one_class]
CONFIDENT = [kind for kind in TAKES if kind.one_class]  # one coin about the winner, not one a label
FIXED = BUDGET.filter(order=6.0, delta_share=0.0)


def build(kind, teachers=40, budget=BUDGET, **more):
    limit = {"limit": 2} if kind.name == "pate-tau" else {}
    return kind.calibrate(budget, teachers=teachers, labels=2, **limit, **more)


PLACES = [(40, 0.25), (40, 0.8), (41, 0.3), (7, 0.01)]


@pytest.mark.parametrize("kind", OF_LABELS, ids=lambda kind: kind.name)
@pytest.mark.parametrize(("teachers", "quorum"), PLACES)
def test_the_law_turns_over_at_the_quorum(kind, teachers, quorum):
    vote = build(kind, teachers, quorum=quorum)
    doubled = double_quorum(teachers, quorum)
    assert vote.describe()["quorum"] == quorum
    assert abs(doubled / 2 - quorum * teachers) <= 0.5
    for votes in (doubled // 2, doubled // 2 + 1):
        law = vote.law(np.array([votes, votes]))
        yes = sum(p for row, p in law.items() if row[0] == 1)
        no = sum(p for row, p in law.items() if row[0] == 0)
        if 2 * votes == doubled:
            assert no > 0 if "stable" in kind.name else yes == pytest.approx(0.5, abs=1e-9)
        else:
            assert (yes > no) == (2 * votes > doubled)


@pytest.mark.parametrize("kind", CONFIDENT, ids=lambda kind: kind.name)
@pytest.mark.parametrize(("teachers", "quorum"), PLACES)
def test_a_winner_is_let_out_more_often_than_not_from_the_quorum_on(kind, teachers, quorum):
    vote = build(kind, teachers, quorum=quorum)
    doubled = double_quorum(teachers, quorum)
    assert vote.describe()["quorum"] == quorum
    for votes in (doubled // 2, doubled // 2 + 1):
        withheld = vote.law(np.array([votes, 0]))[None, None]
        if 2 * votes == doubled:
            assert withheld == pytest.approx(0.5, abs=1e-9)
        else:
            assert (withheld < 0.5) == (2 * votes > doubled)


@pytest.mark.parametrize("kind", CONFIDENT, ids=lambda kind: kind.name)
def test_the_coin_of_a_winner_has_public_teachers_who_say_yes_too(kind):
    """At one order the coin of ten in 40 is that of 30 in 60; the answer has as many votes as there are teachers."""
    quarter, half = (build(kind, n, quorum=q, limits=FIXED).check for n, q in ((40, 0.25), (60, 0.5)))
    for votes in (0, 9, 10, 11, 40):
        law = half.law(np.array([votes + 20]))
        assert quarter.law(np.array([votes])) == pytest.approx(dict(law), rel=1e-6, abs=1e-15)
    assert quarter.cost.rdp(6.0) == pytest.approx(half.cost.rdp(6.0), rel=1e-6)


@pytest.mark.parametrize("kind", OF_LABELS, ids=lambda kind: kind.name)
def test_a_quorum_below_half_is_public_teachers_who_say_yes(kind):
    """Ten of 40 is half of 60 of whom 20 say yes to everything: the same law at the same price."""
    quarter, half = build(kind, quorum=0.25), build(kind, 60)
    assert half == build(kind, 60, quorum=0.5)
    for votes in ([0, 40], [9, 10], [11, 30]):
        law = half.law(np.array(votes) + 20)
        assert quarter.law(np.array(votes)) == pytest.approx(dict(law), rel=1e-9, abs=1e-15)
    for order in (2.0, 8.0):
        assert quarter.cost.rdp(order) == pytest.approx(half.cost.rdp(order), rel=1e-9)


@pytest.mark.parametrize("kind", REST, ids=lambda kind: kind.name)
def test_who_compares_with_no_number_of_teachers_takes_none(kind):
    with pytest.raises(ParameterError, match=f"{kind.name} takes no quorum"):
        build(kind, quorum=0.25)


@pytest.mark.parametrize("quorum", [0, 1, -0.5, 2, float("nan"), "half", True])
def test_nonsense_is_refused(quorum):
    with pytest.raises(ParameterError, match="quorum"):
        build(OptimalVote, quorum=quorum)


@pytest.mark.filterwarnings("ignore::cutline.pate.student.LabelWarning")
def test_labels_follow_it_at_every_door():
    ballots = np.zeros((60, 2, 3), dtype=int)
    ballots[:25, 0, 1] = ballots[:50, 1, 2] = 1
    found = [label(ballots, epsilon=60.0, quorum=share, rng=SeededSource(0)).values.tolist() for share in (None, 0.2)]
    assert found == [[[0, 0, 0], [0, 0, 1]], [[0, 1, 0], [0, 0, 1]]]
    rng = np.random.default_rng(0)
    features = rng.normal(size=(300, 2))
    rare = (features > 1.0).astype(int)
    set_labels = []
    for share in (0.9, 0.3):
        model = PATEClassifier(n_teachers=10, epsilon=100.0, quorum=share, noise_seed=0, random_state=0)
        model.fit(features, rare, X_public=features[:80])
        assert model.aggregator_.quorum == share
        set_labels.append(int(model.labels_.values.sum()))
    assert set_labels[0] < set_labels[1]


def test_the_quorum_is_rounded_to_half_a_vote():
    assert [double_quorum(5, share) for share in (0.001, 0.3, 0.5, 0.9, 0.999)] == [1, 3, 5, 9, 9]
    assert (
        OptimalVote.calibrate(BUDGET, teachers=5, labels=1, quorum=0.3, adjacency=Adjacency.ADD_REMOVE).law(
            np.array([1])
        )[1,]
        < 0.5
    )
