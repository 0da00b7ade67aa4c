r"""Labels that go out without noise where no single ballot could have changed them: all majorities of a query, or a stable set.

How sure the teachers are of one label is the number of ballots that must change before its majority flips. The aggregators that
choose how many labels to answer are StableTopK over the labels of one query, run for all queries at once: the paper's way by
votes, and ours by confidence.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from cutline.arrays import BoolArray, Int8Array, IntArray
from cutline.errors import ParameterError
from cutline.mechanisms.adaptive.choosers import Chooser, Preference
from cutline.mechanisms.adaptive.gap_tests import GapTest, TableTest
from cutline.mechanisms.adaptive.stable_top_k_calibration import calibrate_parts
from cutline.mechanisms.base import Parameter
from cutline.pate.aggregators.base import Aggregator, Panel, Votes
from cutline.pate.aggregators.calibration import stability_table
from cutline.pate.labels import MISSING, LabelLaw, LabelRow, label_rows
from cutline.privacy import Adjacency, BitTable, Budget, Cost, Filter
from cutline.sampling import Source, bernoulli


@dataclass(frozen=True, slots=True, kw_only=True)
class StableMajority(Aggregator):
    r"""All majorities of a query without noise, or a withheld query.

    **Privacy.** With m_i the ballots that must change before label i's majority flips, ``d = min_i m_i - 1`` moves by at most 1
    and is 0 on both sides wherever neighbours have different majorities. So one stability table pays for all labels, however
    many there are: delta-approximate at the table's curve, under both relations [DL09; docs/proofs/stable-majority.md].

    Parameters
    ----------
    table
        The stability table [docs/proofs/bit-table.md]; its first value is delta. Calibration takes the table that is
        sure at the smallest distance. The other parameters are those of `Aggregator`.

    Examples
    --------
    >>> vote = StableMajority.calibrate(Budget(epsilon=1.0, delta=1e-6), teachers=200, labels=3)
    >>> vote.release(np.array([[190, 14, 155]])).values.tolist()
    [[1, 0, 1]]
    """

    name: ClassVar[str] = "stable-majority"
    reference: ClassVar[str] = "DL09"
    cost_rule: ClassVar[str] = "one coin per query"
    parameters: ClassVar[tuple[Parameter, ...]] = (Parameter(name="limit"), Parameter(name="quorum"))

    table: BitTable

    def __post_init__(self) -> None:
        Aggregator.__post_init__(self)
        TableTest(table=self.table)  # refuses a table that does not start at 0

    @classmethod
    def spend(
        cls, budget: Budget, limits: Filter | None, panel: Panel, *, limit: int | None = None, quorum: float = 0.5
    ) -> Self:
        return cls(**panel, table=stability_table(budget, limits), limit=limit, quorum=quorum, budget=budget)

    @property
    def cost(self) -> Cost:
        return TableTest(table=self.table).cost(self.adjacency)

    def draw(self, votes: Votes, source: Source) -> Int8Array:
        counts = self.read_votes(votes)
        passed = bernoulli(self.table(self._distances(counts)), rng=source)
        return np.where(passed[:, None], majorities(counts, self.doubled_quorum), np.int8(MISSING))

    def law(self, votes: Votes) -> LabelLaw:
        counts = self.read_votes(votes, dimensions=1)
        passes = float(self.table(self._distances(counts)))
        return {tuple(majorities(counts, self.doubled_quorum).tolist()): passes, (None,) * self.labels: 1 - passes}

    def _distances(self, counts: IntArray) -> IntArray:
        distances: IntArray = confidences(counts, self.doubled_quorum).min(axis=-1) - 1
        return distances


@dataclass(frozen=True, slots=True, kw_only=True)
class StableSetVote(Aggregator):
    r"""A base for aggregators that choose a stable set of labels; subclasses say how labels are ranked and answered.

    `calibrate` also takes the window ``min_k`` to ``max_k``, and ``choose`` and ``test`` as `StableTopK.calibrate` does.

    Parameters
    ----------
    preference
        The window of set sizes, and what is preferred inside it; at most the number of labels.
    chooser, test
        As for `cutline.mechanisms.adaptive.stable_top_k.StableTopK`. The other parameters are those of `Aggregator`.
    """

    parameters: ClassVar[tuple[Parameter, ...]] = tuple(
        Parameter(name=name) for name in ("limit", "max_k", "min_k", "choose", "test")
    )

    preference: Preference
    chooser: Chooser
    test: GapTest

    def __post_init__(self) -> None:
        Aggregator.__post_init__(self)
        check_window(self.preference, self.labels)
        if not self.chooser.shows_k and not self.test.certifies_choice and len(self.preference.choices) > 1:
            raise ParameterError("choosing by argmax needs the table test", "", "Use test='table' or choose='em'.")

    @classmethod
    @abstractmethod
    def constants(cls, adjacency: Adjacency) -> Adjacency:
        """Return the relation whose constants bound how far one person moves what labels are ranked by."""

    @classmethod
    def spend(
        cls,
        budget: Budget,
        limits: Filter | None,
        panel: Panel,
        *,
        limit: int | None = None,
        max_k: int | None = None,
        min_k: int = 1,
        choose: str = "em",
        test: str = "table",
    ) -> Self:
        return cls.spend_on_sets(budget, limits, panel, max_k, min_k, choose, test, limit=limit)

    @classmethod
    def spend_on_sets(
        cls,
        budget: Budget,
        limits: Filter | None,
        panel: Panel,
        max_k: int | None,
        min_k: int,
        choose: str,
        test: str,
        **shared: Any,
    ) -> Self:
        """Return the aggregator for the window, chooser and test; ``shared`` are parameters of every aggregator."""
        preference = Preference(max_k=panel["labels"] if max_k is None else max_k, min_k=min_k)
        check_window(preference, panel["labels"])
        chooser, gap_test = calibrate_parts(
            budget,
            limits,
            adjacency=cls.constants(panel["adjacency"]),
            choices=len(preference.choices),
            choose=choose,
            test=test,
        )
        return cls(**panel, preference=preference, chooser=chooser, test=gap_test, budget=budget, **shared)

    @property
    def cost(self) -> Cost:
        constants = self.constants(self.adjacency)
        return Cost(adjacency=self.adjacency, uses=self.chooser.cost(constants).uses + self.test.cost(constants).uses)

    @abstractmethod
    def rank_labels(self, counts: IntArray) -> tuple[IntArray, IntArray]:
        """Return, for rows of counts, every label's rank from 0, and the gaps below the ranks 1..max_k."""

    @abstractmethod
    def answer_set(self, counts: IntArray, inside: BoolArray) -> Int8Array:
        """Return the labels that go out where ``inside`` says which labels are in the released set."""

    def draw(self, votes: Votes, source: Source) -> Int8Array:
        """Answer a stable set of labels, or withhold the query. How large a withheld set would have been is not shown."""
        counts = self.read_votes(votes)
        ranks, gaps = self.rank_labels(counts)
        constants = self.constants(self.adjacency)
        scores = self.preference.scores(gaps)
        chosen = self.preference.choices[self.chooser.draw(scores, constants, source)]
        gap = np.take_along_axis(gaps, chosen[:, None] - 1, axis=1)[:, 0]
        passed = self.test.passes(gap, self.chooser.slack(scores, constants), constants, source)
        values = self.answer_set(counts, ranks < chosen[:, None])
        values[~passed] = MISSING
        return values

    def law(self, votes: Votes) -> LabelLaw:
        self.check_law_size(self.labels + 1)
        counts = self.read_votes(votes, dimensions=1)[None, :]
        ranks, gaps = self.rank_labels(counts)
        constants = self.constants(self.adjacency)
        scores, choices = self.preference.scores(gaps), self.preference.choices
        window = gaps[0, choices - 1]
        slack = np.broadcast_to(self.chooser.slack(scores, constants), window.shape)
        chance = self.chooser.law(scores, constants)[0]
        yes, no = self.test.chances(window, slack, constants)
        law: dict[LabelRow, float] = {(None,) * self.labels: float((chance * no).sum())}
        for k, p in zip(choices.tolist(), (chance * yes).tolist(), strict=True):
            [row] = label_rows(self.answer_set(counts, ranks < k))
            law[row] = law.get(row, 0.0) + p
        return law

    def public_parameters(self) -> dict[str, Any]:
        window = {"min_k": self.preference.min_k, "max_k": self.preference.max_k}
        return window | {"choose": self.chooser.name, "test": self.test.name}


@dataclass(frozen=True, slots=True, kw_only=True)
class StableTopKVote(StableSetVote):
    r"""The labels with the most votes are set, the others are not, where that set is stable; otherwise the query is withheld.

    The paper's aggregator, with the constants of the relation it is used under.

    **Privacy.** `StableTopK` on the counts of a closed domain, of which less is shown: a withheld query does not tell k
    [ZW22, Algorithm 2 and section on PATE; docs/proofs/stable-top-k.md; docs/proofs/stable-sets.md].
    """

    name: ClassVar[str] = "stable-top-k-vote"
    reference: ClassVar[str] = "ZW22"
    cost_rule: ClassVar[str] = "choice (bounded range) + one coin"

    @classmethod
    def constants(cls, adjacency: Adjacency) -> Adjacency:
        """Take the relation as it is: counts move as it says."""
        return adjacency

    def rank_labels(self, counts: IntArray) -> tuple[IntArray, IntArray]:
        ranks, top = rank_scores(counts)
        below = np.concatenate([top[:, 1:], np.zeros((len(top), 1), dtype=np.int64)], axis=1)
        return ranks, (top - below)[:, : self.preference.max_k]

    def answer_set(self, counts: IntArray, inside: BoolArray) -> Int8Array:  # noqa: ARG002 - a set of labels is its own answer
        values: Int8Array = inside.astype(np.int8)
        return values


@dataclass(frozen=True, slots=True, kw_only=True)
class StableConfident(StableSetVote):
    r"""The majorities, yes or no, of the labels the ensemble is surest of, where that set is stable; the rest are missing.

    **Privacy.** `StableTopK` on the confidences m_i. One ballot moves each by at most 1, in any directions and under either
    relation (a ballot that joins makes a yes surer and a no less sure), so the constants are those of REPLACE always. Below the
    last label the gap is read as ``2 min_i m_i``, which makes its distance ``min_i m_i - 1``
    [ZW22; docs/proofs/stable-sets.md].

    Examples
    --------
    >>> vote = StableConfident.calibrate(Budget(epsilon=2.0, delta=1e-6), teachers=400, labels=4)
    >>> vote.release(np.array([[395, 6, 390, 201]])).values.tolist()
    [[1, 0, 1, -1]]
    """

    name: ClassVar[str] = "stable-confident"
    reference: ClassVar[str] = "ZW22"
    cost_rule: ClassVar[str] = "choice (bounded range) + one coin"
    parameters: ClassVar[tuple[Parameter, ...]] = (*StableSetVote.parameters, Parameter(name="quorum"))

    @classmethod
    def spend(
        cls,
        budget: Budget,
        limits: Filter | None,
        panel: Panel,
        *,
        limit: int | None = None,
        max_k: int | None = None,
        min_k: int = 1,
        choose: str = "em",
        test: str = "table",
        quorum: float = 0.5,
    ) -> Self:
        return cls.spend_on_sets(budget, limits, panel, max_k, min_k, choose, test, limit=limit, quorum=quorum)

    @classmethod
    def constants(cls, adjacency: Adjacency) -> Adjacency:  # noqa: ARG003 - the same under both
        """Take REPLACE always: confidences move both ways even when one ballot joins."""
        return Adjacency.REPLACE

    def rank_labels(self, counts: IntArray) -> tuple[IntArray, IntArray]:
        ranks, top = rank_scores(confidences(counts, self.doubled_quorum))
        gaps = np.concatenate([top[:, :-1] - top[:, 1:], 2 * top[:, -1:]], axis=1)
        return ranks, gaps[:, : self.preference.max_k]

    def answer_set(self, counts: IntArray, inside: BoolArray) -> Int8Array:
        return np.where(inside, majorities(counts, self.doubled_quorum), np.int8(MISSING))


def rank_scores(scores: IntArray) -> tuple[IntArray, IntArray]:
    """Return every label's rank from 0, ties by index, and the scores by rank."""
    order = np.argsort(-scores, axis=1, kind="stable")
    ranks = np.empty_like(order)
    np.put_along_axis(ranks, order, np.broadcast_to(np.arange(scores.shape[1]), order.shape), axis=1)
    return ranks, np.take_along_axis(scores, order, axis=1)


def check_window(preference: Preference, labels: int) -> None:
    """Raise if a set could have more labels than there are."""
    if preference.max_k > labels:
        raise ParameterError(
            "max_k must be at most the number of labels", f"max_k={preference.max_k}, labels={labels}", "Lower max_k."
        )


def majorities(counts: IntArray, doubled_quorum: int) -> Int8Array:
    """Return 1 where more teachers said yes than the quorum, and 0 elsewhere; twice a quorum of half is all teachers."""
    return np.greater(counts, doubled_quorum // 2).astype(np.int8)


def confidences(counts: IntArray, doubled_quorum: int) -> IntArray:
    r"""Return, for each count, how many ballots must change before the majority flips; at least 1.

    It moves by at most 1 when the count does, and where the majority differs between neighbours it is 1 on both sides
    [docs/proofs/stable-majority.md].

    Examples
    --------
    >>> confidences(np.array([0, 1, 2, 3, 4]), 4).tolist(), confidences(np.array([0, 1, 2, 3, 4, 5]), 5).tolist()
    ([3, 2, 1, 1, 2], [3, 2, 1, 1, 2, 3])
    """
    most = doubled_quorum // 2  # the largest count that is no majority
    return np.where(counts > most, counts - most, most + 1 - counts)
