"""The caller's lists: one column of a file, brought to the declared type of the log's, or refused before anything is paid."""

import json
import re

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import cutline
from cutline.cli.files import read_list
from cutline.counting import type_list
from cutline.errors import EngineError, ParameterError, SourceError
from cutline.histogram import ClosedHistogram
from cutline.ledger import Ledger
from cutline.privacy import Budget
from cutline.sampling import SeededSource

PEOPLE = list(range(400))


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    """Everybody has artists 9 and 10, whose column holds whole numbers."""
    path = tmp_path_factory.mktemp("lists") / "log.parquet"
    pq.write_table(pa.table({"who": PEOPLE * 2, "artist": [10] * 400 + [9] * 400, "day": ["mon"] * 800}), path)
    return path


FILES = {
    "c.txt": "9\n10\n11\n",
    "c.csv": "artist,plays\n9,305\n10,300\n11,1\n",
    "named.csv": 'plays,"the, name"\n305,9\n300,10\n1,11\n',
    "c.tsv": "artist\tplays\n9\t305\n10\t300\n11\t1\n",
    "c.json": "[9, 10, 11]",
    "text.json": '["9", "10", "11"]',
    "rows.json": '[{"artist": 9}, {"artist": 10}, {"artist": 11}]',
    "c.jsonl": '{"artist": 9}\n{"artist": 10}\n{"artist": 11}\n',
}


@pytest.mark.parametrize("name", FILES)
def test_every_form_of_list_is_brought_to_the_type_of_the_column(log, tmp_path, name):
    path = tmp_path / name
    path.write_text(FILES[name], encoding="utf-8")
    column = "the, name" if name == "named.csv" else None
    values = read_list(path, "the candidates", column=column, usual="artist")
    assert type_list(log, values, column="artist") == [9, 10, 11]


def test_parquet_and_the_command(run, log, tmp_path):
    path = tmp_path / "c.parquet"
    pq.write_table(pa.table({"name": ["9", "10", "11"]}), path)
    asked = ["top", log, "--user", "who", "--item", "artist", "--candidates", path, "--json"]
    found = json.loads(run(*asked, "--candidates-column", "name").stdout)
    assert found["items"] == [9, 10]
    refused = run(*asked)
    assert refused.exit_code == 1
    error = json.loads(refused.stdout)["error"]
    assert "no single column 'artist'; there are: 'name'" in error["value"]
    assert error["way_out"].startswith("Name it with --candidates-column; a file without headings")


@pytest.mark.parametrize(
    ("name", "text", "options", "word"),
    [
        ("prior.csv", "artist_89,305\nartist_2,300\n", [], "no single column 'artist'"),  # was released as garbage
        (
            "prior.txt",
            "artist_89,305\nartist_2,300\n",
            [],
            "lines that end in a number",
        ),  # the same, whatever the column's type
        ("prior.txt", "artist\tusers\nartist_2\t300\n", [], "lines that end in a number"),
        ("prior.txt", "artist_89,305\n", [], "'artist_89,305' for column 'artist'"),
        ("prior.csv", 'artist\n"9\n', [], "prior.csv"),
        ("prior.txt", "9\n10\n", ["--candidates-column", "x"], "prior.txt"),
        ("prior.json", '{"9": 305}', [], "prior.json"),
        ("prior.parquet", "no parquet", [], "prior.parquet"),
        ("prior.csv", "artist\n9\n9\n", [], "9"),
    ],
)
def test_lists_that_do_not_fit_are_refused_before_anything_is_read(run, log, tmp_path, name, text, options, word):
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    asked = ["top", log, "--user", "who", "--item", "artist", "--k", 1, "--json", "--candidates", path, *options]
    result = run(*asked)
    assert result.exit_code == 1
    assert word in json.loads(result.stdout)["error"]["value"]


@pytest.mark.parametrize(
    ("kind", "texts", "typed"),
    [
        (pa.string(), ["9", 9], ["9", "9"]),
        (pa.float64(), ["1.5", "2e3", "x", "nan"], [1.5, 2000.0, "x", "nan"]),
        (pa.bool_(), ["true", "False", "1"], [True, False, "1"]),
        (pa.int8(), ["+5", "-5", " 5", "5.0", "٥"], [5, -5, " 5", "5.0", "٥"]),
    ],
)
def test_what_does_not_fit_stays_as_it_is(kind, texts, typed):
    table = pa.table({"i": pa.array([], kind)})
    assert type_list(table, texts, column="i") == typed


def test_typed_values_of_other_types():
    kinds = {"day": pa.date32(), "at": pa.time64("us"), "price": pa.decimal128(5, 2)}
    table = pa.table({name: pa.array([], kind) for name, kind in kinds.items()})
    written = {"day": "2026-11-16", "at": "01:00:00", "price": "1.50"}
    assert [str(type_list(table, [written[name]], column=name)[0]) for name in kinds] == list(written.values())
    assert not any(isinstance(type_list(table, [written[name]], column=name)[0], str) for name in kinds)


def test_groups_come_from_a_column_too(run, log, tmp_path):
    path = tmp_path / "days.csv"
    path.write_text("weekday,note\nmon,first\ntue,second\n")
    asked = ["top", log, "--user", "who", "--item", "artist", "--by", "day", "--groups", path, "--json"]
    found = json.loads(run(*asked, "--groups-column", "weekday").stdout)
    assert found["groups"]["mon"]["items"] == [9, 10]
    assert run(*asked).exit_code == 1


@pytest.mark.parametrize("table", [pd.DataFrame({"a": [1]}), pl.DataFrame({"a": [1]}), pa.table({"a": [1]})])
def test_a_table_is_no_list(table):
    with pytest.raises(ParameterError, match=r"candidates must be (one|a) list"):
        cutline.quote(candidates=table)


def test_a_column_of_a_table_is_a_list():
    assert cutline.count({"a": 3}, candidates=pa.array(["a", "b"])).top(1) == ("a",)


def test_lazy_frames_are_counted_and_fail_without_a_word():
    rows = pl.LazyFrame({"who": PEOPLE * 2, "what": ["a"] * 400 + ["b"] * 400, "unused": [0] * 800})
    release = cutline.top(rows.filter(pl.col("what") != "b"), user="who", item="what", max_k=5)
    assert release.listed() == ["a"]
    with pytest.raises(SourceError, match="the log must have the column"):
        cutline.quote(user="who", item="which", max_k=5).run(rows)
    broken = rows.with_columns(pl.col("what").cast(pl.Int64))
    with pytest.raises(EngineError) as refused:
        cutline.count(broken, user="who", item="what")
    assert "'a'" not in str(refused.value)
    assert refused.value.__context__ is None


def test_the_account_names_the_user(run, log, tmp_path):
    books = tmp_path / "books.db"
    with Ledger(books) as opened:
        opened.create("visits", budget=Budget(epsilon=3.0, delta=1e-6, releases=5), owner="ann", unit="who")
    result = run("top", log, "--item", "artist", "--ledger", books, "--dataset", "visits", "--json")
    assert json.loads(result.stdout)["items"] == [9, 10]
    alone = run("top", log, "--item", "artist", "--json")
    assert alone.exit_code == 1
    assert "user must be the name of a column" in json.loads(alone.stdout)["error"]["rule"]
    with Ledger(books) as opened:  # ready counts have no columns, whatever the account names
        assert cutline.top({"a": 900}, max_k=5, ledger=opened, dataset="visits").listed() == ["a"]


def test_the_quote_of_a_closed_domain_says_what_would_be_chance(run, log, tmp_path):
    """At a low epsilon a list of candidates is filled all the same, and nothing in it shows how."""
    asked = cutline.quote(candidates=range(100), k=10, epsilon=0.1)
    said = asked.to_dict()["by_chance"]
    assert "about 9 of the 10 items would be there by chance" in said
    needed = int(re.search(r"each of them has ([\d,]+) users more", said)[1].replace(",", ""))
    clear = ClosedHistogram.from_counts(np.where(np.arange(100) < 10, needed, 0))
    assert 0.9 <= asked.work.mechanism.chance(clear, 10) < 0.92
    flat = ClosedHistogram.from_counts(np.full(100, 500))
    found = [asked.work.mechanism.release(flat, rng=SeededSource(seed)).items for seed in range(40)]
    assert np.mean([len(set(items) - set(range(10))) for items in found]) == pytest.approx(9, abs=0.5)
    assert cutline.quote(k=10, max_k=20).to_dict()["by_chance"] is None  # an open domain is not filled
    assert cutline.quote(candidates=range(3), k=3).to_dict()["by_chance"] is None
    (tmp_path / "c.txt").write_text("9\n10\n11\n12\n")
    told = run("top", log, "--user", "who", "--item", "artist", "--k", 2, "--candidates", tmp_path / "c.txt")
    assert "about 1 of the 2 items would be there by chance" in " ".join(told.stdout.split())
