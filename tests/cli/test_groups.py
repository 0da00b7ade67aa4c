"""``cutline top --by``: one top set per listed group."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

DAYS = ("mon", "tue", "wed")


@pytest.fixture
def log(tmp_path):
    """On Monday and Tuesday everybody is at two places, on Wednesday at one, on Thursday nowhere."""
    places = {"mon": ("castle", "harbour"), "tue": ("castle", "harbour"), "wed": ("museum",)}
    rows = [(user, day, place) for user in range(900) for day in DAYS for place in places[day]]
    path = tmp_path / "log.parquet"
    pq.write_table(pa.table(dict(zip(("who", "day", "venue"), map(list, zip(*rows, strict=True)), strict=True))), path)
    return path


@pytest.fixture
def days(tmp_path):
    path = tmp_path / "days.txt"
    path.write_text("\n".join([*DAYS, "thu"]), encoding="utf-8")
    return path


def asked(log, *more):
    return ("top", log, "--user", "who", "--item", "venue", "--max-k", 10, *more)


def test_every_listed_group_has_its_row(run, log, days):
    result = run(*asked(log, "--by", "day", "--groups", days))
    assert result.exit_code == 0, result.stderr
    lines = {line.split("│")[1].strip(): line for line in result.stdout.splitlines() if line.startswith("│")}
    assert list(lines) == [*DAYS, "thu"]
    assert "castle, harbour" in lines["mon"]
    assert "museum" in lines["wed"]
    assert "withheld" in lines["thu"]
    assert "one user counts in at most 4 of them" in " ".join(result.stdout.split())


def test_json_has_one_object_per_group(run, log, days):
    result = run(*asked(log, "--by", "day", "--groups", days, "--max-groups-per-user", 3, "--json"))
    found = json.loads(result.stdout)
    assert [found["groups"][day]["items"] for day in DAYS] == [["castle", "harbour"], ["castle", "harbour"], ["museum"]]
    assert found["groups"]["thu"]["released"] is False
    assert found["groups_per_user"] == 3
    assert found["guarantee"] == found["groups"]["mon"]["guarantee"]


def test_a_table_is_charged_once_for_the_groups_one_user_touches(run, log, days, tmp_path):
    books = ("--ledger", tmp_path / "books.db", "--dataset", "visits")
    opened = run("ledger", "init", *books, "--epsilon", 2, "--releases", 4, "--owner", "ann")
    assert opened.exit_code == 0, opened.stderr
    result = run(*asked(log, "--by", "day", "--groups", days, *books, "--json"))
    assert result.exit_code == 0, result.stderr
    assert json.loads(result.stdout)["ledger"]["remaining_releases"] == 3


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--by", "day"), "listed by you"),
        (("--groups", "days.txt"), "Pass --by COL"),
        (("--by", "day", "--groups", "missing.txt"), "must be a readable file"),
        (("--by", "day", "--groups", "DAYS", "--adjacency", "replace"), "Take add-remove"),
        (("--by", "day", "--groups", "DAYS", "--plot", "a.pdf"), "must end in .png or .svg"),
        (("--by", "month", "--groups", "DAYS"), "month"),
    ],
)
def test_half_a_table_is_refused(run, log, days, options, said):
    result = run(*asked(log, *(days if option == "DAYS" else option for option in options)))
    assert result.exit_code == 1
    assert said in result.stderr
    assert result.stdout == ""
