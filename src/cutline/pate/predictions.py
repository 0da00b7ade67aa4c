r"""Fitting a classifier to labels and reading its predictions in one shape: scikit-learn's classifiers have several."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from cutline.arrays import FloatArray, Int8Array


def takes_many_labels(estimator: Any) -> bool:
    """Return whether the classifier learns several labels at once."""
    from sklearn.utils import get_tags

    tags = get_tags(estimator).classifier_tags
    return tags is not None and bool(tags.multi_label)


def seeded_clone(template: Any, seed: int) -> Any:
    """Return an unfitted copy whose every ``random_state``, nested ones too, is the seed."""
    from sklearn.base import clone

    copy = clone(template)
    states = [name for name in copy.get_params(deep=True) if name.split("__")[-1] == "random_state"]
    return copy.set_params(**dict.fromkeys(states, seed)) if states else copy


def fit_labels(model: Any, features: Any, labels: Int8Array) -> Any:
    """Fit the model, to a vector if there is one label and to a matrix if there are several."""
    wide = labels.astype(np.int64)  # of hundreds of int8 labels RidgeClassifier learns nonsense, silently
    return model.fit(features, wide[:, 0] if wide.shape[1] == 1 else wide)


def predict_labels(model: Any, features: Any, width: int) -> Int8Array:
    """Return 1 where a label is set and 0 elsewhere, (examples, width)."""
    predicted = np.asarray(model.predict(features)).reshape(features.shape[0], width)
    return np.asarray(predicted == 1, dtype=np.int8)


def predict_probabilities(model: Any, features: Any, width: int) -> FloatArray:
    """Return the probability that each label is set, (examples, width)."""
    predicted = model.predict_proba(features)
    if isinstance(predicted, list):  # one (examples, 2) array a label, as trees and neighbours have it
        return np.column_stack(
            [_column_of_one(each, classes) for each, classes in zip(predicted, model.classes_, strict=True)]
        ).astype(np.float64)
    if width == 1:
        return _column_of_one(np.asarray(predicted), model.classes_).reshape(-1, 1).astype(np.float64)
    return np.asarray(predicted, dtype=np.float64)


def predict_scores(model: Any, features: Any, width: int) -> FloatArray:
    """Return how strongly the model believes in each label, in its own unit: for ranking the labels of one ballot."""
    if hasattr(model, "predict_proba"):
        return predict_probabilities(model, features, width)
    if hasattr(model, "decision_function"):
        return np.asarray(model.decision_function(features), dtype=np.float64).reshape(features.shape[0], width)
    return predict_labels(model, features, width).astype(np.float64)


def _column_of_one(probabilities: npt.NDArray[Any], classes: Any) -> npt.NDArray[Any]:
    """Return the probabilities of class 1, wherever the classifier keeps it."""
    [place] = np.flatnonzero(np.asarray(classes) == 1)
    return np.asarray(probabilities[:, place])
