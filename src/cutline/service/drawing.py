r"""Figures as SVG text, drawn on the server: bars with their error, the burn-down of a budget, and what a question would find.

They fill the width they are given, on a phone as on a wide screen: places across are percentages, and only curves are
stretched, so that words keep their size. Nothing but what was released, or follows from public parameters, is drawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from cutline.histogram import item_key
from cutline.release import Release

_TOP, _HEIGHT = 22, 120  # of the part of a figure that holds its curve
_LONGEST_NAME = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One item of an answer: its name, its count in words and as a bar, if counts were asked for."""

    name: str
    count: str = ""
    bar: str = ""


def lay_out(release: Release) -> list[Row]:
    """Return the rows of an answer: those with the largest noisy counts first, or in the order that `Release.listed` has."""
    listed, counts, error = release.listed() or [], release.counts, release.count_error
    if counts is None or error is None:
        return [Row(name=show_name(item)) for item in listed]
    largest = max((error.interval(counts[item])[1] for item in listed), default=0) or 1
    ranked = sorted(listed, key=lambda item: (-counts[item], item_key(item)))
    return [
        Row(
            name=show_name(item),
            count=error.in_words(counts[item]),
            bar=_draw_bar(counts[item] / largest, *(end / largest for end in error.interval(counts[item]))),
        )
        for item in ranked
    ]


def show_name(item: object) -> str:
    """Return a name of a bounded length, in which characters that show nothing or turn the text around are marked."""
    plain = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in str(item))
    return plain if len(plain) <= _LONGEST_NAME else f"{plain[: _LONGEST_NAME - 1]}…"


def draw_burn_down(points: Sequence[tuple[str, float, float]], *, questions: int) -> str:
    """Return what was left of a budget after each event, in usual questions: the smaller of its two limits."""
    left = [max(0.0, min(rdp, delta)) / 100 for _, rdp, delta in points] or [1.0]
    step = 1000 / max(1, len(left) - 1)
    steps = "".join(f"H{step * number:.1f}V{1000 * (1 - value):.1f}" for number, value in enumerate(left[1:], 1))
    path = f"M0 {1000 * (1 - left[0]):.1f}{steps or 'H1000'}"
    days = [at[:10] for at, _, _ in points] or [""]
    return _plot(
        f"{left[-1]:.0%} of the budget is left after {len(left) - 1} questions",
        path,
        heights=[(0.0, "no question left"), (1.0, f"{questions:,} questions left")],
        ends=(days[0], days[-1]),
    )


def draw_chances(curve: Sequence[tuple[int, float]], *, size: int | None = None) -> str:
    """Return how likely a question finds a gap, or counts, against its size; ``size`` is marked if it is within the curve."""
    farthest = curve[-1][0]
    path = "M" + "L".join(f"{1000 * gap / farthest:.1f} {1000 * (1 - chance):.1f}" for gap, chance in curve)
    return _plot(
        f"The chance rises from {curve[0][1]:.0%} to {curve[-1][1]:.0%}",
        path,
        heights=[(0.0, "never found"), (0.9, "9 times in 10")],
        ends=("0 users", f"{farthest:,} users"),
        mark=None if size is None or size > farthest else size / farthest,
    )


def _draw_bar(count: float, low: float, high: float) -> str:
    """Return a bar with its error; all three are shares of the width, and a count below 0 has no bar."""
    ends = "".join(f'<line class="mark" x1="{x:.2%}" x2="{x:.2%}" y1="4" y2="14"/>' for x in (low, high))
    return (
        f'<svg class="count" aria-hidden="true" height="18"><rect class="bar" width="{max(0.0, count):.2%}" y="2" height="14" '
        f'rx="3"/><line class="mark" x1="{low:.2%}" x2="{high:.2%}" y1="9" y2="9"/>{ends}</svg>'
    )


def _plot(
    title: str,
    path: str,
    *,
    heights: Sequence[tuple[float, str]],
    ends: tuple[str, str],
    mark: float | None = None,
) -> str:
    """Return a curve, given in thousandths from the upper left corner, over lines at some heights."""
    parts = []
    for share, words in heights:
        y = _TOP + _HEIGHT * (1 - share)
        parts.append(f'<line class="axis" x1="0" x2="100%" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text class="soft" x="0" y="{y - 6:.1f}">{escape(words)}</text>')
    if mark is not None:
        parts.append(f'<line class="cut" x1="{mark:.2%}" x2="{mark:.2%}" y1="{_TOP}" y2="{_TOP + _HEIGHT}"/>')
    first, last = map(escape, ends)
    below, name = _TOP + _HEIGHT + 18, escape(title, quote=True)
    return (
        f'<svg class="figure" role="img" aria-label="{name}" height="{below + 6}">{"".join(parts)}'
        f'<svg y="{_TOP}" width="100%" height="{_HEIGHT}" viewBox="0 0 1000 1000" preserveAspectRatio="none">'
        f'<path class="line" vector-effect="non-scaling-stroke" d="{path}"/></svg>'
        f'<text class="soft" x="0" y="{below}">{first}</text>'
        f'<text class="soft" x="100%" y="{below}" text-anchor="end">{last}</text></svg>'
    )
