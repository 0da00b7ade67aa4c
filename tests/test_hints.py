"""A list that is published again takes its last released cut as a hint: public, reserved twice, charged for what ran."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import cutline
from cutline.errors import BudgetError, ParameterError
from cutline.ledger import Ledger

COUNTS = {f"place {rank}": 2000 if rank < 7 else 900 for rank in range(60)}
FLAT = dict.fromkeys(COUNTS, 900)
MOVED = {f"place {rank}": 2000 if rank < 4 else 900 for rank in range(60)}


@pytest.fixture
def books(tmp_path):
    ledger = Ledger(tmp_path / "books.db")
    budget = cutline.Budget(epsilon=1.0, delta=1e-6, releases=50)
    ledger.create("visits", budget=budget, owner="ann")
    with ledger:
        yield ledger


def ask(books, **others):
    return cutline.quote(ledger=books, dataset="visits", max_k=20, **others)


def shares(books):
    """What each entry took of the account, oldest first, in fiftieths."""
    whole = books.show("visits").limits.rdp
    return [round(float(50 * entry.charged.rdp / whole), 3) for entry in reversed(books.history("visits"))]


def test_the_last_released_cut_is_tested_first_and_one_step_is_charged(books):
    first = ask(books).run(COUNTS)
    assert (first.k, first.mechanism["name"]) == (7, "stable-top-k")
    asked = ask(books)
    assert (asked.mechanism["name"], asked.mechanism["hint"], asked.mechanism["hint_from"]) == (
        "hinted-top-k",
        7,
        "ledger",
    )
    second = asked.run(COUNTS)
    assert (second.k, second.steps, second.listed()) == (7, ("hint",), first.listed())
    assert second.guarantee == asked.guarantee
    assert "is the last one that was released" in second.guarantee
    third = ask(books).run(MOVED)
    assert (third.k, third.steps[0]) == (4, "hint")
    fourth = ask(books)
    assert fourth.mechanism["hint"] == 4
    assert shares(books) == [1.0, 1.0, 2.0]
    reserved = books.history("visits")[0].reserved
    assert float(reserved.rdp / books.show("visits").limits.rdp) == pytest.approx(2 / 50, rel=1e-3)


def test_the_same_question_whatever_its_share_and_version(books):
    ask(books, share="1/10", data_version="monday").run(COUNTS)
    assert ask(books, share="1/40", data_version="tuesday").mechanism["hint"] == 7
    assert ask(books, purpose="weekly").mechanism["hint"] == 7
    for others in (
        {"min_k": 2},
        {"where": "a > 1", "user": "u", "item": "i"},
        {"candidates": [*COUNTS]},
        {"choose": "em"},
    ):
        assert ask(books, **others).mechanism["name"] == "stable-top-k"
    assert ask(books, k=7).mechanism["name"] != "hinted-top-k"


def test_a_repeat_is_recognised_although_the_books_now_have_a_hint(books):
    first = ask(books, data_version="monday").run(COUNTS)
    again = ask(books, data_version="monday").run(COUNTS)
    assert again.repeated_from == first.entry == 1
    assert again.listed() == first.listed()
    other = ask(books, data_version="tuesday").run(COUNTS)
    assert (other.repeated_from, other.steps) == (None, ("hint",))
    assert ask(books, data_version="tuesday").run(COUNTS).repeated_from == other.entry


def test_a_withheld_release_leaves_no_hint(books):
    withheld = ask(books).run(FLAT)
    assert withheld.items is None
    assert ask(books).mechanism["name"] == "stable-top-k"


def test_no_hint_where_none_is_wanted_or_none_can_be_paid(books):
    ask(books).run(COUNTS)
    assert ask(books, hint=False).mechanism["name"] == "stable-top-k"
    assert ask(books, share="2/3").mechanism["name"] == "stable-top-k"  # both steps would be more than all
    ask(books, share="9/10", hint=False).run(COUNTS)
    assert ask(books, share="1/20").mechanism["name"] == "stable-top-k"  # two twentieths are no longer left
    assert ask(books, share="1/50").mechanism["name"] == "hinted-top-k"


def test_no_hint_where_the_analysts_own_limit_pays_for_one_step_alone(books):
    ask(books, analyst="zo\u00eb").run(COUNTS)
    spent = books.show("visits").used["rdp"] / 100
    books.limit("visits", "zo\u00eb", share=spent + 0.03)
    for name in ("zo\u00eb", "zoe\u0308"):
        assert ask(books, analyst=name, share="1/50").mechanism["name"] == "stable-top-k"
        assert ask(books, analyst=name, share="1/100").mechanism["name"] == "hinted-top-k"
    assert ask(books, analyst="bob", share="1/50").mechanism["name"] == "hinted-top-k"
    assert ask(books, analyst="zo\u00eb", share="1/50").run(COUNTS).entry == 2


def test_a_callers_hint_is_public_and_says_so(books):
    asked = ask(books, hint=4)
    assert asked.mechanism["hint"] == 4
    assert "4, is the caller's, and must be public" in asked.guarantee
    release = asked.run(COUNTS)
    assert (release.k, release.steps[0]) == (7, "hint")
    assert ask(books, hint=21).mechanism["name"] == "stable-top-k"  # out of the window
    for wrong in (0, -1, 2.5, "7"):
        with pytest.raises(ParameterError, match="a hint is a whole number"):
            ask(books, hint=wrong)
    with pytest.raises(ParameterError, match="needs a ledger"):
        cutline.quote(max_k=20, hint=7)
    for others in ({"k": 5}, {"mechanism": "table-threshold", "max_items_per_user": 3}):
        with pytest.raises(ParameterError, match="whose end is found"):
            cutline.quote(ledger=books, dataset="visits", hint=7, **others)
    for alone in ({"share": "2/3"}, {"epsilon": 0.9}):
        with pytest.raises(BudgetError, match=r"a budget of one release.* Leave the hint out"):
            ask(books, hint=7, **alone)


def test_counts_come_with_a_hinted_list(books):
    ask(books, counts=True).run(COUNTS)
    release = ask(books, counts=True).run(COUNTS)
    assert release.steps == ("hint", "counts")
    assert set(release.counts) == set(release.items)
    assert shares(books)[1] < 1.2


@pytest.mark.slow
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    days=st.lists(
        st.tuples(
            st.sampled_from([None, False, 1, 4, 7, 19, 400]), st.sampled_from([COUNTS, MOVED, FLAT]), st.integers(3, 40)
        ),
        min_size=1,
        max_size=12,
    )
)
def test_the_total_stays_within_the_account_on_every_path(tmp_path_factory, days):
    """Hints that are right, wrong, stale and out of range; what does not fit is refused, and nothing else is."""
    with Ledger(tmp_path_factory.mktemp("books") / "books.db") as books:
        books.create("visits", budget=cutline.Budget(epsilon=1.0, delta=1e-6, releases=10), owner="ann")
        for hint, counts, parts in days:
            before = books.show("visits")
            asked = ask(books, hint=hint, share=f"1/{parts}")
            fits = before.after(asked.cost).spent.within(before.limits)
            if not fits:
                with pytest.raises(BudgetError):
                    asked.run(counts)
                continue
            release = asked.run(counts)
            after = books.show("visits")
            entry = books.history("visits")[0]
            assert entry.charged.within(entry.reserved)
            assert after.spent == before.spent + entry.charged
            assert after.spent.within(after.limits)
            assert (entry.charged == entry.reserved) == (release.steps != ("hint",))
        assert books.audit().passed
