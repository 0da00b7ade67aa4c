r"""What the books are told and tell, all of it public, and the exact sums they are kept in.

A charge is two floats, both already rounded up: the cost at the filter's order, and its delta. Sums of floats are kept as
exact fractions. Every float is a whole number divided by a power of two, and so are all sums and differences of floats;
`Fraction` adds and subtracts them without rounding. So the running total is at all times *equal* to the sum of the charges
in force: settling takes off exactly what reserving put on, in any order, and nothing ever falls below the true sum.
Databases keep the fractions as text (``"5/16"``), because a column of floating-point numbers could not hold them.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any, Protocol, Self, TypeVar

from cutline.errors import BudgetError
from cutline.notebook import Shown
from cutline.privacy import Adjacency, Budget, Cost, Filter
from cutline.rounding import digits_up, fraction_down, fraction_up


@dataclass(frozen=True, slots=True, kw_only=True)
class Sums:
    """A cost at one Rényi order and a delta, or sums of such, without rounding.

    Examples
    --------
    >>> tenth = Sums(rdp=Fraction(0.1), delta=Fraction(1e-7))
    >>> tenth + tenth + tenth - tenth - tenth == tenth  # not so in floating point
    True
    """

    rdp: Fraction = Fraction(0)
    delta: Fraction = Fraction(0)

    @classmethod
    def from_filter(cls, limits: Filter) -> Self:
        """Return a filter's two limits."""
        return cls(rdp=Fraction(limits.rdp), delta=Fraction(limits.delta))

    @classmethod
    def from_row(cls, row: object, prefix: str) -> Self:
        """Read sums back from the columns ``<prefix>_rdp`` and ``<prefix>_delta``."""
        return cls(rdp=Fraction(getattr(row, f"{prefix}_rdp")), delta=Fraction(getattr(row, f"{prefix}_delta")))

    def to_columns(self, prefix: str) -> dict[str, str]:
        """Return what is written into those columns."""
        return {f"{prefix}_rdp": str(self.rdp), f"{prefix}_delta": str(self.delta)}

    def __add__(self, other: Sums) -> Sums:
        return Sums(rdp=self.rdp + other.rdp, delta=self.delta + other.delta)

    def __sub__(self, other: Sums) -> Sums:
        return Sums(rdp=self.rdp - other.rdp, delta=self.delta - other.delta)

    def within(self, limits: Sums) -> bool:
        """Say whether both sums are within the limits."""
        return self.rdp <= limits.rdp and self.delta <= limits.delta

    def to_dict(self) -> dict[str, float]:
        """Return both as floats that are never below the true sums: for what was spent."""
        return {"rdp": fraction_up(self.rdp), "delta": fraction_up(self.delta)}

    def shares(self, limits: Sums) -> tuple[Fraction, Fraction]:
        """Return both as shares of the limits; of a limit of 0 nothing is ever used."""
        return (
            self.rdp / limits.rdp if limits.rdp else Fraction(0),
            self.delta / limits.delta if limits.delta else Fraction(0),
        )


@lru_cache(maxsize=256)
def charge(cost: Cost, order: float) -> Sums:
    """Return what is charged for a cost at the filter's order: its own numbers, which are rounded up already."""
    rdp, delta = cost.rdp(order), cost.delta
    if not (0 <= rdp < math.inf and 0 <= delta < math.inf):
        raise BudgetError(
            "a cost must be finite at the filter's order to be charged",
            f"rdp={rdp:.3g} at order={order:.3g}, delta={delta:.3g}",
            "Take a mechanism with a finite Rényi curve, calibrated with the dataset's filter.",
        )
    return Sums(rdp=Fraction(rdp), delta=Fraction(delta))


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
    """What one analyst has spent, under the limits the owner set, if any, and whether the account's list holds the name."""

    name: str
    spent: Sums
    limits: Sums | None
    allowed: bool = False

    @property
    def used(self) -> dict[str, float] | None:
        """Percent of both limits, or None without limits."""
        return None if self.limits is None else _percent(self.spent, self.limits)

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data."""
        limits = self.limits and {"rdp": fraction_down(self.limits.rdp), "delta": fraction_down(self.limits.delta)}
        return {
            "analyst": self.name,
            "spent": self.spent.to_dict(),
            "limits": limits,
            "used_percent": self.used,
            "allowed": self.allowed,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Account(Shown):
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
    lists_analysts: bool = False  # whether only those who are allowed may ask
    analysts: tuple[Analyst, ...] = ()
    head: str | None = None  # of the chain of the whole ledger, when this was read; None before it is written

    @property
    def limits(self) -> Sums:
        """The filter's two limits."""
        return Sums.from_filter(self.filter)

    @property
    def left(self) -> Sums:
        """What both sums may still grow by."""
        return self.limits - self.spent

    def after(self, cost: Cost) -> Account:
        """Return the account as it would be with one more cost charged in full."""
        spent = self.spent + charge(cost, self.filter.order)
        return replace(self, spent=spent, entries=self.entries + 1, head=None)

    def affords(self, cost: Cost, *, analyst: str | None = None) -> bool:
        """Say whether there is room for a cost, in the account and in the limit of the analyst who asks, if there is one."""
        name = analyst and unicodedata.normalize("NFC", analyst)
        needed = charge(cost, self.filter.order)
        rooms = [(self.spent, self.limits), *((one.spent, one.limits) for one in self.analysts if one.name == name)]
        return all(limits is None or (spent + needed).within(limits) for spent, limits in rooms)

    def admits(self, analyst: str | None) -> bool:
        """Say whether the account lists no analysts, or lists this one."""
        return not self.lists_analysts or any(one.allowed and one.name == analyst for one in self.analysts)

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
        return max(0, min(math.floor(self.budget.releases * left / limit) for left, limit in pairs if limit))

    @property
    def guarantee(self) -> str:
        """The one sentence a ledger can say."""
        return (
            f"Everything released from {self.dataset!r} through this ledger is, together, "
            f"({digits_up(self.budget.epsilon, 4)}, {digits_up(self.budget.delta, 3)})-DP for {self.adjacency.protects}."
        )

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {
            "dataset": self.dataset,
            "owner": self.owner,
            "state": self.state,
            "adjacency": str(self.adjacency),
            "protects": self.adjacency.protects,
            "unit": self.unit,
            "budget": asdict(self.budget),
            "filter": asdict(self.filter),
            "spent": self.spent.to_dict(),
            "used_percent": self.used,
            "remaining_releases": self.remaining_releases,
            "entries": self.entries,
            "created": self.created,
            "closed": self.closed,
            "version": self.version,
            "lists_analysts": self.lists_analysts,
            "analysts": [analyst.to_dict() for analyst in self.analysts],
            "head": self.head,
            "guarantee": self.guarantee,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """What somebody wrote beside an entry, and when."""

    at: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One reservation and what became of it; costs as plain data (`Cost.from_dict` reads them).

    ``answered`` says whether the answer is on the books; ``answer`` is there only where an answer was asked for, and None on
    pages of the history.
    """

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
    purpose: str | None = None
    question: Mapping[str, Any] | None = None
    data_version: str | None = None
    answered: bool = False
    answer: Mapping[str, Any] | None = None
    notes: tuple[Note, ...] = ()

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
        return {
            "id": self.id,
            "dataset": self.dataset,
            "at": self.at,
            "analyst": self.analyst,
            "mechanism": dict(self.mechanism),
            "state": self.state,
            "reserved": self.reserved.to_dict() | {"cost": self.reserved_cost},
            "settled": self.settled and self.settled.to_dict() | {"cost": self.settled_cost},
            "settled_at": self.settled_at,
            "version": self.version,
            "purpose": self.purpose,
            "question": self.question and dict(self.question),
            "data_version": self.data_version,
            "answered": self.answered,
            "answer": self.answer and dict(self.answer),
            "notes": [asdict(note) for note in self.notes],
        }


def _percent(spent: Sums, limits: Sums) -> dict[str, float]:
    rdp, delta = (min(100.0, fraction_up(100 * share)) for share in spent.shares(limits))
    return {"rdp": rdp, "delta": delta}
