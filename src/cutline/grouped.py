r"""One top set per group of a log, such as a day or a country, under one guarantee for the whole table.

One user joining or leaving changes the histograms of the groups that user counts in, and no others. If those are at most m,
at most m of the table's independent releases change their law, and the table costs what m releases cost
[docs/groups.md].
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any, Self, TypeAlias

from cutline.histogram import Item
from cutline.notebook import Tabular
from cutline.outcome import NextStep, Status, advise, join_statuses
from cutline.privacy import Budget, Cost, Gaussian
from cutline.release import Paid, Release, decode_item, describe_cost, encode_item, state_guarantee

__all__ = ["GroupedRelease", "dearest"]

Group: TypeAlias = Item


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupedRelease(Paid, Tabular):
    r"""A table of releases, one per group, and what one user can lose by all of them together.

    The sentence to publish with the table is `guarantee`. That of a single entry is true as well, but speaks of as many
    releases of its kind as one user can count in, and says nothing of the groups beyond.

    Parameters
    ----------
    by
        The column that names the group.
    releases
        One release per listed group, in the caller's order.
    groups_per_user
        In how many groups one user counts at most; public.
    budget
        What this table and others of its kind may spend together.
    reserved
        The dearest that the whole table could have been, for one user.
    account, entry, repeated_from
        Who paid, if anybody: see `cutline.release.Paid`.
    """

    by: str
    releases: Mapping[Group, Release]
    groups_per_user: int
    budget: Budget
    reserved: Cost

    def __post_init__(self) -> None:
        object.__setattr__(self, "releases", dict(self.releases))

    @property
    def cost(self) -> Cost:
        """What the steps that ran cost the users of the dearest groups; a function of the outcomes."""
        costs = [release.cost for release in self.releases.values()]
        found = dearest(costs, self.groups_per_user)
        return self.reserved if found is None else found

    @property
    def status(self) -> Status:
        """Released if every group is; withheld or empty if no group has an item; otherwise partial."""
        return join_statuses(release.status for release in self.releases.values())

    @property
    def why(self) -> str:
        """Why a table can have this status: how many groups fell short of a full list, and why a group can."""
        if self.status is Status.RELEASED:
            return "The items of every group went out."
        statuses = [release.status for release in self.releases.values()]
        short = [status for status in Status if status is not Status.RELEASED and status in statuses]
        counted = ", ".join(f"{statuses.count(status):,} {status}" for status in short)
        reasons = {release.status: release.why for release in [*self.releases.values()][::-1]}
        return " ".join([f"Of {len(statuses):,} groups: {counted}.", *(reasons[status] for status in short)])

    @property
    def next_steps(self) -> tuple[NextStep, ...]:
        """What to change when asking again: what helps the first group that was not released in full."""
        return self._advise(self._first())

    def _advise(self, release: Release) -> tuple[NextStep, ...]:
        """Return what helps one group; the budget and who pays are those of the table."""
        steps = advise(release.outcome, mechanism=release.mechanism, budget=self.budget, paid=self.account is not None)
        if release.status is Status.RELEASED or self.groups_per_user == 1:
            return steps
        why = "each user counts in fewer groups, and each group gets a larger part of the budget"
        fewer = NextStep(parameter="max_groups_per_user", value=max(1, self.groups_per_user // 3), because=why)
        return (*steps, fewer)

    def _first(self) -> Release:
        releases = list(self.releases.values())
        return next((release for release in releases if release.status is not Status.RELEASED), releases[0])

    @property
    def seeded(self) -> bool:
        """Whether a seeded generator drew any of it: then it is a simulation."""
        return any(release.seeded for release in self.releases.values())

    @property
    def guarantee(self) -> str:
        """What holds for the whole table: epsilon, delta, releases, adjacency; the worst case, never a refund."""
        first = next(iter(self.releases.values()))
        whole = state_guarantee(first.mechanism, worst=self.reserved, budget=self.budget, seeded=self.seeded)
        return of_table(whole, by=self.by, groups=len(self.releases), touched=self.groups_per_user)

    def by_group(self) -> list[tuple[dict[str, Any], Release]]:
        """Return the release of every group, with the group."""
        return [({self.by: group}, release) for group, release in self.releases.items()]

    def to_record(self) -> dict[str, Any]:
        """Return everything but the payment as plain data that `from_record` reads back equal."""
        costs = [self.reserved]
        rows = [[encode_item(group), release.to_row(costs)] for group, release in self.releases.items()]
        return {
            "kind": "table",
            "by": self.by,
            "groups": rows,
            "groups_per_user": self.groups_per_user,
            "budget": asdict(self.budget),
            "costs": [cost.to_dict() for cost in costs],
        }

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Self:
        """Read a table back from its record."""
        costs = [Cost.from_dict(plain) for plain in record["costs"]]
        return cls(
            by=record["by"],
            releases={decode_item(group): Release.from_row(row, costs) for group, row in record["groups"]},
            groups_per_user=record["groups_per_user"],
            budget=Budget(**record["budget"]),
            reserved=costs[0],
        )

    def to_dict(self, *, full: bool = False) -> dict[str, Any]:
        """Return the table as plain data; each group's entry states the guarantee of the whole table."""
        shared = {"releases": self.budget.releases, "guarantee": self.guarantee}

        def entry(release: Release) -> dict[str, Any]:
            steps = [step.to_dict() for step in self._advise(release)]
            return release.to_dict(full=full) | shared | {"next_steps": steps}

        mechanism, budget = next(iter(self.releases.values())).mechanism, self.budget
        return {
            "status": str(self.status),
            "why": self.why,
            "next_steps": [step.to_dict() for step in self.next_steps],
            "groups": {str(group): entry(release) for group, release in self.releases.items()},
            "by": self.by,
            "groups_per_user": self.groups_per_user,
            **describe_cost(mechanism, cost=self.cost, budget=budget, delta=budget.delta, full=full),
            "guarantee": self.guarantee,
            "seeded": self.seeded,
            **self.describe_payment(),
        }


def of_table(guarantee: str, *, by: str, groups: int, touched: int) -> str:
    """Say that a guarantee is that of a whole table of groups."""
    number = "1 group" if groups == 1 else f"{groups} groups"
    bound = f"one user counts in at most {touched} of them"
    return f"{guarantee} One release is the whole table of {number} by {by!r}, and {bound}."


def dearest(costs: Sequence[Cost], number: int) -> Cost | None:
    r"""Return a cost that covers any ``number`` of these at every order, or None if they do not compare.

    The sum of the dearest ones, where of any two one contains the other; the sum of all if all are covered anyway. What the
    groups cost is known only afterwards, so it may be charged at one order fixed before [docs/groups.md].

    Examples
    --------
    >>> from cutline.privacy import Adjacency, Pure
    >>> test, draw = (Cost.of(Pure(epsilon=e), adjacency=Adjacency.ADD_REMOVE) for e in (0.1, 0.9))
    >>> dearest([test, test + draw, test], 2) == test + draw + test
    True
    >>> dearest([test, draw], 1) is None
    True
    """
    if number >= len(costs):
        chosen = list(costs)
    else:
        ranked = sorted(((_amounts(cost), cost) for cost in costs), key=lambda pair: _size(pair[0]), reverse=True)
        for (dear, _), (cheap, _) in itertools.pairwise(ranked):
            if any(dear.get(kind, 0) < amount for kind, amount in cheap.items()):
                return None
        chosen = [cost for _, cost in ranked[:number]]
    return Cost(adjacency=costs[0].adjacency, uses=tuple(use for cost in chosen for use in cost.uses))


def _amounts(cost: Cost) -> dict[Any, Fraction]:
    """Return how much of each kind of step there is; Gaussian noise is linear in the squared sensitivity."""
    found: dict[Any, Fraction] = {}
    for use in cost.uses:
        curve, amount = use.curve, Fraction(use.times)
        kind: Any = (curve, use.delta)
        if isinstance(curve, Gaussian):
            kind = ("gaussian", curve.sigma, curve.discrete, use.delta)
            amount *= Fraction(curve.squared_sensitivity)
        found[kind] = found.get(kind, Fraction(0)) + amount
    return found


def _size(amounts: Mapping[Any, Fraction]) -> tuple[int, Fraction]:
    """Order so that what contains another comes before it."""
    return len(amounts), sum(amounts.values(), Fraction(0))
