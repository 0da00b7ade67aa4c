"""Measure the ledger: what its promises cost, and whether long histories slow it down.

Usage: python benchmarks/ledger.py [--entries 100000] [--rounds 300] [--folder .]

Reserve and settle are two durable transactions. They are compared, in turns within one run and on one disk, with

- the reserve and settle of the version before answers, the chain and the rollback journal, which is taken from the history of
  this repository (git archive) and runs in a process of its own;
- a bare write of two rows through SQLAlchemy under the same durability: each row committed on its own (what a reserve and its
  settlement cannot do without), and both in one transaction (half the flushes).
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
from io import BytesIO
from pathlib import Path

from sqlalchemy import Column, Engine, Integer, MetaData, Table, Text, create_engine, event, insert

from cutline.ledger import Ledger, tables
from cutline.mechanisms import StableTopK
from cutline.privacy import Budget, Cost, Filter

ROWS = Table("bare", MetaData(), Column("id", Integer, primary_key=True), Column("value", Text), Column("other", Text))


BEFORE = "dd35a55"  # the last commit with a write-ahead log, without answers and without a chain
ANSWER = {"items": [f"place {i}" for i in range(50)], "k": 50, "status": "released"}
QUESTION = {"user": "user_id", "item": "venue", "k": 50, "where": "day > 3"}

# Reserves and settles once per line of standard input, and answers with the seconds it took.
WORKER = """
import json, sys, time
from pathlib import Path
from types import SimpleNamespace
from cutline.ledger import Ledger
from cutline.privacy import Budget, Cost, Filter
order = json.loads(sys.stdin.readline())
cost = Cost.from_dict(order["cost"])
ledger = Ledger(order["path"])
limits = Filter(order=20.0, rdp=5e3, delta=9e-7)
ledger.create("visits", budget=Budget(epsilon=1e4, delta=1e-6), limits=limits, owner="bench")
for _ in sys.stdin:
    start = time.perf_counter()
    reservation = ledger.reserve(cost, dataset="visits", mechanism=order["mechanism"])
    ledger.settle(reservation, SimpleNamespace(cost=cost, seeded=False))
    print(time.perf_counter() - start, flush=True)
"""


class Before:
    """The version before, in a process of its own, told by lines when to reserve and settle."""

    def __init__(self, folder: Path, cost: Cost, described: dict) -> None:
        root = Path(__file__).parents[1]
        source = subprocess.run(["git", "archive", BEFORE, "src"], cwd=root, capture_output=True, check=False)
        if source.returncode:
            raise SystemExit(f"The comparison needs the commit {BEFORE} of this repository: run it in a full clone.")
        with tarfile.open(fileobj=BytesIO(source.stdout)) as archive:
            archive.extractall(folder / "before", filter="data")
        self.process = subprocess.Popen(
            [sys.executable, "-c", WORKER],
            env={**os.environ, "PYTHONPATH": str(folder / "before" / "src")},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.tell(json.dumps({"path": str(folder / "before.db"), "cost": cost.to_dict(), "mechanism": described}))

    def tell(self, line: str) -> None:
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def seconds(self) -> float:
        self.tell("")
        return float(self.process.stdout.readline())

    def stop(self) -> None:
        self.process.stdin.close()
        self.process.wait()


class Settled:
    seeded = False

    def __init__(self, cost: Cost) -> None:
        self.cost = cost


def bare(path: Path) -> Engine:
    engine = create_engine(f"sqlite:///{path}")

    @event.listens_for(engine, "connect")
    def _configure(connection, _record):
        connection.isolation_level = None
        connection.execute("PRAGMA journal_mode = PERSIST")
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
    parser.add_argument("--folder", help="where the ledgers are written; by default where temporary files are")
    options = parser.parse_args()
    small = Budget(epsilon=1.0, delta=1e-6, releases=100)
    limits = small.filter(order=20.0, delta_share=0.1)
    mechanism = StableTopK.calibrate(small, limits=limits)
    cost, described = mechanism.cost, mechanism.describe()
    wide = Budget(epsilon=1e4, delta=1e-6)
    with tempfile.TemporaryDirectory(dir=options.folder) as name, Ledger(Path(name) / "books.db") as ledger:
        ledger.create("visits", budget=wide, limits=Filter(order=20.0, rdp=5e3, delta=9e-7), owner="bench")
        engine, before = bare(Path(name) / "bare.db"), Before(Path(name), cost, described)
        row = {"value": "x" * 200, "other": "y" * 100}

        def release() -> None:
            reservation = ledger.reserve(
                cost, dataset="visits", mechanism=described, question=QUESTION, data_version="1", purpose="bench"
            )
            ledger.settle(reservation, Settled(cost), answer=ANSWER)

        times: dict[str, list[float]] = {}
        for i in range(options.rounds + 20):
            taken = {
                "reserve + settle + answer": seconds(release),
                f"reserve + settle at {BEFORE}": before.seconds(),
                "two commits": seconds(lambda: write_twice(engine, row)),
                "one commit": seconds(lambda: write_once(engine, row)),
            }
            if i >= 20:  # the first rounds compile statements
                for what, value in taken.items():
                    times.setdefault(what, []).append(value)
        before.stop()
        middle = {what: statistics.median(values) for what, values in times.items()}
        means = {what: statistics.fmean(values) for what, values in times.items()}
        for what, value in middle.items():
            print(f"{what:<27} {1e3 * value:8.2f} ms, mean {1e3 * means[what]:8.2f} ms")
        ours, theirs, twice, once = middle.values()
        all_ours, all_theirs, *_ = means.values()
        # On disks whose flushes end on ticks of a few milliseconds the two figures differ much.
        print(
            f"over the version before: {all_ours / all_theirs:.2f}x in all (bar: 4x), {ours / theirs:.2f}x at the median"
        )
        print(
            f"over two rows, each committed: {ours / twice:.2f}x; over two rows in one commit: {ours / once:.2f}x (bar: 3x)"
        )
    with tempfile.TemporaryDirectory() as name, Ledger(Path(name) / "books.db") as ledger:
        ledger.create("visits", budget=wide, limits=Filter(order=20.0, rdp=5e3, delta=9e-7), owner="bench")
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
