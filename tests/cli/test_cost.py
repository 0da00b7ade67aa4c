import json

import pytest


def test_epsilon_of_every_rule_and_the_one_gap_number(run):
    result = run("cost", "--json")
    plain = json.loads(result.stdout)
    assert (result.exit_code, result.stderr) == (0, "")
    assert list(plain) == [
        "mechanism",
        "adjacency",
        "delta",
        "releases",
        "epsilon",
        "one_gap",
        "one_gap_paper",
        "cost",
    ]
    assert plain["epsilon"] == {"pure": 1.0}  # one draw that takes all of epsilon and delta
    assert plain["mechanism"]["choose"] == "joint"
    assert plain["one_gap"] <= 22
    assert plain["one_gap_paper"] == 57


def test_releases_share_the_budget(run):
    plain = json.loads(run("cost", "--releases", 10, "--json").stdout)
    assert plain["epsilon"]["rdp"] <= 1
    assert plain["one_gap"] <= 122
    assert plain["one_gap_paper"] == 184


@pytest.mark.parametrize("wish", [["--min-k", 40], ["--target", 50, "--weight", 0.5]])
def test_wishes_do_not_spoil_the_one_gap_number(run, wish):
    assert json.loads(run("cost", "--json", *wish).stdout)["one_gap"] <= 31


def test_a_gap_that_is_never_enough_is_said_to_be_none(run):
    assert "one-gap number  none" in run("cost", "--clip", 3).stdout
    assert json.loads(run("cost", "--clip", 3, "--json").stdout)["one_gap"] is None


def test_a_law_too_long_to_list_still_has_its_number(run):
    plain = json.loads(run("cost", "--max-k", 60_000, "--test", "paper", "--json").stdout)
    assert plain["one_gap"] == plain["one_gap_paper"] > 57
    assert plain["epsilon"]["rdp"] <= 1


def test_text(run):
    text = " ".join(run("cost", "--test", "paper").stdout.split())
    assert "Epsilon of 1 release at delta = 1e-06" in text
    assert "gaussian-bit (sigma" in text
    assert "one user joining or leaving" in text
    assert "one-gap number 57" in text
