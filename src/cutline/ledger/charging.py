r"""The two transactions that move the totals: reserving and settling. Each runs whole or not at all, the dataset locked."""

from __future__ import annotations

from collections.abc import Set
from typing import Any

from sqlalchemy import Connection, Row

from cutline.errors import AdjacencyError, BudgetError, DatasetError, ParameterError, SettlementError
from cutline.ledger import reading, tables
from cutline.ledger.allowance import over_budget
from cutline.ledger.records import Account, Reservation
from cutline.ledger.sums import Sums, charge
from cutline.ledger.writing import VERSION, cost_text, now
from cutline.privacy import Cost


def lock(books: Connection, dataset: str) -> Row[Any]:
    """Lock the dataset; every other writer of it waits from here to the end of the transaction."""
    row = books.execute(tables.lock_dataset, {"dataset": dataset}).first()
    if row is None:
        raise unknown(dataset)
    return row


def unknown(dataset: object) -> DatasetError:
    """Say that there is no such dataset."""
    return DatasetError("the ledger must know the dataset", repr(dataset), "Create it with `cutline ledger init`.")


def reserve(
    books: Connection, cost: Cost, *, dataset: str, analyst: str | None, mechanism: str, written: Set[str]
) -> Reservation:
    """Check both limits with the cost added, write the entry, raise the totals."""
    row = lock(books, dataset)
    account = reading.account(row)
    if account.closed is not None:
        raise DatasetError(
            "a closed dataset takes no more releases", repr(account.dataset), "Its owner closed it for good."
        )
    if cost.adjacency != account.adjacency:
        raise AdjacencyError(
            f"{account.dataset!r} is kept under one adjacency relation, {account.adjacency}",
            str(cost.adjacency),
            f"Calibrate the mechanism for {account.adjacency}.",
        )
    needed = charge(cost, account.filter.order)
    spent = account.spent + needed
    if not spent.within(account.limits):
        raise over_budget(account, needed, whose="the budget", limits=account.limits, spent=account.spent)
    _charge_analyst(books, row, account, analyst, needed)
    entry = {
        "dataset_id": row.id,
        "analyst": analyst,
        "mechanism": mechanism,
        "cost": _write_cost(books, cost, written),
        **needed.written("reserved"),
        "at": now(),
        "version": VERSION,
    }
    (key,) = books.execute(tables.add_entry, entry).inserted_primary_key or (0,)
    books.execute(tables.charge_dataset, {"dataset_id": row.id, **spent.written("spent"), "more": 1})
    return Reservation(id=int(key), dataset=dataset, analyst=analyst, cost=cost, at=entry["at"])


def settle(books: Connection, reservation: Reservation, cost: Cost, *, written: Set[str]) -> None:
    """Write what ran beside the reserve, and lower the totals by the difference."""
    row = lock(books, reservation.dataset)
    account = reading.account(row)
    possible = tables.is_key(reservation.id)
    entry = books.execute(tables.find_entry, {"entry_id": reservation.id}).first() if possible else None
    own = (row.id, reservation.at, reservation.analyst)
    if entry is None or (entry.dataset_id, entry.at, entry.analyst) != own:
        raise SettlementError(
            "a reservation is settled in the books it was made in",
            f"reservation {reservation.id} of {reservation.dataset!r}",
            "Settle with the ledger that reserved.",
        )
    if entry.settled is not None:
        raise SettlementError(
            "a reservation is settled once", f"reservation {reservation.id}", "Reserve again for another release."
        )
    reserved = Sums.read(entry.reserved_rdp, entry.reserved_delta)
    try:
        settled = charge(cost, account.filter.order)
    except BudgetError as error:
        raise SettlementError(
            "a release costs at most what was reserved", error.value, "Reserve the dearest path."
        ) from None
    if cost.adjacency != account.adjacency or not settled.within(reserved):
        raise SettlementError(
            "a release costs at most what was reserved, under the same adjacency",
            f"rdp={float(settled.rdp):.4g}, delta={float(settled.delta):.4g}, {cost.adjacency}, for a reserve of "
            f"rdp={float(reserved.rdp):.4g}, delta={float(reserved.delta):.4g}, {account.adjacency}",
            "Reserve the dearest path.",
        )
    digest = _write_cost(books, cost, written)
    settlement = {"entry_id": entry.id, "cost": digest, **settled.written("settled"), "at": now(), "version": VERSION}
    books.execute(tables.add_settlement, settlement)
    refund = reserved - settled
    if refund == Sums():
        return
    spent = account.spent - refund
    books.execute(tables.charge_dataset, {"dataset_id": row.id, **spent.written("spent"), "more": 0})
    if entry.analyst is not None:
        known = find_analyst(books, row.id, entry.analyst)
        _write_analyst(books, row.id, entry.analyst, known, _spent(known) - refund)


def find_analyst(books: Connection, dataset_id: int, analyst: str) -> Row[Any] | None:
    """Return the analyst's row, if there is one."""
    return books.execute(tables.find_analyst, {"dataset_id": dataset_id, "analyst": analyst}).first()


def _charge_analyst(books: Connection, row: Row[Any], account: Account, analyst: str | None, needed: Sums) -> None:
    if analyst is None:
        if row.limited:
            raise ParameterError(
                "a dataset with limits per analyst must be told who asks",
                "no analyst",
                "Pass analyst=..., or --analyst.",
            )
        return
    known = find_analyst(books, row.id, analyst)
    before = _spent(known)
    if known is not None and known.limit_rdp is not None:
        limits = Sums.read(known.limit_rdp, known.limit_delta)
        if not (before + needed).within(limits):
            raise over_budget(account, needed, whose=f"the limit of {analyst!r}", limits=limits, spent=before)
    _write_analyst(books, row.id, analyst, known, before + needed)


def _spent(known: Row[Any] | None) -> Sums:
    return Sums() if known is None else Sums.read(known.spent_rdp, known.spent_delta)


def _write_analyst(books: Connection, dataset_id: int, analyst: str, known: Row[Any] | None, spent: Sums) -> None:
    if known is None:
        new = {"dataset_id": dataset_id, "analyst": analyst, "limit_rdp": None, "limit_delta": None}
        books.execute(tables.add_analyst, new | spent.written("spent"))
    else:
        totals = spent.written("spent")
        books.execute(tables.charge_analyst, {"in_dataset": dataset_id, "of_analyst": analyst, **totals})


def _write_cost(books: Connection, cost: Cost, written: Set[str]) -> str:
    digest, plain = cost_text(cost)
    if digest not in written:
        books.execute(tables.add_cost, {"digest": digest, "cost": plain})
    return digest
