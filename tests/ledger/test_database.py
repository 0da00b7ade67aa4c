"""Disks that are full, files that are read-only, servers that are gone: a clear error, and no release."""

import json
import socket
import sqlite3
import subprocess
import sys
import threading
import traceback
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import psycopg
import pytest
from sqlalchemy import event, text

from cutline.errors import LedgerUnavailable, ParameterError, SchemaError, UnsettledError
from cutline.ledger import Ledger, charging
from cutline.ledger.account import charge
from cutline.privacy import Adjacency, BoundedRange, Budget, Cost

HOW = {"name": "test"}
BUDGET = Budget(epsilon=1.0, delta=1e-6, releases=10)
FILTER = BUDGET.filter(order=16.0, delta_share=0.25)


def never():
    raise AssertionError("data was read")


def fill(ledger):
    """Forbid the database to grow, as a full disk does."""

    def stop(connection, *_):
        connection.execute(f"PRAGMA max_page_count = {connection.execute('PRAGMA page_count').fetchone()[0]}")

    ledger._database.close()
    event.listen(ledger._database._open_engine(), "connect", stop)


def test_a_full_disk_refuses_before_data_is_read(file_ledger):
    fill(file_ledger)
    long = {"name": "x" * 500}

    def fill_up():  # the last page has some room left
        for _ in range(2000):
            file_ledger.reserve(_tiny(), dataset="visits", mechanism=long)

    with pytest.raises(LedgerUnavailable, match="disk must have room"):
        fill_up()
    granted = file_ledger.show("visits").entries
    with pytest.raises(LedgerUnavailable, match="disk must have room"):
        file_ledger.run(never, cost=_tiny(), mechanism={"name": "x" * 5000}, dataset="visits")
    account = file_ledger.show("visits")
    assert account.entries == len(file_ledger.history("visits", limit=10_000)) == granted < 2000
    assert account.spent.rdp == granted * charge(_tiny(), 16.0).rdp


def _tiny():
    return Cost.of(BoundedRange(epsilon=1e-4), adjacency=Adjacency.ADD_REMOVE)


def _ran(cost):
    return SimpleNamespace(cost=cost, seeded=False)


LIMITED = """
import json, resource, signal, sys
from types import SimpleNamespace
from cutline.errors import LedgerUnavailable
from cutline.ledger import Ledger, charging
from cutline.privacy import Cost
order = json.load(sys.stdin)
cost = Cost.from_dict(order["cost"])
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (order["bytes"], order["bytes"]))
released, refused = 0, None
with Ledger(order["url"]) as ledger:
    try:
        while released < 10_000:
            ledger.run(
                lambda: SimpleNamespace(cost=cost, seeded=False), cost=cost, mechanism={"name": "y" * 900}, dataset="visits"
            )
            released += 1
    except LedgerUnavailable as error:
        refused = str(error)
print(json.dumps([released, refused]))
"""


def test_a_file_that_may_not_grow_refuses(file_ledger, tmp_path):
    """The kernel itself says no (RLIMIT_FSIZE): in the middle of a transaction, which then never was."""
    file_ledger._database.close()
    order = {"url": str(tmp_path / "books.db"), "cost": _tiny().to_dict(), "bytes": 150_000}
    done = subprocess.run(
        [sys.executable, "-c", LIMITED], input=json.dumps(order), capture_output=True, text=True, timeout=300
    )
    released, refused = json.loads(done.stdout)
    assert refused is not None
    assert "room" in refused
    entries = file_ledger.history("visits", limit=10_000)
    assert len(entries) in (released, released + 1)  # the last one may have been reserved, and not settled
    assert sum(entry.state == "settled" for entry in entries) == released
    assert file_ledger.show("visits").spent.rdp == sum(entry.charged.rdp for entry in entries)
    file_ledger.run(lambda: _ran(_tiny()), cost=_tiny(), mechanism=HOW, dataset="visits")


def test_a_read_only_file_can_be_looked_at_and_nothing_else(file_ledger, tmp_path, cost):
    file_ledger.reserve(cost, dataset="visits", mechanism=HOW)
    with Ledger(f"sqlite:///file:{tmp_path / 'books.db'}?mode=ro&uri=true") as reader:
        assert reader.show("visits").entries == 1
        for act in (
            lambda: reader.run(never, cost=cost, mechanism=HOW, dataset="visits"),
            lambda: reader.close("visits"),
            lambda: reader.create("new", budget=BUDGET, limits=FILTER, owner="ann"),
        ):
            with pytest.raises(LedgerUnavailable, match="must be writable"):
                act()
    assert file_ledger.show("visits").entries == 1


def test_a_read_only_file_without_a_ledger(tmp_path):
    with closing(sqlite3.connect(tmp_path / "other.db")) as other:
        other.execute("CREATE TABLE something (x)")
        other.commit()
    with (
        Ledger(f"sqlite:///file:{tmp_path / 'other.db'}?mode=ro&uri=true") as reader,
        pytest.raises(SchemaError, match="must hold a ledger"),
    ):
        reader.show("visits")


def test_looking_for_a_ledger_by_its_uri_does_not_create_one(tmp_path):
    with Ledger(f"sqlite:///file:{tmp_path / 'books.db'}?uri=true") as ledger:
        with pytest.raises(SchemaError, match="must be a ledger"):
            ledger.show("visits")
        assert not list(tmp_path.iterdir())
        ledger.create("visits", budget=BUDGET, limits=FILTER, owner="ann")
        assert ledger.show("visits").entries == 0


def test_a_file_that_is_no_database(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("not a database, but long enough to look like one " * 50)
    for act in (
        lambda ledger: ledger.show("visits"),
        lambda ledger: ledger.create("v", budget=BUDGET, limits=FILTER, owner="a"),
    ):
        with Ledger(path) as ledger, pytest.raises(LedgerUnavailable, match="must be a SQLite database"):
            act(ledger)
    assert path.read_text().startswith("not a database")


def test_a_directory_that_is_not_there(tmp_path):
    with Ledger(tmp_path / "nowhere" / "books.db") as ledger:
        with pytest.raises(SchemaError):
            ledger.show("visits")
        with pytest.raises(LedgerUnavailable, match="directory"):
            ledger.create("visits", budget=BUDGET, limits=FILTER, owner="ann")


def test_an_unreachable_server_releases_nothing_and_keeps_the_password(cost):
    with closing(socket.socket()) as taken:
        taken.bind(("127.0.0.1", 0))  # bound and not listening: connections are refused
        port = taken.getsockname()[1]
        for address in (
            f"postgresql://ann:hunter2@127.0.0.1:{port}/books",
            f"postgresql://127.0.0.1:{port}/books?user=ann&password=hunter2",
        ):
            ledger = Ledger(address)
            with pytest.raises(LedgerUnavailable, match="must be reachable") as refused:
                ledger.run(never, cost=cost, mechanism=HOW, dataset="visits")
            assert (refused.value.__context__, refused.value.__cause__) == (None, None)  # the driver's own words
            words = (
                "".join(traceback.format_exception(refused.value)) + repr(ledger) + json.dumps(refused.value.to_dict())
            )
            assert "hunter2" not in words
            assert f"postgresql://127.0.0.1:{port}/books" in words


def test_a_server_that_dies_during_the_run_keeps_the_charge(new_database, crashing, cost, cheaper, ran):
    """The release was paid for and cannot be settled: an error that carries it, and a full charge when the server is back."""
    with Ledger(new_database()) as ledger:
        ledger.create("visits", budget=BUDGET, limits=FILTER, owner="ann")
        result = ran(cheaper)

        def work():
            crashing.crash()
            return result

        with pytest.raises(UnsettledError, match="stays charged in full") as unsettled:
            ledger.run(work, cost=cost, mechanism=HOW, dataset="visits")
        assert unsettled.value.release is result
        (entry,) = [int(word) for word in unsettled.value.way_out.replace(";", "").split() if word.isdigit()]
        with pytest.raises(LedgerUnavailable):
            ledger.run(never, cost=cost, mechanism=HOW, dataset="visits")
        crashing.restart()
        (written,) = ledger.history("visits")
        assert (written.id, written.state, ledger.show("visits").spent) == (entry, "reserved", charge(cost, 16.0))
        ledger.run(lambda: result, cost=cost, mechanism=HOW, dataset="visits")
        assert ledger.show("visits").entries == 2


def test_settling_without_a_server_carries_the_release(new_database, crashing, cost, cheaper, ran):
    """Whoever reserves and settles without `run` loses a paid answer as little, and can settle it when the server is back."""
    with Ledger(new_database()) as ledger:
        ledger.create("visits", budget=BUDGET, limits=FILTER, owner="ann")
        reservation, result = ledger.reserve(cost, dataset="visits", mechanism=HOW), ran(cheaper)
        crashing.crash()
        with pytest.raises(UnsettledError, match="stays charged in full") as unsettled:
            ledger.settle(reservation, result)
        assert unsettled.value.release is result
        crashing.restart()
        assert ledger.settle(reservation, result).spent == charge(cheaper, 16.0)


def test_an_open_ledger_holds_nothing_back(url, cost):
    """Nothing is opened before the first use, no lock is held after it, and closing twice is harmless."""
    idle = Ledger(url)
    assert idle._database._engine is None
    idle.__exit__()
    with Ledger(url) as held, Ledger(url) as other:
        held.create("visits", budget=BUDGET, limits=FILTER, owner="ann")
        held.reserve(cost, dataset="visits", mechanism=HOW)
        other.reserve(cost, dataset="visits", mechanism=HOW)
        held.__exit__()
        held.__exit__()
        assert held._database._engine.pool.checkedin() == 0
        assert held.show("visits").entries == other.show("visits").entries == 2
    held.__exit__()


def test_a_server_user_without_rights(new_database, server, cost):
    address = new_database()
    with Ledger(address) as ledger:
        ledger.create("visits", budget=BUDGET, limits=FILTER, owner="ann")
    schema = address.rpartition("%3D")[2]
    with psycopg.connect(server.get_uri(), autocommit=True) as connection:
        connection.execute("CREATE ROLE reader LOGIN")
        connection.execute(f"GRANT USAGE ON SCHEMA {schema} TO reader")
        connection.execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO reader")
    with Ledger(address.replace("postgres:@", "reader:@").replace("postgres@", "reader@")) as reader:
        assert reader.show("visits").entries == 0
        with pytest.raises(LedgerUnavailable, match="open to this user"):
            reader.run(never, cost=cost, mechanism=HOW, dataset="visits")


def test_a_server_user_with_the_rights_that_the_docs_name(new_database, server, cost, cheaper, ran):
    address = new_database()
    with Ledger(address) as ledger:
        ledger.create("visits", budget=BUDGET, limits=FILTER, owner="ann")
    schema = address.rpartition("%3D")[2]
    page = (Path(__file__).parents[2] / "docs" / "ledger.md").read_text(encoding="utf-8")
    rights = page.split("```sql\n")[1].split("```")[0]
    with psycopg.connect(server.get_uri(), autocommit=True) as connection:
        connection.execute("CREATE ROLE analysts LOGIN")
        connection.execute(f"GRANT USAGE ON SCHEMA {schema} TO analysts")
        connection.execute(f"SET search_path = {schema}")
        connection.execute(rights)
    with Ledger(address.replace("postgres:@", "analysts:@").replace("postgres@", "analysts@")) as books:
        reservation = books.reserve(cost, dataset="visits", mechanism=HOW, analyst="bob")
        books.settle(reservation, ran(cheaper), answer={"n": 1})
        books.note(reservation.id, "by a user with these rights and no others")
        books.limit("visits", "bob", share=0.5)
        assert books.audit().passed


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("mysql://host/books", "SQLite or PostgreSQL"),
        ("sqlite://", "outlive its process"),
        ("sqlite:///:memory:", "outlive its process"),
        (":memory:", "outlive its process"),
        ("sqlite:///file:x?mode=memory&uri=true", "outlive its process"),
        ("", "outlive its process"),
        ("://", "path or a URL"),
        ("postgresql://ann:hunter2@host:notaport/books", "path or a URL"),
        ("sqlite:///file:books.db?vfs=memdb&uri=true", "no options"),  # forgets everything with the process
        ("sqlite:///file:books.db?nolock=1&uri=true", "no options"),  # lets writers overwrite one another
        ("sqlite:///file:books.db?mode=rw&uri=true&timeout=0", "no options"),
        ("sqlite:///books.db?mode=ro", "no options"),  # would be ignored, and the file written
        ("file:books.db?mode=ro", "no options"),
        ("postgres:/books", "path or a URL"),  # each of these was created as a file
        ("postgresql:host", "path or a URL"),
        ("sqlite:/books.db", "path or a URL"),
        ("mysql//ann:hunter2@host/books", "path or a URL"),
        ("host=server user=ann password=hunter2", "path or a URL"),
        ("dbname = hunter2", "path or a URL"),
        ("ann:hunter2@host/books", "path or a URL"),
        ("books.db?password=hunter2", "path or a URL"),
        (Path("postgresql://ann:hunter2@host/books"), "path or a URL"),
        ("postgresql:///ann:hunter2@host/books", "path or a URL"),  # the login was taken for the name
        ("postgresql://host/books password=hunter2", "path or a URL"),
        ("postgresql://ann:one@hunter2@host/books", "path or a URL"),  # half of the password was taken for the host
        ("nul\0.db", "path or a URL"),
        ("\udc80.db", "path or a URL"),
        (b"books.db", "path or a URL"),
        (7, "path or a URL"),
    ],
)
def test_addresses_that_are_no_ledger(address, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ParameterError, match=words) as refused:
        Ledger(address).create("visits", budget=BUDGET, limits=FILTER, owner="ann")
    told, error = "", refused.value
    while error is not None:
        told, error = told + repr(error) + str(error), error.__context__
    assert "hunter2" not in told
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["books", "a b.db", "2024-11.db", "Ö=x.db", "c:books.db", "file", "./postgres:x"])
def test_paths_that_are_paths(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with Ledger(name) as ledger:
        ledger.create("visits", budget=BUDGET, limits=FILTER, owner="ann")
    assert Path(name).stat().st_size > 0


def test_a_reader_sees_one_moment(ledger, url, cost):
    """An account and its analysts are two statements; a release that is written between them is seen by neither."""
    written = threading.Event()

    def write():
        with Ledger(url) as other, other._writing("visits") as opened:
            charging.reserve(opened, cost, asked=charging.Asked(analyst="bob"), known_costs=set())
            written.set()  # in a file, the commit waits for the reader

    writer = threading.Thread(target=write)
    with ledger._database.reading() as books:
        rows = [books.execute(text("SELECT entries FROM cutline_datasets")).scalar()]
        writer.start()
        assert written.wait(60)
        rows += [
            books.execute(text(f"SELECT count(*) FROM cutline_{name}")).scalar() for name in ("entries", "analysts")
        ]
    writer.join()
    assert rows == [0, 0, 0]
    assert ledger.show("visits").entries == 1
