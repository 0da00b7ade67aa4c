"""scikit-learn's own checks of an estimator, with every exception named, justified, and seen to fail."""

import unittest

import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.estimator_checks import estimator_checks_generator

from cutline.errors import ParameterError
from cutline.pate.classifier import PATEClassifier


class WithPublicExamples(PATEClassifier):
    """The checks call ``fit(X, y)``: here the same features are given as public examples, and all else is the original's."""

    def fit(self, X, y, *, X_public=None, **others):
        return super().fit(X, y, X_public=X if X_public is None else X_public, **others)


# A refusal here would depend on the values of private rows, and would tell that such a row is there. Rows of no use are left
# out instead (tests/pate/test_partition.py).
FAILS_FOR_PRIVACY = {
    "check_classifiers_classes": "classes are public, 0 and 1; learning them from y would show a value that one row has",
    "check_classifiers_regression_target": "whether y is continuous can only be seen in its rows",
    "check_classifier_not_supporting_multiclass": "whether y has a third value can only be seen in its rows",
    "check_supervised_y_no_nan": "whether y has an infinite value can only be seen in its rows",
}
DOES_NOT_APPLY = {
    "check_array_api_input": "runs only where SCIPY_ARRAY_API is set",
    "check_classifiers_multilabel_output_format_decision_function": "there is no decision_function",
}


def subject():
    # The noise is drawn from a seed, because the checks compare two fits; with this much epsilon there is next to none.
    return WithPublicExamples(
        DecisionTreeClassifier(max_depth=4), LogisticRegression(), n_teachers=5, epsilon=2000.0, noise_seed=0
    )


def name_of(check):
    return getattr(check, "func", check).__name__


CHECKS = [check for _, check in estimator_checks_generator(subject())]


def test_the_exceptions_are_checks_that_exist():
    assert (set(FAILS_FOR_PRIVACY) | set(DOES_NOT_APPLY)) <= {name_of(check) for check in CHECKS}
    assert len(CHECKS) > 55


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::cutline.pate.student.LabelWarning")
@pytest.mark.parametrize("check", CHECKS, ids=name_of)
def test_scikit_learn_check(check):
    name = name_of(check)
    if name in FAILS_FOR_PRIVACY:
        with pytest.raises((AssertionError, ParameterError)):
            check(subject())
    elif name in DOES_NOT_APPLY:
        with pytest.raises(unittest.SkipTest):
            check(subject())
    else:
        assert check(subject()) is None


def test_without_public_examples_it_refuses():
    with pytest.raises(ParameterError, match="needs public examples"):
        PATEClassifier().fit([[0.0], [1.0]], [0, 1])
