r"""Files: parquet with its declared types, CSV and JSON as text.

A path that exists is taken literally, whatever characters it holds; otherwise ``*``, ``?``, ``[...]`` and ``**`` are
patterns. The format is told by the caller or by the extension, never by the content. Nothing is guessed from the rows:
there is no sniffing of types, delimiters, quotes or headers. A row that cannot be read is missing, so that it cannot stop
the count or change anybody else's rows.

The same holds for single cells, of parquet and of tables in memory. Nothing stops their writer from storing the moment
``-2**63``, the time ``-1``, a decimal of too many digits, or text that is not UTF-8. An engine that meets such a cell stops, or
reads it as another value; either would let one row decide about everybody's count. So columns of types that have such cells
pass through `read_cells`, some thousand rows at a time, as Arrow arrays, on their way to the engine.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

from cutline.counting.engines.duck.engine import Engine, FoundFiles, Stream
from cutline.counting.engines.duck.records import LONGEST
from cutline.counting.engines.duck.text_files import Csv, Json
from cutline.counting.question import FORMATS
from cutline.errors import ColumnTypeError, EngineError, SourceError

ROWS = 2**16  # rows that are looked at in one go
_DAYS = (-719_162, 2_932_896)  # 0001-01-01 and 9999-12-31, from 1970 on: what Python can name
_PER_DAY = {"s": 86_400, "ms": 86_400_000, "us": 86_400_000_000}
_NANOSECONDS = (2 - 2**63, 2**63 - 2)  # the values around them are DuckDB's infinities


class Parquet(FoundFiles):
    """Parquet files; types are those of the schema. Directory names (hive partitions) are not columns.

    DuckDB reads them itself if every cell of the wanted columns has a meaning for it. Otherwise (text, decimals, times) it is
    handed what pyarrow reads, because it stops at the first cell that has none; text it tries to read itself before.
    """

    __slots__ = ()
    cheap = True  # two columns of parquet are

    def columns(self) -> Sequence[object]:
        return list(_read_schema(self.found[0]).names)

    def scan(self, engine: Engine, wanted: Sequence[str], /) -> str:
        """Check that all files declare the wanted columns alike, and select them."""
        kinds = self._find_kinds(wanted)
        if all_readable(kinds):
            return self._select(_quote(name) for name in wanted)
        check_known(engine, kinds, wanted)
        engine.register("file", readable(kinds, partial(self._read, wanted)))
        return "SELECT * FROM file"

    def prepare(self, _spill: Path, /) -> Sequence[Parquet]:
        return ParquetText(found=self.found, form=self.form, zipped=self.zipped), self

    def _find_kinds(self, wanted: Sequence[str]) -> list[Any]:
        """Return the types of the columns, which all files must declare alike."""
        first = _read_schema(self.found[0])
        for path in self.found:
            schema = first if path == self.found[0] else _read_schema(path)
            for name in wanted:
                if schema.names.count(name) != 1 or schema.field(name).type != first.field(name).type:
                    raise SourceError(
                        "all files of one log must declare a column alike",
                        f"{name!r} in {path!r}",
                        "Write the files with one schema.",
                    )
                if sum(other.casefold() == name.casefold() for other in schema.names) > 1:
                    raise SourceError(
                        "the engine must be able to tell column names apart",
                        f"{name!r} in two spellings",
                        "Rename one of the columns.",
                    )
        return [first.field(name).type for name in wanted]

    def _select(self, cells: Iterable[str]) -> str:
        names = ", ".join(f"{cell} AS c{i}" for i, cell in enumerate(cells))
        return f"SELECT {names} FROM read_parquet({self._list()}, hive_partitioning=false, union_by_name=false)"

    def _read(self, wanted: Sequence[str]) -> Iterator[Any]:
        import pyarrow.compute as pc
        from pyarrow import dataset

        reading = dataset.ParquetReadOptions(coerce_int96_timestamp_unit="us")  # in nanoseconds, far dates would wrap
        scanning = dataset.ParquetFragmentScanOptions(arrow_extensions_enabled=True)
        kind = dataset.ParquetFileFormat(read_options=reading, default_fragment_scan_options=scanning)
        columns = {f"c{i}": pc.field(name) for i, name in enumerate(wanted)}
        for path in self.found:
            log = dataset.dataset(path, format=kind)
            yield from log.to_batches(columns=columns, batch_size=ROWS, batch_readahead=2, fragment_readahead=1)


class ParquetText(Parquet):
    """Parquet files whose text DuckDB reads itself, which is faster; it stops at any cell that is not UTF-8."""

    __slots__ = ()

    def scan(self, _engine: Engine, wanted: Sequence[str], /) -> str:
        kinds = self._find_kinds(wanted)
        if not all(_is_text(kind) or all_readable([kind]) for kind in kinds):
            raise EngineError("the engine must be able to read every cell", "", "Let pyarrow read them.")
        return self._select(map(_limit_text, kinds, wanted))


def _quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _limit_text(kind: Any, name: str) -> str:
    """Return the SQL of a column's cell, with text that is too long as missing."""
    cell = _quote(name)
    return f"CASE WHEN strlen({cell}) <= {LONGEST} THEN {cell} END" if _is_text(kind) else cell


Files: TypeAlias = Parquet | Csv | Json
_KINDS: dict[str, type[Files]] = {"parquet": Parquet, "csv": Csv, "tsv": Csv, "json": Json, "jsonl": Json}
_EXTENSIONS = {f".{form}": form for form in FORMATS} | {".pq": "parquet", ".ndjson": "jsonl"}


def open_files(source: str | os.PathLike[str], form: str | None = None) -> Files:
    """Find the files of a path or a glob, or refuse it; the format is that of their names unless it is given."""
    name = os.fspath(source)
    if not isinstance(name, str) or not name or "\0" in name:
        raise SourceError(
            "a path must be a non-empty text", repr(name), "Pass the path of a parquet, CSV or JSON file."
        )
    if "://" in name:
        raise SourceError("the log must be a local file", repr(name), "Download it first, or pass a pyarrow table.")
    paths = _find_paths(name)
    kinds = {_find_format(path, form) for path in paths}
    if len(kinds) > 1:
        raise SourceError(
            "all files of one log must have one format", repr(name), "Use a narrower pattern, such as '*.parquet'."
        )
    found, zipped = kinds.pop()
    return _KINDS[found](found=paths, form=found, zipped=zipped)


def _find_paths(name: str) -> tuple[str, ...]:
    path = os.path.abspath(os.path.expanduser(name))
    if os.path.isfile(path):
        return (path,)
    if os.path.isdir(path):
        raise SourceError(
            "the log must be a file, not a directory", repr(name), f"Try {os.path.join(name, '*.parquet')!r}."
        )
    found = sorted(filter(os.path.isfile, glob.glob(path, recursive=True)))
    if not found:
        raise SourceError("the log must exist", repr(name), "Check the path; a pattern must match at least one file.")
    return tuple(found)


def _find_format(path: str, given: str | None) -> tuple[str, bool]:
    """Return the format of a file, given or by its extension, and whether there is a .gz."""
    suffixes = [suffix.lower() for suffix in Path(path).suffixes]
    zipped = suffixes[-1:] == [".gz"]
    suffix = suffixes[-2:-1] if zipped else suffixes[-1:]
    form = given or _EXTENSIONS.get("".join(suffix))
    if form is None or (zipped and form == "parquet"):
        raise SourceError(
            "the extension must be .parquet, .csv, .tsv, .json, .jsonl or .ndjson (text formats also with .gz)",
            repr(path),
            "Pass format='csv', say, rename the file, or read it into a pandas, polars or pyarrow table first.",
        )
    return form, zipped


def _read_schema(path: str) -> Any:
    import pyarrow
    import pyarrow.parquet

    try:
        return pyarrow.parquet.ParquetFile(path, coerce_int96_timestamp_unit="us").schema_arrow
    except (OSError, pyarrow.ArrowException):
        pass
    raise SourceError(
        "the file must be readable parquet", repr(path), "Write the file again with the tool that made it."
    )


def readable(kinds: Iterable[Any], batches: Callable[[], Iterator[Any]]) -> Stream:
    """Return record batches of the declared types with what cannot be read in them as missing, in columns c0, c1, ..."""
    import pyarrow as pa

    schema = pa.schema([(f"c{i}", read_as(kind)) for i, kind in enumerate(kinds)])

    def read() -> Iterator[Any]:
        for batch in batches():
            yield pa.record_batch([read_cells(column) for column in batch.columns], schema=schema)

    return Stream(schema=schema, batches=read)


def check_known(engine: Engine, kinds: Sequence[Any], names: Sequence[str]) -> None:
    """Refuse the first column of a type that Arrow has and the engine has not; no row is looked at."""
    if not _knows(engine, kinds):
        raise refuse_type(next(name for kind, name in zip(kinds, names, strict=True) if not _knows(engine, [kind])))


def _knows(engine: Engine, kinds: Sequence[Any]) -> bool:
    import pyarrow as pa

    with suppress(EngineError):
        engine.register("shape", pa.schema([(f"c{i}", read_as(kind)) for i, kind in enumerate(kinds)]).empty_table())
        return engine.accepts("SELECT * FROM shape")
    return False


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
