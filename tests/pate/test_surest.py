"""Teachers that name their surest labels: whose scores they are, how many, and what reaches a ballot."""

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.neighbors import KNeighborsClassifier
from sklearn.tree import DecisionTreeClassifier

from cutline import PATEClassifier
from cutline.errors import ParameterError
from cutline.pate.surest import SurestLabels
from cutline.verify.teachers import Table, breaches

rng = np.random.default_rng(2)
X = rng.normal(size=(400, 6))
Y = (X + 0.5 * rng.normal(size=X.shape) > 1.6).astype(int)  # about one label in fifteen


@pytest.mark.parametrize(
    "classifier", [RidgeClassifier(), KNeighborsClassifier(20), DecisionTreeClassifier(max_depth=4)]
)
def test_the_highest_scores_are_named(classifier):
    model = SurestLabels(classifier, names=2).fit(X, Y)
    named, scores = model.predict(X), model.decision_function(X)
    assert (named.sum(axis=1) == 2).all()
    least, most = np.where(named == 1, scores, np.inf).min(axis=1), np.where(named == 0, scores, -np.inf).max(axis=1)
    assert (least >= most).all()
    assert not hasattr(classifier, "classes_")  # a copy was trained


def test_ties_go_to_the_first_and_all_are_named_if_there_are_no_more():
    same = np.zeros((40, 3), dtype=int)
    same[::2] = 1
    model = SurestLabels(RidgeClassifier(), names=2).fit(np.zeros((40, 1)), same)
    assert model.predict(np.zeros((1, 1))).tolist() == [[1, 1, 0]]
    assert clone(model).set_params(names=7).fit(X[:40], same).predict(X[:2]).tolist() == [[1, 1, 1]] * 2
    assert SurestLabels(RidgeClassifier(), 1).fit(csr_array(X), Y).predict(csr_array(X[:5])).sum() == 5


@pytest.mark.filterwarnings("ignore::cutline.pate.student.LabelWarning")
def test_rare_labels_come_out():
    """Where no half of the teachers says yes, a quorum of those that name it does; and a ballot names no more than it may."""
    found = {}
    for name, teacher in (("plain", RidgeClassifier()), ("surest", SurestLabels(RidgeClassifier(), names=1))):
        model = PATEClassifier(
            teacher, RidgeClassifier(), n_teachers=20, epsilon=60.0, limit=1, quorum=0.25, noise_seed=0, random_state=0
        )
        model.fit(X[:340], Y[:340], X_public=X[340:])
        found[name] = model.labels_.values
    truth = Y[340:]
    hits = {name: int((values & truth).sum()) for name, values in found.items()}
    assert hits["surest"] > 1.5 * hits["plain"]


def test_one_record_changes_one_ballot():
    table = Table(features=X[:60], labels=Y[:60, :3])
    assert breaches(SurestLabels(RidgeClassifier(), names=1), table, X[300:340], places=(0, 33), teachers=5) == []


@pytest.mark.parametrize(
    ("model", "y", "rule"),
    [
        (SurestLabels(RidgeClassifier(), names=0), Y, "names"),
        (SurestLabels(RidgeClassifier(), names=1.5), Y, "names"),
        (SurestLabels(RidgeClassifier()), Y[:, 0], "several labels"),
    ],
)
def test_nonsense_is_refused(model, y, rule):
    with pytest.raises(ParameterError, match=rule):
        model.fit(X, y)


def test_a_classifier_of_one_label_is_refused_on_public_examples():
    with pytest.raises(ParameterError, match=r"able to learn.*1d array"):
        PATEClassifier(SurestLabels(LogisticRegression()), n_teachers=5, noise_seed=0).fit(X, Y, X_public=X[:50])
