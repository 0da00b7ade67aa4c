r"""Where does the top end? Chance of release and chosen k of StableTopK against epsilon, the paper's test against ours.

No trials: the law of a release is known exactly, so every number here is computed from it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np

from cutline.arrays import IntArray
from cutline.counting import count
from cutline.histogram import OpenHistogram
from cutline.mechanisms import StableTopK
from cutline.mechanisms.one_gap import one_gap
from cutline.privacy import Budget
from experiments.datasets import LogData, available, load_log
from experiments.figures import BLUE, GREEN, INK, ORANGE, PURPLE, Figure
from experiments.report import Cell, StudyReport, Table
from experiments.trials import Setting, run_cells

DATA = ("foursquare_nyc", "foursquare_tky", "brightkite", "gowalla", "kuala-lumpur", "fimi_retail")
EPSILONS = tuple(round(0.05 * 2 ** (step / 4), 3) for step in range(25))  # 0.05 to 3.2
PRINTED = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6)  # of the epsilons, in the tables of the page
DELTA = 1e-6
MAX_K = 100
VARIANTS = ("paper", "EM + Gaussian", "EM + table", "argmax + table", "larger k")
_PAPER, _GAUSSIAN, _EM, _ARGMAX, _LARGER = VARIANTS
_RARE = 0.01
_LOOKS = {
    _PAPER: (ORANGE, "--"),
    _GAUSSIAN: (PURPLE, (0, (5, 1, 1, 1, 1, 1))),
    _EM: (BLUE, "-"),
    _ARGMAX: (GREEN, "-."),
    _LARGER: (INK, ":"),
}


@dataclass(frozen=True, slots=True, kw_only=True, repr=False, eq=False)
class StudyCase:
    """One cell: a budget, and the counts of all logs by rank."""

    epsilon: float
    counts: Mapping[str, IntArray]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What the exact law of one release says."""

    release: float  # the chance that a set goes out
    right: float  # the chance that it is the set above the largest gap
    low: int  # the k that goes out, given that one does: 10 % quantile, median, 90 % quantile
    median: int
    high: int
    items: float  # expected number of items released
    wrong: float  # the chance of a set whose last count is tied with the next: not the only top k


Answers: TypeAlias = Mapping[tuple[str, str], Answer]  # by log and variant


def run(setting: Setting) -> StudyReport:
    """Run the study: every log, epsilon and variant."""
    names, absent = available(DATA, setting.data)
    logs = {name: load_log(name, setting.data) for name in names}
    counts = {name: _counts(log) for name, log in logs.items()}
    cells = {f"epsilon={epsilon}": StudyCase(epsilon=epsilon, counts=counts) for epsilon in EPSILONS}
    found = run_cells(answer, cells, experiment="adaptive-k", setting=setting)
    answers = {cells[name].epsilon: result for name, result in found.items()}
    generated = " (generated logs)" if setting.data is None else ""
    return StudyReport(
        name="adaptive-k",
        title=f"Where the top ends: StableTopK with its own k{generated}",
        notes=(*(log.note for log in logs.values()), *absent),
        parts=[
            Figure(
                name="release",
                title=f"Chance that a set is released, against epsilon{generated}",
                draw=lambda figure: draw(figure, answers, logs, value=lambda a: a.release),
                size=(8.6, 5.2),
            ),
            _needed(answers, logs),
            Figure(
                name="items",
                title=f"Expected number of items released, against epsilon{generated}",
                draw=lambda figure: draw(figure, answers, logs, value=lambda a: a.items, top=None),
                size=(8.6, 5.2),
            ),
            _chances(answers, logs),
            _cuts(answers, logs),
        ],
    )


def _counts(log: LogData) -> IntArray:
    histogram = count(log.table, user="user", item="item", max_k=MAX_K)
    assert isinstance(histogram, OpenHistogram)  # noqa: S101 - no candidates are listed
    return histogram.counts


@lru_cache(maxsize=64)
def variants(epsilon: float) -> Mapping[str, StableTopK]:
    """Return the variants, each calibrated to the whole budget; all parameters are public numbers."""
    budget = Budget(epsilon=epsilon, delta=DELTA)
    em = StableTopK.calibrate(budget, max_k=MAX_K, choose="em")
    clip = 2 * one_gap(em.chance, max_k=MAX_K)
    return {
        _PAPER: StableTopK.calibrate(budget, max_k=MAX_K, test="paper"),
        _GAUSSIAN: StableTopK.calibrate(budget, max_k=MAX_K, test="gaussian"),
        _EM: em,
        _ARGMAX: StableTopK.calibrate(budget, max_k=MAX_K, choose="argmax"),
        # More gap than surely passes is worth nothing; all ranks together are worth a quarter of that.
        _LARGER: StableTopK.calibrate(budget, max_k=MAX_K, clip=clip, target=MAX_K, weight=clip / (4 * MAX_K)),
    }


def answer(question: StudyCase, seed: int) -> dict[tuple[str, str], Answer]:  # noqa: ARG001 - nothing is drawn
    """Return what the laws say for every log and variant."""
    return {
        (name, variant): summary(mechanism, OpenHistogram.from_counts(counts, max_k=MAX_K))
        for variant, mechanism in variants(question.epsilon).items()
        for name, counts in question.counts.items()
    }


def summary(mechanism: StableTopK, histogram: OpenHistogram) -> Answer:
    r"""Sum up the law of one release.

    Examples
    --------
    >>> counts = OpenHistogram.from_counts({"a": 940, "b": 933, "c": 12}, max_k=100)
    >>> found = summary(variants(1.0)["EM + table"], counts)
    >>> f"{found.release:.3f}", found.median, f"{found.items:.2f}"
    ('1.000', 2, '2.00')
    """
    chances = np.array([mechanism.chance(histogram, k) for k in mechanism.preference.choices.tolist()])
    gaps = histogram.gaps(mechanism.max_k)[mechanism.preference.choices - 1]
    release = float(chances.sum())
    below = np.cumsum(chances) / release

    def quantile(share: float) -> int:
        return int(mechanism.preference.choices[min(int(np.searchsorted(below, share)), len(below) - 1)])

    seen = np.minimum(mechanism.preference.choices, len(histogram.items))
    return Answer(
        release=release,
        right=float(chances[gaps.argmax()]),
        low=quantile(0.1),
        median=quantile(0.5),
        high=quantile(0.9),
        items=float((chances * seen).sum()),
        wrong=float(chances[(gaps == 0) & (seen == mechanism.preference.choices)].sum()),
    )


def smallest_epsilon(answers: Mapping[float, Answers], log: str, variant: str, *, chance: float = 0.9) -> float | None:
    """Return the smallest epsilon of the grid at which a set is released with that chance, or None."""
    enough = [epsilon for epsilon, found in answers.items() if found[log, variant].release >= chance]
    return min(enough, default=None)


def _needed(answers: Mapping[float, Answers], logs: Mapping[str, LogData]) -> Table:
    return Table(
        name="needed",
        title="Smallest epsilon tried at which a set is released 9 times in 10",
        columns=("data", *VARIANTS),
        rows=tuple(
            (log.title, *(_plain(smallest_epsilon(answers, name, variant)) for variant in VARIANTS))
            for name, log in logs.items()
        ),
        note=f"Tried: {min(answers)} to {max(answers)}, four to a doubling.",
    )


def _plain(epsilon: float | None) -> str:
    return "none" if epsilon is None else str(epsilon)


def _chances(answers: Mapping[float, Answers], logs: Mapping[str, LogData]) -> Table:
    wrong = max(found.wrong for result in answers.values() for found in result.values())
    rows: list[tuple[Cell, ...]] = []
    for name, log in logs.items():
        for epsilon in (e for e in answers if e in PRINTED):
            found = [answers[epsilon][name, variant] for variant in VARIANTS]
            chances = [round(one.release, 4) for one in found] + [round(one.right, 4) for one in found]
            rows.append((log.title, str(epsilon), *chances))
    return Table(
        name="chances",
        title="Chance that a set is released, and that it is the one above the largest gap",
        columns=("data", "epsilon", *VARIANTS, *(f"{variant}, largest gap" for variant in VARIANTS)),
        rows=tuple(rows),
        keys=2,
        note=f"The largest chance, in any cell, of a set whose last count is tied with the next: {wrong:.1g}.",
    )


def _cuts(answers: Mapping[float, Answers], logs: Mapping[str, LogData]) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for name, log in logs.items():
        for epsilon in (e for e in answers if e in PRINTED):
            spans = [_span(answers[epsilon][name, variant]) for variant in VARIANTS]
            if any(spans):
                rows.append((log.title, str(epsilon), *spans))
    return Table(
        name="cuts",
        title="The k of a released set: median (10 % to 90 %)",
        columns=("data", "epsilon", *VARIANTS),
        rows=tuple(rows),
        keys=2,
        note=f"Empty where a set goes out with a chance below {_RARE}.",
    )


def _span(found: Answer) -> str | None:
    if found.release < _RARE:
        return None
    return str(found.median) if found.low == found.high else f"{found.median} ({found.low} to {found.high})"


def draw(
    figure: Any, answers: Mapping[float, Answers], logs: Mapping[str, LogData], *, value: Any, top: float | None = 1.0
) -> None:
    """Draw one panel per log: epsilon across, a line per variant."""
    panels: Sequence[Any] = figure.subplots(2, 3, sharex=True, sharey=top is not None).flat
    epsilons = sorted(answers)
    for axes, (name, log) in zip(panels, logs.items(), strict=False):  # a panel may stay empty
        for variant in VARIANTS:
            colour, dash = _LOOKS[variant]
            line = [value(answers[epsilon][name, variant]) for epsilon in epsilons]
            axes.plot(epsilons, line, color=colour, linestyle=dash, linewidth=1.8, label=variant)
        axes.set_xscale("log")
        ticks = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2)
        axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
        axes.minorticks_off()
        axes.set_ylim(0, top and top * 1.03)
        if top is None:
            axes.yaxis.get_major_locator().set_params(integer=True)
        axes.set_title(log.title, loc="left", fontweight="bold", color=INK)
    figure.supxlabel("total epsilon, logarithmic scale", fontsize=9)
    figure.supylabel("chance of release" if top else "items released, expected number", fontsize=9)
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=len(VARIANTS), handlelength=3, columnspacing=1.4)
