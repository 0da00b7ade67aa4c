r"""EXP1: the most visited places of check-in logs, k given, on an open domain, and how much of the true top k is found.

At one total (epsilon, delta = 1 / users): Top Stable, Limited Domain, StableTopK as the paper describes it (a cut by the
largest gap without preference, its Gaussian test, half of the allowance for that, selection with the rest), with Limited
Domain where the paper's own selection is not private; test-first, and the rounds it falls back on by themselves. In the table
also the mechanisms for long tails: peel-then-test, and with at most D items a user find-then-choose and table-threshold.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from cutline.arrays import IntArray
from cutline.counting import count
from cutline.histogram import OpenHistogram
from cutline.mechanisms.base import resolve_max_k
from cutline.mechanisms.fixed.stable_fixed import StableTopKFixed
from cutline.mechanisms.fixed.test_first import TestFirst
from cutline.mechanisms.open.find_then_choose import FindThenChoose
from cutline.mechanisms.open.limited_domain import LimitedDomain
from cutline.mechanisms.open.limited_rounds import LimitedRounds
from cutline.mechanisms.open.peel_then_test import PeelThenTest
from cutline.mechanisms.open.table_threshold import TableThreshold
from cutline.mechanisms.open.top_stable import TopStable
from cutline.privacy import Budget
from cutline.sampling import SeededSource
from experiments.bounded_trials import LongTail, count_bounded
from experiments.datasets import LogData, available, load_log
from experiments.figures import INK, LOOKS, Figure
from experiments.fixed_k_trials import FixedK, shares_found, taken_ranks
from experiments.long_tail.answers import BOUND, LogCounts, run_method, score
from experiments.report import Cell, Estimate, StudyReport, Table, count_noun
from experiments.trials import Setting, mean_and_error, run_cells, seed_of

DATA = ("foursquare_nyc", "foursquare_tky", "brightkite", "gowalla", "kuala-lumpur")
SIZES = (3, 10, 50)
EPSILONS = (0.4, 0.8, 1.0)
TRIALS = 500
METHODS = ("Top Stable", "Limited Domain", "StableTopK (paper)", "test-first")
_TS, _LD, _PAPER, _OURS = METHODS
_ROUNDS = "limited-rounds"  # in the table, to tell what the rounds and what the tests bring
LATER = ("peel-then-test", f"find-then-choose, D = {BOUND}", f"table-threshold, D = {BOUND}")  # in the table, too

# Printed in the paper: k = 3, 10, 50 at epsilon = 0.4, then at 0.8, then at 1.0.
PAPER: Mapping[str, Mapping[str, tuple[float, ...]]] = {
    "BrightKite": {
        _TS: (1.00, 0.77, 0.14, 1.00, 0.80, 0.16, 1.00, 0.80, 0.18),
        _LD: (1.00, 0.47, 0.10, 1.00, 0.79, 0.25, 1.00, 0.88, 0.28),
        _PAPER: (1.00, 0.91, 0.61, 1.00, 1.00, 0.67, 1.00, 1.00, 0.67),
    },
    "Foursquare": {
        _TS: (1.00, 0.64, 0.11, 1.00, 0.90, 0.18, 1.00, 0.90, 0.18),
        _LD: (0.68, 0.62, 0.13, 0.75, 0.85, 0.24, 0.91, 0.94, 0.28),
        _PAPER: (1.00, 0.72, 0.48, 1.00, 1.00, 0.67, 1.00, 1.00, 0.67),
    },
}
# Which of our logs that may be: the paper's own numbers of users and places do not settle it (see the page).
_BESIDE = {"foursquare_tky": "Foursquare", "brightkite": "BrightKite", "gowalla": "BrightKite"}


@dataclass(frozen=True, slots=True, kw_only=True, repr=False, eq=False)
class StudyCase:
    """One cell: counts of public data by rank, and what is asked of them."""

    data: str
    counts: IntArray
    bounded: tuple[IntArray, IntArray]  # all users of each item that somebody kept of at most D, and those who kept it
    users: int
    k: int
    epsilon: float
    trials: int


Found: TypeAlias = Mapping[str, Estimate]  # by method
Rows: TypeAlias = Sequence[tuple[StudyCase, Found]]


def run(setting: Setting) -> StudyReport:
    """Run the experiment: every log, k and epsilon."""
    trials = setting.repeated(TRIALS)
    names, absent = available(DATA, setting.data)
    logs = {name: load_log(name, setting.data) for name in names}
    cells = questions(logs, trials=trials)
    found = run_cells(answer, cells, experiment="exp1", setting=setting)
    rows = [(cells[name], found[name]) for name in cells]
    figure = Figure(
        name="found",
        title=f"Share of the true top k found, mean of {count_noun(trials, 'trial')}"
        + (" (generated logs)" if setting.data is None else ""),
        draw=lambda canvas: draw(canvas, rows, logs),
        size=(8.6, 5.4),
    )
    return StudyReport(
        name="exp1",
        title="EXP1: the top k places of check-in logs, k given"
        + (" (generated logs)" if setting.data is None else ""),
        notes=(*(log.note for log in logs.values()), *absent),
        parts=[figure, tabulate(rows, logs), *compare_with_the_paper(rows, logs)],
    )


def questions(logs: Mapping[str, LogData], *, trials: int) -> dict[str, StudyCase]:
    """Return the cells: logs by k by epsilon."""
    cells = {}
    for name, log in logs.items():
        counts = count(log.table, user="user", item="item", max_k=resolve_max_k(max(SIZES), None))
        assert isinstance(counts, OpenHistogram)  # noqa: S101 - no candidates are listed
        bounded = count_bounded(log.table, bound=BOUND)
        for k in SIZES:
            for epsilon in EPSILONS:
                cells[f"{name} k={k} epsilon={epsilon}"] = StudyCase(
                    data=name,
                    counts=counts.counts[: resolve_max_k(k, None) + 1],
                    bounded=bounded,
                    users=log.users,
                    k=k,
                    epsilon=epsilon,
                    trials=trials,
                )
    return cells


def mechanisms(k: int, budget: Budget) -> dict[str, FixedK]:
    """Return the mechanisms, each calibrated to the whole budget; where max_k matters it is ``max(100, 10 k)``."""
    ranks = resolve_max_k(k, None)
    return {
        # Only k ranks are tested, so that is what its delta is shared between: its best honest form.
        _TS: TopStable.calibrate(budget, k=k),
        _LD: LimitedDomain.calibrate(budget, k=k, max_k=ranks),
        _PAPER: StableTopKFixed.calibrate(budget, k=k, max_k=ranks, weight=0.0, test_share=0.5, test="paper"),
        _OURS: TestFirst.calibrate(budget, k=k, max_k=ranks),
        _ROUNDS: LimitedRounds.calibrate(budget, k=k, max_k=ranks),
    }


def mechanisms_for_long_tails(k: int, budget: Budget) -> dict[str, LongTail]:
    """Return the mechanisms for long tails, each calibrated to the whole budget; table-threshold is told no k."""
    built: tuple[LongTail, ...] = (
        PeelThenTest.calibrate(budget, k=k, max_k=resolve_max_k(k, None)),
        FindThenChoose.calibrate(budget, k=k, max_items_per_user=BOUND),
        TableThreshold.calibrate(budget, max_items_per_user=BOUND),
    )
    return dict(zip(LATER, built, strict=True))


def answer(question: StudyCase, seed: int) -> Found:
    """Run every mechanism ``trials`` times and return mean share and standard error."""
    histogram = OpenHistogram.from_counts(question.counts, max_k=len(question.counts) - 1)
    budget = Budget(epsilon=question.epsilon, delta=1 / question.users)
    found: dict[str, Estimate] = {}
    for name, mechanism in mechanisms(question.k, budget).items():
        taken = taken_ranks(mechanism, histogram, question.trials, rng=SeededSource(seed_of(seed, name)))
        found[name] = mean_and_error(shares_found(taken, histogram.counts, question.k))
    counts = LogCounts(ranked=question.counts, bounded=question.bounded)
    least = int(question.counts[question.k - 1])
    for name, later in mechanisms_for_long_tails(question.k, budget).items():
        runs = run_method(later, counts, question.trials, seed=seed_of(seed, name), k=question.k)
        found[name] = score(runs, least=least, k=question.k).recall
    return found


def tabulate(rows: Rows, logs: Mapping[str, LogData]) -> Table:
    """Return the shares found: one row for each log, k and epsilon."""
    return Table(
        name="found",
        title="Share of the true top k found: mean ± standard error",
        columns=("data", "k", "epsilon", *METHODS, _ROUNDS, *LATER),
        rows=tuple(
            (logs[q.data].title, q.k, str(q.epsilon), *(found[method] for method in (*METHODS, _ROUNDS, *LATER)))
            for q, found in rows
        ),
        keys=3,
    )


def compare_with_the_paper(rows: Rows, logs: Mapping[str, LogData]) -> list[Table]:
    """Put the paper's figures beside ours; generated logs, and logs that the paper did not use, have nothing beside them."""
    lines: list[tuple[Cell, ...]] = []
    for question, found in rows:
        if question.data not in _BESIDE or logs[question.data].generated:
            continue
        name = _BESIDE[question.data]
        at = EPSILONS.index(question.epsilon) * len(SIZES) + SIZES.index(question.k)
        pairs = [value for method in METHODS[:-1] for value in (PAPER[name][method][at], found[method].mean)]
        where = f"{name}; {logs[question.data].title}"
        lines.append((where, question.k, str(question.epsilon), *pairs, found[_OURS].mean))
    pairs_of = [f"{method}, {who}" for method in METHODS[:-1] for who in ("printed", "here")]
    table = Table(
        name="paper",
        title="The paper's table beside ours",
        columns=("printed for; here", "k", "epsilon", *pairs_of, "test-first, here"),
        rows=tuple(lines),
        keys=3,
    )
    return [table] if lines else []


def draw(figure: Any, rows: Rows, logs: Mapping[str, LogData]) -> None:
    """Draw one panel per k: a line per log and epsilon, a mark per method."""
    panels = figure.subplots(1, len(SIZES), sharey=True)
    figure.get_layout_engine().set(wspace=0.06)
    places = {}
    for at, name in enumerate(logs):
        for below, epsilon in enumerate(EPSILONS):
            places[name, epsilon] = -(at * (len(EPSILONS) + 0.8) + below)
    for axes, k in zip(panels, SIZES, strict=True):
        mine = [(q, found) for q, found in rows if q.k == k]
        for question, found in mine:
            y = places[question.data, question.epsilon]
            shares = [found[method][0] for method in METHODS]
            axes.plot(
                [min(shares), max(shares)], [y, y], color="#d5dae0", linewidth=2, zorder=1, solid_capstyle="round"
            )
        for method in METHODS:
            colour, mark = LOOKS[method]
            ring = method == _OURS  # the others stay visible inside it
            axes.scatter(
                [found[method][0] for _, found in mine],
                [places[q.data, q.epsilon] for q, _ in mine],
                facecolor="none" if ring else colour,
                edgecolor=colour if ring else "white",
                marker=mark,
                s=80 if ring else 26,
                linewidth=1.7 if ring else 0.5,
                zorder=3 if ring else 2,
                label=method,
                clip_on=False,
            )
        axes.set_title(f"k = {k}", loc="left", fontweight="bold", color=INK)
        axes.set_xlim(0, 1)
        axes.set_xticks([0, 0.25, 0.5, 0.75, 1], ["0", "", "½", "", "1"])
        axes.grid(axis="y", visible=False)
        axes.spines["left"].set_visible(False)
        axes.tick_params(axis="y", length=0)
    panels[0].set_yticks(list(places.values()), [f"ε = {epsilon}" for _, epsilon in places])
    for at, name in enumerate(logs):
        panels[0].text(
            -0.34,
            -(at * (len(EPSILONS) + 0.8) + 1),
            logs[name].title.replace(" (", "\n("),
            transform=panels[0].get_yaxis_transform(),
            ha="right",
            va="center",
            fontweight="bold",
        )
    panels[1].set_xlabel("share of the true top k that is released")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=len(METHODS))
