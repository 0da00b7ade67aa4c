r"""CSV and JSON files: every value is text, and nothing is guessed from the rows, not even where a quote or a header is."""

from __future__ import annotations

import csv
import gzip
import re
import zlib
from codecs import BOM_UTF8
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Self

from cutline.counting.engines.duck.engine import Engine, FoundFiles, text_literal
from cutline.counting.engines.duck.long_rows import without_long_rows
from cutline.counting.engines.duck.records import LONGEST, Lines, Objects, read_records
from cutline.errors import SourceError

_HEADER_LIMIT = 2**20


class Csv(FoundFiles):
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

    def prepare(self, spill: Path, /) -> Sequence[Self]:
        try:
            kept = [
                without_long_rows(path, spill, delimiter=self._delimiter, zipped=self.zipped) for path in self.found
            ]
        except (OSError, EOFError, zlib.error):
            kept = []
        if not kept:
            raise _unreadable(self.found[0])
        return (replace(self, found=tuple(kept)),)

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
        raise _unreadable(path)


def _unreadable(path: str) -> SourceError:
    return SourceError("the file must be readable", repr(path), "Check its permissions, and that it is whole.")


class Json(FoundFiles):
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
