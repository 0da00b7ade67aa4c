r"""EXP2b of the paper: 15,000 bins, the top k at 700 and the rest at 0, for k from 10 to 1500.

The second half asks what the first cannot show where everything passes: how low the cliff may be.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from cutline.mechanisms import Mechanism, StableTopK
from cutline.mechanisms import mechanism as find_mechanism
from cutline.mechanisms.open.top_stable import TopStable
from cutline.privacy import Budget
from cutline.sampling import SeededSource
from experiments.figures import LOOKS, Figure
from experiments.report import Cell, Estimate, StudyReport, Table, count_noun
from experiments.rivals import build_histogram, paper_peeling, share_spent, spending
from experiments.trials import Setting, mean_and_error, run_cells

_BINS = 15_000
_HEIGHT = 700
_MAX_K = 1_500
_KS = (10, 25, 50, 75, 100, 150, 200, 300, 400, 500, 750, 1_000, 1_250, 1_500)
_HEIGHTS = (50, 100, 150, 200, 250, 300, 350, 400, 450, 500, 600, 700)
_MIDDLE = 500  # where the cliff is when its height varies
_BUDGET = Budget(epsilon=0.15, delta=1e-6)
TRIALS = 100
_DEVIATION = "standard deviation"  # the paper's band
_BANDS: Mapping[str, Callable[[int], float]] = {_DEVIATION: lambda _: 1.0, "2 standard errors": lambda n: 2 / n**0.5}


def _given_k(name: str, **public: Any) -> Callable[[int], Mechanism]:
    return lambda k: find_mechanism(name).calibrate(_BUDGET, k=k, **public)


# What is calibrated for each line, given k.
_LINES: Mapping[str, Callable[[int], Mechanism]] = {
    "EM-CDP (paper)": lambda k: paper_peeling(_BUDGET, k=k),
    "peeling EM": _given_k("peeling-em"),
    "Top Stable": _given_k("top-stable"),
    "Limited Domain": _given_k("limited-domain"),
    "StableTopK (paper)": _given_k("stable-top-k-fixed", max_k=_MAX_K, test="paper"),
    "StableTopK (bit table)": _given_k("stable-top-k-fixed", max_k=_MAX_K),
    "test-first": _given_k("test-first", max_k=_MAX_K),
    # Is not given k.
    "StableTopK (adaptive)": lambda _: StableTopK.calibrate(_BUDGET, max_k=_MAX_K, choose="em"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cell:
    line: str
    k: int
    height: int
    trials: int


def run(setting: Setting) -> StudyReport:
    """Run EXP2b: recall against k at height 700, and against the height at k = 500."""
    return study(setting, ks=_KS, heights=_HEIGHTS)


def study(setting: Setting, *, ks: tuple[int, ...], heights: tuple[int, ...]) -> StudyReport:
    """Run EXP2b for some k and some heights."""
    name, trials = "exp2-synthetic", setting.repeated(TRIALS)
    cells: dict[str, _Cell] = {}
    for line in reversed(list(_LINES)):  # the slowest first, so that no process waits for the last at the end
        cells |= {f"{line}, k={k}": _Cell(line=line, k=k, height=_HEIGHT, trials=trials) for k in ks}
        cells |= {f"{line}, height={h}": _Cell(line=line, k=_MIDDLE, height=h, trials=trials) for h in heights}
    found = run_cells(_recalls, cells, experiment=name, setting=setting)
    by_k = {line: [found[f"{line}, k={k}"] for k in ks] for line in _LINES}
    by_height = {line: [found[f"{line}, height={height}"] for height in heights] for line in _LINES}
    costs = {f"{line}, k={k}": (line, k) for line in _LINES for k in {min(ks), max(ks)}}
    spent = run_cells(_spent, costs, experiment=name, setting=setting)
    note = (
        f"Every column is (0.15, 1e-6)-DP for one user joining or leaving. {spending(_least_spent(spent, costs))} Standard "
        "errors are the standard deviations over the square root of the number of trials."
    )
    heading = f"mean ± standard deviation of {count_noun(trials, 'trial')}"
    return StudyReport(
        name=name,
        title=f"EXP2b: one cliff among {_BINS:,} bins",
        parts=(
            _figure("recall", "k", ks, by_k, f"Recall of the top k, all at {_HEIGHT}, the rest at 0", band=_DEVIATION),
            _table("recall", "k", ks, by_k, f"Share of the top k found, height {_HEIGHT}: {heading}", note),
            _figure(
                "height",
                "height of the cliff",
                heights,
                by_height,
                f"Recall of the top {_MIDDLE}",
                band="2 standard errors",
            ),
            _table("height", "height", heights, by_height, f"Share of the top {_MIDDLE} found: {heading}", note),
        ),
    )


def _spent(cell: tuple[str, int], seed: int) -> float:  # noqa: ARG001 - nothing is drawn
    line, k = cell
    return share_spent(_calibrate(line, 0 if "adaptive" in line else k), _BUDGET)


def _least_spent(spent: Mapping[str, float], costs: Mapping[str, tuple[str, int]]) -> dict[str, float]:
    return {line: min(spent[name] for name, (of, _) in costs.items() if of == line) for line in _LINES}


@lru_cache(maxsize=256)
def _calibrate(line: str, k: int) -> Mechanism:
    return _LINES[line](k)


def _recalls(cell: _Cell, seed: int) -> list[float]:
    """Return the recall of each trial; bins below k are the top, so an index tells whether it was found."""
    mechanism = _calibrate(cell.line, 0 if "adaptive" in cell.line else cell.k)
    counts = np.where(np.arange(_BINS) < cell.k, cell.height, 0)
    source = SeededSource(seed)
    histogram = build_histogram(mechanism, counts)
    if isinstance(mechanism, StableTopK):
        chosen, passed = mechanism.sample(histogram, cell.trials, rng=source)
        return [float(share) for share in np.where(passed, np.minimum(chosen, cell.k), 0) / cell.k]
    if isinstance(mechanism, TopStable):
        return [float(released) / cell.k for released in mechanism.sample(histogram, cell.trials, rng=source)]
    releases = (mechanism.release(histogram, rng=source).items for _ in range(cell.trials))
    return [len({*range(cell.k)}.intersection(items or ())) / cell.k for items in releases]


def _deviation(values: list[float]) -> float:
    """Return the standard deviation of one trial, the paper's band; that of a single value is unknown."""
    return float(np.std(values, ddof=1)) if len(values) > 1 else math.inf


def _table(
    name: str, what: str, at: tuple[int, ...], lines: Mapping[str, list[list[float]]], title: str, note: str
) -> Table:
    def estimate(values: list[float]) -> Estimate:
        return Estimate(mean_and_error(values).mean, _deviation(values))

    rows: list[tuple[Cell, ...]] = [(x, *(estimate(line[i]) for line in lines.values())) for i, x in enumerate(at)]
    return Table(name=name, title=title, columns=(what, *lines), rows=tuple(rows), note=note, spread=_DEVIATION)


def _figure(
    name: str, what: str, at: tuple[int, ...], lines: Mapping[str, list[list[float]]], title: str, *, band: str
) -> Figure:
    alone = len(next(iter(lines.values()))[0]) == 1
    said = "one trial, deviation unknown" if alone else f"band: {band}"

    def draw(figure: Any) -> None:
        axes = figure.add_subplot()
        full = [line for line, found in lines.items() if min(np.mean(values) for values in found) > 0.995]
        for line, found in lines.items():
            colour, mark = LOOKS[line]
            mean = np.array([np.mean(values) for values in found])
            axes.plot(at, mean, label=line, color=colour, marker=mark, markersize=4, linewidth=1.4, clip_on=False)
            spread = np.array([_deviation(values) for values in found]) * _BANDS[band](len(found[0]))
            if np.isfinite(spread).all():
                low, high = np.maximum(mean - spread, 0), np.minimum(mean + spread, 1)
                axes.fill_between(at, low, high, color=colour, alpha=0.15, linewidth=0)
        if full:  # lines that lie on each other are named where they lie
            words = textwrap.fill(f"{', '.join(full)}: all at 1.00", 62, break_on_hyphens=False)
            axes.text(0.98, 0.965, words, transform=axes.transAxes, ha="right", va="top", fontsize=8)
        if what == "k":
            axes.set_xscale("log")
            axes.set_xticks([10, 30, 100, 300, 1000], ["10", "30", "100", "300", "1000"])
            axes.minorticks_off()
        axes.set_ylim(0, 1.02)
        axes.set_xlabel(what)
        axes.set_ylabel("share of the top k found")
        axes.set_title(f"{title}; (0.15, 1e-6)-DP, {said}", loc="left")
        figure.legend(*axes.get_legend_handles_labels(), loc="outside right upper")

    return Figure(
        name=name, title=f"{title}; {'one trial' if alone else f'mean and {band}'}", draw=draw, size=(9.0, 4.0)
    )
