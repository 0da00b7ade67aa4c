r"""A directory of our own for what does not fit in memory, gone when the count is over, however it ends.

Spilled pages are raw private data. They go to a fresh 0700 directory under a 0700 root of this user, removed however
the count ends. By default SIGTERM would end the process on the spot, so while counting it unwinds first; SIGINT needs
nothing of the kind, because Python turns it into KeyboardInterrupt. A process killed outright leaves its directory
behind, and the next count removes it: each directory holds a locked file, and the lock dies with its process.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import stat
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from cutline.errors import EngineError

_LOCK = "lock"


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
            signal.raise_signal(signal.SIGTERM)


@contextmanager
def spill_directory() -> Iterator[Path]:
    """Make a private directory, first removing those of dead processes; remove it at the end."""
    root = check_root()
    with _locked(root / _LOCK):
        _sweep(root)
        path = Path(tempfile.mkdtemp(prefix="count-", dir=root))
        lock = os.open(path / _LOCK, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        fcntl.flock(lock, fcntl.LOCK_EX)
    try:
        yield path
    finally:
        _remove(path)
        os.close(lock)


def check_root() -> Path:
    """Return the directory of all spill directories of this user, or refuse it if it is not this user's alone."""
    root = Path(tempfile.gettempdir()) / f"cutline-{os.getuid()}"
    root.mkdir(mode=0o700, exist_ok=True)
    found = root.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise EngineError(
            "the directory for spilled rows must be a directory of this user alone",
            str(root),
            "Remove it, or point TMPDIR to a directory of your own.",
        )
    return root


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold the root's lock, so that no directory is swept between its making and its locking."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _sweep(root: Path) -> None:
    for path in root.iterdir():
        if path.is_dir() and not _alive(path):
            _remove(path)


def _alive(path: Path) -> bool:
    try:
        handle = os.open(path / _LOCK, os.O_RDWR | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(handle)
    return False


def _remove(path: Path) -> None:
    try:
        shutil.rmtree(path, ignore_errors=True)
    except BaseException:  # a signal that lands here must not save the rows
        _remove(path)
        raise
