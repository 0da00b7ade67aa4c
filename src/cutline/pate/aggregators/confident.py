r"""A class only where the teachers agree: a check whether the winner has enough votes, then the answer, or nothing.

A query that fails the check is withheld, and what it is charged under a filter is the check alone: the answer did not run.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from cutline.arrays import FloatArray, Int8Array, IntArray
from cutline.mechanisms.base import Parameter
from cutline.pate.aggregators.base import Aggregator, Panel, Votes, check_one_vote, double_quorum
from cutline.pate.aggregators.calibration import bit_precision, checked_class_table, sum_costs
from cutline.pate.aggregators.class_vote import ClassVote, check_classes
from cutline.pate.aggregators.gaussian_votes import BinaryVote, GNMax, middle
from cutline.pate.aggregators.optimal_vote import CoinVote, OptimalVote, phantom_teachers
from cutline.pate.labels import MISSING, LabelLaw, LabelRow
from cutline.privacy import BitTable, Budget, Cost, Filter, Gaussian, GaussianBit
from cutline.privacy.curves.base import check_positive
from cutline.privacy.curves.class_table import ClassTable
from cutline.sampling import Source

_CHECK_NOISE = 1.5  # standard deviations of the check's noise in those of the answer's


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfidentVote(Aggregator):
    r"""A base: one coin says whether the class with the most votes has enough of them, and then the query is answered.

    **Privacy.** The largest number of votes moves by at most 1 under both relations, so the coin costs what a label's coin
    costs. Which queries are withheld is public, and the answer of a query is drawn only after its coin: under a filter a
    withheld query is charged for the coin alone, and one that is answered for both. What is reserved, and what the guarantee
    states, is both for every query [PSM18; docs/proofs/confident-votes.md].

    Parameters
    ----------
    quorum
        The share of the teachers that the winner must have for the coin to say yes more often than no; half by default.
    """

    one_class: ClassVar[bool] = True
    parameters: ClassVar[tuple[Parameter, ...]] = (Parameter(name="quorum"),)

    limit: int | None = 1

    @property
    @abstractmethod
    def check(self) -> CoinVote:
        """The vote of one label that is tossed at the largest number of votes."""

    @property
    @abstractmethod
    def answer(self) -> Aggregator:
        """What answers a query that has passed."""

    def panel(self, **changed: Any) -> dict[str, Any]:
        """Return the public numbers of both steps."""
        return {"teachers": self.teachers, "labels": self.labels, "adjacency": self.adjacency} | changed

    @property
    def cost(self) -> Cost:
        return self.check.cost + self.answer.cost

    def cost_of(self, values: Int8Array) -> Cost:
        answered = int((values != MISSING).any(axis=1).sum())
        return len(values) * self.check.cost + answered * self.answer.cost

    def draw(self, votes: Votes, source: Source) -> Int8Array:
        """Toss the coin of every query, and answer those that pass."""
        counts = self.read_votes(votes)
        passed = self.check.draw(counts.max(axis=1, keepdims=True), source)[:, 0] == 1
        values = np.full((len(counts), self.labels), MISSING, dtype=np.int8)
        values[passed] = self.answer.draw(counts[passed], source)
        return values

    def law(self, votes: Votes) -> LabelLaw:
        counts = self.read_votes(votes, dimensions=1)
        yes, no = self._chances(counts)
        law: dict[LabelRow, float] = {row: yes * p for row, p in self.answer.law(counts).items()}
        law[(None,) * self.labels] = no
        return law

    def _chances(self, counts: IntArray) -> tuple[float, float]:
        chances: tuple[FloatArray, FloatArray] = self.check.chances(counts.max(keepdims=True))
        return float(chances[0][0]), float(chances[1][0])


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfidentClassVote(ConfidentVote):
    r"""`ClassVote` where the winner passes a coin of the best voting table; other queries are withheld.

    Parameters
    ----------
    check_table
        The coin's bias at each number of votes of the winner; calibration gives it 15 % of what a query may cost.
    table
        As for `ClassVote`.

    Examples
    --------
    >>> vote = ConfidentClassVote.calibrate(Budget(epsilon=8.0, delta=1e-6, releases=10), teachers=100, labels=3)
    >>> labels = vote.release(np.array([[96, 3, 1], [34, 33, 33]] * 5))
    >>> labels.values[::2].tolist() == [[1, 0, 0]] * 5, labels.withheld > 0
    (True, True)
    """

    name: ClassVar[str] = "confident-class-vote"
    reference: ClassVar[str] = "PSM18"
    cost_rule: ClassVar[str] = "one coin, and one draw if it says yes"

    check_table: BitTable
    table: ClassTable

    def __post_init__(self) -> None:
        Aggregator.__post_init__(self)
        check_one_vote(self)
        _ = self.answer  # refuses a table that is made for other votes

    @classmethod
    def spend(cls, budget: Budget, limits: Filter | None, panel: Panel, *, quorum: float = 0.5) -> Self:
        check_classes(panel["labels"])
        agreeing, phantoms = phantom_teachers(panel["teachers"], quorum)
        check, table = checked_class_table(
            budget,
            limits,
            classes=panel["labels"],
            votes=panel["teachers"],
            moved=panel["adjacency"].count_range,
            agreeing=agreeing,
        )
        check = BitTable(values=check.values, start=check.start - phantoms)
        return cls(**panel, check_table=check, table=table, quorum=quorum, budget=budget)

    @property
    def check(self) -> OptimalVote:
        return OptimalVote(**self.panel(labels=1), table=self.check_table, quorum=self.quorum)

    @property
    def answer(self) -> ClassVote:
        return ClassVote(**self.panel(), table=self.table)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfidentGNMax(ConfidentVote):
    r"""Confident-GNMax: Gaussian noise on the largest count, compared with the quorum, then `GNMax`.

    The check is charged as the bit it is, which is about 2/pi of what the noisy count would cost.

    Parameters
    ----------
    check_sigma, sigma
        Standard deviations of the noise of the check and of the answer; calibration takes 1.5 times as much for the check.
    """

    name: ClassVar[str] = "confident-gnmax"
    reference: ClassVar[str] = "PSM18"
    cost_rule: ClassVar[str] = "one Gaussian bit, and a Gaussian vector of one vote if it says yes"

    check_sigma: float
    sigma: float

    def __post_init__(self) -> None:
        Aggregator.__post_init__(self)
        check_one_vote(self)
        check_positive("check_sigma", self.check_sigma)
        check_positive("sigma", self.sigma)

    @classmethod
    def spend(cls, budget: Budget, limits: Filter | None, panel: Panel, *, quorum: float = 0.5) -> Self:
        doubled, adjacency = double_quorum(panel["teachers"], quorum), panel["adjacency"]

        def cost(precision: float) -> Cost:
            check, sigma = _CHECK_NOISE / precision, 1 / precision
            bit = GaussianBit(sigma=check, offset=middle(check, doubled), reach=1)
            vector = Gaussian(sigma=sigma, squared_sensitivity=float(adjacency.count_range))
            return sum_costs((bit, vector), adjacency)

        sigma = 1 / bit_precision(budget, limits, cost, coins=2)
        return cls(**panel, check_sigma=_CHECK_NOISE * sigma, sigma=sigma, quorum=quorum, budget=budget)

    @property
    def check(self) -> BinaryVote:
        return BinaryVote(**self.panel(labels=1), sigma=self.check_sigma, quorum=self.quorum)

    @property
    def answer(self) -> GNMax:
        return GNMax(**self.panel(), sigma=self.sigma)

    def public_parameters(self) -> dict[str, Any]:
        return {"check_sigma": self.check_sigma, "sigma": self.sigma}
