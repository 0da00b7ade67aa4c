r"""An aggregator from its name and public numbers."""

from __future__ import annotations

from cutline.errors import ParameterError
from cutline.pate.aggregators.base import Aggregator
from cutline.pate.aggregators.registry import aggregator as registered
from cutline.privacy import Adjacency, Budget, Filter


def calibrated(
    name: str,
    budget: Budget,
    *,
    teachers: int,
    labels: int,
    adjacency: Adjacency | str = Adjacency.REPLACE,
    limits: Filter | None = None,
    limit: int | None = None,
) -> Aggregator:
    r"""Calibrate the aggregator of that name, or say which of its parameters is missing or too much.

    Examples
    --------
    >>> vote = calibrated("optimal-vote", Budget(epsilon=2.0, delta=1e-6, releases=10), teachers=50, labels=3, limit=1)
    >>> vote.limit, vote.adjacency.value
    (1, 'replace')
    """
    try:
        relation = Adjacency(adjacency)
    except ValueError:
        raise ParameterError(
            "adjacency must be add-remove or replace", f"{adjacency!r}", "Ballots take replace."
        ) from None
    return registered(name).calibrate(
        budget, teachers=teachers, labels=labels, adjacency=relation, limits=limits, limit=limit
    )
