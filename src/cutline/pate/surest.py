r"""A teacher of many labels that names its surest: for labels so rare that no classifier ever says yes to most of them.

A teacher with a few dozen records has seen a rare label once or twice, and its classifier says no to nearly everything. Which
labels it believes in most is worth more than where it draws the line: so it names as many as an example usually has.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from cutline.arrays import FloatArray, IntArray
from cutline.errors import ParameterError
from cutline.extras import require
from cutline.pate.ballots import limit_ballots
from cutline.pate.teachers import fit_labels, predict_scores
from cutline.privacy.curves.base import check_whole

try:
    from sklearn.base import BaseEstimator, ClassifierMixin, clone
    from sklearn.utils import get_tags
    from sklearn.utils.validation import check_is_fitted
except ImportError:
    require("sklearn", extra="pate", purpose="SurestLabels")
    raise


class SurestLabels(ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    r"""Set, for every example, the labels that a classifier scores highest, whether or not it would say yes to them.

    **Privacy.** A ballot is made of its own teacher's scores alone, so one record still changes one ballot. How many labels are
    named is public. Together with ``PATEClassifier(quorum=...)`` and a ``limit`` of as many labels it is how EXP3 labels
    Delicious [docs/pate.md; docs/reproduce/exp3.md].

    Parameters
    ----------
    classifier
        One that learns several labels at once, like ``RidgeClassifier`` or a forest, and gives probabilities or scores.
    names
        How many labels to name; about as many as an example has. All of them, if there are no more.

    Examples
    --------
    >>> from sklearn.linear_model import RidgeClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 5))
    >>> Y = (X + rng.normal(size=(200, 5)) > 2.5).astype(int)  # one label in twenty
    >>> plain, surest = RidgeClassifier().fit(X, Y), SurestLabels(RidgeClassifier(), names=1).fit(X, Y)
    >>> int(plain.predict(X).sum()), int(surest.predict(X).sum())
    (0, 200)
    """

    def __init__(self, classifier: Any, names: int = 10) -> None:
        self.classifier = classifier
        self.names = names

    def fit(self, X: Any, y: Any) -> Self:  # noqa: N803 - scikit-learn's name
        """Train a copy of the classifier on labels of 0 and 1, one column a label."""
        check_whole("names", self.names)
        labels = np.asarray(y)
        if labels.ndim != 2:
            raise ParameterError("the surest of several labels are named", "one label", "Pass one column a label.")
        self.classes_ = [np.array([0, 1])] * labels.shape[1]
        self.classifier_ = fit_labels(clone(self.classifier), X, labels)
        return self

    def decision_function(self, X: Any) -> FloatArray:  # noqa: N803
        """Return the classifier's probabilities or scores, (examples, labels)."""
        check_is_fitted(self, "classifier_")
        return predict_scores(self.classifier_, X, len(self.classes_))

    def predict(self, X: Any) -> IntArray:  # noqa: N803
        """Return 1 for the surest labels of every example, ties by label index, and 0 for the others."""
        scores = self.decision_function(X)
        named = limit_ballots(np.ones((1, *scores.shape), dtype=np.bool_), scores[None], self.names)
        chosen: IntArray = named[0].astype(np.int64)
        return chosen

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        tags.target_tags.multi_output = True
        tags.input_tags.sparse = get_tags(self.classifier).input_tags.sparse
        return tags
