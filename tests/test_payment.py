"""Paid answers are kept, and the same question about the same version of the data is answered again, free."""

import json
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from sqlalchemy import text

import cutline
from cutline.errors import BudgetError, DatasetError, ParameterError, SchemaError, SourceError, UnsettledError
from cutline.ledger import Ledger
from cutline.mechanisms import MECHANISMS
from cutline.privacy import Adjacency, Budget
from cutline.privacy.budget import parse_share
from cutline.sampling import SeededSource

BUDGET = Budget(epsilon=2.0, delta=1e-6, releases=10)
CLIFF = {"castle": 900, "harbour": 880, "museum": 870, "kiosk": 12, "garage": 11}
FLAT = {f"place {i}": 100 - i for i in range(60)}
MONDAY = {"data_version": "2026-11-16"}


@pytest.fixture
def books(tmp_path):
    with Ledger(tmp_path / "books.db") as ledger:
        for name, adjacency in (("visits", Adjacency.ADD_REMOVE), ("votes", Adjacency.REPLACE)):
            limits = BUDGET.filter(order=12.0, delta_share=0.25)
            ledger.create(name, budget=BUDGET, limits=limits, adjacency=adjacency, owner="ann")
        yield ledger


@pytest.fixture
def pays(books):
    return {"ledger": books, "dataset": "visits", "max_k": 20}


def outcome(answer):
    """What became public, without who paid for it."""
    plain = answer.to_dict(full=True)
    return {key: value for key, value in plain.items() if key not in ("ledger", "entry", "repeated_from")}


@pytest.mark.parametrize("counts", [CLIFF, FLAT])
def test_a_repeat_is_the_same_answer_for_nothing(books, pays, counts):
    """Also one that was withheld: drawn again, it might come out, and asking until it does is not free."""
    first = cutline.top(counts, **pays, **MONDAY, purpose="the weekly page")
    assert (first.entry, first.repeated_from, first.released) == (1, None, counts is CLIFF)
    spent = books.show("visits")
    again = cutline.top(counts, **pays, **MONDAY)
    assert (again.entry, again.repeated_from) == (1, 1)
    assert outcome(again) == outcome(first)
    assert again.to_dict()["repeated_from"] == 1
    assert books.show("visits") == spent
    (entry,) = books.history("visits")
    assert (entry.purpose, entry.data_version, entry.answered) == ("the weekly page", "2026-11-16", True)


def test_a_repeat_opens_no_source_and_needs_nothing_left(books, pays):
    first = cutline.top(CLIFF, **pays, **MONDAY, share=1)
    with pytest.raises(BudgetError):
        cutline.top(CLIFF, **pays, share=1)
    again = cutline.top("nowhere.parquet", **pays, **MONDAY, share="100%")
    assert outcome(again) == outcome(first)
    books.close("visits")
    assert cutline.top(None, **pays, **MONDAY, share=Fraction(1)).repeated_from == 1


def test_only_a_named_version_repeats(books, pays):
    cutline.top(CLIFF, **pays, **MONDAY)
    for more in ({}, {"data_version": "2026-11-17"}, {**MONDAY, "fresh": True}):
        assert cutline.top(CLIFF, **pays, **more).repeated_from is None
    assert books.show("visits").entries == 4
    assert cutline.top(CLIFF, **pays, **MONDAY).repeated_from == 4  # the newest


LOG = pa.table(
    {
        "who": [f"u{i}" for i in range(300) for _ in range(2)],
        "what": ["castle", "harbour"] * 300,
        "day": ["mon", "tue"] * 300,
    }
)
ASKED = {"user": "who", "item": "what", "k": 2, "max_k": 20}
OTHERS = [
    {"item": "day"},
    {"user": "what"},
    {"where": "day = 'mon'"},
    {"k": 1},
    {"max_k": 30},
    {"counts": True},
    {"mechanism": "limited-domain"},
    {"test_share": 0.2},
    {"share": "1/20"},
    {"epsilon": 1.9},
    {"candidates": ["castle", "harbour"]},
    {"mechanism": "find-then-choose", "max_items_per_user": 2},
    {"mechanism": "find-then-choose", "max_items_per_user": 3},
]
TABLE = {"by": "day", "groups": ["mon", "tue", "wed"], "max_groups_per_user": 1}
OTHER_TABLES = [{"groups": ["mon", "tue"]}, {"groups": ["tue", "mon", "wed"]}, {"by": "what"}, {"key": "k"}]
OTHER_TABLES += [{"max_groups_per_user": 2}, {"max_groups_per_user": None}]


def test_everything_public_is_part_of_the_question(books):
    """Of questions that differ in one part, no two are equal; and plain data tell them apart, as the ledger keeps them."""
    pays = {"ledger": books, "dataset": "visits"}
    quotes = [cutline.quote(**ASKED, **pays), *(cutline.quote(**(ASKED | other), **pays) for other in OTHERS)]
    quotes += [cutline.quote(**(ASKED | TABLE | other), **pays) for other in ({}, *OTHER_TABLES)]
    texts = [json.dumps(asked.question, allow_nan=False) for asked in quotes]
    assert len(set(texts)) == len(texts) == 1 + len(OTHERS) + 1 + len(OTHER_TABLES)
    assert not any(word in one for one in texts for word in ("castle", "wed"))  # lists are named by their digest


def test_what_does_not_change_the_answer_is_no_part_of_the_question(books):
    pays = {"ledger": books, "dataset": "visits", "candidates": ["castle", "harbour"]}
    plain = cutline.quote(**ASKED, **pays).question
    turned = {
        "candidates": ["harbour", "castle"],
        "memory_limit": "1GB",
        "analyst": "bob",
        "purpose": "p",
        "releases": 10,
    }
    assert cutline.quote(**(ASKED | pays | turned)).question == plain
    table = cutline.quote(**(ASKED | TABLE | {"max_groups_per_user": None}), **pays).question
    assert cutline.quote(**(ASKED | TABLE | {"max_groups_per_user": 3, "key": "k"}), **pays).question == table


@pytest.mark.parametrize("kind", MECHANISMS, ids=lambda kind: kind.name)
def test_no_parameter_of_a_mechanism_is_lost(books, kind):
    """Another value of any declared parameter is another question."""
    values = {
        "k": 3,
        "max_k": 25,
        "min_k": 2,
        "target": 4,
        "weight": 2.5,
        "clip": 7,
        "choose": "argmax",
        "test": "paper",
    }
    values |= {"test_share": 0.3, "ranks": (1, 3), "max_items_per_user": 3}
    base = {"mechanism": kind.name, "ledger": books, "dataset": "visits"}
    base |= {"k": 2} if kind.accepts("k") else {}
    base |= {"candidates": range(40)} if kind.domains == ("closed",) else {}
    base |= {"max_items_per_user": 2} if kind.domains == ("bounded",) else {}
    plain = cutline.quote(**base).question
    for parameter in kind.parameters:
        value = values.get(parameter.name)
        if value is None:
            continue
        more = {parameter.name: value} | (
            {"target": 4} if parameter.name == "weight" and kind.accepts("target") else {}
        )
        more |= {"weight": 2.5} if parameter.name == "target" else {}
        try:
            other = cutline.quote(**(base | more)).question
        except ParameterError:
            continue  # not together with the others
        assert other != plain, parameter.name


def test_a_table_is_kept_whole(books):
    asked = ASKED | TABLE | {"ledger": books, "dataset": "visits", "counts": True, **MONDAY}
    first = cutline.top_by(LOG, **asked)
    again = cutline.top_by(None, **asked)
    assert outcome(again) == outcome(first)
    assert list(again.releases) == ["mon", "tue", "wed"]
    assert again.repeated_from == first.entry == 1
    assert cutline.read_answer(books.answer(1)).releases == first.releases


def test_labels_are_kept(books):
    ballots = np.zeros((80, 3, 4), dtype=np.int64)
    ballots[:70, 0, 1] = ballots[:75, 1, 2] = 1
    pays = {"ledger": books, "dataset": "votes", **MONDAY}
    first = cutline.label(ballots, **pays)
    again = cutline.label(np.zeros_like(ballots), **pays)
    assert outcome(again) == outcome(first)
    assert again.repeated_from == first.entry
    assert cutline.read_answer(books.answer(first.entry)).values.dtype == np.int8


def test_an_answer_that_cannot_be_read_is_refused_and_not_drawn_again(books, pays):
    first = cutline.top(CLIFF, **pays, **MONDAY)
    record = {**books.answer(first.entry).answer, "items": [{"kind": 1, "other": 2}]}
    asked = cutline.quote(**pays, **MONDAY)
    reservation = asked.terms.pay(asked.cost, mechanism=asked.mechanism, question=asked.question)
    books.settle(reservation, first, answer=record)
    with pytest.raises(SchemaError, match="can read"):
        cutline.top(CLIFF, **pays, **MONDAY)
    with pytest.raises(SchemaError, match="can read"):
        cutline.read_answer(books.answer(reservation.id))
    assert books.show("visits").entries == 2


def test_what_was_never_settled_holds_no_answer(books, pays):
    asked = cutline.quote(**pays, **MONDAY)
    reservation = asked.terms.pay(asked.cost, mechanism=asked.mechanism, question=asked.question)
    with pytest.raises(DatasetError, match="only a settled entry"):
        cutline.read_answer(books.answer(reservation.id))
    assert cutline.top(CLIFF, **pays, **MONDAY).repeated_from is None


def test_two_who_ask_at_once_both_pay_and_the_third_does_not(books, pays):
    one, two = (cutline.quote(**pays, **MONDAY) for _ in range(2))
    started = one.terms.pay(one.cost, mechanism=one.mechanism, question=one.question)
    second = two.run(CLIFF)
    first = one.terms.settle(started, one.work.draw(one.work.count(one.work.bind(CLIFF), None), one.terms.rng))
    assert (first.repeated_from, second.repeated_from) == (None, None)
    assert cutline.top(CLIFF, **pays, **MONDAY).repeated_from == 2
    assert books.show("visits").entries == 2


def test_nothing_private_is_on_the_books(tmp_path, books):
    """Neither what was not released, nor counts, nor the names of users; whatever the form the file keeps it in."""
    asked = {"user": "who", "item": "what", "max_k": 5, "ledger": books, "dataset": "visits", **MONDAY}
    rows = [(f"secret-user-{i}", "castle") for i in range(3457)] + [("secret-user-1", "secret-item")]
    log = pa.table({"who": [who for who, _ in rows], "what": [what for _, what in rows]})
    release = cutline.top(log, **asked)
    assert release.listed() == ["castle"]
    with books._database.reading() as connection:
        tables = [name for (name,) in connection.execute(text("SELECT name FROM sqlite_master WHERE type = 'table'"))]
        written = [str(tuple(row)) for name in tables for row in connection.execute(text(f"SELECT * FROM {name}"))]
    assert any("castle" in row for row in written)
    assert not any("secret" in row or "3457" in row or "3458" in row for row in written)


def test_what_belongs_to_a_ledger_is_refused_without_one():
    for wish in ({"share": "1/20"}, {"purpose": "p"}, {"data_version": "v"}, {"fresh": True}, {"dataset": "d"}):
        with pytest.raises(ParameterError, match="go together"):
            cutline.top(CLIFF, **wish)


def test_a_simulation_is_never_kept_and_never_a_repeat(books, pays):
    cutline.top(CLIFF, **pays, **MONDAY)
    with pytest.raises(ParameterError, match="simulations"):
        cutline.top(CLIFF, **pays, **MONDAY, rng=SeededSource(0))


def test_a_typo_is_refused_before_it_costs_anything_with_a_version_too(books):
    with pytest.raises(SourceError):
        cutline.top(LOG, user="who", item="wat", ledger=books, dataset="visits", **MONDAY)
    assert books.show("visits").entries == 0


def test_an_answer_that_the_books_could_not_keep_is_carried_by_the_error(books, pays, monkeypatch):
    def broken(*_, **__):
        raise SchemaError("the books were replaced", "", "Look for them.")

    monkeypatch.setattr("cutline.ledger.charging.settle", broken)
    with pytest.raises(UnsettledError) as caught:
        cutline.top(CLIFF, **pays, **MONDAY)
    assert caught.value.release.listed() == ["castle", "harbour", "museum"]
    monkeypatch.undo()
    assert cutline.top(CLIFF, **pays, **MONDAY).repeated_from is None


@pytest.mark.parametrize(("share", "used"), [("1/20", 5), ("5%", 5), (0.05, 5), (Fraction(3, 20), 15), ("0.15", 15)])
def test_a_share_is_taken_of_the_whole_account(books, pays, share, used):
    release = cutline.top(CLIFF, **pays, share=share)
    (entry,) = books.history("visits")
    whole = books.show("visits").limits
    taken = 100 * max(entry.reserved.shares(whole))
    assert 0.99 * used < taken <= used
    assert release.budget.releases == 100 // used


def test_a_fraction_of_any_length_is_a_share():
    assert parse_share(Fraction(10**12 - 1, 10**12)) == Fraction(10**12 - 1, 10**12)


def test_what_is_no_share_is_refused(pays):
    for wrong in (
        "0",
        0,
        -1,
        "-1/20",
        1.5,
        "120%",
        "1/0",
        "half",
        "",
        True,
        float("nan"),
        "1e999999999",
        "1" * 5000,
        "1/2/3",
        Fraction(10**12 + 1, 10**12),
        Fraction(0),
    ):
        with pytest.raises(ParameterError, match="share"):
            parse_share(wrong)
    with pytest.raises(ParameterError, match="stands for"):
        cutline.top(CLIFF, **pays, share="1/20", epsilon=1.9)
