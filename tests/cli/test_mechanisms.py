import json

import pytest

from cutline.mechanisms import MECHANISMS, mechanism

TOLD = [kind.name for kind in MECHANISMS if kind.accepts("k") and kind.domains != ("bounded",)]


def test_the_registry_is_listed_with_what_a_caller_must_know(run):
    rows = json.loads(run("mechanisms", "--json").stdout)["mechanisms"]
    assert [row["name"] for row in rows] == [kind.name for kind in MECHANISMS]
    for row in rows:
        assert set(row["domains"]) <= {"open", "closed", "bounded"}
        assert row["k"] in ("told", "found")
        assert all(row[key] for key in ("cost_rule", "reference", "summary", "adjacency"))
        assert isinstance(row["ordered"], bool)
    text = run("mechanisms").stdout
    assert all(kind.name in text for kind in MECHANISMS)


@pytest.mark.parametrize("name", TOLD)
def test_top_works_for_each_that_is_told_k(run, checkins, tmp_path, name):
    from cutline.demo import LANDMARKS

    listed = tmp_path / "candidates.txt"
    listed.write_text("\n".join([*LANDMARKS, *(f"nowhere {i}" for i in range(30))]))
    closed = ["--candidates", listed] if "open" not in mechanism(name).domains else []
    columns = ["--user", "user_id", "--item", "venue", "--json"]
    plain = json.loads(run("top", checkins, *columns, "--mechanism", name, "--k", 12, "--epsilon", 4, *closed).stdout)
    assert plain["mechanism"]["name"] == name
    assert plain["mechanism"]["k"] == 12
    assert plain["released"]
    assert len(set(plain["items"]) & set(LANDMARKS)) >= 10
    assert f"{name} with" in plain["guarantee"]


def test_k_alone_takes_the_default_for_told_k(run, checkins):
    plain = json.loads(run("top", checkins, "--user", "user_id", "--item", "venue", "--k", 12, "--json").stdout)
    assert plain["mechanism"]["name"] == "peel-then-test"
    assert plain["ordered"] is False  # a cliff at 12: the exact set, unordered


def test_noisy_counts_come_with_the_set(run, checkins):
    plain = json.loads(run("top", checkins, "--user", "user_id", "--item", "venue", "--counts", "--json").stdout)
    assert len(plain["counts"]) == len(plain["items"]) == 12
    assert all(500 < n < 2500 for n in plain["counts"])
    text = run("top", checkins, "--user", "user_id", "--item", "venue", "--counts").stdout
    assert "users (noisy, 95 %)" in text
    assert " ± " in text


@pytest.mark.parametrize(
    ("options", "word"),
    [
        (["--mechanism", "peeling-em", "--k", 5], "closed"),
        (["--mechanism", "limited-domain"], "told k"),
        (["--mechanism", "stable-top-k", "--k", 5], "by itself"),
        (["--mechanism", "nonsense"], "registered"),
        (["--mechanism", "limited-domain", "--k", 0], "k"),
    ],
)
def test_refusals_show_the_way_out(run, checkins, options, word):
    result = run("top", checkins, "--user", "user_id", "--item", "venue", "--json", *options)
    error = json.loads(result.stdout)["error"]
    assert result.exit_code == 1
    assert word in error["rule"]
    assert error["way_out"]


def test_an_answer_that_falls_short_names_what_may_show_more(run, checkins):
    asked = ("top", checkins, "--user", "user_id", "--item", "venue", "--k", 90, "--epsilon", 0.05)
    text = " ".join(run(*asked).stdout.split())
    assert "to find more --k 30: fewer items share the same budget or --epsilon 0.15: less noise" in text
    assert "or --max-items-per-user 50: more of a long tail is found" in text
    whole = run("top", checkins, "--user", "user_id", "--item", "venue", "--k", 12).stdout
    assert "to find more" not in whole


def test_counts_say_what_they_are_of():
    from cutline import quote
    from cutline.cli.show import _counted as counted
    from cutline.cli.show import headline, item_table
    from cutline.sampling import SeededSource

    full, bounded = {"a": 4000, "b": 3000}, {"a": 900, "b": 800}
    asked = quote(max_items_per_user=3, counts="bounded", rng=SeededSource(0))
    release = asked.run((full, bounded))
    assert counted(release) == "users after the bound"
    table = item_table("venue", release)
    assert [column.header for column in table.columns] == ["venue", "users after the bound (noisy, 95 %)"]
    assert headline(release) == "2 items with many users, in item order, not by rank"
