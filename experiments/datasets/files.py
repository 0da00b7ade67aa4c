r"""Reading data files, in the common forms and in their publishers' own.

What is missing or misshapen is refused in one sentence, without quoting a row.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from cutline.errors import SourceError

if TYPE_CHECKING:
    import pyarrow as pa

_TSMC = ("user", "item", "category_id", "category", "latitude", "longitude", "offset", "time")
_SNAP = ("user", "time", "latitude", "longitude", "item")
_LBSN = "selected_checkins"  # columns: user, hour of the week, venue, category of the venue


def read_parquet(path: Path, columns: Sequence[str]) -> pa.Table:
    """Read some columns of a parquet file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        schema = pq.read_schema(path)
        missing = sorted(set(columns) - set(schema.names))
        if not missing:
            return pq.read_table(path, columns=list(columns))
    except (OSError, pa.ArrowException):
        raise SourceError("the file must be readable parquet", f"{path.name!r}", "Fetch it again.") from None
    raise SourceError(
        "the file must hold its columns", f"{path.name!r} without {', '.join(missing)}", "Fetch it again."
    )


def read_delimited(path: Path, columns: Sequence[str], wanted: Sequence[str], *, encoding: str = "utf8") -> pa.Table:
    """Read some columns, as text, of a tab-separated file without a header; gzip is undone by the file's ending.

    A row of one word, whatever blanks follow it, says nothing and is passed over; any other row must have all columns.
    """
    import pyarrow as pa
    from pyarrow import csv

    try:
        return csv.read_csv(
            path,
            read_options=csv.ReadOptions(column_names=list(columns), encoding=encoding),
            parse_options=csv.ParseOptions(
                delimiter="\t",
                quote_char=False,
                invalid_row_handler=lambda row: "skip" if len(row.text.split()) <= 1 else "error",
            ),
            convert_options=csv.ConvertOptions(
                include_columns=list(wanted),
                column_types=dict.fromkeys(columns, pa.string()),
                null_values=[""],
                strings_can_be_null=True,
            ),
        )
    except (OSError, pa.ArrowException):
        raise SourceError(
            f"the file must have {len(columns)} columns between tabs", f"{path.name!r}", "Fetch it again."
        ) from None


def read_npz(path: Path, keys: Sequence[str]) -> dict[str, Any]:
    """Read some arrays of an npz file; nothing in it is unpickled."""
    import zipfile

    try:
        with np.load(path, allow_pickle=False) as arrays:
            missing = sorted(set(keys) - set(arrays.files))
            if not missing:
                return {key: arrays[key] for key in keys}
    except (OSError, ValueError, zipfile.BadZipFile):
        raise SourceError("the file must be a readable npz", f"{path.name!r}", "Fetch it again.") from None
    raise SourceError("the file must hold its arrays", f"{path.name!r} without {', '.join(missing)}", "Fetch it again.")


def read_tsmc(path: Path) -> pa.Table:
    """Read Foursquare's check-ins of the TSMC2014 files: eight columns between tabs, in Latin-1."""
    return read_delimited(path, _TSMC, ["user", "item"], encoding="latin1").drop_null()


def read_snap(path: Path) -> pa.Table:
    """Read the check-ins of a SNAP file: five columns between tabs; a row that names nothing but a user is passed over."""
    import pyarrow.compute as pc

    rows = read_delimited(path, _SNAP, ["user", "item"])
    item = pc.utf8_trim_whitespace(rows["item"])
    return rows.set_column(1, "item", item).filter(pc.not_equal(item, "")).drop_null()


def read_baskets(path: Path) -> pa.Table:
    """Read a FIMI file: one basket a line, item numbers between blanks. A basket is known by the number of its line."""
    import gzip
    import zlib

    import pyarrow as pa

    try:
        text = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        baskets = [line.split() for line in text.splitlines()]
        item = np.array([number for basket in baskets for number in basket], dtype=bytes).astype(np.int64)
    except (OSError, EOFError, ValueError, OverflowError, zlib.error):
        raise SourceError(
            "the file must hold one basket a line, item numbers between blanks", f"{path.name!r}", "Fetch it again."
        ) from None
    return pa.table({"user": np.repeat(np.arange(len(baskets)), [len(basket) for basket in baskets]), "item": item})


def read_lbsn(path: Path) -> pa.Table:
    """Read the check-ins of a LBSN2Vec file: a MATLAB matrix with the user in its first column and the venue in its third."""
    import zlib

    import pyarrow as pa
    from scipy.io import loadmat
    from scipy.io.matlab import MatReadError

    try:
        rows = np.asarray(loadmat(path, variable_names=[_LBSN])[_LBSN])
    except (OSError, KeyError, TypeError, ValueError, NotImplementedError, MatReadError, zlib.error):
        raise SourceError(
            f"the file must be a MATLAB file, older than version 7.3, with the matrix {_LBSN}",
            f"{path.name!r}",
            "Fetch it again.",
        ) from None
    shaped = rows.ndim == 2 and rows.shape[1] == 4 and rows.dtype.kind in "iuf"
    if not shaped or not (np.isfinite(rows) & (rows == np.rint(rows))).all():
        raise SourceError(
            f"the matrix {_LBSN} must have four columns of whole numbers", f"{path.name!r}", "Fetch it again."
        )
    return pa.table({"user": rows[:, 0].astype(np.int64), "item": rows[:, 2].astype(np.int64)})


def check_shape(path: Path, found: dict[str, int], known: dict[str, int], *, tolerance: float = 0.0) -> None:
    """Refuse a file whose numbers (of public data sets, printed by their publishers) are not the known ones."""
    for what, number in known.items():
        if not math.isclose(found[what], number, rel_tol=tolerance):
            raise SourceError(
                f"the file must have the {what} of the published data set, {number:,}",
                f"{found[what]:,} in {path.name!r}",
                "It may be cut short or another version: fetch it again.",
            )
