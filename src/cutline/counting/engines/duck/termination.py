r"""SIGTERM while counting: unwind, clean up, and only then die of the signal.

By default SIGTERM ends a process on the spot, and spilled rows would stay on the disk. SIGINT needs nothing of the
kind: Python turns it into KeyboardInterrupt. A handler that the program installed itself is left alone.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class _Terminated(BaseException):
    """SIGTERM has arrived; carried up through every ``finally``."""


@contextmanager
def clean_termination() -> Iterator[None]:
    """Let SIGTERM unwind the block before it ends the process as usual."""
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
            signal.raise_signal(signal.SIGTERM)
