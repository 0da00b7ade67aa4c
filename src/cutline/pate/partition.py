r"""Which teacher sees which record: a keyed hash of the record alone.

The whole of PATE rests on one person reaching few teachers. A rule that reads anything but the record itself (its
position, the number of records, a shuffle) would move other people's records when one person joins, and every ballot
could change. So a record's teacher is a hash of its own features, or of its person's id, under a key that is the same
for all.

**Privacy.** For every fixed key [docs/pate.md, *Who is protected*]:

* a record joins or leaves: only the teacher it hashes to is trained on other data, so one ballot changes;
* a record is *replaced*: it leaves one teacher and may join another, so up to **two** ballots change;
* with ids, a person's records all have one teacher: whatever happens to them, one ballot changes, as long as the id stays.

The key need not be secret; it is drawn afresh for each fit so that no data can be prepared to crowd one teacher.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from cutline.arrays import IntArray

KEY_BYTES = 16
LONGEST_KEY = 64  # what the hash takes
_NO_ID = b"no id"  # everybody without an id is one person together


def row_bytes(features: Any) -> Iterator[bytes]:
    r"""Spell out each row by its own numbers: the places that are not 0, then their values.

    The spelling is the same for dense and sparse rows and for every numeric type, because a type can come from other
    rows: in a plain list one 0.5 makes floats of everybody's integers.

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
        yield _spell(np.arange(row.size), row)


def _spell(places: npt.NDArray[Any], values: npt.NDArray[Any]) -> bytes:
    kept = values != 0
    return bytes(places[kept].astype("<i8").tobytes() + values[kept].astype("<f8").tobytes())


def id_bytes(ids: Iterable[Any]) -> Iterator[bytes]:
    r"""Spell out each id by itself, so that the type a column takes on for the sake of another row changes nothing.

    A missing id (None, NaN) is an id like any other: those without one are protected together, as one person.

    Examples
    --------
    >>> list(id_bytes([7, 7.0, "7", None, float("nan"), "ana"]))
    [b'7', b'7', b'7', b'no id', b'no id', b'ana']
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
    if isinstance(value, int | float) and math.isfinite(value) and value == int(value):
        return str(int(value)).encode()
    return str(value).encode("utf-8", "surrogatepass")


def _is_missing(value: Any) -> bool:
    try:
        return value is None or bool(value != value)  # NaN and NaT differ from themselves
    except TypeError:  # pandas' NA is neither equal nor unequal to anything
        return True


def assign(records: Iterable[bytes], *, teachers: int, key: bytes) -> IntArray:
    r"""Return each record's teacher, 0 to ``teachers - 1``.

    Parameters
    ----------
    records
        One spelling a record: of its features (`row_bytes`), or of its person's id (`id_bytes`).
    teachers
        How many there are; public.
    key
        Any bytes up to 64, the same for all records.

    Examples
    --------
    >>> assign([b"ana", b"bo", b"eve", b"ana"], teachers=50, key=b"any key").tolist()
    [44, 48, 24, 44]
    """
    return np.fromiter(
        (
            int.from_bytes(hashlib.blake2b(record, key=key, digest_size=16).digest(), "little") % teachers
            for record in records
        ),
        dtype=np.int64,
    )


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
