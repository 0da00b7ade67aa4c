r"""Where the books are: a file or a PostgreSQL server, opened so that what is committed is on the disk.

SQLite keeps a rollback journal with ``synchronous=FULL``, so that after every commit the one file holds every charge, and every
writer begins with ``BEGIN IMMEDIATE``: one writer at a time, and a reader never sees half of a transaction. The file belongs to
its owner alone (mode 0600). Before each transaction it must still be the file that was opened, and before each one that writes
it must have no second name: a hard link has a journal of its own, and who opens the file by it undoes nothing after a crash.
PostgreSQL runs with ``synchronous_commit`` on; writers lock the dataset's row under
READ COMMITTED, and readers see one moment under REPEATABLE READ.

No connection to a SQLite file is open while the process forks. SQLite keeps what this process has locked in tables of the
process, and a fork copies them, while the kernel gives the child none of the locks. A child that opens the same file again,
even by another `Ledger`, then trusts locks that nobody holds, and two processes write at once. So a fork waits for the
transactions in flight, lets no new one begin, and closes idle connections first; both sides open new ones when needed.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

from sqlalchemy import URL, Connection, Engine, create_engine, event
from sqlalchemy.exc import DBAPIError, DisconnectionError, InterfaceError, SQLAlchemyError

from cutline.errors import CutlineError, LedgerUnavailable, SchemaError
from cutline.extras import require
from cutline.ledger.address import parse_address

BACKUP = 0x6261636B  # what a backup has as SQLite's number for the user
_PATIENCE = 60  # seconds a writer waits for the others
_FORK_PATIENCE = 70  # seconds a fork waits for transactions, which wait for other writers no longer than a minute


# What reading a row raises that other hands, or a broken disk, have changed.
_UNREADABLE = (ValueError, TypeError, LookupError, ArithmeticError, AttributeError, RecursionError)


class Database:
    """One database, whose errors are replaced by sentences without a password, a path of ours or a statement.

    Nothing is opened before the first transaction. Afterwards one idle connection is kept, which holds no lock. Closing any
    number of times is harmless, and the database can be used again after it.
    """

    __slots__ = ("_engine", "_identity", "path", "printable_address", "url")

    def __init__(self, address: str | os.PathLike[str]) -> None:
        url = parse_address(address)
        port = f":{url.port}" if url.port else ""
        self.path = None
        self.printable_address = f"postgresql://{url.host or ''}{port}/{url.database or ''}"
        """The address without user, password and options."""
        if url.get_backend_name() == "sqlite":
            self.printable_address = given = url.database or ""
            # A process may change its directory; the ledger stays where it was.
            self.path = Path(os.path.abspath(unquote(given.removeprefix("file:")) if _is_uri(given) else given))
            url = url.set(database=f"file:{quote(str(self.path))}" if _is_uri(given) else str(self.path))
        self.url = url
        self._engine: Engine | None = None
        self._identity: tuple[int, int] | None = None

    @property
    def is_file(self) -> bool:
        """Whether it is SQLite."""
        return self.path is not None

    def reading(self) -> AbstractContextManager[Connection]:
        """Open a transaction that only reads, and sees one moment."""
        return self._transaction(writes=False)

    def writing(self, *, create: bool = False, restore: bool = False) -> AbstractContextManager[Connection]:
        """Open a transaction that writes: all of it is on the disk afterwards, or nothing.

        To ``create`` there need not be a file yet; to ``restore``, a backup may be written to.
        """
        return self._transaction(writes=True, create=create, restore=restore)

    def create_file(self) -> None:
        """Create an empty file that its owner alone may read and write, unless there is one, before anything is written."""
        if self.path is None or self.url.query.get("mode") == "ro":
            return
        try:
            # A symbolic link may lead to a file that is not there yet, and SQLite would follow it.
            handle = os.open(os.path.realpath(self.path), os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            return
        except OSError:
            refusal = _unavailable("SQLITE_CANTOPEN", self.printable_address)
        else:
            os.close(handle)
            os.chmod(self.path, 0o600)  # a umask may have taken bits off
            return
        raise refusal

    def close(self) -> None:
        """Close all connections; the next transaction opens another."""
        if self._engine is not None:
            self._engine.dispose()

    def _refuse_missing_file(self) -> None:
        """Raise if the file is not there: opening it would create an empty one."""
        if self.path is not None and self._identity is None and not self.path.exists():
            raise SchemaError(
                "there must be a ledger", repr(self.printable_address), "Create it with `cutline ledger init`."
            )

    @contextmanager
    def _transaction(self, *, writes: bool, create: bool = False, restore: bool = False) -> Iterator[Connection]:
        if not create:
            self._refuse_missing_file()
        if self._identity is not None:
            self._check_place(writes=writes)  # a path that leads nowhere would be opened as a new file
        with self._hold_off_forks(), self._replace_errors(), self._open_engine().connect() as connection:
            connection.info.update(writes=writes, restores=restore)
            with connection.begin():
                self._check_place(writes=writes)
                yield connection

    def _check_place(self, *, writes: bool) -> None:
        """Raise unless the path still leads to the file that was opened first, and, to write, nothing else does.

        SQLite itself compares the file it has open with the path when it begins to write.
        """
        if self.path is None:
            return
        try:
            found = self.path.stat()
        except OSError:
            found = None
        if self._identity is None and found is not None:
            self._identity = found.st_dev, found.st_ino
        if found is None or (found.st_dev, found.st_ino) != self._identity:
            raise LedgerUnavailable(
                "the ledger's file must stay what and where it was when it was opened",
                f"{self.printable_address!r}, which was moved, deleted or replaced",
                "Put it back; if its owner replaced it, open it anew.",
            )
        if writes and found.st_nlink != 1:
            raise LedgerUnavailable(
                "the ledger's file must have one name, so that everybody finds its journal",
                f"{self.printable_address!r}, which has hard links",
                "Remove the other names; `cutline ledger backup` makes copies.",
            )

    def _hold_off_forks(self) -> AbstractContextManager[None]:
        return _GATE.hold_off_forks() if self.is_file else nullcontext()

    @contextmanager
    def _replace_errors(self) -> Iterator[None]:
        address = repr(self.printable_address)
        try:
            yield
        except CutlineError:
            raise
        except DBAPIError as error:
            refusal = _translate_error(error, self.printable_address)
        except SQLAlchemyError:
            refusal = LedgerUnavailable("the ledger's database must answer", address, "Try again.")
        except _UNREADABLE:
            refusal = SchemaError(
                "the ledger's rows must hold what Cutline wrote there", address, "Look with `cutline ledger audit`."
            )
        except Exception as error:
            if type(error).__module__.partition(".")[0] not in ("psycopg", "sqlite3"):
                raise
            # A driver's own error, from a connection that failed while it was being set up.
            refusal = LedgerUnavailable(
                "the ledger's database must be whole and answer", address, "Check that it runs."
            )
        else:
            return
        try:
            raise refusal
        except CutlineError as error:
            # Whoever leaves a `with` block by an error hands it on as the context of the next one, and the driver's own
            # words may hold a login.
            error.__context__ = None
            raise

    def _open_engine(self) -> Engine:
        if self._engine is None:
            engine = _open_sqlite(self.url) if self.is_file else _open_postgresql(self.url)
            event.listen(engine, "connect", _remember_process)
            event.listen(engine, "checkout", _refuse_inherited)
            self._engine = engine  # only now: another thread may be looking
        return self._engine


def _is_uri(path: str) -> bool:
    return path.startswith("file:")


def _open_sqlite(url: URL) -> Engine:
    engine = create_engine(url, connect_args={"timeout": _PATIENCE})
    _GATE.watch(engine)

    @event.listens_for(engine, "connect")
    def _configure(connection: Any, _record: Any) -> None:
        connection.isolation_level = None  # the driver would begin by itself, and too late
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA foreign_keys = ON")

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        if not connection.info["writes"]:
            connection.exec_driver_sql("BEGIN")
            return
        if not connection.info.get("checked"):
            _check_file(connection)
            connection.info["checked"] = True
        connection.exec_driver_sql("BEGIN IMMEDIATE")

    return engine


def _check_file(connection: Connection) -> None:
    """Choose a rollback journal, and raise for a backup; once for a connection, before it writes.

    The journal's end is marked by an overwritten header, which is on the disk before a commit is done. A file of an older
    version keeps a write-ahead log until then.
    """
    if connection.exec_driver_sql("PRAGMA journal_mode = PERSIST").scalar() != "persist":
        raise LedgerUnavailable("the ledger must keep a rollback journal", "another mode", "Close other programs.")
    if not connection.info["restores"] and connection.exec_driver_sql("PRAGMA user_version").scalar() == BACKUP:
        raise LedgerUnavailable(
            "a backup is not written to: what was spent since is unknown",
            "a file that `cutline ledger backup` wrote",
            "Make a ledger of it with `cutline ledger restore`.",
        )


def _open_postgresql(url: URL) -> Engine:
    require("psycopg", extra="postgresql", purpose="a ledger in PostgreSQL")
    patience = {} if "connect_timeout" in url.query else {"connect_timeout": 10}
    engine = create_engine(url, isolation_level="READ COMMITTED", pool_pre_ping=True, connect_args=patience)

    @event.listens_for(engine, "connect")
    def _configure(connection: Any, _record: Any) -> None:
        connection.autocommit = True  # settings outlive a transaction that is rolled back
        connection.execute("SET synchronous_commit = on")
        connection.execute(f"SET lock_timeout = '{_PATIENCE}s'")
        connection.autocommit = False

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        if connection.info.get("writes") is False:
            connection.exec_driver_sql("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")

    return engine


def _remember_process(_connection: Any, record: Any) -> None:
    record.info["process"] = os.getpid()


def _refuse_inherited(_connection: Any, record: Any, proxy: Any) -> None:
    """Leave a connection of the parent process alone after a fork, and have the pool open another."""
    if record.info["process"] != os.getpid():
        record.dbapi_connection = proxy.dbapi_connection = None
        raise DisconnectionError("made by another process")


# By the start of the driver's code: SQLite's names, then PostgreSQL's.
_ERRORS = (
    ("SQLITE_FULL", "the disk must have room for the ledger", "Free some disk space."),
    ("SQLITE_IOERR", "the ledger's file must be readable and have room to grow", "Check the disk."),
    ("SQLITE_READONLY_DBMOVED", "the ledger's file must stay where it was opened", "Put it back, or open it anew."),
    ("SQLITE_READONLY", "the ledger must be writable", "Open it where it may be written."),
    ("SQLITE_CANTOPEN", "the ledger's file must be in a directory that can be read and written", "Check the path."),
    ("SQLITE_PERM", "the ledger's file must be readable and writable", "Check its permissions."),
    ("SQLITE_BUSY", "the ledger must be free within a minute", "Try again when other writers are done."),
    ("SQLITE_NOTADB", "the ledger's file must be a SQLite database", "Check the path."),
    ("SQLITE_CORRUPT", "the ledger's file must be whole", "Restore it from a copy that holds every entry."),
    ("53", "the ledger's server must have room on its disk and free connections", "Ask who runs it."),
    ("25006", "the ledger must be writable", "Connect to the server that takes writes."),
    ("55P03", "the ledger must be free within a minute", "Try again when other writers are done."),
    ("42501", "the ledger's tables must be open to this user", "Ask their owner for the right."),
    ("28", "the ledger's server must accept the login", "Check user and password."),
    ("3D000", "the ledger's database must exist on its server", "Create it, or check its name."),
)


def _translate_error(error: DBAPIError, address: str) -> CutlineError:
    """Choose a sentence by the driver's code; its own words may hold statements and logins."""
    code = getattr(error.orig, "sqlite_errorname", None) or getattr(error.orig, "sqlstate", None) or ""
    if code == "42P01" or (code == "SQLITE_ERROR" and str(error.orig).startswith("no such table")):
        return SchemaError("the database must hold a ledger", repr(address), "Create it with `cutline ledger init`.")
    if any(code.startswith(start) for start, _, _ in _ERRORS):
        return _unavailable(code, address)
    if isinstance(error, InterfaceError) or error.connection_invalidated or not code:
        return LedgerUnavailable(
            "the ledger's database must be reachable and accept the login", repr(address), "Check that it runs."
        )
    return LedgerUnavailable(
        "the ledger's database must accept what is written", repr(address), f"Its code was {code}."
    )


def _unavailable(code: str, address: str) -> LedgerUnavailable:
    """Return the refusal for a code that is in the list."""
    rule, way_out = next((rule, way_out) for start, rule, way_out in _ERRORS if code.startswith(start))
    return LedgerUnavailable(rule, repr(address), way_out)


class _Gate:
    """Transactions of all threads pass together; a fork passes alone, with every connection closed.

    While a fork waits, no new transaction begins, so that it waits for those in flight only. A thread that is inside already
    may go deeper: the fork waits for it anyway. Threads that wait to fork inside a transaction of their own do not wait for one
    another; their children are told that a transaction was cut in two.
    """

    def __init__(self) -> None:
        self._engines: weakref.WeakSet[Engine] = weakref.WeakSet()
        self._changed = threading.Condition()
        self._inside: Counter[int] = Counter()  # how many transactions a thread is in
        self._forking: set[int] = set()  # threads that wait to fork
        self._spoilt = False

    def watch(self, engine: Engine) -> None:
        """Close this engine's idle connections before every fork."""
        self._engines.add(engine)

    @contextmanager
    def hold_off_forks(self) -> Iterator[None]:
        """Hold off forks for the length of one transaction."""
        if self._spoilt:
            raise LedgerUnavailable(
                "a ledger's file cannot be opened in a process that was forked in the middle of a transaction",
                f"process {os.getpid()}",
                "Fork before or after, or start processes by spawn.",
            )
        thread = threading.get_ident()
        with self._changed:
            self._changed.wait_for(lambda: not self._forking or thread in self._inside)
            self._inside[thread] += 1
        try:
            yield
        finally:
            with self._changed:
                self._inside[thread] -= 1
                self._inside += Counter()  # drops those that are outside now
                self._changed.notify_all()

    def before_fork(self) -> None:
        """Let nobody in, wait for the transactions of other threads, and close what is idle."""
        self._changed.acquire()
        self._forking.add(threading.get_ident())
        self._changed.wait_for(lambda: set(self._inside) <= self._forking, timeout=_FORK_PATIENCE)
        for engine in list(self._engines):
            engine.dispose()

    def after_in_parent(self) -> None:
        """Let the transactions go on."""
        self._forking.discard(threading.get_ident())
        self._changed.notify_all()
        self._changed.release()

    def after_in_child(self) -> None:
        """Start anew; what was still in flight has spoilt SQLite's own tables here."""
        self._spoilt = self._spoilt or bool(self._inside)
        self._inside.clear()
        self._forking.clear()
        self._changed = threading.Condition()


_GATE = _Gate()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_GATE.before_fork, after_in_parent=_GATE.after_in_parent, after_in_child=_GATE.after_in_child
    )
