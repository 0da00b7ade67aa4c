import json
import sqlite3
from contextlib import closing

import pytest

from cutline.demo import LANDMARKS
from cutline.ledger import Ledger
from cutline.mechanisms import StableTopK


@pytest.fixture
def books(run, tmp_path):
    """A ledger with one dataset that pays for two releases, at an order given so that nothing is searched."""
    path = tmp_path / "books.db"
    filter_options = ["--order", 24, "--delta-share", 0.2, "--unit", "user_id"]
    result = run(
        "ledger", "init", "--ledger", path, "--dataset", "visits", "--owner", "ann", "--releases", 2, *filter_options
    )
    assert result.exit_code == 0, result.stderr
    assert "2 of 2 questions left (100 % of the budget)" in result.stdout
    return ["--ledger", path, "--dataset", "visits"]


@pytest.fixture
def top(run, checkins, books):
    return lambda *options: run("top", checkins, "--user", "user_id", "--item", "venue", *books, *options)


def test_the_life_of_a_budget(run, top, books):
    first = top()
    assert first.exit_code == 0
    assert "The top 12" in first.stdout
    assert "1 of 2 questions left (5" in first.stdout
    plain = json.loads(top("--json", "--analyst", "bob").stdout)
    assert plain["items"] == list(LANDMARKS)
    assert (plain["epsilon"], plain["delta"], plain["releases"]) == (1.0, 1e-6, 2)
    assert plain["ledger"]["remaining_releases"] == 0
    third = top()
    assert (third.exit_code, third.stdout) == (1, "")
    assert "must have room for the whole cost before any data is read" in third.stderr
    refused = json.loads(top("--json").stdout)["error"]
    assert set(refused) == {"rule", "value", "way_out"}
    shown = json.loads(run("ledger", "show", *books, "--json").stdout)
    assert (shown["entries"], shown["remaining_releases"], shown["state"]) == (2, 0, "open")
    assert 99 < shown["used_percent"]["rdp"] <= 100
    entries = json.loads(run("ledger", "history", *books, "--json").stdout)["entries"]
    assert [(entry["analyst"], entry["state"]) for entry in entries] == [("bob", "settled"), (None, "settled")]
    assert not any(name in json.dumps(entries) for name in LANDMARKS)
    closed = run("ledger", "close", *books)
    assert "visits (closed)" in closed.stdout
    assert "closed for good" in closed.stdout


def test_json_is_what_the_account_says_of_itself(run, top, books):
    released = json.loads(top("--json", "--analyst", "bob").stdout)
    with Ledger(books[1]) as ledger:
        account, entries = ledger.show("visits"), ledger.history("visits")
    assert json.loads(run("ledger", "show", *books, "--json").stdout) == account.to_dict() == released["ledger"]
    assert json.loads(run("ledger", "show", *books[:2], "--json").stdout) == {"datasets": [account.to_dict()]}
    history = json.loads(run("ledger", "history", *books, "--json").stdout)
    assert history == {"entries": [entry.to_dict() for entry in entries], "before": None}


def test_a_typo_costs_nothing(run, top, checkins, books):
    for options, words in (
        (["--item", "venu"], "must have the column"),
        (["--where", "nonsense("], ""),
        (["--user", "day"], "protects those named in its own column"),
        (["--adjacency", "replace"], "one adjacency relation"),
        (["--max-k", 0], "max_k"),
        (["--epsilon", 0.01], "must be above"),
        (["--delta", 1e-7], "goes with an epsilon"),
        (["--mechanism", "peeling-em", "--k", 3], "domain"),
    ):
        result = top(*options)
        assert (result.exit_code, result.stdout) == (1, ""), options
        assert words in result.stderr
    missing = run("top", "nowhere.parquet", "--user", "user_id", "--item", "venue", *books)
    assert missing.exit_code == 1
    assert json.loads(run("ledger", "show", *books, "--json").stdout)["entries"] == 0


@pytest.mark.parametrize(
    ("options", "used"),
    [
        (["--releases", 4], 25),
        (["--releases", 4, "--counts"], 25),
        (["--epsilon", 0.9], None),
        (["--k", 3, "--max-k", 20], 50),
        (["--k", 3, "--mechanism", "limited-domain", "--max-k", 20], 50),
    ],
)
def test_how_much_a_release_takes(run, top, books, options, used):
    plain = json.loads(top("--json", *options).stdout)
    entry = json.loads(run("ledger", "history", *books, "--json").stdout)["entries"][0]
    limits = plain["ledger"]["filter"]
    reserved = 100 * entry["reserved"]["rdp"] / limits["rdp"]
    assert (reserved <= 100) if used is None else (0.98 * used < reserved <= used)
    assert entry["settled"]["rdp"] <= entry["reserved"]["rdp"]
    assert (plain["counts"] is not None) == ("--counts" in options)
    assert "counts" not in entry["mechanism"] or set(entry["mechanism"]["counts"]) == {"sigma_of_one"}


def test_limits_of_an_analyst(run, top, books):
    result = run("ledger", "limit", *books, "--analyst", "bob", "--share", 0.3)
    assert "analyst bob" in result.stdout
    assert "limit of 'bob'" in top("--analyst", "bob").stderr
    assert "who asks" in top().stderr
    assert json.loads(top("--analyst", "bob", "--releases", 8, "--json").stdout)["released"] in (True, False)
    assert run("ledger", "limit", *books, "--analyst", "bob").exit_code == 1


def test_history_goes_page_by_page(run, top, books):
    assert top("--releases", 8).exit_code == 0
    assert top("--releases", 8).exit_code == 0
    page = run("ledger", "history", *books, "--limit", 1)
    assert all(word in page.stdout for word in ("top of", "venue", "12.5 %", "answer kept"))
    assert "rdp" not in page.stdout
    assert "--before 2" in page.stderr
    older = json.loads(run("ledger", "history", *books, "--before", 2, "--json").stdout)
    assert ([entry["id"] for entry in older["entries"]], older["before"]) == ([1], None)


def test_all_datasets_and_a_burn_down(run, top, books, tmp_path):
    assert top().exit_code == 0
    everything = json.loads(run("ledger", "show", *books[:2], "--json").stdout)
    assert [account["dataset"] for account in everything["datasets"]] == ["visits"]
    assert "1 of 2" in run("ledger", "show", *books[:2]).stdout
    figure = tmp_path / "burn.svg"
    assert run("ledger", "show", *books, "--plot", figure).exit_code == 0
    drawn = figure.read_text(encoding="utf-8")
    assert "Budget of visits: 1 of 2 releases left" in drawn
    assert "Rényi limit: 50.0 % left" in drawn
    assert run("ledger", "show", *books[:2], "--plot", figure).exit_code == 1


def test_half_an_account_is_refused(run, checkins, books):
    for options in (books[:2], books[2:], ["--analyst", "bob"]):
        result = run("top", checkins, "--user", "user_id", "--item", "venue", *options)
        assert result.exit_code == 1
        assert "go together" in result.stderr


def test_init_chooses_an_order_and_refuses_a_second_time(run, tmp_path):
    options = ["--ledger", tmp_path / "books.db", "--dataset", "d", "--owner", "ann", "--releases", 3, "--json"]
    plain = json.loads(run("ledger", "init", *options).stdout)
    assert plain["filter"]["order"] > 1
    assert plain["remaining_releases"] == 3
    again = run("ledger", "init", *options)
    assert again.exit_code == 1
    assert "created once" in json.loads(again.stdout)["error"]["rule"]
    half = run("ledger", "init", *options, "--order", 3)
    assert "go together" in json.loads(half.stdout)["error"]["rule"]


@pytest.mark.parametrize("command", ["show", "history", "close"])
def test_no_ledger_there(run, tmp_path, command):
    result = run("ledger", command, "--ledger", tmp_path / "none.db", "--dataset", "visits")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "cutline ledger init" in result.stderr
    assert not list(tmp_path.iterdir())


def test_a_list_of_analysts(run, top, tmp_path, checkins):
    account = ["--ledger", tmp_path / "other.db", "--dataset", "d"]
    options = ["--owner", "ann", "--order", 24, "--delta-share", 0.2]
    made = run("ledger", "init", *account, *options, "--analyst", "bob", "--analyst", "eve", "--json")
    assert [one["analyst"] for one in json.loads(made.stdout)["analysts"]] == ["bob", "eve"]
    ask = ["top", checkins, "--user", "user_id", "--item", "venue", *account, "--json"]
    for stranger in ([], ["--analyst", "joe"]):
        refused = run(*ask, *stranger)
        assert (refused.exit_code, "lists its analysts" in refused.stdout) == (1, True)
    assert run("ledger", "allow", *account, "--analyst", "joe").exit_code == 0
    assert run(*ask, "--analyst", "joe").exit_code == 0


def test_a_note_beside_an_abandoned_reservation(run, books):
    with Ledger(books[1]) as ledger:
        account = ledger.show("visits")
        cost = StableTopK.calibrate(account.budget, limits=account.filter, max_k=20).cost
        key = ledger.reserve(cost, dataset="visits", mechanism={"name": "lost"}).id
    said = run("ledger", "note", key, "the machine lost power", *books[:2])
    assert "the machine lost power" in said.stdout
    assert "the charge stays" in said.stdout
    plain = json.loads(run("ledger", "note", key, "twice", *books[:2], "--json").stdout)
    assert [note["text"] for note in plain["notes"]] == ["the machine lost power", "twice"]
    assert run("ledger", "note", 99, "lost", *books[:2]).exit_code == 1


def test_audit_backup_and_restore(run, top, books, tmp_path):
    assert top().exit_code == 0
    shown = run("ledger", "show", *books)
    head = json.loads(run("ledger", "show", *books, "--json").stdout)["head"]
    assert head in shown.stdout
    passed = run("ledger", "audit", *books[:2], "--head", head)
    assert (passed.exit_code, "everything fits; the chain holds the given head" in passed.stdout) == (0, True)
    saved = run("ledger", "backup", tmp_path / "saved.db", *books[:2])
    assert head in saved.stdout
    assert run("ledger", "backup", tmp_path / "saved.db", *books[:2]).exit_code == 1
    for name, options, left in (("same.db", ["--head", head], 1), ("empty.db", [], 0)):
        restored = run("ledger", "restore", tmp_path / "saved.db", "--ledger", tmp_path / name, *options)
        assert (restored.exit_code, "remainder" in restored.stdout) == (0, not options)
        account = json.loads(run("ledger", "show", "--ledger", tmp_path / name, *books[2:], "--json").stdout)
        assert account["remaining_releases"] == left
    assert top().exit_code == 0
    late = run(
        "ledger", "restore", tmp_path / "saved.db", "--ledger", tmp_path / "late.db", "--head", "0" * 64, "--json"
    )
    assert (late.exit_code, "leave the head out" in json.loads(late.stdout)["error"]["way_out"]) == (1, True)
    with closing(sqlite3.connect(books[1])) as other:
        other.execute("UPDATE cutline_datasets SET spent_rdp = '0'")
        other.commit()
    failed = run("ledger", "audit", *books[:2], "--json")
    plain = json.loads(failed.stdout)
    assert (failed.exit_code, plain["passed"]) == (1, False)
    assert "account 'visits' is not what its last link says" in plain["findings"]
    assert "finding 1" in run("ledger", "audit", *books[:2]).stdout
    assert "last link of its chain" in top().stderr


def test_upgrade_of_a_ledger_that_is_there_already(run, books):
    done = run("ledger", "upgrade", *books[:2])
    assert (done.exit_code, "head" in done.stdout) == (0, True)
