import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.neighbors import KNeighborsClassifier
from sklearn.semi_supervised import SelfTrainingClassifier
from sklearn.tree import DecisionTreeClassifier

from cutline.errors import ParameterError
from cutline.pate.student import LabelWarning, Student, fit_student

rng = np.random.default_rng(1)
FEATURES = rng.normal(size=(200, 4))
TRUTH = (FEATURES[:, :3] > 0).astype(np.int8)


def with_holes(share=0.3):
    labels = TRUTH.copy()
    labels[rng.random(labels.shape) < share] = -1
    return labels


def test_labels_are_learnt_from_the_examples_that_have_them():
    labels = with_holes()
    student = fit_student(LogisticRegression(), FEATURES, labels)
    assert [columns for columns, _ in student.models] == [(0,), (1,), (2,)]
    for [column], model in student.models:
        known = labels[:, column] >= 0
        alone = LogisticRegression().fit(FEATURES[known], labels[known, column])
        assert (alone.coef_ == model.coef_).all()
    assert (student.predict(FEATURES) == TRUTH).mean() > 0.9


@pytest.mark.parametrize("kind", [DecisionTreeClassifier, KNeighborsClassifier])
def test_labels_are_learnt_together_where_no_example_is_partly_labelled(kind):
    labels = TRUTH.copy()
    labels[::5] = -1
    student = fit_student(kind(), FEATURES, labels)
    assert [columns for columns, _ in student.models] == [(0, 1, 2)]
    assert student.models[0][1].n_features_in_ == 4
    assert (student.predict(FEATURES) == TRUTH).mean() > 0.85
    assert [columns for columns, _ in fit_student(kind(), FEATURES, with_holes()).models] == [(0,), (1,), (2,)]


def test_probabilities_are_of_the_label_being_set():
    for template in (LogisticRegression(), DecisionTreeClassifier(max_depth=2)):
        student = fit_student(template, FEATURES, TRUTH)
        probabilities = student.predict_proba(FEATURES)
        assert probabilities.shape == (200, 3)
        assert ((probabilities > 0.5) == student.predict(FEATURES)).all()


def test_labels_that_cannot_be_learnt_are_constants():
    labels = np.column_stack([TRUTH[:, 0], np.ones(200), np.zeros(200), np.full(200, -1)]).astype(np.int8)
    with pytest.warns(LabelWarning, match="3 of 4 labels"):
        student = fit_student(LogisticRegression(), FEATURES, labels)
    assert (student.predict(FEATURES)[:, 1:] == [1, 0, 0]).all()
    assert np.allclose(student.predict_proba(FEATURES)[0, 1:], [201 / 202, 1 / 202, 1 / 2])
    assert [columns for columns, _ in student.models] == [(0,)]


def test_nothing_answered_at_all():
    with pytest.warns(LabelWarning, match="3 of 3 labels"):
        student = fit_student(DecisionTreeClassifier(), FEATURES, np.full((200, 3), -1, dtype=np.int8))
    assert student == Student(models=(), constants=(0.5, 0.5, 0.5))
    assert not student.predict(FEATURES).any()


def test_a_student_that_understands_missing_labels_gets_all_examples():
    labels = TRUTH.copy()
    labels[20:] = -1
    marked = fit_student(SelfTrainingClassifier(LogisticRegression()), FEATURES, labels, missing="mark")
    assert [columns for columns, _ in marked.models] == [(0,), (1,), (2,)]
    assert all(len(model.transduction_) == 200 for _, model in marked.models)
    assert (marked.predict(FEATURES) == TRUTH).mean() > 0.8
    assert marked.predict_proba(FEATURES).shape == (200, 3)
    with pytest.raises(ParameterError, match="missing must be skip or mark"):
        fit_student(LogisticRegression(), FEATURES, labels, missing="drop")


def test_a_student_without_probabilities():
    student = fit_student(RidgeClassifier(), FEATURES, with_holes())
    assert (student.predict(FEATURES) == TRUTH).mean() > 0.9


def test_the_seed_reaches_the_student():
    one, same, other = (
        fit_student(DecisionTreeClassifier(splitter="random", max_depth=3), FEATURES, TRUTH, seed=seed).predict(
            FEATURES
        )
        for seed in (1, 1, 2)
    )
    assert (one == same).all()
    assert (one != other).any()
