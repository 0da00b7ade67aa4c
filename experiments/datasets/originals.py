r"""Logs as their publishers made them, read into rows of user and item: tabs, baskets, and MATLAB."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from cutline.errors import SourceError
from experiments.datasets import files

if TYPE_CHECKING:
    import pyarrow as pa

_TSMC = ("user", "item", "category_id", "category", "latitude", "longitude", "offset", "time")
_SNAP = ("user", "time", "latitude", "longitude", "item")
_LBSN = "selected_checkins"  # columns: user, hour of the week, venue, category of the venue


def read_tsmc(path: Path) -> pa.Table:
    """Read Foursquare's check-ins of the TSMC2014 files: eight columns between tabs, in Latin-1."""
    return files.read_delimited(path, _TSMC, ["user", "item"], encoding="latin1").drop_null()


def read_snap(path: Path) -> pa.Table:
    """Read the check-ins of a SNAP file: five columns between tabs; a row that names nothing but a user is passed over."""
    import pyarrow.compute as pc

    rows = files.read_delimited(path, _SNAP, ["user", "item"])
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
