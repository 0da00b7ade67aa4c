r"""The student: learns the released labels of public examples, and is all that leaves.

Everything here is public: the examples, the labels after their release, and so also what the student warns or raises.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from cutline.arrays import FloatArray, Int8Array, IntArray
from cutline.errors import ParameterError
from cutline.pate.isolation import alone
from cutline.pate.labels import MISSING
from cutline.pate.teachers import (
    REHEARSAL_ROWS,
    fit_labels,
    make_up_labels,
    predict_labels,
    predict_probabilities,
    seeded_clone,
    takes_many_labels,
)

Missing = Literal["skip", "mark"]


class LabelWarning(UserWarning):
    """Some labels went out with one value only, or not at all, so the student can only repeat it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Student:
    """A fitted student: models with the labels each answers, and a constant for the labels nobody could learn."""

    models: tuple[tuple[tuple[int, ...], Any], ...]  # pairs of label indices and the classifier fitted for them
    constants: tuple[float, ...]  # the probability that each label is set, by Laplace's rule from the released values

    def predict(self, features: Any) -> Int8Array:
        """Return the labels, (examples, labels) of 0 and 1."""
        labels = np.tile((np.array(self.constants) > 0.5).astype(np.int8), (features.shape[0], 1))
        for columns, model in self.models:
            labels[:, columns] = predict_labels(model, features, len(columns))
        return labels

    def predict_proba(self, features: Any) -> FloatArray:
        """Return the probability that each label is set, (examples, labels)."""
        probabilities = np.tile(np.array(self.constants, dtype=np.float64), (features.shape[0], 1))
        for columns, model in self.models:
            probabilities[:, columns] = predict_probabilities(model, features, len(columns))
        return probabilities


def fit_student(
    template: Any, features: Any, labels: Int8Array, *, missing: Missing = "skip", seed: int = 0
) -> Student:
    r"""Train a copy of the template on public examples and their released labels: 1, 0, or -1 where missing.

    Parameters
    ----------
    missing
        ``"skip"``: a label is learnt from the examples that have it; labels are learnt together where the classifier
        can and no example is partly labelled, else one by one. ``"mark"``: all examples are given, with -1 for a
        missing label, to a student that understands it, like those of ``sklearn.semi_supervised``.
    seed
        For every ``random_state`` of the student.

    Warns
    -----
    LabelWarning
        If some label has no example of both values; the student answers it with the one value there is, or 0.
    """
    check_missing(missing)
    has_both = (labels == 1).any(axis=0) & (labels == 0).any(axis=0)
    learnt = np.flatnonzero(has_both)
    if learnt.size < labels.shape[1]:
        warnings.warn(
            f"{labels.shape[1] - learnt.size} of {labels.shape[1]} labels were not released with both values, and the "
            "student answers each with a constant. A larger epsilon, more teachers or more public examples may help; "
            "if no label was ever set, check that private labels are 0 and 1.",
            LabelWarning,
            stacklevel=3,
        )
    models = []
    for columns in _label_groups(template, labels, learnt, missing):
        chosen = labels[:, columns]
        known = slice(None) if missing == "mark" else (chosen != MISSING).all(axis=1)
        models.append(
            (tuple(columns.tolist()), fit_labels(seeded_clone(template, seed), features[known], chosen[known]))
        )
    shares = ((labels == 1).sum(axis=0) + 1) / ((labels != MISSING).sum(axis=0) + 2)
    return Student(models=tuple(models), constants=tuple(shares.tolist()))


def rehearse_student(template: Any, public: Any, *, labels: int, classes: int | None = None) -> None:
    """Let the student learn made-up labels of public examples: what it cannot learn is refused before labels are paid for."""
    rows = np.resize(np.arange(public.shape[0]), REHEARSAL_ROWS)
    made_up, _ = make_up_labels(labels if takes_many_labels(template) else 1, classes=classes)
    try:
        with alone(0):  # a rehearsal leaves no trace in the generators that the caller may use
            model = fit_labels(seeded_clone(template, 0), public[rows], made_up)
            predict_labels(model, public[:1], made_up.shape[1])
    except Exception as error:
        raise ParameterError(
            "the student must be able to learn from the public examples",
            f"{type(template).__name__}, which says: {error}",
            "Pass a student that takes examples of this shape and type.",
        ) from error


def check_missing(missing: str) -> None:
    """Raise if the rule for missing labels is neither skip nor mark."""
    if not (isinstance(missing, str) and missing in ("skip", "mark")):
        raise ParameterError("missing must be skip or mark", f"missing={missing!r}", "Skip suits every student.")


def _label_groups(template: Any, labels: Int8Array, learnt: IntArray, missing: Missing) -> Iterator[IntArray]:
    """Yield the labels that one model learns: all together where that loses no example, else one by one."""
    present = labels[:, learnt] != MISSING
    whole_rows = missing == "mark" or bool((present.all(axis=1) == present.any(axis=1)).all())
    if learnt.size > 1 and whole_rows and takes_many_labels(template):
        yield learnt
    else:
        yield from learnt[:, None]
