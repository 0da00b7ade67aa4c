"""A row that is too long for the engine is missing, and no other row with it."""

import gzip
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

import cutline
from cutline.counting.engines.duck import long_rows
from cutline.counting.engines.duck.long_rows import split_rows

ROWS = [b"u%d,%s\n" % (n, item) for n in range(40) for item in (b"a", b"b")]
GOOD = b"".join(ROWS)
ODD = {
    "one line": b"odd," + b"x" * 34_000_000 + b"\n",
    "line breaks in quotes": b'odd,"' + b"v,zzz\n" * 6_000_000 + b'"\n',
    "doubled quotes": b'odd,"' + b'"",""\nw,b\n' * 3_000_000 + b'"\n',
    "never closed": b'odd,"' + b"v,zzz\n" * 6_000_000,
}


def count(path, **others):
    return cutline.count(path, user="user", item="item", max_k=5, **others)


@pytest.mark.slow
@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("zipped", [False, True], ids=["plain", "gzip"])
def test_a_row_above_the_buffer_is_missing_and_no_other(odd, zipped, tmp_path):
    path = tmp_path / ("log.csv.gz" if zipped else "log.csv")
    place = len(ROWS) if odd == "never closed" else 31
    text = b"user,item\n" + b"".join([*ROWS[:place], ODD[odd], *ROWS[place:]])
    path.write_bytes(gzip.compress(text, 1) if zipped else text)
    histogram = count(path, memory_limit="50MB")
    assert (histogram.items, histogram.counts.tolist()) == (("a", "b"), [40, 40, 0, 0, 0, 0])


def rows_by_hand(text, delimiter):
    """The same, a byte at a time."""
    rows, row, inside, start, i = [], b"", False, True, 0
    while i < len(text):
        byte = text[i : i + 1]
        if inside and text[i : i + 2] == b'""':
            row, i = row + b'""', i + 2
            continue
        if byte == b'"':
            inside = not inside and start
        start = not inside and byte in (delimiter, b"\n", b"\r")
        row += byte
        if byte in (b"\n", b"\r") and not inside:
            rows.append(row)
            row = b""
        i += 1
    return [*rows, row] if row else rows


@given(
    text=st.lists(st.sampled_from([b'"', b'""', b",", b"\n", b"\r\n", b"a", b"\t"]), max_size=30).map(b"".join),
    chunk=st.integers(1, 9),
    longest=st.integers(9, 14),
    delimiter=st.sampled_from([",", "\t"]),
)
def test_rows_are_those_of_a_reader_that_looks_at_every_byte(text, chunk, longest, delimiter):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(long_rows, "_CHUNK", chunk)
        patch.setattr(long_rows, "LONGEST", longest)
        pieces = list(split_rows(io.BytesIO(text), delimiter))
    rows = rows_by_hand(text, delimiter.encode())
    assert b"".join(piece or b"" for piece in pieces) == b"".join(row for row in rows if len(row) <= longest)
    assert sum(piece is None for piece in pieces) == sum(len(row) > longest for row in rows)


def test_a_file_without_such_rows_is_read_where_it_is(tmp_path, monkeypatch):
    monkeypatch.setattr(long_rows, "LONGEST", 20)
    path = tmp_path / "log.csv"
    path.write_bytes(b"user,item\n" + GOOD)
    assert long_rows.without_long_rows(str(path), tmp_path, delimiter=",", zipped=False) == str(path)
    assert count(path).items == ("a", "b")
