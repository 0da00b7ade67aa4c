"""``cutline explain``: text on the terminal, a page in a file, totals from the books."""

import json

import pytest


@pytest.fixture(scope="module")
def paid(tmp_path_factory):
    import cutline

    folder = tmp_path_factory.mktemp("explain")
    books = cutline.Ledger(folder / "books.db")
    books.create("visits", budget=cutline.Budget(epsilon=2.0, delta=1e-6, releases=10), owner="ann")
    counts = {"castle": 940, "harbour": 933, "kiosk": 12}
    asked = {"max_k": 20, "ledger": books, "dataset": "visits", "analyst": "bob"}
    release = cutline.top(counts, **asked, purpose="the weekly list")
    cutline.top(counts, **asked)
    (folder / "release.json").write_text(json.dumps(release.to_dict()))
    return folder


def test_text_goes_to_the_terminal_and_a_page_to_its_file(run, paid, tmp_path):
    text = run("explain", paid / "release.json")
    assert (text.exit_code, text.stderr) == (0, "")
    assert "WHO IS PROTECTED, AND WHO IS NOT" in text.stdout
    assert "the books were not opened for this page" in " ".join(text.stdout.split())
    page = run("explain", paid / "release.json", "--html", tmp_path / "page.html")
    assert (page.exit_code, page.stdout) == (0, "")
    assert (tmp_path / "page.html").read_text().startswith("<!doctype html>")


def test_the_books_give_the_totals_and_what_was_asked(run, paid):
    plain = json.loads(run("explain", paid / "release.json", "--ledger", paid / "books.db", "--json").stdout)
    sections = {title: " ".join(words) for title, words in plain["sections"].items()}
    assert "20.0 % of the account's budget is spent; number of entries: 2" in sections["What has been spent"]
    assert "read from the books" in sections["What has been spent"]
    assert "asked for by bob" in sections["Who answers for the budget"]
    assert "Purpose: the weekly list." in sections["What was asked"]
    assert "This answer alone:" in sections["What the guarantee means"]


@pytest.mark.parametrize("change", [{"items": ["castle"]}, {"entry": 2, "k": 5}, {"guarantee": "(0.1, 0)-DP"}])
def test_an_answer_that_the_books_do_not_hold_is_refused(run, paid, tmp_path, change):
    plain = json.loads((paid / "release.json").read_text()) | change
    (tmp_path / "forged.json").write_text(json.dumps(plain))
    result = run("explain", tmp_path / "forged.json", "--ledger", paid / "books.db")
    assert result.exit_code == 1
    assert "the answer must be the one that entry" in result.stderr
    assert result.stdout == ""


def test_files_that_cannot_be_read_or_written_are_refused(run, paid, tmp_path):
    (tmp_path / "text.json").write_text("nonsense")
    (tmp_path / "free.json").write_text(json.dumps(json.loads((paid / "release.json").read_text()) | {"entry": None}))
    for arguments, words in (
        ([tmp_path / "none.json"], "readable file"),
        ([tmp_path / "text.json"], "must be JSON"),
        ([paid / "release.json", "--html", tmp_path], "where it can be written"),
        ([tmp_path / "free.json", "--ledger", paid / "books.db"], "must name the entry"),
    ):
        result = run("explain", *arguments)
        assert result.exit_code == 1
        assert words in result.stderr
