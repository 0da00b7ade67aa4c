r"""Which experiments there are, what each needs, and how its run is described."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from cutline.errors import ParameterError
from experiments import adaptive_k, exp1, one_gap, recurring
from experiments.datasets import files_of
from experiments.exp2 import cliff, covid
from experiments.exp3 import study
from experiments.long_tail import study as long_tail
from experiments.report import StudyReport, count_noun
from experiments.trials import Setting


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """One of the paper's experiments.

    Parameters
    ----------
    name
        How it is called on the command line and in the names of its files.
    summary
        What it shows.
    run
        Runs it and returns what was found.
    data
        Names of the data sets it reads; empty if it reads none.
    trials
        How often each cell is repeated unless the caller says otherwise; None if nothing is drawn.
    """

    name: str
    summary: str
    run: Callable[[Setting], StudyReport]
    data: tuple[str, ...] = ()
    trials: int | None = None

    def describe_run(self, setting: Setting) -> str:
        """Return the line that says what was run: on which files, how often, from which seed.

        It is known before any work is done. A hand-written page that carries this line speaks of this run.
        """
        if not self.data:
            source = "No data are read"
        elif setting.data is None:
            source = "The data are generated"
        else:
            source = f"Read: {', '.join(files_of(self.data, setting.data))}"
        if self.trials is None:
            return f"*{source}; nothing is drawn.*"
        return f"*{source}; {count_noun(setting.repeated(self.trials), 'trial')} a cell, seed {setting.seed}.*"


EXPERIMENTS: dict[str, Experiment] = {
    experiment.name: experiment
    for experiment in (
        Experiment(
            name="exp1",
            summary="share of the true top k found in check-in logs",
            run=exp1.run,
            data=exp1.DATA,
            trials=exp1.TRIALS,
        ),
        Experiment(
            name="exp2-covid",
            summary="top 15 states by daily new cases, ten days together",
            run=covid.run,
            data=("covid",),
            trials=covid.TRIALS,
        ),
        Experiment(
            name="exp2-covid-cumulative",
            summary="the same on cumulative cases",
            run=covid.run_cumulative,
            data=("covid",),
            trials=covid.TRIALS,
        ),
        Experiment(
            name="exp2-synthetic",
            summary="one cliff at k, for k from 10 to 1500",
            run=cliff.run,
            trials=cliff.TRIALS,
        ),
        Experiment(
            name="exp3",
            summary="multi-label PATE: what it costs, and what each aggregator makes of the ballots",
            run=study.run,
            data=study.DATA,
            trials=study.TRIALS,
        ),
        Experiment(
            name=long_tail.NAME,
            summary="any k on logs with long tails: every mechanism, the default and two noisy thresholds",
            run=long_tail.run,
            data=long_tail.DATA,
            trials=long_tail.TRIALS,
        ),
        Experiment(
            name="adaptive-k",
            summary="where the top ends: chance of release and chosen k against epsilon",
            run=adaptive_k.run,
            data=adaptive_k.DATA,
        ),
        Experiment(
            name="one-gap",
            summary="the gap each mechanism needs, for 1 to 1000 releases",
            run=one_gap.run,
        ),
        Experiment(
            name="recurring",
            summary="a list published every day: testing the last cut first",
            run=recurring.run,
            trials=recurring.TRIALS,
        ),
    )
}


def find_experiment(name: str) -> Experiment:
    """Return the experiment of that name."""
    if name not in EXPERIMENTS:
        raise ParameterError("the experiment must be a known one", f"{name!r}", f"Known: {', '.join(EXPERIMENTS)}.")
    return EXPERIMENTS[name]
