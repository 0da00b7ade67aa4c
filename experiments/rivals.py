r"""What several experiments share: the paper's own peeling, what a budget is spent on, and how an answer is scored."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from cutline.arrays import IntArray
from cutline.histogram import ClosedHistogram, Histogram, OpenHistogram
from cutline.mechanisms import Mechanism
from cutline.mechanisms.closed.peeling import PeelingEM
from cutline.mechanisms.open.limited_domain import LimitedDomain
from cutline.privacy import Adjacency, Budget

WHOLE = 0.999  # a share of the budget that counts as all of it


def paper_peeling(budget: Budget, *, k: int) -> PeelingEM:
    r"""Return EM-CDP as the paper calibrates it, read so that it is private.

    **Privacy.** Each of the ``k * releases`` peels is epsilon-bounded-range, hence ``epsilon^2/8``-zCDP [CR21]; zCDP adds up
    to rho, and ``rho + 2 sqrt(rho ln(1/delta))`` is the budget's epsilon [BS16]. A release's peels together have the zCDP of
    one of ``eps_EM = epsilon * sqrt(k)``, which is what "total budget eps_EM" must mean (docs/errata.md).

    Examples
    --------
    >>> budget = Budget(epsilon=0.1, delta=1e-6, releases=10)
    >>> paper, ours = paper_peeling(budget, k=15), PeelingEM.calibrate(budget, k=15)
    >>> f"{paper.epsilon:.5f} {ours.epsilon:.5f}"
    '0.00310 0.00449'
    """
    log = math.log(1 / budget.delta)
    root = math.sqrt(log + budget.epsilon) - math.sqrt(log)
    epsilon = root * math.sqrt(8 / (k * budget.releases)) * (1 - 1e-12)
    return PeelingEM(k=k, epsilon=epsilon, adjacency=Adjacency.ADD_REMOVE, budget=budget)


def build_histogram(mechanism: Mechanism, counts: IntArray) -> Histogram:
    """Return the counts in the form the mechanism takes: a closed domain, or an open one of as many ranks as it looks at."""
    if "closed" in mechanism.domains:
        return ClosedHistogram.from_counts(counts)
    if not isinstance(mechanism, LimitedDomain):
        raise AssertionError(mechanism.name)  # the others take both
    return OpenHistogram.from_counts(counts, max_k=mechanism.max_k)


def share_spent(mechanism: Mechanism, budget: Budget) -> float:
    """Return the share of the budget's epsilon that all its releases cost by the best rule there is for them."""
    return float((budget.releases * mechanism.cost).epsilon(budget.delta) / budget.epsilon)


def spending(shares: Mapping[str, float]) -> str:
    """Say who leaves how much of epsilon unspent.

    Examples
    --------
    >>> spending({"EM-CDP (paper)": 0.672, "peeling EM": 1.0})
    'By the best accounting there is for each, EM-CDP (paper) spends 67 % of that epsilon; the others spend all of it.'
    >>> spending({"peeling EM": 1.0})
    'By the best accounting there is for each, all of that epsilon is spent.'
    """
    less = ", ".join(f"{name} spends {round(100 * share)} %" for name, share in shares.items() if share < WHOLE)
    left = f"{less} of that epsilon; the others spend all of it" if less else "all of that epsilon is spent"
    return f"By the best accounting there is for each, {left}."


def recall(items: Iterable[Any] | None, counts: IntArray, *, k: int, least: int) -> float:
    """Return the share of the top k among the released indices; an item that ties with the k-th is as good as it.

    Parameters
    ----------
    items
        Released indices of ``counts``, or None if withheld.
    counts
        The true counts.
    k
        How many there are to find.
    least
        The k-th largest count.

    Examples
    --------
    >>> import numpy as np
    >>> recall([0, 1, 4], np.array([9, 7, 5, 5, 1]), k=3, least=5), recall(None, np.array([3, 2]), k=1, least=3)
    (0.6666666666666666, 0.0)
    """
    return min(sum(1 for item in items or () if counts[item] >= least), k) / k
