"""Backups, restoring and upgrading: an old copy never grants again what may have been spent since."""

import signal
import sqlite3
import stat
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text
from typer.testing import CliRunner

from cutline.cli import app
from cutline.errors import BudgetError, LedgerUnavailable, ParameterError, SchemaError, SettlementError
from cutline.ledger import Ledger, restore
from cutline.ledger.account import Sums, charge
from cutline.ledger.address import parse_address
from cutline.privacy import Budget, Cost, Filter

HOW = {"name": "test"}
BUDGET = Budget(epsilon=1.0, delta=1e-6, releases=10)
FILTER = BUDGET.filter(order=16.0, delta_share=0.25)
LAYOUT_1 = Path(__file__).with_name("layout_1.sql")


@pytest.fixture
def backup(file_ledger, tmp_path, cost, cheaper, ran):
    """A backup of a ledger with two accounts, one answer and one open reservation, and its head."""
    file_ledger.create("other", budget=BUDGET, limits=FILTER, owner="ann", analysts=["bob"])
    file_ledger.settle(file_ledger.reserve(cost, dataset="visits", mechanism=HOW), ran(cheaper), answer={"n": 1})
    file_ledger.reserve(cost, dataset="visits", mechanism=HOW)
    return tmp_path / "backup.db", file_ledger.backup(tmp_path / "backup.db")


def test_a_backup_is_the_whole_ledger(file_ledger, backup):
    path, head = backup
    assert head == file_ledger.show("visits").head
    with Ledger(path) as copy:
        assert copy.audit(head).passed
        assert [copy.show(name) for name in copy.datasets()] == [file_ledger.show(n) for n in file_ledger.datasets()]
        assert copy.answer(1) == file_ledger.answer(1)


def test_nothing_is_charged_to_a_backup_itself(file_ledger, backup, cost, tmp_path):
    path, _ = backup
    for name in ("backup.db", "copy.db"):
        (tmp_path / name).write_bytes(path.read_bytes())
        with Ledger(tmp_path / name) as copy:
            for act in (
                lambda: copy.reserve(cost, dataset="visits", mechanism=HOW),
                lambda: copy.create("new", budget=BUDGET, limits=FILTER, owner="ann"),
            ):
                with pytest.raises(LedgerUnavailable, match="cutline ledger restore"):
                    act()
            assert copy.audit().passed
    file_ledger.reserve(cost, dataset="visits", mechanism=HOW)


def test_a_backup_is_written_to_a_new_file(file_ledger, backup, tmp_path, new_database):
    (tmp_path / "later.db-journal").touch()
    for name in ("books.db", "backup.db", "later.db"):
        with pytest.raises(ParameterError, match="a new file"):
            file_ledger.backup(tmp_path / name)
    with pytest.raises(LedgerUnavailable, match="directory"):
        file_ledger.backup(tmp_path / "nowhere" / "backup.db")
    with pytest.raises(ParameterError, match="written to a file"):
        file_ledger.backup("postgresql://host/books")
    with Ledger(new_database()) as server:
        server.create("visits", budget=BUDGET, limits=FILTER, owner="ann")
        with pytest.raises(ParameterError, match="pg_dump"):
            server.backup(tmp_path / "server.db")
    assert not (tmp_path / "server.db").exists()


def test_restoring_without_a_head_leaves_nothing_to_spend(file_ledger, backup, tmp_path, cost, cheaper, ran):
    path, head = backup
    (pending,) = [entry for entry in file_ledger.history("visits") if entry.state == "reserved"]
    restore(path, tmp_path / "new.db", head=None)
    assert stat.S_IMODE((tmp_path / "new.db").stat().st_mode) == 0o600
    assert not list(tmp_path.glob("*.restoring*"))
    with Ledger(tmp_path / "new.db") as ledger:
        assert ledger.audit(head).passed
        for name, analyst in (("visits", None), ("other", "bob")):
            account = ledger.show(name)
            assert (account.spent, account.remaining_releases) == (account.limits, 0)
            with pytest.raises(BudgetError):
                ledger.reserve(cost, dataset=name, mechanism=HOW, analyst=analyst)
            newest = ledger.history(name)[0]
            assert newest.mechanism == {"name": "restored from a backup"}
            assert "unknown" in newest.purpose
            Cost.from_dict(newest.reserved_cost)
        reservation = file_ledger.reserve(cost, dataset="visits", mechanism=HOW)
        same = type(reservation)(id=pending.id, dataset="visits", analyst=None, cost=cost, at=pending.at)
        with pytest.raises(SettlementError, match="settled once"):  # or its refund would be granted here and there
            ledger.settle(same, ran(cheaper))
        assert ledger.answer(1).answer == {"n": 1}


def test_restoring_with_the_head_goes_on_where_the_backup_was(file_ledger, backup, tmp_path, cost, cheaper, ran):
    path, head = backup
    restore(path, tmp_path / "new.db", head=head.upper())
    with Ledger(tmp_path / "new.db") as ledger:
        assert ledger.show("visits") == file_ledger.show("visits")
        ledger.reserve(cost, dataset="visits", mechanism=HOW)
        assert ledger.audit(head).passed


def test_restoring_charges_what_is_left_of_delta_alone(tmp_path, cost):
    limits = Filter(order=FILTER.order, rdp=cost.rdp(FILTER.order), delta=FILTER.delta)
    with Ledger(tmp_path / "books.db") as books:
        books.create("visits", budget=BUDGET, limits=limits, owner="ann")
        books.reserve(cost, dataset="visits", mechanism=HOW)
        assert (books.show("visits").left.rdp, books.show("visits").left.delta > 0) == (0, True)
        books.backup(tmp_path / "backup.db")
    restore(tmp_path / "backup.db", tmp_path / "new.db", head=None)
    with Ledger(tmp_path / "new.db") as books:
        assert books.show("visits").left == Sums()
        assert books.audit().passed


_DIES = """
import os, signal, sys
from cutline.ledger import owner, restore
owner._charge_remainder = lambda opened: os.kill(os.getpid(), signal.SIGKILL)
restore(sys.argv[1], sys.argv[2], head=None)
"""


@pytest.mark.slow
def test_a_restore_that_dies_leaves_nothing_that_can_be_spent(backup, tmp_path, cost):
    died = subprocess.run([sys.executable, "-c", _DIES, str(backup[0]), str(tmp_path / "new.db")], check=False)
    assert died.returncode == -signal.SIGKILL
    assert not (tmp_path / "new.db").exists()
    with (
        Ledger(tmp_path / "new.db.restoring") as half,
        pytest.raises(LedgerUnavailable, match="a backup is not written"),
    ):
        half.reserve(cost, dataset="visits", mechanism=HOW)


def test_what_cannot_be_restored(file_ledger, backup, tmp_path, cost):
    path, head = backup
    file_ledger.reserve(cost, dataset="visits", mechanism=HOW)
    for noted in (file_ledger.show("visits").head, "0" * 64):
        with pytest.raises(ParameterError, match="the head must be the backup's") as refused:
            restore(path, tmp_path / "new.db", head=noted)
        assert head in str(refused.value)
    with pytest.raises(ParameterError, match="64 hexadecimal"):
        restore(path, tmp_path / "new.db", head="yes")
    with pytest.raises(ParameterError, match="a new file"):
        restore(path, tmp_path / "books.db", head=head)
    with pytest.raises(SchemaError, match="must be a ledger"):
        restore(tmp_path / "none.db", tmp_path / "new.db", head=None)
    with pytest.raises(ParameterError, match="pg_restore"):
        restore("postgresql://host/books", tmp_path / "new.db", head=None)
    with closing(sqlite3.connect(path)) as other:
        other.execute("UPDATE cutline_datasets SET spent_rdp = '0'")
        other.commit()
    with pytest.raises(SchemaError, match="must be whole to be restored"):
        restore(path, tmp_path / "new.db", head=head)
    assert {file.name for file in tmp_path.iterdir()} - {"backup.db", "books.db", "books.db-journal"} == set()


def test_a_ledger_of_the_layout_before_is_upgraded(tmp_path, cost, cheaper, ran):
    """The file was written by the version before the chain, with a write-ahead log and open to everybody."""
    path = tmp_path / "books.db"
    with closing(sqlite3.connect(path)) as old:
        old.execute("PRAGMA journal_mode = WAL")
        old.executescript(LAYOUT_1.read_text(encoding="utf-8"))
    path.chmod(0o644)
    with Ledger(path) as ledger:
        for act in (
            lambda: ledger.show("visits"),
            lambda: ledger.reserve(cost, dataset="visits", mechanism=HOW, analyst="bob"),
            lambda: ledger.create("new", budget=BUDGET, limits=FILTER, owner="ann"),
        ):
            with pytest.raises(SchemaError, match=r"layout 1.*cutline ledger upgrade"):
                act()
        ledger.upgrade()
        ledger.upgrade()
        account = ledger.show("visits")
        assert ledger.audit(account.head).passed
        entries = ledger.history("visits")
        assert [entry.state for entry in entries] == ["settled", "reserved", "settled"]
        assert account.spent.rdp == sum(entry.charged.rdp for entry in entries)
        assert account.analysts[0].limits is not None
        assert ledger.show("trips").state == "closed"
        pending = entries[1]
        cost_then = Cost.from_dict(pending.reserved_cost)
        kind = type(ledger.reserve(cheaper, dataset="visits", mechanism=HOW, analyst="joe"))
        same = kind(id=pending.id, dataset="visits", analyst=pending.analyst, cost=cost_then, at=pending.at)
        ledger.settle(same, ran(cheaper), answer={"n": 1})
        assert ledger.answer(pending.id).charged == charge(cheaper, 16.0)
        assert ledger.audit(account.head).passed
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert not list(tmp_path.glob("*-wal"))


def put_back_to_layout_1(url):
    engine = create_engine(parse_address(url))
    with engine.begin() as connection:
        for table in ("links", "answers"):
            connection.execute(text(f"DROP TABLE cutline_{table}"))
        for index in ("questions", "topics"):
            connection.execute(text(f"DROP INDEX cutline_{index}"))
        for table, column in (
            *(("entries", name) for name in ("question", "question_digest", "data_version", "purpose", "topic_digest")),
            ("settlements", "answer_digest"),
            ("settlements", "cut"),
            ("datasets", "listed"),
            ("analysts", "allowed"),
        ):
            connection.execute(text(f"ALTER TABLE cutline_{table} DROP COLUMN {column}"))
        connection.execute(text("UPDATE cutline_schema SET version = 1"))
    engine.dispose()


def test_an_upgrade_links_everything_or_changes_nothing(ledger, url, cost, cheaper, ran):
    ledger.limit("visits", "bob", share=0.5)
    ledger.settle(ledger.reserve(cost, dataset="visits", mechanism=HOW, analyst="bob"), ran(cheaper))
    ledger.reserve(cost, dataset="visits", mechanism=HOW, analyst="joe")
    before = ledger.show("visits")
    put_back_to_layout_1(url)
    engine = create_engine(parse_address(url))
    for total, words in (("0", "must be whole to be upgraded"), (str(before.spent.rdp), None)):
        with engine.begin() as connection:
            connection.execute(text("UPDATE cutline_datasets SET spent_rdp = :total"), {"total": total})
        with Ledger(url) as late:
            if words is None:
                late.upgrade()
            else:
                with pytest.raises(SchemaError, match=words):
                    late.upgrade()
                with pytest.raises(SchemaError, match="layout 1"):
                    late.show("visits")
    engine.dispose()
    with Ledger(url) as late:
        after = late.show("visits")
        assert late.audit(after.head).passed
        assert after.to_dict() | {"head": before.head} == before.to_dict()
        late.reserve(cheaper, dataset="visits", mechanism=HOW, analyst="joe")
        assert late.audit(after.head).passed


def test_no_command_repeats_a_password(new_database):
    address = new_database()
    with Ledger(address) as books:
        books.create("visits", budget=BUDGET, limits=FILTER, owner="ann")
    login = address.replace("postgres:@", "postgres:hunter2@")
    assert login != address
    for command in (
        ["upgrade"],
        ["audit"],
        ["show"],
        ["show", "--dataset", "visits"],
        ["history", "--dataset", "visits"],
    ):
        for form in ([], ["--json"]):
            done = CliRunner().invoke(app, ["ledger", *command, "--ledger", login, *form])
            assert (done.exit_code, "hunter2" in done.output) == (0, False)
