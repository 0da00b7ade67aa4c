r"""Logs of users and items: check-ins of Foursquare, Gowalla and Brightkite, and retail baskets."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from cutline.errors import ParameterError
from experiments.datasets import files
from experiments.datasets.generated import generated_log
from experiments.datasets.originals import read_baskets, read_lbsn, read_snap, read_tsmc
from experiments.datasets.sources import Source

if TYPE_CHECKING:
    import pyarrow as pa

_YANG = "the page Foursquare Dataset of Dingqi Yang"
_SNAP = "snap.stanford.edu"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False, eq=False)
class LogData:
    """Distinct (user, item) pairs, and where they come from."""

    name: str
    title: str  # says when the log is generated or a subset
    table: pa.Table  # columns user and item, no pair twice
    note: str
    generated: bool
    users: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Original:
    """A file as its publisher made it."""

    names: tuple[str, ...]  # the publisher's own first
    read: Callable[[Path], pa.Table]  # rows of user and item
    known: Mapping[str, int]  # rows, users, items
    tolerance: float = 0.0
    nowhere: str | None = None  # the pattern of items that stand for none; the known numbers count them


@dataclass(frozen=True, slots=True, kw_only=True)
class _Log:
    title: str
    publisher: str
    page: str
    original: _Original
    file: str  # distinct pairs in parquet
    user: str
    item: str
    users: int
    items: int
    pairs: int
    top: int  # about the largest count, to one digit; for generated logs
    subset: str = ""  # what the parquet file is, if it is not the whole data set
    remark: str = ""  # how the parquet file was made, where that can matter
    city: str | None = None

    @property
    def source(self) -> Source:
        forms = tuple((name,) for name in (*self.original.names, self.file))
        return Source(title=self.title, publisher=self.publisher, page=self.page, forms=forms)


def _compressed(*names: str) -> tuple[str, ...]:
    """Return each name with its compressed form, which is what is offered, before it."""
    return tuple(form for name in names for form in (f"{name}.gz", name))


LOGS: Mapping[str, Any] = MappingProxyType(
    {
        "foursquare_nyc": _Log(
            title="Foursquare New York",
            publisher="dataset_TSMC2014_NYC by Yang, Zhang, Zheng and Yu (IEEE TSMC 2015)",
            page=f"{_YANG}, archive dataset_tsmc2014.zip",
            file="foursquare_nyc.parquet", user="user", item="venue",
            users=1_083, items=38_333, pairs=91_041, top=300,
            remark=" Rebuilt from two public derivatives; no count above four rests on a guess.",
            original=_Original(
                names=("dataset_TSMC2014_NYC.txt",), read=read_tsmc,
                known={"rows": 227_428, "users": 1_083, "items": 38_333},
            ),
        ),
        "foursquare_tky": _Log(
            title="Foursquare Tokyo",
            publisher="dataset_TSMC2014_TKY by Yang, Zhang, Zheng and Yu (IEEE TSMC 2015)",
            page=f"{_YANG}, archive dataset_tsmc2014.zip",
            file="foursquare_tky_msthn.parquet", user="user", item="venue",
            users=2_173, items=7_037, pairs=101_851, top=1_000,
            subset="the subset of 2,173 of 2,293 users and 7,037 of 61,858 venues used by MSTHN (DASFAA 2023)",
            original=_Original(
                names=("dataset_TSMC2014_TKY.txt",), read=read_tsmc,
                known={"rows": 573_703, "users": 2_293, "items": 61_858},
            ),
        ),
        "brightkite": _Log(
            title="Brightkite",
            publisher="loc-brightkite by Cho, Myers and Leskovec (KDD 2011), in the SNAP collection",
            page=f"{_SNAP}, page loc-brightkite",
            file="brightkite_sepgcn.parquet", user="user", item="venue",
            users=5_766, items=14_653, pairs=58_372, top=500,
            subset="the subset of 5,766 of 51,406 users and 14,653 of 772,966 venues used by SEP-GCN (ICTIR 2025)",
            original=_Original(
                # Copies differ by a few rows without a place, so the rows are not compared and the rest is nearly.
                names=_compressed("loc-brightkite_totalCheckins.txt", "Brightkite_totalCheckins.txt"), read=read_snap,
                known={"users": 51_406, "items": 772_966}, tolerance=1e-3, nowhere="^0+$",
            ),
        ),
        "gowalla": _Log(
            title="Gowalla",
            publisher="loc-gowalla by Cho, Myers and Leskovec (KDD 2011), in the SNAP collection",
            page=f"{_SNAP}, page loc-gowalla",
            file="gowalla_10core.parquet", user="user", item="venue",
            users=29_858, items=40_981, pairs=1_027_370, top=2_000,
            subset="the 10-core of 29,858 of 107,092 users and 40,981 of 1,280,969 venues",
            original=_Original(
                names=_compressed("loc-gowalla_totalCheckins.txt", "Gowalla_totalCheckins.txt"), read=read_snap,
                known={"rows": 6_442_890, "users": 107_092, "items": 1_280_969}, tolerance=1e-3,
            ),
        ),
        "kuala-lumpur": _Log(
            title="Foursquare Kuala Lumpur",
            publisher="the check-ins of LBSN2Vec by Yang, Qu, Yang and Cudre-Mauroux (WWW 2019)",
            page="GitHub, repository eXascaleInfolab/LBSN2Vec",
            file="lbsn2vec_checkins.parquet", user="user", item="venue", city="KualaLampur",  # spelled so in the file
            users=6_378, items=10_817, pairs=233_500, top=2_000,
            original=_Original(
                names=("dataset_connected_KualaLampur.mat",), read=read_lbsn,
                known={"rows": 526_405, "users": 6_378, "items": 10_817},
            ),
        ),
        "fimi_retail": _Log(
            title="Retail baskets",
            publisher="retail by Brijs, Swinnen, Vanhoof and Wets (1999), in the FIMI repository",
            page="the Frequent Itemset Mining Dataset Repository (FIMI) of the University of Antwerp, page data",
            file="fimi_retail.parquet", user="basket", item="item",
            users=88_162, items=16_470, pairs=908_576, top=50_000,
            original=_Original(
                names=_compressed("retail.dat"), read=read_baskets,
                known={"rows": 908_576, "users": 88_162, "items": 16_470},
            ),
        ),
    }
)  # fmt: skip


def load_log(name: str, data: Path | None) -> LogData:
    """Return a log by name: from the directory, the publisher's own file first, or generated if there is no directory.

    Raises
    ------
    SourceError
        If a directory is given and the file is missing, cannot be read, or is not the known data set.

    Examples
    --------
    >>> log = load_log("foursquare_nyc", None)
    >>> log.title, log.users, log.generated
    ('Foursquare New York (generated)', 1083, True)
    """
    if name not in LOGS:
        raise ParameterError("the log must be a known one", f"{name!r}", f"Known: {', '.join(LOGS)}.")
    log: _Log = LOGS[name]
    if data is None:
        return LogData(
            name=name,
            title=f"{log.title} (generated)",
            table=generated_log(name, users=log.users, items=log.items, pairs=log.pairs, top=log.top),
            note=f"{log.title}: a generated log with the same numbers of users, items and pairs; no real data.",
            generated=True,
            users=log.users,
        )
    (path,) = log.source.find(data)
    return _pairs(name, log, path) if path.name == log.file else _complete(name, log, path)


def _pairs(name: str, log: _Log, path: Path) -> LogData:
    """Read a file of distinct pairs."""
    import pyarrow.compute as pc

    columns = [log.user, log.item]
    table = files.read_parquet(path, columns if log.city is None else [*columns, "city"])
    if log.city is not None:
        table = table.filter(pc.equal(table["city"], log.city)).drop_columns(["city"])
    table = table.rename_columns(["user", "item"])
    files.check_shape(path, _numbers(table), {"rows": log.pairs, "users": log.users, "items": log.items})
    what = f"{log.subset}, a data set of its own" if log.subset else "complete"
    return LogData(
        name=name,
        title=f"{log.title} (subset)" if log.subset else log.title,
        table=table,
        note=f"{log.title}: {what}; {log.users:,} users, {log.items:,} items. Published as {log.publisher}.{log.remark}",
        generated=False,
        users=log.users,
    )


def _complete(name: str, log: _Log, path: Path) -> LogData:
    """Read a publisher's file, leave out what stands for no item, and keep each pair once."""
    rows = log.original.read(path)
    files.check_shape(path, _numbers(rows), dict(log.original.known), tolerance=log.original.tolerance)
    rows, remark = _without_nowhere(rows, log.original.nowhere)
    numbers = _numbers(rows)
    return LogData(
        name=name,
        title=log.title,
        table=rows.group_by(["user", "item"], use_threads=False).aggregate([]),
        note=f"{log.title}: complete, as published; {numbers['users']:,} users, {numbers['items']:,} items. "
        f"Published as {log.publisher}.{remark}",
        generated=False,
        users=numbers["users"],
    )


def _without_nowhere(rows: pa.Table, nowhere: str | None) -> tuple[pa.Table, str]:
    """Return the rows that name an item, and a remark if there are others."""
    import pyarrow.compute as pc

    if nowhere is None:
        return rows, ""
    kept = rows.filter(pc.invert(pc.match_substring_regex(rows["item"], nowhere)))
    left = rows.num_rows - kept.num_rows
    return kept, f" Left out: {left:,} rows whose place is all zeros, which stands for none." if left else ""


def _numbers(table: pa.Table) -> dict[str, int]:
    import pyarrow.compute as pc

    distinct = {
        what: pc.count_distinct(table[column]).as_py() for what, column in (("users", "user"), ("items", "item"))
    }
    return {"rows": table.num_rows, **distinct}
