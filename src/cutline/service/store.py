r"""The database beside the books, and the clock: every other file of the service reads and writes through these."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import Connection
from starlette.concurrency import run_in_threadpool

from cutline.errors import CutlineError
from cutline.ledger.database import Database
from cutline.service import tables

Clock = Callable[[], dt.datetime]
Found = TypeVar("Found")


class NotFound(CutlineError, LookupError):  # noqa: N818 - what it says
    """There is no such thing, or not for this caller; the two look the same."""


class Forbidden(CutlineError, PermissionError):  # noqa: N818 - what it says
    """The caller is known, and may not do this."""


class Unknown(CutlineError, PermissionError):  # noqa: N818 - what it says
    """The caller has not shown who they are."""


class Conflict(CutlineError, ValueError):  # noqa: N818 - what it says
    """The state of things does not allow it."""


class TooMany(CutlineError):  # noqa: N818 - what it says
    """Somebody asks faster than the service answers."""


class TooLarge(CutlineError):  # noqa: N818 - what it says
    """A body is larger than any question is."""


class TooSlow(CutlineError):  # noqa: N818 - what it says
    """A body does not come to its end."""


class Unavailable(CutlineError, RuntimeError):  # noqa: N818 - what it says
    """Another service that this one needs did not answer as it should."""


def current_time() -> dt.datetime:
    """Return now, in UTC."""
    return dt.datetime.now(dt.UTC)


def no_such(kind: str, name: str) -> NotFound:
    """Return the one refusal for what is not there and for what may not be seen."""
    return NotFound(f"there must be such a {kind}", repr(name[:60]), "Check the name, or ask its owner for access.")


class Recall:
    """Remembers what was read from a database's file within one second, and forgets all of it when the file is written.

    On a server, where other processes write unseen, nothing is remembered.
    """

    def __init__(self, path: Path | None, clock: Clock) -> None:
        self._path, self._clock = path, clock
        self._known: tuple[object, dict[object, Any]] = (None, {})  # replaced as one: threads read it without a lock
        self.writes = 0  # by this process; the file's own time may not tell two of them apart

    def get(self, key: object, read: Callable[[], Found]) -> Found:
        """Return what was read under this key, or read it."""
        mark = self._now()
        if mark is None:
            return read()
        when, known = self._known
        if mark != when:
            known = {}
            self._known = (mark, known)
        if key not in known:
            found = read()
            if self._now() != mark:  # it was written meanwhile
                return found
            known[key] = found
        value: Found = known[key]
        return value

    async def get_soon(self, key: object, read: Callable[[], Found]) -> Found:
        """Do the same for a coroutine: what is not remembered is read in another thread."""
        when, known = self._known
        if key in known and self._now() == when:
            value: Found = known[key]
            return value
        return await run_in_threadpool(self.get, key, read)

    def _now(self) -> object:
        if self._path is None:
            return None
        found = self._path.stat()
        return found.st_mtime_ns, found.st_size, self.writes, self._clock().replace(microsecond=0)


class Store:
    """The tables of the service in one database, created when they are missing."""

    def __init__(self, address: str, *, clock: Clock = current_time) -> None:
        self._database = Database(address)
        self._database.printable_address = "the service's store"  # errors reach people who need not know where it is
        self.clock = clock
        self.recall = Recall(self._database.path, clock)

    def create(self) -> None:
        """Create file and tables, unless they are there."""
        self._database.create_file()
        with self._database.writing(create=True) as connection:
            tables.metadata.create_all(connection)

    def reading(self) -> AbstractContextManager[Connection]:
        """Open a transaction that only reads, and sees one moment."""
        return self._database.reading()

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """Open a transaction that writes: all of it is on the disk afterwards, or nothing."""
        try:
            with self._database.writing() as connection:
                yield connection
        finally:
            self.recall.writes += 1

    def close(self) -> None:
        """Close all connections."""
        self._database.close()

    def now(self, *, plus: dt.timedelta = dt.timedelta()) -> str:
        """Return the time as it is written down: ISO 8601 in UTC, so that text sorts as time does."""
        return (self.clock() + plus).isoformat(timespec="seconds")


def plain(row: Any) -> dict[str, Any]:
    """Return a row as a dictionary."""
    return dict(row._mapping)
