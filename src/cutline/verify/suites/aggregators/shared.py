r"""What the suites of the aggregators share: all ballots of up to 4 teachers and 3 labels, and the counts of more teachers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np

from cutline.pate.aggregators.base import Aggregator
from cutline.pate.labels import LabelLaw
from cutline.privacy import Adjacency, BitTable
from cutline.verify.check import Check, Subject
from cutline.verify.suites.shared import Altered, Relabelled, fails
from cutline.verify.universe import BallotBoxes, Votes

Build: TypeAlias = Callable[[int, int, Adjacency], Aggregator]  # from teachers, labels and whom to protect
Ballots: TypeAlias = Any  # an array (ballots, 1, labels), of the universe's making

MOST = (4, 3)  # teachers and labels whose boxes are all listed
# Steep enough to saturate within the one to three steps that four teachers leave.
STABILITY = BitTable.stability(order=3.0, rdp=2.0, delta=0.02)


@dataclass(frozen=True, slots=True, kw_only=True)
class OnBallots(Altered):
    """An aggregator on the ballots of one query: what one person changes is a ballot, so that is where neighbours are."""

    subject: Aggregator

    def law(self, ballots: Ballots, /) -> LabelLaw:
        return _law_of_votes(self.subject, tuple(self.subject.tally(ballots)[0].tolist()))


@lru_cache(maxsize=1 << 13)
def _law_of_votes(aggregator: Aggregator, votes: tuple[int, ...]) -> LabelLaw:
    """Return the law of counts; many ballot boxes have the same."""
    return aggregator.law(np.array(votes, dtype=np.int64))


def holds_on_ballots(name: str, variants: Mapping[str, Build]) -> list[Check]:
    """Return the checks that an aggregator keeps its claim: the first variant on every size, the others on the largest."""
    first, *others = variants.items()
    teachers, labels = MOST
    found = [
        _on_boxes(name, *first, a, t, c)
        for a in Adjacency
        for t in range(1, teachers + 1)
        for c in range(1, labels + 1)
    ]
    return found + [_on_boxes(name, *other, a, t, labels) for other in others for a in Adjacency for t in (3, 4)]


def holds_on_votes(name: str, variants: Mapping[str, Build]) -> list[Check]:
    """Return the checks that the claim holds on the counts of more teachers: four leave distances little room."""
    return [
        Check(
            name=f"{name}:{words}; {adjacency}; counts of {teachers} teachers, {labels} labels",
            mechanism=name,
            expected="holds",
            subject=build(teachers, labels, adjacency),
            universe=Votes(teachers=teachers, labels=labels, adjacency=adjacency),
        )
        for words, build in variants.items()
        for adjacency in Adjacency
        for teachers, labels in ((16, 2), (6, 3))
    ]


def controls_on_ballots(name: str, wrong: Mapping[str, Subject]) -> list[Check]:
    """Return the negative controls of the aggregator of that name, on the most ballots, under the relation they claim."""
    teachers, labels = MOST
    return [
        fails(
            f"{name}, {words}",
            name,
            subject,
            BallotBoxes(teachers=teachers, labels=labels, adjacency=subject.cost.adjacency),
        )
        for words, subject in wrong.items()
    ]


def under_replace(aggregator: Aggregator) -> Relabelled:
    """Return an aggregator made for ADD_REMOVE that claims its cost under REPLACE: a negative control."""
    return Relabelled(subject=OnBallots(subject=aggregator), adjacency=Adjacency.REPLACE)


def _on_boxes(name: str, words: str, build: Build, adjacency: Adjacency, teachers: int, labels: int) -> Check:
    return Check(
        name=f"{name}:{words}; {adjacency}; {teachers} teachers, {labels} labels",
        mechanism=name,
        expected="holds",
        subject=OnBallots(subject=build(teachers, labels, adjacency)),
        universe=BallotBoxes(teachers=teachers, labels=labels, adjacency=adjacency),
    )
