"""Real databases: a file of SQLite, and a PostgreSQL server (tests/conftest.py)."""

from fractions import Fraction
from types import SimpleNamespace

import pytest

from cutline.ledger import Ledger
from cutline.privacy import Adjacency, BoundedRange, Budget, Cost
from cutline.rounding import fraction_down

BUDGET = Budget(epsilon=1.0, delta=1e-6, releases=10)
FILTER = BUDGET.filter(order=16.0, delta_share=0.25)


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request, tmp_path):
    """The address of an empty database, of each kind."""
    if request.param == "sqlite":
        return str(tmp_path / "books.db")
    return request.getfixturevalue("new_database")()


@pytest.fixture
def ledger(url):
    with Ledger(url) as ledger:
        ledger.create(
            "visits", budget=BUDGET, limits=FILTER, adjacency=Adjacency.ADD_REMOVE, owner="ann", unit="user_id"
        )
        yield ledger


@pytest.fixture
def file_ledger(tmp_path):
    with Ledger(tmp_path / "books.db") as ledger:
        ledger.create("visits", budget=BUDGET, limits=FILTER, owner="ann")
        yield ledger


def costing(rdp, delta, adjacency=Adjacency.ADD_REMOVE):
    """A cost just within these two numbers at the filter's order."""
    curve = BoundedRange.within(order=FILTER.order, rdp=rdp)
    return Cost.of(curve, adjacency=adjacency, delta=delta)


@pytest.fixture(scope="session")
def cost():
    """One tenth of the filter, so that exactly ten fit."""
    tenth = costing(fraction_down(Fraction(FILTER.rdp) / 10), fraction_down(Fraction(FILTER.delta) / 10))
    assert 10 * Fraction(tenth.rdp(FILTER.order)) <= Fraction(FILTER.rdp) < 11 * Fraction(tenth.rdp(FILTER.order))
    return tenth


@pytest.fixture(scope="session")
def cheaper():
    """Half of the tenth, without delta: a path that stopped early."""
    return Cost.of(BoundedRange.within(order=FILTER.order, rdp=FILTER.rdp / 20), adjacency=Adjacency.ADD_REMOVE)


@pytest.fixture(scope="session")
def ran():
    """Return what settling asks for, and nothing more: a cost, and whether it is a simulation."""
    return lambda cost, seeded=False: SimpleNamespace(cost=cost, seeded=seeded)
