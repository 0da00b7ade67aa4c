r"""Reserve, read, run, settle: every release is paid for, in full, before a row is read.

Reserving is one transaction: look at the totals, check both limits, write the entry, raise the totals. Settling is another,
which adds a row of its own and lowers the totals to what ran. Whatever happens in between, the full charge is on the books: a
crash may waste budget, and never hides spending.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any, TypeVar

from sqlalchemy import Connection

from cutline.errors import BudgetError, DatasetError, LedgerUnavailable, ParameterError, SettlementError, UnsettledError
from cutline.ledger import charging, reading, tables
from cutline.ledger.allowance import usual_filter
from cutline.ledger.database import Database
from cutline.ledger.records import Account, Entry, Priced, Reservation, Settleable
from cutline.ledger.sums import Sums
from cutline.ledger.writing import VERSION, cost_text, description, named, now
from cutline.privacy import Adjacency, Budget, Cost, Filter

T = TypeVar("T", bound=Settleable)


class Ledger(AbstractContextManager["Ledger"]):
    r"""The books of one database.

    **Privacy.** All releases of a dataset that went through its ledger are together (epsilon, delta)-DP for the dataset's
    budget and adjacency, however each was chosen after seeing the others: the filter's order and limits are fixed before any
    data, each release's dearest path is within them before it runs, and the sums are exact [FZ21;
    docs/proofs/composition.md]. What is trusted: the database, and that every release of the dataset goes through it.

    Parameters
    ----------
    url
        A path or ``sqlite:///path`` (one file), or ``postgresql://host/database``.

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
        self._written: set[str] = set()  # costs known to be on the books; rows there never go

    def __repr__(self) -> str:
        return f"Ledger({self._database.shown!r})"

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
        dataset
            Its name in this ledger.
        budget
            The total (epsilon, delta), and how many releases of the usual kind it is meant for.
        limits
            The order and limits that enforce it; None takes those that suit the default mechanism.
        adjacency
            Who is protected.
        owner
            Who answers for the budget.
        unit
            The column that names those who are protected. If given, `cutline.top` refuses to count another one.
        """
        relation = Adjacency(adjacency)
        limits = usual_filter(budget, adjacency=relation) if limits is None else limits
        if not (budget.covers(limits) and limits.rdp > 0):
            raise BudgetError(
                "a filter must lie within its budget and leave something to spend",
                f"order={limits.order:.3g}, rdp={limits.rdp:.3g}, delta={limits.delta:.3g}",
                "Make it with budget.filter(order=..., delta_share=...).",
            )
        row = {
            "name": named("dataset", dataset),
            "owner": named("owner", owner),
            "adjacency": str(relation),
            "unit": None if unit is None else named("unit", unit),
            "epsilon": repr(float(budget.epsilon)),
            "delta": repr(float(budget.delta)),
            "releases": budget.releases,
            "filter_order": repr(float(limits.order)),
            "filter_rdp": repr(float(limits.rdp)),
            "filter_delta": repr(float(limits.delta)),
            **Sums().written("spent"),
            "entries": 0,
            "limited": 0,
            "created": now(),
            "version": VERSION,
        }
        self._database.keep_a_write_ahead_log()
        with self._database.writing(create=True) as books:
            tables.create_tables(books)
            if books.execute(tables.find_dataset, {"dataset": dataset}).first() is not None:
                raise DatasetError(
                    "a dataset is created once",
                    repr(dataset),
                    "Its budget is fixed; look at it with `cutline ledger show`.",
                )
            books.execute(tables.add_dataset, row)
        self._checked = True

    def reserve(
        self, cost: Cost, *, dataset: str, analyst: str | None = None, mechanism: Mapping[str, Any]
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
        analyst = None if analyst is None else named("analyst", analyst)
        plain = description(mechanism)
        with self._writing() as books:
            reservation = charging.reserve(
                books, cost, dataset=dataset, analyst=analyst, mechanism=plain, written=self._written
            )
        self._written.add(cost_text(cost)[0])
        return reservation

    def settle(self, reservation: Reservation, release: Settleable) -> None:
        r"""Lower a reservation's charge to what ran; once, and never above the reserve.

        ``release`` is anything with a ``cost`` that is a function of what became public, and ``seeded``.

        Raises
        ------
        SettlementError
            For a seeded release, one above the reserve at the filter's order, or a reservation that is already settled or of
            other books. The reserve stays charged.
        """
        if release.seeded is not False:
            raise SettlementError(
                "a seeded draw is a simulation, not a release",
                "seeded=True",
                "Release with the operating system's source (no rng).",
            )
        with self._writing() as books:
            charging.settle(books, reservation, release.cost, written=self._written)
        self._written.add(cost_text(release.cost)[0])

    def release(self, mechanism: Priced, read: Callable[[], Any], *, dataset: str, analyst: str | None = None) -> Any:
        r"""Reserve a mechanism's dearest path, then read, release and settle.

        Parameters
        ----------
        mechanism
            Anything with ``cost``, ``describe()`` and ``release(histogram)``, calibrated with the dataset's filter.
        read
            Counts the data; called only after the reserve is on the books. Check everything public before.
        dataset, analyst
            On whose account.

        Returns
        -------
        Release
            What the mechanism returned; drawn with the operating system's source.
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
        work: Callable[[], T],
        *,
        cost: Cost,
        mechanism: Mapping[str, Any],
        dataset: str,
        analyst: str | None = None,
    ) -> T:
        r"""Reserve ``cost``, call ``work``, settle what it returns, and return it: the general form of `release`.

        Any failure after the reserve, an interrupt included, leaves the full charge. If the books cannot be told at the end,
        `UnsettledError` is raised and carries the result: it was paid for in full before it ran.
        """
        reservation = self.reserve(cost, dataset=dataset, analyst=analyst, mechanism=mechanism)
        result = work()
        try:
            self.settle(reservation, result)
        except LedgerUnavailable as error:
            reason = error
        else:
            return result
        raise UnsettledError(
            f"the release ran and stays charged in full, but could not be settled: {reason.rule}",
            reason.value,
            f"{reason.way_out} The charge is entry {reservation.id}; it is safe to leave it.",
            release=result,
        )

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
        analyst = named("analyst", analyst)
        with self._writing() as books:
            row = charging.lock(books, dataset)
            limits = reading.analyst_limits(reading.account(row), rdp=rdp, delta=delta, share=share).written("limit")
            if charging.find_analyst(books, row.id, analyst) is None:
                new = {"dataset_id": row.id, "analyst": analyst, **Sums().written("spent")}
                books.execute(tables.add_analyst, new | limits)
            else:
                books.execute(tables.limit_analyst, {"in_dataset": row.id, "of_analyst": analyst, **limits})
            books.execute(tables.name_analysts, {"dataset_id": row.id})

    def show(self, dataset: str) -> Account:
        """Return what was fixed, what is spent and what is left; from the running totals, however long the history is."""
        with self._reading() as books:
            row = books.execute(tables.find_dataset, {"dataset": dataset}).first()
            if row is None:
                raise charging.unknown(dataset)
            return reading.account(row, analysts=reading.analysts(books, row.id))

    def datasets(self) -> list[str]:
        """Return the names of all datasets."""
        with self._reading() as books:
            return reading.names(books)

    def history(self, dataset: str, *, before: int | None = None, limit: int = 50) -> list[Entry]:
        """Return a page of entries, newest first; ``before`` is the id that the next page starts below."""
        if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= 10_000:
            raise ParameterError("a page has 1 to 10,000 entries", f"limit={limit}", "Try limit=50.")
        if before is not None and not tables.is_key(before):
            raise ParameterError("before must be the id of an entry", f"before={before}", "Take it from the last page.")
        with self._reading() as books:
            row = books.execute(tables.find_dataset, {"dataset": dataset}).first()
            if row is None:
                raise charging.unknown(dataset)
            return reading.page(books, row, before=before, limit=limit)

    def burn_down(self, dataset: str) -> list[tuple[str, float, float]]:
        """Return what was left after each event, as (time, percent of rdp, percent of delta); reads the whole history."""
        with self._reading() as books:
            row = books.execute(tables.find_dataset, {"dataset": dataset}).first()
            if row is None:
                raise charging.unknown(dataset)
            return reading.burn_down(books, row)

    def close(self, dataset: str) -> None:
        """Refuse every further reserve, for ever. What is reserved may still be settled; closing twice changes nothing."""
        with self._writing() as books:
            row = charging.lock(books, dataset)
            books.execute(tables.close_dataset, {"dataset_id": row.id, "now": now()})

    def _writing(self) -> AbstractContextManager[Connection]:
        self._check()
        return self._database.writing()

    def _reading(self) -> AbstractContextManager[Connection]:
        self._check()
        return self._database.reading()

    def _check(self) -> None:
        if not self._checked:
            with self._database.reading() as books:
                tables.check_version(books)
            self._checked = True
