r"""How large must one gap be? The one-gap number of each form of StableTopK, for 1 to 1000 releases under one total.

The one-gap number is the smallest g such that, with one gap of g and all others 0, the right set goes out with probability
0.9, choosing k included. It follows from public numbers alone and is computed from the exact laws.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from cutline.mechanisms.adaptive.stable_top_k import StableTopK
from cutline.mechanisms.one_gap import one_gap
from cutline.privacy import Budget
from experiments.report import BLUE, GREEN, GREY, INK, ORANGE, PURPLE, Figure, Report, Table, counted
from experiments.rivals import share_spent
from experiments.setting import Setting
from experiments.trials import run_cells

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
class Question:
    """One cell: how many releases share which total, and how many cuts there are to choose from."""

    releases: int
    epsilon: float = EPSILON
    max_k: int = MAX_K


Gaps: TypeAlias = Mapping[str, int]  # the one-gap number by form


def run(setting: Setting) -> Report:
    """Run the study."""
    cells = {f"releases={n}": Question(releases=n) for n in RELEASES}
    cells |= {_name(key): Question(releases=key[0], epsilon=key[1], max_k=key[2]) for key in SETTINGS}
    found = run_cells(gaps_needed, cells, experiment="one-gap", setting=setting)
    curve = {n: found[f"releases={n}"] for n in RELEASES}
    return Report(
        name="one-gap",
        title="The gap each form of StableTopK needs, for 1 to 1000 releases",
        parts=[
            _introduction(),
            Figure(
                name="releases",
                title=f"One-gap number against the number of releases, all at one total of ({EPSILON:g}, {DELTA:g})",
                draw=lambda figure: draw(figure, curve),
                size=(8.0, 4.6),
            ),
            _table(curve),
            _beside({key: found[_name(key)] for key in SETTINGS}),
            conclusion(curve),
        ],
    )


def _name(key: tuple[int, float, int]) -> str:
    return "releases={} epsilon={} max_k={}".format(*key)


def gaps_needed(question: Question, seed: int) -> Gaps:  # noqa: ARG001 - nothing is drawn
    r"""Return the one-gap number of every form.

    Examples
    --------
    >>> gaps_needed(Question(releases=1), 0)
    {'paper': 57, 'EM + Gaussian': 39, 'EM + table': 31, 'argmax + table': 31, 'k fixed, test only': 16}
    """
    budget = Budget(epsilon=question.epsilon, delta=DELTA, releases=question.releases)
    max_k = question.max_k
    forms = {
        _PAPER: StableTopK.calibrate(budget, max_k=max_k, test="paper"),
        _GAUSSIAN: StableTopK.calibrate(budget, max_k=max_k, test="gaussian"),
        _EM: StableTopK.calibrate(budget, max_k=max_k),
        _ARGMAX: StableTopK.calibrate(budget, max_k=max_k, choose="argmax"),
        _FIXED: StableTopK.calibrate(budget, max_k=max_k, min_k=max_k),
    }
    return {
        name: one_gap(form.chance, max_k=max_k, k=max_k if name == _FIXED else None) for name, form in forms.items()
    }


def crossing(curve: Mapping[int, Gaps]) -> int | None:
    """Return the first number of releases from which on argmax never needs more than EM, or None."""
    better = None
    for releases in sorted(curve, reverse=True):
        if curve[releases][_ARGMAX] > curve[releases][_EM]:
            break
        better = releases
    return better


def _paper_spends(releases: int) -> str:
    budget = Budget(epsilon=EPSILON, delta=DELTA, releases=releases)
    spent = share_spent(StableTopK.calibrate(budget, max_k=MAX_K, test="paper"), budget)
    return f"{spent:.2f} of the budget with {counted(releases, 'release')}"


def _introduction() -> str:
    few, many = map(_paper_spends, (min(RELEASES), max(RELEASES)))
    return (
        "The *one-gap number* is the smallest g such that, when one gap is g and all others are 0, the right set goes out with "
        "probability 0.9, choosing k included. Everybody has the same total "
        f"(epsilon = {EPSILON:g}, delta = {DELTA:g}) for all releases together, one user joining or leaving, k chosen from 1 "
        f"to {MAX_K}. No data and no trials: the numbers follow from public parameters, by the exact laws.\n\n"
        "- **paper**: the exponential mechanism and the paper's Gaussian test, even split, half of delta for the tests, zCDP "
        f"with the right conversion. By the best accounting it costs {few} and {many}: part of its distance is accounting. "
        "All others spend the whole budget.\n"
        "- **EM + Gaussian**: the paper's test with the exact threshold, exact accounting and the best split: what is left of "
        "the distance to the next line is the test's own.\n"
        "- **EM + table**: the exponential mechanism and the optimal bit table; Rényi order, delta and split from a search.\n"
        "- **argmax + table**: the largest gap as it is; one bit certifies both that the set is stable and that no other gap "
        "could have been the largest.\n"
        "- **k fixed, test only**: k is known beforehand and nothing is chosen: what the test alone needs."
    )


def _table(curve: Mapping[int, Gaps]) -> Table:
    return Table(
        name="releases",
        title=f"One-gap numbers, in users, at a total of ({EPSILON:g}, {DELTA:g})",
        columns=("releases", *FORMS, "paper over the better of ours"),
        rows=tuple(
            (n, *(gaps[form] for form in FORMS), f"{gaps[_PAPER] / min(gaps[_EM], gaps[_ARGMAX]):.2f}")
            for n, gaps in curve.items()
        ),
    )


def _beside(found: Mapping[tuple[int, float, int], Gaps]) -> Table:
    return Table(
        name="settings",
        title=f"Other settings, delta = {DELTA:g}",
        columns=("releases", "total epsilon", "max_k", *FORMS),
        rows=tuple((n, f"{epsilon:g}", k, *(gaps[form] for form in FORMS)) for (n, epsilon, k), gaps in found.items()),
        note="600 releases at 3.66 with 39 cuts is the setting of the paper's PATE experiment.",
    )


def conclusion(curve: Mapping[int, Gaps]) -> str:
    """Say what the curve shows."""
    ratios = [gaps[_PAPER] / min(gaps[_EM], gaps[_ARGMAX]) for gaps in curve.values()]
    tests = [gaps[_GAUSSIAN] / gaps[_EM] for gaps in curve.values()]
    better = crossing(curve)
    argmax = (
        f"From {better} releases on argmax needs no more than the exponential mechanism"
        if better is not None
        else "Argmax needs more than the exponential mechanism throughout"
    )
    return (
        "## What to take from it\n\n"
        f"The paper's form needs {min(ratios):.1f} to {max(ratios):.1f} times the gap of the better of ours; with our "
        f"accounting and the same choice of k, its Gaussian test needs {min(tests):.2f} to {max(tests):.2f} times the "
        f"table's. {argmax}; that is for one clear cliff: where the second gap is large too, argmax is the wrong choice "
        "([adaptive-k](adaptive-k.md)). The "
        "distance to the lowest line is the price of not knowing k."
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
