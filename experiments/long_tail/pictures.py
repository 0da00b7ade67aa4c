r"""The figures of the study: one panel for each epsilon or log, a line for each mechanism, the default on top of all."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from experiments.figures import BLUE, GREEN, GREY, INK, ORANGE, PURPLE, RED, TEAL
from experiments.long_tail.thresholds import GaussianThreshold, LaplaceThreshold
from experiments.report import Estimate

DEFAULT = "the default, D = 50"
# The mechanisms that say something; the others are in the tables.
_LINES = {
    "find-then-choose": (BLUE, "o"),
    "peel-then-test": (TEAL, "P"),
    "test-first": (GREEN, "D"),
    "limited-domain": (ORANGE, "s"),
    "top-stable": (GREY, "^"),
    GaussianThreshold.name: (RED, "v"),
    LaplaceThreshold.name: (PURPLE, "X"),
}

Shares: TypeAlias = Mapping[int, Mapping[str, Estimate]]  # by k and mechanism


def draw_panels(figure: Any, panels: Mapping[str, Shares], *, columns: int) -> None:
    """Draw the share found against k, one panel for each title."""
    rows = -(-len(panels) // columns)
    grid = figure.subplots(rows, columns, sharey=True, sharex=True, squeeze=False)
    figure.get_layout_engine().set(wspace=0.05, hspace=0.05)
    for axes in grid.flat[len(panels) :]:
        axes.set_visible(False)
    for axes, (title, shares) in zip(grid.flat, panels.items(), strict=False):
        places = list(range(len(shares)))  # k are far apart: evenly spaced
        default = [found[DEFAULT].mean for found in shares.values()]
        axes.plot(places, default, color="#f2c230", linewidth=9, alpha=0.55, solid_capstyle="round", label=DEFAULT)
        for method, (colour, mark) in _LINES.items():
            rival = method in (GaussianThreshold.name, LaplaceThreshold.name)
            axes.plot(
                places,
                [found[method].mean for found in shares.values()],
                color=colour,
                marker=mark,
                markersize=5,
                markeredgecolor="white",
                markeredgewidth=0.5,
                linewidth=1.4,
                linestyle="--" if rival else "-",
                label=method,
                clip_on=False,
            )
        axes.set_title(title, loc="left", fontweight="bold", color=INK)
        axes.set_xticks(places, [str(k) for k in shares])
        axes.set_ylim(0, 1)
        axes.set_yticks([0, 0.25, 0.5, 0.75, 1], ["0", "¼", "½", "¾", "1"])
        axes.set_xmargin(0.06)
    for axes in grid[-1]:
        axes.set_xlabel("k, the number of items asked for")
    for axes in grid[:, 0]:
        axes.set_ylabel("share of the true top k found")
    handles, labels = grid[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=4)
