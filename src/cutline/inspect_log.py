r"""What is in a log, for the eyes of its owner: private facts, shown on a terminal and nowhere else.

This is the one room whose results are not differentially private. They help an owner to find out why a log counts less than it
should: rows without a user, rows that cannot be read, names in two spellings. A bound, k, epsilon, filter or candidate list
that is chosen from them is not covered by any guarantee, and the first line says so.
"""

from __future__ import annotations

import gzip
import json
from codecs import BOM_UTF8
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, NoReturn, SupportsIndex, cast

from cutline.counting.engines.duck.engine import Engine, FoundFiles
from cutline.counting.engines.duck.files import Parquet
from cutline.counting.engines.duck.long_rows import Rows, split_rows
from cutline.counting.engines.duck.records import Lines, Objects, split
from cutline.counting.engines.duck.text_files import Csv, Json
from cutline.counting.engines.duck.votes import Table, bind_table, open_table
from cutline.counting.question import Progress, ask

WARNING = (
    "PRIVATE, for the owner's eyes: a bound, k, epsilon, filter or candidate list chosen from this page is not covered by any "
    "guarantee."
)
_SHARES = {"least": 0.0, "25 %": 0.25, "median": 0.5, "75 %": 0.75, "90 %": 0.9, "99 %": 0.99, "most": 1.0}
_REASONS = {  # DuckDB's names for why a row of CSV is left out
    "INVALID ENCODING": "not UTF-8",
    "LINE SIZE OVER MAXIMUM": "longer than 2 MB, or a quote that is never closed",
    "MISSING COLUMNS": "too few cells",
    "UNQUOTED VALUE": "a quote that is never closed",
}
_OTHER_REASON = "not a row of this file's form"
_TOO_LONG = "longer than 2 MB"
# Names without their spaces, of any script, and without case.
_BARE = r"lower(regexp_replace(CAST({0} AS VARCHAR), '[\s\p{{Z}}]+', '', 'g'))"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False, eq=False)
class Inspection:
    """Private facts about a log; they are printed to a terminal, and refuse to be pickled."""

    rows: int  # that could be read
    counted: int  # of them, those that count
    skipped: Mapping[str, int]  # readable rows that do not count, by reason
    unreadable: Mapping[str, int]  # by reason
    quoted_lines: int  # that stand inside quoted cells of CSV, and are no rows of their own
    never_closed: int  # files of CSV that end inside a quoted cell
    source: str  # the format and the encoding
    users: int
    items: int
    items_per_user: Mapping[str, int]  # quantiles; empty if nobody counts
    alike: Mapping[str, int]  # how many users, and items, differ from another only in case or spaces

    def facts(self) -> dict[str, str]:
        """Return names and sentences for the screen."""
        per_user = ", ".join(f"{name} {value:,}" for name, value in self.items_per_user.items())
        alike = {name: number for name, number in self.alike.items() if number}
        return {
            "rows": f"{self.rows:,} could be read, {self.counted:,} of them count",
            "skipped": _in_words(self.skipped),
            "unreadable": _in_words(self.unreadable),
            **({"in quotes": self._in_quotes()} if self.quoted_lines or self.never_closed else {}),
            "encoding": self.source,
            "users": f"{self.users:,}",
            "items": f"{self.items:,}",
            "items per user": per_user or "nobody counts",
            "spelling": "; ".join(
                f"{number:,} {name} differ from another only in case or spaces" for name, number in alike.items()
            )
            or "no two items, and no two users, differ only in case or spaces",
        }

    def _in_quotes(self) -> str:
        lines = f"{self.quoted_lines:,} line(s) stand inside quoted cells, and are no rows of their own"
        unclosed = f"{self.never_closed:,} file(s) end inside a quote that is never closed: it took the rows after it"
        return f"{lines}; {unclosed}" if self.never_closed else lines

    def __repr__(self) -> str:
        return "Inspection()"

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        raise TypeError("An inspection is private data and is not pickled.")


def _in_words(reasons: Mapping[str, int]) -> str:
    found = {reason: number for reason, number in reasons.items() if number}
    if not found:
        return "none"
    total = f"{sum(found.values()):,}: " if len(found) > 1 else ""
    return total + ", ".join(f"{number:,} {reason}" for reason, number in found.items())


def inspect(
    source: Any,
    *,
    user: str,
    item: str,
    where: str | None = None,
    format: str | None = None,
    memory_limit: str | None = None,
    progress: Progress | None = None,
) -> Inspection:
    """Read a log as `cutline.count` reads it, and return private facts about it; the parameters are those of `cutline.count`.

    **Privacy.** None. Whoever runs it must be allowed to see the log itself.
    """
    question = ask(user=user, item=item, where=where, format=format, memory_limit=memory_limit)
    table = open_table(source, format)
    watched = _Watched(found=table.found, form=table.form, zipped=table.zipped) if isinstance(table, Csv) else table
    votes = bind_table(watched, question)
    with votes.show(progress) as engine:
        (who, _), (what, _) = votes.values["user"], votes.values["item"]
        kept = "true" if votes.condition is None else f"coalesce({votes.condition}, false)"
        # The one look at the log: what cannot be read is noticed here.
        engine.run(f"CREATE TEMP TABLE seen AS SELECT {who} AS u, {what} AS i, {kept} AS kept FROM log", until=0.7)
        ((rows, nobody, nothing, neither, filtered),) = engine.rows(
            "SELECT count(*), count(*) FILTER (u IS NULL AND i IS NOT NULL), count(*) FILTER (u IS NOT NULL AND i IS NULL), "
            "count(*) FILTER (u IS NULL AND i IS NULL), count(*) FILTER (u IS NOT NULL AND i IS NOT NULL AND NOT kept) "
            "FROM seen"
        )
        engine.run(
            "CREATE TEMP TABLE pairs AS SELECT DISTINCT u, i FROM seen WHERE u IS NOT NULL AND i IS NOT NULL AND kept"
        )
        shares = ", ".join(str(share) for share in _SHARES.values())
        ((users, quantiles),) = engine.rows(
            f"SELECT count(*), quantile_disc(n, [{shares}]) FROM (SELECT count(*) AS n FROM pairs GROUP BY u)"
        )
        ((items,),) = engine.rows("SELECT count(DISTINCT i) FROM pairs")
        unreadable, followed = _count_unreadable(engine, table)
        return Inspection(
            rows=rows,
            counted=rows - nobody - nothing - neither - filtered,
            skipped={
                "without a user": nobody,
                "without an item": nothing,
                "without both": neither,
                "left out by the filter": filtered,
            },
            unreadable=unreadable,
            quoted_lines=sum(each.quoted_lines for each in followed),
            never_closed=sum(each.open for each in followed),
            source=_describe(table, [kind for _, kind in votes.values.values()]),
            users=users,
            items=items,
            items_per_user=dict(zip(_SHARES, quantiles or (), strict=False)),
            alike={"items": _count_alike(engine, "i"), "users": _count_alike(engine, "u")},
        )


class _Watched(Csv):
    """CSV files whose reader notes which rows it leaves out, and why."""

    __slots__ = ()

    def scan(self, engine: Engine, wanted: Sequence[str], /) -> str:
        return Csv.scan(self, engine, wanted).replace("ignore_errors=true", "ignore_errors=true, store_rejects=true")


def _count_alike(engine: Engine, column: str) -> int:
    """Return how many names differ from another only in case or spaces."""
    ((number,),) = engine.rows(
        f"SELECT coalesce(sum(n), 0) FROM (SELECT count(*) AS n FROM (SELECT DISTINCT {column} AS name FROM pairs) "
        f"GROUP BY {_BARE.format('name')} HAVING count(*) > 1)"
    )
    return int(number)


def _count_unreadable(engine: Engine, table: Table) -> tuple[dict[str, int], list[Rows]]:
    """Return how many rows of a text file could not be read, by reason; other sources have cells, not rows, of that kind.

    The second has followed the quotes of each CSV file: a quote that is not closed takes the rows up to the next one with it.
    """
    reasons: Counter[str] = Counter()
    followed: list[Rows] = []
    if isinstance(table, Csv):
        noted = engine.rows(
            "SELECT reason, count(*) FROM (SELECT min(CAST(error_type AS VARCHAR)) AS reason FROM reject_errors "
            "GROUP BY file_id, line) GROUP BY reason ORDER BY reason"
        )
        for reason, number in noted:
            reasons[_REASONS.get(reason, _OTHER_REASON)] += number
        delimiter = "\t" if table.form == "tsv" else ","
        for file in _open_each(table):
            followed.append(Rows(delimiter))
            reasons[_TOO_LONG] += sum(piece is None for piece in split_rows(file, delimiter, followed[-1]))
    elif isinstance(table, Json):
        for file in _open_each(table):
            for records in split(file, Lines() if table.form == "jsonl" else Objects()):
                reasons.update(filter(None, map(_why_no_record, records)))
    return dict(reasons), followed


def _open_each(table: FoundFiles) -> Iterator[BinaryIO]:
    for path in table.found:
        with cast(BinaryIO, (gzip.open if table.zipped else open)(path, "rb")) as file:
            yield file


def _why_no_record(stored: bytes) -> str | None:
    """Return why a record is missing; None if it is not, or if there is nothing where one could be."""
    if not stored.strip():
        return None
    try:
        return None if type(json.loads(stored.decode())) is dict else "not an object of JSON"
    except UnicodeDecodeError:
        return "not UTF-8"
    except (ValueError, RecursionError):
        return "not JSON"


def _describe(table: Table, kinds: Sequence[str]) -> str:
    """Return the form of a log, and the encoding of text."""
    declared = f"user as {kinds[0]}, item as {kinds[1]}"
    if isinstance(table, Parquet):
        return f"parquet, {declared}; a cell that its type does not allow, or text that is not UTF-8, counts as missing"
    if not isinstance(table, FoundFiles):
        return f"a table in memory, {declared}"
    marked = sum(file.read(len(BOM_UTF8)) == BOM_UTF8 for file in _open_each(table))
    size = sum(Path(path).stat().st_size for path in table.found)
    packed = ", packed by gzip" if table.zipped else ""
    mark = f", {marked} of {len(table.found)} files with a byte-order mark" if marked else ""
    return (
        f"{table.form}{packed}, {len(table.found)} file(s) of {size:,} bytes, read as UTF-8{mark}; all values are text"
    )
