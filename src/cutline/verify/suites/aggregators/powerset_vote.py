r"""The exhaustive checks of the noisy maximum over sets of labels, and its negative control: half the sensitivity."""

from __future__ import annotations

from cutline.pate.aggregators.noisy_max_votes import PowersetVote
from cutline.privacy import Adjacency
from cutline.verify.check import Check
from cutline.verify.suites.aggregators.shared import MOST, SIGMA, controls_on_ballots, holds_on_ballots, under_replace


def checks() -> list[Check]:
    """Return all checks of the noisy maximum over sets of labels."""
    wrong = {"add-remove sensitivity under replace": under_replace(_of(*MOST, Adjacency.ADD_REMOVE))}
    return holds_on_ballots(PowersetVote.name, {"": _of}) + controls_on_ballots(PowersetVote.name, wrong)


def _of(teachers: int, labels: int, adjacency: Adjacency) -> PowersetVote:
    return PowersetVote(sigma=SIGMA, teachers=teachers, labels=labels, adjacency=adjacency)
