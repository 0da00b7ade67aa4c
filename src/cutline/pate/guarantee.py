r"""What a fitted classifier promises, and to whom.

An aggregator promises something about *ballots*. People are in *records*. Between the two stands the partition, and
the sentence here says what it does: see `cutline.pate.partition`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from cutline.pate.labels import Labels
from cutline.privacy import Adjacency
from cutline.release import digits_up

Unit = Literal["record", "group"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Labelled:
    """How many public examples got all their labels, none of them, or some."""

    answered: int
    withheld: int
    partly: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Privacy:
    r"""The guarantee of a fitted `PATEClassifier`, for everything that leaves: labels, student, predictions.

    Parameters
    ----------
    epsilon, delta
        For one ballot's change in the sense of ``adjacency``.
    adjacency
        ``replace``: one ballot changes arbitrarily, which is what a record does. ``add-remove``: one ballot is there
        or not (as the paper has it), which no record does alone.
    unit
        ``record`` if a record's features chose its teacher, ``group`` if a person's id did.
    queries
        How many public examples were labelled.
    guarantee
        The aggregator's own sentence, about ballots.
    """

    epsilon: float
    delta: float
    adjacency: Adjacency
    unit: Unit
    queries: int
    guarantee: str

    @property
    def sentence(self) -> str:
        """The guarantee in the words of records."""
        one, two = _in_words(self.epsilon, self.delta), _in_words(*two_steps(self.epsilon, self.delta))
        if self.adjacency is Adjacency.ADD_REMOVE:
            whose = "all records of one id" if self.unit == "group" else "one record joining or leaving"
            return (
                f"{one} for one teacher's ballot being there or not, as in the paper; {whose} can change a ballot "
                f"arbitrarily, which counts as two such steps: {two}. {self.guarantee}"
            )
        if self.unit == "group":
            return (
                f"{one} for all records of one id joining, leaving or changing while the id stays, which changes one "
                f"teacher's ballot. {self.guarantee}"
            )
        return (
            f"{one} for one record joining or leaving, or its labels changing, which changes one teacher's ballot; {two} for "
            f"one record replaced by another, which can change two. {self.guarantee}"
        )

    def __str__(self) -> str:
        return self.sentence


def state_privacy(labels: Labels, *, unit: Unit) -> Privacy:
    """Put the guarantee of released labels into the words of records."""
    epsilon, delta = labels.stated()
    return Privacy(
        epsilon=epsilon,
        delta=delta,
        adjacency=labels.cost.adjacency,
        unit=unit,
        queries=labels.queries,
        guarantee=labels.guarantee,
    )


def two_steps(epsilon: float, delta: float) -> tuple[float, float]:
    r"""Return the group privacy of two: if one step is (epsilon, delta)-DP, two are (2 epsilon, (1 + e^epsilon) delta)-DP.

    Examples
    --------
    >>> two_steps(1.0, 1e-6)
    (2.0, 3.718281828459058e-06)
    """
    return 2 * epsilon, min(1.0, (1 + math.exp(min(epsilon, 700.0))) * delta * (1 + 2**-48))


def _in_words(epsilon: float, delta: float) -> str:
    return f"({digits_up(epsilon, 4)}, {digits_up(delta, 3)})-DP"
