r"""Aggregators as subjects of checks: on the ballots of one query, and with another's charge."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np

from cutline.pate.aggregators.base import Aggregator, Panel
from cutline.pate.labels import LabelLaw
from cutline.privacy import Adjacency
from cutline.verify.suites.shared import Altered, Charged

Build: TypeAlias = Callable[[Panel], Aggregator]
Ballots: TypeAlias = Any  # an array (ballots, 1, labels), of the universe's making


@dataclass(frozen=True, slots=True, kw_only=True)
class OnBallots(Altered):
    """An aggregator on the ballots of one query."""

    subject: Aggregator

    def law(self, ballots: Ballots, /) -> LabelLaw:
        return _law_of_votes(self.subject, tuple(self.subject.tally(ballots)[0].tolist()))


@lru_cache(maxsize=1 << 13)
def _law_of_votes(aggregator: Aggregator, votes: tuple[int, ...]) -> LabelLaw:
    """Return the law of counts; many ballot boxes have the same."""
    return aggregator.law(np.array(votes, dtype=np.int64))


def make_panel(teachers: int, labels: int, adjacency: Adjacency) -> Panel:
    """Return the public numbers of an aggregator."""
    return Panel(teachers=teachers, labels=labels, adjacency=adjacency)


def charged(aggregator: Aggregator, claimed: Aggregator) -> Charged:
    """Return an aggregator on ballots that claims another's cost."""
    return Charged(subject=OnBallots(subject=aggregator), charge=claimed.cost)
