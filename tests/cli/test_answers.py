"""Answers that were paid for: printed again, repeated, and not lost when standard output is closed or full."""

import json
import os
import re
import subprocess
import sys

import pytest

from cutline.errors import LedgerUnavailable
from cutline.ledger import Ledger
from cutline.privacy import Adjacency, BoundedRange, Cost

NAMES = ["--user", "user_id", "--item", "venue"]
COLUMNS = [*NAMES, "--test", "paper"]  # its calibration takes no search


@pytest.fixture
def books(run, tmp_path):
    path = tmp_path / "books.db"
    options = ["--owner", "ann", "--releases", 10, "--epsilon", 2, "--order", 12, "--delta-share", 0.2]
    assert run("ledger", "init", "--ledger", path, "--dataset", "visits", *options).exit_code == 0
    return ["--ledger", path, "--dataset", "visits"]


@pytest.fixture
def top(run, checkins, books):
    return lambda *options: run("top", checkins, *COLUMNS, *books, *options)


def test_an_answer_is_printed_again(run, top, books):
    told = top("--purpose", "the weekly page", "--analyst", "bob", "--counts")
    told_json = top("--json", "--full")
    assert (told.exit_code, told_json.exit_code) == (0, 0)
    again = run("ledger", "answer", 2, *books[:2], "--json", "--full")
    assert again.exit_code == 0
    assert again.stdout == told_json.stdout
    text = run("ledger", "answer", 1, *books[:2]).stdout
    left = re.compile(r"(\d+) of 10 questions left \((\d+)[\d.]* % of")  # as it is now
    assert [left.search(shown).groups() for shown in (told.stdout, text)] == [("9", "90"), ("8", "80")]
    assert left.sub("", text) == left.sub("", told.stdout)


def test_an_entry_without_an_answer(run, books):
    with Ledger(books[1]) as ledger:
        from cutline.privacy import Adjacency, Cost

        ledger.reserve(Cost(adjacency=Adjacency.ADD_REMOVE), dataset="visits", mechanism={"name": "m"})
    for entry, words in ((1, "only a settled entry"), (2, "entry"), (-1, "")):
        result = run("ledger", "answer", *books[:2], "--", entry)
        assert (result.exit_code, result.stdout) == (1, "")
        assert words in result.stderr
    assert "Traceback" not in result.stderr


def test_a_repeat_is_free_and_says_so(run, top, books):
    version = ["--data-version", "2026-11-16"]
    first = json.loads(top(*version, "--json").stdout)
    again = json.loads(top(*version, "--json", "--purpose", "once more").stdout)
    assert (first["entry"], first["repeated_from"], again["repeated_from"]) == (1, None, 1)
    assert again["items"] == first["items"]
    assert again["ledger"] == first["ledger"]
    assert "free: the same question" in " ".join(top(*version).stdout.split())
    fresh = json.loads(top(*version, "--fresh", "--json").stdout)
    assert (fresh["entry"], fresh["repeated_from"], fresh["ledger"]["entries"]) == (2, None, 2)


def test_history_says_who_asked_what_and_why(run, top, books, checkins, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    asked = top("--analyst", "bob", "--purpose", "the weekly page", "--where", "venue <> 'x'", "--share", "1/20")
    assert asked.exit_code == 0
    assert run("top", checkins, *NAMES, *books, "--k", 3, "--max-k", 20, "--data-version", "monday").exit_code == 0
    with Ledger(books[1]) as ledger:
        ledger.note(2, "printed on page 3")
    told = run("ledger", "history", *books).stdout
    for words in ("bob", "the weekly page", "top of venue where venue <> 'x'", "top 3 of venue, data of monday"):
        assert words in told
    assert "5.0 %" in told
    assert "answer kept; printed on page 3" in told
    assert not any(word in told for word in ("rdp", "delta", "order"))


def test_a_question_in_other_words_does_not_stop_the_history(run, books):
    cost = Cost.of(BoundedRange(epsilon=0.01), adjacency=Adjacency.ADD_REMOVE)
    with Ledger(books[1]) as ledger:
        for question in ({"kind": "labels"}, {"item": 7, "where": ["x"]}, {"kind": ["top"]}):
            ledger.reserve(cost, dataset="visits", mechanism={}, question=question)
    done = run("ledger", "history", *books)
    assert (done.exit_code, done.stdout.count("charged")) == (0, 3)


def test_an_account_speaks_of_questions_and_shares(run, top, books):
    assert "rdp" not in run("ledger", "show", *books).stdout
    assert "rdp = " in run("ledger", "show", *books, "--full").stdout
    small = top("--epsilon", 0.3)
    assert small.exit_code == 1
    assert "--epsilon 0.3" in small.stderr
    assert "--share 1/10" in small.stderr
    assert "order" not in small.stderr
    assert top("--share", "9/10").exit_code == 0
    dear = top("--share", "1/5")
    assert "got 20 % of it, with 1" in dear.stderr
    assert "--share 1/10" in dear.stderr
    assert not any(word in dear.stderr for word in ("rdp", "releases="))
    assert top("--share", "0").exit_code == 1


@pytest.mark.parametrize("as_json", [True, False])
def test_an_answer_that_was_paid_for_is_printed_though_the_books_broke_down(top, monkeypatch, as_json):
    def broken(*_, **__):
        raise LedgerUnavailable("the disk is full", "", "Make room.")

    monkeypatch.setattr("cutline.ledger.charging.settle", broken)
    result = top(*(["--json"] if as_json else []))
    assert result.exit_code == 1
    if as_json:
        plain = json.loads(result.stdout)
        assert len(plain["items"]) == plain["k"] == 12
        assert "charged in full" in plain["unsettled"]["rule"]
    else:
        assert "The top 12" in result.stdout
        assert "charged in full" in result.stderr


def test_a_figure_that_cannot_be_written_is_told_inside_the_one_object(run, top, books, tmp_path, monkeypatch):
    """The folder is there when it is checked, and gone when the figure is written."""
    figure = tmp_path / "gone" / "figure.svg"

    def vanish(path, **_):
        path.parent.rmdir()

    monkeypatch.setattr("cutline.cli.files.check_plot", vanish)
    commands = (top, lambda *more: run("ledger", "show", *books, *more), lambda *more: run("demo", *more))
    for command in commands:
        figure.parent.mkdir()
        result = command("--json", "--plot", figure)
        plain = json.loads(result.stdout)  # one object, or this fails
        assert (result.exit_code, plain["plot"]["file"]) == (1, str(figure))
        assert set(plain["plot"]["error"]) == {"rule", "value", "way_out"}
        assert "guarantee" in plain
        figure.parent.mkdir()
        result = command("--plot", figure)
        assert result.exit_code == 1
        assert result.stdout
        assert "a figure must go where it can be written" in result.stderr
    assert json.loads(top("--json").stdout).get("plot") is None


def process(*args, stdout):
    """Run the command line as a process of its own, whose standard output is what the shell makes of this."""
    shell = f'"$@" {stdout}'
    words = [sys.executable, "-m", "cutline.cli", *map(str, args)]
    return subprocess.run(["sh", "-c", shell, "sh", *words], capture_output=True, text=True, check=False)


@pytest.mark.slow
@pytest.mark.parametrize(("stdout", "more"), [(">/dev/full", ["--json"]), (">/dev/full", []), (">&-", [])])
def test_a_full_or_closed_output_loses_no_paid_answer(run, checkins, books, stdout, more):
    lost = process("top", checkins, *COLUMNS, *books, *more, stdout=stdout)
    assert lost.returncode == 1
    assert "Traceback" not in lost.stderr
    assert "Exception ignored" not in lost.stderr
    assert f"cutline ledger answer 1 --ledger {books[1]}" in lost.stderr
    assert len(json.loads(run("ledger", "answer", 1, *books[:2], "--json").stdout)["items"]) == 12


@pytest.mark.parametrize(
    "args",
    [["--help"], ["--version"], ["mechanisms", "--json"], ["top", "no.csv", "--user", "u", "--item", "i", "--json"]],
)
@pytest.mark.parametrize("stdout", [">/dev/full", ">&-"])
def test_no_command_ends_in_a_traceback(args, stdout):
    lost = process(*args, stdout=stdout)
    assert lost.returncode == 1
    assert lost.stderr.startswith("cutline: ")
    assert len(lost.stderr.splitlines()) == 1


@pytest.mark.slow
def test_without_a_ledger_it_says_that_nothing_is_kept(checkins):
    lost = process("top", checkins, *COLUMNS, stdout=">/dev/full")
    assert lost.returncode == 1
    assert "a full disk" in lost.stderr
    assert "Without a ledger it is not kept" in lost.stderr


@pytest.mark.slow
def test_a_broken_pipe_says_where_the_answer_is(checkins, books):
    reading, writing = os.pipe()
    os.close(reading)
    words = [sys.executable, "-m", "cutline.cli", "top", checkins, *COLUMNS, *books]
    lost = subprocess.run(list(map(str, words)), stdout=writing, stderr=subprocess.PIPE, text=True, check=False)
    assert lost.returncode == 1
    assert "cutline ledger answer 1" in lost.stderr
    words = [sys.executable, "-m", "cutline.cli", "ledger", "history", *books]
    quiet = subprocess.run(list(map(str, words)), stdout=writing, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writing)
    assert (quiet.returncode, quiet.stderr) == (1, "")  # whoever reads a page of a list has lost nothing


@pytest.mark.slow
def test_closed_streams_are_not_taken_by_files(checkins, books):
    """Descriptors 1 and 2 are free when the books are opened; a library that writes there must not write into them."""
    lost = process("top", checkins, *COLUMNS, *books, stdout=">&- 2>&- <&-")
    assert lost.returncode == 1
    with Ledger(books[1]) as ledger:
        assert ledger.show("visits").entries == 1
        assert ledger.answer(1).answered
