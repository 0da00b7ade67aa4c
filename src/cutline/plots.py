r"""Three figures: a release with its public curves, a budget burning down, and the demonstration with its made-up truth.

`plot_release` draws public things only. Figures are built without pyplot, so nothing global changes and no display is
needed; the extension (.png or .svg) tells the format.
"""

from __future__ import annotations

import math
import os
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from cutline.arrays import FloatArray, IntArray
from cutline.errors import CutlineError, ParameterError
from cutline.extras import require
from cutline.histogram import OpenHistogram
from cutline.mechanisms import Mechanism, mechanism
from cutline.mechanisms.one_gap import one_gap
from cutline.release import Release

if TYPE_CHECKING:
    from cutline.ledger import Account

_BLUE, _ORANGE, _GREY, _INK = "#1f5fa8", "#d9822b", "#c3c9d1", "#22272e"
_NAMES_PER_COLUMN, _MOST_NAMES = 20, 40
_MOST_DOTS = 60
_STYLE = {
    "font.family": "DejaVu Sans",
    "font.size": 10,
    "axes.edgecolor": "#8a929c",
    "axes.labelcolor": _INK,
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "grid.color": "#e6e9ed",
    "xtick.color": "#59636e",
    "ytick.color": "#59636e",
    "text.color": _INK,
    "svg.fonttype": "none",
    "svg.hashsalt": "cutline",
}


def load_matplotlib() -> None:
    """Import matplotlib, or refuse by the name of its extra; a command that draws calls this before it counts or pays."""
    require("matplotlib.backends.backend_agg", extra="plots", purpose="a figure")


def plot_release(release: Release, path: str | os.PathLike[str]) -> None:
    """Draw what was released and, beside it, how large a gap the mechanism needs to see, into a .png or .svg file.

    Nothing private is drawn: the set in item order (or that it was withheld), and curves that follow from the
    mechanism's public parameters.
    """
    curves = _gap_chances(release)
    with _figure(path, _what(release), release.guarantee, size=(11, 5.6)) as figure:
        if curves:
            left, right = figure.add_gridspec(
                1, 2, left=0.04, right=0.97, top=0.765, bottom=0.13, wspace=0.16, width_ratios=(0.8, 1)
            ).subplots()
            _draw_curves(right, curves)
        else:
            left = figure.add_axes((0.04, 0.05, 0.92, 0.715))
        _draw_set(left, release)


def plot_demo(counts: OpenHistogram, release: Release, path: str | os.PathLike[str]) -> None:
    """Draw true counts by rank with the released set and the gap under it; the counts must be made up, not anybody's."""
    values = counts.counts[: max(40, min(2 * release.k, counts.max_k))]
    cut = release.k or int(counts.gaps(counts.max_k).argmax()) + 1
    color = _BLUE if release.released else "#8fa3bb"
    with _figure(path, f"{_what(release)} of made-up check-ins", release.guarantee) as figure:
        axes = figure.add_axes((0.08, 0.13, 0.89, 0.67))
        ranks = np.arange(1, len(values) + 1)
        axes.bar(ranks, values, width=0.78, color=[color if rank <= cut else _GREY for rank in ranks])
        axes.set_xlim(0.2, len(values) + 0.8)
        axes.set_xlabel("rank of the venue (true order, shown because the data are made up)")
        axes.set_ylabel("distinct users")
        axes.set_xticks([rank for rank in ranks if rank == 1 or rank % 5 == 0])
        axes.yaxis.set_major_formatter(_thousands)
        axes.grid(axis="y")
        if cut < len(values):
            _draw_cut(axes, cut, int(values[cut - 1]), int(values[cut]), release)


def plot_burn_down(account: Account, points: Sequence[tuple[str, float, float]], path: str | os.PathLike[str]) -> None:
    """Draw what was left of a dataset's two limits after every entry of its ledger, all of it public.

    ``points`` are what `cutline.Ledger.burn_down` returns: time, percent left of the Rényi limit and of the delta limit.
    """
    times = [datetime.fromisoformat(at) for at, _, _ in points]
    left = f"{account.remaining_releases} of {account.budget.releases} releases left"
    title = f"Budget of {_plain(account.dataset)}: {left if account.closed is None else 'closed'}"
    with _figure(path, title, _plain(account.guarantee)) as figure:
        axes = figure.add_axes((0.08, 0.14, 0.89, 0.62))
        # The two often fall together: a thin dashed line on a wide one shows both.
        rdp, delta = [point[1] for point in points], [point[2] for point in points]
        styles = (("Rényi limit", rdp, _BLUE, 3.4, "-"), ("delta limit", delta, _ORANGE, 1.6, (0, (4, 2))))
        for name, values, color, width, dashes in styles:
            label = f"{name}: {math.floor(10 * values[-1]) / 10:.1f} % left"
            axes.step(times, values, where="post", color=color, linewidth=width, linestyle=dashes, label=label)
            if len(points) <= _MOST_DOTS:
                axes.plot(times, values, "o", color=color, markersize=2.4 + width)
        axes.set_ylim(0, 104)
        axes.set_ylabel("left of the limit")
        axes.set_xlabel("time (UTC)")
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:.0f} %")
        axes.grid(axis="y")
        axes.legend(loc="lower left", frameon=False)
        figure.autofmt_xdate(rotation=0, ha="center")


def _draw_cut(axes: Any, cut: int, above: int, below: int, release: Release) -> None:
    axes.axvline(cut + 0.5, color=_ORANGE, linewidth=1.6, linestyle=(0, (5, 3)))
    axes.annotate(
        "", xy=(cut + 1, above), xytext=(cut + 1, below), arrowprops={"arrowstyle": "<->", "color": _ORANGE, "lw": 1.4}
    )
    gap = f"gap at k = {cut}: {above - below:,} users"
    axes.text(cut + 1.7, (above + below) / 2, gap, va="center", color=_ORANGE, fontweight="bold")
    word = "released, without order or counts" if release.released else "withheld"
    axes.text(cut + 0.9, axes.get_ylim()[1], f"◂ {word}", va="top", color=_BLUE if release.released else _INK)


def _what(release: Release) -> str:
    if release.items is None:
        return "Withheld" if not release.k else f"Withheld at k = {release.k}"
    return f"The top {release.k}"


def _draw_set(axes: Any, release: Release) -> None:
    axes.set_axis_off()
    axes.set_xlim(0, 1)
    axes.set_ylim(0, 1)
    listed = release.listed()
    if listed is None:
        axes.text(0.5, 0.58, "withheld", fontsize=26, color="#8a929c", ha="center")
        axes.text(0.5, 0.50, "The set did not pass the stability test;\nno item is shown.", ha="center", va="top")
        return
    order = "in their released order" if isinstance(release.items, tuple) else "in item order: ranks are not released"
    axes.text(0, 1, order, fontsize=9.2, color="#59636e", va="top")
    names = [_label(item, release) for item in listed[:_MOST_NAMES]]
    if len(listed) > _MOST_NAMES:
        names[-1] = f"… and {len(listed) - _MOST_NAMES + 1} more"
    columns = max(1, -(-len(names) // _NAMES_PER_COLUMN))
    rows = max(12, -(-len(names) // columns))
    longest = 46 if columns == 1 else 22
    for i, name in enumerate(names):
        column, row = divmod(i, -(-len(names) // columns))
        short = name if len(name) <= longest else name[: longest - 1] + "…"
        axes.text(column / columns, 0.93 - row * 0.94 / rows, f"•  {short}", va="top", parse_math=False)


def _plain(item: object) -> str:
    return "".join(c if c.isprintable() else "?" for c in str(item))


def _label(item: object, release: Release) -> str:
    name = _plain(item)
    return name if release.counts is None else f"{name}: {release.counts[item]:,}"


@dataclass(frozen=True, slots=True, kw_only=True)
class GapChances:
    """How likely a mechanism is to release against the size of a lone gap, and the smallest gap at which it is 0.9."""

    name: str
    gaps: IntArray
    chances: FloatArray
    needed: int


def _gap_chances(release: Release) -> list[GapChances]:
    """Return the curves of this mechanism and of the paper's at the same budget, or none if they cannot be known."""
    if release.budget is None or "max_k" not in release.mechanism or "hint" in release.mechanism:
        return []  # a hint comes with a ledger, whose limits the release does not know
    kind = mechanism(release.mechanism["name"])
    public = {name: value for name, value in release.mechanism.items() if kind.accepts(name)}
    max_k = int(release.mechanism["max_k"])
    wishes = {k: v for k, v in public.items() if k in ("max_k", "min_k", "target", "weight", "clip")}
    shared: dict[str, Any] = {"adjacency": release.cost.adjacency}
    try:
        own = kind.calibrate(release.budget, **shared, **public)
        if own.cost != (release.reserved or release.cost):  # built from parameters, not from the budget
            return []
        paper = mechanism("stable-top-k").calibrate(release.budget, **shared, **wishes, test="paper")
        cut = public.get("k") or public.get("target") or public.get("min_k") or 1
        drawn = {"this release": own} | ({} if own.cost == paper.cost else {"the paper's mechanism": paper})
        needed = {name: one_gap(each.chance, max_k=max_k, k=cut) for name, each in drawn.items()}
        farthest = min(int(2.4 * max(needed.values())), 1 << 20)
        marked = [gap for gap in needed.values() if gap < farthest]
        gaps = np.unique(np.append(np.linspace(1, farthest, 121).astype(int), marked))
        chances = {name: np.array([_chance(each, cut, g, max_k=max_k) for g in gaps]) for name, each in drawn.items()}
        return [GapChances(name=name, gaps=gaps, chances=chances[name], needed=needed[name]) for name in drawn]
    except CutlineError:  # built by hand from parts that no budget would give
        return []


def _chance(mechanism: Mechanism, cut: int, gap: int, *, max_k: int) -> float:
    """Return the exact chance that exactly the items above a lone gap are released."""
    histogram = OpenHistogram.from_counts(dict.fromkeys(range(cut), int(gap)), max_k=max_k)
    return float(mechanism.chance(histogram, cut))


def _draw_curves(axes: Any, curves: list[GapChances]) -> None:
    axes.set_title("What the mechanism can see (public, no data)", fontsize=10.5, loc="left", pad=10)
    styles = ({"color": _BLUE, "linewidth": 2.4}, {"color": _ORANGE, "linewidth": 1.8, "linestyle": (0, (5, 2))})
    for curve, style in zip(curves, styles, strict=False):
        label = f"{curve.name}:\n90 % at a gap of {curve.needed:,}"
        axes.plot(curve.gaps, curve.chances, label=label, **style)
        at = curve.chances[np.searchsorted(curve.gaps, curve.needed)] if curve.needed <= curve.gaps[-1] else None
        if at is not None:
            axes.plot([curve.needed], [at], marker="o", markersize=6, color=style["color"], markeredgecolor="white")
    axes.axhline(0.9, color="#aab2bc", linewidth=0.8, linestyle=(0, (2, 3)), zorder=0)
    axes.set_ylim(0, 1.03)
    axes.set_xlim(0, curves[0].gaps[-1])
    axes.xaxis.set_major_formatter(_thousands)
    axes.yaxis.set_major_formatter(lambda value, _: f"{100 * value:.0f} %")
    axes.set_xlabel("gap between the set and the rest, in users (all other gaps 0)")
    axes.set_ylabel("chance that exactly this set is released")
    axes.grid()
    axes.legend(loc="center right", frameon=False, fontsize=9.2, labelspacing=1.0, borderaxespad=0.2)


def _thousands(value: float, _: object) -> str:
    return f"{value:,.0f}"


@contextmanager
def _figure(
    path: str | os.PathLike[str], title: str, sentence: str, *, size: tuple[float, float] = (10, 5.2)
) -> Iterator[Any]:
    """Yield a figure with its title and the sentence under it; save it after the body."""
    target = Path(path)
    suffix = target.suffix.lower().removeprefix(".")
    if suffix not in ("png", "svg"):
        raise ParameterError("a figure must end in .png or .svg", f"{str(path)!r}", "Try release.png.")
    load_matplotlib()
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with matplotlib.rc_context(_STYLE):
        figure = Figure(figsize=size, dpi=150, facecolor="white")
        FigureCanvasAgg(figure)
        # parse_math off: a dollar sign in a name is a dollar sign.
        figure.text(0.04, 0.955, title, fontsize=15, fontweight="bold", va="top", parse_math=False)
        words = textwrap.fill(sentence, 125)
        figure.text(0.04, 0.895, words, fontsize=9.2, color="#59636e", va="top", linespacing=1.35, parse_math=False)
        yield figure
        figure.savefig(target, format=suffix, metadata={"Date": None} if suffix == "svg" else None)
