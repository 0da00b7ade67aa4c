"""Any interleaving of reserving, settling and crashing: the books equal a model that was kept by hand."""

import tempfile
from pathlib import Path
from types import SimpleNamespace

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, rule

from cutline.errors import BudgetError, SettlementError
from cutline.ledger import Ledger, charging
from cutline.ledger.account import Sums, charge
from cutline.privacy import Adjacency, BoundedRange, Budget, Cost

BUDGET = Budget(epsilon=1.0, delta=1e-6, releases=10)
FILTER = BUDGET.filter(order=16.0, delta_share=0.25)
LIMITS = Sums.from_filter(FILTER)
SHARES = (0.5, 1 / 3, 0.1, 0.07, 1e-3)
COSTS = [
    Cost.of(
        BoundedRange.within(order=16.0, rdp=FILTER.rdp * share),
        adjacency=Adjacency.ADD_REMOVE,
        delta=FILTER.delta * other,
    )
    for share in SHARES
    for other in (0.0, share, 0.3)
]
costs = st.sampled_from(COSTS)
people = st.sampled_from([None, "bob", "eve"])
# Memory instead of a disk, where there is some: thousands of flushes prove nothing here.
PLACE = "/dev/shm" if Path("/dev/shm").is_dir() else None


class Books(RuleBasedStateMachine):
    reservations = Bundle("reservations")

    @initialize()
    def open_books(self):
        self.directory = tempfile.TemporaryDirectory(dir=PLACE)
        self.path = Path(self.directory.name) / "books.db"
        self.ledger = Ledger(self.path)
        self.ledger.create("visits", budget=BUDGET, limits=FILTER, owner="ann")
        self.charges: dict[int, Sums] = {}
        self.settled: set[int] = set()
        self.analysts: dict[int, str | None] = {}

    @rule(target=reservations, cost=costs, analyst=people)
    def reserve(self, cost, analyst):
        fits = (self.total() + charge(cost, 16.0)).within(LIMITS)
        try:
            reservation = self.ledger.reserve(cost, dataset="visits", analyst=analyst, mechanism={"name": "any"})
        except BudgetError:
            assert not fits
            return None
        assert fits
        self.charges[reservation.id] = charge(cost, 16.0)
        self.analysts[reservation.id] = analyst
        return reservation

    @rule(reservation=reservations, cost=costs, seeded=st.booleans())
    def settle(self, reservation, cost, seeded):
        if reservation is None:
            return
        new = charge(cost, 16.0)
        right = not seeded and reservation.id not in self.settled and new.within(self.charges[reservation.id])
        try:
            self.ledger.settle(reservation, SimpleNamespace(cost=cost, seeded=seeded))
        except SettlementError:
            assert not right
            return
        assert right
        self.charges[reservation.id] = new
        self.settled.add(reservation.id)

    @rule(lost=consumes(reservations))
    def crash(self, lost):
        """A process is gone, with its reservation; another opens the books."""
        self.ledger._database.close()
        self.ledger = Ledger(self.path)

    @rule(cost=costs)
    def crash_before_the_commit(self, cost):
        """A process is gone with its transaction half done: it never was."""
        try:
            with self.ledger._writing("visits") as opened:
                charging.reserve(opened, cost, asked=charging.Asked(analyst="bob"), known_costs=set())
                raise InterruptedError
        except (InterruptedError, BudgetError):
            pass

    def total(self):
        return sum(self.charges.values(), Sums())

    @invariant()
    def the_books_agree(self):
        if not hasattr(self, "ledger"):
            return
        account = self.ledger.show("visits")
        assert account.spent == self.total()
        assert account.spent.within(LIMITS)
        for analyst in account.analysts:
            mine = [self.charges[i] for i, name in self.analysts.items() if name == analyst.name]
            assert analyst.spent == sum(mine, Sums())
        entries = self.ledger.history("visits", limit=10_000)
        assert [entry.id for entry in entries] == sorted(self.charges, reverse=True)
        assert {entry.id: entry.charged for entry in entries} == self.charges
        assert {entry.id for entry in entries if entry.state == "settled"} == self.settled

    def teardown(self):
        if hasattr(self, "ledger"):
            assert self.ledger.audit(self.ledger.show("visits").head).findings == ()
            self.ledger._database.close()
            self.directory.cleanup()


TestBooks = Books.TestCase
TestBooks.settings = settings(max_examples=20, stateful_step_count=30)
