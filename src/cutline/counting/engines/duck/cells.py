r"""Which cells can be read, decided before an engine sees them: a cell that its declared type cannot hold is missing.

Nothing stops the writer of a parquet file or of a table in memory from storing the moment ``-2**63``, the time ``-1``, a
decimal of too many digits, or text that is not UTF-8. An engine that meets such a cell stops, or reads it as another value;
either would let one row decide about everybody's count. So columns of types that have such cells pass through here, some
thousand rows at a time, as Arrow arrays. What is missing in them depends on the cell and on public bounds alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from cutline.counting.engines.duck.engine import Engine
from cutline.errors import ColumnTypeError, EngineError

# Bytes in a text, or in a row of a CSV file. An engine with 50 MB, the smallest memory limit, can hold what is below it.
LONGEST = 2**21
ROWS = 2**16  # rows that are looked at in one go
_DAYS = (-719_162, 2_932_896)  # 0001-01-01 and 9999-12-31, from 1970 on: what Python can name
_PER_DAY = {"s": 86_400, "ms": 86_400_000, "us": 86_400_000_000}
_NANOSECONDS = (2 - 2**63, 2**63 - 2)  # the values around them are DuckDB's infinities


@dataclass(frozen=True, slots=True, kw_only=True, repr=False, eq=False)
class Stream:
    """Record batches that an engine can ask for as often as it likes; they are made anew each time."""

    schema: Any
    batches: Callable[[], Iterator[Any]]

    def __arrow_c_stream__(self, requested_schema: object = None) -> Any:
        import pyarrow as pa

        reader = pa.RecordBatchReader.from_batches(self.schema, self.batches())
        return reader.__arrow_c_stream__(requested_schema)


def readable(kinds: Iterable[Any], batches: Callable[[], Iterator[Any]]) -> Stream:
    """Return record batches of the declared types with what cannot be read in them as missing, in columns c0, c1, ..."""
    import pyarrow as pa

    schema = pa.schema([(f"c{i}", read_as(kind)) for i, kind in enumerate(kinds)])

    def read() -> Iterator[Any]:
        for batch in batches():
            yield pa.record_batch([read_cells(column) for column in batch.columns], schema=schema)

    return Stream(schema=schema, batches=read)


def check_known(engine: Engine, kind: Any, name: str) -> None:
    """Refuse a column of a type that Arrow has and the engine has not; no row is looked at."""
    import pyarrow as pa

    with suppress(EngineError):
        engine.register("shape", pa.schema([("c", read_as(kind))]).empty_table())
        if engine.accepts("SELECT * FROM shape"):
            return
    raise refuse_type(name)


def refuse_type(name: str) -> ColumnTypeError:
    """Return the refusal of a column's type, which is public."""
    rule = "a column must have a type that Arrow and the engine know"
    return ColumnTypeError(rule, repr(name), "Turn the column into text first.")


def all_readable(kinds: Sequence[Any]) -> bool:
    """Return whether every cell of these types has a meaning for the engine, so that nobody has to look."""
    return not any(read_as(kind) != kind or _can_break(kind) for kind in kinds)


def read_as(kind: Any) -> Any:
    """Return the type in which cells of an Arrow type are handed to the engine; JSON is handed over as text."""
    import pyarrow as pa

    if pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind):
        return read_as(kind.value_type)
    return kind.storage_type if getattr(kind, "extension_name", None) == "arrow.json" else kind


def read_cells(array: Any) -> Any:
    r"""Return an Arrow array with the cells that cannot be read as missing; all others are as they were.

    Examples
    --------
    >>> import pyarrow
    >>> moments = pyarrow.array([0, 10**17], pyarrow.timestamp("ms"))
    >>> read_cells(moments).is_valid().to_pylist()
    [True, False]
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = array.type
    if pa.types.is_dictionary(kind):
        return read_cells(array.dictionary_decode())
    if pa.types.is_run_end_encoded(kind):
        return read_cells(pc.run_end_decode(array))
    if read_as(kind) != kind:
        return read_cells(array.storage)
    if not _can_break(kind) or not len(array):
        return array
    return _keep(_keep(array, _find_valid(array)), _find_within(array))


def make_texts(values: Iterable[str | None]) -> Any:
    """Return an Arrow array of texts; lone surrogates, which no file can hold as UTF-8, make a text missing."""
    import pyarrow as pa

    texts = list(values)
    try:
        return pa.array(texts, type=pa.large_string())
    except UnicodeEncodeError:
        broken = re.compile("[\ud800-\udfff]").search
        return pa.array([None if text is None or broken(text) else text for text in texts], type=pa.large_string())


def _can_break(kind: Any) -> bool:
    import pyarrow as pa

    known = (_is_text, pa.types.is_temporal, pa.types.is_decimal)
    return any(test(kind) for test in known) and not pa.types.is_date32(kind)  # whose days the query compares


def _is_text(kind: Any) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _keep(array: Any, kept: Any) -> Any:
    """Return the array itself if all is kept, and otherwise with the rest as missing, over the same buffers."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    if kept is None or pc.all(kept).as_py() is not False:
        return array
    before = np.zeros(array.offset, dtype=bool)
    present = pc.and_(kept.fill_null(False), array.is_valid()).to_numpy(zero_copy_only=False)
    bitmap = np.packbits(np.concatenate([before, present]), bitorder="little")
    # Of the kernels that would do it, none takes every type: some have no views of text, some check decimals first.
    buffers = [pa.py_buffer(bitmap), *array.buffers()[1:]]
    return pa.Array.from_buffers(array.type, len(array), buffers, offset=array.offset)


def _find_valid(array: Any) -> Any:
    """Return a mask of the cells that are valid in Arrow (UTF-8, a time of the day, few enough digits); None if all are."""
    import numpy as np
    import pyarrow as pa

    if _is_valid(array):
        return None
    mask = np.ones(len(array), dtype=bool)
    waiting = [(0, len(array))]
    while waiting:  # by halves: what is broken is rare
        start, end = waiting.pop()
        if _is_valid(array.slice(start, end - start)):
            continue
        if end - start == 1:
            mask[start] = False
        else:
            middle = (start + end) // 2
            waiting += [(start, middle), (middle, end)]
    return pa.array(mask)


def _is_valid(array: Any) -> bool:
    import pyarrow as pa

    try:
        array.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def _find_within(array: Any) -> Any:
    """Return a mask of the cells within the bounds that Arrow does not know; None if there are none."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = array.type
    if _is_text(kind):
        return pc.less_equal(_find_lengths(array), LONGEST)
    bounds = _find_bounds(kind)
    if bounds is None:
        return None
    width = kind.bit_width // 8
    stored = b"".join(bound.to_bytes(width, "little", signed=True) for bound in bounds)
    low, high = pa.Array.from_buffers(kind, 2, [None, pa.py_buffer(stored)])
    return pc.and_(pc.greater_equal(array, low), pc.less_equal(array, high))


def _find_lengths(array: Any) -> Any:
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    if not pa.types.is_string_view(array.type):
        return pc.binary_length(array)
    views = np.frombuffer(array.buffers()[1], dtype="<i4").reshape(-1, 4)  # a view begins with its length
    return pa.array(views[array.offset : array.offset + len(array), 0])


def _find_bounds(kind: Any) -> tuple[int, int] | None:
    """Return the least and the largest number by which a type's cells may be stored."""
    import pyarrow as pa

    if pa.types.is_timestamp(kind) and kind.unit == "ns":
        return _NANOSECONDS
    if pa.types.is_timestamp(kind) or pa.types.is_date64(kind):
        per_day = _PER_DAY[getattr(kind, "unit", "ms")]
        return _DAYS[0] * per_day, (_DAYS[1] + 1) * per_day - 1
    if pa.types.is_decimal128(kind):  # for the one number that validation takes for a small one, -2**127
        return 1 - 10**kind.precision, 10**kind.precision - 1
    return None
