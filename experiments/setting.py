r"""How an experiment is run: on which data, how often, from which seed, on how many processors."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from cutline.errors import ParameterError


class Progress(Protocol):
    """Is told how many of the cells are done."""

    def __call__(self, done: int, total: int) -> None:
        """Take note: ``done`` of ``total``."""
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
    progress: Progress | None = None

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
