"""`--accounting adaptive`: a plan's exact price on the command line."""

import json

import pytest

PLAN = ["--epsilon", 2, "--delta", 1e-4, "--releases", 3]


@pytest.fixture(scope="module")
def cached(tmp_path_factory):
    """One cache for all of these: a calibration is searched once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.mark.slow
def test_cost_shows_the_rule_and_what_it_buys(run, cached):
    usual, planned = (
        json.loads(run("cost", *PLAN, "--max-k", 20, "--choose", "argmax", "--json", *more).stdout)
        for more in ([], ["--accounting", "adaptive"])
    )
    assert usual["epsilon"]["adaptive"] < 0.995 * usual["epsilon"]["rdp"]
    assert usual["epsilon"]["rdp"] <= 2
    assert 0.9999 * 2 < planned["epsilon"]["adaptive"] <= 2 < planned["epsilon"]["rdp"]
    assert planned["one_gap"] <= usual["one_gap"]


def test_top_releases_by_it_and_says_what_is_promised(run, cached, checkins):
    asked = ["top", checkins, "--user", "user_id", "--item", "venue", "--max-k", 20, "--choose", "argmax", *PLAN]
    result = run(*asked, "--accounting", "adaptive", "--json")
    assert result.exit_code == 0
    assert json.loads(result.stdout)["guarantee"].startswith(
        "(2, 0.0001)-DP for one user joining or leaving; covers all 3"
    )


def test_with_a_ledger_it_is_refused_in_words(run, tmp_path, checkins):
    books = ["--ledger", tmp_path / "books.db", "--dataset", "checkins"]
    assert run("ledger", "init", *books, "--owner", "ann", "--epsilon", 1).exit_code == 0
    result = run("top", checkins, "--user", "user_id", "--item", "venue", *books, "--accounting", "adaptive")
    assert result.exit_code == 1
    assert "a ledger's releases are not one: it is no filter" in " ".join(result.stderr.split())


@pytest.mark.slow
def test_plan_compares_by_it(run, cached):
    usual, planned = (
        json.loads(run("plan", "--epsilon", 2, "--delta", 1e-4, "--releases", 3, "--max-k", 20, "--json", *more).stdout)
        for more in ([], ["--accounting", "adaptive"])
    )
    gaps = [
        {
            json.dumps(option["parameters"]): option["gap_95"]
            for option in plain["options"]
            if option["mechanism"] == "stable-top-k"
        }
        for plain in (usual, planned)
    ]
    assert gaps[0].keys() == gaps[1].keys()
    assert all(gaps[1][variant] <= gap for variant, gap in gaps[0].items())
