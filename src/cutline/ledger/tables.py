r"""The books: eight tables, of which only the running totals ever change.

::

    cutline_schema        the version of this layout
    cutline_datasets      budget, filter, adjacency, unit, owner (never change), and the two running totals
    cutline_analysts      who may ask, running totals per analyst, and the limits of those who have one
    cutline_entries       one row per reservation, with its public question; never changed, never deleted
    cutline_settlements   one row per settled reservation; never changed, never deleted
    cutline_answers       what became public, one row per settlement that came with it; never changed, never deleted
    cutline_costs         costs as plain data under their digest, each written once
    cutline_links         the hash chain over all of the above, with limits, permissions, notes and closings in it

Numbers that are trusted are text: shortest decimals that read back bit by bit, and exact fractions for the totals. Triggers
in the database keep everybody else from changing the append-only tables. Below the layout stand the statements that a release
runs, and how the tables are created.
"""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    ForeignKey,
    Index,
    Integer,
    Table,
    Text,
    bindparam,
    insert,
    select,
)
from sqlalchemy.schema import CreateIndex, CreateTable

LAYOUT = 2
_LOCK = 0x6375746C696E65  # names the advisory lock under which PostgreSQL creates the tables
APPEND_ONLY = ("cutline_entries", "cutline_settlements", "cutline_answers", "cutline_costs", "cutline_links")

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
    Column("listed", Integer, nullable=False, server_default="0"),
)

analysts = Table(
    "cutline_analysts",
    metadata,
    Column("dataset_id", _Id, ForeignKey("cutline_datasets.id"), primary_key=True),
    Column("analyst", Text, primary_key=True),
    Column("limit_rdp", Text),
    Column("limit_delta", Text),
    *_texts("spent_rdp", "spent_delta"),
    Column("allowed", Integer, nullable=False, server_default="0"),
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
    Column("question", Text),
    Column("question_digest", Text),
    Column("data_version", Text),
    Column("purpose", Text),
    Column("topic_digest", Text),
    sa.UniqueConstraint("dataset_id", "id"),  # also the index that pages of history are read from
)
Index("cutline_questions", entries.c.dataset_id, entries.c.question_digest, entries.c.id)
Index("cutline_topics", entries.c.dataset_id, entries.c.topic_digest, entries.c.id)

settlements = Table(
    "cutline_settlements",
    metadata,
    Column("entry_id", _Id, ForeignKey("cutline_entries.id"), primary_key=True, autoincrement=False),
    Column("cost", Text, ForeignKey("cutline_costs.digest"), nullable=False),
    *_texts("settled_rdp", "settled_delta", "at", "version"),
    Column("answer_digest", Text),
    Column("cut", Integer),
)

answers = Table(
    "cutline_answers",
    metadata,
    Column("entry_id", _Id, ForeignKey("cutline_settlements.entry_id"), primary_key=True, autoincrement=False),
    *_texts("answer"),
)

links = Table(
    "cutline_links",
    metadata,
    Column("number", _Id, primary_key=True, autoincrement=False),
    *_texts("kind", "at"),
    Column("dataset_id", _Id, ForeignKey("cutline_datasets.id"), nullable=False),
    Column("entry_id", _Id, ForeignKey("cutline_entries.id")),
    Column("detail", Text),
    Column("record", Text),
    *_texts("state", "hash"),
    sa.UniqueConstraint("dataset_id", "number"),  # also the index that an account's last link is found by
)
Index("cutline_links_of_entries", links.c.entry_id)

# Built once, and not at every release.
LOCK_BOOKS = select(schema.c.version).with_for_update()  # SQLite has no such clause and needs none: its writer is alone
SELECT_DATASET = select(datasets).where(datasets.c.name == bindparam("dataset"))
SELECT_ANALYSTS = select(analysts).where(analysts.c.dataset_id == bindparam("dataset_id")).order_by(analysts.c.analyst)
_SELECT_ENTRIES = select(
    entries,
    settlements.c.cost.label("settled_cost"),
    settlements.c.settled_rdp,
    settlements.c.settled_delta,
    settlements.c.at.label("settled_at"),
    settlements.c.answer_digest,
).select_from(entries.outerjoin(settlements))
SELECT_HISTORY = _SELECT_ENTRIES.where(entries.c.dataset_id == bindparam("dataset_id"))
SELECT_ENTRY_ALONE = select(entries).where(entries.c.id == bindparam("entry_id"))
SELECT_ENTRY = _SELECT_ENTRIES.where(entries.c.id == bindparam("entry_id"))
SELECT_REPEAT = (
    SELECT_HISTORY.where(
        entries.c.question_digest == bindparam("digest"),
        entries.c.data_version == bindparam("data_version"),
        settlements.c.answer_digest.is_not(None),
    )
    .order_by(entries.c.id.desc())
    .limit(1)
)
SELECT_LAST_CUT = (
    select(settlements.c.cut)
    .select_from(entries.join(settlements))
    .where(
        entries.c.dataset_id == bindparam("dataset_id"),
        entries.c.topic_digest == bindparam("digest"),
        settlements.c.cut.is_not(None),
    )
    .order_by(entries.c.id.desc())
    .limit(1)
)
SELECT_ANSWER = select(answers.c.answer).where(answers.c.entry_id == bindparam("entry_id"))
INSERT_COST = sa.text(
    "INSERT INTO cutline_costs (digest, cost) VALUES (:digest, :cost) ON CONFLICT (digest) DO NOTHING"
)
INSERT_DATASET, INSERT_ENTRY, INSERT_SETTLEMENT = insert(datasets), insert(entries), insert(settlements)
INSERT_ANSWER, INSERT_LINK = insert(answers), insert(links)
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
ALLOW_ANALYST = sa.text(
    "INSERT INTO cutline_analysts (dataset_id, analyst, spent_rdp, spent_delta, allowed) "
    "VALUES (:dataset_id, :analyst, '0', '0', 1) ON CONFLICT (dataset_id, analyst) DO UPDATE SET allowed = 1"
)
REQUIRE_ANALYSTS = _update_dataset.values(limited=1)
LIST_ANALYSTS = _update_dataset.values(listed=1)
CLOSE_DATASET = _update_dataset.values(closed=bindparam("now"))


def create_tables(connection: Connection) -> None:
    """Create what is missing, once, however many processes try at the same time."""
    postgresql = connection.dialect.name == "postgresql"
    if postgresql:
        connection.execute(sa.text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK})
    connection.execute(CreateTable(schema, if_not_exists=True))
    if connection.execute(select(schema.c.version)).first() is None:
        create_missing_tables(connection)
        connection.execute(insert(schema), {"version": LAYOUT})


def create_missing_tables(connection: Connection, *, guarded: tuple[str, ...] = APPEND_ONLY) -> None:
    """Create the tables and indexes that are not there, and the triggers that guard the named tables."""
    for table in metadata.sorted_tables:
        connection.execute(CreateTable(table, if_not_exists=True))
        for index in table.indexes:
            connection.execute(CreateIndex(index, if_not_exists=True))
    for name in guarded:
        for statement in (_guard_in_postgresql if connection.dialect.name == "postgresql" else _guard_in_sqlite)(name):
            connection.exec_driver_sql(statement)


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
