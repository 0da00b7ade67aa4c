r"""EXP2a of the paper: the top 15 states by Covid-19 cases of a day, ten days under one budget, on four blocks of days."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np

from cutline.arrays import IntArray
from cutline.histogram import ClosedHistogram
from cutline.mechanisms import Mechanism
from cutline.mechanisms import mechanism as find_mechanism
from cutline.mechanisms.planning import plan
from cutline.privacy import Budget
from cutline.sampling import SeededSource
from experiments.datasets import CovidData, load_covid
from experiments.datasets.covid import FIRST_DAY
from experiments.figures import GREY, LOOKS, Figure
from experiments.report import Cell, Estimate, StudyReport, Table, count_noun
from experiments.rivals import build_histogram, paper_peeling, recall, share_spent, spending
from experiments.trials import Setting, mean_and_error, run_cells

_K = 15
_DAYS = 10  # of a block, under one budget
_BLOCKS = 4
_START = dt.date(2020, 3, 12)
_BUDGET = Budget(epsilon=0.1, delta=1e-6, releases=_DAYS)
TRIALS = 100
_PLANNED = "plan's choice"
_TESTED = ("StableTopK (bit table)", "StableTopK (paper)", "test-first")  # have a stability test, then select


def _registered(name: str, **public: Any) -> Callable[[int], Mechanism]:
    return lambda states: find_mechanism(name).calibrate(
        _BUDGET, k=_K, **{key: states if value is None else value for key, value in public.items()}
    )


# What is calibrated under each heading, given the number of states; None stands for that number.
_COLUMNS: Mapping[str, Callable[[int], Mechanism]] = {
    "EM-CDP (paper)": lambda _: paper_peeling(_BUDGET, k=_K),
    "peeling EM": _registered("peeling-em"),
    "subset EM": _registered("subset-em"),
    "Top Stable": _registered("top-stable"),
    "Limited Domain": _registered("limited-domain", max_k=None),
    "StableTopK (bit table)": _registered("stable-top-k-fixed", max_k=None),
    "StableTopK (paper)": _registered("stable-top-k-fixed", max_k=None, test="paper"),
    "test-first": _registered("test-first", max_k=None),
}
# Headings of what a plan can recommend; a recommendation beyond these would be run under its own name.
_HEADINGS = {
    "peeling-em": "peeling EM",
    "subset-em": "subset EM",
    "top-stable": "Top Stable",
    "limited-domain": "Limited Domain",
    "stable-top-k-fixed": "StableTopK (bit table)",
    "test-first": "test-first",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cell:
    column: str
    days: IntArray  # one row of counts per day
    trials: int


Results: TypeAlias = Mapping[str, Mapping[str, Estimate]]  # recall by block and mechanism


@dataclass(frozen=True, slots=True, kw_only=True)
class Stability:
    """What became of the stability tests of one mechanism in one block."""

    passed: float  # the share of the releases
    cut: int | None  # the typical cut where one passed

    def __str__(self) -> str:
        return f"{self.passed:.1%}" + ("" if self.cut is None else f" at {self.cut}")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    recalls: tuple[float, ...]  # one a trial
    tested: Stability


@dataclass(frozen=True, slots=True, kw_only=True)
class _Prior:
    counts: IntArray | None
    states: int


@dataclass(frozen=True, slots=True, kw_only=True, repr=False, eq=False)
class _Outcome:
    """Everything the page is made of."""

    counted: str  # which cases: daily new ones, or cumulative
    cases: CovidData
    blocks: Mapping[str, IntArray]  # one row of counts per day
    results: Results
    chosen: Mapping[str, str]  # by the plan
    tests: Mapping[str, Sequence[Stability]]  # by mechanism, one a block
    spent: Mapping[str, float]  # the share of epsilon, by mechanism
    trials: int

    @property
    def generated(self) -> str:
        return ", generated data" if self.cases.generated else ""


def run(setting: Setting) -> StudyReport:
    """Run EXP2a on daily new cases."""
    cases = load_covid(setting.data)
    return _report("exp2-covid", "daily new cases", cases, cases.new_cases(), setting)


def run_cumulative(setting: Setting) -> StudyReport:
    """Run EXP2a on the cumulative cases instead."""
    cases = load_covid(setting.data)
    return _report("exp2-covid-cumulative", "cumulative cases", cases, cases.cumulative, setting)


def _report(name: str, counted: str, cases: CovidData, table: IntArray, setting: Setting) -> StudyReport:
    trials = setting.repeated(TRIALS)
    first = (_START - FIRST_DAY).days
    blocks = {_label(b): table[first + b * _DAYS : first + (b + 1) * _DAYS] for b in range(_BLOCKS)}
    priors = {label: table[first + b * _DAYS - 1] for b, label in enumerate(blocks)}
    chosen = _plans(name, priors, setting)
    wanted = [*_COLUMNS, *dict.fromkeys(c for c in chosen.values() if c not in _COLUMNS)]
    cells = {
        f"{label}, {column}": _Cell(column=column, days=days, trials=trials)
        for column in reversed(wanted)  # the slowest first, so that no process waits for the last at the end
        for label, days in blocks.items()
    }
    found = run_cells(_recalls, cells, experiment=name, setting=setting)
    states = table.shape[1]
    outcome = _Outcome(
        counted=counted,
        cases=cases,
        blocks=blocks,
        results={
            label: {column: mean_and_error(found[f"{label}, {column}"].recalls) for column in wanted}
            for label in blocks
        },
        chosen=chosen,
        tests={column: [found[f"{label}, {column}"].tested for label in blocks] for column in _TESTED},
        spent=run_cells(_spent, {column: (column, states) for column in wanted}, experiment=name, setting=setting),
        trials=trials,
    )
    return StudyReport(
        name=name,
        title=f"EXP2a: top {_K} states by {counted}{' (generated data)' if cases.generated else ''}",
        notes=(cases.note,),
        parts=_parts(outcome),
    )


def _label(block: int) -> str:
    start = _START + dt.timedelta(days=block * _DAYS)
    end = start + dt.timedelta(days=_DAYS - 1)
    return f"{start:%b} {start.day}-{end.day}"  # no block crosses a month


def _plans(name: str, priors: Mapping[str, IntArray], setting: Setting) -> dict[str, str]:
    """Ask the plan once a block, with the day before as prior, and once without one."""
    states = len(next(iter(priors.values())))
    cells = {label: _Prior(counts=counts, states=states) for label, counts in priors.items()}
    found = run_cells(
        _planned, {**cells, "no prior": _Prior(counts=None, states=states)}, experiment=f"{name} plan", setting=setting
    )
    return {label: _HEADINGS.get(choice, choice) for label, choice in found.items()}


def _planned(prior: _Prior, seed: int) -> str:  # noqa: ARG001 - a plan draws nothing private
    known = None if prior.counts is None else ClosedHistogram.from_counts(prior.counts)
    return plan(_BUDGET, k=_K, max_k=prior.states, prior=known).recommended.mechanism


@lru_cache(maxsize=32)
def _calibrate(column: str, states: int) -> Mechanism:
    if column in _COLUMNS:
        return _COLUMNS[column](states)
    return find_mechanism(column).calibrate(_BUDGET, k=_K)


def _recalls(cell: _Cell, seed: int) -> _Found:
    """Return the recall of each trial, averaged over the days of the block, and what became of the tests."""
    mechanism = _calibrate(cell.column, cell.days.shape[1])
    source = SeededSource(seed)
    shares = np.zeros((cell.trials, len(cell.days)))
    cuts = []
    for day, counts in enumerate(cell.days):
        histogram = build_histogram(mechanism, counts)
        least = int(np.sort(counts)[-_K])
        for trial in range(cell.trials):
            release = mechanism.release(histogram, rng=source)
            shares[trial, day] = recall(release.items, counts, k=_K, least=least)
            cuts += _stable_cut(release.steps)
    return _Found(
        recalls=tuple(float(share) for share in shares.mean(axis=1)),
        tested=Stability(passed=len(cuts) / shares.size, cut=int(np.median(cuts)) if cuts else None),
    )


def _stable_cut(steps: Sequence[str]) -> list[int]:
    """Return the cut of the stable set that went out, if one did: the cut a step names, or k itself."""
    if "release" not in steps:
        return []
    named = [int(step.split()[1]) for step in steps if step.startswith(("choose ", "nearby "))]
    return named or [_K]


def _spent(cell: tuple[str, int], seed: int) -> float:  # noqa: ARG001 - nothing is drawn
    return share_spent(_calibrate(*cell), _BUDGET)


def _parts(outcome: _Outcome) -> list[Table | Figure]:
    counted = outcome.counted + outcome.generated
    figure = Figure(
        name="recall",
        title=f"Share of the true top {_K} found in ten days of {counted}",
        draw=lambda canvas: _draw(canvas, outcome.results, counted),
        size=(9.0, 4.2),
    )
    return [_recall_table(outcome, counted), figure, _plan_table(outcome), _test_table(outcome)]


def _recall_table(outcome: _Outcome, counted: str) -> Table:
    results = outcome.results
    columns = list(next(iter(results.values())))
    rows: list[tuple[Cell, ...]] = [(column, *(found[column] for found in results.values())) for column in columns]
    rows.append((_PLANNED, *(found[outcome.chosen[label]] for label, found in results.items())))
    trials = count_noun(outcome.trials, "trial")
    return Table(
        name="recall",
        title=f"Share of the true top {_K} found, {counted}: mean ± standard error of {trials}",
        columns=("mechanism", *results),
        rows=tuple(rows),
        note="In every row the ten days of a block together are (0.1, 1e-6)-DP for one person joining or leaving. "
        + spending(outcome.spent),
    )


def _plan_table(outcome: _Outcome) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for label, found in outcome.results.items():
        choice, best = outcome.chosen[label], max(found, key=lambda column: found[column].mean)
        behind = found[best].mean - found[choice].mean
        rows.append(
            (label, choice, found[choice].mean, best, found[best].mean, behind, found[outcome.chosen["no prior"]].mean)
        )
    return Table(
        name="plan",
        title=f"What `plan` chose{outcome.generated}",
        columns=("block", "choice", "recall", "best", "its recall", "below the best", "without a prior"),
        rows=tuple(rows),
        note=f"Without a prior the plan takes {outcome.chosen['no prior']}, by the items it would find in long tails; the "
        "last column is its recall.",
    )


def _test_table(outcome: _Outcome) -> Table:
    gaps = (int(np.median([_gap(day) for day in days])) for days in outcome.blocks.values())
    counts = (f"{int(np.median(np.sort(days, axis=1)[:, -_K])):,}" for days in outcome.blocks.values())
    tested = ((column, *map(str, found)) for column, found in outcome.tests.items())
    return Table(
        name="tests",
        title=f"How often a stability test passed{outcome.generated}, and the median cut where one did",
        columns=("mechanism", *outcome.blocks),
        rows=(*tested, (f"median gap at {_K}", *gaps)),
        note=f"The median count at {_K}: {', '.join(counts)}.",
    )


def _gap(counts: IntArray) -> int:
    ranked = np.sort(counts)[::-1]
    return int(ranked[_K - 1] - ranked[_K])


def _draw(figure: Any, results: Results, counted: str) -> None:
    axes = figure.add_subplot()
    columns = list(next(iter(results.values())))
    width = 0.84 / len(columns)
    places = np.arange(len(results))
    known = all(math.isfinite(found[column].error) for found in results.values() for column in columns)
    for i, column in enumerate(columns):
        means, errors = np.array([found[column] for found in results.values()]).T
        at = places + (i - (len(columns) - 1) / 2) * width
        colour, _ = LOOKS.get(column, (GREY, ""))
        bars = {"yerr": 2 * errors, "error_kw": {"elinewidth": 0.8}} if known else {}
        axes.bar(at, means, width * 0.92, label=column, color=colour, **bars)
    axes.set_xticks(places, list(results))
    axes.set_ylim(0, 1)
    axes.grid(axis="x", visible=False)
    axes.set_ylabel(f"share of the true top {_K}")
    bars_are = "bars: 2 standard errors" if known else "one trial, errors unknown"
    axes.set_title(f"Top {_K} states by {counted}; ten days under (0.1, 1e-6), {bars_are}", loc="left")
    figure.legend(*axes.get_legend_handles_labels(), loc="outside right upper")
