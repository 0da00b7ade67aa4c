r"""Run many checks on several processes, and say beforehand how long that will take.

Neither the reports nor their order depends on how many processes there are: a check is deterministic and runs in one of them.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager

from cutline.errors import EngineError, ParameterError
from cutline.verify.check import Check, Report

# Seconds of one core for a million pairs, where a suite is far from the usual: its laws have many outcomes. Measured once,
# with `cutline verify --json`; a running bar corrects them by what this machine really needs.
_USUAL = 8.0
_DEAR = {
    "test-first": 15.0,
    "stable-top-k-fixed": 42.0,
    "find-then-choose": 38.0,
    "peel-then-test": 12.0,
    "table-threshold": 15.0,
    "limited-rounds": 26.0,
    "powerset-vote": 34.0,
}


def expected_seconds(check: Check) -> float:
    """Return about how long one core works on a check."""
    return check.universe.size * _DEAR.get(check.mechanism, _USUAL) / 1e6


def expected_duration(checks: Sequence[Check], jobs: int) -> float:
    """Return about how many seconds the checks will take on that many processes; the longest check runs on one of them."""
    seconds = [expected_seconds(check) for check in checks]
    return max(sum(seconds) / jobs, max(seconds, default=0.0))


def available_cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def run_checks(
    checks: Sequence[Check], *, jobs: int | None = None, finished: Callable[[Check], None] | None = None
) -> list[Report]:
    """Run the checks and return their reports in the order of the checks.

    Parameters
    ----------
    checks
        What to run.
    jobs
        How many processes to use; None is one for every core, and 1 works in this process.
    finished
        Called after each check, in the order in which they end.

    Raises
    ------
    ParameterError
        If ``jobs`` is below 1.
    EngineError
        If a process was ended from outside, for example because memory ran out.
    """
    jobs = available_cores() if jobs is None else jobs
    if jobs < 1:
        raise ParameterError(
            "the number of processes must be at least 1", f"jobs={jobs}", "Leave it out to use all cores."
        )
    if min(jobs, len(checks)) > 1:
        return _run_in_processes(checks, min(jobs, len(checks)), finished)
    reports = []
    for check in checks:
        reports.append(check.run())
        if finished:
            finished(check)
    return reports


def _run_in_processes(checks: Sequence[Check], jobs: int, finished: Callable[[Check], None] | None) -> list[Report]:
    # The longest first, so that no process is left alone with it at the end.
    longest_first = sorted(range(len(checks)), key=lambda place: -expected_seconds(checks[place]))
    reports: dict[int, Report] = {}
    others = set(multiprocessing.active_children())
    # Fresh interpreters: a forked copy of a process with threads (an engine's, or the progress bar's) may hang.
    pool = ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn"), initializer=_end_with_parent)
    try:
        with _interrupts_held_back():  # the processes inherit this, so an interrupt reaches this process alone
            places: dict[Future[Report], int] = {pool.submit(checks[place].run): place for place in longest_first}
        for future in as_completed(places):
            reports[places[future]] = future.result()
            if finished:
                finished(checks[places[future]])
    except BaseException as error:
        # An interrupt, or a check that could not be run: nobody waits for the checks under way.
        for process in set(multiprocessing.active_children()) - others:
            process.terminate()
        if isinstance(error, BrokenProcessPool):
            raise EngineError(
                "a process ended before its checks were done", "", "Try again with fewer processes: --jobs 1."
            ) from None
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)  # the pool joins its processes itself: two that do would race
    return [reports[place] for place in range(len(checks))]


@contextmanager
def _interrupts_held_back() -> Iterator[None]:
    """Hold an interrupt from the keyboard back until the body is done, where the system can."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _end_with_parent() -> None:
    """End this process when the one that started it is gone, however that ended; a pool's process would wait forever."""
    parent = multiprocessing.parent_process()
    if parent is None:
        return

    def watch() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
