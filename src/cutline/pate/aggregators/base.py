r"""What an aggregator is: votes in, labels out, a cost that is known before any vote."""

from __future__ import annotations

from typing import Any, ClassVar, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from cutline.arrays import Int8Array, IntArray
from cutline.errors import LawTooLarge, ParameterError
from cutline.pate.ballots import Ballots, check_whole
from cutline.pate.labels import Labels
from cutline.privacy import Adjacency, Budget, Cost
from cutline.release import Law
from cutline.sampling import Source

Votes: TypeAlias = npt.NDArray[Any]

LARGEST_LAW = 10**5


class Voting(Protocol):
    """The public shape of a vote, and its price."""

    name: ClassVar[str]

    @property
    def teachers(self) -> int:
        """How many teachers there are; public, and the same for every query."""
        ...

    @property
    def labels(self) -> int:
        """How many labels a query has."""
        ...

    @property
    def adjacency(self) -> Adjacency:
        """Who is protected."""
        ...

    @property
    def limit(self) -> int | None:
        """The most labels a ballot may give, if the cost relies on it; `tally` cuts ballots to it."""
        ...

    @property
    def width(self) -> int:
        """How many columns the votes have: one for each label, or for each set of labels."""
        ...

    @property
    def cost(self) -> Cost:
        """The cost of one query, answered or not."""
        ...

    def __hash__(self) -> int:
        """Return the same for the same public parameters."""
        ...

    def describe(self) -> dict[str, Any]:
        """Return name and public parameters as plain data."""
        ...


class Aggregator(Voting, Protocol):
    """Frozen, keyword-only, public parameters only."""

    reference: ClassVar[str]  # key in docs/references.md
    cost_rule: ClassVar[str]  # how one query is charged, in a few words

    # Every aggregator also has calibrate(budget, *, teachers, labels, adjacency=REPLACE, limits=None, ...), a classmethod that
    # spends the budget on budget.releases queries; what else it takes is its own.

    def tally(self, ballots: Ballots, scores: npt.ArrayLike | None = None) -> IntArray:
        """Turn ballots (teachers, queries, labels) into votes; votes of disjoint groups of teachers add up."""
        ...

    def release(self, votes: Votes, *, rng: Source | None = None) -> Labels:
        """Answer a batch of queries; votes have shape (queries, width)."""
        ...

    def law(self, votes: Votes) -> Law:
        """Return the exact law of one query; outcomes are tuples of 1, 0 and None."""
        ...


def checked_votes(votes: Votes, *, width: int, teachers: int, dimensions: int = 2) -> IntArray:
    r"""Return votes as signed integers, or refuse their shape or type, which are public.

    A count below 0 or above the number of teachers is no count of their ballots: the caller has made a mistake. It is not
    refused, because a refusal would depend on private numbers; it is read as the nearest possible count. That keeps every
    column as far from its neighbour as it was, so the guarantee holds for any matrix whatever.
    """
    array = np.asarray(votes)
    if array.ndim != dimensions or array.shape[-1] != width or array.dtype.kind not in "iu":
        expected = f"(queries, {width})" if dimensions == 2 else f"({width},)"
        raise ParameterError(
            f"votes must be integers of shape {expected}",
            f"{array.dtype} of shape {array.shape}",
            "Make them with the aggregator's tally(ballots).",
        )
    if array.dtype.kind == "u":
        array = np.minimum(array, np.asarray(teachers, dtype=np.uint64))
    return array.astype(np.int64, copy=False)


def check_public(teachers: int, labels: int, limit: int | None = None) -> None:
    """Refuse numbers of teachers and labels, or a ballot limit, that are not whole and at least 1."""
    check_whole("teachers", teachers)
    check_whole("labels", labels)
    if limit is not None:
        check_whole("limit", limit)


def check_ballots_fit(ballots: Ballots, *, teachers: int, labels: int) -> None:
    """Refuse ballots of more teachers, or of other labels, than the aggregator was made for; shapes are public."""
    array = np.asarray(ballots)
    if array.ndim == 3 and (array.shape[0] > teachers or array.shape[2] != labels):
        raise ParameterError(
            "ballots must be of at most the declared teachers and of the declared labels",
            f"{array.shape[0]} teachers, {array.shape[2]} labels; declared {teachers} and {labels}",
            "Declare the public number of teachers when calibrating.",
        )


def check_listable(outcomes: int, labels: int) -> None:
    """Refuse to list a law of very many outcomes."""
    if outcomes > LARGEST_LAW:
        raise LawTooLarge(f"a law is listed up to {LARGEST_LAW} outcomes", f"labels={labels}", "Sample instead.")


def moved_labels(labels: int, limit: int | None, adjacency: Adjacency) -> int:
    r"""Return how many counts of one query one person can move, each by 1.

    Without a ballot limit, all of them. With one, a ballot holds at most ``limit`` ones: as many counts move when it joins or
    leaves, twice as many when it becomes another.

    Examples
    --------
    >>> moved_labels(40, 4, Adjacency.REPLACE), moved_labels(40, 4, Adjacency.ADD_REMOVE), moved_labels(5, 4, Adjacency.REPLACE)
    (8, 4, 5)
    """
    if limit is None:
        return int(labels)
    return min(int(labels), int(limit) * adjacency.count_range)


def plain(aggregator: Voting, **more: Any) -> dict[str, Any]:
    """Return what every description holds, and what this one adds."""
    shared = {"name": aggregator.name, "teachers": aggregator.teachers, "labels": aggregator.labels}
    limit = {} if aggregator.limit is None else {"limit": aggregator.limit}
    return shared | limit | more | {"adjacency": str(aggregator.adjacency)}


def labelled(aggregator: Voting, values: Int8Array, *, budget: Budget | None, seeded: bool) -> Labels:
    """Wrap released values with what they cost."""
    return Labels(
        values=values,
        cost=len(values) * aggregator.cost,
        mechanism=aggregator.describe(),
        budget=budget,
        seeded=seeded,
    )
