r"""Counts that are public already, read from a file: last year's published list, on which a plan is made.

A CSV or parquet file has a column of items and one of counts. JSON is one object of items and counts, a list of objects with
those two fields, or a release with counts as Cutline writes it. A file like this is nobody's secret, so a refusal may name what
is wrong with it; nothing here is for a private log.
"""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Hashable, Sequence
from pathlib import Path
from typing import Any

from cutline.counting.question import check_present
from cutline.errors import SourceError, shortened
from cutline.histogram import Item

_ITEM_NAMES = ("item", "items", "name", "title")
_COUNT_NAMES = ("count", "counts", "users", "n", "total")
_SEPARATORS = {".csv": ",", ".tsv": "\t"}
_KINDS = "A prior is a .csv, .tsv, .parquet, .json or .jsonl file."


def read_published(
    path: str | os.PathLike[str], *, item: str | None = None, count: str | None = None
) -> dict[Item, int]:
    r"""Read a public list of items and their counts.

    Parameters
    ----------
    path
        A .csv, .tsv, .parquet, .json or .jsonl file.
    item, count
        The columns of the items and of the counts. By default one called ``item``, ``name`` or ``title`` and one called
        ``count``, ``users``, ``n`` or ``total``; of two columns, the first and the second.

    Returns
    -------
    dict
        A whole number for every item. Items of text files and JSON objects are text.

    Raises
    ------
    SourceError
        If the file is no such list, or its columns are not clear.
    """
    target = Path(path)
    suffix = target.suffix.lower()
    if suffix in _SEPARATORS:
        names, rows = _read_table(_read_text(target), _SEPARATORS[suffix])
    elif suffix == ".parquet":
        names, rows = _read_parquet(target)
    elif suffix in (".json", ".jsonl"):
        names, rows = _read_json(_read_text(target), lines=suffix == ".jsonl", path=target)
    else:
        raise SourceError("a prior must be a file of a known kind", f"{str(path)!r}", _KINDS)
    at, of = _columns(names, item, count, path=target)
    pairs = [(row[at], _whole(row[of])) for row in rows if len(row) == len(names)]
    if not pairs or len(pairs) < len(rows) or any(number is None or not _plain(name) for name, number in pairs):
        raise SourceError(
            "a prior must hold items, each with a whole number of at least 0",
            f"{str(path)!r}",
            "Check the rows, or name the columns.",
        )
    counts = {name: number for name, number in pairs if number is not None}
    if len(counts) < len(pairs):
        raise SourceError("a prior must name every item once", f"{str(path)!r}", "Add up the counts of equal items.")
    return counts


def _columns(names: Sequence[str], item: str | None, count: str | None, *, path: Path) -> tuple[int, int]:
    """Return where the items and the counts are: as they were named, by their usual names, or the first two of two."""
    check_present([name for name in (item, count) if name is not None], names)
    if len(names) == 2 and item is None and count is None and _whole(names[1]) is not None:
        raise SourceError(
            "the first line of a prior must name its columns", f"{str(path)!r}", "Write item,count above the rows."
        )
    at, of = _find(names, item, _ITEM_NAMES), _find(names, count, _COUNT_NAMES)
    if len(names) == 2:
        at = at if at is not None else 1 - of if of is not None else 0
        of = of if of is not None else 1 - at
    if at is None or of is None or at == of:
        known = ", ".join(shortened(name) for name in names[:20])
        raise SourceError(
            "it must be clear which columns of a prior are items and counts",
            f"columns {known}" if names else "no columns",
            "Name them: prior_item and prior_count, or --prior-item and --prior-count.",
        )
    return at, of


def _find(names: Sequence[str], asked: str | None, usual: Sequence[str]) -> int | None:
    if asked is not None:
        return list(names).index(asked)
    found = [at for at, name in enumerate(names) if name.strip().lower() in usual]
    return found[0] if len(found) == 1 else None


def _plain(item: object) -> bool:
    """Say whether an item is one value that is there, and not a list of some."""
    return item is not None and isinstance(item, Hashable)


def _whole(value: object) -> int | None:
    """Return a count that is a whole number of at least 0, or the text of one; None for anything else."""
    if isinstance(value, str) and value.strip().isascii() and value.strip().isdecimal() and len(value) < 20:
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _read_table(text: str, separator: str) -> tuple[list[str], list[list[Any]]]:
    try:
        rows = [row for row in csv.reader(io.StringIO(text), delimiter=separator, strict=True) if row]
    except csv.Error:
        rows = []
    return (rows[0], [list(row) for row in rows[1:]]) if rows else ([], [])


def _read_parquet(path: Path) -> tuple[list[str], list[list[Any]]]:
    import pyarrow
    import pyarrow.parquet

    try:
        table = pyarrow.parquet.read_table(path)
    except (OSError, ValueError, pyarrow.ArrowException):
        raise SourceError("the prior must be a readable parquet file", f"{str(path)!r}", "Check the path.") from None
    columns = [column.to_pylist() for column in table.columns]
    return list(table.column_names), [list(row) for row in zip(*columns, strict=True)]


def _read_json(text: str, *, lines: bool, path: Path) -> tuple[list[str], list[list[Any]]]:
    try:
        found = [json.loads(line) for line in text.splitlines() if line.strip()] if lines else json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if isinstance(found, dict) and isinstance(found.get("items"), list):  # a release, as Cutline writes it
        counts = found.get("counts")
        if not isinstance(counts, list) or len(counts) != len(found["items"]):
            raise SourceError(
                "a release that is a prior must hold counts", f"{str(path)!r}", "Take one made with counts."
            )
        # Noise may have carried a small count below 0.
        found = [
            {"item": item, "count": max(n, 0) if isinstance(n, int) else n}
            for item, n in zip(found["items"], counts, strict=True)
        ]
    if isinstance(found, dict):
        found = [{"item": item, "count": n} for item, n in found.items()]
    if not isinstance(found, list) or not found or not all(isinstance(row, dict) for row in found):
        raise SourceError(
            "a prior in JSON must be one object of items and counts, or a list of objects with both",
            f"{str(path)!r}",
            'Write it like {"castle": 340}.',
        )
    names = list(found[0])
    return names, [[row.get(name) for name in names] for row in found]


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except (OSError, ValueError) as error:
        way_out = "Save the file as UTF-8." if isinstance(error, UnicodeDecodeError) else "Check the path."
        raise SourceError("the prior must be a readable file of UTF-8 text", f"{str(path)!r}", way_out) from None
