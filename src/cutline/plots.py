r"""Four figures: a release, a table of releases, a budget burning down, and the demonstration with its made-up truth.

`plot_release` draws public things only. Figures are built without pyplot, so nothing global changes and no display is
needed; the extension (.png or .svg) tells the format.
"""

from __future__ import annotations

import math
import os
import textwrap
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeAlias

import numpy as np

from cutline.errors import ParameterError
from cutline.extras import require
from cutline.fonts import families, lacks_letters, legible, quiet_fonts
from cutline.gap_curve import GapChance, gap_chance
from cutline.grouped import GroupedRelease
from cutline.histogram import OpenHistogram
from cutline.release import Release

if TYPE_CHECKING:
    from cutline.ledger import Account

Target: TypeAlias = str | os.PathLike[str] | IO[bytes]  # where a figure goes
Write: TypeAlias = Callable[[str], str]  # how a name is written in it

_SOFT = "#59636e"
_BLUE, _ORANGE, _GREY, _INK = "#1f5fa8", "#d9822b", "#c3c9d1", "#22272e"
_NAMES_PER_COLUMN, _MOST_NAMES = 20, 40
_MOST_DOTS = 60
_JOINERS = "\u200c\u200d"
_MOST_PANELS, _IN_PANEL = 24, 8
_STYLE = {
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


def plot_release(release: Release, path: Target) -> None:
    """Draw what was released into a .png or .svg file, or as PNG into a binary file that is open.

    With counts: bars with their error. Otherwise the set, and beside it how large a gap the mechanism needs to see. The cut is
    shown where the mechanism found it. Nothing private is drawn: what went out, and curves that follow from public parameters.
    """
    listed = release.listed() or []
    curve = None if release.counts else gap_chance(release)
    names = [str(item) for item in listed[:_MOST_NAMES]]
    write = _writer(path, names)
    with _figure(path, _what(release), release.guarantee, names=names, size=(11, 5.6)) as figure:
        if release.counts:
            rows = min(len(listed), _MOST_NAMES)
            figure.set_size_inches(11, max(5.6, 2.2 + 0.26 * rows))
            height = figure.get_size_inches()[1]
            axes = figure.add_axes((0.3, 0.7 / height, 0.65, 1 - 2.1 / height))
            _draw_bars(axes, release, write)
            return
        if curve is not None:
            left, right = figure.add_gridspec(
                1, 2, left=0.04, right=0.97, top=0.765, bottom=0.13, wspace=0.16, width_ratios=(0.8, 1)
            ).subplots()
            _draw_curve(right, curve)
        else:
            left = figure.add_axes((0.04, 0.05, 0.92, 0.715))
        _draw_set(left, release, write)


def plot_table(table: GroupedRelease, path: Target) -> None:
    """Draw a table of releases as a grid of small figures, one a group, at most 24 of them."""
    shown = list(table.releases.items())[:_MOST_PANELS]
    columns = min(4, len(shown))
    rows = -(-len(shown) // columns)
    names = [str(text) for group, release in shown for text in (group, *(release.listed() or [])[:_IN_PANEL])]
    released = sum(bool(release.items) for release in table.releases.values())
    title = f"The top by {table.by}: {released} of {len(table.releases)} groups released"
    counted = any(release.counts for _, release in shown)
    longest = max(1, *(min(len(release.items or ()), _IN_PANEL) for _, release in shown))
    head, panel = 1.75, 0.55 + 0.24 * longest + (0.3 if counted else 0.0)
    size, write = (11.0, head + panel * rows + 0.22 * counted), _writer(path, names)
    with _figure(path, title, table.guarantee, names=names, size=size) as figure:
        grid = figure.add_gridspec(
            rows,
            columns,
            left=0.14 if counted else 0.04,
            right=0.98,
            top=1 - (head - 0.15) / size[1],
            bottom=(0.62 if counted else 0.4) / size[1],
            hspace=0.75 / (panel - 0.5),
            wspace=0.95 if counted else 0.12,
        )
        for place, (group, release) in enumerate(shown):
            axes = figure.add_subplot(grid[divmod(place, columns)])
            if release.counts:
                _draw_bars(axes, release, write, most=_IN_PANEL, rows=longest)
            else:
                _draw_names(axes, release, write, rows=longest)
            axes.set_title(
                _short(write(str(group)), 28), fontsize=10.5, loc="left", fontweight="bold", parse_math=False
            )
        if counted:
            figure.text(0.14, 0.1 / size[1], _axis_words(next(r for _, r in shown if r.counts)), fontsize=9.2)
        if len(table.releases) > len(shown):
            more = f"… and {len(table.releases) - len(shown)} more groups"
            figure.text(0.98, 0.012, more, fontsize=9.2, color=_SOFT, ha="right")


def spells_letters(answer: Release | GroupedRelease) -> bool:
    """Say whether a PNG file of the answer spells out letters that no installed font has."""
    return lacks_letters(
        _plain(name) for group, one in answer.by_group() for name in (*group.values(), *(one.items or ()))
    )


def plot_demo(counts: OpenHistogram, release: Release, path: Target) -> None:
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


def plot_burn_down(account: Account, points: Sequence[tuple[str, float, float]], path: Target) -> None:
    """Draw what was left of a dataset's two limits after every entry of its ledger, all of it public.

    ``points`` are what `cutline.Ledger.burn_down` returns: time, percent left of the Rényi limit and of the delta limit.
    """
    times = [datetime.fromisoformat(at) for at, _, _ in points]
    left = f"{account.remaining_releases} of {account.budget.releases} releases left"
    title = f"Budget of {account.dataset}: {left if account.closed is None else 'closed'}"
    with _figure(path, title, account.guarantee) as figure:
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
    if not release.items:
        return "Empty"
    if not release.k:
        return f"{len(release.items)} items with many users"
    return f"The top {release.k}" if len(release.items) == release.k else f"{len(release.items)} of the top {release.k}"


def _draw_set(axes: Any, release: Release, write: Write) -> None:
    axes.set_axis_off()
    axes.set_xlim(0, 1)
    axes.set_ylim(0, 1)
    listed = release.listed()
    if not listed:
        word = str(release.status)
        axes.text(0.5, 0.58, word, fontsize=26, color="#8a929c", ha="center")
        axes.text(0.5, 0.50, textwrap.fill(f"{release.why} No item is shown.", 52), ha="center", va="top")
        return
    order = "in their released order" if isinstance(release.items, tuple) else "in item order: ranks are not released"
    axes.text(0, 1, order, fontsize=9.2, color=_SOFT, va="top")
    names = [write(str(item)) for item in listed[:_MOST_NAMES]]
    if len(listed) > _MOST_NAMES:
        names[-1] = f"… and {len(listed) - _MOST_NAMES + 1} more"
    columns = max(1, -(-len(names) // _NAMES_PER_COLUMN))
    each = -(-len(names) // columns)
    rows = max(13, each + 1)
    longest = 46 if columns == 1 else 22
    for i, name in enumerate(names):
        column, row = divmod(i, each)
        short = _short(name, longest)
        axes.text(column / columns, 0.93 - row * 0.94 / rows, f"•  {short}", va="top", parse_math=False)
    if _found_cut(release):
        height = 0.93 - each * 0.94 / rows - 0.005
        axes.plot([0, 1], [height, height], color=_ORANGE, linewidth=1.6, linestyle=(0, (5, 3)), clip_on=False)
        axes.text(1, height - 0.012, _cut_in_words(release), color=_ORANGE, fontsize=9.2, ha="right", va="top")


def _draw_names(axes: Any, release: Release, write: Write, *, rows: int) -> None:
    """Draw the items of one group without counts, or what became of it."""
    axes.set_axis_off()
    axes.set_xlim(0, 1)
    axes.set_ylim(rows + 0.2, -0.4)
    listed = release.listed()
    if not listed:
        axes.text(0, 0, str(release.status), color="#8a929c", va="top", fontsize=12)
        return
    for row, item in enumerate(listed[:_IN_PANEL]):
        last = row == _IN_PANEL - 1 and len(listed) > _IN_PANEL
        name = f"… and {len(listed) - row} more" if last else f"•  {_short(write(str(item)), 26)}"
        axes.text(0, row, name, va="top", fontsize=9.2, parse_math=False)
    if _found_cut(release) and len(listed) <= _IN_PANEL:
        at = len(listed) + 0.1
        axes.plot([0, 0.9], [at, at], color=_ORANGE, linewidth=1.4, linestyle=(0, (5, 3)))


def _draw_bars(axes: Any, release: Release, write: Write, *, most: int = _MOST_NAMES, rows: int | None = None) -> None:
    """Draw noisy counts as bars from the top down, with what each may be off by, and the cut below the last.

    ``rows`` is how many there is room for in a panel that is one of several.
    """
    error, counts, small = release.count_error, release.counts or {}, rows is not None
    listed = (release.listed() or [])[:most]
    more = len(release.items or ()) - len(listed)
    values = [max(0, counts[item]) for item in listed]
    intervals = [
        (value, value) if error is None else error.interval(counts[item])
        for value, item in zip(values, listed, strict=True)
    ]
    off = [[value - low, high - value] for value, (low, high) in zip(values, intervals, strict=True)]
    places = np.arange(len(listed))
    axes.barh(places, values, height=0.68, color=_BLUE, zorder=2)
    axes.errorbar(values, places, xerr=np.transpose(off), fmt="none", ecolor=_INK, elinewidth=1.1, capsize=3, zorder=3)
    labels = [_short(write(str(item)), 15 if small else 36) for item in listed]
    axes.set_yticks(places, labels, parse_math=False, fontsize=8.5 if small else 10)
    axes.set_xlim(0, 1.06 * max(high for _, high in intervals) or 1)
    axes.set_ylim((rows or len(listed)) - 0.1 + (0 if small else 0.3), -0.6)
    axes.xaxis.set_major_formatter(_thousands)
    axes.grid(axis="x")
    axes.tick_params(axis="y", length=0)
    if small:
        axes.xaxis.set_major_locator(_few_ticks())
        axes.tick_params(axis="x", labelsize=8)
    else:
        axes.set_xlabel(_axis_words(release))
    at = {"transform": axes.get_yaxis_transform(), "fontsize": 9.2, "ha": "right", "va": "top"}
    if _found_cut(release) and not more:
        axes.axhline(len(listed) - 0.45, color=_ORANGE, linewidth=1.6, linestyle=(0, (5, 3)), clip_on=False)
        axes.text(1, len(listed) - 0.38, "" if small else _cut_in_words(release), color=_ORANGE, **at)
    elif more:
        axes.text(1, len(listed) - 0.45, f"… and {more} more", color=_SOFT, **at)


def _axis_words(release: Release) -> str:
    of = dict(release.mechanism.get("counts") or {}).get("of", "users")
    return f"{of}, noisy; the lines cover the true count 95 times in 100"


def _found_cut(release: Release) -> bool:
    """Say whether the mechanism itself found where the top ends."""
    return bool(release.items) and release.k > 0 and "k" not in release.mechanism


def _cut_in_words(release: Release) -> str:
    return f"the top ends here: k = {release.k} was found"


def _plain(item: object) -> str:
    """Return a name without what cannot be drawn; joiners, which many scripts and emoji are written with, stay."""
    return "".join(c if c.isprintable() or c in _JOINERS else "?" for c in str(item))


def _short(name: str, longest: int) -> str:
    return name if len(name) <= longest else name[: longest - 1] + "…"


def _draw_curve(axes: Any, curve: GapChance) -> None:
    axes.set_title("What the mechanism can see (public, no data)", fontsize=10.5, loc="left", pad=10)
    axes.plot(curve.gaps, curve.chances, color=_BLUE, linewidth=2.4, label=f"90 % at a gap of {curve.needed:,}")
    if curve.needed <= curve.gaps[-1]:
        at = curve.chances[np.searchsorted(curve.gaps, curve.needed)]
        axes.plot([curve.needed], [at], marker="o", markersize=6, color=_BLUE, markeredgecolor="white")
    axes.axhline(0.9, color="#aab2bc", linewidth=0.8, linestyle=(0, (2, 3)), zorder=0)
    axes.set_ylim(0, 1.03)
    axes.set_xlim(0, curve.gaps[-1])
    axes.xaxis.set_major_formatter(_thousands)
    axes.yaxis.set_major_formatter(lambda value, _: f"{100 * value:.0f} %")
    axes.set_xlabel("gap between the set and the rest, in users (all other gaps 0)")
    axes.set_ylabel("chance that exactly this set is released")
    axes.grid()
    axes.legend(loc="center right", frameon=False, fontsize=9.2, borderaxespad=0.2)


def _few_ticks() -> Any:
    from matplotlib.ticker import MaxNLocator

    return MaxNLocator(3)


def _thousands(value: float, _: object) -> str:
    return f"{value:,.0f}"


def _suffix(path: Target) -> str:
    """Return the format of a figure, or refuse another than the two; an open file takes PNG. Then there is matplotlib, too."""
    suffix = Path(path).suffix.lower().removeprefix(".") if isinstance(path, str | os.PathLike) else "png"
    if suffix not in ("png", "svg"):
        raise ParameterError("a figure must end in .png or .svg", f"{str(path)!r}", "Try release.png.")
    load_matplotlib()
    return suffix


def _writer(path: Target, names: Sequence[str]) -> Write:
    """Return what writes a name in a figure: as text for SVG, and with letters that can be drawn for PNG."""
    if _suffix(path) == "svg":
        return _plain
    fonts = families(map(_plain, names))
    return lambda text: legible(_plain(text), fonts)


@contextmanager
def _figure(
    path: Target, title: str, sentence: str, *, names: Sequence[str] = (), size: tuple[float, float] = (10, 5.2)
) -> Iterator[Any]:
    """Yield a figure with its title and the sentence under it, in fonts that have the names' letters; save it at last."""
    suffix, write = _suffix(path), _writer(path, (title, sentence))
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    fonts = families(map(_plain, (title, sentence, *names)))
    with matplotlib.rc_context({**_STYLE, "font.family": fonts}), quiet_fonts(), warnings.catch_warnings():
        warnings.filterwarnings(
            "ignore", "Glyph .* missing", UserWarning
        )  # an SVG file holds text, which its viewer draws
        figure = Figure(figsize=size, dpi=150, facecolor="white")
        FigureCanvasAgg(figure)
        # parse_math off: a dollar sign in a name is a dollar sign. Distances are from the top, whatever the size becomes.
        head = figure.text(0.04, 1, write(title), fontsize=15, fontweight="bold", va="top", parse_math=False)
        words = textwrap.fill(write(sentence), 125)
        body = figure.text(0.04, 1, words, fontsize=9.2, color=_SOFT, va="top", linespacing=1.35, parse_math=False)
        yield figure
        height = figure.get_size_inches()[1]
        head.set_y(1 - 0.24 / height)
        body.set_y(1 - 0.56 / height)
        figure.savefig(path, format=suffix, metadata={"Date": None} if suffix == "svg" else None)
