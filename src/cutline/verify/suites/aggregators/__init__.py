r"""The exhaustive checks of the aggregators: what must hold of each, and the negative controls, which must fail.

What one person changes is a ballot, so the checks are on all ballots of up to 4 teachers for up to 3 labels. Four
teachers leave distances little room, so claims that rest on them are also checked on the counts of more teachers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product

import numpy as np

from cutline.mechanisms.adaptive.choosers import Chooser, GapArgmax, GapExponential, Preference
from cutline.mechanisms.adaptive.gap_tests import TableTest
from cutline.pate.aggregators.base import Aggregator, Panel, double_quorum
from cutline.pate.aggregators.confident import ConfidentClassVote
from cutline.pate.aggregators.gaussian_votes import BinaryVote, GNMax, PateGaussian, PateTau, PowersetVote
from cutline.pate.aggregators.optimal_vote import OptimalVote, phantom_teachers
from cutline.pate.aggregators.stable_sets import (
    StableConfident,
    StableMajority,
    StableSetVote,
    StableTopKVote,
    confidences,
    majorities,
)
from cutline.pate.labels import LabelLaw
from cutline.privacy import Adjacency, BitTable
from cutline.verify.check import Check, Subject
from cutline.verify.suites.aggregators import classes
from cutline.verify.suites.aggregators.on_ballots import Ballots, Build, OnBallots, charged, make_panel
from cutline.verify.suites.shared import Charged, UnderReplace, fails
from cutline.verify.universe import BallotBoxes, Counts, Universe

_SIGMA = 1.1
_EM = GapExponential(epsilon=1.5)
# Steep enough to saturate within the one to three steps that four teachers leave.
_STABILITY = BitTable.stability(order=3.0, rdp=2.0, delta=0.02)


def _optimal(panel: Panel, *, limit: int | None = None, rdp: float | None = None, quorum: float = 0.5) -> OptimalVote:
    """Return a vote whose table is as steep as it takes to be nearly sure where all agree, for that many teachers."""
    teachers = panel["teachers"]
    agreeing, phantoms = phantom_teachers(teachers, quorum)
    table = BitTable.voting(order=3.0, rdp=rdp or min(0.8, 12.8 / teachers**2), teachers=agreeing)
    table = BitTable(values=table.values, start=table.start - phantoms)
    return OptimalVote(table=table, limit=limit, quorum=quorum, **panel)


def _stable(kind: type[StableSetVote], chooser: Chooser, panel: Panel) -> StableSetVote:
    preference = Preference(max_k=panel["labels"])
    return kind(preference=preference, chooser=chooser, test=TableTest(table=_STABILITY), **panel)


# What must hold, in the words for each variant: the first is checked on every size, the others on the largest.
_VARIANTS: dict[str, dict[str, Build]] = {
    OptimalVote.name: {"": _optimal, " limit 1": lambda panel: _optimal(panel, limit=1)},
    StableTopKVote.name: {
        " em": lambda panel: _stable(StableTopKVote, _EM, panel),
        " argmax": lambda panel: _stable(StableTopKVote, GapArgmax(), panel),
    },
    PateGaussian.name: {"": lambda panel: PateGaussian(sigma=_SIGMA, **panel)},
    PateTau.name: {" limit 1": lambda panel: PateTau(sigma=_SIGMA, limit=1, **panel)},
    GNMax.name: {"": lambda panel: GNMax(sigma=_SIGMA, **panel)},
    BinaryVote.name: {
        "": lambda panel: BinaryVote(sigma=_SIGMA, **panel),
        " limit 1": lambda panel: BinaryVote(sigma=_SIGMA, limit=1, **panel),
    },
    PowersetVote.name: {"": lambda panel: PowersetVote(sigma=_SIGMA, **panel)},
    StableMajority.name: {"": lambda panel: StableMajority(table=_STABILITY, **panel)},
    StableConfident.name: {
        " em": lambda panel: _stable(StableConfident, _EM, panel),
        " argmax": lambda panel: _stable(StableConfident, GapArgmax(), panel),
    },
    **classes.VARIANTS,
}
# The variants that are checked on counts too.
_ON_COUNTS: dict[str, tuple[str, ...]] = {
    OptimalVote.name: ("",),
    StableTopKVote.name: (" em", " argmax"),
    BinaryVote.name: ("",),
    StableMajority.name: ("",),
    StableConfident.name: (" em", " argmax"),
}


def checks(name: str) -> list[Check]:
    """Return all checks of the aggregator of that name."""
    first, *others = _VARIANTS[name]
    on_ballots = [(first, make_panel(t, c, a)) for a in Adjacency for t in (1, 2, 3, 4) for c in (1, 2, 3)]
    on_ballots += [(other, make_panel(t, 3, a)) for other in others for a in Adjacency for t in (3, 4)]
    variants = _ON_COUNTS.get(name, ())
    on_counts = [(v, make_panel(t, c, a)) for v in variants for a in Adjacency for t, c in ((16, 2), (6, 3))]
    return [
        *(_holds(name, words, panel, on_ballots=True) for words, panel in on_ballots),
        *(_holds(name, words, panel, on_ballots=False) for words, panel in on_counts),
        *_quorums(name),
        *classes.on_class_votes(name),
        *_controls(name),
        *classes.controls_on_class_votes(name),
    ]


def _quorums(name: str) -> list[Check]:
    """Return the checks at every quorum that four teachers can have, other than half, if the aggregator takes a quorum."""
    first, build = next(iter(_VARIANTS[name].items()))
    found = []
    for adjacency, doubled in product(Adjacency, (1, 2, 3, 5, 6, 7)):
        panel, quorum = make_panel(4, 2, adjacency), doubled / 8
        right = build(panel)
        if "quorum" in {parameter.name for parameter in right.parameters}:
            vote = replace(right, quorum=quorum)
            if name == OptimalVote.name:
                vote = _optimal(panel, quorum=quorum)
            if name == ConfidentClassVote.name:
                vote = classes.confident_class_vote(panel, quorum=quorum)
            found.append(_check(f"{first} quorum {quorum:g}", panel, vote, on_ballots=True))
    return found


def _holds(name: str, words: str, panel: Panel, *, on_ballots: bool) -> Check:
    return _check(words, panel, _VARIANTS[name][words](panel), on_ballots=on_ballots)


def _check(words: str, panel: Panel, aggregator: Aggregator, *, on_ballots: bool) -> Check:
    name = aggregator.name
    teachers, labels, adjacency = panel["teachers"], panel["labels"], panel["adjacency"]
    counts = "" if on_ballots else "counts of "
    return Check(
        name=f"{name}:{words}; {adjacency}; {counts}{teachers} teachers, {labels} labels",
        mechanism=name,
        expected="holds",
        subject=OnBallots(subject=aggregator) if on_ballots else aggregator,
        universe=BallotBoxes(**panel) if on_ballots else Counts(items=labels, largest=teachers, adjacency=adjacency),
    )


def _controls(name: str) -> list[Check]:
    """Return the negative controls of the aggregator of that name, each under the relation it claims."""
    found = []
    for words, subject in _wrong().get(name, {}).items():
        universe: Universe = BallotBoxes(**make_panel(4, 3, subject.cost.adjacency))
        if isinstance(subject, Aggregator):
            universe = Counts(items=subject.labels, largest=subject.teachers, adjacency=subject.adjacency)
        found.append(fails(f"{name}, {words}", name, subject, universe))
    return found


@lru_cache(maxsize=1)
def _wrong() -> dict[str, dict[str, Subject]]:
    """Return what must fail, by the aggregator it is a control of, each at parameters under which it does."""
    adds, replaces = (make_panel(4, 3, adjacency) for adjacency in Adjacency)

    def under_replace(name: str, words: str) -> Subject:
        return UnderReplace(subject=OnBallots(subject=_VARIANTS[name][words](adds)))

    limited, free, steep = _optimal(adds, limit=1), _optimal(replaces), _optimal(replaces, rdp=3.0)
    majority = StableMajority(table=_STABILITY, **replaces)
    one_count = "add-remove sensitivity under replace"
    single = make_panel(4, 1, Adjacency.REPLACE)
    return {
        OptimalVote.name: {
            "a middle that follows the ballots that came": WanderingMiddle(subject=limited),
            "a quorum of the ballots that came": WanderingMiddle(subject=_optimal(adds, limit=1, quorum=0.25)),
            "table rounded to 1": _rounded(steep, near=0.05),
            "a limit of 1 charged once under replace": UnderReplace(subject=OnBallots(subject=limited)),
            "ballots beyond the limit": charged(free, _optimal(replaces, limit=1)),
            "all labels charged as one": charged(free, _optimal(single)),
        },
        StableTopKVote.name: {
            "the paper's constants under replace": under_replace(StableTopKVote.name, " em"),
            "the paper's constants under replace, argmax": under_replace(StableTopKVote.name, " argmax"),
        },
        PateGaussian.name: {
            "all labels charged as one": charged(
                PateGaussian(sigma=_SIGMA, **replaces), PateGaussian(sigma=_SIGMA, **single)
            ),
        },
        BinaryVote.name: {
            "all labels charged as one": charged(
                BinaryVote(sigma=_SIGMA, **replaces), BinaryVote(sigma=_SIGMA, **single)
            ),
            "a limit of 1 charged once under replace": under_replace(BinaryVote.name, " limit 1"),
        },
        # A ballot that is replaced moves two counts, or two winners, where one that joins or leaves moves one.
        PateTau.name: {one_count: under_replace(PateTau.name, " limit 1")},
        GNMax.name: {one_count: under_replace(GNMax.name, "")},
        PowersetVote.name: {one_count: under_replace(PowersetVote.name, "")},
        StableMajority.name: {
            "table rounded to 1": _rounded(majority, near=0.2),
            "distance without its minus 1": CarelessMajority(subject=majority),
        },
        StableConfident.name: {  # on counts: four teachers do not show it
            "one-way constants under add-remove": _stable(OneWayConfident, _EM, make_panel(16, 2, Adjacency.ADD_REMOVE))
        },
        **classes.wrong(),
    }


def _rounded(right: OptimalVote | StableMajority, *, near: float) -> Charged:
    """Round the upper end of the table to exactly 1, and charge the table it was built from."""
    values = np.asarray(right.table.values)
    table = BitTable(values=tuple(np.where(values > 1 - near, 1.0, values).tolist()), start=right.table.start)
    return charged(replace(right, table=table), right)


@dataclass(frozen=True, slots=True, kw_only=True)
class WanderingMiddle(OnBallots):
    """Asks for a majority of the ballots that came instead of the teachers: a ballot of zeros then moves every label.

    Each label still moves by one step only, so it is where the charge counts on labels that do not move, under a ballot
    limit, that this breaks the claim.
    """

    subject: OptimalVote

    def law(self, ballots: Ballots, /) -> LabelLaw:
        table, meant = self.subject.table, self.subject.doubled_quorum
        came = double_quorum(max(len(ballots), 1), self.subject.quorum)
        shifted = BitTable(values=table.values, start=table.start + came // 2 - meant // 2)
        return replace(self.subject, table=shifted).law(self.subject.tally(ballots)[0])


@dataclass(frozen=True, slots=True, kw_only=True)
class CarelessMajority(OnBallots):
    """Takes the number of ballots until the majority flips for the distance, though one ballot fewer already may."""

    subject: StableMajority

    def law(self, ballots: Ballots, /) -> LabelLaw:
        counts = self.subject.tally(ballots)[0]
        quorum = self.subject.doubled_quorum
        passes = float(self.subject.table(confidences(counts, quorum).min()))
        return {tuple(majorities(counts, quorum).tolist()): passes, (None,) * len(counts): 1 - passes}


@dataclass(frozen=True, slots=True, kw_only=True)
class OneWayConfident(StableConfident):
    """Takes confidences for counts, which all move one way under ADD_REMOVE; a ballot that joins moves confidences both."""

    @classmethod
    def constants(cls, adjacency: Adjacency) -> Adjacency:
        """Take the relation as it is."""
        return adjacency
