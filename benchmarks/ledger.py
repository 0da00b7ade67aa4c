"""Measure the ledger: what its promises cost over a bare durable write, and whether long histories slow it down.

Usage: python benchmarks/ledger.py [--entries 100000] [--rounds 300]

Reserve and settle are two durable transactions. They are compared, in turns within one run, with a bare write of two rows
through SQLAlchemy under the same durability: each row committed on its own (what a reserve and its settlement cannot do
without), and both in one transaction (half the flushes).
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path

from sqlalchemy import Column, Engine, Integer, MetaData, Table, Text, create_engine, event, insert

from cutline.ledger import Ledger, tables
from cutline.mechanisms import StableTopK
from cutline.privacy import Budget, Cost, Filter

ROWS = Table("bare", MetaData(), Column("id", Integer, primary_key=True), Column("value", Text), Column("other", Text))


class Settled:
    seeded = False

    def __init__(self, cost: Cost) -> None:
        self.cost = cost


def bare(path: Path) -> Engine:
    engine = create_engine(f"sqlite:///{path}")

    @event.listens_for(engine, "connect")
    def _configure(connection, _record):
        connection.isolation_level = None
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")

    @event.listens_for(engine, "begin")
    def _begin(connection):
        connection.exec_driver_sql("BEGIN IMMEDIATE")

    ROWS.metadata.create_all(engine)
    return engine


def seconds(action) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def write_twice(engine: Engine, row: dict[str, str]) -> None:
    for _ in range(2):
        with engine.begin() as connection:
            connection.execute(insert(ROWS), row)


def write_once(engine: Engine, row: dict[str, str]) -> None:
    with engine.begin() as connection:
        connection.execute(insert(ROWS), row)
        connection.execute(insert(ROWS), row)


def fill(ledger: Ledger, cost: Cost, described: dict, entries: int) -> None:
    """Write a long history: one real release, then copies of its rows, in one transaction."""
    ledger.settle(ledger.reserve(cost, dataset="visits", mechanism=described), Settled(cost))
    with ledger._database.writing() as books:
        entry = dict(books.execute(tables.entries.select()).one()._mapping)
        settlement = dict(books.execute(tables.settlements.select()).one()._mapping)
        first = entry["id"]
        books.execute(tables.INSERT_ENTRY, [entry | {"id": first + i} for i in range(1, entries)])
        books.execute(tables.INSERT_SETTLEMENT, [settlement | {"entry_id": first + i} for i in range(1, entries)])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--entries", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=300)
    options = parser.parse_args()
    small = Budget(epsilon=1.0, delta=1e-6, releases=100)
    limits = small.filter(order=20.0, delta_share=0.1)
    mechanism = StableTopK.calibrate(small, limits=limits)
    cost, described = mechanism.cost, mechanism.describe()
    wide = Budget(epsilon=1e9, delta=1e-6)
    with tempfile.TemporaryDirectory() as name, Ledger(Path(name) / "books.db") as ledger:
        ledger.create("visits", budget=wide, limits=Filter(order=20.0, rdp=1e8, delta=9e-7), owner="bench")
        engine = bare(Path(name) / "bare.db")
        row = {"value": "x" * 200, "other": "y" * 100}
        times: dict[str, list[float]] = {"reserve + settle": [], "two commits": [], "one commit": []}
        for i in range(options.rounds + 20):
            taken = {
                "reserve + settle": seconds(
                    lambda: ledger.settle(ledger.reserve(cost, dataset="visits", mechanism=described), Settled(cost))
                ),
                "two commits": seconds(lambda: write_twice(engine, row)),
                "one commit": seconds(lambda: write_once(engine, row)),
            }
            if i >= 20:  # the first rounds compile statements
                for what, value in taken.items():
                    times[what].append(value)
        middle = {what: statistics.median(values) for what, values in times.items()}
        for what, value in middle.items():
            print(f"{what:<20} {1e3 * value:8.2f} ms")
        ratio, strict = (middle["reserve + settle"] / middle[what] for what in ("two commits", "one commit"))
        print(f"over two rows, each committed: {ratio:.2f}x; over two rows in one commit: {strict:.2f}x (bar: 3x)")
    with tempfile.TemporaryDirectory() as name, Ledger(Path(name) / "books.db") as ledger:
        ledger.create("visits", budget=wide, limits=Filter(order=20.0, rdp=1e8, delta=9e-7), owner="bench")
        fill(ledger, cost, described, options.entries)
        ledger.show("visits")
        pages = [
            statistics.median(seconds(lambda b=b: ledger.history("visits", before=b)) for _ in range(9))
            for b in (None, 52)
        ]
        left = statistics.median(seconds(lambda: ledger.show("visits")) for _ in range(9))
        newest, oldest, remaining = (f"{1e3 * value:.1f} ms" for value in (*pages, left))
        print(f"with {options.entries:,} entries (bar: 50 ms):")
        print(f"newest page {newest}, oldest page {oldest}, remaining budget {remaining}")


if __name__ == "__main__":
    main()
