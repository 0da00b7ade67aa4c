r"""Logs of users and items: check-ins of Foursquare, Gowalla and Brightkite, and retail baskets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from cutline.errors import ParameterError
from cutline.experiments.datasets import files
from cutline.experiments.datasets.generated import generated_log

if TYPE_CHECKING:
    import pyarrow as pa

_TSMC = ("user", "item", "category_id", "category", "latitude", "longitude", "offset", "time")
_SNAP = ("user", "time", "latitude", "longitude", "item")


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
    """A file as its publisher made it: tab-separated, no header, one row per check-in."""

    file: str
    columns: tuple[str, ...]
    encoding: str
    known: Mapping[str, int]  # rows, users, items
    tolerance: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Log:
    title: str
    publisher: str
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
    original: _Original | None = None


LOGS: Mapping[str, Any] = MappingProxyType(
    {
        "foursquare_nyc": _Log(
            title="Foursquare New York",
            publisher="dataset_TSMC2014_NYC by Yang, Zhang, Zheng and Yu (IEEE TSMC 2015)",
            file="foursquare_nyc.parquet", user="user", item="venue",
            users=1_083, items=38_333, pairs=91_041, top=300,
            remark=" Rebuilt from two public derivatives; no count above four rests on a guess.",
            original=_Original(
                file="dataset_TSMC2014_NYC.txt", columns=_TSMC, encoding="latin1",
                known={"rows": 227_428, "users": 1_083, "items": 38_333},
            ),
        ),
        "foursquare_tky": _Log(
            title="Foursquare Tokyo",
            publisher="dataset_TSMC2014_TKY by Yang, Zhang, Zheng and Yu (IEEE TSMC 2015)",
            file="foursquare_tky_msthn.parquet", user="user", item="venue",
            users=2_173, items=7_037, pairs=101_851, top=1_000,
            subset="the subset of 2,173 of 2,293 users and 7,037 of 61,858 venues used by MSTHN (DASFAA 2023)",
            original=_Original(
                file="dataset_TSMC2014_TKY.txt", columns=_TSMC, encoding="latin1",
                known={"rows": 573_703, "users": 2_293, "items": 61_858},
            ),
        ),
        "brightkite": _Log(
            title="Brightkite",
            publisher="loc-brightkite by Cho, Myers and Leskovec (KDD 2011), in the SNAP collection",
            file="brightkite_sepgcn.parquet", user="user", item="venue",
            users=5_766, items=14_653, pairs=58_372, top=500,
            subset="the subset of 5,766 of 51,406 users and 14,653 of 772,966 venues used by SEP-GCN (ICTIR 2025)",
            original=_Original(
                # Copies differ by a few rows without a place, so the rows are not compared and the rest is nearly.
                file="Brightkite_totalCheckins.txt", columns=_SNAP, encoding="utf8",
                known={"users": 51_406, "items": 772_966}, tolerance=1e-3,
            ),
        ),
        "gowalla": _Log(
            title="Gowalla",
            publisher="loc-gowalla by Cho, Myers and Leskovec (KDD 2011), in the SNAP collection",
            file="gowalla_10core.parquet", user="user", item="venue",
            users=29_858, items=40_981, pairs=1_027_370, top=2_000,
            subset="the 10-core of 29,858 of 107,092 users and 40,981 of 1,280,969 venues",
            original=_Original(
                file="Gowalla_totalCheckins.txt", columns=_SNAP, encoding="utf8",
                known={"rows": 6_442_890, "users": 107_092, "items": 1_280_969}, tolerance=1e-3,
            ),
        ),
        "kuala-lumpur": _Log(
            title="Foursquare Kuala Lumpur",
            publisher="the check-ins of LBSN2Vec by Yang, Qu, Yang and Cudre-Mauroux (WWW 2019)",
            file="lbsn2vec_checkins.parquet", user="user", item="venue", city="KualaLampur",  # spelled so in the file
            users=6_378, items=10_817, pairs=233_500, top=2_000,
        ),
        "fimi_retail": _Log(
            title="Retail baskets",
            publisher="retail by Brijs, Swinnen, Vanhoof and Wets (1999), in the FIMI repository",
            file="fimi_retail.parquet", user="basket", item="item",
            users=88_162, items=16_470, pairs=908_576, top=50_000,
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
    names = [log.file]
    if log.original is not None:
        names = [log.original.file, f"{log.original.file}.gz", log.file]
    path = files.find(data, names, publisher=log.publisher)
    if path.name == log.file:
        return _pairs(name, log, path)
    assert log.original is not None  # noqa: S101 - another name was asked for
    return _checkins(name, log, log.original, path)


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


def _checkins(name: str, log: _Log, original: _Original, path: Path) -> LogData:
    """Read a publisher's file and keep each pair once."""
    rows = files.read_delimited(path, original.columns, ["user", "item"], encoding=original.encoding).drop_null()
    numbers = _numbers(rows)
    files.check_shape(path, numbers, dict(original.known), tolerance=original.tolerance)
    return LogData(
        name=name,
        title=log.title,
        table=rows.group_by(["user", "item"], use_threads=False).aggregate([]),
        note=f"{log.title}: complete, as published; {numbers['users']:,} users, {numbers['items']:,} items. "
        f"Published as {log.publisher}.",
        generated=False,
        users=numbers["users"],
    )


def _numbers(table: pa.Table) -> dict[str, int]:
    import pyarrow.compute as pc

    distinct = {
        what: pc.count_distinct(table[column]).as_py() for what, column in (("users", "user"), ("items", "item"))
    }
    return {"rows": table.num_rows, **distinct}
