r"""What the books tell: inert data, all of it public."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol

from cutline.ledger.sums import Sums
from cutline.privacy import Adjacency, Budget, Cost, Filter
from cutline.privacy.rounding import fraction_up
from cutline.release import digits_up


class Settleable(Protocol):
    """Anything that became public and says what it cost: a `Release`, a table of them, labels."""

    @property
    def cost(self) -> Cost:
        """What ran, as a function of the public outcome."""
        ...

    @property
    def seeded(self) -> bool:
        """Whether it is a simulation."""
        ...


class Priced(Protocol):
    """Anything that states its dearest cost before any data and can then be run once: every mechanism."""

    @property
    def cost(self) -> Cost:
        """The dearest path."""
        ...

    def describe(self) -> Mapping[str, Any]:
        """Return name and public parameters as plain data."""
        ...

    def release(self, histogram: Any, /) -> Any:
        """Run once."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Reservation:
    """A charge that is on the books, and may be settled once."""

    id: int
    dataset: str
    analyst: str | None
    cost: Cost
    at: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Analyst:
    """What one analyst has spent, under the limits the owner set, if any."""

    name: str
    spent: Sums
    limits: Sums | None

    @property
    def used(self) -> dict[str, float] | None:
        """Percent of both limits, or None without limits."""
        return None if self.limits is None else _percent(self.spent, self.limits)

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data."""
        rdp, delta = self.spent.rounded_up()
        limits = None if self.limits is None else dict(zip(("rdp", "delta"), self.limits.rounded_down(), strict=True))
        return {
            "analyst": self.name,
            "spent": {"rdp": rdp, "delta": delta},
            "limits": limits,
            "used_percent": self.used,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """A dataset's budget, what was fixed when it was created, and what has been spent of it."""

    dataset: str
    owner: str
    adjacency: Adjacency
    unit: str | None
    budget: Budget
    filter: Filter
    spent: Sums
    entries: int
    created: str
    closed: str | None
    version: str
    analysts: tuple[Analyst, ...] = ()

    @property
    def limits(self) -> Sums:
        """The filter's two limits."""
        return Sums.limits(self.filter)

    @property
    def left(self) -> Sums:
        """What both sums may still grow by."""
        return self.limits - self.spent

    @property
    def state(self) -> str:
        """``open`` or ``closed``."""
        return "open" if self.closed is None else "closed"

    @property
    def used(self) -> dict[str, float]:
        """Percent of both limits, rounded up."""
        return _percent(self.spent, self.limits)

    @property
    def remaining_releases(self) -> int:
        """How many releases of the usual kind (one ``budget.releases``-th of both limits) still fit; 0 when closed."""
        if self.closed is not None:
            return 0
        pairs = ((self.left.rdp, self.limits.rdp), (self.left.delta, self.limits.delta))
        return min(math.floor(self.budget.releases * left / limit) for left, limit in pairs if limit)

    @property
    def guarantee(self) -> str:
        """The one sentence a ledger can say."""
        return (
            f"Everything released from {self.dataset!r} through this ledger is, together, "
            f"({digits_up(self.budget.epsilon, 4)}, {digits_up(self.budget.delta, 3)})-DP for {self.adjacency.protects}."
        )

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data."""
        rdp, delta = self.spent.rounded_up()
        return {
            "dataset": self.dataset,
            "owner": self.owner,
            "state": self.state,
            "adjacency": str(self.adjacency),
            "unit": self.unit,
            "budget": {
                "epsilon": self.budget.epsilon,
                "delta": self.budget.delta,
                "releases": self.budget.releases,
            },
            "filter": {"order": self.filter.order, "rdp": self.filter.rdp, "delta": self.filter.delta},
            "spent": {"rdp": rdp, "delta": delta},
            "used_percent": self.used,
            "remaining_releases": self.remaining_releases,
            "entries": self.entries,
            "created": self.created,
            "closed": self.closed,
            "version": self.version,
            "analysts": [analyst.to_dict() for analyst in self.analysts],
            "guarantee": self.guarantee,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One reservation and what became of it; costs as plain data (`Cost.from_dict` reads them)."""

    id: int
    dataset: str
    at: str
    analyst: str | None
    mechanism: Mapping[str, Any]
    reserved: Sums
    settled: Sums | None
    settled_at: str | None
    reserved_cost: Mapping[str, Any]
    settled_cost: Mapping[str, Any] | None
    version: str

    @property
    def state(self) -> str:
        """``settled``, or ``reserved``: charged in full, because the release runs still or never came to its end."""
        return "reserved" if self.settled is None else "settled"

    @property
    def charged(self) -> Sums:
        """What it counts for."""
        return self.reserved if self.settled is None else self.settled

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data."""

        def plain(sums: Sums | None, cost: Mapping[str, Any] | None) -> dict[str, Any] | None:
            if sums is None:
                return None
            rdp, delta = sums.rounded_up()
            return {"rdp": rdp, "delta": delta, "cost": cost}

        return {
            "id": self.id,
            "dataset": self.dataset,
            "at": self.at,
            "analyst": self.analyst,
            "mechanism": dict(self.mechanism),
            "state": self.state,
            "reserved": plain(self.reserved, self.reserved_cost),
            "settled": plain(self.settled, self.settled_cost),
            "settled_at": self.settled_at,
            "version": self.version,
        }


def _percent(spent: Sums, limits: Sums) -> dict[str, float]:
    rdp, delta = (min(100.0, fraction_up(100 * share)) for share in spent.shares(limits))
    return {"rdp": rdp, "delta": delta}


def usual_share(account: Account, releases: int) -> Fraction:
    """Return the delta that ``releases`` releases of the usual kind may use together."""
    return Fraction(account.filter.delta) * releases / account.budget.releases
