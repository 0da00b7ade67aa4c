r"""The exhaustive checks of the optimal vote, and its negative controls: a moving middle, a rounded table, too low a charge."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

from cutline.pate.aggregators.optimal_vote import OptimalVote
from cutline.pate.labels import LabelLaw
from cutline.privacy import Adjacency, BitTable
from cutline.verify.check import Check, Subject
from cutline.verify.suites.aggregators.shared import (
    MOST,
    Ballots,
    Build,
    OnBallots,
    RoundedVote,
    controls_on_ballots,
    holds_on_ballots,
    holds_on_votes,
    under_replace,
)
from cutline.verify.suites.shared import Charged


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


def checks() -> list[Check]:
    """Return all checks of the optimal vote."""
    free: dict[str, Build] = {"": _of}
    limited: dict[str, Build] = {" limit 1": partial(_of, limit=1)}
    name = OptimalVote.name
    return holds_on_ballots(name, free | limited) + holds_on_votes(name, free) + controls_on_ballots(name, _wrong())


def _wrong() -> dict[str, Subject]:
    """Return what must fail, each at parameters under which it does."""
    adds, replaces = Adjacency.ADD_REMOVE, Adjacency.REPLACE
    limited, free = _of(*MOST, adds, limit=1), _of(*MOST, replaces)
    return {
        "a middle that follows the ballots that came": WanderingMiddle(subject=limited),
        "table rounded to 1": RoundedVote(subject=_of(*MOST, replaces, rdp=3.0), near=0.05),
        "a limit of 1 charged once under replace": under_replace(limited),
        "ballots beyond the limit": Charged(subject=OnBallots(subject=free), charge=_of(*MOST, replaces, limit=1).cost),
        "all labels charged as one": Charged(subject=OnBallots(subject=free), charge=_of(4, 1, replaces).cost),
    }


def _of(
    teachers: int, labels: int, adjacency: Adjacency, limit: int | None = None, rdp: float | None = None
) -> OptimalVote:
    """Return a vote whose table is as steep as it takes to be nearly sure where all agree, for that many teachers."""
    table = BitTable.voting(order=3.0, rdp=rdp or min(0.8, 12.8 / teachers**2), teachers=teachers)
    return OptimalVote(table=table, teachers=teachers, labels=labels, adjacency=adjacency, limit=limit)
