r"""The exhaustive checks of the noisy majority of each label, with and without a ballot limit."""

from __future__ import annotations

from functools import partial

from cutline.pate.aggregators.gaussian_votes import BinaryVote
from cutline.privacy import Adjacency
from cutline.verify.check import Check
from cutline.verify.suites.aggregators.shared import SIGMA, Build, holds_on_ballots, holds_on_votes


def checks() -> list[Check]:
    """Return all checks of the noisy majority of each label."""
    free: dict[str, Build] = {"": _of}
    limited: dict[str, Build] = {" limit 1": partial(_of, limit=1)}
    return holds_on_ballots(BinaryVote.name, free | limited) + holds_on_votes(BinaryVote.name, free)


def _of(teachers: int, labels: int, adjacency: Adjacency, limit: int | None = None) -> BinaryVote:
    return BinaryVote(sigma=SIGMA, teachers=teachers, labels=labels, adjacency=adjacency, limit=limit)
