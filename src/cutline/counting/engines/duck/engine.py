r"""One private, in-memory DuckDB, shut off from everything but the log it was opened for.

DuckDB's error messages quote cells (``Could not convert string 'Alice ...'``). Every call goes through
:func:`quietly`, which throws the engine's exception away and raises a sentence chosen by its class alone. The new
error is raised outside the ``except`` block, so neither ``__cause__`` nor ``__context__`` keeps the old one.

Pages that do not fit in memory are raw private data. They go to a fresh 0700 directory under a 0700 root of this user,
removed however the count ends, or with its counts if they are kept. By default SIGTERM would end the process on the spot, so
while counting it unwinds first (`cutline.termination`); SIGINT needs nothing of the kind, because Python turns it into
KeyboardInterrupt. A process killed outright leaves its directory behind, and the next count removes it: each directory holds a
locked file, and the lock dies with its process.
"""

from __future__ import annotations

import fcntl
import glob
import math
import os
import shutil
import stat
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, wait
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

from cutline.errors import EngineError
from cutline.termination import before_termination

if TYPE_CHECKING:
    import duckdb

T = TypeVar("T")

# TRY(expression) turns a failing row into a missing one, unless an optimizer has been there first: statistics prove a
# part of the expression constant for this file and skip its failures (one row would decide about the others), and
# common parts are computed outside of TRY, where they fail for good. With a filter, only these optimizers run.
_ROW_LOCAL = "'unused_columns', 'column_lifetime', 'join_order', 'build_side_probe_side', 'top_n', 'limit_pushdown'"

_REPORT = 0.1  # seconds between two looks at the progress
_LOCK = "lock"  # the file in each spill directory whose lock says that its process is alive

_FORMAT = ("the log must be a whole file of its format", "Write the file again with the tool that made it.")
_SENTENCES = {
    "OutOfMemoryException": (
        "counting must fit in the memory limit and the disk",
        "Raise memory_limit or free some disk space.",
    ),
    "IOException": (
        "the log must stay readable, and the disk must have room, while it is counted",
        "Check the files and the disk.",
    ),
    "PermissionException": ("the log must be readable", "Check the permissions of the files."),
    "DataError": _FORMAT,
    "InvalidInputException": _FORMAT,
    "ProgrammingError": ("the query must fit the log", "Check the column names, or pass a pyarrow table."),
}
_ANY = ("the engine must finish the count", "Try the same log as a parquet file or a pyarrow table.")


class Engine(AbstractContextManager["Engine"]):
    r"""A DuckDB connection that can read only ``paths`` and whose errors say nothing about rows.

    Parameters
    ----------
    spill
        The directory for what does not fit in memory; None forbids spilling.
    memory_limit
        An amount such as ``1GB``, checked before; None is DuckDB's own default.
    paths
        The files it may open.
    row_local
        Turn off the optimizations that let the rest of the file decide about single rows; for filters.
    progress
        Called now and then, from the caller's own thread, with the share of the work that is done.
    """

    __slots__ = ("_connection", "_done", "_progress")

    def __init__(
        self,
        *,
        spill: Path | None = None,
        memory_limit: str | None = None,
        paths: Iterable[str] = (),
        row_local: bool = False,
        progress: Callable[[float], None] | None = None,
    ) -> None:
        import duckdb

        config: dict[str, Any] = {
            "temp_directory": "" if spill is None else str(spill),
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
            "allow_community_extensions": False,
            "python_enable_replacements": False,
        }
        if memory_limit is not None:
            config["memory_limit"] = memory_limit
        self._connection: duckdb.DuckDBPyConnection = quietly(lambda: duckdb.connect(config=config))
        self._done = 0.0
        self._progress: Callable[[float], None] | None = None
        settings = ["TimeZone = 'UTC'", "enable_progress_bar_print = false"]  # its bar would go to standard output
        if progress is not None:
            settings += ["enable_progress_bar = true", "progress_bar_time = 0"]
        if row_local:
            ((others,),) = self.rows(
                f"SELECT string_agg(name, ',') FROM duckdb_optimizers() WHERE name NOT IN ({_ROW_LOCAL})"
            )
            settings.append(f"disabled_optimizers = '{others}'")
        settings.append(f"allowed_paths = [{', '.join(text_literal(path) for path in paths)}]")
        settings += ["enable_external_access = false", "lock_configuration = true"]  # last: nothing is set after it
        self.run("; ".join(f"SET {setting}" for setting in settings))
        self._progress = progress

    def run(self, sql: str, parameters: Sequence[Any] = (), *, until: float | None = None) -> None:
        """Run a statement that returns nothing; ``until`` is the share of all work that is done after it."""
        watch = None if self._progress is None or until is None else partial(self._report, until)
        self._do(lambda: self._connection.execute(sql, list(parameters)), watch)
        if until is not None:
            self._done = until

    def rows(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Run a query and return its rows."""
        return self._do(lambda: self._connection.execute(sql, list(parameters)).fetchall())

    def arrow(self, sql: str) -> Any:
        """Run a query and return a pyarrow table."""
        return self._do(lambda: self._connection.sql(sql).to_arrow_table())

    def accepts(self, sql: str) -> bool:
        """Say whether the engine can run a query that reads no log at all; for the caller's own text."""
        try:
            self.rows(sql)
        except EngineError:
            return False
        return True

    def register(self, name: str, table: Any) -> None:
        """Show a pyarrow table to the engine under a name."""
        quietly(lambda: self._connection.register(name, table))

    def report_end(self) -> None:
        """Report that all work is done."""
        if self._progress is not None:
            self._progress(1.0)

    def _report(self, until: float) -> None:
        percent = self._connection.query_progress()  # -1 when there is nothing to tell
        if self._progress is not None and percent >= 0:
            share = self._done + (until - self._done) * min(percent, 100.0) / 100
            self._progress(math.floor(100 * share) / 100)  # whole percents: not a stopwatch on operators

    def _do(self, action: Callable[[], T], watch: Callable[[], None] | None = None) -> T:
        # Only the outcome passes through quietly(): what the caller's progress function raises is the caller's. The
        # outcome may hold the engine's exception, so no frame of a traceback keeps it in a variable.
        return quietly(_run_beside(action, self._connection.interrupt, watch).result)

    def __exit__(self, *_: object) -> None:
        self._connection.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundFiles:
    """The files of one log, all of one format, which are the only ones that an engine may open."""

    cheap: ClassVar[bool] = False  # parsing is most of the work with text, so text is read once
    found: tuple[str, ...]
    form: str  # one of question.FORMATS
    zipped: bool

    @property
    def paths(self) -> tuple[str, ...]:
        """The files, as they are and as the engine is told of them."""
        return tuple(dict.fromkeys([*self.found, *map(glob.escape, self.found)]))

    def shape(self) -> Self:
        return self  # a file is only read when it is counted

    def prepare(self, _spill: Path, /) -> Sequence[Self]:
        return (self,)

    def _list(self) -> str:
        return "[" + ", ".join(text_literal(glob.escape(path)) for path in self.found) + "]"

    def _compression(self) -> str:
        return text_literal("gzip" if self.zipped else "none")


@dataclass(frozen=True, slots=True, kw_only=True, repr=False, eq=False)
class Stream:
    """Record batches that an engine can ask for as often as it likes; they are made anew each time."""

    schema: Any
    batches: Callable[[], Iterator[Any]]

    def __arrow_c_stream__(self, requested_schema: object = None) -> Any:
        import pyarrow as pa

        reader = pa.RecordBatchReader.from_batches(self.schema, self.batches())
        return reader.__arrow_c_stream__(requested_schema)


def _run_beside(action: Callable[[], T], interrupt: Callable[[], None], watch: Callable[[], None] | None) -> Future[T]:
    """Run an engine call beside this thread, which stays free for signals: inside a long task the engine sees none.

    An executor would not do: a signal that lands inside its ``submit`` leaves a query that nobody can interrupt, or
    a thread that nobody waits for. Here the future exists before the thread, and no way out leaves it running.
    """
    outcome: Future[T] = Future()

    def work() -> None:
        if outcome.set_running_or_notify_cancel():
            try:
                outcome.set_result(action())
            except BaseException as error:
                outcome.set_exception(error)

    try:
        threading.Thread(target=work).start()
        while wait([outcome], timeout=_REPORT if watch else None).not_done:
            if watch is not None:
                watch()
    except BaseException:  # what a signal's handler raised, or the caller's progress function
        outcome.cancel()  # if it has not begun
        while not outcome.done():
            with suppress(BaseException):  # a second signal changes nothing: the first is on its way up
                interrupt()
                wait([outcome], timeout=0.05)
        raise
    return outcome


def quietly(action: Callable[[], T]) -> T:
    """Run an engine call; replace what it raises by a sentence that holds nothing of the rows."""
    import duckdb

    refusal: BaseException
    try:
        return action()
    except duckdb.InterruptException:
        refusal = KeyboardInterrupt()
    except duckdb.Error as error:
        refusal = _sentence({base.__name__ for base in type(error).__mro__})
    except (UnicodeError, ValueError):  # a cell or a path that is no text; pyarrow's errors are ValueErrors
        refusal = _sentence({"DataError"})
    except RuntimeError:
        refusal = _sentence(set())
    del action  # may hold the engine's exception, and this frame goes up with ours
    raise refusal


def text_literal(text: str) -> str:
    """Quote a text for SQL."""
    return "'" + text.replace("'", "''") + "'"


def _sentence(names: set[str]) -> EngineError:
    rule, way_out = next((words for name, words in _SENTENCES.items() if name in names), _ANY)
    return EngineError(rule, "", way_out)


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
        with before_termination(lambda: _remove(path)):
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
        rule = "the directory for spilled rows must be a directory of this user alone"
        raise EngineError(rule, str(root), "Remove it, or point TMPDIR to a directory of your own.")
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
