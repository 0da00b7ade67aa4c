r"""What an experiment found: paragraphs, tables and figures, and how they are written down.

A report becomes one Markdown page with its tables as CSV and its figures as PNG and SVG beside it. Equal reports give equal
files, byte for byte.
"""

from __future__ import annotations

import csv
import io
import math
import re
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

from cutline.errors import ParameterError


class Estimate(NamedTuple):
    """A mean and its standard error; two columns in CSV, ``0.973 ± 0.004`` on a page.

    An unknown error, as that of one trial, is infinite: nothing is ever more than two of them apart. It is written as a dash.
    """

    mean: float
    error: float


Cell: TypeAlias = str | int | float | Estimate | None

BLUE, ORANGE, GREEN, PURPLE, RED, TEAL, BROWN, GREY, INK = (
    "#1f5fa8", "#d9822b", "#3d8c40", "#7b4fa3", "#b8383d", "#1b8a8f", "#a0722a", "#8a929c", "#22272e",
)  # fmt: skip
# One colour and mark for each mechanism that is told k, in every figure it is in.
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
        "StableTopK (adaptive)": (INK, "h"),  # is not told k, and is drawn beside those that are
    }
)
_NUMBER = re.compile(r"\d+(\.\d+)?")
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
class Table:
    """Rows under columns.

    Parameters
    ----------
    name
        Part of the file name.
    title, note
        Stand above and below the table.
    columns, rows
        What is in it.
    keys
        How many columns at the left tell the rows apart; a terminal that is too narrow repeats them.
    spread
        What the second number of an estimate is, in the header of its column of the CSV.
    """

    name: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    note: str = ""
    keys: int = 1
    spread: str = "error"

    def __post_init__(self) -> None:
        object.__setattr__(self, "rows", tuple(tuple(row) for row in self.rows))
        object.__setattr__(self, "columns", tuple(self.columns))
        if any(len(row) != len(self.columns) for row in self.rows):
            raise ParameterError("every row must have one cell per column", f"table {self.name!r}", "Fill with None.")

    def numeric(self, column: int) -> bool:
        """Return whether a column holds numbers alone, some of them as text perhaps; they are set to the right."""
        cells = [row[column] for row in self.rows if row[column] is not None]
        return bool(cells) and all(not isinstance(cell, str) or _NUMBER.fullmatch(cell) for cell in cells)

    def csv(self) -> str:
        """Return the table as CSV, numbers to six digits; an estimate's second number has a column of its own."""
        wide = [any(isinstance(row[i], Estimate) for row in self.rows) for i in range(len(self.columns))]
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        names = (
            (name, f"{name} ({self.spread})") if pair else (name,)
            for name, pair in zip(self.columns, wide, strict=True)
        )
        writer.writerow([name for group in names for name in group])
        for row in self.rows:
            cells: list[Any] = []
            for cell, pair in zip(row, wide, strict=True):
                cells += (cell if isinstance(cell, Estimate) else (cell, None)) if pair else (cell,)
            writer.writerow(
                [f"{c:.6g}" if isinstance(c, float) else "" if c is None else c for c in map(_known, cells)]
            )
        return out.getvalue()

    def to_dict(self) -> dict[str, Any]:
        """Return columns and rows as plain data; an estimate is a pair, and what is unknown is None."""
        rows = [
            [[*map(_known, cell)] if isinstance(cell, Estimate) else _known(cell) for cell in row] for row in self.rows
        ]
        return {"columns": list(self.columns), "rows": rows}

    def markdown(self) -> str:
        """Return the table as Markdown, under its title and above its note."""
        lines = [self.columns, tuple("---:" if self.numeric(i) else "---" for i in range(len(self.columns)))]
        lines += [tuple(shown(cell).replace("|", "\\|") for cell in row) for row in self.rows]
        grid = "\n".join("| " + " | ".join(line) + " |" for line in lines)
        return "\n\n".join(part for part in (f"**{self.title}**", grid, self.note) if part)


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A drawing; ``draw`` is given an empty matplotlib figure of ``size`` inches."""

    name: str
    title: str
    draw: Callable[[Any], None]
    size: tuple[float, float] = (8.0, 4.0)

    def write(self, stem: Path) -> list[Path]:
        """Write PNG and SVG beside each other and return their paths."""
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


Part: TypeAlias = str | Table | Figure


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Parts in reading order; a text part is Markdown.

    Parameters
    ----------
    name
        Of the files.
    title, parts
        What the page says.
    trials, seed
        How it was simulated, told under the title; None if nothing was drawn.
    """

    name: str
    title: str
    parts: Sequence[Part]
    trials: int | None = None
    seed: int | None = None

    @property
    def tables(self) -> tuple[Table, ...]:
        """The tables among the parts."""
        return tuple(part for part in self.parts if isinstance(part, Table))

    @property
    def figures(self) -> tuple[Figure, ...]:
        """The figures among the parts."""
        return tuple(part for part in self.parts if isinstance(part, Figure))

    def write(self, out: Path) -> list[Path]:
        """Write page, tables and figures into a directory, made if it is missing; return the paths, the page first."""
        page = out / f"{self.name}.md"
        try:
            out.mkdir(parents=True, exist_ok=True)
            written: list[Path] = []
            sections = [f"# {self.title}", *self._simulated()]
            for part in self.parts:
                if isinstance(part, str):
                    sections.append(part.strip())
                    continue
                stem = out / f"{self.name}-{part.name}"
                if isinstance(part, Table):
                    path = stem.with_name(f"{stem.name}.csv")
                    path.write_text(part.csv(), encoding="utf-8")
                    written.append(path)
                    sections.append(f"{part.markdown()}\n\n[CSV]({path.name})")
                else:
                    written += part.write(stem)
                    sections.append(f"![{part.title}]({stem.name}.png)\n\n*{part.title}* ([SVG]({stem.name}.svg))")
            page.write_text("\n\n".join(sections) + "\n", encoding="utf-8")
        except OSError:
            raise _not_writable(out) from None
        return [page, *written]

    def _simulated(self) -> list[str]:
        if self.trials is None or self.seed is None:
            return []
        return [f"*Simulated: {counted(self.trials, 'trial')} a cell, seed {self.seed}.*"]


def check_directory(out: Path) -> None:
    """Refuse a directory that cannot be made or written into, before any work is done; nothing is left behind."""
    made: list[Path] = []
    try:
        made = [path for path in (out, *out.parents) if not path.exists()]  # the innermost first
        out.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=out):
            pass
    except OSError:
        raise _not_writable(out) from None
    finally:
        for path in made:
            with suppress(OSError):  # was not made, or is somebody else's by now
                path.rmdir()


def _not_writable(out: Path) -> ParameterError:
    return ParameterError(
        "a report must go into a directory that can be written", f"{str(out)!r}", "Choose another directory."
    )


def counted(number: int, noun: str) -> str:
    """Return a number with its noun.

    Examples
    --------
    >>> counted(1, "trial"), counted(500, "trial")
    ('1 trial', '500 trials')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _known(cell: Any) -> Any:
    return None if isinstance(cell, float) and not math.isfinite(cell) else cell


def shown(cell: Cell) -> str:
    """Return a cell as it is printed: numbers to three decimals, or three digits where that would say little.

    Examples
    --------
    >>> [shown(cell) for cell in (0.97312, 1.0, 1e-06, 12345.6, 7, "EM", None, Estimate(0.973, 0.004))]
    ['0.973', '1.000', '1e-06', '1.23e+04', '7', 'EM', '', '0.973 ± 0.004']
    >>> shown(Estimate(0.973, math.inf))
    '0.973 ± –'
    """
    if cell is None:
        return ""
    if isinstance(cell, Estimate):
        return f"{cell.mean:.3f} ± {cell.error:.3f}" if math.isfinite(cell.error) else f"{cell.mean:.3f} ± –"
    if isinstance(cell, float):
        if not math.isfinite(cell):
            return "–"
        return f"{cell:.3f}" if cell == 0 or 1e-3 <= abs(cell) < 1e4 else f"{cell:.3g}"
    return str(cell)
