"""What every ledger must do, on both databases."""

import datetime as dt
import json

import pytest

from cutline import __version__
from cutline.errors import (
    BudgetError,
    DatasetError,
)
from cutline.histogram import OpenHistogram
from cutline.ledger import Ledger
from cutline.ledger.account import Sums, charge
from cutline.mechanisms import StableTopK, mechanism
from cutline.privacy import Budget, Cost, Filter

HOW = {"name": "test", "max_k": 3}
BUDGET = Budget(epsilon=1.0, delta=1e-6, releases=10)
FILTER = BUDGET.filter(order=16.0, delta_share=0.25)


def never():
    raise AssertionError("data was read")


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


def test_a_refusal_leaves_no_trace_and_reads_nothing(ledger, cost):
    dear = StableTopK.calibrate(Budget(epsilon=8.0, delta=1e-6), max_k=20)
    with pytest.raises(BudgetError, match="largest epsilon that fits") as refused:
        ledger.release(dear, never, dataset="visits", analyst="bob")
    assert "100 %" in refused.value.value
    account = ledger.show("visits")
    assert (account.entries, account.spent, account.analysts) == (0, Sums(), ())


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
