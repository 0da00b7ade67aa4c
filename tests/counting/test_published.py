"""A public list is read from the files in which such lists are published, and refused where it is not clear."""

import json

import pyarrow
import pyarrow.parquet
import pytest

from cutline.counting.published import read_published
from cutline.errors import SourceError

COUNTS = {"castle": 340, "the harbour, east": 210, "café": 0}
ROWS = [{"venue": venue, "visits": n} for venue, n in COUNTS.items()]


def write(folder, name, text):
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("p.csv", 'item,count\ncastle,340\n"the harbour, east",210\n\ncafé,0\n'),
        ("p.csv", '\ufeffusers,venue\n340,castle\n210,"the harbour, east"\n0,café\n'),
        ("p.tsv", "venue\tvisits\ncastle\t340\nthe harbour, east\t210\ncafé\t0\n"),
        ("p.csv", 'day,item,rank,n\nmon,castle,1,340\nmon,"the harbour, east",2,210\nmon,café,3,0\n'),
        ("p.json", json.dumps(COUNTS)),
        ("p.json", json.dumps(ROWS)),
        ("p.jsonl", "\n".join(map(json.dumps, ROWS))),
        ("p.json", json.dumps({"status": "released", "items": [*COUNTS], "counts": [340, 210, -7], "k": 3})),
    ],
)
def test_lists_are_read_where_the_columns_are_obvious(tmp_path, name, text):
    assert read_published(write(tmp_path, name, text)) == COUNTS


def test_parquet_keeps_the_type_of_its_items_and_columns_can_be_named(tmp_path):
    table = pyarrow.table({"id": [7, 8], "day": ["mon", "mon"], "visits": [5, 4], "visitors": [3, 2]})
    pyarrow.parquet.write_table(table, tmp_path / "p.parquet")
    assert read_published(tmp_path / "p.parquet", item="id", count="visitors") == {7: 3, 8: 2}
    with pytest.raises(SourceError, match=r"clear which columns.*'id', 'day', 'visits', 'visitors'.*prior_item"):
        read_published(tmp_path / "p.parquet")
    with pytest.raises(SourceError, match="'guests'"):
        read_published(tmp_path / "p.parquet", item="id", count="guests")


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("p.csv", "artist_89,305\nartist_7,200\n", "first line"),
        ("p.csv", "item,count\ncastle,340\ncastle,2\n", "every item once"),
        ("p.csv", "item,count\ncastle,many\n", "whole number"),
        ("p.csv", "item,count\ncastle,-3\n", "whole number"),
        ("p.csv", "item,count\ncastle\n", "whole number"),
        ("p.csv", "item,count\n", "whole number"),
        ("p.csv", "", "columns"),
        ("p.json", '{"items": ["castle"], "counts": null}', "must hold counts"),
        ("p.json", '[{"item": "castle", "count": true}]', "whole number"),
        ("p.json", '[{"item": ["castle"], "count": 3}]', "whole number"),
        ("p.json", '[{"item": null, "count": 3}]', "whole number"),
        ("p.json", "[1, 2]", "one object"),
        ("p.parquet", "no parquet", "parquet"),
        ("p.txt", "castle 340", "known kind"),
    ],
)
def test_what_is_no_such_list_is_refused(tmp_path, name, text, words):
    with pytest.raises(SourceError, match=words):
        read_published(write(tmp_path, name, text))


def test_other_encodings_and_missing_files_are_refused(tmp_path):
    (tmp_path / "p.csv").write_bytes("item,count\ncafé,3\n".encode("latin-1"))
    with pytest.raises(SourceError, match="UTF-8"):
        read_published(tmp_path / "p.csv")
    for name in ("none.csv", "none.parquet", "none.json", "a\0b.csv"):
        with pytest.raises(SourceError):
            read_published(tmp_path / name)
