r"""Votes in and labels out, as files: .npz and .parquet to read, .npz, .parquet and .csv to write.

Names, types and shapes of what a file holds are public; what its cells say is not, and no cell can make a file refused.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from cutline.arrays import Int8Array
from cutline.errors import ColumnTypeError, ParameterError, SourceError
from cutline.pate.label import BallotBox
from cutline.pate.labels import MISSING

_LABELS = (".npz", ".parquet", ".csv")
_MOST = np.uint64(2**62)


def read_ballots(path: Path, teachers: int | None = None) -> tuple[BallotBox, tuple[str, ...], int | None]:
    """Open a file of votes or ballots, and return it with its labels' names and the number of teachers, if it is known."""
    if path.suffix.lower() in (".npz", ".parquet") and not os.path.exists(path):  # false for impossible names too
        raise SourceError("the file of votes must be there", f"no file {str(path)!r}", "Check the path.")
    if path.suffix.lower() == ".npz":
        return _read_arrays(path, teachers)
    if path.suffix.lower() == ".parquet":
        return *_read_table(path), teachers
    raise SourceError("votes must come in an .npz or a .parquet file", f"{str(path)!r}", "Save them with numpy.savez.")


def _read_arrays(path: Path, teachers: int | None) -> tuple[BallotBox, tuple[str, ...], int | None]:
    try:
        with np.load(path, allow_pickle=False) as file:
            held = {name: file[name] for name in ("votes", "ballots", "scores", "teachers") if name in file.files}
    except Exception:
        raise _unreadable(path) from None
    if ("votes" in held) == ("ballots" in held):
        raise SourceError(
            "the file must hold one array, named votes (queries x labels) or ballots (teachers x queries x labels)",
            f"{', '.join(held) or 'neither'} in {str(path)!r}",
            "Save it with numpy.savez(file, votes=..., teachers=...) or numpy.savez(file, ballots=..., scores=...).",
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
    return BallotBox.of(array, held.get("scores")), names, _agree_teachers(held.get("teachers"), teachers)


def _agree_teachers(saved: npt.NDArray[Any] | None, told: int | None) -> int | None:
    """Return how many teachers there are: a public number, from the file or from the caller."""
    if saved is None:
        return told
    if saved.shape != () or saved.dtype.kind not in "iu":
        raise ColumnTypeError(
            "teachers must be one whole number", f"{saved.dtype} of shape {saved.shape}", "Save it so."
        )
    if told not in (None, int(saved)):
        raise ParameterError(
            "the file says how many teachers voted, and that is how many there are",
            f"{told}, and {int(saved)} in the file",
            "Leave --teachers out.",
        )
    return int(saved)


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


def check_labels_file(path: Path | None, *, needed: bool, votes: Path, ledger: str | None) -> None:
    """Refuse a file that labels could not be written to, or that is the votes' or the ledger's, by whatever name or link.

    After the release it would be too late.
    """
    if path is None:
        if needed:
            raise ParameterError(
                "labels must go somewhere: drawn twice, they are paid twice", "no --out", "Pass --out FILE, or --json."
            )
        return
    if path.suffix.lower() not in _LABELS:
        raise ParameterError("labels go to .npz, .parquet or .csv", f"{str(path)!r}", "Try --out labels.npz.")
    kept = [each for each in (votes, _ledger_file(ledger)) if each is not None]
    try:
        taken = path.exists()
        regular = path.is_file() or not taken
        writable = os.access(path.resolve().parent, os.W_OK | os.X_OK) and (not taken or os.access(path, os.W_OK))
        same = taken and any(path.samefile(each) for each in kept if each.exists())
    except (OSError, RuntimeError, ValueError):  # a name that is too long, or a link to itself
        regular = writable = same = False
    if same:
        raise ParameterError(
            "labels must not go over the votes or the ledger", f"{str(path)!r}", "Choose another name."
        )
    if not (regular and writable):
        raise ParameterError("labels must go where they can be written", f"{str(path)!r}", "Choose another path.")


def _ledger_file(address: str | None) -> Path | None:
    if address is None:
        return None
    from cutline.ledger.database import Database

    return Database(address).path


def write_labels(path: Path, values: Int8Array, names: Sequence[str], guarantee: str) -> ParameterError | None:
    """Write 1, 0 and missing: -1 in .npz, null in .parquet, nothing in .csv; the guarantee goes along where there is room.

    The file appears under exactly this name, whole or not at all: what was there stays until all is written. Labels are paid
    for by now, so a file that cannot be written is returned as an error and not raised.
    """
    target = path.resolve()  # a symbolic link stays one
    draft = target.with_name(f".{os.urandom(8).hex()}.part")
    try:
        with draft.open("xb") as file:
            _write(file, path.suffix.lower(), values, names, guarantee)
            file.flush()
            os.fsync(file.fileno())
        if target.exists():
            shutil.copymode(target, draft)
        draft.replace(target)
    except Exception:
        with suppress(OSError):
            draft.unlink(missing_ok=True)
    else:
        return None
    return ParameterError(
        "the labels are paid for, but their file could not be written", f"{str(path)!r}", "Keep what is printed."
    )


def _write(file: BinaryIO, kind: str, values: Int8Array, names: Sequence[str], guarantee: str) -> None:
    if kind == ".npz":  # given a name, numpy would add to it
        np.savez_compressed(file, labels=values, names=np.array(names), guarantee=np.array(guarantee))
        return
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet as pq

    columns = [pa.array(values[:, i], mask=values[:, i] == MISSING) for i in range(values.shape[1])]
    table = pa.Table.from_arrays(columns, names=list(names))
    if kind == ".parquet":
        pq.write_table(table.replace_schema_metadata({"cutline.guarantee": guarantee}), file)
    else:
        pyarrow.csv.write_csv(table, file)


def read_examples(path: Path) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Return public features and labels, the arrays X and y of an .npz file."""
    try:
        with np.load(path, allow_pickle=False) as file:
            return file["X"], file["y"]
    except Exception:
        raise SourceError(
            "public examples must be an .npz file with arrays named X and y",
            f"{str(path)!r}",
            "Save it with numpy.savez.",
        ) from None
