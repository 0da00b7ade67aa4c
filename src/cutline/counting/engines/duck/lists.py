r"""The caller's public lists, of candidates and of groups, brought to the declared type of their column."""

from __future__ import annotations

import datetime as dt
import re
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from cutline.counting.engines.duck.engine import Engine
from cutline.counting.question import Question
from cutline.errors import ColumnTypeError
from cutline.histogram import Item

# Whole numbers by their names in Arrow and Ibis, and in DuckDB.
_ARROW_NAMES = "int8 int16 int32 int64 uint8 uint16 uint32 uint64"
_DUCK_NAMES = "TINYINT SMALLINT INTEGER BIGINT UTINYINT USMALLINT UINTEGER UBIGINT"
WHOLE = dict(zip(_ARROW_NAMES.split(), _DUCK_NAMES.split(), strict=True))
ORDER_CANDIDATES = "SELECT place FROM candidates ORDER BY value"  # their places in the items' own order
_NUMBER = re.compile(r"[+-]?\d{1,40}(\.\d{0,40})?([eE][+-]?\d{1,3})?", re.ASCII)
_COLUMNS = {"candidates": "item", "groups": "by"}
# Declared type -> the Python types of its values and the name of the Arrow type that carries them.
_CARRIERS: dict[str, tuple[tuple[type, ...], str]] = {
    "VARCHAR": ((str,), "string"),
    "BOOLEAN": ((bool,), "bool"),
    **{declared: ((int,), carrier) for carrier, declared in WHOLE.items()},
    "HUGEINT": ((int,), "text"),
    "UHUGEINT": ((int,), "text"),
    "FLOAT": ((int, float), "float32"),
    "DOUBLE": ((int, float), "float64"),
    "DATE": ((dt.date,), "date32"),
    "TIME": ((dt.time,), "time64[us]"),
    "TIMESTAMP": ((dt.datetime,), "timestamp[us]"),
    "TIMESTAMP_S": ((dt.datetime,), "timestamp[s]"),
    "TIMESTAMP_MS": ((dt.datetime,), "timestamp[ms]"),
    "UUID": ((uuid.UUID,), "text"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PublicList:
    """A list of the caller, matched to the declared type of its column.

    Parameters
    ----------
    role
        What the list is of, candidates or groups; also the name of its table in the engine.
    declared
        The type of the column, as DuckDB calls it.
    places
        A pyarrow table of each value's ``place`` in the list and the ``value``.
    """

    role: str
    declared: str
    places: Any

    def register(self, engine: Engine) -> None:
        """Create the engine's table of that role with columns ``place`` and ``value``, of the column's declared type."""
        engine.register("listed", self.places)
        engine.run(
            f"CREATE TEMP TABLE {self.role} AS SELECT place, TRY_CAST(value AS {self.declared}) AS value FROM listed"
        )


def match_list(engine: Engine, question: Question, role: str, kinds: Mapping[str, str]) -> PublicList:
    """Bring one of a question's lists to the declared type of its column, or refuse it; its table is then in the engine."""
    import pyarrow as pa

    array: Any = None
    of = _COLUMNS[role]
    column, declared = question.roles[of], kinds[of]
    values = [_read_date(value, declared) for value in question.lists[role]]
    python, carrier = ((int, Decimal), declared.lower()) if declared.startswith("DECIMAL(") else _CARRIERS[declared]
    wrong = next((value for value in values if not _is_one_of(value, python)), None)
    if wrong is None:
        try:
            array = _make_array(values, carrier)
        except (pa.ArrowException, ValueError, OverflowError):  # a value that the type cannot hold
            wrong = f"{len(values)} {role}, one of them out of range"
    if array is None:
        names = " or ".join(kind.__name__ for kind in python)
        rule = f"{role} must be values of the {of} column's type, {declared} ({names})"
        way_out = f"Convert the {role}; columns of CSV and JSON files are text."
        raise ColumnTypeError(rule, f"{wrong!r} for column {column!r}", way_out)
    places = pa.table({"place": pa.array(range(len(values)), pa.int32()), "value": array})
    listed = PublicList(role=role, declared=declared, places=places)
    listed.register(engine)
    if engine.rows(f"SELECT count(DISTINCT value) FROM {role}") != [(len(values),)]:
        rule, value = f"{role} must stay distinct in the {of} column's type", f"two that are one in {declared}"
        raise ColumnTypeError(rule, value, "List each once, in the precision of the column.")
    return listed


def bring_to_type(value: Item, declared: str) -> Item:
    """Return a value of a file as a column's declared type has it, or as it is if it does not fit: then it is refused later.

    Files of text have no types: there ``9`` in a list is the number 9 if the column holds whole numbers.

    Examples
    --------
    >>> bring_to_type("9", "BIGINT"), bring_to_type(9, "VARCHAR"), bring_to_type("artist_89,305", "BIGINT")
    (9, '9', 'artist_89,305')
    """
    if declared == "VARCHAR":
        return str(value) if isinstance(value, int) and not isinstance(value, bool) else value
    python, _ = _CARRIERS.get(declared, ((int, Decimal) if declared.startswith("DECIMAL(") else (), ""))
    if not isinstance(value, str) or not python:
        return value
    try:
        if python[-1] is bool:
            return {"true": True, "false": False}.get(value.lower(), value)
        if python[-1] in (int, float, Decimal):
            number = python[-1](value)
            return number if _NUMBER.fullmatch(value) else value
        if python[-1] is uuid.UUID:
            return uuid.UUID(value)
        return dt.time.fromisoformat(value) if python[-1] is dt.time else _read_date(value, declared)
    except (ValueError, ArithmeticError):
        return value


def _read_date(value: Item, declared: str) -> Item:
    """Read a date or moment written as in ISO 8601, as lists in text files have them; leave all else for the type check."""
    kind = {"DATE": dt.date, "TIMESTAMP": dt.datetime}.get(declared.partition("_")[0])
    if kind is None or not isinstance(value, str):
        return value
    try:
        return kind.fromisoformat(value)
    except ValueError:
        return value


def _is_one_of(value: object, python: tuple[type, ...]) -> bool:
    """Tell whether a value is of these types; truth values are no numbers, moments no dates, and zones are left out."""
    if isinstance(value, bool) or bool in python:
        return isinstance(value, bool) and bool in python
    if isinstance(value, dt.datetime) and dt.datetime not in python:
        return False
    return isinstance(value, python) and getattr(value, "tzinfo", None) is None


def _make_array(listed: Sequence[Item], carrier: str) -> Any:
    import pyarrow as pa

    values: list[Any] = list(listed)  # of the carrier's own types, checked before
    if carrier == "text":
        return pa.array([str(value) for value in values], type=pa.string())
    decimal = re.fullmatch(r"decimal\((\d+),(\d+)\)", carrier)
    if decimal:
        return pa.array([Decimal(value) for value in values], type=pa.decimal128(int(decimal[1]), int(decimal[2])))
    if carrier.startswith("float"):
        return pa.array([float(value) for value in values], type=pa.float64())
    return pa.array(values, type=pa.type_for_alias(carrier))
