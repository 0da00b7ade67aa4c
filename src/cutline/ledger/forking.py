r"""Forks and SQLite: no connection to a file is open while the process forks.

SQLite keeps what this process has locked in tables of the process, and a fork copies them, while the kernel gives the child
none of the locks. A child that opens the same file again, even by another `Ledger`, then trusts locks that nobody holds:
whoever closes last in another process removes the write-ahead log under its feet, and what the child commits afterwards is
lost. So a fork waits for the transactions in flight and closes idle connections first; both sides open new ones when needed.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Engine

from cutline.errors import LedgerUnavailable

_PATIENCE = 70  # seconds; a transaction waits for other writers no longer than a minute


class Gate:
    """Transactions of all threads pass together; a fork passes alone, with every connection closed."""

    def __init__(self) -> None:
        self._engines: weakref.WeakSet[Engine] = weakref.WeakSet()
        self._changed = threading.Condition()
        self._inside: set[int] = set()
        self._spoilt = False

    def watch(self, engine: Engine) -> None:
        """Close this engine's idle connections before every fork."""
        self._engines.add(engine)

    @contextmanager
    def passing(self) -> Iterator[None]:
        """Hold off forks for the length of one transaction."""
        if self._spoilt:
            raise LedgerUnavailable(
                "a ledger's file cannot be opened in a process that was forked in the middle of a transaction",
                f"process {os.getpid()}",
                "Fork before or after, or start processes by spawn.",
            )
        thread = threading.get_ident()
        try:
            with self._changed:
                self._inside.add(thread)
            yield
        finally:
            with self._changed:
                self._inside.discard(thread)
                self._changed.notify_all()

    def before_fork(self) -> None:
        """Wait for the transactions of other threads, close what is idle, and let nobody in."""
        self._changed.acquire()
        mine = {threading.get_ident()}
        self._changed.wait_for(lambda: self._inside <= mine, timeout=_PATIENCE)
        for engine in list(self._engines):
            engine.dispose()

    def after_in_parent(self) -> None:
        """Let the transactions go on."""
        self._changed.release()

    def after_in_child(self) -> None:
        """Start anew; what was still in flight has spoilt SQLite's own tables here."""
        self._spoilt = self._spoilt or bool(self._inside)
        self._inside.clear()
        self._changed = threading.Condition()


GATE = Gate()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=GATE.before_fork, after_in_parent=GATE.after_in_parent, after_in_child=GATE.after_in_child
    )
