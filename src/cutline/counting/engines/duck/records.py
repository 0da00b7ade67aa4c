r"""The records of a JSON file, as texts: split here, because one record must not decide how the others are read.

There are two forms, and the name of the file or the caller says which; no byte of it does.

- *Lines*: each line is a record, whatever is on the others.
- *A document*: each outermost object is a record, alone or in an array. Braces and quotes are followed byte by byte; a quote
  that is still open at the end of a line is closed there, because no text of JSON has a line break in it.

A record that is not an object, not UTF-8 or too long is missing. Records are parsed one by one, by Python: DuckDB keeps what it
parsed of some thousand records at once, a hundred times their length, and a single user's records could be too much for it.
"""

from __future__ import annotations

import gzip
import json
import re
from abc import ABC, abstractmethod
from codecs import BOM_UTF8
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, BinaryIO, cast

import numpy as np
import numpy.typing as npt

from cutline.counting.engines.duck.engine import Stream

# Bytes in a text, or in a row of a CSV file. An engine with 50 MB, the smallest memory limit, can hold what is below it.
LONGEST = 2**21
_CHUNK = 2**20

Bytes = npt.NDArray[np.uint8]
Places = npt.NDArray[np.intp]


class Splitter(ABC):
    """Follows the bytes of one file and says where records begin and end."""

    opened: bool  # whether the first byte belongs to a record

    @abstractmethod
    def find_edges(self, chunk: Bytes) -> Places:
        """Return the places in the next bytes where a record begins or ends, in turn."""


class Lines(Splitter):
    """Every line is a record."""

    opened = True

    def find_edges(self, chunk: Bytes) -> Places:
        ends = np.flatnonzero((chunk == ord("\n")) | (chunk == ord("\r")))
        return np.column_stack([ends, ends + 1]).ravel()


class Objects(Splitter):
    """Every outermost object is a record."""

    opened = False

    def __init__(self) -> None:
        self._depth = 0  # of braces
        self._quoted = False
        self._escaped = False  # whether the next byte follows a backslash that counts

    def find_edges(self, chunk: Bytes) -> Places:
        quotes = chunk == ord('"')
        quotes[self._find_escaped(chunk)] = False
        events = np.flatnonzero(quotes | np.isin(chunk, np.frombuffer(b"{}\n\r", dtype=np.uint8)))
        kinds = chunk[events]
        breaks = (kinds == ord("\n")) | (kinds == ord("\r"))
        # Quotes up to each event, and how many of them were before the last line break: the rest are of this line.
        seen = np.cumsum(kinds == ord('"')) + self._quoted
        before = np.maximum.accumulate(np.where(breaks, seen, 0))
        quoted = (seen - before) % 2 == 1
        steps = np.where(kinds == ord("{"), 1, np.where(kinds == ord("}"), -1, 0))
        depth = self._depth + np.cumsum(np.where(quoted, 0, steps))
        depth -= np.minimum(np.minimum.accumulate(depth), 0)  # a brace that closes nothing is none
        earlier = np.concatenate([[self._depth], depth[:-1]])
        begins, ends = (earlier == 0) & (depth == 1), (earlier == 1) & (depth == 0)
        if len(events):
            self._depth, self._quoted = int(depth[-1]), bool(quoted[-1])
        edges: Places = (events + ends)[begins | ends]  # an object ends after its brace
        return edges

    def _find_escaped(self, chunk: Bytes) -> Places:
        """Return the places that follow an odd number of backslashes."""
        skipped = int(self._escaped)
        slashes = np.flatnonzero(chunk[skipped:] == ord("\\")) + skipped
        begins = np.flatnonzero(np.diff(slashes, prepend=-2) != 1)  # of runs of backslashes
        lengths = np.diff(begins, append=len(slashes))
        after = slashes[begins] + lengths
        odd = after[lengths % 2 == 1]
        self._escaped = bool(len(odd)) and odd[-1] == len(chunk)
        return np.concatenate([np.arange(skipped), odd[odd < len(chunk)]]).astype(np.intp)


def read_records(paths: Sequence[str], splitter: type[Splitter], wanted: Sequence[str], *, zipped: bool) -> Stream:
    """Return the values that the records of some files have for some keys, as texts in columns c0, c1, ..."""
    import pyarrow as pa

    schema = pa.schema([(f"c{i}", pa.large_string()) for i in range(len(wanted))])

    def batches() -> Iterator[Any]:
        for path in paths:
            with cast(BinaryIO, (gzip.open if zipped else open)(path, "rb")) as file:
                for records in split(file, splitter()):
                    parsed = list(filter(None, map(_parse, records)))
                    columns = [make_texts([_text(record.get(name)) for record in parsed]) for name in wanted]
                    yield pa.record_batch(columns, schema=schema)

    return Stream(schema=schema, batches=batches)


def _parse(stored: bytes) -> dict[str, object] | None:
    """Return a record; None if it is no object of JSON in UTF-8, or nested too deeply to be parsed."""
    try:
        record = json.loads(stored.decode())
    except (ValueError, RecursionError):
        return None
    return record if type(record) is dict else None


def _text(value: object) -> str | None:
    """Return the text of a value: its own, or that of its JSON; None if it has none, as the number 1e400."""
    if value is None or type(value) is str:
        return value
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except (ValueError, RecursionError):
        return None


def split(file: BinaryIO, splitter: Splitter) -> Iterator[list[bytes]]:
    r"""Yield lists of a file's records, as they are stored, without those that are too long.

    Examples
    --------
    >>> import io
    >>> [record for some in split(io.BytesIO(b'[{"a": "}"}, 7, {"a": {}}]'), Objects()) for record in some]
    [b'{"a": "}"}', b'{"a": {}}']
    """
    opened, lost, begun = splitter.opened, False, b""
    chunk = file.read(_CHUNK).removeprefix(BOM_UTF8)
    while chunk:
        edges = splitter.find_edges(np.frombuffer(chunk, dtype=np.uint8)) + len(begun)
        data = begun + chunk
        if len(edges):
            yield _cut(data, edges, begin=2 if lost else 0 if opened else 1)
            opened ^= len(edges) % 2 == 1
            begun, lost = data[edges[-1] :], False
        else:
            begun = data
        if not opened or lost or len(begun) > LONGEST:
            begun, lost = b"", opened
        chunk = file.read(_CHUNK)
    if begun:
        yield [begun]


def _cut(data: bytes, edges: Places, *, begin: int) -> list[bytes]:
    """Return every second of the pieces before the edges, from the piece ``begin`` on, unless it is too long."""
    borders = [0, *edges.tolist()]
    pieces = (data[borders[i] : borders[i + 1]] for i in range(begin, len(edges), 2))
    return [piece for piece in pieces if len(piece) <= LONGEST]


def make_texts(values: Iterable[str | None]) -> Any:
    """Return an Arrow array of texts; lone surrogates, which no file can hold as UTF-8, make a text missing."""
    import pyarrow as pa

    texts = list(values)
    try:
        return pa.array(texts, type=pa.large_string())
    except UnicodeEncodeError:
        broken = re.compile("[\ud800-\udfff]").search
        return pa.array([None if text is None or broken(text) else text for text in texts], type=pa.large_string())
