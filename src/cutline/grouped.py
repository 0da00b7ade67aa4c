r"""One top set per group of a log, such as a day or a country, under one guarantee for the whole table.

One user joining or leaving changes the histograms of the groups that user counts in, and no others. If those are at most m,
at most m of the table's independent releases change their law, and the table costs what m releases cost
[docs/groups.md]. Everything public is checked, and the one mechanism of all groups calibrated, before a row is read.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, TypeAlias

from cutline.counting import check, count_by
from cutline.counting.question import Progress, group_by
from cutline.errors import ParameterError
from cutline.histogram import Item
from cutline.privacy import Adjacency, Budget, Cost, Gaussian
from cutline.release import Outcome, Release
from cutline.sampling import Source, resolve
from cutline.terms import calibrated_pair, checked, default_max_k, default_mechanism, opened_books, released, terms

if TYPE_CHECKING:
    from cutline.ledger import Ledger

__all__ = ["GroupedRelease", "dearest", "top_by"]

Group: TypeAlias = Item


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupedRelease:
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
    def seeded(self) -> bool:
        """Whether a seeded generator drew any of it: then it is a simulation."""
        return any(release.seeded for release in self.releases.values())

    @property
    def guarantee(self) -> str:
        """What holds for the whole table: epsilon, delta, releases, adjacency; the worst case, never a refund."""
        first = next(iter(self.releases.values()))
        whole = Release(
            outcome=Outcome(items=None),
            cost=self.reserved,
            mechanism=first.mechanism,
            budget=self.budget,
            seeded=self.seeded,
        )
        groups = "1 group" if len(self.releases) == 1 else f"{len(self.releases)} groups"
        return (
            f"{whole.guarantee} One release is the whole table of {groups} by {self.by!r}, and one user counts in at most "
            f"{self.groups_per_user} of them."
        )

    def to_dict(self) -> dict[str, Any]:
        """Return what is said of the table as a whole, as plain data; the groups' own outcomes are in ``releases``."""
        return {
            "by": self.by,
            "groups_per_user": self.groups_per_user,
            "adjacency": str(self.reserved.adjacency),
            "epsilon": self.budget.epsilon,
            "delta": self.budget.delta,
            "releases": self.budget.releases,
            "cost": self.cost.to_dict(),
            "guarantee": self.guarantee,
            "seeded": self.seeded,
        }


def top_by(
    source: Any,
    *,
    user: str,
    item: str,
    by: str,
    groups: Iterable[Group],
    max_groups_per_user: int | None = None,
    key: str | bytes | None = None,
    epsilon: float | None = None,
    delta: float | None = None,
    releases: int | None = None,
    k: int | None = None,
    max_k: int | None = None,
    mechanism: str | None = None,
    adjacency: Adjacency | str | None = None,
    candidates: Sequence[Item] | None = None,
    counts: bool = False,
    where: str | None = None,
    memory_limit: str | None = None,
    ledger: Ledger | str | os.PathLike[str] | None = None,
    dataset: str | None = None,
    analyst: str | None = None,
    progress: Progress | None = None,
    rng: Source | None = None,
    **public: Any,
) -> GroupedRelease:
    r"""Count distinct users per group and item in one pass, and release the top set of every group, or withhold it.

    **Privacy.** (epsilon, delta)-DP for one user joining or leaving, for the whole table and all ``releases`` of such tables
    together [docs/groups.md]. One user counts in at most m = min(number of groups, ``max_groups_per_user``) groups, so each
    group's mechanism is calibrated for ``releases * m`` releases.

    Parameters
    ----------
    source
        A log, as for `cutline.count`; not ready counts.
    user, item, by
        The columns that name who did something, what it was, and the group of the row.
    groups
        All groups of the table, a public list; rows of other groups are ignored, a group without rows is released like any.
    max_groups_per_user
        Let each user count in at most this many of the groups, chosen by a hash of the user, the group and ``key`` that reads
        the user's own rows alone. None lets users count in every group, which costs more the more groups there are.
    key
        What the hash is keyed with; anything that was not derived from the log.
    epsilon, delta, releases
        The total budget, and how many tables of this kind share it; 1, 1e-6 and 1 by default. With a ledger and neither epsilon
        nor delta, one table takes one ``releases``-th of the dataset's budget, by default as for any release of the usual kind.
    adjacency
        None or ``"add-remove"``: a user whose rows change can leave m groups and enter m others.
    ledger, dataset, analyst
        On whose account: m times the dearest path of one group is reserved before a row is read, and settled to what ran.
    k, max_k, mechanism, candidates, counts, where, memory_limit, progress, rng, **public
        As for `cutline.top` and `cutline.counting.count_by`, for every group.

    Returns
    -------
    GroupedRelease
        One `Release` per group and the guarantee of the whole table.

    Raises
    ------
    CutlineError
        For a public reason only: a parameter, a path, a column, the caller's own groups and candidates.

    Examples
    --------
    >>> import pyarrow
    >>> from cutline.sampling import SeededSource
    >>> rows = [(n, day, "castle") for n in range(400) for day in ("mon", "tue")] + [(n, "mon", "harbour") for n in range(390)]
    >>> log = pyarrow.table(dict(zip(("who", "day", "where"), zip(*rows, strict=True), strict=True)))
    >>> found = top_by(log, user="who", item="where", by="day", groups=["mon", "tue", "wed"], max_k=5, rng=SeededSource(0))
    >>> {day: release.listed() for day, release in found.releases.items()}
    {'mon': ['castle', 'harbour'], 'tue': ['castle'], 'wed': None}
    """
    rng = resolve(rng)
    grouping = group_by(by=by, groups=groups, max_groups_per_user=max_groups_per_user, key=key)
    kind, told = checked(
        mechanism or default_mechanism(k),
        closed=candidates is not None,
        candidates=None if candidates is None else len(candidates),
        k=k,
        max_k=max_k,
        **public,
    )
    question: dict[str, Any] = {
        "user": user,
        "item": item,
        "by": by,
        "groups": grouping.groups,
        "max_groups_per_user": max_groups_per_user,
        "key": key,
        "where": where,
        "candidates": candidates,
        "memory_limit": memory_limit,
    }
    with opened_books(ledger, dataset=dataset, analyst=analyst) as books:
        relation, budget, limits = terms(
            books, dataset, rng, adjacency=adjacency, user=user, epsilon=epsilon, delta=delta, releases=releases
        )
        if relation is not Adjacency.ADD_REMOVE:
            raise ParameterError(
                "a table by groups protects a user joining or leaving",
                f"{relation}: a user whose rows change can leave some groups and enter others",
                "Take add-remove.",
            )
        touched = grouping.limit or len(grouping.groups)
        each = replace(budget, releases=budget.releases * touched)
        counted = max(k or max_k or default_max_k(k), *(told.get("ranks") or (1,))) if counts else None
        ready, noisy = calibrated_pair(kind, each, limits, adjacency=relation, told=told, counted=counted)
        reserved = touched * (ready.cost if noisy is None else ready.cost + noisy.cost)
        ranks = max(getattr(ready, "max_k", 0), max_k or 0) or default_max_k(k)

        def work() -> GroupedRelease:
            histograms = count_by(source, **question, max_k=ranks, progress=progress)
            found = {group: released(ready, noisy, histogram, rng) for group, histogram in histograms.items()}
            return GroupedRelease(by=by, releases=found, groups_per_user=touched, budget=budget, reserved=reserved)

        if books is None or dataset is None:
            return work()
        check(source, **question)  # a typo in a name is refused before it costs anything
        described = ready.describe() | ({} if noisy is None else {"counts": noisy.describe()})
        described |= {"groups": len(grouping.groups), "groups_per_user": touched}
        return books.run(work, cost=reserved, mechanism=described, dataset=dataset, analyst=analyst)


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
