r"""Ballots of real teachers on real multi-label data: each learns from its own records and votes on public examples."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from cutline.arrays import IntArray
from experiments.datasets import LabelData, load_multilabel
from experiments.exp3.polls import Bools, Poll
from experiments.trials import Setting, run_cells, seed_of

_KEY = b"exp3"
_BLOCKS = 4  # groups of teachers that are trained in one go


@dataclass(frozen=True, slots=True, kw_only=True)
class Class:
    r"""Who teaches what.

    Parameters
    ----------
    name
        Of the data set.
    teachers, queries
        How many.
    names
        Each teacher names this many labels, its surest; None: as many as its classifier says.
    quorum
        Share of the teachers that must say yes.
    limits
        The ballot limits to count for.
    limit
        The limit that limited aggregators are run with.
    window
        The most labels that StableTopK may release.
    penalty
        Of the teachers' ridge regression.
    """

    name: str
    teachers: int
    queries: int
    limits: tuple[int, ...]
    limit: int
    window: int
    names: int | None = None
    quorum: float = 0.5
    penalty: float = 1.0


CLASSES: Mapping[str, Class] = MappingProxyType(
    {
        "tmc2007": Class(name="tmc2007", teachers=300, queries=200, limits=(1, 2, 3, 5), limit=2, window=10),
        "delicious": Class(
            name="delicious",
            teachers=300,
            queries=100,
            limits=(3, 5, 10),
            limit=10,
            window=40,
            names=10,
            quorum=0.25,
            penalty=2.0,
        ),
    }
)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False, eq=False)
class Lesson:
    """A poll with what a student needs: the public examples' features, and test examples with their labels."""

    poll: Poll
    note: str
    public: Bools
    features: Bools
    truth: Bools
    everything: npt.NDArray[np.int8]  # what a classifier trained on all private records says about the test examples


@dataclass(frozen=True, slots=True, kw_only=True)
class _Block:
    group: Class
    data: Path | None
    seed: int
    number: int


def poll_teachers(group: Class, setting: Setting) -> Lesson:
    """Train all teachers, each on its records, and let them vote on public examples out of the test split."""
    cells = {
        str(number): _Block(group=group, data=setting.data, seed=setting.seed, number=number)
        for number in range(_BLOCKS)
    }
    silent = Setting(data=setting.data, seed=setting.seed, jobs=setting.jobs)
    found = run_cells(_votes_of_block, cells, experiment=f"exp3-{group.name}", setting=silent)
    votes: dict[int | None, IntArray] = {}
    for block in found.values():
        for tau, counts in block.items():
            votes[tau] = votes.get(tau, 0) + counts
    data = _loaded(group.name, setting.data)
    public, rest = _split(data, group, setting.seed)
    poll = Poll(
        name=group.name,
        title=data.title,
        teachers=group.teachers,
        truth=data.values[public],
        votes=votes,
        limit=group.limit,
        quorum=group.quorum,
        window=group.window,
        measure="f1",
        generated=data.generated,
    )
    features = _features(data)
    trained = np.flatnonzero(data.split == 0)
    return Lesson(
        poll=poll,
        note=data.note,
        public=features[public].astype(np.bool_),
        features=features[rest].astype(np.bool_),
        truth=data.values[rest],
        everything=_taught(features[trained], data.values[trained], features[rest]),
    )


@lru_cache(maxsize=1)
def _loaded(name: str, data: Path | None) -> LabelData:
    """Load a data set once for all blocks of teachers that a process trains."""
    return load_multilabel(name, data)


def make_teacher(penalty: float, names: int | None = None) -> Any:
    """Return the classifier that teachers and students are: a ridge regression for all labels together, or its surest ones."""
    from sklearn.linear_model import RidgeClassifier

    from cutline.pate.surest import SurestLabels

    ridge = RidgeClassifier(alpha=penalty)
    return ridge if names is None else SurestLabels(ridge, names)


def _taught(features: npt.NDArray[np.float64], truth: Bools, asked: npt.NDArray[np.float64]) -> npt.NDArray[np.int8]:
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1):
        said = make_teacher(10.0).fit(features, truth.astype(np.int64)).predict(asked)
    return np.asarray(said, dtype=np.int8)


def _split(data: LabelData, group: Class, seed: int) -> tuple[IntArray, IntArray]:
    """Return the public examples and the rest of the test split."""
    order = np.random.default_rng(seed_of(seed, "exp3", group.name)).permutation(np.flatnonzero(data.split == 1))
    return order[: group.queries], order[group.queries :]


def _features(data: LabelData) -> npt.NDArray[np.float64]:
    if data.features is None:
        raise AssertionError(data.name)
    return data.features.astype(np.float64)


def _votes_of_block(block: _Block, seed: int) -> dict[int | None, IntArray]:  # noqa: ARG001 - ridge draws nothing
    """Train every fourth teacher and return the sum of their ballots for each limit."""
    from threadpoolctl import threadpool_limits

    from cutline import partition
    from cutline.pate.partition import shards

    group = block.group
    data = _loaded(group.name, block.data)
    public, _ = _split(data, group, block.seed)
    features, trained = _features(data), np.flatnonzero(data.split == 0)
    given = partition(features[trained], teachers=group.teachers, key=_KEY)
    votes = {tau: np.zeros((group.queries, data.values.shape[1]), np.int64) for tau in (None, *group.limits)}
    with threadpool_limits(1):  # matrices are small: threads cost more than they save
        for number, places in enumerate(shards(given, teachers=group.teachers)):
            if number % _BLOCKS == block.number:
                own = trained[places]
                for tau, ballot in _ballots(group, features[own], data.values[own], features[public]).items():
                    votes[tau] += ballot
    return votes


def _ballots(
    group: Class, features: npt.NDArray[np.float64], truth: Bools, public: npt.NDArray[np.float64]
) -> dict[int | None, Any]:
    """Train one teacher and return its ballot as it is and cut to each limit."""
    from cutline.pate import limit_ballots
    from cutline.pate.teachers import Shard, ballot

    # Wide integers: scikit-learn's binarizer keeps column numbers in the labels' own type, and int8 ends at label 127.
    shard: Any = Shard(features=features, labels=truth.astype(np.int64), seed=0)
    cast: Any
    cast, scores = ballot(make_teacher(group.penalty, group.names), shard, public, scored=True)
    if scores is None:
        raise AssertionError(group.name)
    cut = {tau: limit_ballots(cast[None], scores[None], tau)[0] for tau in group.limits}
    return {None: cast} | cut
