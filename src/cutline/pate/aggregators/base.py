r"""What an aggregator is: votes in, labels out, a cost that is known before any vote."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Self, TypeAlias, TypedDict

import numpy as np
import numpy.typing as npt

from cutline.arrays import Int8Array, IntArray
from cutline.errors import LawTooLarge, ParameterError, shortened
from cutline.mechanisms.base import Parameter
from cutline.pate.ballots import Ballots, count_ballots, limit_ballots
from cutline.pate.labels import LabelLaw, Labels
from cutline.privacy import Adjacency, Budget, Cost, Filter
from cutline.privacy.curves.base import check_number, check_whole
from cutline.sampling import Source, resolve

Votes: TypeAlias = npt.NDArray[Any]

MOST_TEACHERS = 2**24  # an aggregator keeps a coin for every count there can be
MOST_LABELS = 10**6
_LARGEST_LAW = 10**5


class Panel(TypedDict):
    """The public numbers that every aggregator is built from, as keywords of its constructor."""

    teachers: int
    labels: int
    adjacency: Adjacency


@dataclass(frozen=True, slots=True, kw_only=True)
class Aggregator(ABC):
    r"""The base of all aggregators: frozen, keyword-only, public parameters only.

    A subclass adds its own parameters and the methods `spend`, `cost`, `draw` and `law`.

    Parameters
    ----------
    teachers
        How many teachers there are, voting or not; a majority is more than half of them, never of the ballots that came.
    labels
        How many labels a query has.
    adjacency
        Who is protected.
    limit
        The most labels a ballot may give, or None. `tally` cuts ballots to it; a caller who counts elsewhere must too.
    quorum
        The share of the teachers that must say yes before a label is more likely set than not; public. Half of them, unless an
        aggregator that compares counts with a number of teachers is told another share.
    budget
        What the aggregator was calibrated for, if it was.
    """

    name: ClassVar[str]
    reference: ClassVar[str]  # key in docs/references.md
    cost_rule: ClassVar[str]  # how one query is charged, in a few words
    one_class: ClassVar[bool] = False  # whether a query has one class for an answer, and every teacher one vote
    parameters: ClassVar[tuple[Parameter, ...]] = ()  # what `calibrate` takes besides the shared keywords

    teachers: int
    labels: int
    adjacency: Adjacency = Adjacency.REPLACE
    limit: int | None = None
    quorum: float = 0.5
    budget: Budget | None = None

    def __post_init__(self) -> None:
        check_public(self.teachers, self.labels, self.limit)
        object.__setattr__(self, "quorum", check_quorum(self.quorum))
        if self.quorum != 0.5 and "quorum" not in {parameter.name for parameter in self.parameters}:
            raise ParameterError(f"{self.name} takes no quorum", f"quorum={self.quorum:g}", "Leave it out.")
        # A narrow whole number wraps around in sums: what a limit of np.uint8(128) costs would come out as nothing.
        for field in ("teachers", "labels", "limit"):
            value = getattr(self, field)
            object.__setattr__(self, field, value if value is None else int(value))
        object.__setattr__(self, "adjacency", Adjacency(self.adjacency))

    @classmethod
    def calibrate(
        cls,
        budget: Budget,
        *,
        teachers: int,
        labels: int,
        adjacency: Adjacency = Adjacency.REPLACE,
        limits: Filter | None = None,
        **declared: float | str | None,
    ) -> Self:
        r"""Return the aggregator that spends the whole budget on ``budget.releases`` queries.

        Parameters
        ----------
        budget
            Epsilon, delta, and the number of queries that share them.
        teachers, labels, adjacency
            As for the class.
        limits
            The order, Rényi cost and delta of a ledger's account, within the budget; otherwise the best order is searched.
        **declared
            What the aggregator lists in ``parameters``, like ``limit``; None stands for "not given".
        """
        given = {name: value for name, value in declared.items() if value is not None}
        check_public(teachers, labels, given.get("limit"))
        cls.check_declared(given)
        if "quorum" in given:
            given["quorum"] = check_quorum(given["quorum"])
        panel = Panel(teachers=int(teachers), labels=int(labels), adjacency=Adjacency(adjacency))
        return cls.spend(budget, limits, panel, **given)

    @classmethod
    def check_declared(cls, given: dict[str, float | str]) -> None:
        """Raise if a parameter is given that is not declared, or a required one is not given."""
        words = {"limit": "ballot limit"}
        known = {parameter.name: parameter.required for parameter in cls.parameters}
        for name, value in given.items():
            if name not in known:
                raise ParameterError(
                    f"{cls.name} takes no {words.get(name, name)}", f"{name}={shortened(value)}", "Leave it out."
                )
        for name, required in known.items():
            if required and name not in given:
                rule = f"{cls.name} must be told a {words.get(name, name)}"
                raise ParameterError(rule, f"no {name}", "Pass one, like 5.")

    # Each aggregator names its own keywords. A plain `**declared` would forbid that: an override must accept whatever its
    # base accepts. Both stars together stand for "any arguments", and the contract tests hold `parameters` against them.
    @classmethod
    @abstractmethod
    def spend(cls, budget: Budget, limits: Filter | None, panel: Panel, *args: Any, **declared: Any) -> Self:
        """Return the aggregator for checked public numbers; `calibrate` calls it with the declared parameters."""

    @property
    def width(self) -> int:
        """How many columns the votes have: one for each label, unless an aggregator counts something else."""
        return self.labels

    @property
    def doubled_quorum(self) -> int:
        """Twice the number of votes that makes the quorum: a label's majority is more than half of this."""
        return double_quorum(self.teachers, self.quorum)

    @property
    def moved(self) -> int:
        """How many counts of one query one person can move."""
        return moved_labels(self.labels, self.limit, self.adjacency)

    @property
    @abstractmethod
    def cost(self) -> Cost:
        """The cost of one query, of the dearest way that it can go."""

    def cost_of(self, values: Int8Array) -> Cost:
        """Return what ran for these labels: all of it, unless an aggregator shows in its labels that it stopped early."""
        return len(values) * self.cost

    @abstractmethod
    def draw(self, votes: Votes, source: Source) -> Int8Array:
        """Draw the labels of a batch of queries: 1, 0, or -1 where a label is not answered."""

    @abstractmethod
    def law(self, votes: Votes) -> LabelLaw:
        """Return the exact law of one query, to a relative 1e-12; votes have shape (width,)."""

    def release(self, votes: Votes, *, rng: Source | None = None) -> Labels:
        """Answer a batch of queries, and say what that cost; votes have shape (queries, width)."""
        source = resolve(rng)
        values = self.draw(votes, source)
        return Labels(
            values=values,
            cost=self.cost_of(values),
            reserved=len(values) * self.cost,
            mechanism=self.describe(),
            budget=self.budget,
            seeded=source.seeded,
        )

    def tally(self, ballots: Ballots, scores: npt.ArrayLike | None = None) -> IntArray:
        """Turn ballots (teachers, queries, labels) into votes; votes of disjoint groups of teachers add up."""
        return count_ballots(self.limit_ballots(ballots, scores))

    def limit_ballots(self, ballots: Ballots, scores: npt.ArrayLike | None) -> Ballots:
        """Cut every ballot to the limit, if there is one."""
        self.check_ballots(ballots)
        return ballots if self.limit is None else limit_ballots(ballots, scores, self.limit)

    def check_ballots(self, ballots: Ballots) -> None:
        """Refuse ballots of more teachers, or of other labels, than the aggregator was made for; shapes are public."""
        shape = np.shape(ballots)
        if len(shape) == 3 and (shape[0] > self.teachers or shape[2] != self.labels):
            raise ParameterError(
                "ballots must be of at most the declared teachers and of the declared labels",
                f"{shape[0]} teachers, {shape[2]} labels; declared {self.teachers} and {self.labels}",
                "Declare the public number of teachers when calibrating.",
            )

    def read_votes(self, votes: Votes, *, dimensions: int = 2) -> IntArray:
        r"""Return votes as possible counts: integers from 0 to the number of teachers.

        A count below 0 or above the number of teachers is no count of their ballots: the caller has made a mistake. It is not
        refused, because a refusal would depend on private numbers; it is read as the nearest possible count. That keeps every
        column as far from its neighbour as it was, so the guarantee holds for any matrix whatever.
        """
        return np.clip(self.check_votes(votes, dimensions=dimensions), 0, self.teachers)

    def check_votes(self, votes: Votes, *, dimensions: int = 2) -> IntArray:
        """Return votes as signed integers, or raise because of their shape or type, which are public."""
        array = np.asarray(votes)
        if array.ndim != dimensions or array.shape[-1] != self.width or array.dtype.kind not in "iu":
            expected = f"(queries, {self.width})" if dimensions == 2 else f"({self.width},)"
            raise ParameterError(
                f"votes must be integers of shape {expected}",
                f"{array.dtype} of shape {array.shape}",
                "Make them with the aggregator's tally(ballots).",
            )
        if array.dtype.kind == "u":  # as a signed number, a very large count would come out negative
            array = np.minimum(array, np.asarray(self.teachers, dtype=np.uint64))
        return array.astype(np.int64, copy=False)

    def check_law_size(self, outcomes: int) -> None:
        """Raise if a law has too many outcomes to be listed."""
        if outcomes > _LARGEST_LAW:
            raise LawTooLarge(
                f"a law is listed up to {_LARGEST_LAW} outcomes", f"labels={self.labels}", "Sample instead."
            )

    def describe(self) -> dict[str, Any]:
        """Return name and public parameters as plain data."""
        limit: dict[str, Any] = {} if self.limit is None else {"limit": self.limit}
        limit |= {} if self.quorum == 0.5 else {"quorum": self.quorum}
        shared = {"name": self.name, "teachers": self.teachers, "labels": self.labels}
        return shared | limit | self.public_parameters() | {"adjacency": str(self.adjacency)}

    def public_parameters(self) -> dict[str, Any]:
        """Return the aggregator's own parameters as plain data."""
        return {}


def check_public(teachers: int, labels: int, limit: float | str | None = None) -> None:
    """Raise if the numbers of teachers and labels, or a ballot limit, are not whole and at least 1, or too many."""
    check_whole("teachers", teachers, most=MOST_TEACHERS)
    check_whole("labels", labels, most=MOST_LABELS)
    if limit is not None:
        check_whole("limit", limit, "Leave it out for ballots of any size.")


def check_quorum(quorum: object) -> float:
    """Return the share of teachers as a plain float, or raise if it is not between 0 and 1."""
    share = check_number("quorum", quorum)
    if not 0 < share < 1:
        raise ParameterError(
            "quorum must be a share of the teachers, above 0 and below 1", f"quorum={share}", "Half of them is 0.5."
        )
    return share


def double_quorum(teachers: int, quorum: float) -> int:
    r"""Return twice the number of votes that makes the quorum, to the nearest whole number, so that half a vote can be told.

    Examples
    --------
    >>> double_quorum(300, 0.5), double_quorum(300, 0.25), double_quorum(5, 0.5)
    (300, 150, 5)
    """
    return min(max(round(2 * quorum * teachers), 1), 2 * teachers - 1)


def check_one_vote(aggregator: Aggregator) -> None:
    """Raise if an aggregator of classes is told that a ballot may give more than one vote."""
    if aggregator.limit != 1:
        raise ParameterError(
            f"{aggregator.name} takes one vote a teacher", f"limit={aggregator.limit}", "Leave limit=1."
        )


def moved_labels(labels: int, limit: int | None, adjacency: Adjacency) -> int:
    r"""Return how many counts of one query one person can move, each by 1.

    Without a ballot limit, all of them. With one, a ballot holds at most ``limit`` ones: as many counts move when it joins or
    leaves, twice as many when it becomes another.

    Examples
    --------
    >>> moved_labels(40, 4, Adjacency.REPLACE), moved_labels(40, 4, Adjacency.ADD_REMOVE)
    (8, 4)
    >>> moved_labels(5, 4, Adjacency.REPLACE)
    5
    """
    if limit is None:
        return int(labels)
    return min(int(labels), int(limit) * adjacency.count_range)
