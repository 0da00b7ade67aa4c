r"""The exhaustive checks of aggregators that answer with one class: what must hold of each, and what must fail.

Beside all ballots of up to 4 teachers, the claims are tried on all class votes of more teachers: one vote a teacher, or none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from cutline.pate.aggregators.base import Panel
from cutline.pate.aggregators.class_vote import ClassVote
from cutline.pate.aggregators.confident import ConfidentClassVote, ConfidentGNMax
from cutline.pate.aggregators.gaussian_votes import GNMax
from cutline.pate.aggregators.optimal_vote import phantom_teachers
from cutline.pate.ballots import count_ballots
from cutline.pate.labels import LabelLaw
from cutline.privacy import Adjacency, BitTable
from cutline.privacy.curves.class_table import ClassTable
from cutline.verify.check import Check, Subject
from cutline.verify.suites.aggregators.on_ballots import Ballots, Build, OnBallots, charged, make_panel
from cutline.verify.suites.shared import Altered, Charged, UnderReplace, fails
from cutline.verify.universe import ClassVotes

_SIGMA = 1.1


def _table(panel: Panel) -> ClassTable:
    """Return a table as steep as it takes to be nearly sure where all agree."""
    teachers, classes = panel["teachers"], panel["labels"]
    rdp = min(0.8, 12.8 / teachers**2)
    return ClassTable.build(order=3.0, rdp=rdp, votes=teachers, classes=classes, moved=panel["adjacency"].count_range)


def _class_vote(panel: Panel) -> ClassVote:
    return ClassVote(table=_table(panel), **panel)


def confident_class_vote(panel: Panel, *, quorum: float = 0.5) -> ConfidentClassVote:
    """Return a vote whose check is a voting table around the quorum."""
    agreeing, phantoms = phantom_teachers(panel["teachers"], quorum)
    check = BitTable.voting(order=3.0, rdp=min(0.8, 12.8 / panel["teachers"] ** 2), teachers=agreeing)
    check = BitTable(values=check.values, start=check.start - phantoms)
    return ConfidentClassVote(check_table=check, table=_table(panel), quorum=quorum, **panel)


VARIANTS: Mapping[str, dict[str, Build]] = {
    ClassVote.name: {"": _class_vote},
    ConfidentClassVote.name: {"": confident_class_vote},
    ConfidentGNMax.name: {"": lambda panel: ConfidentGNMax(check_sigma=1.4, sigma=_SIGMA, **panel)},
}


def on_class_votes(name: str) -> list[Check]:
    """Return the checks on the class votes of more teachers."""
    if name not in (*VARIANTS, GNMax.name):
        return []
    found = []
    for adjacency in Adjacency:
        for teachers, classes in ((16, 2), (9, 3), (6, 4)):
            panel = make_panel(teachers, classes, adjacency)
            vote = GNMax(sigma=_SIGMA, **panel) if name == GNMax.name else VARIANTS[name][""](panel)
            found.append(
                Check(
                    name=f"{name}:; {adjacency}; votes of {teachers} teachers, {classes} classes",
                    mechanism=name,
                    expected="holds",
                    subject=vote,
                    universe=ClassVotes(teachers=teachers, classes=classes, adjacency=adjacency),
                )
            )
    return found


def controls_on_class_votes(name: str) -> list[Check]:
    """Return the negative controls that are tried on class votes."""
    if name != ClassVote.name:
        return []
    few, many = make_panel(8, 3, Adjacency.REPLACE), make_panel(8, 20, Adjacency.REPLACE)
    wrong: dict[str, Subject] = {
        "a table of more classes than there are": Charged(
            subject=ClassVote(table=replace(_table(many), classes=3), **few),
            charge=ClassVote(table=_table(many), **many).cost,
        ),
        "a table of fewer teachers than vote": MoreVotes(subject=_class_vote(make_panel(5, 3, Adjacency.REPLACE))),
    }
    universe = ClassVotes(teachers=8, classes=3, adjacency=Adjacency.REPLACE)
    return [fails(f"{name}, {words}", name, subject, universe) for words, subject in wrong.items()]


def wrong() -> dict[str, dict[str, Subject]]:
    """Return what must fail on the ballots of 4 teachers for 3 classes, by the aggregator it is a control of."""
    adds, replaces = (make_panel(4, 3, adjacency) for adjacency in Adjacency)
    one_count = "add-remove sensitivity under replace"

    def under_replace(name: str) -> Subject:
        return UnderReplace(subject=OnBallots(subject=VARIANTS[name][""](adds)))

    right, confident = _class_vote(replaces), confident_class_vote(replaces)
    noisy = VARIANTS[ConfidentGNMax.name][""](replaces)
    assert isinstance(noisy, ConfidentGNMax)  # noqa: S101 - it was built so
    certain = ClassTable(weights=(1, *right.table.weights[1:]), classes=3, moved=2)
    return {
        ClassVote.name: {
            one_count: under_replace(ClassVote.name),
            "hardly any weight without votes": charged(replace(right, table=certain), right),
            "ballots beyond one vote": ManyVotes(subject=right),
        },
        ConfidentClassVote.name: {
            one_count: under_replace(ConfidentClassVote.name),
            "the check for free": charged(confident, confident.answer),
            "the answer for free": charged(confident, confident.check),
        },
        ConfidentGNMax.name: {
            # A check of hardly any cost, since one of some cost pays for what is missing at this size.
            one_count: UnderReplace(
                subject=OnBallots(subject=ConfidentGNMax(check_sigma=9.0, sigma=_SIGMA, quorum=0.1, **adds))
            ),
            "the answer for free": charged(noisy, noisy.check),
        },
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class ManyVotes(OnBallots):
    """Counts every label of a ballot, not one: a ballot then moves all the weights."""

    subject: ClassVote

    def law(self, ballots: Ballots, /) -> LabelLaw:
        counts = count_ballots(ballots)[0]
        more = 3 * self.subject.teachers
        weights = self.subject.table.weights
        table = ClassTable(weights=weights + weights[-1:] * (more + 1 - len(weights)), classes=3, moved=2)
        return replace(self.subject, teachers=more, table=table).law(counts)


@dataclass(frozen=True, slots=True, kw_only=True)
class MoreVotes(Altered):
    """Reads the votes of more teachers off a table that counts on fewer: two classes can then have many votes at once."""

    subject: ClassVote

    def law(self, votes: Any, /) -> LabelLaw:
        weights = self.subject.table.weights
        table = ClassTable(weights=weights + weights[-1:] * (9 - len(weights)), classes=3, moved=2)
        return replace(self.subject, teachers=8, table=table).law(votes)
