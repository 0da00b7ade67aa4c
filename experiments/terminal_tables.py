r"""Tables of a report on a terminal: words are folded, numbers never cut, and what is too wide is show_cell in parts."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Literal

from rich import box
from rich.console import Group
from rich.table import Table as Grid

from experiments.report import Table, show_cell

_GAP = 2  # between columns, and 1 where only that fits


def fit_table(table: Table, width: int) -> Group:
    """Return the table for a console of that many characters, in as few parts below each other as show all numbers whole."""
    cells = _once([[*map(show_cell, row)] for row in table.rows], keys=table.keys)
    columns = [
        _Column(header, [row[i] for row in cells], words=not table.is_numeric(i))
        for i, header in enumerate(table.columns)
    ]
    keys, others = columns[: table.keys], columns[table.keys :]
    blocks = [columns]
    for parts in range(1, len(others) + 1):
        bounds = [len(others) * part // parts for part in range(parts + 1)]
        blocks = [[*keys, *others[start:end]] for start, end in pairwise(bounds)]
        if all(_least(block) <= width for block in blocks):
            break
    first, *more = (_grid(block, width) for block in blocks)
    return Group(first, *(part for grid in more for part in ("", grid)))


def _once(rows: list[list[str]], *, keys: int) -> list[list[str]]:
    """Leave out what a row's first keys repeat from the row above; its last key always stands."""
    kept = []
    for before, row in pairwise([[], *rows]):
        same = 0
        while same < keys - 1 and before[: same + 1] == row[: same + 1]:
            same += 1
        kept.append([""] * same + row[same:])
    return kept


class _Column:
    """The texts of a column, and how wide it must and would like to be."""

    def __init__(self, header: str, cells: list[str], *, words: bool) -> None:
        self.header, self.cells = header, cells
        self.justify: Literal["left", "right"] = "left" if words else "right"
        whole = [word for cell in cells for word in cell.split()] if words else cells
        self.least = max(map(len, [*header.split(), *whole]), default=1)
        self.body = max(map(len, cells), default=0)  # no cell is folded
        self.most = max(len(header), self.body)


def _least(columns: Sequence[_Column], gap: int = 1) -> int:
    return sum(column.least for column in columns) + gap * (len(columns) - 1)


def _grid(columns: Sequence[_Column], width: int) -> Grid:
    gap = _GAP if _least(columns, _GAP) <= width else 1
    widths = [column.least for column in columns]
    for _ in range(width - _least(columns, gap)):  # to whoever lacks most; a folded cell costs more lines than a header
        cells, whole = (
            [most - now for most, now in zip(mosts, widths, strict=True)]
            for mosts in ([column.body for column in columns], [column.most for column in columns])
        )
        lacking = cells if max(cells) > 0 else whole
        widths[lacking.index(max(lacking))] += max(lacking) > 0
    grid = Grid(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, gap - 1, 0, 0))
    for column, wide in zip(columns, widths, strict=True):
        grid.add_column(column.header, justify=column.justify, width=wide, overflow="fold")
    for row in zip(*(column.cells for column in columns), strict=True):
        grid.add_row(*row)
    return grid
