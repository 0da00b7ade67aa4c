r"""The books: six tables, of which only the running totals ever change.

::

    cutline_schema        the version of this layout
    cutline_datasets      budget, filter, adjacency, unit, owner (never change), and the two running totals
    cutline_analysts      running totals per analyst, and the limits of those who have one
    cutline_entries       one row per reservation; never changed, never deleted
    cutline_settlements   one row per settled reservation; never changed, never deleted
    cutline_costs         costs as plain data under their digest, each written once

Numbers that are trusted are text: shortest decimals that read back bit by bit, and exact fractions for the totals. Triggers
in the database keep everybody else from changing the append-only tables. Below the layout stand the statements that a release
runs, how rows become records, and how names and costs are written.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import json
from collections.abc import Mapping, Sequence, Set
from functools import lru_cache
from typing import Any

import sqlalchemy as sa
from sqlalchemy import BigInteger, Column, Connection, ForeignKey, Integer, Row, Table, Text, bindparam, insert, select
from sqlalchemy.schema import CreateTable

from cutline.errors import DatasetError, ParameterError, SchemaError
from cutline.ledger.account import Account, Analyst, Entry, Sums
from cutline.privacy import Adjacency, Budget, Cost, Filter
from cutline.privacy.rounding import fraction_down

LAYOUT = 1
_LOCK = 0x6375746C696E65  # names the advisory lock under which PostgreSQL creates the tables
_LONGEST_NAME = 200
_APPEND_ONLY = ("cutline_entries", "cutline_settlements", "cutline_costs")

metadata = sa.MetaData()
_Id = BigInteger().with_variant(Integer(), "sqlite")  # SQLite numbers rows by itself under this very type name only


def _texts(*names: str) -> list[Column[str]]:
    """Return columns of text that is never missing."""
    return [Column(name, Text, nullable=False) for name in names]


schema = Table("cutline_schema", metadata, Column("version", Integer, nullable=False))

datasets = Table(
    "cutline_datasets",
    metadata,
    Column("id", _Id, primary_key=True),
    Column("name", Text, nullable=False, unique=True),
    *_texts("owner", "adjacency"),
    Column("unit", Text),
    *_texts("epsilon", "delta"),
    Column("releases", Integer, nullable=False),
    *_texts("filter_order", "filter_rdp", "filter_delta", "spent_rdp", "spent_delta"),
    Column("entries", BigInteger, nullable=False),
    Column("limited", Integer, nullable=False),
    *_texts("created"),
    Column("closed", Text),
    *_texts("version"),
)

analysts = Table(
    "cutline_analysts",
    metadata,
    Column("dataset_id", _Id, ForeignKey("cutline_datasets.id"), primary_key=True),
    Column("analyst", Text, primary_key=True),
    Column("limit_rdp", Text),
    Column("limit_delta", Text),
    *_texts("spent_rdp", "spent_delta"),
)

costs = Table("cutline_costs", metadata, Column("digest", Text, primary_key=True), *_texts("cost"))

entries = Table(
    "cutline_entries",
    metadata,
    Column("id", _Id, primary_key=True),
    Column("dataset_id", _Id, ForeignKey("cutline_datasets.id"), nullable=False),
    Column("analyst", Text),
    *_texts("mechanism"),
    Column("cost", Text, ForeignKey("cutline_costs.digest"), nullable=False),
    *_texts("reserved_rdp", "reserved_delta", "at", "version"),
    sa.UniqueConstraint("dataset_id", "id"),  # also the index that pages of history are read from
)

settlements = Table(
    "cutline_settlements",
    metadata,
    Column("entry_id", _Id, ForeignKey("cutline_entries.id"), primary_key=True, autoincrement=False),
    Column("cost", Text, ForeignKey("cutline_costs.digest"), nullable=False),
    *_texts("settled_rdp", "settled_delta", "at", "version"),
)

# Built once, and not at every release.
_SELECT_DATASET = select(datasets).where(datasets.c.name == bindparam("dataset"))
_LOCK_DATASET = _SELECT_DATASET.with_for_update()  # SQLite has no such clause and needs none: its writer is alone
_SELECT_ANALYSTS = select(analysts).where(analysts.c.dataset_id == bindparam("dataset_id")).order_by(analysts.c.analyst)
_SELECT_ENTRIES = select(
    entries,
    settlements.c.cost.label("settled_cost"),
    settlements.c.settled_rdp,
    settlements.c.settled_delta,
    settlements.c.at.label("settled_at"),
).select_from(entries.outerjoin(settlements))
_SELECT_HISTORY = _SELECT_ENTRIES.where(entries.c.dataset_id == bindparam("dataset_id"))
SELECT_ENTRY = _SELECT_ENTRIES.where(entries.c.id == bindparam("entry_id"))
_INSERT_COST = sa.text(
    "INSERT INTO cutline_costs (digest, cost) VALUES (:digest, :cost) ON CONFLICT (digest) DO NOTHING"
)
SELECT_ANALYST = select(analysts).where(
    analysts.c.dataset_id == bindparam("of_dataset"), analysts.c.analyst == bindparam("of_analyst")
)
INSERT_DATASET, INSERT_ENTRY, INSERT_SETTLEMENT = insert(datasets), insert(entries), insert(settlements)
_update_dataset = datasets.update().where(datasets.c.id == bindparam("dataset_id"))
CHARGE_DATASET = _update_dataset.values(
    spent_rdp=bindparam("spent_rdp"),
    spent_delta=bindparam("spent_delta"),
    entries=datasets.c.entries + bindparam("more"),
)
CHARGE_ANALYST = sa.text(
    "INSERT INTO cutline_analysts (dataset_id, analyst, spent_rdp, spent_delta) "
    "VALUES (:dataset_id, :analyst, :spent_rdp, :spent_delta) ON CONFLICT (dataset_id, analyst) "
    "DO UPDATE SET spent_rdp = excluded.spent_rdp, spent_delta = excluded.spent_delta"
)
LIMIT_ANALYST = sa.text(
    "INSERT INTO cutline_analysts (dataset_id, analyst, spent_rdp, spent_delta, limit_rdp, limit_delta) "
    "VALUES (:dataset_id, :analyst, '0', '0', :limit_rdp, :limit_delta) ON CONFLICT (dataset_id, analyst) "
    "DO UPDATE SET limit_rdp = excluded.limit_rdp, limit_delta = excluded.limit_delta"
)
REQUIRE_ANALYSTS = _update_dataset.values(limited=1)
CLOSE_DATASET = _update_dataset.where(datasets.c.closed.is_(None)).values(closed=bindparam("now"))


def create_tables(connection: Connection) -> None:
    """Create what is missing, once, however many processes try at the same time."""
    postgresql = connection.dialect.name == "postgresql"
    if postgresql:
        connection.execute(sa.text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK})
    for table in metadata.sorted_tables:
        connection.execute(CreateTable(table, if_not_exists=True))
    if connection.execute(select(schema.c.version)).first() is None:
        connection.execute(insert(schema), {"version": LAYOUT})
        for name in _APPEND_ONLY:
            for statement in (_guard_in_postgresql if postgresql else _guard_in_sqlite)(name):
                connection.exec_driver_sql(statement)
    check_version(connection)


def check_version(connection: Connection) -> None:
    """Raise if the tables have a layout that this version of the library does not know."""
    version = connection.execute(select(schema.c.version)).scalar()
    if version != LAYOUT:
        raise SchemaError(
            f"a ledger must have layout {LAYOUT}, the one this version keeps",
            f"layout {version}",
            "Use the newer version of cutline that wrote it.",
        )


def _guard_in_sqlite(table: str) -> list[str]:
    return [
        f"CREATE TRIGGER IF NOT EXISTS {table}_no_{verb.lower()} BEFORE {verb} ON {table} "
        f"BEGIN SELECT RAISE(ABORT, '{table} is append-only'); END"
        for verb in ("UPDATE", "DELETE")
    ]


def _guard_in_postgresql(table: str) -> list[str]:
    body = "RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'append-only'; END $$"
    verbs = "BEFORE UPDATE OR DELETE OR TRUNCATE"
    return [
        f"CREATE OR REPLACE FUNCTION cutline_append_only() {body}",
        f"CREATE TRIGGER {table}_append_only {verbs} ON {table} EXECUTE FUNCTION cutline_append_only()",
    ]


def is_key(value: object) -> bool:
    """Say whether it could be the id of an entry, in the range of both databases."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 < value < 2**63


def lock_dataset(books: Connection, dataset: str) -> Row[Any]:
    """Return the dataset's row, and let every other writer of it wait until the end of the transaction."""
    return _find_dataset(books, dataset, _LOCK_DATASET)


def _find_dataset(books: Connection, dataset: str, query: sa.Select[Any] = _SELECT_DATASET) -> Row[Any]:
    row = books.execute(query, {"dataset": dataset}).first()
    if row is None:
        raise DatasetError("the ledger must know the dataset", repr(dataset), "Create it with `cutline ledger init`.")
    return row


def list_datasets(books: Connection) -> list[str]:
    """Return the names of all datasets in their own order."""
    return sorted(name for (name,) in books.execute(select(datasets.c.name)))


def read_account(books: Connection, dataset: str) -> Account:
    """Return a dataset's account with everybody who has spent something of it or has a limit."""
    row = _find_dataset(books, dataset)
    rows = books.execute(_SELECT_ANALYSTS, {"dataset_id": row.id}).all()
    return account_from_row(row, analysts=rows)


def account_from_row(row: Row[Any], *, analysts: Sequence[Row[Any]] = ()) -> Account:
    """Return the account that a dataset's row holds; totals that no charge can have made are refused, not added to."""
    try:
        account = _read_rows(row, analysts)
    except (ValueError, TypeError, ZeroDivisionError):
        account = None
    if account is None or min(account.spent.rdp, account.spent.delta) < 0:
        raise SchemaError(
            "a dataset's row must hold what Cutline wrote there",
            repr(row.name),
            "Restore the database from a copy that holds every entry.",
        )
    return account


def _read_rows(row: Row[Any], analysts: Sequence[Row[Any]]) -> Account:
    return Account(
        dataset=row.name,
        owner=row.owner,
        adjacency=Adjacency(row.adjacency),
        unit=row.unit,
        budget=Budget(epsilon=float(row.epsilon), delta=float(row.delta), releases=row.releases),
        filter=Filter(order=float(row.filter_order), rdp=float(row.filter_rdp), delta=float(row.filter_delta)),
        spent=Sums.from_row(row, "spent"),
        entries=row.entries,
        created=row.created,
        closed=row.closed,
        version=row.version,
        analysts=tuple(
            Analyst(
                name=analyst.analyst,
                spent=Sums.from_row(analyst, "spent"),
                limits=None if analyst.limit_rdp is None else Sums.from_row(analyst, "limit"),
            )
            for analyst in analysts
        ),
    )


def read_page(books: Connection, dataset: str, *, before: int | None, limit: int) -> list[Entry]:
    """Return one page of entries, newest first; found by key, so that the last page costs what the first does."""
    query = _SELECT_HISTORY.order_by(entries.c.id.desc()).limit(limit)
    if before is not None:
        query = query.where(entries.c.id < before)
    rows = books.execute(query, {"dataset_id": _find_dataset(books, dataset).id}).all()
    digests = {row.cost for row in rows} | {row.settled_cost for row in rows} - {None}
    query_costs = select(costs).where(costs.c.digest.in_(sorted(digests)))
    plain = {row.digest: json.loads(row.cost) for row in books.execute(query_costs)} if digests else {}
    return [
        Entry(
            id=row.id,
            dataset=dataset,
            at=row.at,
            analyst=row.analyst,
            mechanism=json.loads(row.mechanism),
            reserved=Sums.from_row(row, "reserved"),
            settled=None if row.settled_cost is None else Sums.from_row(row, "settled"),
            settled_at=row.settled_at,
            reserved_cost=plain[row.cost],
            settled_cost=None if row.settled_cost is None else plain[row.settled_cost],
            version=row.version,
        )
        for row in rows
    ]


def read_burn_down(books: Connection, dataset: str) -> list[tuple[str, float, float]]:
    """Replay the whole history in the order of time: what was left after each event, in percent of both limits."""
    found = _find_dataset(books, dataset)
    limits = account_from_row(found).limits
    events: list[tuple[str, Sums]] = []
    for row in books.execute(_SELECT_HISTORY.order_by(entries.c.id), {"dataset_id": found.id}):
        reserved = Sums.from_row(row, "reserved")
        events.append((row.at, reserved))
        if row.settled_cost is not None and (refund := Sums.from_row(row, "settled") - reserved) != Sums():
            events.append((row.settled_at, refund))
    points, spent = [(found.created, 100.0, 100.0)], Sums()
    for at, change in sorted(events, key=lambda event: event[0]):
        spent += change
        rdp, delta = (100 * fraction_down(1 - share) for share in spent.shares(limits))
        points.append((at, rdp, delta))
    return points


def check_name(what: str, name: object) -> str:
    """Return the name if both databases and every screen can hold it, and raise otherwise."""
    if isinstance(name, str) and 0 < len(name) <= _LONGEST_NAME and name.isprintable() and name == name.strip():
        return name
    raise ParameterError(
        f"{what} must be a name of 1 to {_LONGEST_NAME} printable characters", repr(name)[:80], "Try another name."
    )


def encode_mechanism(mechanism: Mapping[str, object]) -> str:
    """Return a mechanism's public parameters as text."""
    try:
        return json.dumps(dict(mechanism), allow_nan=False)
    except (TypeError, ValueError):
        raise ParameterError(
            "a mechanism is described to a ledger in plain data", type(mechanism).__name__, "Pass mechanism.describe()."
        ) from None


@lru_cache(maxsize=64)
def encode_cost(cost: Cost) -> tuple[str, str]:
    """Return a cost's digest and its text: a table of a thousand values is written once, not once per release."""
    plain = json.dumps(cost.to_dict(), sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(plain.encode()).hexdigest(), plain


def write_cost(books: Connection, cost: Cost, *, known: Set[str]) -> str:
    """Write a cost unless its digest is among the known ones, which are on the books already; return its digest."""
    digest, plain = encode_cost(cost)
    if digest not in known:
        books.execute(_INSERT_COST, {"digest": digest, "cost": plain})
    return digest


def current_time() -> str:
    """Return the time by the clock, in UTC."""
    return dt.datetime.now(dt.UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
