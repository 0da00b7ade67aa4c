r"""One record, one ballot: a table of made-up records, one of them changed in every way there is, and whose ballots moved.

The teachers run as they do for `cutline.PATEClassifier`, only that their ballots are kept apart. Use it on a teacher of your
own, with made-up or public records: the ballots of private ones are private.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from cutline.arrays import FloatArray, Int8Array, IntArray
from cutline.pate.classes import read_classes
from cutline.pate.partition import assign, id_bytes, read_features, read_labels, row_bytes
from cutline.pate.teachers import Teachers


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Table:
    """Made-up records: features, labels of 0 and 1, and perhaps ids, which then decide who teaches what."""

    features: npt.NDArray[Any]
    labels: npt.NDArray[Any]
    ids: tuple[str, ...] | None = None
    classes: int | None = None  # how many, if the labels are a vector of classes 0, 1, ...

    def keep(self, places: IntArray) -> Table:
        """Return some of the records, or some of them twice."""
        ids = None if self.ids is None else tuple(self.ids[place] for place in places)
        return replace(self, features=self.features[places], labels=self.labels[places], ids=ids)

    def teacher(self, place: int, *, teachers: int, key: bytes) -> int:
        """Return who teaches from this record."""
        spelled = row_bytes(self.features[[place]]) if self.ids is None else id_bytes([self.ids[place]])
        return int(assign(spelled, teachers=teachers, key=key)[0])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Change:
    """A table in which one record changed, and the teachers whose ballots may change with it."""

    name: str
    after: Table
    allowed: frozenset[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Breach:
    """A change of one record, the teachers whose ballots changed, and those whose ballots may."""

    change: str
    changed: frozenset[int]
    allowed: frozenset[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class BallotTally:
    """Keeps the ballots of all teachers apart: (teachers, examples, labels)."""

    teachers: int
    labels: int
    scored: bool = False

    def blank(self, queries: int) -> IntArray:
        return np.zeros((self.teachers, queries, self.labels), dtype=np.int64)

    def add(self, tally: IntArray, teacher: int, votes: Int8Array, scores: FloatArray | None) -> None:  # noqa: ARG002
        tally[teacher] = votes


def changes(table: Table, place: int, *, teachers: int, key: bytes) -> Iterator[Change]:
    """Yield what one record can do: leave, come twice, change its labels, and change its features."""
    everybody = np.arange(len(table.features))
    own = table.teacher(place, teachers=teachers, key=key)
    yield Change(name="leaves", after=table.keep(np.delete(everybody, place)), allowed=frozenset({own}))
    yield Change(name="comes twice", after=table.keep(np.append(everybody, place)), allowed=frozenset({own}))
    labels, features = table.labels.copy(), table.features.copy()
    labels[place] = 1 - labels[place] if table.classes is None else (labels[place] + 1) % table.classes
    yield Change(name="changes its labels", after=replace(table, labels=labels), allowed=frozenset({own}))
    features[place] = features[place] + 1
    moved = replace(table, features=features)
    allowed = frozenset({own, moved.teacher(place, teachers=teachers, key=key)})
    yield Change(name="changes its features", after=moved, allowed=allowed)


def cast_ballots(
    template: Any, table: Table, public: Any, *, teachers: int, key: bytes = b"", n_jobs: int | None = None
) -> IntArray:
    """Train every teacher and return all ballots, (teachers, examples, labels)."""
    classes = table.classes
    labels = read_labels(table.labels)[0] if classes is None else read_classes(table.labels, tuple(range(classes)))
    voters = Teachers(
        template=template,
        features=read_features(table.features),
        labels=labels,
        ids=None if table.ids is None else list(table.ids),
        public=public,
        key=key,
        seeds=np.arange(teachers),
        n_jobs=n_jobs,
        classes=classes,
    )
    return voters.poll(BallotTally(teachers=teachers, labels=classes or labels.shape[1]))


def breaches(
    template: Any,
    table: Table,
    public: Any,
    *,
    places: tuple[int, ...],
    teachers: int,
    key: bytes = b"",
    n_jobs: int | None = None,
) -> list[Breach]:
    r"""Change each of some records in every way, with all seeds held, and return what moved ballots it may not move.

    Examples
    --------
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> rng = np.random.default_rng(0)
    >>> features = rng.normal(size=(60, 3))
    >>> table = Table(features=features, labels=(features[:, :1] > 0).astype(int))
    >>> breaches(DecisionTreeClassifier(), table, rng.normal(size=(20, 3)), places=(0, 59), teachers=4)
    []
    """
    before = cast_ballots(template, table, public, teachers=teachers, key=key, n_jobs=n_jobs)
    found = []
    for place in places:
        for change in changes(table, place, teachers=teachers, key=key):
            after = cast_ballots(template, change.after, public, teachers=teachers, key=key, n_jobs=n_jobs)
            changed = frozenset(np.flatnonzero((before != after).any(axis=(1, 2))).tolist())
            if not changed <= change.allowed:
                found.append(Breach(change=f"record {place} {change.name}", changed=changed, allowed=change.allowed))
    return found
