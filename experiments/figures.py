r"""How a figure of an experiment is drawn and written: one style, and one colour and mark for each mechanism."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

BLUE, ORANGE, GREEN, PURPLE, RED, TEAL, BROWN, GREY, INK = (
    "#1f5fa8", "#d9822b", "#3d8c40", "#7b4fa3", "#b8383d", "#1b8a8f", "#a0722a", "#8a929c", "#22272e",
)  # fmt: skip
# One colour and mark for each mechanism that is given k, in every figure it is in.
LOOKS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "EM-CDP (paper)": (RED, "v"),
        "peeling EM": (PURPLE, "P"),
        "subset EM": (BROWN, "X"),
        "Top Stable": (GREY, "^"),
        "Limited Domain": (ORANGE, "s"),
        "StableTopK (bit table)": (TEAL, "*"),
        "StableTopK (paper)": (GREEN, "D"),
        "test-first": (BLUE, "o"),
        "StableTopK (adaptive)": (INK, "h"),  # is not given k, and is drawn beside those that are
    }
)
_STYLE = {
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "axes.edgecolor": GREY,
    "axes.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 10,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e4e7eb",
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "xtick.color": "#59636e",
    "ytick.color": "#59636e",
    "text.color": INK,
    "svg.fonttype": "none",
    "svg.hashsalt": "cutline",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A drawing: ``draw`` is given an empty matplotlib figure of ``size`` inches."""

    name: str
    title: str
    draw: Callable[[Any], None]
    size: tuple[float, float] = (8.0, 4.0)

    def write(self, stem: Path) -> list[Path]:
        """Write PNG and SVG beside each other and return their paths."""
        # Loaded here: the processes that work on cells import the studies, and none of them draws.
        import matplotlib as mpl
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure as Canvas

        with mpl.rc_context(_STYLE):
            canvas = Canvas(figsize=self.size, layout="constrained")
            FigureCanvasAgg(canvas)
            self.draw(canvas)
            png, svg = (stem.with_name(f"{stem.name}.{ending}") for ending in ("png", "svg"))
            canvas.savefig(png, dpi=130, metadata={"Software": None})
            canvas.savefig(svg, metadata={"Date": None, "Creator": "cutline"})
        return [png, svg]

    def to_markdown(self, stem: str) -> str:
        """Return the figure as Markdown, with its title below."""
        return f"![{self.title}]({stem}.png)\n\n*{self.title}* ([SVG]({stem}.svg))"
