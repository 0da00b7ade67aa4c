r"""Files: parquet with its declared types, CSV and JSON as text.

A path that exists is taken literally, whatever characters it holds; otherwise ``*``, ``?``, ``[...]`` and ``**`` are
patterns. The format is told by the caller or by the extension, never by the content. Nothing is guessed from the rows:
there is no sniffing of types, delimiters, quotes or headers. A row that cannot be read is missing, so that it cannot stop
the count or change anybody else's rows.
"""

from __future__ import annotations

import csv
import glob
import gzip
import os
import re
import zlib
from codecs import BOM_UTF8
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Self, TypeAlias

from cutline.counting.engines.duck.cells import LONGEST, ROWS, all_readable, check_known, readable
from cutline.counting.engines.duck.engine import Engine, text_literal
from cutline.counting.engines.duck.records import Lines, Objects, read_records
from cutline.counting.question import FORMATS
from cutline.errors import SourceError

_HEADER_LIMIT = 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class _Files:
    """The files of one log, all of one format."""

    cheap: ClassVar[bool] = False  # parsing is most of the work with text, so text is read once
    found: tuple[str, ...]
    form: str  # one of question.FORMATS
    zipped: bool

    @property
    def paths(self) -> tuple[str, ...]:
        """The files, as they are and as the engine is told of them."""
        return tuple(dict.fromkeys([*self.found, *map(glob.escape, self.found)]))

    def shape(self) -> Self:
        return self  # a file is only read when it is counted

    def _list(self) -> str:
        return "[" + ", ".join(text_literal(glob.escape(path)) for path in self.found) + "]"

    def _compression(self) -> str:
        return text_literal("gzip" if self.zipped else "none")


class Parquet(_Files):
    """Parquet files; types are those of the schema. Directory names (hive partitions) are not columns.

    DuckDB reads them itself if every cell of the wanted columns has a meaning for it. Otherwise (text, decimals, times) it is
    handed what pyarrow reads, because it stops at the first cell that has none.
    """

    __slots__ = ()
    cheap = True  # two columns of parquet are

    def columns(self) -> Sequence[object]:
        return list(_read_schema(self.found[0]).names)

    def scan(self, engine: Engine, wanted: Sequence[str], /) -> str:
        """Check that all files declare the wanted columns alike, and select them."""
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
        kinds = [first.field(name).type for name in wanted]
        if not all_readable(kinds):
            for kind, name in zip(kinds, wanted, strict=True):
                check_known(engine, kind, name)
            engine.register("file", readable(kinds, partial(self._read, wanted)))
            return "SELECT * FROM file"
        names = ", ".join(f'"{name.replace(chr(34), 2 * chr(34))}" AS c{i}' for i, name in enumerate(wanted))
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


class Csv(_Files):
    r"""CSV files with a header line; commas in ``.csv``, tabs in ``.tsv``; every column is text, an empty cell is missing.

    Rows with too few cells, invalid UTF-8 or more than 2 MB are missing; cells beyond the header's are ignored. The
    writer is trusted with one thing, to quote as RFC 4180 says: a cell that *begins* with a quote and never closes it
    takes the rows up to the next quote with it. The files are read by one thread, because the parallel reader of
    DuckDB 2.0 loses rows after quoted line breaks when told to skip malformed rows.
    """

    __slots__ = ()

    def columns(self) -> Sequence[object]:
        """Return the names in the header line, which must be the same in all files."""
        headers = [self._header(path) for path in self.found]
        for path, header in zip(self.found, headers, strict=True):
            if header != headers[0]:
                raise SourceError(
                    "all files of one log must have the same header", repr(path), "Write the files with one header."
                )
        return headers[0]

    def scan(self, _engine: Engine, wanted: Sequence[str], /) -> str:
        names = list(self.columns())
        declared = ", ".join(f"'h{i}': 'VARCHAR'" for i in range(len(names)))
        selected = ", ".join(f"h{names.index(name)} AS c{i}" for i, name in enumerate(wanted))
        return (
            f"SELECT {selected} FROM read_csv({self._list()}, columns={{{declared}}}, header=true, auto_detect=false, "
            f"delim={text_literal(self._delimiter)}, quote='\"', escape='\"', compression={self._compression()}, "
            f"max_line_size={LONGEST}, ignore_errors=true, strict_mode=false, parallel=false, hive_partitioning=false)"
        )

    @property
    def _delimiter(self) -> str:
        return "\t" if self.form == "tsv" else ","

    def _header(self, path: str) -> list[str]:
        try:
            return next(csv.reader([self._start(path).decode()], delimiter=self._delimiter), [])
        except (csv.Error, UnicodeDecodeError):
            pass
        raise SourceError(
            "the first line must be a header in UTF-8", repr(path), "Save the file as UTF-8, column names first."
        )

    def _start(self, path: str) -> bytes:
        """Read the first line of a text file, without looking at what follows it."""
        try:
            with (gzip.open if self.zipped else open)(path, "rb") as file:
                return re.split(rb"[\r\n]", file.read(_HEADER_LIMIT).removeprefix(BOM_UTF8), maxsplit=1)[0]
        except (OSError, EOFError, zlib.error):
            pass
        raise SourceError("the file must be readable", repr(path), "Check its permissions, and that it is whole.")


class Json(_Files):
    r"""JSON files: one object a line (``jsonl``), or a document whose outermost objects are the records (``json``).

    Values are read as text. Records that are not JSON, not UTF-8 or longer than 2 MB are missing. The writer of a document
    is trusted to close the braces it opens. Keys are written in rows, so they are private: a name that no record has is not
    refused, and counts nothing.
    """

    __slots__ = ()

    def columns(self) -> Sequence[object] | None:
        return None  # no columns are declared, and what the rows have depends on whose rows they are

    def scan(self, engine: Engine, wanted: Sequence[str], /) -> str:
        splitter = Objects if self.form == "json" else Lines
        engine.register("records", read_records(self.found, splitter, wanted, zipped=self.zipped))
        return "SELECT * FROM records"


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
