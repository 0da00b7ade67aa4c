r"""From rows back to records."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import Any

from sqlalchemy import Connection, Row, select

from cutline.errors import ParameterError, SchemaError
from cutline.ledger import tables
from cutline.ledger.records import Account, Analyst, Entry
from cutline.ledger.sums import Sums
from cutline.privacy import Adjacency, Budget, Filter
from cutline.privacy.rounding import fraction_down

_ENTRIES, _SETTLEMENTS = tables.entries.c, tables.settlements.c
_JOINED = select(
    tables.entries,
    _SETTLEMENTS.cost.label("settled_cost"),
    _SETTLEMENTS.settled_rdp,
    _SETTLEMENTS.settled_delta,
    _SETTLEMENTS.at.label("settled_at"),
).select_from(tables.entries.outerjoin(tables.settlements))


def account(row: Row[Any], *, analysts: tuple[Analyst, ...] = ()) -> Account:
    """Read a dataset's row; totals that no charge can have made are refused, not added to."""
    try:
        found = _account(row, analysts)
    except (ValueError, TypeError, ZeroDivisionError):
        found = None
    if found is None or min(found.spent.rdp, found.spent.delta) < 0:
        raise SchemaError(
            "a dataset's row must hold what Cutline wrote there",
            repr(row.name),
            "Restore the database from a copy that holds every entry.",
        )
    return found


def _account(row: Row[Any], analysts: tuple[Analyst, ...]) -> Account:
    return Account(
        dataset=row.name,
        owner=row.owner,
        adjacency=Adjacency(row.adjacency),
        unit=row.unit,
        budget=Budget(epsilon=float(row.epsilon), delta=float(row.delta), releases=row.releases),
        filter=Filter(order=float(row.filter_order), rdp=float(row.filter_rdp), delta=float(row.filter_delta)),
        spent=Sums.read(row.spent_rdp, row.spent_delta),
        entries=row.entries,
        created=row.created,
        closed=row.closed,
        version=row.version,
        analysts=analysts,
    )


def names(books: Connection) -> list[str]:
    """Return the names of all datasets in their own order."""
    return sorted(name for (name,) in books.execute(select(tables.datasets.c.name)))


def analysts(books: Connection, dataset_id: int) -> tuple[Analyst, ...]:
    """Return everybody who has spent something or has a limit."""
    table = tables.analysts
    rows = books.execute(select(table).where(table.c.dataset_id == dataset_id).order_by(table.c.analyst))
    return tuple(
        Analyst(
            name=row.analyst,
            spent=Sums.read(row.spent_rdp, row.spent_delta),
            limits=None if row.limit_rdp is None else Sums.read(row.limit_rdp, row.limit_delta),
        )
        for row in rows
    )


def analyst_limits(account: Account, *, rdp: float | None, delta: float | None, share: float | None) -> Sums:
    """Check an analyst's limits: a share of both sums, or the two sums themselves."""
    whole = account.limits
    if share is not None and rdp is None and delta is None and 0 <= share <= 1:
        part = Fraction(share)
        # Rounded down to floats: a limit is a number that can be shown as it is.
        return Sums(rdp=Fraction(fraction_down(whole.rdp * part)), delta=Fraction(fraction_down(whole.delta * part)))
    if share is None and rdp is not None and delta is not None and rdp >= 0 and delta >= 0:
        limits = Sums(rdp=Fraction(rdp), delta=Fraction(delta)) if max(rdp, delta) < float("inf") else whole + whole
        if limits.within(whole):
            return limits
    raise ParameterError(
        "an analyst's limit is a share between 0 and 1, or an rdp and a delta within the dataset's",
        f"share={share}, rdp={rdp}, delta={delta}",
        f"The dataset has rdp={account.filter.rdp:.4g}, delta={account.filter.delta:.4g}; try share=0.25.",
    )


def page(books: Connection, dataset: Row[Any], *, before: int | None, limit: int) -> list[Entry]:
    """Read one page by key, so that the last page costs what the first does."""
    query = _JOINED.where(_ENTRIES.dataset_id == dataset.id).order_by(_ENTRIES.id.desc()).limit(limit)
    rows = books.execute(query if before is None else query.where(_ENTRIES.id < before)).all()
    digests = {row.cost for row in rows} | {row.settled_cost for row in rows} - {None}
    found = select(tables.costs).where(tables.costs.c.digest.in_(sorted(digests)))
    plain = {row.digest: json.loads(row.cost) for row in books.execute(found)} if digests else {}
    return [
        Entry(
            id=row.id,
            dataset=dataset.name,
            at=row.at,
            analyst=row.analyst,
            mechanism=json.loads(row.mechanism),
            reserved=Sums.read(row.reserved_rdp, row.reserved_delta),
            settled=None if row.settled_cost is None else Sums.read(row.settled_rdp, row.settled_delta),
            settled_at=row.settled_at,
            reserved_cost=plain[row.cost],
            settled_cost=None if row.settled_cost is None else plain[row.settled_cost],
            version=row.version,
        )
        for row in rows
    ]


def burn_down(books: Connection, dataset: Row[Any]) -> list[tuple[str, float, float]]:
    """Replay the whole history in the order of time."""
    limits = account(dataset).limits
    events: list[tuple[str, Sums]] = []
    for row in books.execute(_JOINED.where(_ENTRIES.dataset_id == dataset.id).order_by(_ENTRIES.id)):
        reserved = Sums.read(row.reserved_rdp, row.reserved_delta)
        events.append((row.at, reserved))
        if row.settled_cost is not None:
            settled = Sums.read(row.settled_rdp, row.settled_delta)
            if settled != reserved:
                events.append((row.settled_at, settled - reserved))
    points, spent = [(dataset.created, 100.0, 100.0)], Sums()
    for at, change in sorted(events, key=lambda event: event[0]):
        spent += change
        rdp, delta = (100 * fraction_down(1 - share) for share in spent.shares(limits))
        points.append((at, rdp, delta))
    return points
