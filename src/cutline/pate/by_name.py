r"""An aggregator from its name and public numbers."""

from __future__ import annotations

import inspect

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
    kind = registered(name)
    accepted = inspect.signature(kind.calibrate).parameters.get("limit")
    if limit is not None and accepted is None:
        raise ParameterError(f"{name} takes no ballot limit", f"limit={limit}", "Leave it out.")
    if limit is None and accepted is not None and accepted.default is inspect.Parameter.empty:
        raise ParameterError(f"{name} must be told a ballot limit", "no limit", "Pass one, like 5.")
    try:
        relation = Adjacency(adjacency)
    except ValueError:
        raise ParameterError(
            "adjacency must be add-remove or replace", f"{adjacency!r}", "Ballots take replace."
        ) from None
    ready: Aggregator = kind.calibrate(
        budget,
        teachers=teachers,
        labels=labels,
        adjacency=relation,
        limits=limits,
        **({} if limit is None else {"limit": limit}),
    )
    return ready
