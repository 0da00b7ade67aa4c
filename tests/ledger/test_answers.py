"""What is written beside a charge: the question, the purpose, the answer, notes, and who may ask."""

import json
from types import SimpleNamespace

import pytest

from cutline.errors import BudgetError, DatasetError, ParameterError, SettlementError
from cutline.ledger import Ledger
from cutline.ledger.account import charge
from cutline.privacy import Budget

HOW = {"name": "test", "max_k": 3}
BUDGET = Budget(epsilon=1.0, delta=1e-6, releases=10)
FILTER = BUDGET.filter(order=16.0, delta_share=0.25)
QUESTION = {"item": "venue", "user": "user_id", "k": 3, "where": "day > 3", "share": "1/10"}
ANSWER = {"items": ["castle", "café \ud800", None, 7], "k": 3, "status": "released"}


def ask(ledger, cost, result, *, answer=ANSWER, question=QUESTION, data_version="2026-11-16", **others):
    reservation = ledger.reserve(
        cost, dataset="visits", mechanism=HOW, question=question, data_version=data_version, **others
    )
    ledger.settle(reservation, result, answer=answer)
    return reservation.id


def test_a_paid_answer_is_kept_with_its_question(ledger, cost, ran, url):
    key = ask(ledger, cost, ran(cost), purpose="weekly report", analyst="bob")
    with Ledger(url) as later:
        entry = later.answer(key)
        (listed,) = later.history("visits")
    assert (entry.answer, entry.answered, entry.question, entry.purpose) == (ANSWER, True, QUESTION, "weekly report")
    assert (entry.data_version, entry.state, entry.dataset, entry.analyst) == (
        "2026-11-16",
        "settled",
        "visits",
        "bob",
    )
    assert json.loads(json.dumps(entry.to_dict()))["answer"] == ANSWER
    assert (listed.answered, listed.answer, listed.question) == (True, None, QUESTION)


def test_an_entry_without_an_answer(ledger, cost, ran):
    key = ask(ledger, cost, ran(cost), answer=None)
    open_key = ledger.reserve(cost, dataset="visits", mechanism=HOW).id
    for each in (key, open_key):
        assert (ledger.answer(each).answer, ledger.answer(each).answered) == (None, False)
    assert ledger.find_answer("visits", question=QUESTION, data_version="2026-11-16") is None
    for wrong in (99, 2**62):
        with pytest.raises(DatasetError, match="must know the entry"):
            ledger.answer(wrong)
    for wrong in (0, -1, True, "1", 2**63, None):
        with pytest.raises(ParameterError, match="named by its id"):
            ledger.answer(wrong)


def test_a_repeat_is_the_same_question_about_the_same_version(ledger, cost, ran):
    first = ask(ledger, cost, ran(cost))
    second = ask(ledger, cost, ran(cost), answer={"n": 2})
    third = ask(ledger, cost, ran(cost), answer={"n": 3}, data_version="2026-11-17")
    fourth = ask(ledger, cost, ran(cost), answer={"n": 4}, data_version=None)
    shuffled = dict(reversed(QUESTION.items()))
    assert ledger.find_answer("visits", question=shuffled, data_version="2026-11-16").id == second > first
    assert ledger.find_answer("visits", question=QUESTION, data_version="2026-11-17").answer == {"n": 3}
    assert fourth > third
    assert ledger.find_answer("visits", question=QUESTION, data_version=None) is None
    assert ledger.find_answer("visits", question=QUESTION, data_version="2026-11-18") is None
    for other in ({**QUESTION, "k": 4}, {**QUESTION, "k": "3"}, {"item": "venue"}):
        assert ledger.find_answer("visits", question=other, data_version="2026-11-16") is None


def test_the_last_cut_of_a_topic_is_the_last_that_went_out(ledger, cost, ran):
    topic = {"item": "venue", "max_k": 20}

    def publish(cut, topic=topic, **more):
        asked = {"topic": topic, "share": "1/20", **more}
        reservation = ledger.reserve(
            cost, dataset="visits", mechanism=HOW, question=asked, data_version=more.get("day")
        )
        ledger.settle(reservation, ran(cost), answer={"cut": cut}, cut=cut)

    assert ledger.last_cut("visits", topic=topic) is None
    publish(7, day="1")
    publish(None, day="2")  # withheld: nothing was shown
    publish(12, topic={"item": "venue", "max_k": 30})
    assert ledger.last_cut("visits", topic=dict(reversed(topic.items()))) == 7
    publish(5, day="3", share="1/7")
    assert ledger.last_cut("visits", topic=topic) == 5
    assert ledger.last_cut("visits", topic={"item": "page", "max_k": 20}) is None
    ledger.create("other", budget=BUDGET, limits=FILTER, owner="ann")
    assert ledger.last_cut("other", topic=topic) is None
    assert ledger.audit().passed


def test_an_answer_that_cannot_be_written_changes_nothing(ledger, cost, cheaper, ran):
    reservation = ledger.reserve(cost, dataset="visits", mechanism=HOW)
    for wrong in ({"a": object()}, {"a": float("inf")}, {"a": {1, 2}}):
        with pytest.raises(ParameterError, match="an answer is given to a ledger in plain data"):
            ledger.settle(reservation, ran(cheaper), answer=wrong)
        with pytest.raises(ParameterError, match="a question is given to a ledger in plain data"):
            ledger.reserve(cost, dataset="visits", mechanism=HOW, question=wrong)
    with pytest.raises(ParameterError, match="a question is given to a ledger in plain data"):
        ledger.reserve(cost, dataset="visits", mechanism=HOW, question=["top of item"])
    assert ledger.history("visits")[0].state == "reserved"
    ledger.settle(reservation, ran(cheaper), answer={"n": 1})
    with pytest.raises(SettlementError, match="settled once"):
        ledger.settle(reservation, ran(cheaper), answer={"n": 2})
    assert ledger.answer(reservation.id).answer == {"n": 1}


def test_an_account_that_lists_its_analysts_refuses_others(ledger, cost, ran):
    ledger.create("clinic", budget=BUDGET, limits=FILTER, owner="ann", analysts=["bob", "eve"])
    account = ledger.show("clinic")
    assert account.lists_analysts
    assert [(one.name, one.allowed) for one in account.analysts] == [("bob", True), ("eve", True)]
    reservation = ledger.reserve(
        cost, dataset="clinic", analyst="bob", mechanism=HOW, question=QUESTION, data_version="1"
    )
    ledger.settle(reservation, ran(cost), answer=ANSWER)
    for stranger in ("joe", None, "BOB"):
        for act in (
            lambda who=stranger: ledger.reserve(cost, dataset="clinic", analyst=who, mechanism=HOW),
            lambda who=stranger: ledger.find_answer("clinic", question=QUESTION, data_version="1", analyst=who),
            lambda who=stranger: ledger.last_cut("clinic", topic={"item": "venue"}, analyst=who),
        ):
            with pytest.raises(ParameterError, match="lists its analysts"):
                act()
    assert ledger.find_answer("clinic", question=QUESTION, data_version="1", analyst="eve").answer == ANSWER
    ledger.allow("clinic", "joe")
    ledger.reserve(cost, dataset="clinic", analyst="joe", mechanism=HOW)
    for wrong in ([], "bob", [""], [7]):
        with pytest.raises(ParameterError):
            ledger.create("new", budget=BUDGET, limits=FILTER, owner="ann", analysts=wrong)
    assert ledger.datasets() == ["clinic", "visits"]


def test_allowing_one_begins_a_list(ledger, cost):
    ledger.reserve(cost, dataset="visits", mechanism=HOW, analyst="eve")
    ledger.allow("visits", "bob")
    ledger.reserve(cost, dataset="visits", mechanism=HOW, analyst="bob")
    with pytest.raises(ParameterError, match="lists its analysts"):
        ledger.reserve(cost, dataset="visits", mechanism=HOW, analyst="eve")
    ledger.limit("visits", "bob", share=0.1)
    with pytest.raises(BudgetError, match="limit of 'bob'"):
        ledger.reserve(cost, dataset="visits", mechanism=HOW, analyst="bob")


@pytest.mark.parametrize("share", ["1/4", "25%", "0.25", 0.25])
def test_a_limit_is_a_share_as_people_write_it(ledger, share):
    ledger.limit("visits", "bob", share=share)
    account = ledger.show("visits")
    assert account.analysts[0].limits.rdp == pytest.approx(float(account.limits.rdp) / 4)
    with pytest.raises(ParameterError, match="a share of a budget is above 0 and at most 1"):
        ledger.limit("visits", "bob", share="5/4")


@pytest.mark.parametrize("cut", ["a", 0, -1, 2.0, True, 2**63])
def test_a_cut_that_is_none_is_refused_and_stays_charged(ledger, cost, cut):
    reservation = ledger.reserve(cost, dataset="visits", mechanism=HOW)
    with pytest.raises(SettlementError, match="a cut is a whole number"):
        ledger.settle(reservation, SimpleNamespace(cost=cost, seeded=False), cut=cut)
    assert ledger.history("visits")[0].state == "reserved"


def test_a_note_stays_and_so_does_the_charge(ledger, cost):
    key = ledger.reserve(cost, dataset="visits", mechanism=HOW).id
    ledger.note(key, "the machine lost power")
    ledger.note(key, "nobody saw an answer")
    (entry,) = ledger.history("visits")
    assert [note.text for note in entry.notes] == ["the machine lost power", "nobody saw an answer"]
    assert entry.notes[0].at <= entry.notes[1].at
    assert (entry.state, ledger.show("visits").spent) == ("reserved", charge(cost, 16.0))
    for wrong in ("", "two\nlines", 7, "x" * 2001):
        with pytest.raises(ParameterError, match="one line"):
            ledger.note(key, wrong)
    with pytest.raises(DatasetError, match="must know the entry"):
        ledger.note(99, "lost")


def test_two_spellings_of_one_name_are_one_account(ledger, cost):
    composed, apart = "caf\u00e9", "cafe\u0301"
    ledger.create(composed, budget=BUDGET, limits=FILTER, owner="ann")
    with pytest.raises(DatasetError, match="created once"):
        ledger.create(apart, budget=BUDGET, limits=FILTER, owner="ann")
    ledger.limit(apart, apart, share=0.1)
    ledger.reserve(cost, dataset=apart, analyst=apart, mechanism=HOW)
    with pytest.raises(BudgetError, match="the limit of"):
        ledger.reserve(cost, dataset=composed, analyst=composed, mechanism=HOW)
    assert ledger.show(apart).dataset == ledger.history(composed)[0].analyst == composed


def test_names_that_are_no_text_are_refused_wherever_they_are_asked_for(ledger, cost):
    for name in ("\udc80", "", None, 7, b"visits"):
        for act in (
            ledger.show,
            ledger.history,
            ledger.burn_down,
            ledger.close,
            lambda given: ledger.reserve(cost, dataset=given, mechanism=HOW),
            lambda given: ledger.allow("visits", given),
            lambda given: ledger.limit(given, "bob", share=0.5),
            lambda given: ledger.last_cut(given, topic={"item": "venue"}),
        ):
            with pytest.raises(ParameterError, match="printable"):
                act(name)
