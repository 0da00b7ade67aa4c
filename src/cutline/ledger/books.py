r"""The ledger: every release is reserved, and so paid for in full, before a row is read, and settled to what ran.

Reserving is one transaction: it reads the totals, checks both limits, writes the entry and raises the totals. Settling is
another, which adds a row of its own and lowers the totals to what ran. Whatever happens in between, the full charge is on the
books: a crash may waste budget, and never hides spending.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Protocol, TypeVar

from sqlalchemy import Connection

from cutline.errors import (
    BudgetError,
    DatasetError,
    LedgerUnavailable,
    ParameterError,
    SchemaError,
    SettlementError,
    UnsettledError,
)
from cutline.ledger import charging, tables
from cutline.ledger.account import Account, Entry, Reservation, Sums
from cutline.ledger.database import Database
from cutline.privacy import Adjacency, Budget, Cost, Filter
from cutline.version import __version__


class Settleable(Protocol):
    """Anything that became public and says what it cost: a `Release`, a table of them, labels."""

    @property
    def cost(self) -> Cost:
        """What ran, as a function of the public outcome."""

    @property
    def seeded(self) -> bool:
        """Whether it is a simulation."""


Data_contra = TypeVar("Data_contra", contravariant=True)
Result_co = TypeVar("Result_co", bound=Settleable, covariant=True)
Result = TypeVar("Result", bound=Settleable)
Data = TypeVar("Data")


class Priced(Protocol[Data_contra, Result_co]):
    """Anything that states its dearest cost before any data and can then be run once: every mechanism."""

    @property
    def cost(self) -> Cost:
        """The dearest path."""

    def describe(self) -> Mapping[str, object]:
        """Return name and public parameters as plain data."""

    def release(self, histogram: Data_contra, /) -> Result_co:
        """Run once."""


class Ledger(AbstractContextManager["Ledger"]):
    r"""The books of one database.

    **Privacy.** All releases of a dataset that went through its ledger are together (epsilon, delta)-DP for the dataset's
    budget and adjacency, however each was chosen after seeing the others: the filter's order and limits are fixed before any
    data, each release's dearest path is within them before it runs, and the sums are exact [FZ21;
    docs/proofs/composition.md]. What is trusted: the database, and that every release of the dataset goes through it.

    Parameters
    ----------
    url
        A path or ``sqlite:///path`` (one file), or ``postgresql://host/database``. Nothing is opened before the first use.
        A ledger may be kept open for as long as one likes: between transactions it holds no lock. Leaving its ``with`` block
        closes its connections, any number of times, and the next use opens another.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from cutline import Budget, StableTopK, count
    >>> directory = tempfile.TemporaryDirectory()
    >>> with Ledger(str(pathlib.Path(directory.name) / "books.db")) as ledger:
    ...     ledger.create("visits", budget=Budget(epsilon=1.0, delta=1e-6, releases=10), owner="ann")
    ...     account = ledger.show("visits")
    ...     mechanism = StableTopK.calibrate(account.budget, limits=account.filter, max_k=20)
    ...     release = ledger.release(mechanism, lambda: count({"castle": 900, "kiosk": 3}, max_k=20), dataset="visits")
    ...     ledger.show("visits").remaining_releases
    9
    >>> directory.cleanup()
    """

    def __init__(self, url: str | os.PathLike[str]) -> None:
        self._database = Database(url)
        self._checked = False
        self._known_costs: set[str] = set()  # digests of costs that are on the books; rows there are never deleted

    def __repr__(self) -> str:
        return f"Ledger({self._database.printable_address!r})"

    def __exit__(self, *_: object) -> None:
        self._database.close()

    def create(
        self,
        dataset: str,
        *,
        budget: Budget,
        limits: Filter | None = None,
        adjacency: Adjacency | str = Adjacency.ADD_REMOVE,
        owner: str,
        unit: str | None = None,
    ) -> None:
        r"""Open an account: one budget, one filter, one adjacency, one privacy unit, for ever.

        Parameters
        ----------
        budget
            The total (epsilon, delta), and how many releases of the usual kind it is meant for.
        limits
            The order and limits that enforce it; None takes those that suit the default mechanism.
        adjacency, owner
            Who is protected, and who answers for the budget.
        unit
            The column that names those who are protected. If given, `cutline.top` refuses to count another one.
        """
        relation = Adjacency(adjacency)
        limits = charging.usual_filter(budget, adjacency=relation) if limits is None else limits
        if not (budget.covers(limits) and limits.rdp > 0):
            raise BudgetError(
                "a filter must lie within its budget and leave something to spend",
                f"order={limits.order:.3g}, rdp={limits.rdp:.3g}, delta={limits.delta:.3g}",
                "Make it with budget.filter(order=..., delta_share=...).",
            )
        row = {
            "name": tables.check_name("dataset", dataset),
            "owner": tables.check_name("owner", owner),
            "adjacency": str(relation),
            "unit": None if unit is None else tables.check_name("unit", unit),
            "epsilon": repr(float(budget.epsilon)),
            "delta": repr(float(budget.delta)),
            "releases": budget.releases,
            "filter_order": repr(float(limits.order)),
            "filter_rdp": repr(float(limits.rdp)),
            "filter_delta": repr(float(limits.delta)),
            **Sums().to_columns("spent"),
            "entries": 0,
            "limited": 0,
            "created": tables.current_time(),
            "version": __version__,
        }
        self._database.keep_a_write_ahead_log()
        with self._database.writing(create=True) as books:
            tables.create_tables(books)
            if dataset in tables.list_datasets(books):
                raise DatasetError(
                    "a dataset is created once",
                    repr(dataset),
                    "Its budget is fixed; look at it with `cutline ledger show`.",
                )
            books.execute(tables.INSERT_DATASET, row)
        self._checked = True

    def reserve(
        self, cost: Cost, *, dataset: str, analyst: str | None = None, mechanism: Mapping[str, object]
    ) -> Reservation:
        r"""Charge a worst-case cost, or refuse; no data is needed for either.

        Raises
        ------
        BudgetError
            If it does not fit: what was needed, what is left, the largest epsilon that would fit.
        AdjacencyError, DatasetError, ParameterError
            For another relation, an unknown or closed dataset, an analyst who must be named.
        LedgerUnavailable
            If the books cannot be written. Nothing may be released then.
        """
        analyst = None if analyst is None else tables.check_name("analyst", analyst)
        plain = tables.encode_mechanism(mechanism)
        with self._writing() as books:
            reservation = charging.reserve(
                books, cost, dataset=dataset, analyst=analyst, mechanism=plain, known_costs=self._known_costs
            )
        self._known_costs.add(tables.encode_cost(cost)[0])
        return reservation

    def settle(self, reservation: Reservation, release: Settleable) -> Account:
        r"""Lower a reservation's charge to what ran; once, and never above the reserve.

        The account that is returned is the dataset's right after this settlement, read in the same transaction.

        Raises
        ------
        SettlementError
            For a seeded release, one above the reserve at the filter's order, or a reservation that is already settled or of
            other books. The reserve stays charged, and the release must not be used.
        UnsettledError
            If the books cannot be read or written now. It carries the release, which was paid for in full before it ran and
            may be used; the reserve stays charged.
        """
        if release.seeded is not False:
            raise SettlementError(
                "a seeded draw is a simulation, not a release",
                "seeded=True",
                "Release with the operating system's source (no rng).",
            )
        try:
            with self._writing() as books:
                account = charging.settle(books, reservation, release.cost, known_costs=self._known_costs)
        except (LedgerUnavailable, SchemaError) as error:
            reason = error
        else:
            self._known_costs.add(tables.encode_cost(release.cost)[0])
            return account
        raise UnsettledError(
            f"the release ran and stays charged in full, but could not be settled: {reason.rule}",
            reason.value,
            f"{reason.way_out} The charge is entry {reservation.id}; it is safe to leave it.",
            release=release,
        )

    def release(
        self, mechanism: Priced[Data, Result], read: Callable[[], Data], *, dataset: str, analyst: str | None = None
    ) -> Result:
        r"""Reserve a mechanism's dearest path, then read, release and settle; return what the mechanism returned.

        The mechanism is calibrated with the dataset's filter and draws with the operating system's source. ``read`` counts
        the data, and is called only after the reserve is on the books: check everything public before.
        """
        return self.run(
            lambda: mechanism.release(read()),
            cost=mechanism.cost,
            mechanism=mechanism.describe(),
            dataset=dataset,
            analyst=analyst,
        )

    def run(
        self,
        work: Callable[[], Result],
        *,
        cost: Cost,
        mechanism: Mapping[str, object],
        dataset: str,
        analyst: str | None = None,
    ) -> Result:
        r"""Reserve ``cost``, call ``work``, settle what it returns, and return it: the general form of `release`.

        Any failure after the reserve, an interrupt included, leaves the full charge. If the books cannot be told at the end,
        `UnsettledError` is raised and carries the result: it was paid for in full before it ran.
        """
        reservation = self.reserve(cost, dataset=dataset, analyst=analyst, mechanism=mechanism)
        result = work()
        self.settle(reservation, result)
        return result

    def limit(
        self,
        dataset: str,
        analyst: str,
        *,
        rdp: float | None = None,
        delta: float | None = None,
        share: float | None = None,
    ) -> None:
        r"""Limit one analyst under the dataset's limits: to a share of both, or to an rdp and a delta at the filter's order.

        What the analyst has spent already counts. From then on every release of the dataset must name its analyst.
        """
        analyst = tables.check_name("analyst", analyst)
        with self._writing() as books:
            charging.limit_analyst(books, dataset, analyst, rdp=rdp, delta=delta, share=share)

    def show(self, dataset: str) -> Account:
        """Return what was fixed, what is spent and what is left; from the running totals, however long the history is."""
        with self._reading() as books:
            return tables.read_account(books, dataset)

    def datasets(self) -> list[str]:
        """Return the names of all datasets."""
        with self._reading() as books:
            return tables.list_datasets(books)

    def history(self, dataset: str, *, before: int | None = None, limit: int = 50) -> list[Entry]:
        """Return a page of entries, newest first; ``before`` is the id that the next page starts below."""
        if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= 10_000:
            raise ParameterError("a page has 1 to 10,000 entries", f"limit={limit}", "Try limit=50.")
        if before is not None and not tables.is_key(before):
            raise ParameterError("before must be the id of an entry", f"before={before}", "Take it from the last page.")
        with self._reading() as books:
            return tables.read_page(books, dataset, before=before, limit=limit)

    def burn_down(self, dataset: str) -> list[tuple[str, float, float]]:
        """Return what was left after each event, as (time, percent of rdp, percent of delta); reads the whole history."""
        with self._reading() as books:
            return tables.read_burn_down(books, dataset)

    def close(self, dataset: str) -> None:
        """Refuse every further reserve, for ever. What is reserved may still be settled; closing twice changes nothing."""
        with self._writing() as books:
            row = tables.lock_dataset(books, dataset)
            books.execute(tables.CLOSE_DATASET, {"dataset_id": row.id, "now": tables.current_time()})

    def _writing(self) -> AbstractContextManager[Connection]:
        self._check_layout()
        return self._database.writing()

    def _reading(self) -> AbstractContextManager[Connection]:
        self._check_layout()
        return self._database.reading()

    def _check_layout(self) -> None:
        if not self._checked:
            with self._database.reading() as books:
                tables.check_version(books)
            self._checked = True
