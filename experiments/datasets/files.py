r"""Reading data files: what is missing or misshapen is refused in one sentence, without quoting a row."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cutline.errors import SourceError

if TYPE_CHECKING:
    import pyarrow as pa


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

    import numpy as np

    try:
        with np.load(path, allow_pickle=False) as arrays:
            missing = sorted(set(keys) - set(arrays.files))
            if not missing:
                return {key: arrays[key] for key in keys}
    except (OSError, ValueError, zipfile.BadZipFile):
        raise SourceError("the file must be a readable npz", f"{path.name!r}", "Fetch it again.") from None
    raise SourceError("the file must hold its arrays", f"{path.name!r} without {', '.join(missing)}", "Fetch it again.")


def check_shape(path: Path, found: dict[str, int], known: dict[str, int], *, tolerance: float = 0.0) -> None:
    """Refuse a file whose numbers (of public data sets, printed by their publishers) are not the known ones."""
    for what, number in known.items():
        if not math.isclose(found[what], number, rel_tol=tolerance):
            raise SourceError(
                f"the file must have the {what} of the published data set, {number:,}",
                f"{found[what]:,} in {path.name!r}",
                "It may be cut short or another version: fetch it again.",
            )
