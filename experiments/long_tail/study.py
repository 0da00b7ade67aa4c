r"""Every mechanism that is told k on an open domain, and two noisy thresholds, on six logs with long tails.

Each log is counted as a release counts it, in full and with a bound on items per user. Whatever can be told k is calibrated for
one release at the whole budget and run many times. All of it is compared with the default, the mechanism that a question gets
which names none: how far is it from the best?
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from cutline.counting import count
from cutline.histogram import OpenHistogram
from cutline.mechanisms.base import resolve_max_k
from cutline.mechanisms.registry import default_mechanism, mechanism
from cutline.privacy import Budget
from experiments.bounded_trials import count_bounded
from experiments.datasets import LogData, available, load_log
from experiments.figures import Figure
from experiments.long_tail.answers import (
    BOUND,
    DELTA,
    LIMITED,
    METHODS,
    OURS,
    PARTS,
    RIVALS,
    LogCounts,
    Score,
    StudyCase,
    answer,
)
from experiments.long_tail.pictures import DEFAULT, draw_panels
from experiments.report import Cell, Estimate, StudyReport, Table, count_noun
from experiments.trials import Setting, run_cells

NAME = "long-tail"
DATA = ("foursquare_nyc", "foursquare_tky", "brightkite", "gowalla", "kuala-lumpur", "fimi_retail")
AVERAGED = tuple(name for name in DATA if name != "kuala-lumpur")  # the logs that the default was chosen on
SIZES = (3, 10, 50, 200)
EPSILONS = (0.3, 1.0, 3.0)
TRIALS = 200
MEAN_BAR, LOG_BAR = 0.03, 0.06  # how far the default may be below the best
_BOUNDS: dict[str, int | None] = {f"{BOUND} items": BOUND, "none": None}

Place: TypeAlias = tuple[int, float]  # k and epsilon
Found: TypeAlias = Mapping[Place, Mapping[tuple[str, str], Score]]  # the scores by log and mechanism


def run(setting: Setting) -> StudyReport:
    """Run the study: every k and epsilon, on all logs."""
    trials = setting.repeated(TRIALS)
    names, absent = available(DATA, setting.data)
    logs = {name: load_log(name, setting.data) for name in names}
    counts = {name: count_log(log) for name, log in logs.items()}
    cells = {
        f"k={k} epsilon={epsilon}": StudyCase(logs=counts, k=k, epsilon=epsilon, trials=trials)
        for k in SIZES
        for epsilon in EPSILONS
    }
    answers = run_cells(answer, cells, experiment=NAME, setting=setting)
    found = {(cells[name].k, cells[name].epsilon): answers[name] for name in cells}
    return report(found, logs, absent=absent, trials=trials)


def count_log(log: LogData) -> LogCounts:
    """Count a log in the ways that the mechanisms look at it."""
    histogram = count(log.table, user="user", item="item", max_k=resolve_max_k(max(SIZES), None))
    assert isinstance(histogram, OpenHistogram)  # noqa: S101 - no candidates are listed
    return LogCounts(
        ranked=histogram.counts,
        bounded=count_bounded(log.table, bound=BOUND),
        weighted=count_bounded(log.table, bound=BOUND, parts=PARTS),
    )


def report(found: Found, logs: Mapping[str, LogData], *, absent: Sequence[str], trials: int) -> StudyReport:
    """Return the tables and figures of what was found."""
    generated = " (generated logs)" if any(log.generated for log in logs.values()) else ""
    averaged = tuple(name for name in logs if name in AVERAGED) or tuple(logs)
    means = {place: mean_recalls(scores, averaged) for place, scores in found.items()}
    titles = {name: log.title for name, log in logs.items()}
    over = f"the mean over {listed([titles[name] for name in averaged])}"

    def shares(place: Place, recalls: Mapping[str, Estimate]) -> dict[str, Estimate]:
        return {DEFAULT: recalls[default_at(place, BOUND)], **recalls}

    middle = sorted(EPSILONS)[len(EPSILONS) // 2]
    return StudyReport(
        name=NAME,
        title=f"Long tails: the top k of any log, k given{generated}",
        notes=(*(log.note for log in logs.values()), *absent),
        parts=[
            Figure(
                name="mean",
                title=f"Share of the true top k found against k, mean over {count_noun(len(averaged), 'log')} and "
                f"{count_noun(trials, 'trial')}{generated}",
                draw=lambda canvas: draw_panels(
                    canvas,
                    {
                        f"ε = {epsilon:g}": {k: shares((k, epsilon), means[k, epsilon]) for k in SIZES}
                        for epsilon in EPSILONS
                    },
                    columns=len(EPSILONS),
                ),
                size=(8.6, 4.4),
            ),
            tabulate_behind(found, means, titles),
            Table(
                name="mean",
                title=f"Share of the true top k found: {over}, ± standard error",
                columns=("k", "epsilon", *METHODS),
                rows=tuple((k, str(epsilon), *mean.values()) for (k, epsilon), mean in means.items()),
                keys=2,
            ),
            Figure(
                name="logs",
                title=f"Share of the true top k found against k on each log, ε = {middle:g}{generated}",
                draw=lambda canvas: draw_panels(
                    canvas,
                    {
                        title: {k: shares((k, middle), recalls_on(name, found[k, middle])) for k in SIZES}
                        for name, title in titles.items()
                    },
                    columns=3,
                ),
                size=(8.6, 6.4),
            ),
            *tabulate_each(found, titles),
        ],
    )


def default_at(place: Place, bound: int | None) -> str:
    """Return the mechanism that a question gets which names none."""
    k, epsilon = place
    return default_mechanism(k, max_items_per_user=bound, budget=Budget(epsilon=epsilon, delta=DELTA)).name


def recalls_on(log: str, scores: Mapping[tuple[str, str], Score]) -> dict[str, Estimate]:
    """Return the recall of each mechanism on one log."""
    return {method: scores[log, method].recall for method in METHODS}


def mean_recalls(scores: Mapping[tuple[str, str], Score], averaged: Sequence[str]) -> dict[str, Estimate]:
    """Return the mean recall over logs of each mechanism; trials on different logs are independent."""
    means = {}
    for method in METHODS:
        recalls = [scores[name, method].recall for name in averaged]
        error = math.hypot(*(recall.error for recall in recalls)) / len(recalls)
        means[method] = Estimate(sum(recall.mean for recall in recalls) / len(recalls), error)
    return means


@dataclass(frozen=True, slots=True, kw_only=True)
class Behind:
    """How far the default is below the best mechanism, in the mean or on one log."""

    default: str
    best: str
    by: float

    @classmethod
    def of(cls, default: str, recalls: Mapping[str, Estimate], *, among: Sequence[str]) -> Behind:
        """Compare the default with the best among some mechanisms; itself, where none is better."""
        best = max((default, *among), key=lambda method: recalls[method].mean)
        return cls(default=default, best=best, by=recalls[best].mean - recalls[default].mean)


def tabulate_behind(
    found: Found,
    means: Mapping[Place, Mapping[str, Estimate]],
    titles: Mapping[str, str],
) -> Table:
    """Return how far the default is below the best, with and without a bound, and in words where that is too far."""
    rows: list[tuple[Cell, ...]] = []
    words: list[str] = []
    for title, bound in _BOUNDS.items():
        among = [method for method in (*OURS, *LIMITED) if bound or needs_no_bound(method)]
        in_mean: list[tuple[float, str]] = []
        on_logs: list[tuple[float, str]] = []
        for (k, epsilon), scores in found.items():
            default, mean = default_at((k, epsilon), bound), means[k, epsilon]
            overall = Behind.of(default, mean, among=among)
            alone = {name: Behind.of(default, recalls_on(name, scores), among=among) for name in titles}
            worst, by = max(((name, one.by) for name, one in alone.items()), key=lambda pair: pair[1])
            rival = max(RIVALS, key=lambda method: means[k, epsilon][method].mean)
            at = f"k = {k}, epsilon = {epsilon:g}"
            in_mean.append((overall.by, f"{at}: {overall.best}"))
            on_logs += [(one.by, f"{titles[name]}, {at}: {one.best}") for name, one in alone.items()]
            rows.append(
                (
                    *(title, k, str(epsilon), default, mean[default].mean),
                    *(overall.best, mean[overall.best].mean, overall.by),
                    *((titles[worst], alone[worst].best) if by else (None, None)),
                    *(by, mean[rival].mean if bound else None),
                )
            )
        given = f"With D = {bound}" if bound else "Without a bound"
        words.append(describe_worst(f"{given}, in the mean over logs,", in_mean, bar=MEAN_BAR))
        words.append(describe_worst(f"{given}, on one log,", on_logs, bar=LOG_BAR))
    rivals = [
        (one.by, f"{titles[name]}, k = {place[0]}, epsilon = {place[1]:g}: {one.best}")
        for place, scores in found.items()
        for name in titles
        for one in [Behind.of(default_at(place, BOUND), recalls_on(name, scores), among=RIVALS)]
    ]
    words.append(describe_worst("Beside the two thresholds, given the same bound, on one log,", rivals, bar=0.0))
    return Table(
        name="behind",
        title="How far the default is below the best mechanism: share of the true top k, in the mean over logs and on one log",
        columns=(
            *("bound", "k", "epsilon", "default", "default's share", "best", "best share", "behind"),
            *("farthest behind on", "best there", "behind there", "best threshold"),
        ),
        rows=tuple(rows),
        note="\n\n".join(words),
        keys=3,
    )


def describe_worst(where: str, behind: Sequence[tuple[float, str]], *, bar: float) -> str:
    """Say how far the default is below the best, and where that is more than the bar.

    Examples
    --------
    >>> describe_worst("On one log", [(0.07, "Tokyo, k = 3: peel"), (0.0, "Tokyo, k = 10: peel")], bar=0.06)
    'On one log the default is at most 0.070 below the best; more than 0.06 below in 1 of 2 cells: Tokyo, k = 3: peel (0.070).'
    >>> describe_worst("On one log", [(0.0, "x"), (0.0, "y")], bar=0.06)
    'On one log the default is at most 0.000 below the best; more than 0.06 below in 0 of 2 cells.'
    """
    over = sorted((one for one in behind if round(one[0], 6) > bar), reverse=True)
    cells = "; ".join(f"{what} ({by:.3f})" for by, what in over)
    return (
        f"{where} the default is at most {max(by for by, _ in behind):.3f} below the best; "
        f"more than {bar:g} below in {len(over)} of {count_noun(len(behind), 'cell')}{f': {cells}' if cells else ''}."
    )


def needs_no_bound(method: str) -> bool:
    """Say whether a mechanism runs on the counts of all users."""
    return method in OURS and not mechanism(method).accepts("max_items_per_user")


def tabulate_each(found: Found, titles: Mapping[str, str]) -> list[Table]:
    """Return recall, precision and number of items released: one row for each log, k and epsilon."""
    values: dict[str, tuple[str, Callable[[Score], Cell]]] = {
        "recall": ("Share of the true top k that was found: mean ± standard error", lambda score: score.recall),
        "precision": (
            "Share of what was shown, in all trials, that is in the true top k; empty if nothing ever was",
            lambda score: score.precision,
        ),
        "released": ("How many items were shown, in the mean", lambda score: score.released),
    }
    return [
        Table(
            name=name,
            title=title,
            columns=("data", "k", "epsilon", *METHODS),
            rows=tuple(
                (titles[log], k, str(epsilon), *(value(scores[log, method]) for method in METHODS))
                for log in titles
                for (k, epsilon), scores in found.items()
            ),
            keys=3,
        )
        for name, (title, value) in values.items()
    ]


def listed(texts: Sequence[str]) -> str:
    """Return the texts as a list in a sentence."""
    return " and ".join(filter(None, (", ".join(texts[:-1]), texts[-1])))
