r"""What teachers said about public examples, and what was true: the input of every aggregator in the study."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from cutline.arrays import FloatArray, IntArray
from cutline.pate.aggregators.base import double_quorum

Bools: TypeAlias = npt.NDArray[np.bool_]
Votes: TypeAlias = Mapping[int | None, IntArray]  # by ballot limit; None: ballots as they are
Measure: TypeAlias = Literal["right", "f1"]


class Score(NamedTuple):
    """How good released labels are."""

    answered: float  # share of all labels that went out
    correct: float  # share of those that are right; not a number if none went out
    right: float  # share of all labels that went out and are right
    f1: float  # of the labels set, over all queries and labels; a missing label is one that is not set
    balanced: float  # mean of the shares of set labels that came out set, and of unset ones that came out unset


class Tally(NamedTuple):
    """A score query by query: what each gained of what it could; the score of any queries is the one sum over the other."""

    gained: FloatArray
    possible: FloatArray


@dataclass(frozen=True, slots=True, kw_only=True, repr=False, eq=False)
class Poll:
    r"""Votes on queries whose true labels are known; simulated or of public data, so nothing in it is private.

    Parameters
    ----------
    name, title
        The title says so if data are generated.
    teachers
        How many voted.
    truth
        Shape (queries, labels).
    votes
        Counts of the same shape, for each ballot limit.
    limit
        The limit that limited aggregators are run with; public.
    quorum
        The share of the teachers that must say yes; public.
    window
        The most labels that StableTopK may release; public. None: all of them.
    measure
        Which score says how good labels are: ``right`` or, where few labels are set, ``f1``.
    generated
        Whether the examples are made up, and not those that were published.
    """

    name: str
    title: str
    teachers: int
    truth: Bools
    votes: Votes
    limit: int
    quorum: float = 0.5
    window: int | None = None
    measure: Measure = "right"
    generated: bool = False

    @property
    def majority(self) -> Bools:
        """What the plain majority says, which is more votes than the quorum; no privacy."""
        return self.majority_of(None)

    def majority_of(self, limit: int | None) -> Bools:
        """Return what the plain majority of limited ballots says."""
        return np.greater(2 * self.votes[limit], double_quorum(self.teachers, self.quorum))


def score(values: npt.NDArray[Any], truth: Bools) -> Score:
    r"""Compare labels (1, 0, or -1 where missing) with the truth.

    Examples
    --------
    >>> score(np.array([[1, 0], [-1, 1]]), np.array([[True, True], [True, True]]))
    Score(answered=0.75, correct=0.6666666666666666, right=0.5, f1=0.6666666666666666, balanced=0.75)
    """
    known = values != -1
    right = (known & ((values == 1) == truth)).sum()
    hits = 2 * ((values == 1) & truth).sum() / max(int((values == 1).sum() + truth.sum()), 1)
    return Score(
        answered=float(known.mean()),
        correct=float(right / known.sum()) if known.any() else float("nan"),
        right=float(right / truth.size),
        f1=float(hits),
        balanced=float((_share(values == 1, truth) + _share(values == 0, ~truth)) / 2),
    )


def _share(came: Bools, of: Bools) -> float:
    """Return which share of some labels came out as they are; all of none."""
    return float((came & of).sum() / of.sum()) if of.any() else 1.0


def tally(values: npt.NDArray[Any], truth: Bools, measure: Measure) -> Tally:
    r"""Return the parts of a score by query; of several trials (a third axis in front), their sums.

    Examples
    --------
    >>> labels, truth = np.array([[1, 0], [-1, 1]]), np.array([[True, True], [True, True]])
    >>> parts = {measure: tally(labels, truth, measure) for measure in ("right", "f1")}
    >>> {measure: float(gained.sum() / possible.sum()) for measure, (gained, possible) in parts.items()}
    {'right': 0.5, 'f1': 0.6666666666666666}
    """
    trials = values.reshape(-1, *truth.shape)
    chosen = trials == 1
    if measure == "right":
        gained = ((trials != -1) & (chosen == truth)).sum(axis=(0, 2))
        possible = np.full(len(truth), len(trials) * truth.shape[1])
    else:
        gained = 2 * (chosen & truth).sum(axis=(0, 2))
        possible = chosen.sum(axis=(0, 2)) + len(trials) * truth.sum(axis=1)
    return Tally(gained.astype(np.float64), possible.astype(np.float64))
