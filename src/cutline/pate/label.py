r"""Labels from votes: one batch of queries, quoted before a vote is read, paid for, counted and drawn.

`label` takes ballots made elsewhere, `cutline.PATEClassifier` trains the teachers itself; both go the way of `cutline.quote`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol, Unpack

import numpy as np
import numpy.typing as npt

from cutline.arrays import IntArray
from cutline.counting.question import Progress
from cutline.errors import ParameterError, UnsettledError
from cutline.pate.aggregators.base import Aggregator
from cutline.pate.aggregators.registry import aggregator as find_aggregator
from cutline.pate.ballots import check_ballots, check_scores
from cutline.pate.labels import Labels, state_label_guarantee
from cutline.payment import Payment, agree_terms
from cutline.privacy import Adjacency, Budget, Cost
from cutline.quote import Quote
from cutline.sampling import Source
from cutline.work import Work


class LabelAsk(Payment, total=False):
    """What can be asked of ballots besides who casts them: what `label` and `quote_labels` share; `label` explains it."""

    aggregator: str | Aggregator
    limit: int | None
    quorum: float | None
    accounting: str | None


class Voters(Protocol):
    """Whoever can cast the votes of a batch of queries: a box of ballots, or teachers that are yet to be trained."""

    def check(self, aggregator: Aggregator, queries: int) -> None:
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

    def promise(self, budget: Budget, *, seeded: bool) -> str:  # noqa: ARG002 - the aggregator has its own, or none
        own, queries = self.aggregator.budget, self.queries
        return state_label_guarantee(self.describe(), cost=self.cost, budget=own, queries=queries, seeded=seeded)

    def ask(self) -> dict[str, Any]:
        return {"kind": "labels", "queries": self.queries}  # which queries they are, the version of the ballots says

    def read(self, record: Mapping[str, Any]) -> Labels:
        return Labels.from_record(record)

    def bind(self, source: Voters) -> Voters:
        source.check(self.aggregator, self.queries)
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

    cast: npt.NDArray[Any]
    scores: npt.NDArray[Any] | None = None

    @classmethod
    def of(cls, ballots: npt.ArrayLike, scores: npt.ArrayLike | None = None) -> BallotBox:
        """Tell ballots from votes by their number of axes; axes and declared types are public, and all that is refused."""
        for given in (ballots, scores):
            if given is not None and not isinstance(given, np.ndarray):
                # The type of a list or a table may come from its cells: one odd cell would get all ballots refused.
                raise ParameterError(
                    "ballots and scores must be numpy arrays, of a declared type", type(given).__name__, "Stack them."
                )
        array = np.asarray(ballots)
        if array.ndim not in (2, 3) or 0 in array.shape:
            raise ParameterError(
                "ballots have three axes (teachers, queries, labels) and votes two (queries, labels), none of them empty",
                f"shape {array.shape}",
                "Stack the teachers' predictions along a first axis.",
            )
        if array.ndim == 3:
            # Zeros and ones of a floating type; what is neither is on one side of the middle, since no cell is refused.
            array = array > 0.5 if array.dtype.kind == "f" else array
            known = None if scores is None else check_scores(scores, array.shape)
            return cls(cast=check_ballots(array), scores=known)
        if array.dtype.kind not in "iu":
            raise ParameterError(
                "votes must be whole numbers", f"{array.dtype}", "Pass how many teachers set each label."
            )
        return cls(cast=array)

    @property
    def teachers(self) -> int | None:
        """How many teachers cast ballots; votes do not show it."""
        return len(self.cast) if self.cast.ndim == 3 else None

    def check(self, aggregator: Aggregator, queries: int) -> None:
        """Refuse another number of queries or another shape, and votes where the aggregator needs the ballots themselves."""
        if self.cast.shape[-2] != queries:
            raise ParameterError("the ballots must be on the queries that were quoted", f"{self.cast.shape[-2]}", "")
        if self.teachers is not None:
            aggregator.check_ballots(self.cast)
            cuts = aggregator.limit is not None and aggregator.limit < aggregator.labels
            if self.scores is None and cuts and not aggregator.one_class:  # a ballot of one class has nothing to cut
                raise ParameterError(
                    "a ballot is cut to its surest labels, which only scores can tell",
                    f"limit={aggregator.limit} and no scores",
                    "Pass scores in the shape of the ballots, or leave the limit out.",
                )
        elif aggregator.limit is not None or aggregator.width != self.cast.shape[1]:
            raise ParameterError(
                f"{aggregator.name} counts ballots in its own way", "votes", "Pass the ballots themselves."
            )

    def votes(self, aggregator: Aggregator) -> IntArray:
        """Count the ballots as the aggregator does, or hand over the votes."""
        return self.cast if self.teachers is None else aggregator.tally(self.cast, self.scores)


def label(
    ballots: npt.ArrayLike | BallotBox,
    *,
    scores: npt.ArrayLike | None = None,
    teachers: int | None = None,
    **ask: Unpack[LabelAsk],
) -> Labels:
    r"""Turn the ballots of teachers into labels under differential privacy.

    **Privacy.** The labels of all queries together are (epsilon, delta)-DP for one teacher's whole ballot changing, or for the
    relation that ``adjacency`` names; `Labels.guarantee` says it. With a ledger the batch is charged before a vote is read.

    Parameters
    ----------
    ballots
        An array of zeros and ones of shape (teachers, queries, labels), or of votes, how many teachers set each label, of shape
        (queries, labels).
    scores
        How sure each teacher is of each label, in the shape of the ballots; a ballot limit keeps the surest.
    teachers
        How many teachers there are; public, and needed for votes. By default the number of ballots.
    aggregator
        A registered name, by default ``"optimal-vote"``, or an aggregator with parameters of its own, whose cost then speaks.
    limit
        The most labels one ballot may give to one query; for aggregators that take it.
    quorum
        The share of the teachers that must say yes for a label to be set, by default half; for aggregators that take it.
    accounting
        ``"adaptive"`` spends the budget of exactly these queries by the rule of that name, which buys more and takes longer;
        for ``"optimal-vote"``, and never with a ledger.
    epsilon, delta, releases
        The budget of ``releases`` batches like this together: 1, 1e-6 and 1 by default. With a ledger and no epsilon, the batch
        takes one ``releases``-th of the dataset's budget, by default its usual share of one release.
    adjacency
        ``"replace"`` (one ballot changes arbitrarily), the default also with a ledger, or ``"add-remove"`` (one is there or
        not, as in the paper); a dataset kept under another relation refuses it.
    ledger, dataset, analyst
        The books, by address or open, the account to charge and, if its owner asks for one, a name.
    share, purpose, data_version, fresh
        As for `cutline.top`. The version names the ballots, and so which queries they are on.
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
    teachers = box.teachers if teachers is None else teachers
    if teachers is None:
        raise ParameterError(
            "the number of teachers is public, and never read from their votes", "no teachers", "Pass their number."
        )
    if ask.get("limit") is not None and box.teachers is None:
        raise ParameterError(
            "a ballot limit needs the ballots: votes do not show who cast them",
            f"limit={ask['limit']}",
            "Leave it out.",
        )
    queries, labels = box.cast.shape[-2:]
    return quote_labels(queries=queries, labels=labels, teachers=teachers, **ask).run(box)


def quote_labels(
    *,
    queries: int,
    labels: int,
    teachers: int,
    aggregator: str | Aggregator = "optimal-vote",
    limit: int | None = None,
    quorum: float | None = None,
    accounting: str | None = None,
    **paying: Unpack[Payment],
) -> LabelQuote:
    """Settle everything public about a batch of labels; the parameters are those of `label`, and no vote is read."""
    own = None if isinstance(aggregator, str) else _check_made_for(aggregator, teachers=teachers, labels=labels)
    # Not the dataset's: an account of users who join or leave says nothing about a ballot, which a record changes arbitrarily.
    asked = paying.get("adjacency")
    paying["adjacency"] = own.adjacency if own is not None else Adjacency.REPLACE if asked is None else asked
    terms = agree_terms(**paying)
    chosen = own or find_aggregator(str(aggregator)).calibrate(
        replace(terms.budget, releases=terms.budget.releases * queries),
        teachers=teachers,
        labels=labels,
        adjacency=terms.adjacency,
        limits=terms.limits,
        limit=limit,
        quorum=quorum,
        accounting=accounting,
    )
    return LabelQuote(work=LabelWork(aggregator=chosen, queries=queries), terms=terms)


def keep_unsettled(draw: Callable[[], Labels]) -> tuple[Labels, UnsettledError | None]:
    """Return the labels, and what the books could not be told: labels that were paid for in full may be used all the same."""
    try:
        return draw(), None
    except UnsettledError as error:
        if not isinstance(error.release, Labels):
            raise
        return error.release, error


def _check_made_for(aggregator: Aggregator, *, teachers: int, labels: int) -> Aggregator:
    if not isinstance(aggregator, Aggregator):
        raise ParameterError(
            "the aggregator must be a registered name, or an Aggregator", type(aggregator).__name__, "Try optimal-vote."
        )
    made_for = (aggregator.teachers, aggregator.labels)
    if made_for != (teachers, labels):
        raise ParameterError(
            "an aggregator must be made for the teachers and labels at hand",
            f"{made_for[0]} teachers and {made_for[1]} labels; here are {teachers} and {labels}",
            "Make it for these, or give its name and a budget.",
        )
    return aggregator
