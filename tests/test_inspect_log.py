"""What an owner is shown of a log is what is in it; it stays in the process otherwise."""

import gzip
import json
import pickle

import pyarrow
import pyarrow.parquet
import pytest

from cutline.errors import CutlineError
from cutline.inspect_log import inspect

LOG = (
    b"who,what,day\n"
    b"ann,tea,mon\nann,Tea ,mon\nann,milk,mon\nann,milk,tue\n"
    b"bob,tea,mon\n Bob,t ea,mon\nbob,,mon\n,tea,mon\n,,mon\n"
    b"short\n"  # too few cells
    b"eve,caf\xe9,mon\n"  # not UTF-8
    b"zoe,tea,tue,more\n"
)


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "log.csv"
    path.write_bytes(LOG)
    return path


def test_rows_are_told_by_what_became_of_them(log):
    found = inspect(log, user="who", item="what")
    assert (found.rows, found.counted) == (10, 7)
    assert dict(found.skipped) == {
        "without a user": 1,
        "without an item": 1,
        "without both": 1,
        "left out by the filter": 0,
    }
    assert {reason: n for reason, n in found.unreadable.items() if n} == {"not UTF-8": 1, "too few cells": 1}
    assert (found.users, found.items) == (4, 4)  # ann, bob, " Bob" and zoe; tea, "Tea ", milk and "t ea"
    assert dict(found.items_per_user) == {
        "least": 1, "25 %": 1, "median": 1, "75 %": 1, "90 %": 3, "99 %": 3, "most": 3,
    }  # fmt: skip
    assert dict(found.alike) == {"items": 3, "users": 2}
    facts = found.facts()
    assert facts["skipped"] == "3: 1 without a user, 1 without an item, 1 without both"
    assert "3 items differ from another only in case or spaces; 2 users" in facts["spelling"]
    assert "read as UTF-8" in facts["encoding"]
    for name in ("ann", "tea", "caf"):
        assert name not in json.dumps(facts)  # numbers, not names


def test_a_filter_leaves_rows_out_and_is_counted(log):
    found = inspect(log, user="who", item="what", where="day = 'tue'")
    assert (found.counted, found.skipped["left out by the filter"], found.users, found.items) == (2, 5, 2, 2)


def test_packed_files_marks_and_long_rows(tmp_path):
    long = b"ann," + b"x" * (2**21) + b"\n"
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(b"\xef\xbb\xbfwho,what\nann,tea\n" + long + b"bob,milk\n"))
    found = inspect(tmp_path / "a.csv.gz", user="who", item="what")
    assert (found.rows, found.users) == (2, 2)
    assert found.unreadable["longer than 2 MB"] == 1
    assert "packed by gzip" in found.source
    assert "1 of 1 files with a byte-order mark" in found.source


def test_lines_that_a_quote_took_are_counted(tmp_path):
    """A cell that begins with a quote and never closes it takes the rows up to the next quote with it."""
    path = tmp_path / "log.csv"
    path.write_text('who,what\nann,"tea\nwith milk"\nbob,tea "dry"\n' + 'eve,"open\n' + "zoe,tea\n" * 7)
    found = inspect(path, user="who", item="what")
    assert (found.rows, found.users) == (3, 3)
    assert (found.quoted_lines, found.never_closed) == (9, 1)
    assert "1 file(s) end inside a quote that is never closed" in found.facts()["in quotes"]
    path.write_text('who,what\nann,"tea\nwith milk"\n')
    assert inspect(path, user="who", item="what").facts()["in quotes"].startswith("1 line(s) stand")
    path.write_text("who,what\nann,tea\n")
    assert "in quotes" not in inspect(path, user="who", item="what").facts()


@pytest.mark.parametrize("form", ["json", "jsonl"])
def test_records_of_json_by_reason(tmp_path, form):
    lines = [b'{"who": "ann", "what": "tea"}', b"", b'{"who": "bob", "what": "caf\xe9"}', b'{"who": nonsense}', b"[7]"]
    (tmp_path / f"log.{form}").write_bytes(b"\n".join(lines) + b"\n")
    found = inspect(tmp_path / f"log.{form}", user="who", item="what")
    assert (found.rows, found.users) == (1, 1)
    expected = {"not UTF-8": 1, "not JSON": 1} | ({"not an object of JSON": 1} if form == "jsonl" else {})
    assert dict(found.unreadable) == expected  # a document's records are its objects; what is between them is nothing


def test_tables_and_parquet_name_their_types_and_empty_logs_are_shown(tmp_path):
    table = pyarrow.table({"who": [1, 1, 2, None], "what": ["a", "b", "a", "a"]})
    pyarrow.parquet.write_table(table, tmp_path / "log.parquet")
    for source in (table, tmp_path / "log.parquet"):
        found = inspect(source, user="who", item="what")
        assert (found.rows, found.counted, found.users, found.items) == (4, 3, 2, 2)
        assert "user as BIGINT, item as VARCHAR" in found.source
        assert found.facts()["unreadable"] == "none"
        assert found.facts()["spelling"].startswith("no two items")
    empty = inspect(table.slice(0, 0), user="who", item="what")
    assert (empty.rows, empty.facts()["items per user"]) == (0, "nobody counts")


def test_an_inspection_does_not_leave_by_accident(log):
    found = inspect(log, user="who", item="what")
    assert repr(found) == "Inspection()"
    with pytest.raises(TypeError, match="private"):
        pickle.dumps(found)
    with pytest.raises(CutlineError, match="must have the column"):
        inspect(log, user="who", item="thing")
