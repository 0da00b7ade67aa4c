r"""The exhaustive checks of the stable majority, and its negative controls: a rounded table, and a distance too long by one."""

from __future__ import annotations

from dataclasses import dataclass

from cutline.pate.aggregators.stable_majority import StableMajority, confidences, majorities
from cutline.pate.labels import LabelLaw
from cutline.privacy import Adjacency
from cutline.verify.check import Check, Subject
from cutline.verify.suites.aggregators.shared import (
    MOST,
    STABILITY,
    Ballots,
    Build,
    OnBallots,
    RoundedVote,
    controls_on_ballots,
    holds_on_ballots,
    holds_on_votes,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CarelessMajority(OnBallots):
    """Takes the number of ballots until the majority flips for the distance, though one ballot fewer already may."""

    subject: StableMajority

    def law(self, ballots: Ballots, /) -> LabelLaw:
        counts = self.subject.tally(ballots)[0]
        teachers = self.subject.teachers
        passes = float(self.subject.table(confidences(counts, teachers).min()))
        return {tuple(majorities(counts, teachers).tolist()): passes, (None,) * len(counts): 1 - passes}


def checks() -> list[Check]:
    """Return all checks of the stable majority."""
    name = StableMajority.name
    variants: dict[str, Build] = {"": _of}
    majority = _of(*MOST, Adjacency.REPLACE)
    wrong: dict[str, Subject] = {
        "table rounded to 1": RoundedVote(subject=majority, near=0.2),
        "distance without its minus 1": CarelessMajority(subject=majority),
    }
    return holds_on_ballots(name, variants) + holds_on_votes(name, variants) + controls_on_ballots(name, wrong)


def _of(teachers: int, labels: int, adjacency: Adjacency) -> StableMajority:
    return StableMajority(table=STABILITY, teachers=teachers, labels=labels, adjacency=adjacency)
