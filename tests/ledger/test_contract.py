"""What every ledger must do, on both databases."""

import datetime as dt
import json
import pickle
from fractions import Fraction

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.exc import DBAPIError

from cutline import __version__
from cutline.errors import (
    AdjacencyError,
    BudgetError,
    DatasetError,
    ParameterError,
    SchemaError,
    SettlementError,
)
from cutline.histogram import OpenHistogram
from cutline.ledger import Ledger
from cutline.ledger.database import parse
from cutline.ledger.sums import Sums, charge
from cutline.mechanisms import StableTopK, mechanism
from cutline.privacy import Adjacency, BitTable, BoundedRange, Budget, Cost, Filter

HOW = {"name": "test", "max_k": 3}
BUDGET = Budget(epsilon=1.0, delta=1e-6, releases=10)
FILTER = BUDGET.filter(order=16.0, delta_share=0.25)


def never():
    raise AssertionError("data was read")


def test_exactly_ten_tenths_fit(ledger, cost, ran):
    for left in range(9, -1, -1):
        ledger.settle(ledger.reserve(cost, dataset="visits", mechanism=HOW), ran(cost))
        assert ledger.show("visits").remaining_releases == left
    with pytest.raises(BudgetError):
        ledger.reserve(cost, dataset="visits", mechanism=HOW)
    account = ledger.show("visits")
    assert account.spent == Sums(rdp=10 * charge(cost, 16.0).rdp, delta=10 * charge(cost, 16.0).delta)
    assert account.entries == len(ledger.history("visits")) == 10
    assert 99.9 < account.used["rdp"] <= 100


def test_what_was_fixed_is_read_back_bit_by_bit(url):
    """Numbers that a decimal or a 32-bit column would bend, and names that need quoting."""
    budget = Budget(epsilon=1.1 + 2.2, delta=1e-6 / 3, releases=7)
    limits = Filter(order=17.1 / 3, rdp=5e-324, delta=2.0**-40 / 3)
    name = 'visits\' "2024" ☂'
    with Ledger(url) as ledger:
        ledger.create(name, budget=budget, limits=limits, adjacency=Adjacency.REPLACE, owner="Ann Ö", unit="user id")
    with Ledger(url) as ledger:
        account = ledger.show(name)
        assert (account.budget, account.filter, account.adjacency) == (budget, limits, Adjacency.REPLACE)
        assert (account.owner, account.unit, account.state, account.entries) == ("Ann Ö", "user id", "open", 0)
        assert account.spent == Sums()
        assert ledger.datasets() == [name]


def test_settling_takes_off_exactly_what_reserving_put_on(ledger, cost, cheaper, ran):
    first = ledger.reserve(cost, dataset="visits", mechanism=HOW, analyst="bob")
    second = ledger.reserve(cost, dataset="visits", mechanism=HOW, analyst="bob")
    assert ledger.show("visits").spent == charge(cost, 16.0) + charge(cost, 16.0)
    ledger.settle(first, ran(cheaper))
    account = ledger.show("visits")
    assert account.spent == charge(cost, 16.0) + charge(cheaper, 16.0)
    assert account.analysts[0].spent == account.spent
    ledger.settle(second, ran(Cost(adjacency=Adjacency.ADD_REMOVE)))
    account = ledger.show("visits")
    assert account.spent == account.analysts[0].spent == charge(cheaper, 16.0)


def test_an_entry_says_who_what_when_and_how_much(ledger, cost, cheaper, ran):
    before = dt.datetime.now(dt.UTC)
    ledger.settle(ledger.reserve(cost, dataset="visits", analyst="bob", mechanism=HOW), ran(cheaper))
    ledger.reserve(cost, dataset="visits", mechanism={"name": "other"})
    after = dt.datetime.now(dt.UTC)
    newest, oldest = ledger.history("visits")
    assert (newest.state, newest.settled, newest.settled_cost, newest.analyst) == ("reserved", None, None, None)
    assert newest.charged == newest.reserved == charge(cost, 16.0)
    assert (oldest.state, oldest.analyst, oldest.mechanism, oldest.version) == ("settled", "bob", HOW, __version__)
    assert before <= dt.datetime.fromisoformat(oldest.at) <= dt.datetime.fromisoformat(oldest.settled_at) <= after
    assert Cost.from_dict(oldest.reserved_cost) == cost
    assert Cost.from_dict(oldest.settled_cost) == cheaper
    assert oldest.charged == charge(cheaper, 16.0)
    assert json.loads(json.dumps(oldest.to_dict()))["state"] == "settled"


def test_history_is_paged_by_key(ledger, cheaper):
    ids = [ledger.reserve(cheaper, dataset="visits", mechanism={"n": i}).id for i in range(7)]
    pages, before = [], None
    while page := ledger.history("visits", before=before, limit=3):
        pages.append([entry.id for entry in page])
        before = page[-1].id
    assert pages == [ids[:-4:-1], ids[3:0:-1], ids[:1]]
    for limit in (0, -1, 10**6, True, 2.5):
        with pytest.raises(ParameterError, match="1 to 10,000"):
            ledger.history("visits", limit=limit)
    for wrong in (0, -1, 2**63, True, "7"):
        with pytest.raises(ParameterError, match="id of an entry"):
            ledger.history("visits", before=wrong)


def test_a_refusal_leaves_no_trace_and_reads_nothing(ledger, cost):
    dear = StableTopK.calibrate(Budget(epsilon=8.0, delta=1e-6), max_k=20)
    with pytest.raises(BudgetError, match="largest epsilon that fits") as refused:
        ledger.release(dear, never, dataset="visits", analyst="bob")
    assert "100 %" in refused.value.value
    account = ledger.show("visits")
    assert (account.entries, account.spent, account.analysts) == (0, Sums(), ())


@pytest.mark.parametrize("limit", ["rdp", "delta"])
def test_each_sum_has_its_own_limit(ledger, limit):
    rdp, delta = FILTER.rdp / 100, FILTER.delta / 100
    over = Cost.of(
        BoundedRange.within(order=16.0, rdp=2 * FILTER.rdp if limit == "rdp" else rdp),
        adjacency=Adjacency.ADD_REMOVE,
        delta=delta if limit == "rdp" else 1.01 * FILTER.delta,
    )
    with pytest.raises(BudgetError):
        ledger.reserve(over, dataset="visits", mechanism=HOW)


def test_an_infinite_cost_is_refused(ledger):
    """A test that says a certain yes beside an uncertain one has no finite Rényi divergence."""
    endless = Cost.of(BitTable.approximate(epsilon=0.5, delta=1e-9), adjacency=Adjacency.ADD_REMOVE)
    assert endless.rdp(16.0) == float("inf")
    with pytest.raises(BudgetError, match="finite"):
        ledger.reserve(endless, dataset="visits", mechanism=HOW)


def test_what_cannot_be_settled_stays_charged(ledger, cost, cheaper, ran):
    ledger.create("other", budget=BUDGET, limits=FILTER, owner="ann")
    reservation = ledger.reserve(cost, dataset="visits", mechanism=HOW)
    foreign = ledger.reserve(cost, dataset="other", mechanism=HOW)
    swapped = type(foreign)(id=foreign.id, dataset="visits", analyst=None, cost=cost, at=foreign.at)
    dear = Cost.of(BoundedRange(epsilon=3.0), adjacency=Adjacency.ADD_REMOVE)
    wide = Cost(adjacency=Adjacency.ADD_REMOVE, uses=(*cheaper.uses, *cost.uses))
    unknown = type(foreign)(id=10**6, dataset="visits", analyst=None, cost=cost, at=foreign.at)
    impossible = type(foreign)(id=2**70, dataset="visits", analyst=None, cost=cost, at=foreign.at)
    endless = Cost.of(BitTable.approximate(epsilon=0.5, delta=1e-9), adjacency=Adjacency.ADD_REMOVE)
    for given, release, words in (
        (reservation, ran(cost, seeded=True), "simulation"),
        (reservation, ran(cost, seeded=None), "simulation"),
        (reservation, ran(dear), "at most what was reserved"),
        (reservation, ran(wide), "at most what was reserved"),
        (reservation, ran(endless), "at most what was reserved"),
        (reservation, ran(Cost.of(BoundedRange(epsilon=1e-3), adjacency=Adjacency.REPLACE)), "same adjacency"),
        (swapped, ran(cost), "books it was made in"),
        (unknown, ran(cost), "books it was made in"),
        (impossible, ran(cost), "books it was made in"),
    ):
        with pytest.raises(SettlementError, match=words):
            ledger.settle(given, release)
    assert ledger.show("visits").spent == ledger.show("other").spent == charge(cost, 16.0)
    ledger.settle(reservation, ran(cheaper))
    with pytest.raises(SettlementError, match="settled once"):
        ledger.settle(reservation, ran(Cost(adjacency=Adjacency.ADD_REMOVE)))
    assert ledger.show("visits").spent == charge(cheaper, 16.0)


def test_another_adjacency_is_refused(ledger):
    with pytest.raises(AdjacencyError, match="add-remove"):
        ledger.reserve(
            Cost.of(BoundedRange(epsilon=1e-3), adjacency=Adjacency.REPLACE), dataset="visits", mechanism=HOW
        )


def test_a_dataset_is_created_once_and_closed_for_good(ledger, cost, ran):
    with pytest.raises(DatasetError, match="created once"):
        ledger.create("visits", budget=Budget(epsilon=9.0, delta=1e-6), limits=FILTER, owner="eve")
    reservation = ledger.reserve(cost, dataset="visits", mechanism=HOW)
    ledger.close("visits")
    closed = ledger.show("visits").closed
    ledger.close("visits")
    assert ledger.show("visits").closed == closed
    with pytest.raises(DatasetError, match="closed"):
        ledger.reserve(cost, dataset="visits", mechanism=HOW)
    ledger.settle(reservation, ran(cost))
    account = ledger.show("visits")
    assert (account.state, account.remaining_releases, account.owner) == ("closed", 0, "ann")
    for ask in (ledger.show, ledger.history, ledger.close, ledger.burn_down):
        with pytest.raises(DatasetError, match="must know the dataset"):
            ask("unheard of")


def test_a_filter_outside_the_budget_is_refused(url):
    with Ledger(url) as ledger:
        for limits in (
            Filter(order=16.0, rdp=FILTER.rdp * 1.001, delta=FILTER.delta),
            Filter(order=16.0, rdp=FILTER.rdp, delta=BUDGET.delta),
            Filter(order=16.0, rdp=0.0, delta=0.0),
        ):
            with pytest.raises(BudgetError, match="within its budget"):
                ledger.create("visits", budget=BUDGET, limits=limits, owner="ann")


def test_limits_per_analyst(ledger, cost):
    ledger.reserve(cost, dataset="visits", mechanism=HOW, analyst="bob")
    ledger.limit("visits", "bob", share=0.25)
    ledger.limit("visits", "eve", rdp=0.0, delta=0.0)
    ledger.reserve(cost, dataset="visits", mechanism=HOW, analyst="bob")
    with pytest.raises(BudgetError, match="limit of 'bob'"):
        ledger.reserve(cost, dataset="visits", mechanism=HOW, analyst="bob")
    with pytest.raises(BudgetError, match="limit of 'eve'"):
        ledger.reserve(cost, dataset="visits", mechanism=HOW, analyst="eve")
    with pytest.raises(ParameterError, match="who asks"):
        ledger.reserve(cost, dataset="visits", mechanism=HOW)
    ledger.reserve(cost, dataset="visits", mechanism=HOW, analyst="joe")
    account = ledger.show("visits")
    assert account.remaining_releases == 7
    assert {a.name: a.limits is None for a in account.analysts} == {"bob": False, "eve": False, "joe": True}
    ledger.limit("visits", "bob", share=1.0)
    ledger.reserve(cost, dataset="visits", mechanism=HOW, analyst="bob")
    for wrong in ({"share": 1.5}, {"share": float("nan")}, {"rdp": 0.1}, {"rdp": 1e9, "delta": 0.0}, {}):
        with pytest.raises(ParameterError, match="share between 0 and 1"):
            ledger.limit("visits", "bob", **wrong)


def test_a_release_goes_through_and_is_refunded(ledger):
    """Test-first pays the dearest path, and gets back what a passed test did not use."""
    ready = mechanism("test-first").calibrate(BUDGET, limits=FILTER, k=2, max_k=20)
    counts = OpenHistogram.from_counts({"a": 91_372_118, "b": 80_461_339, "c": 1}, max_k=20)
    seen = []

    def read():
        seen.append(ledger.show("visits").spent)
        return counts

    release = ledger.release(ready, read, dataset="visits", analyst="bob")
    assert seen == [charge(ready.cost, 16.0)]
    assert release.listed() == ["a", "b"]
    assert not release.seeded
    (entry,) = ledger.history("visits")
    assert (entry.mechanism, entry.state) == (ready.describe(), "settled")
    assert entry.charged == charge(release.cost, 16.0) == ledger.show("visits").spent
    assert entry.charged.rdp < entry.reserved.rdp / 5
    assert "91372118" not in json.dumps(entry.to_dict())


@pytest.mark.parametrize("failure", [ValueError("row 'Alice'"), KeyboardInterrupt()])
def test_a_failure_after_the_reserve_keeps_the_full_charge(ledger, failure):
    ready = mechanism("limited-domain").calibrate(BUDGET, limits=FILTER, k=2, max_k=20)

    def read():
        raise failure

    with pytest.raises(type(failure)):
        ledger.release(ready, read, dataset="visits")
    (entry,) = ledger.history("visits")
    assert (entry.state, entry.charged) == ("reserved", charge(ready.cost, 16.0))
    assert ledger.show("visits").spent == entry.charged


def test_the_burn_down_ends_where_the_totals_are(ledger, cost, cheaper, ran):
    first = ledger.reserve(cost, dataset="visits", mechanism=HOW)
    ledger.reserve(cost, dataset="visits", mechanism=HOW)
    ledger.settle(first, ran(cheaper))
    points = ledger.burn_down("visits")
    used = ledger.show("visits").used
    assert [len(points), points[0][1:]] == [4, (100.0, 100.0)]
    assert points[-1][1:] == pytest.approx((100 - used["rdp"], 100 - used["delta"]))
    assert points[2][1] < points[3][1]


@pytest.mark.parametrize("statement", ["UPDATE {} SET version = 'x'", "DELETE FROM {}"])
@pytest.mark.parametrize("table", ["cutline_entries", "cutline_settlements"])
def test_entries_cannot_be_changed_by_other_hands(ledger, url, cost, ran, statement, table):
    ledger.settle(ledger.reserve(cost, dataset="visits", mechanism=HOW), ran(cost))
    engine = create_engine(parse(url))
    with pytest.raises(DBAPIError, match="append-only"), engine.begin() as connection:
        connection.execute(text(statement.format(table)))
    engine.dispose()
    assert ledger.history("visits")[0].version == __version__


@pytest.mark.parametrize("total", ["-1/2", "nonsense", "nan", "1/0"])
def test_totals_that_no_charge_can_have_made_are_refused(ledger, url, cost, total):
    engine = create_engine(parse(url))
    with engine.begin() as connection:
        connection.execute(text("UPDATE cutline_datasets SET spent_rdp = :total"), {"total": total})
    engine.dispose()
    for ask in (lambda: ledger.show("visits"), lambda: ledger.reserve(cost, dataset="visits", mechanism=HOW)):
        with pytest.raises(SchemaError, match="what Cutline wrote"):
            ask()


def test_a_reader_sees_one_moment(ledger, url, cost):
    """An account and its analysts are two statements; a release between them is seen by neither."""
    with Ledger(url) as other, ledger._database.reading() as books:
        rows = [books.execute(text("SELECT entries FROM cutline_datasets")).scalar()]
        other.reserve(cost, dataset="visits", mechanism=HOW, analyst="bob")
        rows += [
            books.execute(text(f"SELECT count(*) FROM cutline_{name}")).scalar() for name in ("entries", "analysts")
        ]
    assert rows == [0, 0, 0]
    assert ledger.show("visits").entries == 1


def test_a_newer_layout_is_refused(ledger, url, cost):
    engine = create_engine(parse(url))
    with engine.begin() as connection:
        connection.execute(text("UPDATE cutline_schema SET version = 2"))
    engine.dispose()
    with Ledger(url) as late:
        for ask in (
            lambda: late.show("visits"),
            lambda: late.reserve(cost, dataset="visits", mechanism=HOW),
            lambda: late.create("new", budget=BUDGET, limits=FILTER, owner="ann"),
        ):
            with pytest.raises(SchemaError, match="layout 2"):
                ask()


def test_an_empty_database_holds_no_ledger(url, tmp_path, cost):
    with Ledger(url) as ledger:
        for ask in (lambda: ledger.show("visits"), lambda: ledger.reserve(cost, dataset="visits", mechanism=HOW)):
            with pytest.raises(SchemaError, match="ledger init"):
                ask()
    assert not list(tmp_path.iterdir())  # looking for a ledger does not create one


@pytest.mark.parametrize("name", ["", " padded", "line\nbreak", "nul\0", "x" * 201, 7, None])
def test_names_that_no_screen_can_hold_are_refused(ledger, cost, name):
    with pytest.raises(ParameterError, match="printable"):
        ledger.create(name, budget=BUDGET, limits=FILTER, owner="ann")
    with pytest.raises(ParameterError, match="printable"):
        ledger.create("new", budget=BUDGET, limits=FILTER, owner=name)
    if name is not None:
        with pytest.raises(ParameterError, match="printable"):
            ledger.reserve(cost, dataset="visits", mechanism=HOW, analyst=name)


def test_a_mechanism_is_described_in_plain_data(ledger, cost):
    for wrong in ({"a": object()}, {"a": float("nan")}, {"items": {1, 2}}):
        with pytest.raises(ParameterError, match="plain data"):
            ledger.reserve(cost, dataset="visits", mechanism=wrong)
    assert ledger.show("visits").entries == 0


def test_the_same_cost_is_written_once(ledger, cost, cheaper, ran, url):
    """A table of a thousand values costs its space once, however often it is used."""
    for _ in range(3):
        ledger.settle(ledger.reserve(cost, dataset="visits", mechanism=HOW), ran(cheaper))
    engine = create_engine(parse(url))
    with engine.begin() as connection:
        assert connection.execute(text("SELECT count(*) FROM cutline_costs")).scalar() == 2
    engine.dispose()


def test_records_are_plain_and_pickle(ledger, cost):
    reservation = ledger.reserve(cost, dataset="visits", mechanism=HOW)
    account = ledger.show("visits")
    assert pickle.loads(pickle.dumps(reservation)) == reservation
    assert pickle.loads(pickle.dumps(account)) == account
    plain = json.loads(json.dumps(account.to_dict()))
    assert (plain["remaining_releases"], plain["state"], plain["unit"]) == (9, "open", "user_id")
    assert "(1, 1e-06)-DP for one user joining or leaving" in plain["guarantee"]


def test_sums_are_exact_where_floats_are_not():
    step = Sums(rdp=Fraction(0.1), delta=Fraction(1e-9))
    total = Sums()
    for _ in range(1000):
        total += step
    for _ in range(1000):
        total -= step
    assert total == Sums()
    drift = 0.0
    for sign in (1, -1):
        for _ in range(1000):
            drift += sign * 0.1
    assert drift != 0.0
