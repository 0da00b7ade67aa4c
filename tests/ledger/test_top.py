"""`cutline.top` through a ledger: what is checked before the charge, and what a failure after it costs."""

import pyarrow
import pyarrow.parquet
import pytest

import cutline
from cutline.errors import AdjacencyError, BudgetError, EngineError, ParameterError, SourceError
from cutline.ledger.account import charge
from cutline.privacy import Adjacency, Budget, Cost
from cutline.sampling import SeededSource

BUDGET = Budget(epsilon=1.0, delta=1e-6, releases=10)
ASK = {"user": "user_id", "item": "venue", "max_k": 10}


def a_log(path, people=400):
    rows = [(f"u{i}", place) for i in range(people) for place in ("castle", "harbour")]
    table = pyarrow.table({"user_id": [user for user, _ in rows], "venue": [venue for _, venue in rows]})
    pyarrow.parquet.write_table(table, path, compression="none", use_dictionary=False)
    return path


@pytest.fixture
def broken(tmp_path):
    """A file whose schema is whole and whose rows are not: it fails when it is read, and only then."""
    path = a_log(tmp_path / "broken.parquet")
    raw = bytearray(path.read_bytes())
    raw[4 : len(raw) // 2] = bytes(0xFF for _ in raw[4 : len(raw) // 2])
    path.write_bytes(raw)
    return path


def test_a_release_is_charged_and_says_so(file_ledger, tmp_path):
    log = a_log(tmp_path / "log.parquet")
    release = cutline.top(log, **ASK, counts=True, ledger=file_ledger, dataset="visits", analyst="bob")
    assert release.listed() == ["castle", "harbour"]
    assert "all 10 releases of this kind together" in release.guarantee
    (entry,) = file_ledger.history("visits")
    order = file_ledger.show("visits").filter.order
    assert Cost.from_dict(entry.settled_cost) == release.cost
    assert entry.charged == charge(release.cost, order)
    assert entry.settled.rdp == entry.reserved.rdp  # counts of two items cost what those of ten would have
    assert entry.mechanism == dict(release.mechanism)


def test_a_count_that_fails_keeps_the_full_charge(file_ledger, broken):
    with pytest.raises(EngineError):
        cutline.top(broken, **ASK, ledger=file_ledger, dataset="visits")
    account = file_ledger.show("visits")
    (entry,) = file_ledger.history("visits")
    assert (entry.state, account.spent, account.remaining_releases) == ("reserved", entry.reserved, 9)


def test_a_refusal_has_not_read_the_rows(file_ledger, broken):
    """The file cannot be read without an error: another error shows that nobody tried."""
    with pytest.raises(EngineError):
        cutline.top(broken, **ASK, ledger=file_ledger, dataset="visits", releases=1)
    with pytest.raises(BudgetError, match="before any data is read"):
        cutline.top(broken, **ASK, ledger=file_ledger, dataset="visits")


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"item": "venu"}, SourceError),
        ({"where": "count(*) > 1"}, ValueError),
        ({"adjacency": "replace"}, AdjacencyError),
        ({"adjacency": "neighbours"}, ParameterError),
        ({"rng": SeededSource(1)}, ParameterError),
        ({"candidates": []}, ValueError),
        ({"memory_limit": "lots"}, ParameterError),
        ({"min_k": 50}, ParameterError),
        ({"epsilon": 0.01}, BudgetError),
        ({"dataset": None}, ParameterError),
    ],
)
def test_what_is_public_is_refused_for_nothing(file_ledger, tmp_path, change, error):
    log = a_log(tmp_path / "log.parquet", people=3)
    with pytest.raises(error):
        cutline.top(log, **{**ASK, "ledger": file_ledger, "dataset": "visits", **change})
    assert file_ledger.show("visits").entries == 0


def test_the_datasets_own_adjacency_is_taken(tmp_path):
    books = tmp_path / "books.db"
    with cutline.Ledger(books) as ledger:
        limits = BUDGET.filter(order=16.0, delta_share=0.25)
        ledger.create("polls", budget=BUDGET, limits=limits, adjacency=Adjacency.REPLACE, owner="ann")
    release = cutline.top({"a": 900, "b": 3}, max_k=5, ledger=books, dataset="polls")
    assert release.cost.adjacency is Adjacency.REPLACE
    with pytest.raises(ParameterError, match="go together"):
        cutline.top({"a": 900}, max_k=5, dataset="polls")


def test_a_ledger_given_as_an_object_stays_open(tmp_path):
    """Who opened the books closes them: a service keeps one ledger for all its releases."""
    closed = []

    class Watched(cutline.Ledger):
        def __exit__(self, *error):
            closed.append(self)
            super().__exit__(*error)

    with Watched(tmp_path / "books.db") as ledger:
        ledger.create("polls", budget=BUDGET, limits=BUDGET.filter(order=16.0, delta_share=0.25), owner="ann")
        cutline.top({"a": 900, "b": 3}, max_k=5, ledger=ledger, dataset="polls")
        assert not closed
        assert ledger._database._engine.pool.checkedin() == 1  # its connection is idle and kept


def test_without_a_ledger_the_old_numbers_hold():
    release = cutline.top({"a": 900, "b": 3}, max_k=5)
    assert release.budget == Budget(epsilon=1.0, delta=1e-6)
    assert release.cost.adjacency is Adjacency.ADD_REMOVE
