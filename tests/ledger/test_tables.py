"""What is in the tables: read back bit by bit, append-only, and refused if another hand has been there."""

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.exc import DBAPIError

from cutline.errors import ParameterError, SchemaError, UnsettledError
from cutline.ledger import Ledger
from cutline.ledger.account import Sums
from cutline.ledger.address import parse_address
from cutline.privacy import Adjacency, Budget, Filter
from cutline.version import __version__

HOW = {"name": "test", "max_k": 3}
BUDGET = Budget(epsilon=1.0, delta=1e-6, releases=10)
FILTER = BUDGET.filter(order=16.0, delta_share=0.25)


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
    engine = create_engine(parse_address(url))
    with pytest.raises(DBAPIError, match="append-only"), engine.begin() as connection:
        connection.execute(text(statement.format(table)))
    engine.dispose()
    assert ledger.history("visits")[0].version == __version__


@pytest.mark.parametrize("total", ["-1/2", "nonsense", "nan", "1/0"])
def test_totals_that_no_charge_can_have_made_are_refused(ledger, url, cost, total):
    engine = create_engine(parse_address(url))
    with engine.begin() as connection:
        connection.execute(text("UPDATE cutline_datasets SET spent_rdp = :total"), {"total": total})
    engine.dispose()
    with pytest.raises(SchemaError, match="what Cutline wrote"):
        ledger.show("visits")
    with pytest.raises(SchemaError, match="what the last link of its chain says"):
        ledger.reserve(cost, dataset="visits", mechanism=HOW)


def test_an_analysts_row_that_cannot_be_read_loses_no_paid_release(ledger, url, cost, ran):
    """The account cannot be read, so nothing is settled: the reserve stays, and the error carries what was paid for."""
    ledger.reserve(cost, dataset="visits", mechanism=HOW, analyst="eve")
    reservation, result = ledger.reserve(cost, dataset="visits", mechanism=HOW, analyst="bob"), ran(cost)
    engine = create_engine(parse_address(url))
    with engine.begin() as connection:
        connection.execute(text("UPDATE cutline_analysts SET spent_rdp = 'nonsense' WHERE analyst = 'eve'"))
    engine.dispose()
    with pytest.raises(SchemaError, match="what Cutline wrote"):
        ledger.show("visits")
    with pytest.raises(UnsettledError, match="what the last link of its chain says") as unsettled:
        ledger.settle(reservation, result)
    assert unsettled.value.release is result
    assert {entry.state for entry in ledger.history("visits")} == {"reserved"}


def test_a_newer_layout_is_refused(ledger, url, cost):
    engine = create_engine(parse_address(url))
    with engine.begin() as connection:
        connection.execute(text("UPDATE cutline_schema SET version = 3"))
    engine.dispose()
    with Ledger(url) as late:
        for ask in (
            lambda: late.show("visits"),
            lambda: late.reserve(cost, dataset="visits", mechanism=HOW),
            lambda: late.create("new", budget=BUDGET, limits=FILTER, owner="ann"),
        ):
            with pytest.raises(SchemaError, match="layout 3"):
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
    engine = create_engine(parse_address(url))
    with engine.begin() as connection:
        assert connection.execute(text("SELECT count(*) FROM cutline_costs")).scalar() == 2
    engine.dispose()
