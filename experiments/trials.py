r"""How an experiment is run: its setting, and its independent cells in parallel processes.

A cell is a row of a table, say: plain arguments and a seed of its own, made from the experiment's seed and the cell's name,
so the results do not depend on the number of processes.
Histograms are private data and refuse to be pickled, so a cell is given plain counts and builds its own.
"""

from __future__ import annotations

import hashlib
import math
import multiprocessing
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np

from cutline.errors import EngineError, ParameterError
from experiments.report import Estimate

C = TypeVar("C")
R = TypeVar("R")


class ReportProgress(Protocol):
    """Is called whenever a cell is done."""

    def __call__(self, done: int, total: int) -> None:
        """Take note that ``done`` of ``total`` cells are done."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What the caller of an experiment decides.

    Parameters
    ----------
    data
        The directory with the data files; None takes generated data of the same shape, labelled so.
    trials
        Repetitions of each cell; None takes the experiment's own default.
    seed
        Of every draw; equal seeds give equal reports, whatever ``jobs`` is.
    jobs
        How many processes work at once.
    progress
        Is called whenever a cell is done.
    """

    data: Path | None = None
    trials: int | None = None
    seed: int = 0
    jobs: int = 2
    progress: ReportProgress | None = None

    def __post_init__(self) -> None:
        _check("trials", 1 if self.trials is None else self.trials, least=1)
        _check("seed", self.seed, least=0)
        _check("jobs", self.jobs, least=1)

    def repeated(self, default: int) -> int:
        """Return the number of trials: the caller's, or the experiment's default."""
        return default if self.trials is None else self.trials


def _check(name: str, value: int, *, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ParameterError(
            f"{name} must be a whole number of at least {least}", f"{name}={value}", f"Try {name}={least}."
        )


def seed_of(*parts: object) -> int:
    """Return the seed that belongs to these words and numbers; others have nothing to do with it.

    Examples
    --------
    >>> seed_of(0, "exp1", "k=3") == seed_of(0, "exp1", "k=3"), seed_of(0, "exp1", "k=3") == seed_of(1, "exp1", "k=3")
    (True, False)
    """
    return int.from_bytes(hashlib.sha256("\n".join(map(str, parts)).encode()).digest()[:8], "big")


def run_cells(
    work: Callable[[C, int], R], cells: Mapping[str, C], *, experiment: str, setting: Setting
) -> dict[str, R]:
    """Run ``work(cell, seed)`` on every cell and return the results by name, in the order of the cells.

    Parameters
    ----------
    work
        A function of a module: processes find it by name.
    cells
        Plain arguments by name; the name decides the cell's seed.
    experiment
        Name of the experiment; decides the seed too.
    setting
        Seed, number of processes and progress.
    """
    seeds = {name: seed_of(setting.seed, experiment, name) for name in cells}
    if setting.progress:
        setting.progress(0, len(cells))
    if setting.jobs == 1 or len(cells) < 2:
        results = {}
        for name, cell in cells.items():
            results[name] = work(cell, seeds[name])
            if setting.progress:
                setting.progress(len(results), len(cells))
        return results
    return _in_processes(work, cells, seeds, setting)


def _in_processes(
    work: Callable[[C, int], R], cells: Mapping[str, C], seeds: Mapping[str, int], setting: Setting
) -> dict[str, R]:
    # Fresh interpreters: a forked copy of a process with threads (an engine's, say) may hang.
    context = multiprocessing.get_context("spawn")
    results: dict[str, Any] = {}
    others = set(multiprocessing.active_children())
    with ProcessPoolExecutor(min(setting.jobs, len(cells)), mp_context=context) as pool:
        names: dict[Future[R], str] = {pool.submit(work, cell, seeds[name]): name for name, cell in cells.items()}
        try:
            for future in as_completed(names):
                results[names[future]] = future.result()
                if setting.progress:
                    setting.progress(len(results), len(cells))
        except BrokenProcessPool:
            raise EngineError(
                "a process of the experiment ended before its work was done", "", "Try again with one job."
            ) from None
        except KeyboardInterrupt:  # or the program would wait for the cells under way, perhaps for minutes
            for process in set(multiprocessing.active_children()) - others:
                process.terminate()
            pool.shutdown(wait=True, cancel_futures=True)  # the pool's own thread joins them: two would race
            raise
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
    return {name: results[name] for name in cells}


def mean_and_error(values: Any) -> Estimate:
    """Return the mean and its standard error; the error of one value alone is unknown, which is written as infinite.

    Examples
    --------
    >>> mean_and_error([0.0, 1.0, 1.0, 0.0])
    Estimate(mean=0.5, error=0.28867513459481287)
    >>> mean_and_error([0.7])
    Estimate(mean=0.7, error=inf)
    """
    array = np.asarray(values, dtype=np.float64)
    error = float(array.std(ddof=1) / np.sqrt(array.size)) if array.size > 1 else math.inf
    return Estimate(float(array.mean()), error)
