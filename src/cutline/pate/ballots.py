r"""From teachers' ballots to the counts an aggregator reads. Every rule here reads one ballot alone.

A ballot is a row of zeros and ones, one for each label; anything but 0 is a one. A teacher who does not vote counts as a
ballot of zeros. Ballots are booleans or integers of shape (teachers, queries, labels). Shapes and types are public and
checked; what the ballots say is private and never refused.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from cutline.arrays import IntArray
from cutline.errors import ParameterError
from cutline.privacy.curves.base import check_whole

Ballots: TypeAlias = npt.NDArray[Any]

MOST_POWERSET_LABELS = 16  # 65,536 sets


def count_ballots(ballots: Ballots) -> IntArray:
    r"""Return how many teachers gave each label to each query, (queries, labels); counts of disjoint groups of teachers add up.

    Examples
    --------
    >>> count_ballots(np.array([[[1, 0, 1]], [[1, 1, 0]]])).tolist()
    [[2, 1, 1]]
    """
    counts: IntArray = np.count_nonzero(check_ballots(ballots), axis=0).astype(np.int64, copy=False)
    return counts


def limit_ballots(ballots: Ballots, scores: npt.ArrayLike | None, tau: int) -> Ballots:
    r"""Keep at most ``tau`` ones of every ballot: those scored highest, ties by label index.

    **Privacy.** A ballot is cut by looking at that ballot and its own scores only, so one teacher still changes one ballot;
    then at most ``tau`` counts of a query move when a ballot joins or leaves, and at most ``2 tau`` when it is replaced.

    Parameters
    ----------
    ballots
        See `cutline.pate.ballots`.
    scores
        How sure each teacher is of each label, the same shape; None ranks by label index alone. A score that is not a number
        comes last.
    tau
        The most ones a ballot may keep; public.

    Examples
    --------
    >>> limit_ballots(np.array([[[1, 0, 1, 1]]]), np.array([[[0.6, 0.9, 0.8, 0.6]]]), 2).astype(int).tolist()
    [[[1, 0, 1, 0]]]
    """
    given: npt.NDArray[np.bool_] = check_ballots(ballots) != 0
    check_whole("tau", tau)
    if tau >= given.shape[-1]:
        return given
    keys = np.zeros(given.shape) if scores is None else check_scores(scores, given.shape)
    keys = np.where(given, np.where(np.isnan(keys), -np.inf, keys), -np.inf)
    # Ones come before zeros even where a one's score is -inf, so that a ballot never loses a one to a zero.
    order = np.lexsort((-keys, ~given), axis=-1)
    ranks = np.empty_like(order)
    np.put_along_axis(ranks, order, np.broadcast_to(np.arange(given.shape[-1]), order.shape), axis=-1)
    kept: npt.NDArray[np.bool_] = given & (ranks < tau)
    return kept


def count_powersets(ballots: Ballots) -> IntArray:
    r"""Return how many teachers gave exactly each set of at most 16 labels to each query, (queries, 2^labels).

    A set's number has bit i for label i.

    Examples
    --------
    >>> count_powersets(np.array([[[1, 0]], [[1, 1]], [[1, 0]]])).tolist()
    [[0, 2, 0, 1]]
    """
    given = check_ballots(ballots) != 0
    labels = given.shape[-1]
    check_powerset(labels)
    sets = given @ (1 << np.arange(labels))
    queries = given.shape[1]
    places = sets + (np.arange(queries) << labels)
    counts: IntArray = np.bincount(places.reshape(-1), minlength=queries << labels).astype(np.int64, copy=False)
    return counts.reshape(queries, 1 << labels)


def check_ballots(ballots: Ballots) -> Ballots:
    """Return ballots as an array, or raise if they are not booleans or integers in three dimensions."""
    array = np.asarray(ballots)
    if array.ndim != 3 or array.dtype.kind not in "biu":
        raise ParameterError(
            "ballots must be booleans or integers of shape (teachers, queries, labels)",
            f"{array.dtype} in {array.ndim} dimensions",
            "Round scores to 0 or 1 first, one ballot at a time.",
        )
    return array


def check_scores(scores: npt.ArrayLike, shape: tuple[int, ...]) -> npt.NDArray[np.float64]:
    """Return scores as floats, or raise, without quoting any, if they are not real numbers in the shape of the ballots."""
    array = np.asarray(scores)
    if array.shape != shape or array.dtype.kind not in "biuf":
        raise ParameterError(
            "scores must be real numbers in the shape of the ballots",
            f"{array.dtype.type.__name__} of shape {array.shape}; ballots have {shape}",
            "Pass one score per vote.",
        )
    with np.errstate(over="ignore"):  # a long double beyond a float is infinite, which is no news for the caller
        return array.astype(np.float64, copy=False)


def check_powerset(labels: int) -> None:
    """Raise if there are too many labels to list all their sets."""
    if labels > MOST_POWERSET_LABELS:
        raise ParameterError(
            f"voting for whole sets takes at most {MOST_POWERSET_LABELS} labels",
            f"labels={labels}",
            "Use optimal-vote.",
        )
