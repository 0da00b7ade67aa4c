r"""Labels from votes: one batch of queries, quoted before a vote is read, paid for, counted and drawn.

`label` takes ballots made elsewhere, `cutline.PATEClassifier` trains the teachers itself; both go the way of `cutline.quote`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from cutline.arrays import IntArray
from cutline.ask import Books
from cutline.counting.question import Progress
from cutline.errors import ParameterError
from cutline.pate.aggregators.base import Aggregator
from cutline.pate.aggregators.registry import aggregator as find_aggregator
from cutline.pate.labels import Labels, state_label_guarantee
from cutline.privacy import Adjacency, Budget, Cost
from cutline.quote import Quote, Work, agree_terms
from cutline.sampling import Source

if TYPE_CHECKING:
    from cutline.ledger import Ledger


class Voters(Protocol):
    """Whoever can cast the votes of a batch of queries: a box of ballots, or teachers that are yet to be trained."""

    def check(self, aggregator: Aggregator) -> None:
        """Refuse, for public reasons only, votes that the aggregator cannot count; no vote is read."""
        ...

    def votes(self, aggregator: Aggregator) -> IntArray:
        """Cast the votes, in the shape the aggregator counts: (queries, width); private."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelWork(Work[Labels]):
    """The labels of one batch of queries."""

    aggregator: Aggregator
    queries: int

    @property
    def cost(self) -> Cost:
        return self.queries * self.aggregator.cost

    def describe(self) -> dict[str, Any]:
        return self.aggregator.describe() | {"queries": self.queries}

    def promise(self, budget: Budget, *, seeded: bool) -> str:
        each = replace(budget, releases=budget.releases * self.queries)
        return state_label_guarantee(self.describe(), cost=self.cost, budget=each, queries=self.queries, seeded=seeded)

    def bind(self, source: Voters) -> Voters:
        source.check(self.aggregator)
        return source

    def count(self, bound: Voters, progress: Progress | None) -> IntArray:  # noqa: ARG002 - teachers show their own
        return bound.votes(self.aggregator)

    def draw(self, counted: IntArray, rng: Source) -> Labels:
        return self.aggregator.release(counted, rng=rng)


class LabelQuote(Quote[Labels]):
    """What a batch of labels will cost, and the aggregator that will count the votes."""

    @property
    def aggregator(self) -> Aggregator:
        """Who will count, with its public parameters."""
        assert isinstance(self.work, LabelWork)  # noqa: S101 - nothing else makes labels
        return self.work.aggregator


@dataclass(frozen=True, slots=True, kw_only=True, repr=False, eq=False)
class BallotBox:
    """Ballots (teachers, queries, labels), with their scores if there are any, or votes (queries, labels); private."""

    ballots: npt.NDArray[Any] | None = None
    votes_cast: npt.NDArray[Any] | None = None
    scores: npt.NDArray[Any] | None = None

    @classmethod
    def of(cls, ballots: npt.ArrayLike, scores: npt.ArrayLike | None = None) -> BallotBox:
        """Tell ballots from votes by their number of axes, which is public."""
        array = np.asarray(ballots)
        if array.ndim not in (2, 3) or 0 in array.shape:
            raise ParameterError(
                "ballots have three axes (teachers, queries, labels) and votes two (queries, labels), none of them empty",
                f"shape {array.shape}",
                "Stack the teachers' predictions along a first axis.",
            )
        if array.ndim == 2:
            return cls(votes_cast=array)
        return cls(ballots=array, scores=None if scores is None else np.asarray(scores))

    @property
    def shape(self) -> tuple[int, int]:
        """How many queries and labels there are; public."""
        array = self.votes_cast if self.ballots is None else self.ballots
        assert array is not None  # noqa: S101 - a box holds one or the other
        return int(array.shape[-2]), int(array.shape[-1])

    @property
    def teachers(self) -> int | None:
        """How many teachers cast ballots; votes do not show it."""
        return None if self.ballots is None else len(self.ballots)

    def check(self, aggregator: Aggregator) -> None:
        """Refuse ballots of another shape, and votes where the aggregator needs the ballots themselves."""
        if self.ballots is not None:
            aggregator.check_ballots(self.ballots)
        elif aggregator.limit is not None or aggregator.width != self.shape[1]:
            raise ParameterError(
                f"{aggregator.name} counts ballots in its own way", "votes", "Pass the ballots themselves."
            )

    def votes(self, aggregator: Aggregator) -> IntArray:
        """Count the ballots as the aggregator does, or hand over the votes."""
        if self.ballots is not None:
            return aggregator.tally(self.ballots, self.scores)
        assert self.votes_cast is not None  # noqa: S101 - a box holds one or the other
        return self.votes_cast


def label(
    ballots: npt.ArrayLike | BallotBox,
    *,
    scores: npt.ArrayLike | None = None,
    teachers: int | None = None,
    aggregator: str | Aggregator = "optimal-vote",
    limit: int | None = None,
    epsilon: float | None = None,
    delta: float | None = None,
    releases: int | None = None,
    adjacency: Adjacency | str | None = None,
    ledger: Ledger | Books | None = None,
    dataset: str | None = None,
    analyst: str | None = None,
    rng: Source | None = None,
) -> Labels:
    r"""Turn the ballots of teachers into labels under differential privacy.

    **Privacy.** The labels of all queries together are (epsilon, delta)-DP for one teacher's whole ballot changing, or for the
    relation that ``adjacency`` names; `Labels.guarantee` says it. With a ledger the batch is charged before a vote is read.

    Parameters
    ----------
    ballots
        Zeros and ones of shape (teachers, queries, labels), or votes, how many teachers set each label, of shape
        (queries, labels).
    scores
        How sure each teacher is of each label, in the shape of the ballots; a ballot limit keeps the surest.
    teachers
        How many teachers there are; public, and needed for votes. By default the number of ballots.
    aggregator
        A registered name, or an aggregator with parameters of its own, whose cost then speaks.
    limit
        The most labels one ballot may give to one query; for aggregators that take it.
    epsilon, delta, releases
        The budget of ``releases`` batches like this together: 1, 1e-6 and 1 by default. With a ledger and no epsilon, the batch
        takes one ``releases``-th of the dataset's budget, by default its usual share of one release.
    adjacency
        ``"replace"`` (one ballot changes arbitrarily) or ``"add-remove"`` (one ballot is there or not, as in the paper); by
        default the dataset's, without a ledger ``"replace"``.
    ledger, dataset, analyst
        The books, by address or open, the account to charge and, if its owner asks for one, a name.
    rng
        None is the operating system's source; a seeded one makes a simulation.

    Examples
    --------
    >>> from cutline.sampling import SeededSource
    >>> ballots = np.zeros((60, 2, 3), dtype=int)
    >>> ballots[:55, 0, 1] = ballots[:58, 1, 2] = 1
    >>> label(ballots, epsilon=8.0, rng=SeededSource(0)).values.tolist()
    [[0, 1, 0], [0, 0, 1]]
    """
    box = ballots if isinstance(ballots, BallotBox) else BallotBox.of(ballots, scores)
    queries, labels = box.shape
    teachers = box.teachers if teachers is None else teachers
    if teachers is None:
        raise ParameterError(
            "the number of teachers is public, and never read from their votes", "no teachers", "Pass their number."
        )
    if limit is not None and box.ballots is None:
        raise ParameterError(
            "a ballot limit needs the ballots: votes do not show who cast them", f"limit={limit}", "Leave it out."
        )
    asked = quote_labels(
        queries=queries,
        labels=labels,
        teachers=teachers,
        aggregator=aggregator,
        limit=limit,
        epsilon=epsilon,
        delta=delta,
        releases=releases,
        adjacency=adjacency,
        ledger=ledger,
        dataset=dataset,
        analyst=analyst,
        rng=rng,
    )
    return asked.run(box)


def quote_labels(
    *,
    queries: int,
    labels: int,
    teachers: int,
    aggregator: str | Aggregator = "optimal-vote",
    limit: int | None = None,
    epsilon: float | None = None,
    delta: float | None = None,
    releases: int | None = None,
    adjacency: Adjacency | str | None = None,
    ledger: Ledger | Books | None = None,
    dataset: str | None = None,
    analyst: str | None = None,
    rng: Source | None = None,
) -> LabelQuote:
    """Settle everything public about a batch of labels; the parameters are those of `label`, and no vote is read."""
    own = None if isinstance(aggregator, str) else _check_made_for(aggregator, teachers=teachers, labels=labels)
    terms = agree_terms(
        usual=Adjacency.REPLACE,
        epsilon=epsilon,
        delta=delta,
        releases=releases,
        adjacency=adjacency if own is None else own.adjacency,
        ledger=ledger,
        dataset=dataset,
        analyst=analyst,
        rng=rng,
    )
    chosen = own or find_aggregator(str(aggregator)).calibrate(
        replace(terms.budget, releases=terms.budget.releases * queries),
        teachers=teachers,
        labels=labels,
        adjacency=terms.adjacency,
        limits=terms.limits,
        limit=limit,
    )
    return LabelQuote(work=LabelWork(aggregator=chosen, queries=queries), terms=terms)


def _check_made_for(aggregator: Aggregator, *, teachers: int, labels: int) -> Aggregator:
    made_for = (aggregator.teachers, aggregator.labels)
    if made_for != (teachers, labels):
        raise ParameterError(
            "an aggregator must be made for the teachers and labels at hand",
            f"{made_for[0]} teachers and {made_for[1]} labels; here are {teachers} and {labels}",
            "Make it for these, or give its name and a budget.",
        )
    return aggregator
