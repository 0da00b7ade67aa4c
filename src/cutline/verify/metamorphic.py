r"""Change one user or one row of a log, hold every key, and see that exactly what may change changes.

The laws of the mechanisms are checked for counts of neighbouring logs. Whether the counts of an engine *are* neighbours is
checked here, on the engine itself: a log of made-up rows is counted, and then every log that has one user less, one user more
or one row more. A user who joins or leaves changes the counts of their own items by one, in as many of their groups as they
count in, and nothing else; the order of the rows and rows that are there twice change nothing. With a bound on items per user,
they change as many bounded counts as the bound lets them, those of the items that they would keep if they were alone.

Any source will do, so that a new engine or a new format of files is checked by handing over a function that makes one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cutline.counting import count_by
from cutline.histogram import BoundedHistogram, Item

Row = tuple[Any, Any, Any]  # user, item, group
Counts = Mapping[Hashable, Mapping[Hashable, int]]  # of the items of each group
COLUMNS = ("user", "item", "group")
NEWCOMER = "newcomer"
ALL_USERS = "all users"  # marks full counts that stand beside bounded ones


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """What is asked of every neighbouring log.

    Parameters
    ----------
    build
        Makes a source of the columns user, item and group, all of them text, from rows.
    groups
        The groups that are counted.
    max_groups_per_user, key, candidates, max_items_per_user
        As for `cutline.counting.count_by`.
    """

    build: Callable[[Sequence[Row]], object]
    groups: tuple[str, ...]
    max_groups_per_user: int | None = None
    key: str | None = None
    candidates: tuple[str, ...] | None = None
    max_items_per_user: int | None = None

    def count(self, rows: Sequence[Row]) -> Counts:
        """Return all counts of a log; with a bound, the bounded ones, and beside them those of all users of the same items."""
        return self.count_source(self.build(rows), max_k=max(1, len({item for _, item, _ in rows})))

    def count_source(self, source: object, *, max_k: int) -> Counts:
        """Return the counts of a source that is already there; ``max_k`` is at least the number of its items."""
        found = count_by(
            source,
            user="user",
            item="item",
            by="group",
            groups=self.groups,
            max_groups_per_user=self.max_groups_per_user,
            key=self.key,
            candidates=self.candidates,
            max_items_per_user=self.max_items_per_user,
            max_k=max_k,
        )
        counts: dict[Hashable, Mapping[Hashable, int]] = {
            g: dict(_positive(histogram)) for g, histogram in found.items()
        }
        for group, histogram in found.items():
            if isinstance(histogram, BoundedHistogram):
                ranks = range(len(histogram.items))
                counts[ALL_USERS, group] = dict(
                    zip(histogram.named(ranks), histogram.full_counts(ranks).tolist(), strict=True)
                )
        return counts

    def counted(self, rows: Sequence[Row], user: object) -> dict[Hashable, set[Hashable]]:
        """Return the items of one user in each of the groups where they have one that counts."""
        own: dict[Hashable, set[Hashable]] = {}
        for who, item, group in rows:
            listed = self.candidates is None or item in self.candidates
            if who == user and item is not None and listed and group in self.groups:
                own.setdefault(group, set()).add(item)
        return own


def find_violations(trial: Trial, rows: Sequence[Row], *, leaving: Sequence[object] | None = None) -> list[str]:
    r"""Count a log and its neighbours, and return a sentence for each that changes what it may not; none if all is well.

    Parameters
    ----------
    trial
        What is asked, and of which source.
    rows
        The log, made up: the sentences name its users.
    leaving
        The users who leave, one at a time; by default all. One who joins, in all groups, and one who joins by a single row are
        tried in any case, as is the log with its rows in another order and twice.

    Examples
    --------
    >>> import pyarrow
    >>> rows = [("ann", "tea", "mon"), ("bob", "tea", "mon"), ("bob", "milk", "tue")]
    >>> def build(rows):
    ...     return pyarrow.table({name: [row[i] for row in rows] for i, name in enumerate(COLUMNS)})
    >>> find_violations(Trial(build=build, groups=("mon", "tue"), max_groups_per_user=1), rows)
    []
    """
    before = trial.count(rows)
    users = dict.fromkeys(user for user, _, _ in rows if user is not None)
    items = sorted({item for _, item, _ in rows if item is not None})
    broken = (
        [] if trial.count([*rows[::-1], *rows]) == before else ["other counts from rows in another order and twice"]
    )
    for user in users if leaving is None else leaving:
        rest = [row for row in rows if row[0] != user]
        broken += _judge(
            f"{user} leaves", trial, before=trial.count(rest), after=before, own=[row for row in rows if row[0] == user]
        )
    joining = {
        "a newcomer joins": [(NEWCOMER, item, group) for group in trial.groups for item in items],
        "a newcomer joins by one row": [(NEWCOMER, items[0], trial.groups[-1])],
    }
    for words, added in joining.items():
        broken += _judge(words, trial, before=before, after=trial.count([*added, *rows]), own=added)
    return broken


def differences(without: Counts, with_more: Counts) -> dict[tuple[Hashable, Hashable], int]:
    """Return by how much the count of each group and item grew, where it did not stay the same."""
    places = {(group, item) for counts in (without, with_more) for group, own in counts.items() for item in own}
    grown = {(g, i): with_more.get(g, {}).get(i, 0) - without.get(g, {}).get(i, 0) for g, i in places}
    return {place: by for place, by in grown.items() if by}


def _judge(words: str, trial: Trial, *, before: Counts, after: Counts, own: Sequence[Row]) -> Iterator[str]:
    """Compare two logs that one user tells apart, whose rows ``own`` are only in the second."""
    items = trial.counted(own, own[0][0]) if own else {}
    grown = differences(_part(before, trial, bounded=True), _part(after, trial, bounded=True))
    groups = {group for group, _ in grown}
    due = min(len(items), trial.max_groups_per_user or len(items))
    if len(groups) != due:
        yield f"{words}: {len(groups)} groups change instead of {due}"
    theirs = {(group, item): 1 for group in groups for item in items.get(group, ())}
    if trial.max_items_per_user is None:
        if grown != theirs:
            yield f"{words}: counts change that are not theirs, or by more than one"
        return
    sizes = Counter(group for group, _ in grown)
    if any(sizes[group] != min(trial.max_items_per_user, len(items[group])) for group in groups if group in items):
        yield f"{words}: another number of bounded counts changes than the bound lets them"
    if not grown.items() <= theirs.items() or grown != differences({}, _part(trial.count(own), trial, bounded=True)):
        yield f"{words}: bounded counts change that are not those they would keep if they were alone"
    full = _part(before, trial, bounded=False), _part(after, trial, bounded=False)
    shared = {(group, item) for group, counts in full[0].items() for item in counts if item in full[1][group]}
    if {place for place, by in differences(*full).items() if by == 1 and place in shared} != theirs.keys() & shared:
        yield f"{words}: counts of all users change that are not theirs, or by more than one"


def _part(counts: Counts, trial: Trial, *, bounded: bool) -> Counts:
    """Return the counts by group: the bounded ones, if there is a bound, or those of all users."""
    return {group: counts[group if bounded else (ALL_USERS, group)] for group in trial.groups}


def _positive(histogram: Any) -> Iterator[tuple[Item, int]]:
    """Yield the items of a histogram that somebody has, and their counts."""
    if hasattr(histogram, "counts"):
        yield from zip(histogram.items, histogram.counts.tolist(), strict=False)
        return
    counts = [int(n) for n, m in zip(histogram.values, histogram.multiplicities, strict=True) for _ in range(m)]
    yield from ((item, n) for item, n in zip(histogram.top(len(histogram.items)), counts, strict=True) if n)
