r"""The exhaustive checks of the votes by stable sets of labels, and their negative controls.

StableTopKVote ranks labels by their counts, StableConfident by how sure their majority is.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from cutline.mechanisms.adaptive.choosers import Chooser, GapArgmax, GapExponential
from cutline.mechanisms.adaptive.gap_tests import TableTest
from cutline.mechanisms.adaptive.preference import Preference
from cutline.pate.aggregators.stable_sets import StableConfident, StableSetVote, StableTopKVote
from cutline.privacy import Adjacency
from cutline.verify.check import Check, Subject
from cutline.verify.suites.aggregators.shared import (
    MOST,
    STABILITY,
    Build,
    controls_on_ballots,
    holds_on_ballots,
    holds_on_votes,
    under_replace,
)
from cutline.verify.suites.shared import fails
from cutline.verify.universe import Votes

_EM = GapExponential(epsilon=1.5)


@dataclass(frozen=True, slots=True, kw_only=True)
class OneWayConfident(StableConfident):
    """Takes confidences for counts, which all move one way under ADD_REMOVE; a ballot that joins moves confidences both."""

    @classmethod
    def constants(cls, adjacency: Adjacency) -> Adjacency:
        """Take the relation as it is."""
        return adjacency


def stable_top_k_vote() -> list[Check]:
    """Return all checks of StableTopKVote; the paper's constants must fail under REPLACE."""
    variants = _variants(StableTopKVote)
    em, argmax = (build(*MOST, Adjacency.ADD_REMOVE) for build in variants.values())
    wrong: dict[str, Subject] = {
        "the paper's constants under replace": under_replace(em),
        "the paper's constants under replace, argmax": under_replace(argmax),
    }
    return _holds(StableTopKVote.name, variants) + controls_on_ballots(StableTopKVote.name, wrong)


def stable_confident() -> list[Check]:
    """Return all checks of StableConfident."""
    name = StableConfident.name
    many = Votes(teachers=16, labels=2, adjacency=Adjacency.ADD_REMOVE)  # four teachers do not show it
    one_way = _of(OneWayConfident, _EM, many.teachers, many.labels, many.adjacency)
    control = fails(f"{name}, one-way constants under add-remove", name, one_way, many)
    return [*_holds(name, _variants(StableConfident)), control]


def _variants(kind: type[StableSetVote]) -> dict[str, Build]:
    return {" em": partial(_of, kind, _EM), " argmax": partial(_of, kind, GapArgmax())}


def _holds(name: str, variants: dict[str, Build]) -> list[Check]:
    return holds_on_ballots(name, variants) + holds_on_votes(name, variants)


def _of(kind: type[StableSetVote], chooser: Chooser, teachers: int, labels: int, adjacency: Adjacency) -> StableSetVote:
    return kind(
        preference=Preference(max_k=labels),
        chooser=chooser,
        test=TableTest(table=STABILITY),
        teachers=teachers,
        labels=labels,
        adjacency=adjacency,
    )
