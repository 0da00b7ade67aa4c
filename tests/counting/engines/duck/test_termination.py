"""Real commands on a log too big for its memory limit, stopped in the middle: nothing of the rows stays on the disk.

The log spills at once and then slows down: its late rows must pass a long chain of hashes. A test waits until pages of rows are
on the disk and stops the process there; left alone, it would go on for a minute.
"""

from __future__ import annotations

import functools
import os
import signal
import subprocess
import sys

import duckdb
import pyarrow as pa
import pytest

from cutline import Budget
from cutline.counting import count
from cutline.ledger import Ledger

EARLY, LATE = 60_000, 100_000
LIMIT = "60MB"
SLOW = functools.reduce(lambda inner, _: f"sha256({inner})", range(30), "item")
WHERE = f"NOT late OR {SLOW} <> '' AND {SLOW} <> 'none'"  # a filter has at most 50 levels
TOP = [sys.executable, "-m", "cutline.cli", "top"]
GROUPED = """
import sys
from cutline.api import top_by
log, where, limit, *account = sys.argv[1:]
top_by(
    log, user="user", item="item", by="day", groups=[0, 1, 2], max_groups_per_user=2, max_k=5, where=where, memory_limit=limit,
    test="paper", **dict(zip(("ledger", "dataset"), account)),
)
"""


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    path = tmp_path_factory.mktemp("log") / "log.parquet"
    duckdb.sql(
        f"""
        COPY (
            SELECT range AS user, repeat(md5(CAST(range AS VARCHAR)), 16) AS item, range % 3 AS day, range >= {EARLY} AS late
            FROM range({EARLY + LATE})
        ) TO '{path}' (ROW_GROUP_SIZE 10000)
        """
    )
    return path


def command(log):
    columns = ["--user", "user", "--item", "item", "--max-k", "5", "--test", "paper"]
    return [*TOP, str(log), *columns, "--where", WHERE, "--memory-limit", LIMIT]


def grouped(log, *account):
    return [sys.executable, "-c", GROUPED, str(log), WHERE, LIMIT, *account]


def start(arguments, directory):
    """Start a process whose temporary files go to a directory, and return when it has spilled rows there."""
    environment = os.environ | {"TMPDIR": str(directory)}
    child = subprocess.Popen(
        arguments, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    while not spilled(directory):
        try:
            child.wait(0.01)
        except subprocess.TimeoutExpired:
            continue
        pytest.fail(f"ended before it spilled: {child.communicate()}")
    return child


def spilled(directory):
    """Return the files of rows that the engine has written."""
    root = directory / f"cutline-{os.getuid()}"
    return list(root.glob("count-*/*.tmp"))


def left(directory):
    """Return everything that is there, apart from the empty lock that all counts share."""
    root = directory / f"cutline-{os.getuid()}"
    return [path for path in directory.rglob("*") if path not in (root, root / "lock")]


def end(child, number):
    child.send_signal(number)
    out, err = child.communicate(timeout=60)
    return child.returncode, out, err


@pytest.mark.parametrize(
    ("arguments", "number", "code", "words"),
    [
        (command, signal.SIGINT, 130, "Interrupted. Nothing more was released.\n"),
        (command, signal.SIGTERM, -signal.SIGTERM, ""),
        (grouped, signal.SIGTERM, -signal.SIGTERM, ""),
    ],
    ids=["top, SIGINT", "top, SIGTERM", "by groups, SIGTERM"],
)
def test_a_signal_in_the_middle_of_a_count_leaves_nothing(log, tmp_path, arguments, number, code, words):
    child = start(arguments(log), tmp_path)
    assert end(child, number) == (code, "", words)
    assert left(tmp_path) == []


STOPPED = """
import os, signal, sys
from cutline import top
from cutline.sampling import SeededSource

class Stopping(SeededSource):
    def words(self, n):
        os.kill(os.getpid(), int(sys.argv[2]))
        return super().words(n)

top(sys.argv[1], user="user", item="day", max_items_per_user=2, rng=Stopping(0))
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_in_the_middle_of_a_draw_leaves_nothing_of_counts_that_are_kept(log, tmp_path, number):
    stopped = subprocess.run(
        [sys.executable, "-c", STOPPED, str(log), str(int(number))],
        env=os.environ | {"TMPDIR": str(tmp_path)},
        capture_output=True,
        check=False,
    )
    assert stopped.returncode == -number
    assert left(tmp_path) == []


def test_what_a_killed_count_leaves_goes_at_the_next_start_and_its_charge_stays(log, tmp_path, monkeypatch):
    budget = Budget(epsilon=1.0, delta=1e-6, releases=3)
    books, scratch = str(tmp_path / "books.db"), tmp_path / "scratch"
    scratch.mkdir()
    with Ledger(books) as ledger:
        ledger.create("visits", budget=budget, limits=budget.filter(order=20.0, delta_share=0.5), owner="ann")
        child = start(grouped(log, books, "visits"), scratch)
        assert end(child, signal.SIGKILL) == (-signal.SIGKILL, "", "")
        assert spilled(scratch)
        (entry,) = ledger.history("visits")
        account = ledger.show("visits")
        assert (entry.state, entry.mechanism["groups_per_user"]) == ("reserved", 2)
        assert account.spent == entry.reserved
        assert entry.reserved.rdp <= account.limits.rdp / 3
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    assert count(pa.table({"u": [1], "i": [1]}), user="u", item="i", max_k=1).counts.tolist() == [1, 0]
    assert left(scratch) == []
