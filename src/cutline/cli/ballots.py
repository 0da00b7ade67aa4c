r"""Votes in and labels out, as files: .npz and .parquet to read, .npz, .parquet and .csv to write.

Names, types and shapes of what a file holds are public; what its cells say is not, and no cell can make a file refused.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from cutline.arrays import Int8Array
from cutline.errors import ColumnTypeError, ParameterError, SourceError
from cutline.pate.label import BallotBox
from cutline.pate.labels import MISSING

_LABELS = (".npz", ".parquet", ".csv")
_MOST = np.uint64(2**62)


def read_ballots(path: Path) -> tuple[BallotBox, tuple[str, ...]]:
    """Open a file of votes or ballots, and return it with the names of its labels."""
    if path.suffix.lower() == ".npz":
        return _read_arrays(path)
    if path.suffix.lower() == ".parquet":
        return _read_table(path)
    raise SourceError("votes must come in an .npz or a .parquet file", f"{str(path)!r}", "Save them with numpy.savez.")


def _read_arrays(path: Path) -> tuple[BallotBox, tuple[str, ...]]:
    try:
        with np.load(path, allow_pickle=False) as file:
            held = {name: file[name] for name in ("votes", "ballots", "scores") if name in file.files}
    except Exception:
        raise _unreadable(path) from None
    if ("votes" in held) == ("ballots" in held):
        raise SourceError(
            "the file must hold one array, named votes (queries x labels) or ballots (teachers x queries x labels)",
            f"{str(path)!r}",
            "Save it with numpy.savez(file, votes=...).",
        )
    name = "votes" if "votes" in held else "ballots"
    array = held[name]
    axes = 2 if name == "votes" else 3
    if array.ndim != axes:
        raise ColumnTypeError(
            f"{name} must be whole numbers with {axes} axes",
            f"{array.dtype} of shape {array.shape}",
            "Save counts of teachers, or zeros and ones.",
        )
    names = tuple(f"label_{i}" for i in range(array.shape[-1]))
    return BallotBox.of(array, held.get("scores")), names


def _read_table(path: Path) -> tuple[BallotBox, tuple[str, ...]]:
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as file:
            schema = file.schema_arrow
            table = file.read()
    except Exception:
        raise _unreadable(path) from None
    odd = [field.name for field in schema if not pa.types.is_integer(field.type)]
    if odd or not len(schema) or not table.num_rows:
        raise ColumnTypeError(
            "every column must be a label with whole numbers of votes, one row a query",
            ", ".join(map(repr, odd)) or "no column or no row",
            "Leave other columns out.",
        )
    # A missing number is nobody's vote: to refuse it would refuse a cell.
    columns = [_signed(pc.fill_null(column, 0).to_numpy()) for column in table.columns]
    return BallotBox.of(np.column_stack(columns)), tuple(schema.names)


def _signed(column: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """Return one type for all columns; a count beyond every number of teachers stays beyond it."""
    return (np.minimum(column, _MOST) if column.dtype == np.uint64 else column).astype(np.int64)


def _unreadable(path: Path) -> SourceError:
    return SourceError("the votes must be a readable file of plain numbers", f"{str(path)!r}", "Check the path.")


def check_labels_file(path: Path | None, *, needed: bool) -> None:
    """Refuse a file that labels could not be written to; after the release it would be too late."""
    if path is None:
        if needed:
            raise ParameterError(
                "labels must go somewhere: drawn twice, they are paid twice", "no --out", "Pass --out FILE, or --json."
            )
        return
    if path.suffix.lower() not in _LABELS:
        raise ParameterError("labels go to .npz, .parquet or .csv", f"{str(path)!r}", "Try --out labels.npz.")
    if path.is_dir() or not os.access(path if path.exists() else path.absolute().parent, os.W_OK):
        raise ParameterError("labels must go where they can be written", f"{str(path)!r}", "Choose another path.")


def write_labels(path: Path, values: Int8Array, names: Sequence[str], guarantee: str) -> None:
    """Write 1, 0 and missing: -1 in .npz, null in .parquet, nothing in .csv; the guarantee goes along where there is room."""
    if path.suffix.lower() == ".npz":
        np.savez_compressed(path, labels=values, names=np.array(names), guarantee=np.array(guarantee))
        return
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet as pq

    columns = [pa.array(values[:, i], mask=values[:, i] == MISSING) for i in range(values.shape[1])]
    table = pa.Table.from_arrays(columns, names=list(names))
    if path.suffix.lower() == ".parquet":
        pq.write_table(table.replace_schema_metadata({"cutline.guarantee": guarantee}), path)
    else:
        pyarrow.csv.write_csv(table, path)
