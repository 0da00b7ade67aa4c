r"""One private, in-memory DuckDB, shut off from everything but the log it was opened for.

DuckDB's error messages quote cells (``Could not convert string 'Alice ...'``). Every call goes through
:func:`quietly`, which throws the engine's exception away and raises a sentence chosen by its class alone. The new
error is raised outside the ``except`` block, so neither ``__cause__`` nor ``__context__`` keeps the old one.
"""

from __future__ import annotations

import math
import re
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, wait
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar

from cutline.errors import EngineError, ParameterError

if TYPE_CHECKING:
    import duckdb

T = TypeVar("T")

# TRY(expression) turns a failing row into a missing one, unless an optimizer has been there first: statistics prove a
# part of the expression constant for this file and skip its failures (one row would decide about the others), and
# common parts are computed outside of TRY, where they fail for good. With a filter, only these optimizers run.
_ROW_LOCAL = "'unused_columns', 'column_lifetime', 'join_order', 'build_side_probe_side', 'top_n', 'limit_pushdown'"

_BYTES = {"KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40}
_SMALLEST = 50 * 10**6
_REPORT = 0.1  # seconds between two looks at the progress

_SENTENCES = (
    (
        "OutOfMemoryException",
        "counting must fit in the memory limit and the disk",
        "Raise memory_limit or free some disk space.",
    ),
    (
        "IOException",
        "the log must stay readable, and the disk must have room, while it is counted",
        "Check the files and the disk.",
    ),
    ("PermissionException", "the log must be readable", "Check the permissions of the files."),
    ("DataError", "the log must be a whole file of its format", "Write the file again with the tool that made it."),
    (
        "InvalidInputException",
        "the log must be a whole file of its format",
        "Write the file again with the tool that made it.",
    ),
    ("ProgrammingError", "the query must fit the log", "Check the column names, or pass a pyarrow table."),
)
_ANY = ("the engine must finish the count", "Try the same log as a parquet file or a pyarrow table.")


class Engine:
    r"""A DuckDB connection that can read only ``paths`` and whose errors say nothing about rows.

    Parameters
    ----------
    spill
        The directory for what does not fit in memory; None forbids spilling.
    memory_limit
        Checked by :func:`check_memory_limit`; None is DuckDB's own default.
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
        self.run("SET TimeZone = 'UTC'")
        self.run(
            "SET enable_progress_bar_print = false"
        )  # at a prompt the engine would draw its own on standard output
        if progress is not None:
            self.run("SET enable_progress_bar = true")
            self.run("SET progress_bar_time = 0")
        if row_local:
            ((others,),) = self.rows(
                f"SELECT string_agg(name, ',') FROM duckdb_optimizers() WHERE name NOT IN ({_ROW_LOCAL})"
            )
            self.run(f"SET disabled_optimizers = '{others}'")
        self.run(f"SET allowed_paths = [{', '.join(text_literal(path) for path in paths)}]")
        self.run("SET enable_external_access = false")
        self.run("SET lock_configuration = true")
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

    def finished(self) -> None:
        """Report that all work is done."""
        if self._progress is not None:
            self._progress(1.0)

    def _report(self, until: float) -> None:
        percent = self._connection.query_progress()  # -1 when there is nothing to tell
        if self._progress is not None and percent >= 0:
            share = self._done + (until - self._done) * min(percent, 100.0) / 100
            self._progress(math.floor(100 * share) / 100)  # whole percents: not a stopwatch on operators

    def _do(self, action: Callable[[], T], watch: Callable[[], None] | None = None) -> T:
        # What the caller's progress function raises is the caller's, so it must not pass through quietly().
        return quietly(_in_thread(lambda: _held(action), self._connection.interrupt, watch))

    def close(self) -> None:
        """Forget everything."""
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _held(action: Callable[[], T]) -> Callable[[], T]:
    """Run an action and return a function that gives its result, or raises what it raised."""
    outcome: Future[T] = Future()
    try:
        outcome.set_result(action())
    except BaseException as error:
        outcome.set_exception(error)
    return outcome.result


def _in_thread(action: Callable[[], T], interrupt: Callable[[], None], watch: Callable[[], None] | None) -> T:
    """Run an engine call beside this thread, which stays free for signals: inside a long task the engine sees none."""
    outcome: Future[T] = Future()
    try:
        threading.Thread(target=lambda: _fulfil(outcome, action)).start()
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
    return outcome.result()


def _fulfil(outcome: Future[T], action: Callable[[], T]) -> None:
    if outcome.set_running_or_notify_cancel():
        try:
            outcome.set_result(action())
        except BaseException as error:
            outcome.set_exception(error)


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
        refusal = EngineError(_ANY[0], "", _ANY[1])
    del action  # may hold the engine's exception, and this frame goes up with ours
    raise refusal


def check_memory_limit(memory_limit: str | None) -> None:
    """Refuse a memory limit that is not an amount like ``1GB`` of at least 50MB.

    Examples
    --------
    >>> check_memory_limit("1GB")
    >>> check_memory_limit("lots")
    Traceback (most recent call last):
    ...
    cutline.errors.ParameterError: memory_limit must be at least 50MB; got 'lots'. Write it like memory_limit='1GB'.
    """
    if memory_limit is None:
        return
    match = (
        re.fullmatch(r"\s*(\d{1,9}(?:\.\d{1,9})?)\s*([KMGT]i?B)\s*", memory_limit, re.ASCII | re.IGNORECASE)
        if isinstance(memory_limit, str)
        else None
    )
    if match is None or float(match[1]) * _BYTES[match[2].upper()] < _SMALLEST:
        raise ParameterError(
            "memory_limit must be at least 50MB", repr(memory_limit), "Write it like memory_limit='1GB'."
        )


def text_literal(text: str) -> str:
    """Quote a text for SQL."""
    return "'" + text.replace("'", "''") + "'"


def _sentence(names: set[str]) -> EngineError:
    for name, rule, way_out in _SENTENCES:
        if name in names:
            return EngineError(rule, "", way_out)
    return EngineError(_ANY[0], "", _ANY[1])
