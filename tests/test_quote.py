"""A quote settles everything public before a row is read, and is the one place that pays."""

import json

import numpy as np
import pyarrow as pa
import pytest

import cutline
from cutline.counting import ask, bind
from cutline.errors import AdjacencyError, BudgetError, ParameterError, SourceError
from cutline.ledger import Ledger
from cutline.pate import OptimalVote
from cutline.pate.label import BallotBox, quote_labels
from cutline.privacy import Adjacency, BitTable, Budget
from cutline.sampling import SeededSource

CLIFF = {"castle": 900, "harbour": 880, "museum": 870, "kiosk": 12, "garage": 11}
BUDGET = Budget(epsilon=2.0, delta=1e-6, releases=10)

BALLOTS = np.zeros((80, 3, 4), dtype=np.int64)
BALLOTS[:70, 0, 1] = BALLOTS[:75, 1, 2] = 1


@pytest.fixture
def books(tmp_path):
    path = tmp_path / "books.db"
    with Ledger(path) as ledger:
        ledger.create("visits", budget=BUDGET, limits=BUDGET.filter(order=12.0, delta_share=0.25), owner="ann")
        ledger.create(
            "votes",
            budget=BUDGET,
            limits=BUDGET.filter(order=12.0, delta_share=0.25),
            adjacency=Adjacency.REPLACE,
            owner="ann",
        )
        yield ledger


def test_top_is_a_quote_that_is_run():
    asked = cutline.quote(k=3, max_k=20, rng=SeededSource(4))
    assert asked.run(CLIFF) == cutline.top(CLIFF, k=3, max_k=20, rng=SeededSource(4))


def test_the_verb_keeps_its_name_although_a_module_is_called_the_same():
    import cutline.quote

    assert cutline.quote(max_k=5).mechanism["name"] == "stable-top-k"


def test_a_quote_reads_nothing_and_promises_what_the_release_states():
    asked = cutline.quote(user="who", item="what", k=2, max_k=10, epsilon=0.5, releases=4, adjacency="replace")
    with pytest.raises(SourceError):
        asked.run("no-such-file.parquet")
    asked = cutline.quote(k=2, max_k=10, epsilon=0.5, releases=4, adjacency="replace", counts=True)
    release = asked.run(CLIFF)
    assert release.guarantee == asked.guarantee
    assert dict(release.mechanism) == dict(asked.mechanism)
    assert asked.budget.fits(asked.cost)


def test_a_table_is_promised_as_a_table(tmp_path):
    log = tmp_path / "log.csv"
    log.write_text("who,what,day\n" + "".join(f"u{n},castle,mon\n" for n in range(300)))
    asked = cutline.quote(
        by="day", groups=["mon", "tue"], user="who", item="what", max_k=5, rng=SeededSource(0), test="paper"
    )
    table = asked.run(log)
    assert table.guarantee == asked.guarantee
    assert asked.cost == table.reserved
    assert json.dumps(table.to_dict(), allow_nan=False)


def test_it_says_what_would_be_left(books):
    asked = cutline.quote(k=2, max_k=10, ledger=books, dataset="visits")
    plain = json.loads(json.dumps(asked.to_dict(), allow_nan=False))
    assert (plain["ledger"]["remaining_releases"], plain["ledger_after"]["remaining_releases"]) == (10, 9)
    assert books.show("visits").entries == 0  # asking for a price costs nothing
    release = asked.run(CLIFF)
    assert release.account == books.show("visits").to_dict()
    assert release.account["entries"] == plain["ledger_after"]["entries"] == 1


def test_books_by_address_and_as_an_object_alike(books, tmp_path):
    address = str(tmp_path / "books.db")
    for ledger in (books, address, tmp_path / "books.db"):
        cutline.top(CLIFF, k=2, max_k=10, ledger=ledger, dataset="visits")
        cutline.label(BALLOTS, ledger=ledger, dataset="votes")
    assert [books.show(name).entries for name in ("visits", "votes")] == [3, 3]


def test_labels_take_the_share_of_one_release_like_any_other(books):
    labels = cutline.label(BALLOTS, ledger=books, dataset="votes")
    account = books.show("votes")
    assert account.remaining_releases == 9
    assert 0.0999 < account.spent.rdp / account.limits.rdp <= 0.1
    assert labels.guarantee.startswith("(2, 1e-06)-DP for one teacher's whole ballot changing; covers these 3 queries")
    assert labels.account == account.to_dict()
    (entry,) = books.history("votes")
    assert entry.mechanism["queries"] == 3
    with pytest.raises(BudgetError):
        cutline.label(BALLOTS, epsilon=2.0, ledger=books, dataset="votes")


def test_a_classifier_pays_with_books_by_their_address(books, tmp_path):
    from sklearn.datasets import make_multilabel_classification

    features, labels = make_multilabel_classification(400, 6, n_classes=3, n_labels=1, random_state=0)
    model = cutline.PATEClassifier(n_teachers=30, random_state=0)
    model.fit(features[:380], labels[:380], X_public=features[380:], ledger=str(tmp_path / "books.db"), dataset="votes")
    account = books.show("votes")
    assert account.remaining_releases == 9
    assert model.labels_.account == account.to_dict()
    assert model.privacy_.epsilon == BUDGET.epsilon


def test_labels_without_a_ledger_are_those_of_the_aggregator():
    labels = cutline.label(BALLOTS, epsilon=8.0, rng=SeededSource(0))
    assert labels.values.tolist() == [[0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 0]]
    assert labels.budget == Budget(epsilon=8.0, delta=1e-6, releases=3)
    assert labels.guarantee.startswith("(8, 1e-06)-DP for one teacher's whole ballot changing; covers these 3 queries")
    votes = BALLOTS.sum(axis=0)
    again = cutline.label(votes, teachers=80, epsilon=8.0, rng=SeededSource(0))
    assert (again.values == labels.values).all()


@pytest.mark.parametrize(
    ("ballots", "options", "words"),
    [
        (BALLOTS.sum(axis=0), {}, "number of teachers is public"),
        (BALLOTS.sum(axis=0), {"teachers": 80, "limit": 1}, "needs the ballots"),
        (BALLOTS.sum(axis=0), {"teachers": 80, "aggregator": "powerset-vote"}, "in its own way"),
        (BALLOTS[0, 0], {}, "three axes"),
        (BALLOTS[:0], {}, "none of them empty"),
        (BALLOTS.astype(complex), {}, "booleans or integers"),
        (BALLOTS.astype(object), {}, "booleans or integers"),
        (BALLOTS.tolist(), {}, "declared type"),  # one odd cell would change the type of all
        (BALLOTS, {"limit": 1, "scores": BALLOTS[:3]}, "shape of the ballots"),
        (BALLOTS, {"limit": 1, "scores": BALLOTS.tolist()}, "declared type"),
        (BALLOTS.sum(axis=0).astype(float), {"teachers": 80}, "whole numbers"),
        (BALLOTS, {"teachers": 20}, "at most the declared teachers"),
        (BALLOTS, {"aggregator": "pate-tau"}, "ballot limit"),
        (BALLOTS, {"aggregator": "magic"}, "registered"),
        (BALLOTS, {"adjacency": "near"}, "add-remove or replace"),
        (BALLOTS, {"dataset": "votes"}, "go together"),
    ],
)
def test_labels_are_refused_for_public_reasons_and_for_nothing(books, ballots, options, words):
    paying = {"ledger": books, "dataset": "votes"} if "dataset" not in options else {}
    with pytest.raises(ParameterError, match=words):
        cutline.label(ballots, **paying | options)
    assert books.show("votes").entries == 0


@pytest.mark.parametrize("budget", [None, Budget(epsilon=4.0, delta=1e-6, releases=3)])
def test_an_aggregator_of_the_callers_own_keeps_its_cost_and_speaks_for_itself(books, budget):
    table = BitTable.voting(order=8.0, rdp=0.002, teachers=80)
    own = OptimalVote(table=table, teachers=80, labels=4, budget=budget)
    for paying in ({}, {"ledger": books, "dataset": "votes"}):
        asked = quote_labels(queries=3, labels=4, teachers=80, aggregator=own, epsilon=BUDGET.epsilon, **paying)
        labels = cutline.label(BALLOTS, aggregator=own, epsilon=BUDGET.epsilon, **paying)
        assert asked.cost == labels.cost == 3 * own.cost
        assert asked.guarantee == labels.guarantee
        assert asked.guarantee.startswith("(4, 1e-06)-DP") == (budget is not None)
    with pytest.raises(ParameterError, match="made for the teachers"):
        cutline.label(BALLOTS[:70], aggregator=own)


def test_candidates_may_come_from_a_generator():
    release = cutline.top(CLIFF, candidates=(name for name in ("castle", "kiosk", "moon")), max_k=3, test="paper")
    assert release.listed() == ["castle"]


def test_labels_never_take_the_relation_of_an_account_of_users(books):
    """A record changes its teacher's ballot arbitrarily, also where the account protects users who join or leave."""
    with pytest.raises(AdjacencyError, match="add-remove"):
        cutline.label(BALLOTS, ledger=books, dataset="visits")
    assert books.show("visits").entries == 0


def test_only_arrays_declare_their_type():
    for ballots in (BALLOTS.tolist(), pa.table({"a": pa.array([30, None], pa.int64())})):
        with pytest.raises(ParameterError, match="numpy arrays"):
            cutline.label(ballots, teachers=80)


def test_the_queries_are_those_that_were_quoted(books):
    asked = quote_labels(queries=1, labels=4, teachers=80, ledger=books, dataset="votes")
    with pytest.raises(ParameterError, match="queries that were quoted"):
        asked.run(BallotBox.of(BALLOTS))
    assert books.show("votes").entries == 0


def test_a_share_is_the_mechanisms_own_also_with_counts():
    asked = cutline.quote(k=3, max_k=20, test_share=0.4, counts=True)
    usual = cutline.quote(k=3, max_k=20, counts=True)
    assert asked.mechanism["counts"]["sigma_of_one"] == pytest.approx(
        usual.mechanism["counts"]["sigma_of_one"], rel=0.2
    )
    with pytest.raises(ParameterError, match="share"):
        cutline.quote(k=3, max_k=20, test_share=0.7, counts=True)


@pytest.mark.parametrize("wrong", [{"colour": None}, {"limits": None}, {"key": "x"}])
def test_what_nobody_takes_is_refused_also_if_it_is_none(wrong):
    with pytest.raises(ParameterError):
        cutline.top(CLIFF, max_k=5, **wrong)


def test_numbers_of_numpy_are_numbers():
    release = cutline.top(CLIFF, max_k=20, epsilon=np.float64(4), delta=np.float32(1e-6), releases=np.int16(2))
    assert release.guarantee.startswith("(4, 1.00e-06)-DP") or release.guarantee.startswith("(4, 1e-06)-DP")
    assert json.dumps(release.to_dict(), allow_nan=False)


def test_a_bound_log_shows_nothing():
    assert "alice" not in repr(bind({"alice": 5}, ask()))


@pytest.mark.parametrize(
    ("mechanism", "k"), [("peeling-em", 4), ("permute-and-flip", 4), ("joint-em", 3), ("subset-em", 3)]
)
def test_more_items_than_candidates_are_refused_for_nothing(books, mechanism, k):
    with pytest.raises(ParameterError, match="number of candidates"):
        cutline.top(
            CLIFF, candidates=["castle", "kiosk", "moon"], k=k, mechanism=mechanism, ledger=books, dataset="visits"
        )
    assert books.show("visits").entries == 0
