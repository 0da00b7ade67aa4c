r"""Rows of CSV that are too long: found here, and left out of what the engine is given.

DuckDB skips a row of more than 2 MB, but one of some tens of megabytes takes memory of its own length, and of one with line
breaks in its quotes the lines are taken for rows. So whoever writes such a row could stop the count, or change what others
count. A file that may hold one is followed byte by byte first; if it does, the engine reads a copy without such rows, in the
directory of spilled rows, which is private and goes with the count.

A quote opens a quoted cell where a cell begins, and the next quote that is not doubled closes it; elsewhere it is a quote.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, cast

import numpy as np

from cutline.counting.engines.duck.records import LONGEST, Bytes, Places

_CHUNK = 2**20  # no longer than the longest row
_BREAKS = (b"\n", b"\r")


def without_long_rows(path: str, spill: Path, *, delimiter: str, zipped: bool) -> str:
    """Return the path of a file without rows that are too long: the file itself, or a copy in ``spill``."""
    if not zipped and Path(path).stat().st_size <= LONGEST:
        return path
    open_any = gzip.open if zipped else open
    with cast(BinaryIO, open_any(path, "rb")) as file:
        if all(piece is not None for piece in split_rows(file, delimiter)):
            return path
    copy = spill / f"rows-{len(list(spill.glob('rows-*')))}"
    with cast(BinaryIO, open_any(path, "rb")) as file, cast(BinaryIO, open_any(copy, "xb")) as kept:
        for piece in split_rows(file, delimiter):
            kept.write(piece or b"")
    return str(copy)


def split_rows(file: BinaryIO, delimiter: str, rows: Rows | None = None) -> Iterator[bytes | None]:
    r"""Yield a file in pieces of whole rows; None stands for a row that is too long. ``rows`` follows the quotes, if given.

    Examples
    --------
    >>> import io
    >>> long = b'a,"' + LONGEST * b'\n' + b'"\n'
    >>> list(split_rows(io.BytesIO(b'a,"b\nc"\n' + long + b'd,e"f\n'), ","))
    [b'a,"b\nc"\n', None, b'd,e"f\n']
    """
    rows = rows or Rows(delimiter)
    begun, lost = b"", False
    while chunk := file.read(_CHUNK):
        ends = rows.find_ends(chunk)
        if lost and len(ends):
            chunk, ends, lost = chunk[ends[0] :], ends[1:] - ends[0], False
        if not lost:
            whole, begun = _cut(begun, chunk, ends)
            yield from whole
            lost = len(begun) > LONGEST
        if lost and begun:
            begun = b""
            yield None
    if begun:
        yield begun


def _cut(begun: bytes, chunk: bytes, ends: Places) -> tuple[list[bytes | None], bytes]:
    """Return the rows that end in a chunk as pieces, and what has begun; the first row began before the chunk."""
    if not len(ends):
        return [], begun + chunk
    first, last = int(ends[0]), int(ends[-1])
    row = begun + chunk[:first]
    pieces: list[bytes | None] = [row if len(row) <= LONGEST else None]
    return pieces + ([chunk[first:last]] if last > first else []), chunk[last:]


class Rows:
    """Follows the bytes of a CSV file and says where its rows end."""

    def __init__(self, delimiter: str) -> None:
        self._starts = np.isin(
            np.arange(256), [ord(delimiter), *map(ord, _BREAKS)]
        )  # by byte: whether a cell begins after it
        self._inside = False  # a quoted cell
        self._last = ord("\n")  # the byte before the chunk
        self._run = (0, False)  # quotes at the end of the last chunk: how many, and whether a cell begins with them
        self.quoted_lines = 0  # line breaks seen inside quoted cells

    @property
    def open(self) -> bool:
        """Whether the bytes so far end inside a quoted cell."""
        waiting, could_open = self._run
        return (could_open and not self._inside) if waiting % 2 else self._inside

    def find_ends(self, text: bytes) -> Places:
        """Return the places after which a row ends in the next bytes: all of them, or the first and the last."""
        if not self._inside and not self._run[0] and b'"' not in text:
            self._last = text[-1]
            found = [find(one) + 1 for one in _BREAKS if one in text for find in (text.find, text.rfind)]
            return np.unique([min(found), max(found)]) if found else np.array([], dtype=np.intp)
        chunk = np.frombuffer(text, dtype=np.uint8)
        odd, opening = self._find_odd_runs(chunk)
        # Inside after a run: if it could open a cell and the state before was outside. Any other run leaves one outside.
        order = np.arange(len(odd))
        reset = np.maximum.accumulate(np.where(opening, -1, order)) if len(odd) else order
        since = np.where(reset < 0, order + 1 + self._inside, order - reset)
        inside = np.concatenate([[self._inside], opening & (since % 2 == 1)])
        breaks = np.flatnonzero((chunk == ord("\n")) | (chunk == ord("\r")))
        quoted = inside[np.searchsorted(odd, breaks, side="left")]
        self.quoted_lines += int(np.count_nonzero(chunk[breaks[quoted]] == ord("\n")))
        self._inside, self._last = bool(inside[-1]), int(chunk[-1])
        ends: Places = breaks[~quoted] + 1
        return ends

    def _find_odd_runs(self, chunk: Bytes) -> tuple[Places, np.ndarray[tuple[int], np.dtype[np.bool_]]]:
        """Return where runs of an odd number of quotes begin, and whether a cell could begin there; doubled ones say nothing.

        A run at the end of the chunk waits for the next one; a run that waited has the place -1 if it is not longer here.
        """
        quotes = np.flatnonzero(chunk == ord('"'))
        firsts = np.flatnonzero(np.diff(quotes, prepend=-2) != 1)
        begins, lengths = quotes[firsts], np.diff(firsts, append=len(quotes))
        opening = self._starts[np.where(begins > 0, chunk[begins - 1], self._last)]
        waiting, could_open = self._run
        if waiting and len(begins) and begins[0] == 0:
            lengths[0] += waiting
            opening[0] = could_open
        elif waiting:
            begins, lengths = np.append(-1, begins), np.append(waiting, lengths)
            opening = np.append(could_open, opening)
        self._run = (0, False)
        if len(quotes) and quotes[-1] == len(chunk) - 1:
            self._run = (int(lengths[-1]), bool(opening[-1]))
            begins, lengths, opening = begins[:-1], lengths[:-1], opening[:-1]
        odd = lengths % 2 == 1
        return begins[odd], opening[odd]
