r"""Files the engine reads itself: parquet with its declared types, CSV and JSON as text.

Nothing is guessed from the rows: there is no sniffing of types, delimiters, quotes or headers. A malformed row of a
text file is skipped, so that it cannot stop the count or change anybody else's rows.
"""

from __future__ import annotations

import csv
import glob
import gzip
import re
import zlib
from codecs import BOM_UTF8
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self

from cutline.counting.engines.duck.engine import Engine, text_literal
from cutline.counting.engines.duck.frames import frame_of
from cutline.counting.engines.duck.paths import Files, find_files
from cutline.errors import SourceError

_HEADER_LIMIT = 2**20
_NO_DELIMITER = "\x1f\x1e\x1f\x1e"  # a line is one field


class Log(Protocol):
    """A log that the engine can read."""

    @property
    def paths(self) -> tuple[str, ...]:
        """The files the engine may open."""

    @property
    def cheap(self) -> bool:
        """Whether reading it twice costs little."""

    def shape(self) -> Log:
        """Return a log of the same columns, without rows where leaving them out saves work."""

    def columns(self, engine: Engine, /) -> Sequence[object] | None:
        """Return the names of the columns; None if there is nothing to tell them from."""

    def scan(self, engine: Engine, wanted: Sequence[str], /) -> str:
        """Return a query that gives the wanted columns, which exist, as c0, c1, ..."""


def open_log(source: object) -> Log:
    """Recognise a path, a glob or a table in memory."""
    frame = frame_of(source)
    if frame is not None:
        return frame
    if not isinstance(source, str) and not hasattr(source, "__fspath__"):
        kind = f"{type(source).__module__}.{type(source).__qualname__}"
        raise SourceError(
            "the log must be a path, a pandas or polars DataFrame, a pyarrow Table, or ready counts",
            kind,
            "Collect a lazy frame first; pass ready counts as a mapping or an integer array.",
        )
    files = find_files(source)
    readers: dict[str, type[Parquet | Csv | Json]] = {"parquet": Parquet, "csv": Csv, "json": Json}
    return readers[files.format](files=files)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reader:
    files: Files

    @property
    def paths(self) -> tuple[str, ...]:
        """The files, as they are and as the engine is told of them."""
        return tuple(dict.fromkeys([*self.files.paths, *map(glob.escape, self.files.paths)]))

    def shape(self) -> Self:
        """Return itself: a file is only read when it is counted."""
        return self

    @property
    def cheap(self) -> bool:
        """Parsing text is most of the work, so text is read once."""
        return self.files.format == "parquet"

    def _list(self) -> str:
        return "[" + ", ".join(text_literal(glob.escape(path)) for path in self.files.paths) + "]"

    def _compression(self) -> str:
        return text_literal("gzip" if self.files.gzip else "none")

    def _start(self, path: str) -> bytes:
        """Read the first line of a text file, without looking at what follows it."""
        try:
            with (gzip.open if self.files.gzip else open)(path, "rb") as file:
                return re.split(rb"[\r\n]", file.read(_HEADER_LIMIT).removeprefix(BOM_UTF8), maxsplit=1)[0]
        except (OSError, EOFError, zlib.error):
            pass
        raise SourceError("the file must be readable", repr(path), "Check its permissions, and that it is whole.")


class Parquet(_Reader):
    """Parquet files; types are those of the schema. Directory names (hive partitions) are not columns."""

    __slots__ = ()

    def columns(self, _engine: Engine, /) -> Sequence[object]:
        """Return the names in the first file's schema."""
        return list(_schema(self.files.paths[0]).names)

    def scan(self, _engine: Engine, wanted: Sequence[str], /) -> str:
        """Check that all files declare the wanted columns alike, and select them."""
        first = _schema(self.files.paths[0])
        for path in self.files.paths:
            schema = first if path == self.files.paths[0] else _schema(path)
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
        names = ", ".join(f'"{name.replace(chr(34), 2 * chr(34))}" AS c{i}' for i, name in enumerate(wanted))
        return f"SELECT {names} FROM read_parquet({self._list()}, hive_partitioning=false, union_by_name=false)"


class Csv(_Reader):
    r"""CSV files with a header line; commas in ``.csv``, tabs in ``.tsv``; every column is text, an empty cell is missing.

    Rows with too few cells, invalid UTF-8 or more than 2 MB are skipped; cells beyond the header's are ignored. The
    writer is trusted with one thing, to quote as RFC 4180 says: a cell that *begins* with a quote and never closes it
    takes the rows up to the next quote with it. The files are read by one thread, because the parallel reader of
    DuckDB 2.0 loses rows after quoted line breaks when told to skip malformed rows.
    """

    __slots__ = ()

    def columns(self, _engine: Engine, /) -> Sequence[object]:
        """Return the names in the header line, which must be the same in all files."""
        headers = [self._header(path) for path in self.files.paths]
        for path, header in zip(self.files.paths, headers, strict=True):
            if header != headers[0]:
                raise SourceError(
                    "all files of one log must have the same header", repr(path), "Write the files with one header."
                )
        return headers[0]

    def scan(self, engine: Engine, wanted: Sequence[str], /) -> str:
        """Select the wanted columns by position."""
        names = list(self.columns(engine))
        declared = ", ".join(f"'h{i}': 'VARCHAR'" for i in range(len(names)))
        selected = ", ".join(f"h{names.index(name)} AS c{i}" for i, name in enumerate(wanted))
        return (
            f"SELECT {selected} FROM read_csv({self._list()}, columns={{{declared}}}, header=true, auto_detect=false, "
            f"delim={text_literal(self._delimiter)}, quote='\"', escape='\"', compression={self._compression()}, "
            "ignore_errors=true, strict_mode=false, parallel=false, hive_partitioning=false)"
        )

    @property
    def _delimiter(self) -> str:
        return "\t" if self.files.suffix == ".tsv" else ","

    def _header(self, path: str) -> list[str]:
        try:
            return next(csv.reader([self._start(path).decode()], delimiter=self._delimiter), [])
        except (csv.Error, UnicodeDecodeError):
            pass
        raise SourceError(
            "the first line must be a header in UTF-8", repr(path), "Save the file as UTF-8, column names first."
        )


class Json(_Reader):
    r"""JSON files: one object a line, or (``.json`` that begins with ``[``) one array of objects. Values are read as text.

    Lines that are not JSON, not UTF-8 or longer than 16 MB are skipped; an array is one document and its writer is
    trusted to close it. Keys are written in rows, so they are private: a name that no record has is not refused, and
    counts nothing.
    """

    __slots__ = ()

    def columns(self, _engine: Engine, /) -> Sequence[object] | None:
        """Return None: a file of JSON declares no columns, and what its rows have depends on whose rows they are."""
        return None

    def scan(self, _engine: Engine, wanted: Sequence[str], /) -> str:
        """Extract the wanted keys by JSON pointers, which take every name literally."""
        pointers = ["/" + name.replace("~", "~0").replace("/", "~1") for name in wanted]
        values = ", ".join(
            f"json_extract_string(j, {text_literal(pointer)}) AS c{i}" for i, pointer in enumerate(pointers)
        )
        return f"SELECT {values} FROM ({self._records()}) WHERE json_type(j) = 'OBJECT'"

    def _records(self) -> str:
        if self.files.suffix == ".json" and self._is_array():
            return (
                f"SELECT j FROM read_json({self._list()}, columns={{'j': 'JSON'}}, format='array', records=false, "
                f"auto_detect=false, compression={self._compression()}, maximum_object_size={2**24}, hive_partitioning=false)"
            )
        return (
            f"SELECT TRY_CAST(line AS JSON) AS j FROM read_csv({self._list()}, columns={{'line': 'VARCHAR'}}, header=false, "
            f"auto_detect=false, delim={text_literal(_NO_DELIMITER)}, quote='', escape='', compression={self._compression()}, "
            f"ignore_errors=true, strict_mode=false, parallel=false, max_line_size={2**24}, hive_partitioning=false)"
        )

    def _is_array(self) -> bool:
        arrays = {self._start(path).lstrip().startswith(b"[") for path in self.files.paths}
        if len(arrays) > 1:
            raise SourceError(
                "all files of one log must be built alike", "arrays and lines of JSON", "Use a narrower pattern."
            )
        return arrays.pop()


def _schema(path: str) -> Any:
    import pyarrow
    import pyarrow.parquet

    try:
        return pyarrow.parquet.read_schema(path)
    except (OSError, pyarrow.ArrowException):
        pass
    raise SourceError(
        "the file must be readable parquet", repr(path), "Write the file again with the tool that made it."
    )
