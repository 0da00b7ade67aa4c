r"""A closed domain: the caller's public list, matched to the declared type of the item column."""

from __future__ import annotations

import datetime as dt
import re
import uuid
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any, overload

from cutline.counting.engine import Engine
from cutline.errors import ColumnTypeError, ParameterError
from cutline.histogram import Item

_WAY_OUT = "Pass a list of distinct item names."
# Declared type -> the Python types of its values and the name of the Arrow type that carries them.
_CARRIERS: dict[str, tuple[tuple[type, ...], str]] = {
    "VARCHAR": ((str,), "string"),
    "BOOLEAN": ((bool,), "bool"),
    "TINYINT": ((int,), "int8"),
    "SMALLINT": ((int,), "int16"),
    "INTEGER": ((int,), "int32"),
    "BIGINT": ((int,), "int64"),
    "UTINYINT": ((int,), "uint8"),
    "USMALLINT": ((int,), "uint16"),
    "UINTEGER": ((int,), "uint32"),
    "UBIGINT": ((int,), "uint64"),
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


def check_candidates(candidates: Iterable[Any]) -> tuple[Item, ...]:
    """Refuse a list that is empty, or has missing or repeated names."""
    if isinstance(candidates, str | bytes | Mapping) or not isinstance(candidates, Iterable):
        raise ParameterError("candidates must be a list of items", type(candidates).__name__, _WAY_OUT)
    listed = tuple(value.item() if type(value).__module__ == "numpy" else value for value in candidates)
    if not listed:
        raise ParameterError("candidates must name at least one item", "an empty list", _WAY_OUT)
    seen: set[Item] = set()
    for value in listed:
        if (
            value is None
            or type(value).__name__ in ("NAType", "NaTType")
            or (isinstance(value, float) and value != value)
        ):
            raise ParameterError("candidates must not be missing", repr(value), "Take it out of the list.")
        try:
            repeated = value in seen
            seen.add(value)
        except TypeError:
            raise ParameterError("candidates must be plain values", type(value).__name__, _WAY_OUT) from None
        if repeated:
            raise ParameterError("candidates must not repeat", repr(value), "List each item once.")
    return listed


def register_candidates(engine: Engine, candidates: Sequence[Item], *, column: str, declared: str) -> None:
    """Create the engine's table ``candidates (place, i)`` with ``i`` of the item column's type."""
    import pyarrow as pa

    array: Any = None
    python, carrier = ((int, Decimal), declared.lower()) if declared.startswith("DECIMAL(") else _CARRIERS[declared]
    wrong = next((value for value in candidates if not _is(value, python)), None)
    if wrong is None:
        try:
            array = _array(candidates, carrier)
        except (pa.ArrowException, ValueError, OverflowError):  # a value that the type cannot hold
            wrong = f"{len(candidates)} candidates, one of them out of range"
    if array is None:
        names = " or ".join(kind.__name__ for kind in python)
        raise ColumnTypeError(
            f"candidates must be values of the item column's type, {declared} ({names})",
            f"{wrong!r} for column {column!r}",
            "Convert the candidates; columns of CSV and JSON files are text.",
        )
    engine.register("listed", pa.table({"place": pa.array(range(len(candidates)), pa.int64()), "i": array}))
    engine.run(f"CREATE TEMP TABLE candidates AS SELECT place, TRY_CAST(i AS {declared}) AS i FROM listed")
    if engine.rows("SELECT count(DISTINCT i) FROM candidates") != [(len(candidates),)]:
        raise ColumnTypeError(
            "candidates must stay distinct in the item column's type",
            f"two that are one in {declared}",
            "List each item once, in the precision of the column.",
        )


class RankedCandidates(Sequence[Item]):
    """The candidates by rank; the order stays in an engine of its own and is asked rank by rank."""

    __slots__ = ("_candidates", "_engine")

    def __init__(self, candidates: Sequence[Item], order: Any, *, memory_limit: str | None) -> None:
        self._candidates = candidates
        self._engine = Engine(memory_limit=memory_limit)
        self._engine.register("given", order)
        self._engine.run("CREATE TABLE ranked AS SELECT row_number() OVER () - 1 AS rank, place FROM given")

    def __len__(self) -> int:
        return len(self._candidates)

    @overload
    def __getitem__(self, index: int) -> Item: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Item]: ...
    def __getitem__(self, index: int | slice) -> Item | Sequence[Item]:
        ranks = range(len(self))[index]
        if isinstance(ranks, int):
            return self._names(ranks, ranks + 1)[0]
        if not ranks:
            return ()
        low, high = min(ranks[0], ranks[-1]), max(ranks[0], ranks[-1])
        names = self._names(low, high + 1)
        return tuple(names[rank - low] for rank in ranks)

    def take(self, ranks: Iterable[int]) -> tuple[Item, ...]:
        """Return the candidates at these ranks in one look-up."""
        wanted = [int(rank) for rank in ranks]
        rows = self._engine.rows("SELECT rank, place FROM ranked WHERE list_contains($1, rank)", [wanted])
        places = dict(rows)
        return tuple(self._candidates[places[rank]] for rank in wanted)

    def _names(self, start: int, stop: int) -> tuple[Item, ...]:
        places = self._engine.rows(
            "SELECT place FROM ranked WHERE rank >= $1 AND rank < $2 ORDER BY rank", [start, stop]
        )
        return tuple(self._candidates[place] for (place,) in places)


def _is(value: object, python: tuple[type, ...]) -> bool:
    """Instance check that keeps truth values from being numbers, moments from being dates, and zones out."""
    if isinstance(value, bool) or bool in python:
        return isinstance(value, bool) and bool in python
    if isinstance(value, dt.datetime) and dt.datetime not in python:
        return False
    return isinstance(value, python) and getattr(value, "tzinfo", None) is None


def _array(candidates: Sequence[Item], carrier: str) -> Any:
    import pyarrow as pa

    values: list[Any] = list(candidates)  # of the carrier's own types, checked before
    if carrier == "text":
        return pa.array([str(value) for value in values], type=pa.string())
    decimal = re.fullmatch(r"decimal\((\d+),(\d+)\)", carrier)
    if decimal:
        return pa.array([Decimal(value) for value in values], type=pa.decimal128(int(decimal[1]), int(decimal[2])))
    if carrier.startswith("float"):
        return pa.array([float(value) for value in values], type=pa.float64())
    unit = re.fullmatch(r"(time64|timestamp)\[(\w+)\]", carrier)
    kind = getattr(pa, unit[1])(unit[2]) if unit else getattr(pa, "bool_" if carrier == "bool" else carrier)()
    return pa.array(values, type=kind)
