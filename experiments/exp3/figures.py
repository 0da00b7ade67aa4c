r"""The figures of EXP3."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from experiments.exp3.polls import Poll, score
from experiments.exp3.sweeps import PAPERS_TEST, RELATIONS, Found
from experiments.exp3.tables import TITLES, Sweep
from experiments.figures import BLUE, GREEN, GREY, INK, ORANGE, PURPLE, RED, TEAL, Figure

# Colour is the aggregator; a limit on ballots is a dashed line with hollow marks.
_LOOKS: Mapping[str, tuple[str, str, bool]] = MappingProxyType(
    {
        "OptimalVote": (BLUE, "o", False),
        "OptimalVote, limited": (BLUE, "o", True),
        "Binary voting": (ORANGE, "s", False),
        "Binary voting, limited": (ORANGE, "s", True),
        "PATE-Gaussian": (GREY, "^", False),
        "PATE-tau": (GREY, "^", True),
        PAPERS_TEST: (RED, "v", False),
        "StableTopK (bit table)": (PURPLE, "D", False),
        "StableMajority": (GREEN, "P", False),
        "StableConfident": (TEAL, "X", False),
    }
)
_LEFT, _RIGHT = 0.8, 30.0  # of the epsilons that equal labels need
_AXIS = {"right": "share of all labels that are right", "f1": "micro F1 of the labels set"}


def draw_sweep(poll: Poll, sweep: Sweep, target: float) -> Figure:
    """Draw the score against epsilon, one panel for each relation, with the plain majority and the goal."""

    def draw(figure: Any) -> None:
        panels = figure.subplots(1, len(RELATIONS), sharey=True)
        plain = getattr(score(poll.majority.astype(int), poll.truth), poll.measure)
        for axes, relation in zip(panels, RELATIONS, strict=True):
            for line, found in sweep.items():
                _curve(axes, line, *_means(found[relation].scores, poll.measure))
            _level(axes, plain, "plain majority, no privacy", width=1.0)
            _level(axes, target, f"goal, {target:.2f}", width=0.7)
            _log_epsilon(axes, sorted(next(iter(sweep.values()))[relation].scores))
            axes.set_title(f"{poll.title}, {TITLES[relation]}", loc="left")
        panels[0].set_ylabel(_AXIS[poll.measure])
        panels[0].set_ylim(0, None)
        figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=4, fontsize=8)

    return Figure(
        name=poll.name,
        title=f"{poll.title}: {_AXIS[poll.measure]}, against the epsilon of all queries together (delta = 1e-6)",
        draw=draw,
        size=(9.0, 4.8),
    )


def _means(scores: Mapping[float, Sequence[Any]], measure: str) -> tuple[list[float], list[float]]:
    epsilons = sorted(scores)
    return epsilons, [float(np.mean([getattr(each, measure) for each in scores[epsilon]])) for epsilon in epsilons]


def _curve(axes: Any, line: str, epsilons: list[float], means: list[float]) -> None:
    colour, mark, limited = _LOOKS[line]
    axes.plot(
        epsilons, means, label=line, color=colour, marker=mark, markersize=4.5, linewidth=1.5, clip_on=False,
        linestyle="--" if limited else "-", markerfacecolor="white" if limited else colour,
    )  # fmt: skip


def _level(axes: Any, height: float, name: str, *, width: float) -> None:
    """Draw a dotted line across, with its name at the left."""
    axes.axhline(height, color=INK, linewidth=width, linestyle=":")
    axes.annotate(
        name, (0.01, height), xytext=(0, 2), textcoords="offset points", fontsize=7.5,
        xycoords=("axes fraction", "data"), ha="left", va="bottom",
    )  # fmt: skip


def draw_needed(polls: Sequence[Poll], sweeps: Mapping[str, Sweep], targets: Mapping[str, float]) -> Figure:
    """Draw the epsilon that equal labels need, one panel for each data set."""

    def draw(figure: Any) -> None:
        panels = np.atleast_1d(figure.subplots(1, len(polls), sharey=True))
        lines = list(sweeps[polls[0].name])
        for axes, poll in zip(panels, polls, strict=True):
            most = max(sweeps[poll.name][lines[0]][RELATIONS[0]].scores)
            for row, line in enumerate(lines):
                _dots(axes, row, [sweeps[poll.name][line][relation] for relation in RELATIONS], most)
            _log_epsilon(axes, [1.0, 2.0, 4.0, 8.0, 16.0])
            axes.set_xlim(_LEFT, _RIGHT)
            what = "accuracy" if poll.measure == "right" else "F1"
            axes.set_title(f"{poll.title}\n{what} of {targets[poll.name]:.2f}", loc="left")
        panels[0].set_yticks(range(len(lines)), lines)
        panels[0].set_ylim(len(lines) - 0.5, -0.5)
        handles = [
            panels[0].plot([], [], marker="o", linestyle="none", color=BLUE, label="REPLACE")[0],
            panels[0].plot(
                [], [], marker="o", linestyle="none", color=BLUE, markerfacecolor="white", label="ADD_REMOVE"
            )[0],
        ]
        figure.legend(handles=handles, loc="outside lower center", ncols=2, fontsize=8)

    return Figure(
        name="needed",
        title="Epsilon that equal labels need, for all queries together (delta = 1e-6); further left is better. Lines: what "
        "four of five other draws of queries need",
        draw=draw,
        size=(9.0, 4.2),
    )


def _dots(axes: Any, row: int, found: Sequence[Found], most: float) -> None:
    """Draw REPLACE filled, over ADD_REMOVE, which is hollow, each with its interval; what was not reached is said in words."""
    replaced, added = found
    for one, shift, fill, order in ((added, 0.13, "white", 3), (replaced, -0.13, BLUE, 4)):
        if one.needed is not None and one.between is not None:
            ends = np.clip(one.between, _LEFT, _RIGHT)  # what goes beyond the panel ends at its edge
            axes.plot(ends, [row + shift] * 2, color=BLUE, linewidth=1.2, alpha=0.55, zorder=2)
            # A smallest epsilon that is enough already is an upper end, not a place.
            mark = "<" if one.at_most else "o"
            axes.plot(
                one.needed, row + shift, marker=mark, color=BLUE, markerfacecolor=fill, markersize=5.5, zorder=order
            )
    if replaced.needed is None:
        none = added.needed is None
        label, place = (f"above {most:g}", most) if none else (f"REPLACE: above {most:g}", _edge(added) / 1.1)
        axes.text(place, row, label, ha="right", va="center", fontsize=7.5, color="#59636e")


def _edge(found: Found) -> float:
    """Return how far left an interval reaches."""
    return max(found.between[0], _LEFT) if found.between else _LEFT


def _log_epsilon(axes: Any, ticks: Sequence[float]) -> None:
    axes.set_xscale("log")
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()
    axes.set_xlabel("epsilon")
