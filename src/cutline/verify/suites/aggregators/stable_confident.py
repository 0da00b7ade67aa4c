r"""The exhaustive checks of stable sets of confident labels, and the negative control that takes confidences for counts."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from cutline.pate.aggregators.stable_sets import StableConfident
from cutline.privacy import Adjacency
from cutline.verify.check import Check
from cutline.verify.suites.aggregators.shared import Build, holds_on_ballots, holds_on_votes
from cutline.verify.suites.aggregators.stable_top_k_vote import CHOOSERS, stable_set_vote
from cutline.verify.suites.shared import fails
from cutline.verify.universe import Votes


@dataclass(frozen=True, slots=True, kw_only=True)
class OneWayConfident(StableConfident):
    """Takes confidences for counts, which all move one way under ADD_REMOVE; a ballot that joins moves confidences both."""

    @classmethod
    def constants(cls, adjacency: Adjacency) -> Adjacency:
        """Take the relation as it is."""
        return adjacency


def checks() -> list[Check]:
    """Return all checks of stable sets of confident labels."""
    name = StableConfident.name
    variants: dict[str, Build] = {
        words: partial(stable_set_vote, StableConfident, chooser) for words, chooser in CHOOSERS.items()
    }
    many = Votes(teachers=16, labels=2, adjacency=Adjacency.ADD_REMOVE)  # four teachers do not show it
    one_way = stable_set_vote(OneWayConfident, CHOOSERS[" em"], many.teachers, many.labels, many.adjacency)
    control = fails(f"{name}, one-way constants under add-remove", name, one_way, many)
    return [*holds_on_ballots(name, variants), *holds_on_votes(name, variants), control]
