r"""Everything that becomes public about one run of a mechanism, and what it cost.

A `Release` is an `Outcome` (items, cut and steps) with what is public before any data: cost, mechanism, budget. It holds no
private number, and may be printed, pickled, logged and stored.
A *record* (`Release.to_record`) is the same as plain data that reads back equal: the form in which a ledger keeps paid answers.
"""

from __future__ import annotations

import datetime
import decimal
import hashlib
import json
import math
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Self

import numpy as np

from cutline.count_errors import CountError
from cutline.explain import Explanation, explain
from cutline.histogram import Item, item_key
from cutline.notebook import Shown, Tabular
from cutline.outcome import Items, NextStep, Outcome, Status, advise, explain_status
from cutline.privacy import Budget, Cost
from cutline.rounding import digits_up
from cutline.version import __version__

_NAMED = ("max_k", "k", "choose", "max_items_per_user")  # parameters that the sentence of a release names
_STATED_DELTA = 1e-6  # of the sentence, when the mechanism was built from parameters and no budget says otherwise


@dataclass(frozen=True, slots=True, kw_only=True)
class Paid(Shown, ABC):
    """What releases, tables of them and labels have in common: the account that paid, and the entry that holds the answer.

    Parameters
    ----------
    account
        The account that paid, as it was afterwards, as plain data; None without a ledger.
    entry
        The entry of the ledger that paid for the answer and keeps it; None without a ledger.
    repeated_from
        The same entry if nothing was drawn or paid this time: the answer was in the books already. None otherwise.
    """

    account: Mapping[str, Any] | None = None
    entry: int | None = None
    repeated_from: int | None = None

    def with_account(self, account: Mapping[str, Any], *, entry: int, repeated: bool = False) -> Self:
        """Return the same answer together with the account that paid for it and the entry that keeps it."""
        return replace(self, account=account, entry=entry, repeated_from=entry if repeated else None)

    @property
    def cut(self) -> int | None:
        """Where the top ended, if one set went out and shows it; it may become the hint of a later release."""
        return None

    @property
    @abstractmethod
    def status(self) -> Status:
        """How the run ended: released, partial, empty or withheld."""

    @property
    def next_steps(self) -> tuple[NextStep, ...]:
        """What to change when asking again; nothing if there is nothing to advise."""
        return ()

    @abstractmethod
    def to_dict(self, *, full: bool = False) -> dict[str, Any]:
        """Return everything as plain data for JSON: the cost in a few values, or in full as `Cost.to_dict` writes it."""

    @abstractmethod
    def to_record(self) -> dict[str, Any]:
        """Return everything but the payment as plain data that can be read back without loss."""

    def explain(self) -> Explanation:
        """Return a page for reviewers: what the answer says about the people in the data, in plain words."""
        return explain(self.to_dict(), alone=self.alone)

    @property
    def alone(self) -> tuple[float, float] | None:
        """Epsilon and delta of this answer by itself at its dearest, if its guarantee covers several; None if not known."""
        return None

    def describe_payment(self) -> dict[str, Any]:
        """Return who paid as plain data: what ends the ``to_dict()`` of every answer."""
        return {
            "ledger": self.account,
            "entry": self.entry,
            "repeated_from": self.repeated_from,
            "version": __version__,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Release(Paid, Tabular):
    r"""One outcome, with what is public about the mechanism that drew it.

    Parameters
    ----------
    outcome
        What the mechanism showed; `items`, `k`, `steps` and `status` read it.
    cost
        What the steps that ran cost; a function of the outcome.
    mechanism
        Name and public parameters, as plain data.
    budget
        What the mechanism was calibrated for, if it was.
    counts
        Noisy counts of the items, if they were asked for.
    seeded
        True if the draw came from a seeded generator: a simulation, not a release.
    reserved
        The cost of the dearest path, if another than the one that ran: what a guarantee without a budget states.
    account, entry, repeated_from
        Who paid, if anybody: see `Paid`.
    """

    outcome: Outcome
    cost: Cost
    mechanism: Mapping[str, Any]
    budget: Budget | None
    counts: Mapping[Item, int] | None = None
    seeded: bool = False
    reserved: Cost | None = None

    def __post_init__(self) -> None:
        # A set remembers the order it was filled in (its iteration, repr and pickle show it where hashes collide), and it
        # was filled by rank: fill it again in an order of the items' own.
        if isinstance(self.outcome.items, frozenset):
            refilled = frozenset(sorted(self.outcome.items, key=item_key))
            object.__setattr__(self, "outcome", replace(self.outcome, items=refilled))

    @property
    def items(self) -> Items | None:
        """A ``frozenset`` (the order means nothing), a ``tuple`` (ordered), or None when withheld."""
        return self.outcome.items

    @property
    def k(self) -> int:
        """Where the cut fell; 0 when the mechanism shows no cut."""
        return self.outcome.k

    @property
    def cut(self) -> int | None:
        """Where the top ended, if a set went out and shows it; it may become the hint of a later release."""
        return int(self.k) if self.items is not None and self.k else None

    @property
    def steps(self) -> tuple[str, ...]:
        """Which public steps ran, in order; counting the items is the last, if they were counted."""
        return self.outcome.steps if self.counts is None else (*self.outcome.steps, "counts")

    @property
    def status(self) -> Status:
        """How the run ended: released, partial, empty or withheld."""
        return self.outcome.status

    @property
    def count_error(self) -> CountError | None:
        """How far the noisy counts may be from the true ones; None if there are no counts."""
        described = self.mechanism.get("counts")
        if self.counts is None or not described:
            return None
        return CountError.of_release(described, len(self.counts))

    @property
    def why(self) -> str:
        """Why an answer can have this status, in a sentence or two; from public facts alone."""
        return explain_status(self.status, mechanism=self.mechanism, k=self.k)

    @property
    def next_steps(self) -> tuple[NextStep, ...]:
        """What to change when asking again, what costs no more first; another answer is another release, and is paid for."""
        return advise(self.outcome, mechanism=self.mechanism, budget=self.budget, paid=self.account is not None)

    @property
    def released(self) -> bool:
        """Whether any item went out: true if the status is released or partial."""
        return bool(self.items)

    def by_group(self) -> list[tuple[dict[str, Any], Release]]:
        """Return the release itself, which belongs to no group."""
        return [({}, self)]

    def listed(self) -> list[Item] | None:
        """Return the items in an order that does not depend on the data, or as released if they are ordered."""
        if self.items is None:
            return None
        return list(self.items) if isinstance(self.items, tuple) else sorted(self.items, key=item_key)

    @property
    def guarantee(self) -> str:
        """One sentence: epsilon, delta, releases, adjacency; the worst case, never a refund."""
        return state_guarantee(self.mechanism, worst=self.reserved or self.cost, budget=self.budget, seeded=self.seeded)

    @property
    def alone(self) -> tuple[float, float] | None:
        """Epsilon and delta of this release by itself at its dearest."""
        worst = self.reserved or self.cost
        delta = _stated(worst, self.budget)[1]
        return worst.epsilon(delta), delta

    def to_record(self) -> dict[str, Any]:
        r"""Return everything but the payment as plain data that `from_record` reads back equal, the items' types included.

        Examples
        --------
        >>> from cutline.privacy import Adjacency
        >>> day = Outcome(items=frozenset({datetime.date(2026, 11, 16), decimal.Decimal("1.50"), True, "1"}), k=4)
        >>> release = Release(outcome=day, cost=Cost(adjacency=Adjacency.ADD_REMOVE), mechanism={"name": "m"}, budget=None)
        >>> Release.from_record(json.loads(json.dumps(release.to_record()))) == release
        True
        """
        costs: list[Cost] = []
        return self.to_row(costs) | {"kind": "release", "costs": [cost.to_dict() for cost in costs]}

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Self:
        """Read a release back from its record."""
        return cls.from_row(record, [Cost.from_dict(plain) for plain in record["costs"]])

    def to_row(self, costs: list[Cost]) -> dict[str, Any]:
        """Return the record with its costs by number in a list, to which new ones are added: a table names each once."""
        listed = self.listed()
        return {
            "items": None if listed is None else [encode_item(item) for item in listed],
            "ordered": isinstance(self.items, tuple),
            "k": int(self.k),
            "path": list(self.outcome.steps),
            "cost": _numbered(self.cost, costs),
            "reserved": None if self.reserved is None else _numbered(self.reserved, costs),
            "mechanism": dict(self.mechanism),
            "budget": None if self.budget is None else asdict(self.budget),
            "counts": None if self.counts is None else [int(self.counts[item]) for item in listed or ()],
            "seeded": self.seeded,
        }

    @classmethod
    def from_row(cls, row: Mapping[str, Any], costs: list[Cost]) -> Self:
        """Read a release back from what `to_row` returned, and the list that its costs are in."""
        listed = None if row["items"] is None else tuple(decode_item(item) for item in row["items"])
        items = listed if listed is None or row["ordered"] else frozenset(listed)
        return cls(
            outcome=Outcome(items=items, k=row["k"], steps=tuple(row["path"])),
            cost=costs[row["cost"]],
            reserved=None if row["reserved"] is None else costs[row["reserved"]],
            mechanism=row["mechanism"],
            budget=None if row["budget"] is None else Budget(**row["budget"]),
            counts=None if row["counts"] is None else dict(zip(listed or (), row["counts"], strict=True)),
            seeded=row["seeded"],
        )

    def to_dict(self, *, full: bool = False) -> dict[str, Any]:
        r"""Return everything as plain data for JSON.

        Parameters
        ----------
        full
            Whether the cost is written out as `Cost.to_dict` does, with all its tables, instead of in a few values.

        Returns
        -------
        dict
            ``status``: released, partial, empty or withheld; ``why``: how that can come; ``next_steps``: what to change when
            asking again. ``released``: whether any item went out. ``items``: in the order
            they were released, or in the items' own order where the order means nothing (``ordered`` is then false); None
            when withheld. ``k``: where the cut fell, or 0. ``mechanism``: its name and public parameters. ``epsilon``,
            ``delta`` and ``releases``: the budget it was calibrated for, or None. ``cost``: what the steps that ran cost,
            see `Cost.summary`. ``counts``: noisy counts in the order of the items, or None. ``count_error``: how far they may
            be off, with an interval for each, which has no number below 0. ``guarantee``: one sentence.
            ``seeded``: whether it is a simulation. ``ledger``: the account that paid, afterwards; ``entry``: where it is kept;
            ``repeated_from``: the same if it was there already, and free. ``version``: of the package.
        """
        listed, error = self.listed(), self.count_error
        counts = None if self.counts is None else [int(self.counts[item]) for item in listed or ()]
        _, delta, _ = _stated(self.reserved or self.cost, self.budget)
        return {
            "status": str(self.status),
            "why": self.why,
            "next_steps": [step.to_dict() for step in self.next_steps],
            "released": self.released,
            "items": None if listed is None else [_plain(item) for item in listed],
            "ordered": isinstance(self.items, tuple),
            "k": self.k,
            **describe_cost(self.mechanism, cost=self.cost, budget=self.budget, delta=delta, full=full),
            "counts": counts,
            "count_error": error and error.to_dict() | {"intervals": [list(error.interval(n)) for n in counts or ()]},
            "guarantee": self.guarantee,
            "seeded": self.seeded,
            **self.describe_payment(),
        }


def state_guarantee(mechanism: Mapping[str, Any], *, worst: Cost, budget: Budget | None, seeded: bool) -> str:
    """Return the sentence of a release whose dearest path costs ``worst``; it does not depend on the outcome."""
    epsilon, delta, releases = _stated(worst, budget)
    span = "this one release" if releases == 1 else f"all {releases} releases of this kind together"
    parameters = ", ".join(f"{k} = {v}" for k, v in mechanism.items() if k in _NAMED)
    sentence = (
        f"({digits_up(epsilon, 4)}, {digits_up(delta, 3)})-DP for {worst.adjacency.protects}; covers {span}, "
        f"whatever the outcome; {mechanism['name']} with {parameters}."
    )
    if "hint" in mechanism:
        whose = "the last one that was released" if mechanism.get("hint_from") == "ledger" else "the caller's"
        sentence += f" The cut that is tested first, {mechanism['hint']}, is {whose}, and must be public."
    return sentence + (" Drawn with a seeded generator: a simulation, not a release." if seeded else "")


def _stated(worst: Cost, budget: Budget | None) -> tuple[float, float, int]:
    """Return the budget if the cost fits it; otherwise the mechanism was not built for it, and the cost speaks."""
    if budget is not None and budget.fits(worst):
        return budget.epsilon, budget.delta, budget.releases
    delta = budget.delta if budget is not None else _STATED_DELTA
    delta = delta if 2 * worst.delta < delta else min(2 * worst.delta, (1 + worst.delta) / 2)
    return worst.epsilon(delta), delta, 1


def _plain(item: Item) -> bool | int | float | str | None:
    """Return the item as JSON can hold it: numbers and truth values as they are, the rest as text."""
    if item is None or isinstance(item, bool | int | str):
        return item
    return item if isinstance(item, float) and math.isfinite(item) else str(item)


# How items of other types than JSON's are written down: the type, a text of it, and the way back.
_WRITTEN: dict[str, tuple[type, Callable[[Any], str], Callable[[str], Item]]] = {
    "int": (int, hex, lambda text: int(text, 16)),  # of thousands of digits, which Python does not write in decimals
    "float": (float, float.hex, float.fromhex),
    "decimal": (decimal.Decimal, str, decimal.Decimal),
    "bytes": (bytes, bytes.hex, bytes.fromhex),
    "uuid": (uuid.UUID, str, uuid.UUID),
    "datetime": (datetime.datetime, datetime.datetime.isoformat, datetime.datetime.fromisoformat),
    "date": (datetime.date, datetime.date.isoformat, datetime.date.fromisoformat),
    "time": (datetime.time, datetime.time.isoformat, datetime.time.fromisoformat),
}


def encode_item(item: Item) -> Any:
    """Return an item as JSON can hold it, so that `decode_item` returns an equal one; of an unknown type, its text."""
    if isinstance(item, np.generic):
        item = item.item()
    if item is None or type(item) in (bool, str) or (type(item) is int and item.bit_length() < 10_000):
        return item
    if isinstance(item, tuple):
        return {"tuple": [encode_item(part) for part in item]}
    for name, (kind, write, read) in _WRITTEN.items():
        if isinstance(item, kind):
            text = write(item)
            if read(text) == item or item != item:  # a NaN comes back, too
                return {name: text}
    return {"text": str(item)}


def decode_item(plain: object) -> Item:
    """Return the item that was written down."""
    if not isinstance(plain, dict):
        return plain
    ((name, written),) = plain.items()
    if name == "tuple":
        return tuple(decode_item(part) for part in written)
    return _WRITTEN[name][2](written) if name in _WRITTEN else str(written)


def digest_items(items: Iterable[Item]) -> dict[str, Any]:
    """Return the length and the digest of a public list, by which a question names it."""
    written = [encode_item(item) for item in items]
    return {"length": len(written), "sha256": hashlib.sha256(json.dumps(written).encode()).hexdigest()}


def _numbered(cost: Cost, costs: list[Cost]) -> int:
    if cost not in costs:
        costs.append(cost)
    return costs.index(cost)


def describe_cost(
    mechanism: Mapping[str, Any], *, cost: Cost, budget: Budget | None, delta: float, full: bool
) -> dict[str, Any]:
    """Return what releases and labels alike say about how they were made: mechanism, budget, and cost at ``delta``."""
    return {
        "mechanism": dict(mechanism),
        "adjacency": str(cost.adjacency),
        "epsilon": budget.epsilon if budget else None,
        "delta": budget.delta if budget else None,
        "releases": budget.releases if budget else None,
        "cost": cost.to_dict() if full else cost.summary(delta),
    }
