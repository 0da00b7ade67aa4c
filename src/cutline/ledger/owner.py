r"""What the owner of a ledger does: open accounts, back the books up, restore them, and bring them to the newest layout.

A backup is a moment of the past. What was spent since is unknown, so a ledger that is restored from one has nothing left to
spend, unless its owner noted the head of the chain and the backup has the very same one: then nothing was spent since.
"""

from __future__ import annotations

import os
import sqlite3
import sys
import unicodedata
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection, select

from cutline.errors import BudgetError, DatasetError, LedgerUnavailable, ParameterError, SchemaError, shortened
from cutline.ledger import charging, reading, tables
from cutline.ledger.account import Sums
from cutline.ledger.audit import audit, check_head
from cutline.ledger.chain import (
    START,
    Head,
    OpenAccount,
    append_link,
    digest_account,
    digest_row,
    lock_books,
    read_head,
)
from cutline.ledger.database import BACKUP, Database
from cutline.privacy import Adjacency, BoundedRange, Budget, Cost, Filter
from cutline.rounding import fraction_down
from cutline.version import __version__


def describe_account(
    dataset: str, *, budget: Budget, limits: Filter | None, adjacency: Adjacency | str, owner: str, unit: str | None
) -> dict[str, Any]:
    """Return the row of a new account, or raise if it cannot be opened."""
    relation = Adjacency.parse(adjacency)
    if not isinstance(budget, Budget) or not isinstance(limits, Filter | None):
        raise ParameterError(
            "an account is created with a Budget and, if you like, a Filter",
            f"budget={shortened(budget)}, limits={shortened(limits)}",
            "Pass budget=Budget(epsilon=1.0, delta=1e-6, releases=10).",
        )
    limits = charging.usual_filter(budget, adjacency=relation) if limits is None else limits
    if not (budget.covers(limits) and limits.rdp > 0):
        raise BudgetError(
            "a filter must lie within its budget and leave something to spend",
            f"order={limits.order:.3g}, rdp={limits.rdp:.3g}, delta={limits.delta:.3g}",
            "Make it with budget.filter(order=..., delta_share=...).",
        )
    return {
        "name": reading.check_name("dataset", dataset),
        "owner": reading.check_name("owner", owner),
        "adjacency": str(relation),
        "unit": None if unit is None else reading.check_name("unit", unit),
        "epsilon": repr(float(budget.epsilon)),
        "delta": repr(float(budget.delta)),
        "releases": budget.releases,
        "filter_order": repr(float(limits.order)),
        "filter_rdp": repr(float(limits.rdp)),
        "filter_delta": repr(float(limits.delta)),
        **Sums().to_columns("spent"),
        "entries": 0,
        "limited": 0,
        "listed": 0,
        "created": reading.current_time(),
        "version": __version__,
    }


def create_account(
    books: Connection, row: dict[str, Any], *, analysts: Iterable[str] | None, seen: Head | None
) -> OpenAccount:
    """Create what is missing of the tables, and the account with its list of analysts."""
    tables.create_tables(books)
    lock_books(books)
    if row["name"] in reading.list_datasets(books):
        raise DatasetError(
            "a dataset is created once",
            repr(row["name"]),
            "Its budget is fixed; look at it with `cutline ledger show`.",
        )
    books.execute(tables.INSERT_DATASET, row)
    written = reading.find_dataset(books, row["name"])
    append_link(books, read_head(books), written, (), kind="account", record=digest_account(written))
    opened = OpenAccount(books, row["name"], seen=seen)
    if analysts is not None:
        charging.allow_analysts(opened, analysts)
    return opened


def back_up(database: Database, target: str | os.PathLike[str]) -> str:
    """Write a copy of the whole ledger, as it is at one moment, to a new file; return the head of its chain.

    The copy is marked as a backup, and nothing can be charged to it before it is restored.
    """
    if database.path is None:
        raise ParameterError(
            "a ledger on a server is backed up by the server", database.printable_address, "Use pg_dump."
        )
    copy = Database(target)
    if copy.path is None:
        raise ParameterError("a backup is written to a file", copy.printable_address, "Give the path of a new file.")
    _refuse_existing(copy.path)
    copy.create_file()
    with database.reading() as books:
        head = read_head(books)
        source: Any = books.connection.driver_connection
        try:
            with closing(sqlite3.connect(copy.path)) as written:
                source.backup(written)
                written.execute(f"PRAGMA user_version = {BACKUP}")
            failed = False
        except sqlite3.Error:
            failed = True
    if not failed:
        with copy.reading() as books:
            failed = read_head(books) != head
        copy.close()
    if failed:
        copy.path.unlink(missing_ok=True)
        raise LedgerUnavailable("a backup must be written whole", repr(copy.printable_address), "Check the disk.")
    return head.hash


def restore(backup: str | os.PathLike[str], target: str | os.PathLike[str], *, head: str | None) -> None:
    """Write a backup to a new file as a ledger; unless the head is the backup's, charge what is left of every account.

    The file appears under its name when everything is charged, and not before; what a crash leaves is a backup still.
    """
    source, ledger, head = Database(backup), Database(target), check_head(head)
    if source.path is None or ledger.path is None:
        raise ParameterError("a backup is restored from a file to a file", "a server", "Use pg_restore.")
    _refuse_existing(ledger.path)
    with source.reading() as books:
        reading.check_version(books)
        found = audit(books, head=None)
    source.close()
    if not found.passed:
        raise SchemaError(
            "a backup must be whole to be restored", found.findings[0], "Look with `cutline ledger audit`."
        )
    if head not in (None, found.head):
        raise ParameterError(
            "the head must be the backup's, so that nothing was spent since",
            f"a backup with the head {found.head}",
            "Take the newest backup, or leave the head out: then the whole remainder of every account is charged.",
        )
    unfinished = ledger.path.with_name(f"{ledger.path.name}.restoring")
    _refuse_existing(unfinished)
    half = Database(unfinished)
    try:
        back_up(source, unfinished)
        with half.writing(restore=True) as books:
            for name in reading.list_datasets(books) if head is None else ():
                _charge_remainder(OpenAccount(books, name))
            books.exec_driver_sql("PRAGMA user_version = 0")  # with the charges or not at all
        half.close()
        unfinished.rename(ledger.path)
    finally:
        half.close()
        source.close()
        for left in (unfinished, unfinished.with_name(f"{unfinished.name}-journal")):
            left.unlink(missing_ok=True)


def _refuse_existing(path: Path) -> None:
    """Raise if there is a file, or the journal of one, which SQLite would apply to the new file."""
    for there in (path, *(path.with_name(f"{path.name}{end}") for end in ("-journal", "-wal", "-shm"))):
        if there.exists() or there.is_symlink():
            raise ParameterError(
                "a backup is written to, and restored to, a new file",
                f"{there.name!r}, which exists",
                "Choose another name.",
            )


def _charge_remainder(opened: OpenAccount) -> None:
    """Settle in full what is reserved, so that nothing flows back, and charge everything that is left."""
    open_entries = tables.SELECT_HISTORY.where(tables.settlements.c.cost.is_(None)).order_by(tables.entries.c.id)
    for entry in opened.books.execute(open_entries, {"dataset_id": opened.row.id}).all():
        charging.write_settlement(opened, entry.id, Sums.from_row(entry, "reserved"), cost=entry.cost)
    account = opened.account
    left = account.left
    if account.closed is not None or left == Sums():
        return
    # For the reader of the history; what counts is `left`, which no float has rounded.
    shown = max(fraction_down(left.rdp), sys.float_info.min)  # only of delta may something be left
    curve = BoundedRange.within(order=account.filter.order, rdp=shown)
    cost = Cost.of(curve, adjacency=account.adjacency, delta=fraction_down(left.delta))
    asked = charging.Asked(
        mechanism='{"name": "restored from a backup"}', purpose="what was spent since the backup is unknown"
    )
    charging.write_entry(opened, left, cost=reading.write_cost(opened.books, cost, known=set()), asked=asked)


_NEW_COLUMNS = (
    "cutline_datasets ADD COLUMN listed INTEGER NOT NULL DEFAULT 0",
    "cutline_settlements ADD COLUMN answer_digest TEXT",
    "cutline_settlements ADD COLUMN cut INTEGER",
    "cutline_analysts ADD COLUMN allowed INTEGER NOT NULL DEFAULT 0",
    *(
        f"cutline_entries ADD COLUMN {name} TEXT"
        for name in ("question", "question_digest", "data_version", "purpose", "topic_digest")
    ),
)


def upgrade(books: Connection) -> None:
    """Bring books of layout 1 to this layout in one transaction: add the columns and tables, and link what is there.

    The chain begins here. It vouches for the entries from now on, and not for what happened to them before; the sums are
    recomputed, and books in which they disagree are refused.
    """
    version = books.execute(tables.LOCK_BOOKS).scalar()
    if version == tables.LAYOUT:
        return
    if version != 1:
        reading.refuse_other_layouts(version)
    for column in _NEW_COLUMNS:
        books.exec_driver_sql(f"ALTER TABLE {column}")
    tables.create_missing_tables(books, guarded=("cutline_answers", "cutline_links"))
    books.execute(sa.update(tables.schema).values(version=tables.LAYOUT))
    head = Head(0, START)
    for name in reading.list_datasets(books):
        head = _link_account(books, name, head)
    found = audit(books, head=None)
    names = [name for (name,) in books.execute(select(tables.datasets.c.name).union(select(tables.analysts.c.analyst)))]
    if not all(unicodedata.is_normalized("NFC", name) for name in names):
        raise SchemaError(
            "names of accounts and analysts must be in Unicode's composed form", "others", "Keep them in new accounts."
        )
    if not found.passed:
        raise SchemaError(
            "a ledger must be whole to be upgraded", found.findings[0], "Restore it from a copy that holds every entry."
        )


def _link_account(books: Connection, dataset: str, head: Head) -> Head:
    """Link an account of layout 1, and everything that was written for it."""
    row = reading.find_dataset(books, dataset)
    analysts = books.execute(tables.SELECT_ANALYSTS, {"dataset_id": row.id}).all()
    entries = select(tables.entries).where(tables.entries.c.dataset_id == row.id).order_by(tables.entries.c.id)
    settlements = select(tables.settlements).join(tables.entries).where(tables.entries.c.dataset_id == row.id)
    settled = {one.entry_id: one for one in books.execute(settlements)}
    events: list[dict[str, Any]] = [{"kind": "account", "at": row.created, "record": digest_account(row)}]
    for entry in books.execute(entries):
        events.append({"kind": "reserve", "at": entry.at, "entry_id": entry.id, "record": digest_row(entry)})
        if (one := settled.get(entry.id)) is not None:
            events.append({"kind": "settle", "at": one.at, "entry_id": entry.id, "record": digest_row(one)})
    for one in analysts:
        if one.limit_rdp is not None:
            limits = {"analyst": one.analyst, "limit_rdp": one.limit_rdp, "limit_delta": one.limit_delta}
            events.append({"kind": "limit", "detail": limits})
    if row.closed is not None:
        events.append({"kind": "close", "at": row.closed, "detail": {"closed": row.closed}})
    for event in events:
        head = append_link(books, head, row, analysts, **event)
    return head
