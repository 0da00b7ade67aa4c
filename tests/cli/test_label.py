import json
import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from cutline.errors import LedgerUnavailable
from cutline.ledger import Ledger
from cutline.pate.aggregators.registry import AGGREGATORS
from cutline.privacy import Adjacency, Budget, Cost

VOTES = np.tile([[98, 3], [2, 97], [99, 96], [1, 0]], (5, 1))  # of 100 teachers: nobody is in doubt
EXPECTED = (VOTES > 50).astype(int).tolist()
BALLOTS = (np.arange(100)[:, None, None] < VOTES).astype(np.int8)
SURE = ["--epsilon", 40]


@pytest.fixture
def votes(tmp_path):
    path = tmp_path / "votes.npz"
    np.savez(path, votes=VOTES)
    return path


@pytest.fixture
def ballots(tmp_path):
    path = tmp_path / "ballots.npz"
    np.savez(path, ballots=BALLOTS, scores=BALLOTS * np.array([0.3, 0.9]))
    return path


def test_votes_become_labels(run, votes, tmp_path):
    out = tmp_path / "labels.npz"
    result = run("label", votes, "--teachers", 100, *SURE, "--out", out)
    assert result.exit_code == 0
    assert result.stdout.startswith("20 queries: 20 answered, 0 withheld, 0 partly labelled")
    assert "(40, 1e-06)-DP" in " ".join(result.stdout.split())
    assert "Labels written to" in result.stderr
    with np.load(out) as file:
        assert file["labels"].dtype == np.int8
        assert file["labels"].tolist() == EXPECTED
        assert file["names"].tolist() == ["label_0", "label_1"]
        assert str(file["guarantee"]).startswith("(40, 1e-06)-DP")


def test_json_is_one_object_with_the_labels(run, votes, tmp_path):
    plain = json.loads(run("label", votes, "--teachers", 100, *SURE, "--json").stdout)
    assert plain["labels"] == EXPECTED
    assert (plain["queries"], plain["answered"], plain["withheld"], plain["partly"]) == (20, 20, 0, 0)
    assert (plain["epsilon"], plain["delta"], plain["releases"], plain["adjacency"]) == (40.0, 1e-6, 20, "replace")
    assert plain["mechanism"]["name"] == "optimal-vote"
    assert plain["seeded"] is False
    cost = plain["cost"]
    assert (cost["kinds"], cost["slack"], cost["delta"]) == ({"bit-table": 40}, 0.0, 1e-6)
    assert 39.9 < cost["epsilon"] <= 40
    full = json.loads(run("label", votes, "--teachers", 100, *SURE, "--json", "--full").stdout)
    assert Cost.from_dict(full["cost"]).summary(1e-6) == cost
    elsewhere = run("label", votes, "--teachers", 100, *SURE, "--json", "--out", tmp_path / "labels.csv")
    assert json.loads(elsewhere.stdout)["labels"] is None
    assert (tmp_path / "labels.csv").exists()


def test_ballots_say_how_many_teachers_there_are(run, ballots):
    plain = json.loads(run("label", ballots, *SURE, "--json").stdout)
    assert plain["labels"] == EXPECTED
    assert plain["mechanism"]["teachers"] == 100
    more = json.loads(run("label", ballots, "--teachers", 120, *SURE, "--json").stdout)
    assert more["mechanism"]["teachers"] == 120


def test_votes_may_come_with_the_number_of_teachers_and_ballots_as_floats(run, tmp_path):
    path = tmp_path / "votes.npz"
    np.savez(path, votes=VOTES, teachers=100)
    assert json.loads(run("label", path, *SURE, "--json").stdout)["mechanism"]["teachers"] == 100
    floats = BALLOTS.astype(np.float32)
    floats[0, 0, 1] = np.nan  # no vote
    np.savez(path, ballots=floats)
    assert json.loads(run("label", path, *SURE, "--json").stdout)["labels"] == EXPECTED
    np.savez(path, ballots=BALLOTS)
    assert json.loads(run("label", path, "--limit", 2, *SURE, "--json").stdout)["labels"] == EXPECTED  # cuts nothing


def test_the_command_has_its_old_name_for_one_version(run, votes):
    assert json.loads(run("pate", votes, "--teachers", 100, *SURE, "--json").stdout)["labels"] == EXPECTED
    assert " pate " not in run("--help").stdout


def test_a_ledger_gives_the_usual_share_or_the_one_asked_for(run, votes, tmp_path):
    books = tmp_path / "books.db"
    account = ["--ledger", books, "--dataset", "patients"]
    init = ["--owner", "Ana", "--epsilon", 3, "--releases", 4, "--adjacency", "replace"]
    assert run("ledger", "init", *account, *init).exit_code == 0
    asked = ["label", votes, "--teachers", 100, "--json", *account]
    for options in ([], ["--share", "1/4"], ["--share", "1/2"]):
        assert run(*asked, *options).exit_code == 0, options
    assert run(*asked).exit_code == 1


def test_a_limit_cuts_ballots_to_the_surest_label(run, ballots):
    plain = json.loads(run("label", ballots, "--limit", 1, *SURE, "--json").stdout)
    assert plain["mechanism"]["limit"] == 1
    assert plain["labels"][2] == [0, 1]  # both labels were given, the second with more certainty


@pytest.mark.parametrize("name", [kind.name for kind in AGGREGATORS if kind.name not in ("optimal-vote", "pate-tau")])
def test_every_aggregator_by_name(run, ballots, name):
    plain = json.loads(run("label", ballots, "--aggregator", name, *SURE, "--json").stdout)
    assert plain["mechanism"]["name"] == name
    assert plain["answered"] + plain["withheld"] + plain["partly"] == 20


def test_tables_in_and_out(run, tmp_path):
    table = tmp_path / "votes.parquet"
    columns = {"cat": pa.array(VOTES[:, 0], pa.uint64()), "dog": pa.array([*VOTES[:-1, 1].tolist(), None], pa.int16())}
    pq.write_table(pa.table(columns), table)
    options = [table, "--teachers", 100, "--aggregator", "stable-majority", "--epsilon", 100]
    for name, read in (("labels.parquet", pq.read_table), ("labels.csv", pyarrow.csv.read_csv)):
        assert run("label", *options, "--out", tmp_path / name).exit_code == 0
        found = read(tmp_path / name).to_pydict()
        assert list(found) == ["cat", "dog"]
        assert [list(row) for row in zip(found["cat"], found["dog"], strict=True)] == EXPECTED
    assert b"cutline.guarantee" in pq.read_schema(tmp_path / "labels.parquet").metadata


def test_withheld_labels_are_missing_in_every_format(run, tmp_path):
    path = tmp_path / "votes.npz"
    np.savez(path, votes=np.full((3, 2), 50))
    options = ["label", path, "--teachers", 100, "--aggregator", "stable-majority"]
    result = run(*options, "--out", tmp_path / "labels.npz")
    assert "0 answered, 3 withheld" in result.stdout
    assert (np.load(tmp_path / "labels.npz")["labels"] == -1).all()
    run(*options, "--out", tmp_path / "labels.parquet")
    assert pq.read_table(tmp_path / "labels.parquet").column(0).null_count == 3
    run(*options, "--out", tmp_path / "labels.csv")
    assert (tmp_path / "labels.csv").read_text().splitlines()[1] == ","
    assert json.loads(run(*options, "--json").stdout)["labels"] == [[None, None]] * 3


@pytest.fixture
def books(tmp_path):
    path = tmp_path / "books.db"
    budget = Budget(epsilon=8.0, delta=1e-6)
    with Ledger(path) as ledger:
        limits = budget.filter(order=4.0, delta_share=0.25)
        ledger.create("patients", budget=budget, limits=limits, adjacency=Adjacency.REPLACE, owner="Ana")
    return path


def test_a_ledger_pays_once(run, votes, books, tmp_path):
    options = ["label", votes, "--teachers", 100, "--epsilon", 7, "--ledger", books, "--dataset", "patients"]
    assert run(*options, "--out", tmp_path / "labels.npz").exit_code == 0
    again = run(*options, "--out", tmp_path / "more.npz")
    assert again.exit_code == 1
    assert "budget" in again.stderr
    assert not (tmp_path / "more.npz").exists()
    with Ledger(books) as ledger:
        [entry] = ledger.history("patients")
        assert entry.mechanism["queries"] == 20
        assert entry.settled is not None


@pytest.mark.parametrize("as_json", [True, False])
def test_labels_that_were_paid_for_come_out_though_the_books_broke_down(
    run, votes, books, tmp_path, monkeypatch, as_json
):
    def broken(*_, **__):
        raise LedgerUnavailable("the disk is full", "", "Make room.")

    monkeypatch.setattr("cutline.ledger.charging.settle", broken)
    options = ["label", votes, "--teachers", 100, "--ledger", books, "--dataset", "patients", "--epsilon", 7]
    result = run(*options, "--out", tmp_path / "labels.npz", *(["--json"] if as_json else []))
    assert np.load(tmp_path / "labels.npz")["labels"].shape == (20, 2)
    assert result.exit_code == 1
    if as_json:
        assert "charged in full" in json.loads(result.stdout)["unsettled"]["rule"]
    else:
        assert "charged in full" in result.stderr


def arrays(**held):
    return lambda path: np.savez(path, **held)


@pytest.mark.parametrize(
    ("write", "options", "says"),
    [
        (arrays(votes=VOTES), [], "no teachers"),
        (arrays(votes=VOTES), ["--teachers", 0], "teachers must be"),
        (arrays(votes=VOTES), ["--teachers", 10**30], "teachers must be at most"),
        (arrays(votes=VOTES), ["--teachers", 100, "--limit", 1], "needs the ballots"),
        (arrays(votes=VOTES), ["--teachers", 100, "--aggregator", "pate-tau"], "must be told a ballot limit"),
        (arrays(votes=VOTES), ["--teachers", 100, "--aggregator", "powerset-vote"], "in its own way"),
        (arrays(votes=VOTES), ["--teachers", 100, "--aggregator", "majority"], "registered"),
        (arrays(votes=VOTES), ["--teachers", 100, "--epsilon", -1], "epsilon"),
        (arrays(votes=VOTES), ["--teachers", 100, "--ledger", "books.db"], "go together"),
        (arrays(votes=VOTES), ["--teachers", 100, "--dataset", "patients"], "go together"),
        (arrays(ballots=BALLOTS), ["--limit", 1, "--aggregator", "pate-gaussian"], "no ballot limit"),
        (arrays(ballots=BALLOTS), ["--teachers", 50], "at most the declared teachers"),
        (arrays(votes=VOTES, ballots=BALLOTS), [], "one array"),
        (arrays(other=VOTES), [], "one array"),
        (arrays(votes=VOTES.astype(float)), ["--teachers", 100], "whole numbers"),
        (arrays(votes=VOTES[0]), ["--teachers", 100], "2 axes"),
        (arrays(votes=VOTES[:0]), ["--teachers", 100], "none of them empty"),
        (arrays(votes=np.array([[{"name": "Alice-7319"}]])), ["--teachers", 100], "readable file"),
        (arrays(ballots=BALLOTS, scores=BALLOTS[:3]), [], "shape of the ballots"),
        (lambda path: path.write_bytes(b"Alice-7319"), ["--teachers", 100], "readable file"),
        (lambda path: None, ["--teachers", 100], "must be there"),
        (arrays(scores=BALLOTS, teachers=100), [], "one array"),
        (arrays(votes=VOTES, teachers=100), ["--teachers", 120], "100 in the file"),
        (arrays(votes=VOTES, teachers=[100, 7]), [], "one whole number"),
        (arrays(ballots=BALLOTS), ["--limit", 1], "which only scores can tell"),
    ],
)
def test_refusals_are_public_and_exit_1(run, tmp_path, monkeypatch, write, options, says):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "votes.npz"
    write(path)
    result = run("label", path, *options, "--json")
    assert result.exit_code == 1
    error = json.loads(result.stdout)["error"]
    assert says in f"{error['rule']} {error['value']} {error['way_out']}"
    assert "Alice" not in result.stdout + result.stderr


def test_labels_must_have_somewhere_to_go_before_they_are_drawn(run, votes, tmp_path):
    for options, says in (
        ([], "no --out"),
        (["--out", tmp_path / "labels.txt"], ".npz, .parquet or .csv"),
        (["--out", tmp_path / "no" / "labels.npz"], "can be written"),
        (["--out", tmp_path / "labels.npz", "--ledger", "mysql://host/books"], "SQLite or PostgreSQL"),
    ):
        result = run("label", votes, "--teachers", 100, *options)
        assert result.exit_code == 1
        assert says in result.stderr


@pytest.mark.parametrize("name", ["labels.npz", "labels.NPZ", "labels.Parquet", "labels.CSV"])
def test_labels_go_to_exactly_the_name_they_were_given(run, votes, tmp_path, name):
    folder = tmp_path / "out"
    folder.mkdir()
    assert run("label", votes, "--teachers", 100, *SURE, "--out", folder / name).exit_code == 0
    assert [path.name for path in folder.iterdir()] == [name]
    if name.lower().endswith("npz"):
        assert np.load(folder / name)["labels"].tolist() == EXPECTED


@pytest.mark.parametrize("kept", ["votes.npz", "books.db"])
@pytest.mark.parametrize("link", ["itself", "symlink_to", "hardlink_to", "folder"])
def test_labels_never_go_over_the_votes_or_the_ledger(run, votes, books, tmp_path, kept, link):
    source = tmp_path / kept
    if kept == "books.db":  # books may have any name
        books, source = books.rename(tmp_path / "books.csv"), tmp_path / "books.csv"
    out = tmp_path / "other.npz"
    if link == "itself":
        out = source
    elif link == "folder":
        (tmp_path / "folder").symlink_to(tmp_path)
        out = tmp_path / "folder" / source.name
    else:
        getattr(out, link)(source)
    before = source.read_bytes()
    account = ["--ledger", books, "--dataset", "patients", "--epsilon", 7]
    result = run("label", votes, "--teachers", 100, *account, "--out", out, "--json")
    assert result.exit_code == 1
    assert "must not go over" in json.loads(result.stdout)["error"]["rule"]
    assert source.read_bytes() == before
    if link.endswith("_to"):
        out.unlink()  # a ledger notices that it has two names
    with Ledger(books) as ledger:
        assert not list(ledger.history("patients"))


@pytest.mark.parametrize("as_json", [True, False])
def test_labels_that_find_no_room_are_printed_and_what_was_there_stays(run, votes, tmp_path, monkeypatch, as_json):
    out = tmp_path / "labels.npz"
    out.write_bytes(b"the labels of yesterday")

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    result = run("label", votes, "--teachers", 100, *SURE, "--out", out, *(["--json"] if as_json else []))
    assert result.exit_code == 1
    plain = json.loads(result.stdout)
    assert plain["labels"] == EXPECTED
    assert "could not be written" in plain["unwritten"]["rule"]
    assert as_json or "could not be written" in result.stderr
    assert out.read_bytes() == b"the labels of yesterday"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["labels.npz", "votes.npz"]


def test_a_file_that_is_written_anew_keeps_its_link_and_its_mode(run, votes, tmp_path):
    out, link = tmp_path / "labels.npz", tmp_path / "latest.npz"
    out.write_bytes(b"")
    out.chmod(0o640)
    link.symlink_to(out)
    plain = json.loads(run("label", votes, "--teachers", 100, *SURE, "--out", link, "--json").stdout)
    assert (plain["labels"], plain["unwritten"]) == (None, None)
    assert link.is_symlink()
    assert np.load(out)["labels"].tolist() == EXPECTED
    assert out.stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize(
    "make", [Path.mkdir, lambda path: path.symlink_to("no/where.npz"), os.mkfifo, lambda path: path.symlink_to(path)]
)
def test_labels_go_to_files_only(run, votes, tmp_path, make):
    make(tmp_path / "labels.npz")
    result = run("label", votes, "--teachers", 100, *SURE, "--out", tmp_path / "labels.npz", "--json")
    assert "can be written" in json.loads(result.stdout)["error"]["rule"]


def test_a_name_that_is_too_long_is_refused_before_labels_are_drawn(run, votes, tmp_path):
    result = run("label", votes, "--teachers", 100, *SURE, "--out", tmp_path / f"{'x' * 300}.npz", "--json")
    assert "can be written" in json.loads(result.stdout)["error"]["rule"]


def test_tables_of_anything_else_are_refused_by_their_types(run, tmp_path):
    path = tmp_path / "votes.parquet"
    pq.write_table(pa.table({"cat": [1, 2], "name": ["Alice-7319", "b"]}), path)
    result = run("label", path, "--teachers", 100, "--json")
    assert result.exit_code == 1
    assert "'name'" in result.stdout
    assert "Alice" not in result.stdout
    result = run("label", tmp_path / "votes.csv", "--teachers", 100, "--json")
    assert ".npz or a .parquet" in result.stdout
