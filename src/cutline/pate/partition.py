r"""Private records: how they are read, and which teacher sees which of them.

Both are decided row by row. The whole of PATE rests on one person reaching few teachers. A rule that reads anything but the
record itself (its position, the number of records, a shuffle) would move other people's records when one person joins, and
every ballot could change. So a record's teacher is a hash of its own features, or of its person's id, under a key that is the
same for all.

**Privacy.** For every fixed key [docs/pate.md, *Who is protected*]:

* a record joins or leaves: only the teacher it hashes to is trained on other data, so one ballot changes;
* a record is *replaced*: it leaves one teacher and may join another, so up to **two** ballots change;
* with ids, a person's records all have one teacher: whatever happens to them, one ballot changes, as long as the id stays.

The key need not be secret; it is drawn afresh for each fit so that no data can be prepared to crowd one teacher.

A record that is of no use (a feature that is not a finite number, a label that is not 0 or 1) is left out, silently.
To refuse it would show that it is there; to warn would too. What *is* refused is public: the declared type of a
column or array, the number of axes and columns, lengths that do not match.
"""

from __future__ import annotations

import hashlib
import math
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from cutline.arrays import BoolArray, FloatArray, Int8Array, IntArray
from cutline.errors import ParameterError
from cutline.pate.aggregators.base import MOST_TEACHERS
from cutline.privacy.curves.base import check_whole

KEY_BYTES = 16
LONGEST_KEY = 64  # what the hash takes
_FOUND = tuple(map(np.dtype, (np.int64, np.uint64, np.float64, np.longdouble)))  # what numpy makes of plain numbers
_NO_ID = b"no id"  # everybody without an id is one person together


def row_bytes(features: Any) -> Iterator[bytes]:
    r"""Spell out each row by its own numbers: the places that are not 0, then their values.

    The spelling is the same for dense and sparse rows and for every numeric type, because a type can come from other
    rows: in a plain list one 0.5 makes floats of everybody's integers. An image is spelled like the row of its numbers.

    Examples
    --------
    >>> [whole] = row_bytes(np.array([[0, 3]]))
    >>> [real] = row_bytes(np.array([[-0.0, 3.0]]))
    >>> whole == real
    True
    """
    if hasattr(features, "indptr"):
        ordered = features.copy()
        ordered.sum_duplicates()
        for start, end in pairwise(ordered.indptr):
            yield _spell(ordered.indices[start:end], ordered.data[start:end])
        return
    for row in features:
        yield _spell(np.arange(row.size), row.reshape(-1))


def _spell(places: npt.NDArray[Any], values: npt.NDArray[Any]) -> bytes:
    kept = values != 0
    return bytes(places[kept].astype("<i8").tobytes() + values[kept].astype("<f8").tobytes())


def id_bytes(ids: Iterable[Any]) -> Iterator[bytes]:
    r"""Spell out each id by itself, so that the type a column takes on for the sake of another row changes nothing.

    One missing id makes floats of whole numbers, one with a letter makes texts of them. So whatever reads as a number is
    spelled by its value as a float; ids that differ only beyond its precision are one person together. A missing id (None, NaN)
    is an id like any other: those without one are protected together, as one person.

    Examples
    --------
    >>> list(id_bytes([7, 7.0, "007", None, float("nan"), "ana", 2**53 + 1]))
    [b'7', b'7', b'7', b'no id', b'no id', b'ana', b'9007199254740992']
    """
    for each in ids:
        try:
            yield _spell_id(each.item() if isinstance(each, np.generic) else each)
        except Exception:  # an id that cannot be spelled is none; to say so would tell about its record
            yield _NO_ID


def _spell_id(value: Any) -> bytes:
    if isinstance(value, bytes):
        return value
    if _is_missing(value):
        return _NO_ID
    text = str(value)
    try:
        number = float(value if isinstance(value, int | float) else text)
    except ValueError:
        return text.encode("utf-8", "surrogatepass")
    if math.isnan(number):
        return _NO_ID
    return str(int(number) if number.is_integer() else number).encode()


def _is_missing(value: Any) -> bool:
    try:
        return value is None or bool(value != value)  # NaN and NaT differ from themselves
    except TypeError:  # pandas' NA is neither equal nor unequal to anything
        return True


def partition(records: Any, *, teachers: int, key: bytes) -> IntArray:
    r"""Return which teacher, 0 to ``teachers - 1``, each record goes to: for teachers that are trained elsewhere.

    **Privacy.** A record's teacher depends on the record and the key alone. One that joins or leaves changes what one teacher
    sees; one that is replaced, two; with ids, all records of a person have one teacher, whatever changes in them. It is the
    partition of `cutline.PATEClassifier` with this ``partition_key``; and as there, what follows holds only if nothing but its
    own records, public data and its number reaches a teacher.

    Parameters
    ----------
    records
        Ids, if there is one axis: a person's, or a file's. Otherwise features, one row a record, of any shape.
    teachers
        How many; public.
    key
        At most 64 bytes. It need not be secret, but should be drawn afresh, after the records were collected, as by
        ``secrets.token_bytes(16)``: nobody can then prepare records that crowd one teacher.

    Examples
    --------
    >>> partition(["ana", "bo", "eve", "ana"], teachers=50, key=b"any key").tolist()
    [44, 48, 24, 44]
    >>> partition(np.zeros((2, 3, 8, 8), dtype=np.uint8), teachers=50, key=b"any key").tolist()
    [29, 29]
    """
    check_whole("teachers", teachers, most=MOST_TEACHERS)
    if not isinstance(key, bytes) or len(key) > LONGEST_KEY:
        raise ParameterError(
            f"the key must be at most {LONGEST_KEY} bytes", type(key).__name__, "Draw one with secrets.token_bytes(16)."
        )
    several_axes = hasattr(records, "tocsr") or hasattr(records, "columns") or _read_array(records, "records").ndim > 1
    spelled = row_bytes(read_features(records, name="records")) if several_axes else id_bytes(records)
    return assign(spelled, teachers=teachers, key=key)


def assign(records: Iterable[bytes], *, teachers: int, key: bytes) -> IntArray:
    r"""Return each record's teacher, 0 to ``teachers - 1``, from its spelling by `row_bytes` or `id_bytes`.

    Examples
    --------
    >>> assign([b"ana", b"bo", b"eve", b"ana"], teachers=50, key=b"any key").tolist()
    [44, 48, 24, 44]
    """
    digests = (hashlib.blake2b(record, key=key, digest_size=16).digest() for record in records)
    return np.fromiter((int.from_bytes(digest, "little") % teachers for digest in digests), dtype=np.int64)


def shards(assigned: IntArray, *, teachers: int) -> Iterator[IntArray]:
    r"""Yield, teacher by teacher, the places of its records in their given order; a teacher without any gets an empty array.

    Examples
    --------
    >>> [places.tolist() for places in shards(np.array([2, 0, 2]), teachers=4)]
    [[1], [], [0, 2], []]
    """
    order = np.argsort(assigned, kind="stable")
    ends = np.searchsorted(assigned[order], np.arange(teachers + 1))
    for start, end in pairwise(ends):
        yield order[start:end]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False, eq=False)
class Records:
    """What teachers learn from, and each record's teacher; private."""

    features: Any
    labels: Int8Array | IntArray
    teacher: IntArray


def read_features(features: Any, *, name: str = "X") -> Any:
    r"""Return real numbers, one row a record of whatever shape, sparse (CSR) if they came so; what is not a number is NaN.

    An array of a type that somebody chose, like uint8 or float32, is returned as it is. The types that numpy finds in the
    rows by itself (truth values, its default integers and floats) become float64, and so do tables and lists: there one
    record could change the type of all, and with it every ballot.

    Examples
    --------
    >>> read_features(np.zeros((5, 3, 8, 8), dtype=np.uint8)).dtype, read_features(np.zeros((5, 2), dtype=int)).dtype
    (dtype('uint8'), dtype('float64'))
    """
    if hasattr(features, "tocsr"):
        _check_kind(features.dtype.kind, name)
        with np.errstate(over="ignore"):
            return features.tocsr().astype(np.float64)
    array = _read_array(features, name)
    numbers = array if declared_type(features) == array.dtype else _read_numbers(array, name)
    if numbers.ndim < 2:
        raise ParameterError(
            f"{name} must have one row a record, with one axis of features or several",
            f"{numbers.ndim} axes",
            "Reshape your data.",
        )
    if not math.prod(numbers.shape[1:]):
        # In scikit-learn's words, but for the number of rows: that is private.
        raise ParameterError(
            f"{name} must have features", "0 feature(s) (shape=(, 0)) while a minimum of 1 is required", ""
        )
    return numbers


def declared_type(features: Any) -> np.dtype[Any]:
    """Return the type in which features reach a classifier: one that somebody chose for all rows, or float64."""
    # A table's columns have types of their own, which a missing value changes: none of them was chosen for all rows.
    if hasattr(features, "tocsr") or hasattr(features, "columns") or not hasattr(features, "dtype"):
        return np.dtype(np.float64)
    declared = _read_array(features, "X").dtype
    return declared if declared.kind in "iuf" and declared not in _FOUND else np.dtype(np.float64)


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


def read_groups(groups: Iterable[Any] | None, features: Any, labels: FloatArray) -> list[Any] | None:
    """Return one id a record, if there are ids; raise if the parts have different lengths, without saying how long they are."""
    if getattr(groups, "ndim", 1) != 1:
        raise ParameterError("groups must be one id a record", "several axes", "Pass a vector of ids.")
    ids = None if groups is None else list(groups)
    if labels.shape[0] != features.shape[0] or (ids is not None and len(ids) != features.shape[0]):
        raise ParameterError(
            "X, y and groups must have one row a record each",
            "different numbers of rows",
            "Check where they come from.",
        )
    return ids


def read_records(
    features: Any, labels: FloatArray, ids: list[Any] | None, *, teachers: int, key: bytes, classes: bool = False
) -> Records:
    """Leave out what is of no use, and find each record's teacher from its id or, without ids, from its features.

    Labels are 0 or 1; with ``classes`` they are one column of class numbers.
    """
    known = ~np.isnan(labels) if classes else (labels == 0) | (labels == 1)
    useful = _finite_rows(features) & known.all(axis=1)
    kept = features[useful]
    spellings = row_bytes(kept) if ids is None else id_bytes(ids[place] for place in np.flatnonzero(useful))
    assigned = assign(spellings, teachers=teachers, key=key)
    own: Any = labels[useful].astype(np.int64 if classes else np.int8)
    return Records(features=kept, labels=own, teacher=assigned)


def _finite_rows(features: Any) -> BoolArray:
    if not hasattr(features, "indptr"):
        if features.dtype.kind != "f":
            return np.ones(features.shape[0], dtype=bool)
        return np.asarray(np.isfinite(features).all(axis=tuple(range(1, features.ndim))))
    broken = np.zeros(features.shape[0], dtype=bool)
    broken[np.repeat(np.arange(features.shape[0]), np.diff(features.indptr))[~np.isfinite(features.data)]] = True
    return ~broken


def _read_array(values: Any, name: str) -> npt.NDArray[Any]:
    """Return an array of the declared type, or of objects if none is declared."""
    # A plain list has no type of its own, and numpy would take it from the rows: one text makes texts of all.
    typed = hasattr(values, "__array__") or hasattr(values, "__array_interface__")
    try:
        return np.asarray(values) if typed else np.asarray(values, dtype=object)
    except Exception:
        raise ParameterError(f"{name} must be a table of numbers", type(values).__name__, "Pass an array.") from None


def _read_numbers(values: Any, name: str) -> FloatArray:
    """Read an array of real numbers; a row that holds something else becomes NaN, and changes no other."""
    array = _read_array(values, name)
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
