r"""The books: six tables, of which only the running totals ever change.

::

    cutline_schema        the version of this layout
    cutline_datasets      budget, filter, adjacency, unit, owner (never change), and the two running totals
    cutline_analysts      running totals per analyst, and the limits of those who have one
    cutline_entries       one row per reservation; never changed, never deleted
    cutline_settlements   one row per settled reservation; never changed, never deleted
    cutline_costs         costs as plain data under their digest, each written once

Numbers that are trusted are text: shortest decimals that read back bit by bit, and exact fractions for the totals. Triggers
hold the append-only tables against other hands than ours.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    ForeignKey,
    Integer,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
    bindparam,
    insert,
    select,
    text,
)
from sqlalchemy.schema import CreateIndex, CreateTable

from cutline.errors import SchemaError

VERSION = 1
_LOCK = 0x6375746C696E65  # names the advisory lock under which PostgreSQL creates the tables
_APPEND_ONLY = ("cutline_entries", "cutline_settlements", "cutline_costs")

metadata = MetaData()
_Id = BigInteger().with_variant(Integer(), "sqlite")  # SQLite numbers rows by itself under this very type name only

schema = Table("cutline_schema", metadata, Column("version", Integer, nullable=False))

datasets = Table(
    "cutline_datasets",
    metadata,
    Column("id", _Id, primary_key=True),
    Column("name", Text, nullable=False, unique=True),
    Column("owner", Text, nullable=False),
    Column("adjacency", Text, nullable=False),
    Column("unit", Text),
    Column("epsilon", Text, nullable=False),
    Column("delta", Text, nullable=False),
    Column("releases", Integer, nullable=False),
    Column("filter_order", Text, nullable=False),
    Column("filter_rdp", Text, nullable=False),
    Column("filter_delta", Text, nullable=False),
    Column("spent_rdp", Text, nullable=False),
    Column("spent_delta", Text, nullable=False),
    Column("entries", BigInteger, nullable=False),
    Column("limited", Integer, nullable=False),
    Column("created", Text, nullable=False),
    Column("closed", Text),
    Column("version", Text, nullable=False),
)

analysts = Table(
    "cutline_analysts",
    metadata,
    Column("dataset_id", _Id, ForeignKey("cutline_datasets.id"), primary_key=True),
    Column("analyst", Text, primary_key=True),
    Column("limit_rdp", Text),
    Column("limit_delta", Text),
    Column("spent_rdp", Text, nullable=False),
    Column("spent_delta", Text, nullable=False),
)

costs = Table(
    "cutline_costs",
    metadata,
    Column("digest", Text, primary_key=True),
    Column("cost", Text, nullable=False),
)

entries = Table(
    "cutline_entries",
    metadata,
    Column("id", _Id, primary_key=True),
    Column("dataset_id", _Id, ForeignKey("cutline_datasets.id"), nullable=False),
    Column("analyst", Text),
    Column("mechanism", Text, nullable=False),
    Column("cost", Text, ForeignKey("cutline_costs.digest"), nullable=False),
    Column("reserved_rdp", Text, nullable=False),
    Column("reserved_delta", Text, nullable=False),
    Column("at", Text, nullable=False),
    Column("version", Text, nullable=False),
    UniqueConstraint("dataset_id", "id"),  # also the index that pages of history are read from
)

settlements = Table(
    "cutline_settlements",
    metadata,
    Column("entry_id", _Id, ForeignKey("cutline_entries.id"), primary_key=True, autoincrement=False),
    Column("cost", Text, ForeignKey("cutline_costs.digest"), nullable=False),
    Column("settled_rdp", Text, nullable=False),
    Column("settled_delta", Text, nullable=False),
    Column("at", Text, nullable=False),
    Column("version", Text, nullable=False),
)

find_dataset = select(datasets).where(datasets.c.name == bindparam("dataset"))
lock_dataset = find_dataset.with_for_update()  # SQLite has no such clause and needs none: its writer is alone
find_analyst = select(analysts).where(
    analysts.c.dataset_id == bindparam("dataset_id"), analysts.c.analyst == bindparam("analyst")
)
find_entry = (
    select(entries, settlements.c.entry_id.label("settled"))
    .select_from(entries.outerjoin(settlements))
    .where(entries.c.id == bindparam("entry_id"))
)
add_entry, add_settlement, add_analyst = insert(entries), insert(settlements), insert(analysts)
add_dataset = insert(datasets)
add_cost = text("INSERT INTO cutline_costs (digest, cost) VALUES (:digest, :cost) ON CONFLICT (digest) DO NOTHING")
charge_dataset = (
    datasets.update()
    .where(datasets.c.id == bindparam("dataset_id"))
    .values(
        spent_rdp=bindparam("spent_rdp"),
        spent_delta=bindparam("spent_delta"),
        entries=datasets.c.entries + bindparam("more"),
    )
)
charge_analyst = (
    analysts.update()
    .where(analysts.c.dataset_id == bindparam("in_dataset"), analysts.c.analyst == bindparam("of_analyst"))
    .values(spent_rdp=bindparam("spent_rdp"), spent_delta=bindparam("spent_delta"))
)
limit_analyst = (
    analysts.update()
    .where(analysts.c.dataset_id == bindparam("in_dataset"), analysts.c.analyst == bindparam("of_analyst"))
    .values(limit_rdp=bindparam("limit_rdp"), limit_delta=bindparam("limit_delta"))
)
name_analysts = datasets.update().where(datasets.c.id == bindparam("dataset_id")).values(limited=1)
close_dataset = (
    datasets.update()
    .where(datasets.c.id == bindparam("dataset_id"), datasets.c.closed.is_(None))
    .values(closed=bindparam("now"))
)


def is_key(value: object) -> bool:
    """Say whether it could be the id of an entry, in the range of both databases."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 < value < 2**63


def create_tables(connection: Connection) -> None:
    """Create what is missing, once, however many processes try at the same time."""
    postgresql = connection.dialect.name == "postgresql"
    if postgresql:
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK})
    for table in metadata.sorted_tables:
        connection.execute(CreateTable(table, if_not_exists=True))
        for index in table.indexes:
            connection.execute(CreateIndex(index, if_not_exists=True))
    if connection.execute(select(schema.c.version)).first() is None:
        connection.execute(insert(schema), {"version": VERSION})
        for name in _APPEND_ONLY:
            for statement in (_postgresql_guard if postgresql else _sqlite_guard)(name):
                connection.exec_driver_sql(statement)
    check_version(connection)


def check_version(connection: Connection) -> None:
    """Refuse a layout that this version of the library does not know."""
    version = connection.execute(select(schema.c.version)).scalar()
    if version != VERSION:
        raise SchemaError(
            f"a ledger must have layout {VERSION}, the one this version keeps",
            f"layout {version}",
            "Use the newer version of cutline that wrote it.",
        )


def _sqlite_guard(table: str) -> list[str]:
    return [
        f"CREATE TRIGGER IF NOT EXISTS {table}_no_{verb.lower()} BEFORE {verb} ON {table} "
        f"BEGIN SELECT RAISE(ABORT, '{table} is append-only'); END"
        for verb in ("UPDATE", "DELETE")
    ]


def _postgresql_guard(table: str) -> list[str]:
    body = "RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'append-only'; END $$"
    verbs = "BEFORE UPDATE OR DELETE OR TRUNCATE"
    return [
        f"CREATE OR REPLACE FUNCTION cutline_append_only() {body}",
        f"CREATE TRIGGER {table}_append_only {verbs} ON {table} EXECUTE FUNCTION cutline_append_only()",
    ]
