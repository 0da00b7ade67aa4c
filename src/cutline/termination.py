r"""SIGTERM, which by default ends a process on the spot, unwinds a block first, so that nothing private stays on the disk."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

_cleaning: list[Callable[[], None]] = []


class _Terminated(BaseException):
    """SIGTERM has arrived; carried up through every ``finally``."""


@contextmanager
def clean_termination() -> Iterator[None]:
    """Let SIGTERM unwind the block before it ends the process as usual.

    A handler that the program installed itself is left alone.
    """
    ours = threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    if not ours:
        yield
        return
    arrived = False

    def handler(_number: int, _frame: FrameType | None) -> None:
        nonlocal arrived
        arrived = True
        raise _Terminated

    signal.signal(signal.SIGTERM, handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        if arrived:  # also when something swallowed the exception
            for clean in tuple(_cleaning):
                clean()
            signal.raise_signal(signal.SIGTERM)


@contextmanager
def before_termination(clean: Callable[[], None]) -> Iterator[None]:
    """Call ``clean`` if SIGTERM ends the process from a `clean_termination` while the block is still open, wherever it is."""
    _cleaning.append(clean)
    try:
        yield
    finally:
        _cleaning.remove(clean)
