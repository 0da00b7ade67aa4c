r"""Classes: every record has one out of several, every teacher votes for one, and the student learns which came out.

**Privacy.** Which classes there are is public and told by the caller. To read them off the records would make a class public
that one record has; so a record of any other class is left out, silently, like one whose features are of no use.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from cutline.arrays import FloatArray, Int8Array, IntArray
from cutline.errors import ParameterError, shortened
from cutline.pate.aggregators.base import MOST_LABELS, Aggregator
from cutline.pate.aggregators.class_vote import ClassVote
from cutline.pate.aggregators.gaussian_votes import GNMax
from cutline.pate.aggregators.optimal_vote import OptimalVote
from cutline.pate.aggregators.registry import AGGREGATORS
from cutline.pate.aggregators.registry import aggregator as find_aggregator
from cutline.pate.labels import MISSING
from cutline.pate.student import LabelWarning, Missing, check_missing
from cutline.pate.teachers import seeded_clone
from cutline.privacy.curves.base import check_whole
from cutline.privacy.curves.class_table import MOST_VOTES


def read_class_names(classes: Any) -> tuple[Any, ...] | None:
    r"""Return the public classes as the caller told them: a number of them (0, 1, ...) or their values; None if there are none.

    Examples
    --------
    >>> read_class_names(3), read_class_names(["cat", "dog"]), read_class_names(None)
    ((0, 1, 2), ('cat', 'dog'), None)
    """
    if classes is None:
        return None
    if isinstance(classes, int | np.integer):
        return tuple(range(_check_several(check_whole("classes", classes, most=MOST_LABELS))))
    given = classes.tolist() if isinstance(classes, np.ndarray) else classes
    if isinstance(given, str | bytes) or not isinstance(given, Sequence):
        raise ParameterError("classes must be their number or a list", shortened(classes), "Try classes=10.")
    names = tuple(name.item() if isinstance(name, np.generic) else name for name in given)
    try:
        distinct = len(set(names))
    except TypeError:
        distinct = 0
    if distinct != len(names):
        raise ParameterError("classes must be different numbers or texts", f"{len(names)} of them", "List each once.")
    _check_several(len(names))
    return names


def _check_several(classes: int) -> int:
    if not 2 <= classes <= MOST_LABELS:
        raise ParameterError(
            f"there must be 2 to {MOST_LABELS:,} classes", f"{classes}", "One label needs no classes: leave them out."
        )
    return classes


def read_classes(y: Any, names: tuple[Any, ...]) -> FloatArray:
    r"""Return each record's class by its place among the names, as one column; NaN where it is none of them.

    Examples
    --------
    >>> read_classes(["dog", "cow", "cat", 7], ("cat", "dog")).ravel().tolist()
    [1.0, nan, 0.0, nan]
    """
    array = y if hasattr(y, "ndim") else np.asarray(y, dtype=object)
    if array.ndim != 1:
        raise ParameterError("y must be a vector of classes", f"{array.ndim} axes", "Pass one class a record.")
    places = {name: float(place) for place, name in enumerate(names)}
    return np.array([_place(value, places) for value in array], dtype=np.float64).reshape(-1, 1)


def _place(value: Any, places: dict[Any, float]) -> float:
    try:
        return places.get(value.item() if isinstance(value, np.generic) else value, np.nan)
    except Exception:  # what cannot be looked up is none of the classes; to say so would tell about its record
        return np.nan


def array_of_names(names: tuple[Any, ...]) -> npt.NDArray[Any]:
    """Return the names as an array: of numbers or texts if they all are, of objects otherwise."""
    alike = all(isinstance(name, int | float) for name in names) or all(isinstance(name, str) for name in names)
    return np.array(names) if alike else np.array(names, dtype=object)


def choose_aggregator(given: str | Aggregator | None, *, classes: bool, teachers: int) -> str | Aggregator:
    """Return who counts the votes: what the caller asked for, if it suits, or the best for classes or for labels."""
    if given is None:
        if not classes:
            return OptimalVote.name
        return ClassVote.name if teachers <= MOST_VOTES else GNMax.name
    kind: Any = find_aggregator(given) if isinstance(given, str) else given
    if classes and not getattr(kind, "one_class", False):
        names = ", ".join(each.name for each in AGGREGATORS if each.one_class)
        raise ParameterError(
            "classes are counted by an aggregator of one class",
            f"{getattr(kind, 'name', type(kind).__name__)}",
            f"Take one of {names}, or leave it out.",
        )
    return given


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassStudent:
    """A fitted student of classes; the constant is the class that came out most often, or the only one there was to learn."""

    classes: int
    model: Any
    constant: int

    def predict(self, features: Any) -> IntArray:
        """Return the place of each example's class among the names."""
        if self.model is None:
            return np.full(features.shape[0], self.constant, dtype=np.int64)
        places = np.asarray(self.model.predict(features), dtype=np.int64).reshape(-1)
        # A student that took the mark of a missing class for a class of its own may answer with it.
        return np.where(places == MISSING, self.constant, places)

    def predict_proba(self, features: Any) -> FloatArray:
        """Return the probability of every class, (examples, classes); 0 for those that were never released."""
        chances = np.zeros((features.shape[0], self.classes))
        if self.model is None:
            chances[:, self.constant] = 1.0
            return chances
        learnt = np.asarray(self.model.classes_, dtype=np.int64)
        chances[:, learnt[learnt >= 0]] = np.asarray(self.model.predict_proba(features))[:, learnt >= 0]
        return chances


def fit_class_student(
    template: Any, features: Any, labels: Int8Array, *, missing: Missing = "skip", seed: int = 0
) -> ClassStudent:
    r"""Train a copy of the template on public examples and their released classes, given as rows with one 1.

    Parameters
    ----------
    missing
        ``"skip"``: withheld examples are left out. ``"mark"``: they are given with the class -1, to a student that understands
        it, like those of ``sklearn.semi_supervised``.
    seed
        For every ``random_state`` of the student.

    Warns
    -----
    LabelWarning
        If fewer than two classes were released; the student answers with the one there is, or with the first.
    """
    check_missing(missing)
    answered = (labels == 1).any(axis=1)
    released = np.where(answered, (labels == 1).argmax(axis=1), MISSING)
    seen, times = np.unique(released[answered], return_counts=True)
    if seen.size < 2:
        warnings.warn(
            f"{seen.size} of {labels.shape[1]} classes were released, and the student answers with a constant. A larger "
            "epsilon, more teachers or more public examples may help; check that private classes are those declared.",
            LabelWarning,
            stacklevel=3,
        )
        return ClassStudent(classes=labels.shape[1], model=None, constant=int(seen[0]) if seen.size else 0)
    known = slice(None) if missing == "mark" else answered
    model = seeded_clone(template, seed).fit(features[known], released[known])
    return ClassStudent(classes=labels.shape[1], model=model, constant=int(seen[times.argmax()]))
