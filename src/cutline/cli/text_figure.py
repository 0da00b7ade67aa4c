r"""The figure of an answer in a terminal (``--plot -``): bars with their error, the cut, and what the mechanism can see."""

from __future__ import annotations

from rich.cells import cell_len, set_cell_size
from rich.console import Console

from cutline.cli.door import printable
from cutline.gap_curve import gap_chance
from cutline.grouped import GroupedRelease
from cutline.release import Paid, Release

_LONGEST, _MOST = 28, 40
_HEIGHTS = "▁▂▃▄▅▆▇█"


def print_figure(console: Console, answer: Paid) -> None:
    """Print the figure of a release, or one for each group of a table."""
    if isinstance(answer, GroupedRelease):
        for group, release in answer.releases.items():
            _print_lines(
                console, [printable(group), *(f"  {line}" for line in _release_lines(release, console.width - 2)), ""]
            )
    elif isinstance(answer, Release):
        _print_lines(console, [*_release_lines(answer, console.width), *_curve_lines(answer, console.width), ""])


def _release_lines(release: Release, width: int) -> list[str]:
    """Return the bars of counts, or the names alone, and the cut if the mechanism found it."""
    listed = release.listed() or []
    if not listed:
        return [f"({release.status})"]
    names = [printable(item) for item in listed[:_MOST]]
    room = min(_LONGEST, max(map(cell_len, names)))
    names = [name if cell_len(name) <= room else set_cell_size(name, room - 1) + "…" for name in names]
    if release.counts is None:
        lines = [f"• {name}" for name in names]
    else:
        lines = _bars(release, [set_cell_size(name, room) for name in names], width - room)
    if len(listed) > _MOST:
        return [*lines, f"… and {len(listed) - _MOST} more"]
    if release.k and "k" not in release.mechanism:
        lines.append(f"{'─' * (room + 2)} the top ends here: k = {release.k} was found")
    return lines


def _bars(release: Release, names: list[str], width: int) -> list[str]:
    """Return one bar a name: solid as far as the count surely reaches, light as far as it may."""
    counts = [(release.counts or {})[item] for item in (release.listed() or [])[: len(names)]]
    error = release.count_error
    words = [f"{count:,}" if error is None else error.in_words(count) for count in counts]
    intervals = [(max(0, count), max(0, count)) if error is None else error.interval(count) for count in counts]
    room = max(10, width - max(map(len, words)) - 4)
    unit = max(1, *(high for _, high in intervals)) / room
    lines = []
    for name, (low, high), word in zip(names, intervals, words, strict=True):
        solid, end = round(low / unit), round(high / unit)
        lines.append(f"{name} │{'█' * solid}{'░' * (end - solid)} {word}")
    return lines


def _curve_lines(release: Release, width: int) -> list[str]:
    """Return the chance of a release against the size of a lone gap, as one line of bars, if it is known."""
    curve = None if release.counts else gap_chance(release)
    if curve is None:
        return []
    first, last = f"{curve.gaps[0]:,} ", f" {curve.gaps[-1]:,} users"
    step = max(1, -(-len(curve.chances) // max(10, min(width, 80) - len(first + last))))
    heights = [_HEIGHTS[min(len(_HEIGHTS) - 1, int(chance * len(_HEIGHTS)))] for chance in curve.chances[::step]]
    return [
        "",
        "chance that exactly this set goes out, by the gap under it (public):",
        f"{first}{''.join(heights)}{last}",
        f"90 % at a gap of {curve.needed:,}",
    ]


def _print_lines(console: Console, lines: list[str]) -> None:
    for line in lines:
        console.print(line, soft_wrap=True)
