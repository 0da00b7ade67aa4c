r"""Figures as SVG text, drawn on the server: bars with their error, the cut, and the burn-down of a budget.

Item names are other people's text and are escaped; nothing but what was released is drawn.
"""

from __future__ import annotations

from html import escape

from cutline.release import Release

_WIDTH, _ROW, _NAMES = 720, 28, 250
_MOST = 60  # rows; what is longer is in the files


def draw_release(release: Release) -> str:
    """Return a released set: one row an item, bars if there are counts, and a line where the top ends."""
    listed = release.listed() or []
    rows = listed[:_MOST]
    cut = len(rows) if release.k == len(listed) and len(rows) == len(listed) else None
    height = _ROW * (len(rows) + 2)
    counts, error = release.counts or {}, release.count_error
    largest = max((error.interval(counts[item])[1] for item in rows if error), default=0) or 1
    scale = (_WIDTH - _NAMES - 130) / largest
    parts = []
    for number, item in enumerate(rows):
        y = _ROW * number + 20
        name = _shortened(str(item))
        parts.append(f'<text x="0" y="{y}">{escape(name)}</text>')
        if error:
            wide = scale * max(0, counts[item])
            low, high = (_NAMES + scale * end for end in error.interval(counts[item]))
            parts.append(f'<rect class="bar" x="{_NAMES}" y="{y - 14}" width="{wide:.1f}" height="18" rx="3"/>')
            whiskers = f"M{low:.1f} {y - 5}H{high:.1f}M{low:.1f} {y - 10}V{y}M{high:.1f} {y - 10}V{y}"
            parts.append(f'<path class="mark" d="{whiskers}"/>')
            parts.append(f'<text x="{high + 8:.1f}" y="{y}">{error.in_words(counts[item])}</text>')
        else:
            parts.append(f'<rect class="bar" x="{_NAMES}" y="{y - 14}" width="18" height="18" rx="3"/>')
    y = _ROW * len(rows) + 12
    if not rows:
        parts.append(
            f'<text x="0" y="20">{"Nothing is shown." if release.items is None else "No item is shown."}</text>'
        )
    elif cut is not None:
        parts.append(f'<line class="cut" x1="0" y1="{y}" x2="{_WIDTH}" y2="{y}"/>')
        parts.append(f'<text class="soft" x="0" y="{y + 20}">The top ends here, at {cut}.</text>')
    elif len(rows) < len(listed):
        parts.append(
            f'<text class="soft" x="0" y="{y + 12}">… and {len(listed) - len(rows)} more, in the files.</text>'
        )
    if error and rows:
        parts.append(
            f'<text class="soft" x="{_NAMES}" y="{y + 20}">users; the line covers the true count 95 times in 100</text>'
        )
    title = f"{release.status}: {len(listed)} items" + (", with noisy counts" if counts else "")
    return _figure(title, height, parts)


def draw_burn_down(points: list[tuple[str, float, float]]) -> str:
    """Return what was left of a budget after each event, in percent: the smaller of its two limits."""
    left, top, bottom = 46, 14, 170
    values = [min(rdp, delta) for _, rdp, delta in points] or [100.0]
    step = (_WIDTH - left - 20) / max(1, len(values) - 1)
    parts = []
    for percent in (0, 50, 100):
        y = bottom - (bottom - top) * percent / 100
        parts.append(f'<line class="axis" x1="{left}" y1="{y:.1f}" x2="{_WIDTH}" y2="{y:.1f}"/>')
        parts.append(f'<text class="soft" x="0" y="{y + 5:.1f}">{percent} %</text>')
    path = []
    for number, value in enumerate(values):
        x, y = left + step * number, bottom - (bottom - top) * max(0.0, value) / 100
        path.append(f"{'M' if number == 0 else 'H'}{x:.1f}" + (f" {y:.1f}" if number == 0 else f"V{y:.1f}"))
    if len(values) == 1:
        path.append(f"H{_WIDTH}")
    parts.append(f'<path class="line" d="{"".join(path)}"/>')
    parts.append(f'<text class="soft" x="{left}" y="{bottom + 22}">what is left of the budget, event by event</text>')
    return _figure(f"{values[-1]:.0f} percent of the budget is left", bottom + 32, parts)


def _figure(title: str, height: int, parts: list[str]) -> str:
    name = escape(title, quote=True)
    return (
        f'<svg class="figure" viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="{name}">'
        f"<title>{name}</title>{''.join(parts)}</svg>"
    )


def _shortened(name: str) -> str:
    """Return a name that fits beside its bar, without characters that show nothing."""
    plain = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in name)
    return plain if len(plain) <= 30 else f"{plain[:29]}…"
