r"""The caller's own files: candidates to read and figures to write, checked before a row is read."""

from __future__ import annotations

import csv
import io
import json
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cutline.errors import ParameterError, SourceError, shortened
from cutline.histogram import Item

_FIGURES = (".png", ".svg")
_COUNTED = re.compile(r"[,;\t]\s*[\d.]+\s*$")


def check_plot(path: Path, *, as_json: bool = True) -> None:
    """Refuse a figure that could not be written; after the release it would be too late. ``-`` is the terminal, for text."""
    if str(path) == "-" and not as_json:
        return
    if path.suffix.lower() not in _FIGURES:
        raise ParameterError(
            "a figure must end in .png or .svg", f"{str(path)!r}", "Try --plot release.png, or --plot - without --json."
        )
    check_writable(path, "a figure")
    from cutline.plots import load_matplotlib

    load_matplotlib()


def check_writable(path: Path, what: str) -> None:
    """Refuse a place where nothing can be written; ``what`` would go there, like "a figure"."""
    try:
        writable = not path.is_dir() and os.access(path if path.exists() else path.absolute().parent, os.W_OK)
    except (OSError, ValueError):  # a name that is too long
        writable = False
    if not writable:
        raise ParameterError(f"{what} must go where it can be written", f"{str(path)!r}", "Choose another path.")


def read_list(path: Path, what: str, *, column: str | None, usual: str) -> list[Item]:
    """Read a list of the caller; ``what`` names it, like "the candidates".

    A text file has one item a line. CSV, TSV and parquet have columns, and so may a JSON list of objects: ``column`` names the
    one that is meant, which is ``usual`` if it is not said, so that no first line is taken for an item or for a heading.
    """
    suffix = path.suffix.lower()
    if suffix in (".csv", ".tsv"):
        rows = csv.DictReader(
            io.StringIO(_read_text(path, what)), delimiter="," if suffix == ".csv" else "\t", strict=True
        )
        try:
            listed: list[Item] = [
                row[name] for name in [_check_column(rows.fieldnames, column, usual, what)] for row in rows
            ]
        except csv.Error:
            raise SourceError(f"{what} in CSV must be quoted as CSV is", f"{str(path)!r}", "Save it again.") from None
        return listed
    if suffix in (".parquet", ".pq"):
        return _read_parquet(path, what, column, usual)
    if suffix in (".json", ".jsonl"):
        return _read_json_list(path, what, column, usual)
    if column is not None:
        raise ParameterError(
            f"a column of {what} is for CSV, TSV, parquet and JSON", f"{str(path)!r}", "Give the file its suffix."
        )
    lines = [line for line in _read_text(path, what).split("\n") if line]
    # A list of names with counts, saved as text: each line would be taken for a name, and released with a full guarantee.
    if len(lines) > 1 and all(_COUNTED.search(line) for line in lines[1:]):
        raise SourceError(
            f"{what} in a text file are one name a line, and nothing else",
            f"lines that end in a number after a comma, semicolon or tab, in {str(path)!r}",
            "Save a table as .csv with headings; if these are whole names, list them in a .json file.",
        )
    return list(lines)


def _read_json_list(path: Path, what: str, column: str | None, usual: str) -> list[Item]:
    text = _read_text(path, what)
    if path.suffix.lower() == ".jsonl":
        listed: Any = [_read_json(line) for line in text.split("\n") if line.strip()]
    else:
        listed = _read_json(text)
    if isinstance(listed, list) and listed and all(isinstance(row, dict) for row in listed):
        present = list(dict.fromkeys(name for row in listed for name in row))
        name = _check_column(present, column, usual, what)
        listed = [row.get(name) for row in listed]
    elif column is not None:
        listed = None
    if not isinstance(listed, list) or not all(isinstance(item, str | int) for item in listed):
        raise SourceError(
            f"{what} in JSON must be one list of text or whole numbers, or of objects with such a column",
            f"{str(path)!r}",
            'Write it like ["castle", "harbour"].',
        )
    return listed


def _read_parquet(path: Path, what: str, column: str | None, usual: str) -> list[Item]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as file:
            name = _check_column(file.schema_arrow.names, column, usual, what)
            listed: list[Item] = file.read(columns=[name]).column(0).to_pylist()
    except (OSError, pa.ArrowException):
        raise SourceError(f"{what} must be a readable file", f"{str(path)!r}", "Check the path.") from None
    return listed


def _check_column(present: Sequence[str] | None, column: str | None, usual: str, what: str) -> str:
    """Return the column that is meant, or raise if the file has none of that name, or several."""
    names, wanted = list(present or ()), column or usual
    if names.count(wanted) != 1:
        option = f"--{what.removeprefix('the ')}-column"
        known = ", ".join(map(shortened, names[:20])) or "none"
        raise SourceError(
            f"{what} are one column of their file, named in its first line or schema",
            f"no single column {wanted!r}; there are: {known}",
            f"Name it with {option}; a file without headings needs a first line that has them.",
        )
    return wanted


def _read_text(path: Path, what: str) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except OSError:
        raise SourceError(f"{what} must be a readable file", f"{str(path)!r}", "Check the path.") from None
    except UnicodeDecodeError:
        raise SourceError(f"{what} must be UTF-8 text", f"{str(path)!r}", "Save the file as UTF-8.") from None


def _read_json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None
