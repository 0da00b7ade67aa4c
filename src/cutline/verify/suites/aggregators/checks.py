r"""The exhaustive checks of the PATE aggregators: all ballots of up to 4 teachers and 3 labels, and negative controls."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from cutline.mechanisms.adaptive.choosers import Chooser, GapArgmax, GapExponential
from cutline.mechanisms.adaptive.gap_tests import TableTest
from cutline.mechanisms.adaptive.preference import Preference
from cutline.pate.aggregators.base import Aggregator
from cutline.pate.aggregators.gaussian_votes import BinaryVote, PateGaussian, PateTau
from cutline.pate.aggregators.noisy_max_votes import GNMax, PowersetVote
from cutline.pate.aggregators.optimal_vote import OptimalVote
from cutline.pate.aggregators.stable_majority import StableMajority
from cutline.pate.aggregators.stable_sets import StableConfident, StableSetVote, StableTopKVote
from cutline.privacy import Adjacency, BitTable
from cutline.verify.ballots import ballot_boxes, vote_counts
from cutline.verify.check import Check, Subject
from cutline.verify.suites.aggregators.subjects import (
    CarelessMajority,
    Charged,
    Claimed,
    OnBallots,
    OneWayConfident,
    RoundedVote,
    WanderingMiddle,
)

Build = Callable[[int, int, Adjacency], Aggregator]

_MOST_TEACHERS, _MOST_LABELS = 4, 3
_ADDS, _REPLACES = Adjacency.ADD_REMOVE, Adjacency.REPLACE
# Steep enough to saturate within the one to three steps that four teachers leave.
_STABILITY = BitTable.stability(order=3.0, rdp=2.0, delta=0.02)
_SIGMA = 1.1
# Four teachers leave gaps little room: what rests on distances is also tried on the counts of more.
_WIDE = ("optimal-vote", "stable-top-k-vote", "binary-vote", "stable-majority", "stable-confident")


def checks_of(name: str) -> list[Check]:
    """Return the checks of one aggregator: what must hold, then what must fail."""
    first, *others = _BUILDS[name].items()
    found = [_holds(name, *first, adjacency, teachers, labels) for adjacency, teachers, labels in _sizes()]
    found += [_holds(name, *other, a, t, _MOST_LABELS) for other in others for a in Adjacency for t in (3, 4)]
    if name in _WIDE:
        found += [
            _wide(name, *variant, a, *size)
            for variant in _BUILDS[name].items()
            if "limit" not in variant[0]
            for a in Adjacency
            for size in ((16, 2), (6, 3))
        ]
    return found + [check for check in _controls() if check.mechanism == name]


def optimal(
    teachers: int, labels: int, adjacency: Adjacency, limit: int | None = None, rdp: float | None = None
) -> OptimalVote:
    """Return a vote whose table is as steep as it takes to be nearly sure where all agree, for that many teachers."""
    table = BitTable.voting(order=3.0, rdp=rdp or min(0.8, 12.8 / teachers**2), teachers=teachers)
    return OptimalVote(table=table, teachers=teachers, labels=labels, adjacency=adjacency, limit=limit)


def stable(
    kind: type[StableSetVote], chooser: Chooser, teachers: int, labels: int, adjacency: Adjacency
) -> StableSetVote:
    """Return a vote by stable sets of labels."""
    return kind(
        preference=Preference(max_k=labels),
        chooser=chooser,
        test=TableTest(table=_STABILITY),
        teachers=teachers,
        labels=labels,
        adjacency=adjacency,
    )


_EM, _ARGMAX = GapExponential(epsilon=1.5), GapArgmax()
_BUILDS: dict[str, dict[str, Build]] = {
    "optimal-vote": {"": lambda t, c, a: optimal(t, c, a), " limit 1": lambda t, c, a: optimal(t, c, a, limit=1)},
    "stable-top-k-vote": {
        " em": partial(stable, StableTopKVote, _EM),
        " argmax": partial(stable, StableTopKVote, _ARGMAX),
    },
    "pate-gaussian": {"": lambda t, c, a: PateGaussian(sigma=_SIGMA, teachers=t, labels=c, adjacency=a)},
    "pate-tau": {" limit 1": lambda t, c, a: PateTau(sigma=_SIGMA, teachers=t, labels=c, adjacency=a, limit=1)},
    "gnmax": {"": lambda t, c, a: GNMax(sigma=_SIGMA, teachers=t, labels=c, adjacency=a)},
    "binary-vote": {
        "": lambda t, c, a: BinaryVote(sigma=_SIGMA, teachers=t, labels=c, adjacency=a),
        " limit 1": lambda t, c, a: BinaryVote(sigma=_SIGMA, teachers=t, labels=c, adjacency=a, limit=1),
    },
    "powerset-vote": {"": lambda t, c, a: PowersetVote(sigma=_SIGMA, teachers=t, labels=c, adjacency=a)},
    "stable-majority": {
        "": lambda t, c, a: StableMajority(table=_STABILITY, teachers=t, labels=c, adjacency=a),
    },
    "stable-confident": {
        " em": partial(stable, StableConfident, _EM),
        " argmax": partial(stable, StableConfident, _ARGMAX),
    },
}


def _sizes() -> list[tuple[Adjacency, int, int]]:
    return [
        (adjacency, teachers, labels)
        for adjacency in Adjacency
        for teachers in range(1, _MOST_TEACHERS + 1)
        for labels in range(1, _MOST_LABELS + 1)
    ]


def _holds(name: str, what: str, build: Build, adjacency: Adjacency, teachers: int, labels: int) -> Check:
    return Check(
        name=f"{name}:{what}; {adjacency}; {teachers} teachers, {labels} labels",
        mechanism=name,
        expected="holds",
        subject=OnBallots(aggregator=build(teachers, labels, adjacency)),
        universe=partial(ballot_boxes, teachers=teachers, labels=labels, adjacency=adjacency),
    )


def _wide(name: str, what: str, build: Build, adjacency: Adjacency, teachers: int, labels: int) -> Check:
    return Check(
        name=f"{name}:{what}; {adjacency}; counts of {teachers} teachers, {labels} labels",
        mechanism=name,
        expected="holds",
        subject=build(teachers, labels, adjacency),
        universe=partial(vote_counts, teachers=teachers, labels=labels, adjacency=adjacency),
    )


def _controls() -> list[Check]:
    """Return the negative controls, each at parameters under which it must fail."""
    most = (_MOST_TEACHERS, _MOST_LABELS)
    paper = stable(StableTopKVote, _EM, *most, _ADDS)
    argmax = stable(StableTopKVote, _ARGMAX, *most, _ADDS)
    limited, free = optimal(*most, _ADDS, limit=1), optimal(*most, _REPLACES)
    majority = StableMajority(table=_STABILITY, teachers=_MOST_TEACHERS, labels=_MOST_LABELS)
    tau = PateTau(sigma=_SIGMA, teachers=_MOST_TEACHERS, labels=_MOST_LABELS, limit=1, adjacency=_ADDS)
    gnmax = GNMax(sigma=_SIGMA, teachers=_MOST_TEACHERS, labels=_MOST_LABELS, adjacency=_ADDS)
    powerset = PowersetVote(sigma=_SIGMA, teachers=_MOST_TEACHERS, labels=_MOST_LABELS, adjacency=_ADDS)
    wrong: list[tuple[str, str, Subject]] = [
        ("stable-top-k-vote", "the paper's constants under replace", Claimed(aggregator=paper, adjacency=_REPLACES)),
        (
            "stable-top-k-vote",
            "the paper's constants under replace, argmax",
            Claimed(aggregator=argmax, adjacency=_REPLACES),
        ),
        ("optimal-vote", "a middle that follows the ballots that came", WanderingMiddle(aggregator=limited)),
        ("optimal-vote", "table rounded to 1", RoundedVote(aggregator=optimal(*most, _REPLACES, rdp=3.0), near=0.05)),
        ("optimal-vote", "a limit of 1 charged once under replace", Claimed(aggregator=limited, adjacency=_REPLACES)),
        (
            "optimal-vote",
            "ballots beyond the limit",
            Charged(aggregator=optimal(*most, _REPLACES), charge=optimal(*most, _REPLACES, limit=1).cost),
        ),
        ("optimal-vote", "all labels charged as one", Charged(aggregator=free, charge=optimal(4, 1, _REPLACES).cost)),
        ("pate-tau", "add-remove sensitivity under replace", Claimed(aggregator=tau, adjacency=_REPLACES)),
        ("gnmax", "add-remove sensitivity under replace", Claimed(aggregator=gnmax, adjacency=_REPLACES)),
        ("powerset-vote", "add-remove sensitivity under replace", Claimed(aggregator=powerset, adjacency=_REPLACES)),
        ("stable-majority", "table rounded to 1", RoundedVote(aggregator=majority, near=0.2)),
        ("stable-majority", "distance without its minus 1", CarelessMajority(aggregator=majority)),
    ]
    one_way = stable(OneWayConfident, _EM, 16, 2, _ADDS)
    confident = Check(
        name="control: stable-confident, one-way constants under add-remove",
        mechanism=StableConfident.name,
        expected="fails",
        subject=one_way,
        universe=partial(vote_counts, teachers=16, labels=2, adjacency=_ADDS),
    )
    return [confident] + [
        Check(
            name=f"control: {name}, {what}",
            mechanism=name,
            expected="fails",
            subject=subject,
            universe=partial(
                ballot_boxes, teachers=_MOST_TEACHERS, labels=_MOST_LABELS, adjacency=subject.cost.adjacency
            ),
        )
        for name, what, subject in wrong
    ]
