r"""Turns: what must not be done twice at once is done by one thread after the other.

Where the database is a file, one process serves it, which `hold_file` makes sure of, and threads take turns among themselves.
Where it is a PostgreSQL server, several processes may serve together, and take turns by the server's advisory locks, which end
with the process that held them.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import IO

from sqlalchemy import Engine, NullPool, create_engine, func, select
from sqlalchemy.exc import SQLAlchemyError

from cutline.errors import LedgerUnavailable
from cutline.ledger.database import Database
from cutline.service.store import Conflict


class Turns:
    """Lets equal keys through one at a time, among all who use the same database."""

    def __init__(self, address: str) -> None:
        database = Database(address)
        # A connection a lock: it is closed when the turn ends, and with the process if that ends before.
        self._server: Engine | None = None
        if not database.is_file:
            self._server = create_engine(database.url, poolclass=NullPool, isolation_level="AUTOCOMMIT")
        self._guard = threading.Lock()
        self._taken: dict[str, tuple[threading.Lock, int]] = {}

    @contextmanager
    def take(self, key: str) -> Iterator[None]:
        """Wait until nobody else has this key, and have it until the end of the block."""
        with self._guard:
            lock, waiting = self._taken.get(key, (threading.Lock(), 0))
            self._taken[key] = (lock, waiting + 1)
        try:
            with lock, self._take_on_server(key):
                yield
        finally:
            with self._guard:
                lock, waiting = self._taken[key]
                if waiting == 1:
                    del self._taken[key]
                else:
                    self._taken[key] = (lock, waiting - 1)

    def is_free(self, key: str) -> bool:
        """Say whether nobody has this key now."""
        with self._guard:
            if key in self._taken:
                return False
        if self._server is None:
            return True
        with self._speak() as found, found.connect() as connection:
            return bool(connection.scalar(select(func.pg_try_advisory_lock(_number(key)))))

    def _take_on_server(self, key: str) -> AbstractContextManager[None]:
        return nullcontext() if self._server is None else self._hold_lock(key)

    @contextmanager
    def _hold_lock(self, key: str) -> Iterator[None]:
        with self._speak() as server:
            connection = server.connect()
            connection.execute(select(func.pg_advisory_lock(_number(key))))
        try:
            yield
        finally:
            connection.close()  # and with it the lock: no pool keeps it

    @contextmanager
    def _speak(self) -> Iterator[Engine]:
        """Replace a driver's own words, which may hold a login."""
        assert self._server is not None  # noqa: S101 - asked before
        try:
            yield self._server
        except SQLAlchemyError:
            failed = True
        else:
            failed = False
        if failed:
            raise LedgerUnavailable("the books' server must answer", "", "Check that it runs.")


def hold_file(address: str) -> IO[bytes] | None:
    """Refuse a second process on one file; return what holds it until it is closed, or None where several may serve."""
    path = Database(address).path
    if path is None:
        return None
    held = os.fdopen(os.open(Path(f"{path}.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600), "r+b")
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        held.close()
        refused = True
    else:
        refused = False
    if refused:
        raise Conflict(
            "one process serves a store that is a file",
            repr(path.name),
            "Stop the other one, or keep books and store in PostgreSQL for several.",
        )
    return held


def _number(key: str) -> int:
    """Return a key as the server takes it: a whole number of 64 bits."""
    return int.from_bytes(hashlib.sha256(key.encode()).digest()[:8], "big", signed=True)
