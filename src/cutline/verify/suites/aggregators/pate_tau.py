r"""The exhaustive checks of the Gaussian vote on limited ballots, and its negative control: half the sensitivity."""

from __future__ import annotations

from cutline.pate.aggregators.gaussian_votes import PateTau
from cutline.privacy import Adjacency
from cutline.verify.check import Check
from cutline.verify.suites.aggregators.shared import MOST, SIGMA, controls_on_ballots, holds_on_ballots, under_replace


def checks() -> list[Check]:
    """Return all checks of the Gaussian vote on limited ballots."""
    wrong = {"add-remove sensitivity under replace": under_replace(_of(*MOST, Adjacency.ADD_REMOVE))}
    return holds_on_ballots(PateTau.name, {" limit 1": _of}) + controls_on_ballots(PateTau.name, wrong)


def _of(teachers: int, labels: int, adjacency: Adjacency) -> PateTau:
    return PateTau(sigma=SIGMA, teachers=teachers, labels=labels, adjacency=adjacency, limit=1)
