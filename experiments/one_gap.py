r"""How large must one gap be? The one-gap number of each form of StableTopK, for 1 to 1000 releases under one total.

The one-gap number is the smallest g such that, with one gap of g and all others 0, the right set goes out with probability
0.9, choosing k included. It follows from public numbers alone and is computed from the exact laws.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from cutline.mechanisms import StableTopK
from cutline.mechanisms.one_gap import one_gap
from cutline.privacy import Budget
from experiments.figures import BLUE, GREEN, GREY, INK, ORANGE, PURPLE, Figure
from experiments.report import StudyReport, Table
from experiments.trials import Setting, run_cells

RELEASES = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
EPSILON, DELTA, MAX_K = 1.0, 1e-6, 100
FORMS = ("paper", "EM + Gaussian", "EM + table", "argmax + table", "k fixed, test only")
_PAPER, _GAUSSIAN, _EM, _ARGMAX, _FIXED = FORMS
_LOOKS = {
    _PAPER: (ORANGE, "--", "s"),
    _GAUSSIAN: (PURPLE, (0, (5, 1, 1, 1, 1, 1)), "v"),
    _EM: (BLUE, "-", "o"),
    _ARGMAX: (GREEN, "-.", "^"),
    _FIXED: (GREY, ":", "D"),
}

# (releases, epsilon, max_k): a few settings beside the curve; the last is that of the paper's PATE experiment.
SETTINGS = ((1, 1.0, 39), (10, 0.1, 100), (100, 3.0, 100), (600, 3.66, 39))


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyCase:
    """One cell: how many releases share which total, and how many cuts there are to choose from."""

    releases: int
    epsilon: float = EPSILON
    max_k: int = MAX_K


Gaps: TypeAlias = Mapping[str, int]  # the one-gap number by form


def run(setting: Setting) -> StudyReport:
    """Run the study."""
    cells = {f"releases={n}": StudyCase(releases=n) for n in RELEASES}
    cells |= {_name(key): StudyCase(releases=key[0], epsilon=key[1], max_k=key[2]) for key in SETTINGS}
    found = run_cells(gaps_needed, cells, experiment="one-gap", setting=setting)
    curve = {n: found[f"releases={n}"] for n in RELEASES}
    return StudyReport(
        name="one-gap",
        title="The gap each form of StableTopK needs, for 1 to 1000 releases",
        parts=[
            Figure(
                name="releases",
                title=f"One-gap number against the number of releases, all at one total of ({EPSILON:g}, {DELTA:g})",
                draw=lambda figure: draw(figure, curve),
                size=(8.0, 4.6),
            ),
            _tabulate_curve(curve),
            _tabulate_settings({key: found[_name(key)] for key in SETTINGS}),
        ],
    )


def _name(key: tuple[int, float, int]) -> str:
    return "releases={} epsilon={} max_k={}".format(*key)


def gaps_needed(question: StudyCase, seed: int) -> Gaps:  # noqa: ARG001 - nothing is drawn
    r"""Return the one-gap number of every form.

    Examples
    --------
    >>> gaps_needed(StudyCase(releases=1), 0)
    {'paper': 57, 'EM + Gaussian': 39, 'EM + table': 31, 'argmax + table': 31, 'k fixed, test only': 16}
    """
    budget = Budget(epsilon=question.epsilon, delta=DELTA, releases=question.releases)
    max_k = question.max_k
    forms = {
        _PAPER: StableTopK.calibrate(budget, max_k=max_k, test="paper"),
        _GAUSSIAN: StableTopK.calibrate(budget, max_k=max_k, test="gaussian"),
        _EM: StableTopK.calibrate(budget, max_k=max_k, choose="em"),
        _ARGMAX: StableTopK.calibrate(budget, max_k=max_k, choose="argmax"),
        _FIXED: StableTopK.calibrate(budget, max_k=max_k, min_k=max_k, choose="argmax"),
    }
    return {
        name: one_gap(form.chance, max_k=max_k, k=max_k if name == _FIXED else None) for name, form in forms.items()
    }


def _tabulate_curve(curve: Mapping[int, Gaps]) -> Table:
    return Table(
        name="releases",
        title=f"One-gap numbers, in users, at a total of ({EPSILON:g}, {DELTA:g})",
        columns=("releases", *FORMS, "paper over the better of ours"),
        rows=tuple(
            (n, *(gaps[form] for form in FORMS), f"{gaps[_PAPER] / min(gaps[_EM], gaps[_ARGMAX]):.2f}")
            for n, gaps in curve.items()
        ),
    )


def _tabulate_settings(found: Mapping[tuple[int, float, int], Gaps]) -> Table:
    return Table(
        name="settings",
        title=f"Other settings, delta = {DELTA:g}",
        columns=("releases", "total epsilon", "max_k", *FORMS),
        rows=tuple((n, f"{epsilon:g}", k, *(gaps[form] for form in FORMS)) for (n, epsilon, k), gaps in found.items()),
    )


def draw(figure: Any, curve: Mapping[int, Gaps]) -> None:
    """Draw one line per form, named at its right end."""
    axes = figure.subplots()
    releases: Sequence[int] = sorted(curve)
    for form in FORMS:
        colour, dash, mark = _LOOKS[form]
        line = [curve[n][form] for n in releases]
        axes.plot(releases, line, color=colour, linestyle=dash, marker=mark, markersize=4.5, linewidth=1.8)
        axes.annotate(
            f"{form}: {line[-1]:,}",
            (releases[-1], line[-1]),
            xytext=(9, 0),
            textcoords="offset points",
            va="center",
            color=INK if colour == GREY else colour,
            fontweight="bold",
            annotation_clip=False,
        )
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xticks(releases, [f"{n:,}" for n in releases])
    low, high = min(curve[n][_FIXED] for n in releases), max(curve[n][_PAPER] for n in releases)
    ticks = [tick for tick in (10, 20, 50, 100, 200, 500, 1000, 2000, 5000) if low / 2 <= tick <= 1.3 * high]
    axes.set_yticks(ticks, [f"{tick:,}" for tick in ticks])
    axes.minorticks_off()
    axes.set_xlabel("releases that share the total, logarithmic scale")
    axes.set_ylabel("gap needed, in users, logarithmic scale")
