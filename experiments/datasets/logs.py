r"""Logs of users and items: check-ins of Foursquare, Gowalla and Brightkite, and retail baskets."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from cutline.errors import ParameterError
from experiments.datasets import files
from experiments.datasets.generated import generated_log
from experiments.datasets.sources import Publication

if TYPE_CHECKING:
    import pyarrow as pa


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
class _Packed:
    """A file of distinct pairs in parquet: of the whole log, or of a subset in common use."""

    file: str
    users: int
    items: int
    pairs: int
    top: int  # about the largest count, to one digit; for generated logs
    columns: tuple[str, str] = ("user", "venue")
    subset: str = ""  # what it is, if it is not the whole log
    remark: str = ""  # how it was made, where that can matter
    city: str | None = None  # the rows to keep, if the file holds several cities


@dataclass(frozen=True, slots=True, kw_only=True)
class _Log:
    """A log and the two forms it can be read in."""

    title: str
    publisher: str
    page: str
    original: _Original
    packed: _Packed

    @property
    def source(self) -> Publication:
        """Its files, the publisher's own first."""
        forms = tuple((name,) for name in (*self.original.names, self.packed.file))
        return Publication(title=self.title, publisher=self.publisher, page=self.page, forms=forms)


def _compressed(*names: str) -> tuple[str, ...]:
    """Return each name with its compressed form, which is what is offered, before it."""
    return tuple(form for name in names for form in (f"{name}.gz", name))


def _foursquare(city: str, code: str, *, rows: int, users: int, items: int, packed: _Packed) -> _Log:
    """Describe the log of a city in the TSMC2014 files: the numbers are those of the whole log."""
    original = _Original(
        names=(f"dataset_TSMC2014_{code}.txt",),
        read=files.read_tsmc,
        known={"rows": rows, "users": users, "items": items},
    )
    return _Log(
        title=f"Foursquare {city}",
        publisher=f"dataset_TSMC2014_{code} by Yang, Zhang, Zheng and Yu (IEEE TSMC 2015)",
        page="the page Foursquare Dataset of Dingqi Yang, archive dataset_tsmc2014.zip",
        original=original,
        packed=packed,
    )


def _snap(name: str, *, known: Mapping[str, int], nowhere: str | None = None, packed: _Packed) -> _Log:
    """Describe a log of the SNAP collection; copies differ by a few rows without a place, so its numbers are met nearly."""
    lower = name.lower()
    original = _Original(
        names=_compressed(f"loc-{lower}_totalCheckins.txt", f"{name}_totalCheckins.txt"),
        read=files.read_snap,
        known=known,
        tolerance=1e-3,
        nowhere=nowhere,
    )
    return _Log(
        title=name,
        publisher=f"loc-{lower} by Cho, Myers and Leskovec (KDD 2011), in the SNAP collection",
        page=f"snap.stanford.edu, page loc-{lower}",
        original=original,
        packed=packed,
    )


LOGS: Mapping[str, _Log] = MappingProxyType(
    {
        "foursquare_nyc": _foursquare(
            "New York", "NYC", rows=227_428, users=1_083, items=38_333,
            packed=_Packed(
                file="foursquare_nyc.parquet", users=1_083, items=38_333, pairs=91_041, top=300,
                remark=" Rebuilt from two public derivatives; no count above four rests on a guess.",
            ),
        ),
        "foursquare_tky": _foursquare(
            "Tokyo", "TKY", rows=573_703, users=2_293, items=61_858,
            packed=_Packed(
                file="foursquare_tky_msthn.parquet", users=2_173, items=7_037, pairs=101_851, top=1_000,
                subset="the subset of 2,173 of 2,293 users and 7,037 of 61,858 venues used by MSTHN (DASFAA 2023)",
            ),
        ),
        "brightkite": _snap(
            "Brightkite", known={"users": 51_406, "items": 772_966}, nowhere="^0+$",
            packed=_Packed(
                file="brightkite_sepgcn.parquet", users=5_766, items=14_653, pairs=58_372, top=500,
                subset="the subset of 5,766 of 51,406 users and 14,653 of 772,966 venues used by SEP-GCN (ICTIR 2025)",
            ),
        ),
        "gowalla": _snap(
            "Gowalla", known={"rows": 6_442_890, "users": 107_092, "items": 1_280_969},
            packed=_Packed(
                file="gowalla_10core.parquet", users=29_858, items=40_981, pairs=1_027_370, top=2_000,
                subset="the 10-core of 29,858 of 107,092 users and 40,981 of 1,280,969 venues",
            ),
        ),
        "kuala-lumpur": _Log(
            title="Foursquare Kuala Lumpur",
            publisher="the check-ins of LBSN2Vec by Yang, Qu, Yang and Cudre-Mauroux (WWW 2019)",
            page="GitHub, repository eXascaleInfolab/LBSN2Vec",
            original=_Original(
                names=("dataset_connected_KualaLampur.mat",), read=files.read_lbsn,
                known={"rows": 526_405, "users": 6_378, "items": 10_817},
            ),
            packed=_Packed(
                file="lbsn2vec_checkins.parquet", users=6_378, items=10_817, pairs=233_500, top=2_000,
                city="KualaLampur",  # spelled so in the file
            ),
        ),
        "fimi_retail": _Log(
            title="Retail baskets",
            publisher="retail by Brijs, Swinnen, Vanhoof and Wets (1999), in the FIMI repository",
            page="the Frequent Itemset Mining Dataset Repository (FIMI) of the University of Antwerp, page data",
            original=_Original(
                names=_compressed("retail.dat"), read=files.read_baskets,
                known={"rows": 908_576, "users": 88_162, "items": 16_470},
            ),
            packed=_Packed(
                file="fimi_retail.parquet", users=88_162, items=16_470, pairs=908_576, top=50_000,
                columns=("basket", "item"),
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
    log = LOGS[name]
    packed = log.packed
    if data is None:
        return LogData(
            name=name,
            title=f"{log.title} (generated)",
            table=generated_log(name, users=packed.users, items=packed.items, pairs=packed.pairs, top=packed.top),
            note=f"{log.title}: a generated log with the same numbers of users, items and pairs; no real data.",
            generated=True,
            users=packed.users,
        )
    (path,) = log.source.find(data)
    return _pairs(name, log, path) if path.name == packed.file else _complete(name, log, path)


def _pairs(name: str, log: _Log, path: Path) -> LogData:
    """Read a file of distinct pairs."""
    import pyarrow.compute as pc

    packed = log.packed
    table = files.read_parquet(path, packed.columns if packed.city is None else [*packed.columns, "city"])
    if packed.city is not None:
        table = table.filter(pc.equal(table["city"], packed.city)).drop_columns(["city"])
    table = table.rename_columns(["user", "item"])
    files.check_shape(path, _numbers(table), {"rows": packed.pairs, "users": packed.users, "items": packed.items})
    what = f"{packed.subset}, a data set of its own" if packed.subset else "complete"
    return LogData(
        name=name,
        title=f"{log.title} (subset)" if packed.subset else log.title,
        table=table,
        note=f"{log.title}: {what}; {packed.users:,} users, {packed.items:,} items. "
        f"Published as {log.publisher}.{packed.remark}",
        generated=False,
        users=packed.users,
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
