r"""Private records as they come in, read row by row: no record can change how another is read, and none is refused.

A record that is of no use (a feature that is not a finite number, a label that is not 0 or 1) is left out, silently.
To refuse it would show that it is there; to warn would too. What *is* refused is public: the declared type of a
column or array, the number of axes and columns, lengths that do not match.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from cutline.arrays import FloatArray, Int8Array, IntArray
from cutline.errors import ParameterError
from cutline.pate.partition import assign, id_bytes, row_bytes


@dataclass(frozen=True, slots=True, kw_only=True, repr=False, eq=False)
class Records:
    """What teachers learn from, and each record's teacher; private."""

    features: Any
    labels: Int8Array
    teacher: IntArray

    def of(self, places: IntArray) -> tuple[Any, Int8Array]:
        """Return one teacher's features and labels."""
        return self.features[places], self.labels[places]


def read_features(features: Any, *, name: str = "X") -> Any:
    r"""Return a matrix of real numbers, sparse (CSR) if it came so; what is not a number is NaN.

    Raises
    ------
    ParameterError
        If it has not two axes, or is declared to hold something else than real numbers.
    """
    if hasattr(features, "tocsr"):
        _check_kind(features.dtype.kind, name)
        with np.errstate(over="ignore"):
            return features.tocsr().astype(np.float64)
    numbers = _read_numbers(features, name)
    if numbers.ndim != 2:
        raise ParameterError(
            f"{name} must have one row a record and one column a feature", f"{numbers.ndim} axes", "Reshape your data."
        )
    if not numbers.shape[1]:
        # In scikit-learn's words, but for the number of rows: that is private.
        raise ParameterError(
            f"{name} must have features", "0 feature(s) (shape=(, 0)) while a minimum of 1 is required", ""
        )
    return numbers


def read_labels(labels: Any) -> tuple[FloatArray, bool]:
    r"""Return a matrix of numbers, one column a label, and whether it came as a vector; what is not a number is NaN."""
    numbers = _read_numbers(labels.toarray() if hasattr(labels, "tocsr") else labels, "y")
    if numbers.ndim not in (1, 2) or (numbers.ndim == 2 and not numbers.shape[1]):
        raise ParameterError(
            "y must be a vector of one label or a matrix with one column a label",
            f"{numbers.ndim} axes",
            "Pass 0 and 1 for each record and label.",
        )
    vector = numbers.ndim == 1
    return numbers[:, None] if vector else numbers, vector


def read_groups(groups: Iterable[Any] | None) -> list[Any] | None:
    """Return one id a record, if there are ids."""
    if getattr(groups, "ndim", 1) != 1:
        raise ParameterError("groups must be one id a record", "several axes", "Pass a vector of ids.")
    return None if groups is None else list(groups)


def check_rows(features: Any, labels: FloatArray, ids: list[Any] | None) -> None:
    """Raise if the parts have different lengths, without saying how long they are."""
    if labels.shape[0] != features.shape[0] or (ids is not None and len(ids) != features.shape[0]):
        raise ParameterError(
            "X, y and groups must have one row a record each",
            "different numbers of rows",
            "Check where they come from.",
        )


def read_records(
    features: Any, labels: FloatArray, groups: Iterable[Any] | None, *, teachers: int, key: bytes
) -> Records:
    r"""Leave out what is of no use, and find each record's teacher from the record alone.

    Parameters
    ----------
    features, labels
        From `read_features` and `read_labels`.
    groups
        One id a record, if a person may have several records; else a record's features decide.
    teachers, key
        See `partition.assign`.
    """
    ids = read_groups(groups)
    check_rows(features, labels, ids)
    useful = _finite_rows(features) & ((labels == 0) | (labels == 1)).all(axis=1)
    kept = features[useful]
    spellings = row_bytes(kept) if ids is None else id_bytes(ids[place] for place in np.flatnonzero(useful))
    return Records(
        features=kept,
        labels=labels[useful].astype(np.int8),
        teacher=assign(spellings, teachers=teachers, key=key),
    )


def _finite_rows(features: Any) -> npt.NDArray[np.bool_]:
    if not hasattr(features, "indptr"):
        return np.asarray(np.isfinite(features).all(axis=1))
    broken = np.zeros(features.shape[0], dtype=bool)
    broken[np.repeat(np.arange(features.shape[0]), np.diff(features.indptr))[~np.isfinite(features.data)]] = True
    return ~broken


def _read_numbers(values: Any, name: str) -> FloatArray:
    """Read an array of real numbers; a row that holds something else becomes NaN, and changes no other."""
    # A plain list has no type of its own, and numpy would take it from the rows: one text makes texts of all.
    typed = hasattr(values, "__array__") or hasattr(values, "__array_interface__")
    try:
        array = np.asarray(values) if typed else np.asarray(values, dtype=object)
    except Exception:
        raise ParameterError(f"{name} must be a table of numbers", type(values).__name__, "Pass an array.") from None
    if array.dtype.kind != "O":
        _check_kind(array.dtype.kind, name)
        with np.errstate(over="ignore"):  # a long double beyond a float becomes infinite, and its record is left out
            return array.astype(np.float64)
    if array.ndim == 1 and any(isinstance(row, list | tuple | np.ndarray) for row in array):
        # Read as a vector, one short row would turn many labels into one for everybody.
        raise ParameterError(f"{name} must have rows of one length", "a list of different ones", "Pass an array.")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return array.astype(np.float64)
        except Exception:
            return np.array([_read_row(row) for row in array], dtype=np.float64).reshape(array.shape)


def _read_row(row: Any) -> Any:
    try:
        return row.astype(np.float64) if isinstance(row, np.ndarray) else float(row)
    except Exception:
        return np.full(row.shape, np.nan) if isinstance(row, np.ndarray) else np.nan


def _check_kind(kind: str, name: str) -> None:
    if kind == "c":
        raise ParameterError(f"{name} must hold real numbers", "complex ones", "Complex data not supported.")
    if kind not in "biuf":
        raise ParameterError(
            f"{name} must hold numbers",
            "an array declared to hold something else",
            "Turn text and dates into numbers by a rule that reads one record alone, like feature hashing.",
        )
