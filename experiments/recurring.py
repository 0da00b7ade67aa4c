r"""A list published every day for a hundred days, with and without testing the last cut first.

The list is generated: its cut stays for weeks and moves now and then, and its gap goes up and down with the week. Two ways to
publish it under one account: choose where it ends anew every day, or test yesterday's released cut first and choose only if
that fails. Every draw follows the exact law of the release it stands for; every step is charged as a ledger charges it.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from cutline import Ledger
from cutline.arrays import FloatArray
from cutline.histogram import OpenHistogram
from cutline.mechanisms import StableTopK
from cutline.mechanisms.adaptive.hinted import HintedTopK
from cutline.mechanisms.one_gap import one_gap
from cutline.privacy import Budget, Cost, Filter
from experiments.figures import BLUE, GREY, INK, ORANGE, Figure
from experiments.report import StudyReport, Table
from experiments.trials import Setting, mean_and_error, run_cells

TRIALS = 200
DAYS, MAX_K = 100, 100
EPSILON, DELTA = 1.0, 1e-6
MOVES = {1: 7, 31: 12, 58: 5, 86: 9}  # from which day on the list ends at which k
FIRST, SHARE = 10, 125  # the first day takes a tenth of the account, every step afterwards a 125th
WAYS = ("a new cut every day", "the last cut first")
_ANEW, _HINTED = WAYS
_LOOKS = {_ANEW: (ORANGE, "--"), _HINTED: (BLUE, "-")}


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyCase:
    """One way to publish, tried so many times."""

    hinted: bool
    trials: int


@dataclass(frozen=True, slots=True, kw_only=True, repr=False, eq=False)
class Course:
    """What happened on each day (columns) of each trial (rows)."""

    right: Any  # whether the list went out at its true cut
    left: FloatArray  # the part of the account that was left in the evening


Courses: TypeAlias = Mapping[str, Course]


def run(setting: Setting) -> StudyReport:
    """Run the study: both ways, on the same hundred days."""
    trials = setting.repeated(TRIALS)
    cells = {way: StudyCase(hinted=way == _HINTED, trials=trials) for way in WAYS}
    courses = run_cells(publish, cells, experiment="recurring", setting=setting)
    return StudyReport(
        name="recurring",
        title="A list published every day: testing the last cut first",
        parts=[
            Figure(
                name="days",
                title="A hundred days: the list's gap and what each way needs (top), lists out (middle), account left (bottom)",
                draw=lambda figure: draw(figure, courses),
                size=(8.0, 6.6),
            ),
            _tabulate(courses),
        ],
    )


def cut_on(day: int) -> int:
    """Return where the list ends on a day."""
    return MOVES[max(start for start in MOVES if start <= day)]


def gap_on(day: int) -> int:
    """Return how many users the last of the list has more than the next item: a week's ups and downs around 240.

    Examples
    --------
    >>> [gap_on(day) for day in range(1, 8)]
    [263, 269, 253, 227, 211, 217, 240]
    """
    return 240 + round(30 * math.sin(2 * math.pi * day / 7))


def counts_on(day: int) -> OpenHistogram:
    """Return the counts of a day: one gap, and no other."""
    cut, gap = cut_on(day), gap_on(day)
    counts = dict.fromkeys(range(cut), 900 + gap) | dict.fromkeys(range(cut, 3 * MAX_K), 900)
    return OpenHistogram.from_counts(counts, max_k=MAX_K)


@lru_cache(maxsize=1)
def account() -> tuple[Budget, Filter]:
    """Return the account: its budget, and the limits that a ledger keeps for it."""
    budget = Budget(epsilon=EPSILON, delta=DELTA, releases=DAYS)
    with tempfile.TemporaryDirectory() as folder, Ledger(Path(folder) / "books.db") as ledger:
        ledger.create("list", budget=budget, owner="the study")
        return budget, ledger.show("list").filter


@lru_cache(maxsize=64)
def chooser(releases: int) -> StableTopK:
    """Return the release that chooses its cut and takes one of so many parts of the account."""
    budget, limits = account()
    return StableTopK.calibrate(replace(budget, releases=releases), limits=limits, max_k=MAX_K)


@lru_cache(maxsize=64)
def hinted(cut: int) -> HintedTopK:
    """Return the release that tests this cut first."""
    budget, limits = account()
    return HintedTopK.calibrate(replace(budget, releases=SHARE), limits=limits, hint=cut, max_k=MAX_K)


@lru_cache(maxsize=4096)
def law_on(cut: int, gap: int, releases: int) -> FloatArray:
    """Return the chance of each cut 1..max_k to be released on such a day, and last that of none."""
    day = next(day for day in range(1, DAYS + 1) if (cut_on(day), gap_on(day)) == (cut, gap))
    mechanism, counts = chooser(releases), counts_on(day)
    chances = np.array([mechanism.chance(counts, k) for k in range(1, MAX_K + 1)])
    return np.append(chances, max(0.0, 1 - chances.sum()))


def publish(case: StudyCase, seed: int) -> Course:
    """Publish a hundred days, so many times."""
    rng = np.random.default_rng(seed)
    _, limits = account()

    def part(cost: Cost) -> float:
        return max(cost.rdp(limits.order) / limits.rdp, cost.delta / limits.delta)

    first, test = part(chooser(FIRST).cost), part(hinted(1).test.cost(hinted(1).adjacency))
    choose = part(chooser(SHARE if case.hinted else DAYS).cost)
    right = np.zeros((case.trials, DAYS), dtype=bool)
    left = np.zeros((case.trials, DAYS))
    for trial in range(case.trials):
        rest, last = 1.0, 0  # what is left of the account; the last released cut
        for day in range(1, DAYS + 1):
            cut, gap, found = cut_on(day), gap_on(day), 0
            opening = case.hinted and day == 1
            price = first if opening else choose + test * (last > 0)
            if price <= rest + 1e-12:
                if last and rng.random() < _passes(day, last):
                    found, price = last, test
                else:
                    releases = FIRST if opening else SHARE if case.hinted else DAYS
                    found = int(rng.choice(MAX_K + 1, p=law_on(cut, gap, releases))) + 1
                    found = 0 if found > MAX_K else found
                rest -= price
            if case.hinted:
                last = found or last
            right[trial, day - 1] = found == cut
            left[trial, day - 1] = rest
    return Course(right=right, left=left)


def _passes(day: int, hint: int) -> float:
    """Return the chance that the set above the hint is found stable on a day."""
    return _pass_at(hint, gap_on(day) if cut_on(day) == hint else 0)


@lru_cache(maxsize=4096)
def _pass_at(hint: int, gap: int) -> float:
    mechanism = hinted(hint)
    yes, _ = mechanism.test.chances(np.array([gap]), np.array([np.iinfo(np.int64).max]), mechanism.adjacency)
    return float(yes[0])


def needed(way: str) -> int:
    """Return the one-gap number of a day's release, the hint being right."""
    if way == _ANEW:
        return one_gap(chooser(DAYS).chance, max_k=MAX_K)
    middle = (MAX_K + 1) // 2
    return one_gap(hinted(middle).chance, max_k=MAX_K)


def _tabulate(courses: Courses) -> Table:
    return Table(
        name="days",
        title=f"A hundred days under one account of ({EPSILON:g}, {DELTA:g})",
        columns=(
            "way",
            "gap needed",
            "days with the right list",
            "days after a move until the next list",
            "left at the end, %",
        ),
        rows=tuple(
            (
                way,
                needed(way),
                mean_and_error(course.right.sum(axis=1)),
                mean_and_error(_waits(course)),
                mean_and_error(100 * course.left[:, -1]),
            )
            for way, course in courses.items()
        ),
        note=f"The list ends at k = {', '.join(map(str, MOVES.values()))} from day {', '.join(map(str, MOVES))} on.",
    )


def _waits(course: Course) -> FloatArray:
    """Return for every trial how many days it takes on average until a list goes out again after the cut has moved."""
    starts = [day - 1 for day in MOVES if day > 1]
    ends = [*starts[1:], DAYS]
    waits = []
    for start, end in zip(starts, ends, strict=True):
        out = course.right[:, start:end]
        waits.append(np.where(out.any(axis=1), out.argmax(axis=1), end - start))
    return np.asarray(np.mean(waits, axis=0), dtype=np.float64)


def draw(figure: Any, courses: Courses) -> None:
    """Draw the list's gap against what is needed, how often the list went out, and what was left."""
    days = np.arange(1, DAYS + 1)
    gaps, lists, left = figure.subplots(3, 1, sharex=True)
    gaps.plot(days, [gap_on(int(day)) for day in days], color=INK, linewidth=1.2)
    gaps.annotate("the list's gap", (DAYS, 240), xytext=(6, 0), textcoords="offset points", va="center", fontsize=8)
    for way, course in courses.items():
        colour, dash = _LOOKS[way]
        level = needed(way)
        gaps.axhline(level, color=colour, linestyle=dash, linewidth=1.6)
        gaps.annotate(
            f"{way}: {level}",
            (DAYS, level),
            xytext=(6, 0),
            textcoords="offset points",
            va="center",
            color=colour,
            fontsize=8,
        )
        lists.plot(days, 100 * course.right.mean(axis=0), color=colour, linestyle=dash, linewidth=1.6, label=way)
        low, middle, high = np.quantile(100 * course.left, [0.1, 0.5, 0.9], axis=0)
        left.fill_between(days, low, high, color=colour, alpha=0.18, linewidth=0)
        left.plot(days, middle, color=colour, linestyle=dash, linewidth=1.6, label=way)
    for day, cut in MOVES.items():
        for axes in (gaps, lists, left):
            axes.axvline(day, color=GREY, linewidth=0.8, linestyle=":")
        gaps.annotate(
            f"k = {cut}",
            (day, 1),
            xycoords=("data", "axes fraction"),
            xytext=(3, -2),
            textcoords="offset points",
            va="top",
            fontsize=8,
            color="#59636e",
        )
    gaps.set_ylim(0, 430)
    lists.set_ylim(-3, 103)
    left.set_ylim(-3, 103)
    left.set_xlim(0, DAYS)
    gaps.set_ylabel("users")
    lists.set_ylabel("right list out, %")
    left.set_ylabel("account left, %")
    left.set_xlabel("day; the list moves where a dotted line stands")
    lists.legend(loc="lower left", fontsize=8, handlelength=3)
