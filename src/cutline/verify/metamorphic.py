r"""Change one user or one row of a log, hold every key, and see that exactly what may change changes.

The laws of the mechanisms are checked for counts of neighbouring logs. Whether the counts of an engine *are* neighbours is
checked here, on the engine itself: a log of made-up rows is counted, and then every log that has one user less, one user more
or one row more. A user who joins or leaves changes the counts of their own items by one, in as many of their groups as they
count in, and nothing else; the order of the rows and rows that are there twice change nothing.

Any source will do, so that a new engine or a new format of files is checked by handing over a function that makes one.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cutline.counting import count_by
from cutline.histogram import Item

Row = tuple[Any, Any, Any]  # user, item, group
Counts = Mapping[Hashable, Mapping[Hashable, int]]  # of the items of each group
COLUMNS = ("user", "item", "group")
NEWCOMER = "newcomer"


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """What is asked of every neighbouring log.

    Parameters
    ----------
    build
        Makes a source of the columns user, item and group, all of them text, from rows.
    groups
        The groups that are counted.
    max_groups_per_user, key, candidates
        As for `cutline.counting.count_by`.
    """

    build: Callable[[Sequence[Row]], object]
    groups: tuple[str, ...]
    max_groups_per_user: int | None = None
    key: str | None = None
    candidates: tuple[str, ...] | None = None

    def count(self, rows: Sequence[Row]) -> Counts:
        """Return all counts of a log."""
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
            max_k=max_k,
        )
        return {group: dict(_positive(histogram)) for group, histogram in found.items()}

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
        broken += _judge(f"{user} leaves", trial.count(rest), before, trial.counted(rows, user), trial)
    joining = {
        "a newcomer joins": [(NEWCOMER, item, group) for group in trial.groups for item in items],
        "a newcomer joins by one row": [(NEWCOMER, items[0], trial.groups[-1])],
    }
    for words, added in joining.items():
        after = trial.count([*added, *rows])
        broken += _judge(words, before, after, trial.counted(added, NEWCOMER), trial)
    return broken


def differences(without: Counts, with_more: Counts) -> dict[tuple[Hashable, Hashable], int]:
    """Return by how much the count of each group and item grew, where it did not stay the same."""
    places = {(group, item) for counts in (without, with_more) for group, own in counts.items() for item in own}
    grown = {(g, i): with_more.get(g, {}).get(i, 0) - without.get(g, {}).get(i, 0) for g, i in places}
    return {place: by for place, by in grown.items() if by}


def _judge(
    words: str, without: Counts, with_user: Counts, own: Mapping[Hashable, set[Hashable]], trial: Trial
) -> Iterator[str]:
    """Compare two logs that one user tells apart, who has the items ``own``."""
    grown = differences(without, with_user)
    groups = {group for group, _ in grown}
    due = min(len(own), trial.max_groups_per_user or len(own))
    if len(groups) != due:
        yield f"{words}: {len(groups)} groups change instead of {due}"
    if grown != {(group, item): 1 for group in groups for item in own.get(group, ())}:
        yield f"{words}: counts change that are not theirs, or by more than one"


def _positive(histogram: Any) -> Iterator[tuple[Item, int]]:
    """Yield the items of a histogram, open or closed, that somebody has, and their counts."""
    if hasattr(histogram, "counts"):
        yield from zip(histogram.items, histogram.counts.tolist(), strict=False)
        return
    counts = [int(n) for n, m in zip(histogram.values, histogram.multiplicities, strict=True) for _ in range(m)]
    yield from ((item, n) for item, n in zip(histogram.top(histogram.size), counts, strict=True) if n)
