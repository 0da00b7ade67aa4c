r"""Multi-label sets in the Mulan collection's form: two ARFF files of zeros and ones, and a header that names the labels."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from cutline.errors import SourceError

_ATTRIBUTE = re.compile(r"""@attribute\s+('(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"|\S+)\s""", re.IGNORECASE)

Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False, eq=False)
class Examples:
    """Examples of both files, the training file's first."""

    labels: tuple[str, ...]
    features: Bools
    values: Bools
    split: npt.NDArray[np.int8]  # 0 train, 1 test


def read_mulan(train: Path, test: Path, header: Path) -> Examples:
    """Read a set: the header's labels are columns of both files, and the rest are features."""
    labels = _read_labels(header)
    parts = [_read_arff(path) for path in (train, test)]
    if parts[0][0] != parts[1][0]:
        raise SourceError("both files must have the same attributes", f"{train.name!r}, {test.name!r}", _AGAIN)
    at = {name: column for column, name in enumerate(parts[0][0])}
    if len(at) < len(parts[0][0]) or not labels or not {_key(label) for label in labels} <= set(at):
        raise SourceError("every label of the header must be one attribute of the data", f"{header.name!r}", _AGAIN)
    chosen = [at[_key(label)] for label in labels]
    table = np.concatenate([rows for _, rows in parts])
    return Examples(
        labels=labels,
        features=np.delete(table, chosen, axis=1),
        values=table[:, chosen],
        split=np.repeat(np.arange(2, dtype=np.int8), [len(rows) for _, rows in parts]),
    )


_AGAIN = "They may be of different versions: fetch them again."


def _read_labels(path: Path) -> tuple[str, ...]:
    from xml.etree import ElementTree

    try:
        # The user's own file; expat, which does the reading, bounds what entities may grow to.
        root = ElementTree.parse(path).getroot()  # noqa: S314
    except (OSError, ElementTree.ParseError):
        raise SourceError("the header must be XML", f"{path.name!r}", "Fetch it again.") from None
    return tuple(one.get("name", "") for one in root.iter() if one.tag.rpartition("}")[2] == "label")


def _read_arff(path: Path) -> tuple[Sequence[str], Bools]:
    """Return the names of the attributes and a row per example."""
    names: list[str] = []
    try:
        with path.open(encoding="utf-8", errors="replace") as lines:
            for line in lines:
                if line.strip().lower() == "@data":
                    return names, _read_rows(lines, len(names))
                if found := _ATTRIBUTE.match(line.strip() + " "):
                    names.append(_key(found[1]))
    except (OSError, ValueError, IndexError):
        pass
    raise SourceError("the file must be ARFF with values 0 and 1", f"{path.name!r}", "Fetch it again.") from None


def _read_rows(lines: Iterable[str], width: int) -> Bools:
    """Read examples: sparse as ``{column value, ...}``, what is left out being 0, or dense as ``value, ...``."""
    rows: list[Bools] = []
    for line in lines:
        text = line.strip()
        if not text or text.startswith("%"):
            continue
        row = np.zeros(width, dtype=np.bool_)
        if text.startswith("{"):
            columns, values = _numbers(text.strip("{}").replace(",", " ").split()).reshape(-1, 2).T
            if (columns < 0).any():
                raise ValueError
            row[columns] = values == 1
        else:
            values = _numbers(text.split(","))
            if len(values) != width:
                raise ValueError
            row[:] = values == 1
        if ((values != 0) & (values != 1)).any():
            raise ValueError
        rows.append(row)
    return np.array(rows, dtype=np.bool_).reshape(-1, width)


def _numbers(words: list[str]) -> npt.NDArray[np.int64]:
    return np.array(words, dtype=np.int64)


def _key(name: str) -> str:
    """Return a name as both files spell it: ARFF may quote it and escape what is in it."""
    if len(name) > 1 and name[0] == name[-1] and name[0] in "'\"":
        name = name[1:-1]
    return name.replace("\\", "")
