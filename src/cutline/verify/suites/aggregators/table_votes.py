r"""The exhaustive checks of the votes that read a table of probabilities, and their negative controls.

OptimalVote answers every label by itself; StableMajority answers all majorities of a query, or none.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from cutline.pate.aggregators.optimal_vote import OptimalVote
from cutline.pate.aggregators.stable_majority import StableMajority, confidences, majorities
from cutline.pate.labels import LabelLaw
from cutline.privacy import Adjacency, BitTable
from cutline.verify.check import Check, Subject
from cutline.verify.suites.aggregators.shared import (
    MOST,
    STABILITY,
    Ballots,
    Build,
    OnBallots,
    controls_on_ballots,
    holds_on_ballots,
    holds_on_votes,
    under_replace,
)
from cutline.verify.suites.shared import Charged


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundedVote(OnBallots):
    """Rounds the upper end of its table to exactly 1, and charges the table it was built from: a negative control."""

    subject: OptimalVote | StableMajority
    near: float

    def law(self, ballots: Ballots, /) -> LabelLaw:
        table = self.subject.table
        values = np.asarray(table.values)
        rounded = np.where(values > 1 - self.near, 1.0, values)
        wrong = BitTable(values=tuple(rounded.tolist()), start=table.start)
        return replace(self.subject, table=wrong).law(self.subject.tally(ballots)[0])


@dataclass(frozen=True, slots=True, kw_only=True)
class WanderingMiddle(OnBallots):
    """Asks for a majority of the ballots that came instead of the teachers: a ballot of zeros then moves every label.

    Each label still moves by one step only, so it is where the charge counts on labels that do not move, under a ballot
    limit, that this breaks the claim.
    """

    subject: OptimalVote

    def law(self, ballots: Ballots, /) -> LabelLaw:
        table, teachers = self.subject.table, self.subject.teachers
        shifted = BitTable(values=table.values, start=table.start + len(ballots) // 2 - teachers // 2)
        return replace(self.subject, table=shifted).law(self.subject.tally(ballots)[0])


@dataclass(frozen=True, slots=True, kw_only=True)
class CarelessMajority(OnBallots):
    """Takes the number of ballots until the majority flips for the distance, though one ballot fewer already may."""

    subject: StableMajority

    def law(self, ballots: Ballots, /) -> LabelLaw:
        counts = self.subject.tally(ballots)[0]
        teachers = self.subject.teachers
        passes = float(self.subject.table(confidences(counts, teachers).min()))
        return {tuple(majorities(counts, teachers).tolist()): passes, (None,) * len(counts): 1 - passes}


def optimal_vote() -> list[Check]:
    """Return all checks of OptimalVote."""
    free: dict[str, Build] = {"": _optimal}
    limited: dict[str, Build] = {" limit 1": partial(_optimal, limit=1)}
    name = OptimalVote.name
    return (
        holds_on_ballots(name, free | limited)
        + holds_on_votes(name, free)
        + controls_on_ballots(name, _wrong_optimal_votes())
    )


def _wrong_optimal_votes() -> dict[str, Subject]:
    """Return what must fail, each at parameters under which it does."""
    adds, replaces = Adjacency.ADD_REMOVE, Adjacency.REPLACE
    limited, free = _optimal(*MOST, adds, limit=1), _optimal(*MOST, replaces)
    return {
        "a middle that follows the ballots that came": WanderingMiddle(subject=limited),
        "table rounded to 1": RoundedVote(subject=_optimal(*MOST, replaces, rdp=3.0), near=0.05),
        "a limit of 1 charged once under replace": under_replace(limited),
        "ballots beyond the limit": Charged(
            subject=OnBallots(subject=free), charge=_optimal(*MOST, replaces, limit=1).cost
        ),
        "all labels charged as one": Charged(subject=OnBallots(subject=free), charge=_optimal(4, 1, replaces).cost),
    }


def _optimal(
    teachers: int, labels: int, adjacency: Adjacency, limit: int | None = None, rdp: float | None = None
) -> OptimalVote:
    """Return a vote whose table is as steep as it takes to be nearly sure where all agree, for that many teachers."""
    table = BitTable.voting(order=3.0, rdp=rdp or min(0.8, 12.8 / teachers**2), teachers=teachers)
    return OptimalVote(table=table, teachers=teachers, labels=labels, adjacency=adjacency, limit=limit)


def stable_majority() -> list[Check]:
    """Return all checks of StableMajority."""
    name = StableMajority.name
    variants: dict[str, Build] = {"": _majority}
    majority = _majority(*MOST, Adjacency.REPLACE)
    wrong: dict[str, Subject] = {
        "table rounded to 1": RoundedVote(subject=majority, near=0.2),
        "distance without its minus 1": CarelessMajority(subject=majority),
    }
    return holds_on_ballots(name, variants) + holds_on_votes(name, variants) + controls_on_ballots(name, wrong)


def _majority(teachers: int, labels: int, adjacency: Adjacency) -> StableMajority:
    return StableMajority(table=STABILITY, teachers=teachers, labels=labels, adjacency=adjacency)
