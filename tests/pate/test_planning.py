"""A plan for PATE says what the aggregators' own laws say, and what teachers then do."""

import numpy as np
import pytest
from sklearn.tree import DecisionTreeClassifier

import cutline
from cutline.errors import ParameterError
from cutline.pate.aggregators.class_vote import ClassVote
from cutline.pate.aggregators.gaussian_votes import GNMax
from cutline.pate.aggregators.optimal_vote import OptimalVote
from cutline.pate.planning import SURE, chances_of_yes, plan_labels
from cutline.privacy import Budget
from cutline.privacy.curves.class_table import MOST_VOTES

rng = np.random.default_rng(0)
X = rng.normal(size=(900, 3)).astype(np.float32)
Y = (X + 0.3 * rng.normal(size=X.shape) > 0.5).astype(int)


def test_a_clear_majority_is_the_least_that_comes_out():
    for option in plan_labels(records=999, labels=4, epsilons=(4.0,), teachers=(60, 200), limits=(None, 1)).options:
        budget = Budget(epsilon=4.0, delta=1e-6, releases=100)
        vote = OptimalVote.calibrate(budget, teachers=option.teachers, labels=4, limit=option.limit)
        if option.clear is None:
            assert vote.chances(np.array([option.teachers]))[0] < SURE
            continue
        least = round(option.clear * option.teachers)
        below, enough = vote.chances(np.array([least - 1, least]))[0]
        assert below < SURE <= enough
        assert option.records_each == 999 // option.teachers


def test_for_classes_it_is_the_law_of_class_vote():
    vote = ClassVote.calibrate(Budget(epsilon=4.0, delta=1e-6, releases=100), teachers=40, labels=3)
    counts = np.array([30, 8, 2])
    by_law = [sum(chance for row, chance in vote.law(counts).items() if row[label]) for label in range(3)]
    assert chances_of_yes(vote, counts[None])[0].tolist() == pytest.approx(by_law)
    [option] = plan_labels(records=900, labels=3, classes=True, epsilons=(4.0,), teachers=(40,)).options
    least = round(option.clear * 40)
    duel = [chances_of_yes(vote, np.array([[least - less, 40 - least + less, 0]]))[0, 0] for less in (0, 1)]
    assert duel[1] < SURE <= duel[0]
    assert option.quorum is None


def test_more_teachers_than_a_table_of_classes_takes_are_counted_as_the_classifier_would():
    [option] = plan_labels(records=10**6, labels=3, classes=True, epsilons=(1.0,), teachers=(MOST_VOTES + 200,)).options
    vote = GNMax.calibrate(Budget(epsilon=1.0, delta=1e-6, releases=100), teachers=option.teachers, labels=3)
    least = round(option.clear * option.teachers)
    duel = [vote.law(np.array([least - less, option.teachers - least + less, 0]))[1, 0, 0] for less in (0, 1)]
    assert duel[1] < SURE <= duel[0]


def test_a_smaller_quorum_is_not_better_for_being_smaller():
    plan = plan_labels(records=9000, labels=2, epsilons=(2.0,), teachers=(100, 300), quorums=(0.2, 0.5))
    assert [option.teachers for option in plan.options] == [300, 300, 100, 100]


def test_what_is_expected_on_public_examples_is_what_teachers_then_do():
    tree = DecisionTreeClassifier(max_depth=3)
    plan = plan_labels(
        records=600, labels=3, epsilons=(3.0, 20.0), teachers=(20,), examples=(X[600:], Y[600:]), teacher=tree
    )
    assert [option.epsilon for option in plan.options] == [20.0, 3.0]
    for option in plan.options:
        model = cutline.PATEClassifier(tree, n_teachers=20, epsilon=option.epsilon, noise_seed=0, random_state=0)
        released = model.fit(X[:600], Y[:600], X_public=X[600:700]).labels_.values
        assert option.right == pytest.approx((released == Y[600:700]).mean(), abs=0.07)
    assert any("30 records" in sentence for sentence in plan.advice)
    assert any("no private record is needed" in sentence for sentence in plan.advice)
    assert plan.to_dict()["options"][0]["f1"] == plan.recommended.f1


def test_classes_are_tried_on_public_examples_too():
    which = (X[:, 0] > 0).astype(int) + (X[:, 1] > 0)
    plan = plan_labels(
        records=3000, labels=3, classes=True, epsilons=(0.5, 50.0), teachers=(20,), queries=(50,), examples=(X, which)
    )
    best, worst = plan.options
    assert best.epsilon == 50.0
    assert best.right > 0.7 > worst.right > 1 / 3
    assert best.right == best.f1


@pytest.mark.parametrize(
    ("changed", "rule"),
    [
        ({"records": 0}, "records"),
        ({"labels": 0}, "labels"),
        ({"teachers": (0,)}, "teachers"),
        ({"epsilons": ()}, "at least one setting"),
        ({"epsilons": (-1.0,)}, "epsilon"),
        ({"quorums": (2.0,)}, "quorum"),
        ({"classes": True, "limits": (None, 2)}, "one vote for a class"),
        ({"classes": True, "quorums": (0.25,)}, "one vote for a class"),
        ({"examples": (X[:5], Y[:5])}, "at least 20"),
        ({"examples": (X, Y[:, :2])}, "2 columns for 3 labels"),
        ({"examples": (X, 2 * Y)}, "something else"),
        ({"examples": (X, Y[:50])}, "different numbers of rows"),
    ],
)
def test_mistakes_are_refused(changed, rule):
    with pytest.raises(ParameterError, match=rule):
        plan_labels(**({"records": 900, "labels": 3, "epsilons": (1.0,), "teachers": (10,)} | changed))
