r"""The exhaustive checks of the vote with Gaussian noise on every count."""

from __future__ import annotations

from cutline.pate.aggregators.gaussian_votes import PateGaussian
from cutline.privacy import Adjacency
from cutline.verify.check import Check
from cutline.verify.suites.aggregators.shared import SIGMA, holds_on_ballots


def checks() -> list[Check]:
    """Return all checks of the Gaussian vote."""
    return holds_on_ballots(PateGaussian.name, {"": _of})


def _of(teachers: int, labels: int, adjacency: Adjacency) -> PateGaussian:
    return PateGaussian(sigma=SIGMA, teachers=teachers, labels=labels, adjacency=adjacency)
