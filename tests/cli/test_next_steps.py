"""Every answer names its status, how that can come, and a next step that helps: from public facts alone."""

import functools
import json
from collections import Counter

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import cutline
from cutline.cli.show import print_answer
from cutline.outcome import NextStep, Outcome, Status, advise, explain_status, join_statuses
from cutline.privacy import Budget
from cutline.sampling import SeededSource

LISTENERS, ARTISTS, EACH = 1892, 3000, 50


@pytest.fixture(scope="module")
def listens(tmp_path_factory):
    """Every listener has 50 artists of a long tail: the shape of a public log on which the first answer is often empty."""
    generator = np.random.default_rng(0)
    weights = -0.9 * np.log(np.arange(1, ARTISTS + 1) + 12)
    scores = weights + generator.gumbel(size=(LISTENERS, ARTISTS))
    artists = np.argpartition(-scores, EACH, axis=1)[:, :EACH].ravel()
    table = pa.table({"user": np.repeat(np.arange(LISTENERS), EACH), "artist": [f"artist {i}" for i in artists]})
    path = tmp_path_factory.mktemp("listens") / "listens.parquet"
    pq.write_table(table, path)
    return path


def test_each_next_step_of_a_short_answer_gives_a_list_when_it_is_followed(run, capsys, listens):
    """First by the command, whose answer names its status; then by seeded draws, of every status there is."""
    options = [listens, "--user", "user", "--item", "artist", "--epsilon", 0.1, "--k", 10]
    result = run("top", *options, "--require", "released", "--json")
    plain = json.loads(result.stdout)
    assert plain["status"] in ("partial", "empty", "withheld")
    assert result.exit_code == 3

    counts = cutline.count(listens, user="user", item="artist", max_k=100)

    @functools.cache
    def ready(**changed):
        return cutline.quote(**{"epsilon": 0.1, "k": 10, **changed}).work.mechanism

    statuses = Counter()
    for seed in range(12):
        short = ready().release(counts, rng=SeededSource(seed))
        statuses[short.status] += 1
        assert short.status is not Status.RELEASED
        print_answer(short, header="artist")
        text = capsys.readouterr().out
        assert text.startswith(f"{short.status}".capitalize())
        assert f"status {short.status}: {short.why}" in " ".join(text.split())
        assert "--epsilon 0.3: less noise" in " ".join(text.split())
        for step in short.next_steps:
            again = ready(**{step.parameter: step.value}).release(counts, rng=SeededSource(100 + seed))
            assert again.items, step
        if short.status is not Status.PARTIAL:
            assert [step.option for step in short.next_steps] == ["--k 3", "--epsilon 0.3"]
    assert {Status.EMPTY, Status.PARTIAL} <= set(statuses)


@pytest.mark.parametrize(
    ("ask", "shown"),
    [
        ({"min_k": 15}, "--k 10, without --min-k: "),
        ({"min_k": 5, "target": 12, "weight": 1.0}, "--k 10, without --min-k and --target and --weight: "),
        ({"prefer_larger": True}, "--k 10, without --prefer-larger: "),
        ({"mechanism": "joint-stable"}, "--k 10: "),
        ({"mechanism": "top-stable", "k": 18}, "--k 6: "),
    ],
)
def test_no_next_step_is_refused_once_it_leaves_out_what_does_not_go_with_it(ask, shown):
    asked = {"max_k": 20, **ask}
    short = cutline.top({f"place {n}": 500 for n in range(40)}, **asked, rng=SeededSource(0))
    assert short.status is Status.WITHHELD
    assert short.next_steps[0].sentence.startswith(shown)
    assert {step.parameter for step in short.next_steps} == {"k", "epsilon", "max_items_per_user"}
    for step in short.next_steps:
        kept = {name: value for name, value in asked.items() if name not in step.without}
        assert cutline.quote(**kept | {step.parameter: step.value}).guarantee
        assert set(step.to_dict()["without"]) >= set(step.shown)


@pytest.mark.parametrize(("required", "code"), [("released", 3), ("partial", 0), (None, 0)])
def test_a_requirement_is_an_exit_code_and_changes_nothing_else(run, write_log, required, code):
    log = write_log((f"u{n}", item) for n in range(400) for item in ("a", "b"))
    asked = ("top", log, "--user", "user", "--item", "item", "--k", 3, "--json")
    result = run(*asked, *(() if required is None else ("--require", required)))
    assert (result.exit_code, json.loads(result.stdout)["status"]) == (code, "partial")


def test_a_table_is_released_if_every_group_is(run, write_log, tmp_path):
    (tmp_path / "groups.txt").write_text("a\nb\n")
    rows = [(f"u{n}", "a") for n in range(900)]
    log = write_log(rows)
    options = ["top", log, "--user", "user", "--item", "item", "--by", "item", "--groups", tmp_path / "groups.txt"]
    result = run(*options, "--json", "--require", "released")
    plain = json.loads(result.stdout)
    assert (result.exit_code, plain["status"]) == (3, "partial")
    assert plain["groups"]["b"]["status"] == "withheld"
    assert plain["why"].startswith("Of 2 groups: 1 withheld. The set did not pass the test")
    assert plain["groups"]["b"]["next_steps"][-1]["option"] == "--max-groups-per-user 1"
    assert run(*options, "--require", "partial").exit_code == 0


def test_a_ledger_is_asked_for_a_larger_share():
    outcome, budget = Outcome(items=(), k=10), Budget(epsilon=2.0, delta=1e-6, releases=20)
    mechanism = {"name": "test-first", "k": 10, "max_k": 100}
    paid = advise(outcome, mechanism=mechanism, budget=budget, paid=True)
    assert [step.option for step in paid] == ["--k 3", "--share 3/20"]
    alone = advise(outcome, mechanism=mechanism, budget=Budget(epsilon=2.0, delta=1e-6), paid=True)
    assert [step.parameter for step in alone] == ["k"]  # there is no larger share than all of it


def test_a_short_list_with_a_found_k_is_told_how_to_be_longer():
    mechanism = {"name": "stable-top-k", "max_k": 100, "min_k": 1}
    budget = Budget(epsilon=1.0, delta=1e-6)
    short = advise(Outcome(items=frozenset("ab"), k=2), mechanism=mechanism, budget=budget, paid=False)
    assert [step.option for step in short] == ["--min-k 10"]
    withheld = advise(Outcome(items=None), mechanism=mechanism, budget=budget, paid=False)
    assert [step.option for step in withheld] == ["--k 10", "--epsilon 3.0", "--max-items-per-user 50"]
    narrow = {**mechanism, "max_k": 9}  # where a cut at 10 would be refused
    assert advise(Outcome(items=frozenset("ab"), k=2), mechanism=narrow, budget=budget, paid=False) == ()
    assert advise(Outcome(items=("a",), k=1), mechanism={"k": 1}, budget=budget, paid=False) == ()


def test_reasons_are_told_apart_and_need_no_data():
    said = {
        explain_status(status, mechanism={"name": name}, k=5)
        for status in Status
        for name in ("peel-then-test", "stable-top-k")
    }
    assert len(said) == 5
    assert explain_status(Status.RELEASED, mechanism={}, k=1) == "The one item went out."
    assert all(sentence.endswith(".") for sentence in said)


def test_statuses_of_several_answers():
    released, partial, empty, withheld = Status
    assert join_statuses([released, released]) is released
    assert join_statuses([empty, partial]) is partial
    assert join_statuses([withheld, withheld]) is withheld
    assert NextStep(parameter="k", value=3, because="x").to_dict()["option"] == "--k 3"
