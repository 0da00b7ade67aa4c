"""Text in parquet is read by the engine itself where it can, by pyarrow where a cell stops it: the same cells either way."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import cutline
from cutline.counting.engines.duck import files
from cutline.counting.engines.duck.engine import Engine

# One of each length and each border of UTF-8: the first and the last of it, overlong forms, surrogates, what is cut short.
TEXTS = [
    *(chr(n).encode() for n in (0, 0x5C, 0x7F, 0x80, 0x7FF, 0x800, 0xD7FF, 0xE000, 0xFFFE, 0xFFFF, 0x10000, 0x10FFFF)),
    *(bytes([n]) for n in (0x80, 0xBF, 0xC0, 0xC2, 0xE0, 0xF0, 0xF4, 0xF8, 0xFF)),
    *map(
        bytes.fromhex,
        ("c080", "c1bf", "c27f", "c2c0", "e09fbf", "e0a0", "eda080", "edbfbf", "f08fbfbf", "f48fbf", "f4908080"),
    ),
]


def cells(texts):
    places = np.cumsum([0, *map(len, texts)]).astype("<i4")
    return pa.Array.from_buffers(pa.string(), len(texts), [None, pa.py_buffer(places), pa.py_buffer(b"".join(texts))])


def count(path, texts):
    """Count one user a text."""
    pq.write_table(pa.table({"u": pa.array(range(len(texts))), "i": cells(texts)}), path)
    histogram = cutline.count(path, user="u", item="i", max_k=50)
    return dict(zip(histogram.items, histogram.counts.tolist(), strict=False))


@pytest.fixture
def handed_over(monkeypatch):
    """How often pyarrow reads."""
    calls = []
    read = files.Parquet._read
    monkeypatch.setattr(files.Parquet, "_read", lambda *given: calls.append(1) or read(*given))
    return calls


@pytest.mark.parametrize("dictionary", [True, False])
def test_the_engine_stops_exactly_at_what_is_no_text(dictionary, tmp_path):
    texts = [*TEXTS, *(b"x" * 13 + text + b"y" * 9 for text in TEXTS)]
    paths = [str(tmp_path / f"{n}.parquet") for n in range(len(texts))]
    with Engine(paths=paths) as engine:
        for path, text in zip(paths, texts, strict=True):
            pq.write_table(pa.table({"i": cells([text])}), path, use_dictionary=dictionary)
            selected = files.ParquetText(found=(path,), form="parquet", zipped=False).scan(engine, ["i"])
            readable = files.read_cells(cells([text])).is_valid()[0].as_py()
            assert engine.accepts(selected) == readable
            if readable:
                assert engine.rows(selected) == [(text.decode(),)]


def test_one_cell_that_is_no_text_or_too_long_changes_no_other(tmp_path, handed_over):
    good = [b"a", b"b", "ü".encode(), b"b"]
    expected = {"b": 2, "a": 1, "ü": 1}
    path = tmp_path / "log.parquet"
    assert count(path, good) == expected
    assert count(path, [*good, b"x" * (files.LONGEST + 1)]) == expected
    assert not handed_over
    assert count(path, [*good, b"\xff"]) == expected
    assert handed_over
    assert count(path, [*good, b"x" * files.LONGEST])["x" * files.LONGEST] == 1


def test_progress_never_goes_back_when_the_reading_begins_again(tmp_path, handed_over):
    path = tmp_path / "log.parquet"
    count(path, [b"a"] * 200_000 + [b"\xff"])
    seen = []
    handed_over.clear()
    cutline.count(path, user="u", item="i", max_k=5, progress=seen.append)
    assert handed_over
    assert seen == sorted(seen)
    assert seen[-1] == 1.0
