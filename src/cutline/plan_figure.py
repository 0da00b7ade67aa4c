r"""A figure of a plan: recall and the length of the list against epsilon, all of it computed on public counts."""

from __future__ import annotations

import os
from typing import Any

from cutline.errors import ParameterError
from cutline.mechanisms.epsilons import Curve, Wanted
from cutline.mechanisms.expectations import HARDLY_ANY, Expectation
from cutline.mechanisms.planning import Plan
from cutline.plots import _figure

# Told apart by those who do not see red and green alike; after Okabe and Ito.
_COLORS = ("#1f5fa8", "#d9822b", "#009e73", "#cc79a7", "#59636e", "#56b4e9", "#8c6d1f", "#7a3b8f", "#b03a2e", "#22272e")
_MARKS = "osD^vPX*<>"


def plot_plan(plan: Plan, path: str | os.PathLike[str]) -> None:
    """Draw a plan that tried several epsilons into a .png or .svg file: recall above, items that go out below."""
    logs = list(dict.fromkeys(curve.log for curve in plan.curves))
    if not logs:
        raise ParameterError("a figure of a plan shows several epsilons", "none", "Pass epsilons=(0.1, 1.0).")
    names = list(dict.fromkeys(curve.title for curve in plan.curves))
    style = {name: {"color": _COLORS[i % 10], "marker": _MARKS[i % 10]} for i, name in enumerate(names)}
    title = f"Which epsilon? {'The top, wherever it ends' if plan.k is None else f'The top {plan.k}'}"
    width = 5.4 + 3.6 * len(logs)
    with _figure(path, title, plan.tried_on, size=(width, 7.2)) as figure:
        top = 0.82 if len(logs) == 1 else 0.74
        right = 1 - 2.6 / width
        grid = figure.add_gridspec(
            2, len(logs), left=0.95 / width, right=right, top=top, bottom=0.09, hspace=0.16, wspace=0.2
        )
        panels = grid.subplots(squeeze=False, sharex=True, sharey=False)
        for column, log in enumerate(logs):
            curves = [curve for curve in plan.curves if curve.log == log]
            wanted = next((each for each in plan.wanted if each.log == log), None)
            _draw(panels[0][column], panels[1][column], curves, style, wanted)
            if plan.k is None:
                _draw_cuts(panels[1][column], curves, style)
            if len(logs) > 1:
                panels[0][column].set_title(log, loc="left", fontsize=10.5, pad=30)
        panels[0][0].set_ylabel("recall")
        dotted = "\n(dotted: k, where a list goes out)" if plan.k is None else ""
        panels[1][0].set_ylabel(f"items that go out, in the mean{dotted}")
        lines, labels = panels[0][0].get_legend_handles_labels()
        figure.legend(lines, labels, loc="upper left", bbox_to_anchor=(right + 0.01, top), frameon=False, fontsize=9.2)


def _draw(recall: Any, items: Any, curves: list[Curve], style: dict[str, Any], wanted: Wanted | None) -> None:
    epsilons = [epsilon for epsilon, _ in curves[0].points]
    for place, curve in enumerate(curves):
        points = sorted([*curve.points, *_point(curve, wanted)], key=lambda point: point[0])
        at = [epsilon for epsilon, _ in points]
        # Of curves that lie on each other the first is seen: it is the default.
        look = {
            "label": curve.title,
            "linewidth": 1.8,
            "markersize": 4.5,
            "zorder": 3 - place / 100,
            **style[curve.title],
        }
        recall.plot(at, [found.recall for _, found in points], **look)
        items.plot(at, [found.items for _, found in points], **look)
    recall.set_xscale("log")
    recall.set_ylim(-0.02, 1.04)
    recall.yaxis.set_major_formatter(lambda value, _: f"{100 * value:.0f} %")
    items.set_ylim(0, 1.08 * max(items.get_ylim()[1], 1.0))
    items.set_xlabel("epsilon of all releases together")
    items.set_xticks(epsilons, [f"{epsilon:.4g}" for epsilon in epsilons])
    items.minorticks_off()
    for axes in (recall, items):
        axes.grid()
    if wanted is not None and wanted.epsilon is not None:
        recall.axhline(wanted.want, color="#aab2bc", linewidth=0.9, linestyle=(0, (2, 3)), zorder=0)
        for axes in (recall, items):
            axes.axvline(wanted.epsilon, color="#22272e", linewidth=1.0, linestyle=(0, (5, 3)))
        words = f"{100 * wanted.want:.3g} % at epsilon {wanted.epsilon:.3g},\nwith {wanted.mechanism}"
        side = "left" if wanted.epsilon**2 < epsilons[0] * epsilons[-1] else "right"
        recall.text(wanted.epsilon, 1.05, words, fontsize=8.8, va="bottom", ha=side)


def _draw_cuts(items: Any, curves: list[Curve], style: dict[str, Any]) -> None:
    """Draw where the cut falls, in the mean of the lists that go out, for mechanisms that find it."""
    for curve in curves:
        cuts = [(epsilon, found.k) for epsilon, found in curve.points if found.items >= HARDLY_ANY and found.k]
        if cuts:
            items.plot(*zip(*cuts, strict=True), color=style[curve.title]["color"], linewidth=1.2, linestyle=":")
    items.set_ylim(0, None)


def _point(curve: Curve, wanted: Wanted | None) -> list[tuple[float, Expectation]]:
    """Return the epsilon that is enough as a point of the curve it was found on, so that the line passes through it."""
    if wanted is None or wanted.epsilon is None or wanted.expected is None:
        return []
    found = (wanted.mechanism, wanted.parameters) == (curve.mechanism, curve.parameters)
    return [(wanted.epsilon, wanted.expected)] if found and wanted.epsilon not in dict(curve.points) else []
