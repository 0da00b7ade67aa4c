r"""What an experiment found: tables and figures, and how they are written down.

Tables become CSV, figures PNG and SVG, and a Markdown page shows them. The pages under docs/reproduce are written by hand:
there each table and figure stands between two markers, and only what is between them is replaced. A page carries the line
that describes its run, and tables of another run never go into it. Equal reports give equal files, byte for byte.
"""

from __future__ import annotations

import csv
import io
import math
import re
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from cutline.errors import ParameterError
from experiments.figures import Figure


class Estimate(NamedTuple):
    """A mean and its standard error; two columns in CSV, ``0.973 ± 0.004`` on a page.

    An unknown error, as that of one trial, is infinite: nothing is ever more than two of them apart. It is written as a dash.
    """

    mean: float
    error: float


Cell: TypeAlias = str | int | float | Estimate | None

_NUMBER = re.compile(r"\d+(\.\d+)?")
_BLOCK = re.compile(r"<!-- ((?:table|figure) [a-z0-9-]+) -->\n.*?<!-- end -->", re.DOTALL)


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

    def is_numeric(self, column: int) -> bool:
        """Return whether a column holds numbers alone, some of them as text perhaps; they are set to the right."""
        cells = [row[column] for row in self.rows if row[column] is not None]
        return bool(cells) and all(not isinstance(cell, str) or _NUMBER.fullmatch(cell) for cell in cells)

    def to_csv(self) -> str:
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

    def to_markdown(self) -> str:
        """Return the table as Markdown, under its title and above its note."""
        lines = [self.columns, tuple("---:" if self.is_numeric(i) else "---" for i in range(len(self.columns)))]
        lines += [tuple(show_cell(cell).replace("|", "\\|") for cell in row) for row in self.rows]
        grid = "\n".join("| " + " | ".join(line) + " |" for line in lines)
        return "\n\n".join(part for part in (f"**{self.title}**", grid, self.note) if part)


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyReport:
    """The tables and figures of one run, in reading order.

    Parameters
    ----------
    name
        Of the experiment, and the beginning of the names of its files.
    title
        Stands above a page that is written for this run.
    notes
        One line for each data set: what it is and where it comes from, or that it is missing.
    parts
        The tables and figures.
    """

    name: str
    title: str
    parts: Sequence[Table | Figure]
    notes: Sequence[str] = ()

    @property
    def tables(self) -> tuple[Table, ...]:
        """The tables among the parts."""
        return tuple(part for part in self.parts if isinstance(part, Table))

    @property
    def figures(self) -> tuple[Figure, ...]:
        """The figures among the parts."""
        return tuple(part for part in self.parts if isinstance(part, Figure))

    def write(self, out: Path, described: str) -> list[Path]:
        """Write page, tables and figures into a directory, made if it is missing; return the paths, the page first.

        If the directory holds a hand-written page of this run, its words stay and its tables and figures are replaced.
        Otherwise a short page is written: title, run, data, tables and figures.

        Parameters
        ----------
        out
            The directory.
        described
            The line that says what was run.
        """
        page = out / f"{self.name}.md"
        check_page(page, described)
        try:
            out.mkdir(parents=True, exist_ok=True)
            written: list[Path] = []
            blocks: dict[str, str] = {}
            for part in self.parts:
                stem = out / f"{self.name}-{part.name}"
                if isinstance(part, Table):
                    path = stem.with_name(f"{stem.name}.csv")
                    path.write_text(part.to_csv(), encoding="utf-8")
                    written.append(path)
                    blocks[f"table {part.name}"] = f"{part.to_markdown()}\n\n[CSV]({path.name})"
                else:
                    written += part.write(stem)
                    blocks[f"figure {part.name}"] = part.to_markdown(stem.name)
            if _is_hand_written(page):
                text = fill_page(page.read_text(encoding="utf-8"), blocks)
            else:
                notes = "\n".join(f"- {note}" for note in self.notes)
                sections = [f"# {self.title}", described, notes, *blocks.values()]
                text = "\n\n".join(filter(None, sections)) + "\n"
            page.write_text(text, encoding="utf-8")
        except OSError:
            raise _not_writable(out) from None
        return [page, *written]


def fill_page(text: str, blocks: Mapping[str, str]) -> str:
    r"""Replace what stands between the markers of a hand-written page by the blocks of the same names.

    Examples
    --------
    >>> page = "Words.\n\n<!-- table found -->\nold\n<!-- end -->\n\nMore words.\n"
    >>> fill_page(page, {"table found": "new"})
    'Words.\n\n<!-- table found -->\n\nnew\n\n<!-- end -->\n\nMore words.\n'
    """
    places = _BLOCK.findall(text)
    if sorted(places) != sorted(blocks):
        differing = ", ".join(sorted(set(places) ^ set(blocks))) or "one name twice"
        raise ParameterError(
            "a hand-written page must have one place for every table and figure",
            differing,
            "Add or remove a pair of markers on the page.",
        )
    return _BLOCK.sub(lambda place: f"<!-- {place[1]} -->\n\n{blocks[place[1]]}\n\n<!-- end -->", text)


def check_page(page: Path, described: str) -> None:
    """Refuse to replace the tables of a hand-written page by those of another run, before any work is done."""
    if _is_hand_written(page) and described not in page.read_text(encoding="utf-8").splitlines():
        raise ParameterError(
            "the tables of a hand-written page must be of the run that the page speaks of",
            f"{page.name} and another run: {described.strip('*')}",
            "Choose another directory.",
        )


def _is_hand_written(page: Path) -> bool:
    return page.is_file() and _BLOCK.search(page.read_text(encoding="utf-8")) is not None


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


def count_noun(number: int, noun: str) -> str:
    """Return a number with its noun.

    Examples
    --------
    >>> count_noun(1, "trial"), count_noun(500, "trial")
    ('1 trial', '500 trials')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _known(cell: Any) -> Any:
    return None if isinstance(cell, float) and not math.isfinite(cell) else cell


def show_cell(cell: Cell) -> str:
    """Return a cell as it is printed: numbers to three decimals, or three digits where that would say little.

    Examples
    --------
    >>> [show_cell(cell) for cell in (0.97312, 1.0, 1e-06, 12345.6, 7, "EM", None, Estimate(0.973, 0.004))]
    ['0.973', '1.000', '1e-06', '1.23e+04', '7', 'EM', '', '0.973 ± 0.004']
    >>> show_cell(Estimate(0.973, math.inf))
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
