r"""The exhaustive checks of the votes with Gaussian noise, on every count or for one winner, and their negative controls.

A ballot that is replaced moves two counts, or two winners, where one that joins or leaves moves one: the noise that is enough
under ADD_REMOVE must fail under REPLACE.
"""

from __future__ import annotations

from functools import partial

from cutline.pate.aggregators.gaussian_votes import BinaryVote, PateGaussian, PateTau
from cutline.pate.aggregators.noisy_max_votes import GNMax, PowersetVote
from cutline.privacy import Adjacency
from cutline.verify.check import Check
from cutline.verify.suites.aggregators.shared import (
    MOST,
    Build,
    controls_on_ballots,
    holds_on_ballots,
    holds_on_votes,
    under_replace,
)

_SIGMA = 1.1


def pate_gaussian() -> list[Check]:
    """Return all checks of PateGaussian."""
    return holds_on_ballots(PateGaussian.name, {"": partial(_of, PateGaussian)})


def pate_tau() -> list[Check]:
    """Return all checks of PateTau."""
    build = partial(_limited, PateTau)
    return holds_on_ballots(PateTau.name, {" limit 1": build}) + _half_sensitivity(PateTau.name, build)


def gnmax() -> list[Check]:
    """Return all checks of GNMax."""
    build = partial(_of, GNMax)
    return holds_on_ballots(GNMax.name, {"": build}) + _half_sensitivity(GNMax.name, build)


def binary_vote() -> list[Check]:
    """Return all checks of BinaryVote, with and without a ballot limit."""
    free: dict[str, Build] = {"": partial(_of, BinaryVote)}
    limited: dict[str, Build] = {" limit 1": partial(_limited, BinaryVote)}
    return holds_on_ballots(BinaryVote.name, free | limited) + holds_on_votes(BinaryVote.name, free)


def powerset_vote() -> list[Check]:
    """Return all checks of PowersetVote."""
    build = partial(_of, PowersetVote)
    return holds_on_ballots(PowersetVote.name, {"": build}) + _half_sensitivity(PowersetVote.name, build)


def _half_sensitivity(name: str, build: Build) -> list[Check]:
    wrong = {"add-remove sensitivity under replace": under_replace(build(*MOST, Adjacency.ADD_REMOVE))}
    return controls_on_ballots(name, wrong)


def _of(
    kind: type[PateGaussian | BinaryVote | GNMax | PowersetVote], teachers: int, labels: int, adjacency: Adjacency
) -> PateGaussian | BinaryVote | GNMax | PowersetVote:
    return kind(sigma=_SIGMA, teachers=teachers, labels=labels, adjacency=adjacency)


def _limited(
    kind: type[PateTau | BinaryVote], teachers: int, labels: int, adjacency: Adjacency
) -> PateTau | BinaryVote:
    return kind(sigma=_SIGMA, teachers=teachers, labels=labels, adjacency=adjacency, limit=1)
