r"""The exhaustive checks of the vote by stable top-k, and its negative controls: the paper's constants under REPLACE."""

from __future__ import annotations

from functools import partial

from cutline.mechanisms.adaptive.choosers import Chooser, GapArgmax, GapExponential
from cutline.mechanisms.adaptive.gap_tests import TableTest
from cutline.mechanisms.adaptive.preference import Preference
from cutline.pate.aggregators.stable_sets import StableSetVote, StableTopKVote
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

CHOOSERS: dict[str, Chooser] = {" em": GapExponential(epsilon=1.5), " argmax": GapArgmax()}


def checks() -> list[Check]:
    """Return all checks of the vote by stable top-k."""
    name = StableTopKVote.name
    variants: dict[str, Build] = {
        words: partial(stable_set_vote, StableTopKVote, chooser) for words, chooser in CHOOSERS.items()
    }
    em, argmax = (build(*MOST, Adjacency.ADD_REMOVE) for build in variants.values())
    wrong: dict[str, Subject] = {
        "the paper's constants under replace": under_replace(em),
        "the paper's constants under replace, argmax": under_replace(argmax),
    }
    return holds_on_ballots(name, variants) + holds_on_votes(name, variants) + controls_on_ballots(name, wrong)


def stable_set_vote(
    kind: type[StableSetVote], chooser: Chooser, teachers: int, labels: int, adjacency: Adjacency
) -> StableSetVote:
    """Return a vote of that kind by stable sets of labels."""
    return kind(
        preference=Preference(max_k=labels),
        chooser=chooser,
        test=TableTest(table=STABILITY),
        teachers=teachers,
        labels=labels,
        adjacency=adjacency,
    )
