r"""The figures of EXP3."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from cutline.experiments.multilabel_pate_tables import TITLES, Sweep
from cutline.experiments.polls import Poll, score
from cutline.experiments.report import BLUE, GREEN, GREY, INK, ORANGE, PURPLE, RED, Figure
from cutline.experiments.vote_study import RELATIONS
from cutline.privacy import Adjacency

# Colour is the aggregator; a limit on ballots is a dashed line with hollow marks.
_LOOKS: Mapping[str, tuple[str, str, bool]] = MappingProxyType(
    {
        "OptimalVote": (BLUE, "o", False),
        "OptimalVote, limited": (BLUE, "o", True),
        "Binary voting": (ORANGE, "s", False),
        "Binary voting, limited": (ORANGE, "s", True),
        "PATE-Gaussian": (GREY, "^", False),
        "PATE-tau": (GREY, "^", True),
        "StableTopK (paper)": (RED, "v", False),
        "StableTopK (bit table)": (PURPLE, "D", False),
        "StableMajority": (GREEN, "P", False),
        "StableConfident": ("#1b8a8f", "X", False),
    }
)
_AXIS = {"right": "share of all labels that are right", "f1": "micro F1 of the labels set"}
_CLAIM = (3.6, 0.85)  # what the paper prints for StableTopK on CelebA


def sweep_figure(poll: Poll, sweep: Sweep) -> Figure:
    """Draw the score against epsilon, one panel for each relation."""

    def draw(figure: Any) -> None:
        panels = figure.subplots(1, len(RELATIONS), sharey=True)
        plain = getattr(score(poll.majority.astype(int), poll.truth), poll.measure)
        for axes, relation in zip(panels, RELATIONS, strict=True):
            for line, found in sweep.items():
                _curve(axes, line, *_means(found[relation].scores, poll.measure))
            axes.axhline(plain, color=INK, linewidth=1.0, linestyle=":")
            axes.annotate(
                "plain majority, no privacy", (0.01, plain), xytext=(0, 3), textcoords="offset points",
                xycoords=("axes fraction", "data"), ha="left", va="bottom", fontsize=7.5,
            )  # fmt: skip
            if poll.name == "celeba":
                _mark_claim(axes, relation)
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


def _mark_claim(axes: Any, relation: Adjacency) -> None:
    # The paper charges as if a ballot only joined or left; under REPLACE it claims nothing.
    if relation is Adjacency.ADD_REMOVE:
        axes.plot(*_CLAIM, marker="*", markersize=11, color=RED, markeredgecolor="white", linestyle="none", zorder=5)
        axes.annotate(
            "the paper's claim\nfor StableTopK", _CLAIM, xytext=(2.05, 0.6), fontsize=7.5, color=RED,
            arrowprops={"arrowstyle": "-", "color": RED, "linewidth": 0.8, "shrinkB": 5},
        )  # fmt: skip


def needed_figure(polls: Sequence[Poll], sweeps: Mapping[str, Sweep], targets: Mapping[str, float]) -> Figure:
    """Draw the epsilon that equal labels need, one panel for each data set."""

    def draw(figure: Any) -> None:
        panels = np.atleast_1d(figure.subplots(1, len(polls), sharey=True))
        lines = list(sweeps[polls[0].name])
        for axes, poll in zip(panels, polls, strict=True):
            most = max(sweeps[poll.name][lines[0]][RELATIONS[0]].scores)
            for row, line in enumerate(lines):
                _dots(axes, row, [sweeps[poll.name][line][relation].needed for relation in RELATIONS], most)
            _log_epsilon(axes, [1.0, 2.0, 4.0, 8.0, 16.0])
            axes.set_xlim(0.8, 30)
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
        title="Epsilon that equal labels need, for all queries together (delta = 1e-6); further left is better",
        draw=draw,
        size=(9.0, 4.2),
    )


def _dots(axes: Any, row: int, needed: Sequence[float | None], most: float) -> None:
    """Draw REPLACE filled, over ADD_REMOVE, which is hollow; what was not reached is said in words."""
    replaced, added = needed
    reached = [value for value in needed if value is not None]
    axes.plot(reached, [row] * len(reached), color=BLUE, linewidth=1.2, zorder=2)
    if added is not None:
        axes.plot(added, row, marker="o", color=BLUE, markerfacecolor="white", markersize=6, zorder=3)
    if replaced is not None:
        axes.plot(replaced, row, marker="o", color=BLUE, markersize=6, zorder=4)
        return
    label, place = (f"above {most:g}", most) if added is None else (f"REPLACE: above {most:g}", added / 1.15)
    axes.text(place, row, label, ha="right", va="center", fontsize=7.5, color="#59636e")


def _log_epsilon(axes: Any, ticks: Sequence[float]) -> None:
    axes.set_xscale("log")
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()
    axes.set_xlabel("epsilon")
