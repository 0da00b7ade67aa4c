r"""Teachers: each learns from its own records, votes on the public examples, and is forgotten.

**Privacy.** A ballot is a function of its teacher's own records, the public examples and a seed that depends on the
teacher's number alone. Nothing is fitted on all private records, no teacher is ever dropped, and nothing a teacher
does can stop the others: one that cannot learn (no records, one class, an exception) votes for the majority of its
own records. So one record changes one ballot and nothing else. What a teacher warns or raises depends on its records
and is not shown; mistakes in the teacher's own settings are found before, by a `rehearse` on public examples.

At the end are the functions that fit a classifier and read its predictions in one shape, as scikit-learn has several; the
student learns by them too.
"""

from __future__ import annotations

import os
import random
import sys
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt

from cutline.arrays import FloatArray, Int8Array, IntArray
from cutline.errors import EngineError, ParameterError
from cutline.pate.aggregators.base import Aggregator

_REHEARSAL_ROWS = 64  # rows: enough for nested cross-validation in a teacher, few enough to cost nothing


@dataclass(frozen=True, slots=True, kw_only=True, repr=False, eq=False)
class Shard:
    """One teacher's records and its seed; private, and gone when the ballot is counted."""

    features: Any
    labels: Int8Array
    seed: int


def rehearse(template: Any, public: Any, *, labels: int) -> None:
    """Let one teacher learn made-up labels of public examples: its settings fail here, for a public reason, or never."""
    rows = np.resize(np.arange(public.shape[0]), _REHEARSAL_ROWS)
    width = min(labels, 2) if takes_many_labels(template) else 1
    made_up = (np.arange(_REHEARSAL_ROWS)[:, None] // (np.arange(width) + 1) % 2).astype(np.int8)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            predict_labels(fit_labels(seeded_clone(template, 0), public[rows], made_up), public, width)
    except Exception as error:
        raise ParameterError(
            "the teacher must be able to learn from examples like the public ones",
            f"{type(template).__name__}, which says: {error}",
            "Correct the teacher's settings, or take one that accepts this kind of features.",
        ) from error


def ballot(template: Any, shard: Shard, public: Any, *, scored: bool = False) -> tuple[Int8Array, FloatArray | None]:
    """Train one teacher and return its ballot, (examples, labels) of 0 and 1, with its scores if they are asked for.

    A copy of the template is trained, per label unless it learns several labels at once. Scores are for cutting a ballot to its
    surest labels.
    """
    known = shard.labels
    majority = (2 * known.sum(axis=0, dtype=np.int64) > known.shape[0]).astype(np.int8)
    votes = np.tile(majority, (public.shape[0], 1))
    scores = np.where(votes == 1, np.inf, -np.inf) if scored else None
    varying = np.flatnonzero((known != known[:1]).any(axis=0))
    together = takes_many_labels(template) and varying.size > 1
    for columns in [varying] if together else varying[:, None]:
        try:
            with _own_randomness(shard.seed):
                model = fit_labels(seeded_clone(template, shard.seed), shard.features, known[:, columns])
                predicted = predict_labels(model, public, columns.size)
                predicted_scores = predict_scores(model, public, columns.size) if scored else None
        except Exception:  # noqa: S112 - it failed because of its records: the majority stands, and nothing is shown
            continue
        votes[:, columns] = predicted
        if scores is not None and predicted_scores is not None:
            scores[:, columns] = predicted_scores
    return votes, scores


def count_votes(
    template: Any,
    shards: Iterable[Shard],
    public: Any,
    *,
    aggregator: Aggregator,
    n_jobs: int | None = None,
    progress: bool = False,
) -> IntArray:
    r"""Train every teacher and return the votes that the aggregator reads, (examples, its width).

    Ballots are added up where they are cast; no two exist at a time in one process. Worker processes get records
    through pipes: joblib's habit of writing large arrays to a temporary file for its workers is turned off, since
    that file holds private records and outlives a killed process. If workers break down, what they say is withheld.
    """
    from joblib import effective_n_jobs
    from sklearn.utils.parallel import Parallel, delayed

    teachers = aggregator.teachers
    votes = np.zeros((public.shape[0], aggregator.width), dtype=np.int64)
    batch = max(1, teachers // (4 * effective_n_jobs(n_jobs)))  # the public examples travel once a batch
    run = Parallel(n_jobs=n_jobs, max_nbytes=None, return_as="generator_unordered")
    jobs = (
        delayed(_count_batch)(template, group, public, aggregator, os.getpid()) for group in _batches(shards, batch)
    )
    try:
        with warnings.catch_warnings(), _progress_bar(teachers, shown=progress) as advance:
            warnings.simplefilter("ignore")
            for cast, counted in run(jobs):
                votes += counted
                advance(cast)
    except Exception:
        raise EngineError(
            "the teachers' workers must stay alive; what stopped them is withheld, it may quote records",
            "",
            "Try n_jobs=1, or fewer jobs than cores if memory ran out.",
        ) from None
    return votes


@contextmanager
def _own_randomness(seed: int) -> Iterator[None]:
    """Give a teacher the process's generators at its own seed, and leave no trace in them.

    Not all randomness has a ``random_state`` that can be found: a splitter inside a teacher draws from numpy's global
    generator, as often as there are records. The next teacher would start where that one stopped, so one record would
    change two ballots, and the generator's state after the fit would tell how many records there were.
    """
    numpy_state, python_state = np.random.get_state(), random.getstate()  # noqa: NPY002 - it is there, so it is kept
    np.random.seed(seed)  # noqa: NPY002
    random.seed(seed)
    try:
        yield
    finally:
        np.random.set_state(numpy_state)  # noqa: NPY002
        random.setstate(python_state)


def _batches(shards: Iterable[Shard], size: int) -> Iterator[list[Shard]]:
    source = iter(shards)
    while batch := list(islice(source, size)):
        yield batch


def _count_batch(
    template: Any, shards: list[Shard], public: Any, aggregator: Aggregator, home: int
) -> tuple[int, IntArray]:
    """Return how many teachers voted, and their counts; runs in a worker process or here."""
    from joblib import parallel_config
    from threadpoolctl import threadpool_limits

    votes = np.zeros((public.shape[0], aggregator.width), dtype=np.int64)
    # Teachers are many and small: they run side by side, and threads inside each would only be in each other's way.
    # The same goes for processes that a teacher's own n_jobs would start, which get large arrays through temporary files.
    # Filters are the process's own: at home the caller has set them already, and threads must not set them each.
    with (
        threadpool_limits(limits=1),
        parallel_config(backend="sequential"),
        warnings.catch_warnings() if os.getpid() != home else nullcontext(),
    ):
        if os.getpid() != home:
            warnings.simplefilter("ignore")
        for shard in shards:
            cast, scores = ballot(template, shard, public, scored=aggregator.limit is not None)
            votes += aggregator.tally(cast[None], None if scores is None else scores[None])
    return len(shards), votes


@contextmanager
def _progress_bar(teachers: int, *, shown: bool) -> Iterator[Any]:
    """Show on standard error how many teachers have voted, if that is wanted; the number of teachers is public."""
    if not shown:
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(file=sys.stderr)) as progress:
        task = progress.add_task("Teachers", total=teachers)
        yield lambda cast: progress.advance(task, cast)


def takes_many_labels(estimator: Any) -> bool:
    """Return whether the classifier learns several labels at once."""
    from sklearn.utils import get_tags

    tags = get_tags(estimator).classifier_tags
    return tags is not None and bool(tags.multi_label)


def seeded_clone(template: Any, seed: int) -> Any:
    """Return an unfitted copy whose every ``random_state``, nested ones too, is the seed."""
    from sklearn.base import clone

    copy = clone(template)
    states = [name for name in copy.get_params(deep=True) if name.split("__")[-1] == "random_state"]
    return copy.set_params(**dict.fromkeys(states, seed)) if states else copy


def fit_labels(model: Any, features: Any, labels: Int8Array) -> Any:
    """Fit the model, to a vector if there is one label and to a matrix if there are several."""
    wide = labels.astype(np.int64)  # of hundreds of int8 labels RidgeClassifier learns nonsense, silently
    return model.fit(features, wide[:, 0] if wide.shape[1] == 1 else wide)


def predict_labels(model: Any, features: Any, width: int) -> Int8Array:
    """Return 1 where a label is set and 0 elsewhere, (examples, width)."""
    predicted = np.asarray(model.predict(features)).reshape(features.shape[0], width)
    return np.asarray(predicted == 1, dtype=np.int8)


def predict_probabilities(model: Any, features: Any, width: int) -> FloatArray:
    """Return the probability that each label is set, (examples, width)."""
    predicted = model.predict_proba(features)
    if isinstance(predicted, list):  # one (examples, 2) array a label, as trees and neighbours have it
        return np.column_stack(
            [_column_of_one(each, classes) for each, classes in zip(predicted, model.classes_, strict=True)]
        ).astype(np.float64)
    if width == 1:
        return _column_of_one(np.asarray(predicted), model.classes_).reshape(-1, 1).astype(np.float64)
    return np.asarray(predicted, dtype=np.float64)


def predict_scores(model: Any, features: Any, width: int) -> FloatArray:
    """Return how strongly the model believes in each label, in its own unit: for ranking the labels of one ballot."""
    if hasattr(model, "predict_proba"):
        return predict_probabilities(model, features, width)
    if hasattr(model, "decision_function"):
        return np.asarray(model.decision_function(features), dtype=np.float64).reshape(features.shape[0], width)
    return predict_labels(model, features, width).astype(np.float64)


def _column_of_one(probabilities: npt.NDArray[Any], classes: Any) -> npt.NDArray[Any]:
    """Return the probabilities of class 1, wherever the classifier keeps it."""
    [place] = np.flatnonzero(np.asarray(classes) == 1)
    return np.asarray(probabilities[:, place])
