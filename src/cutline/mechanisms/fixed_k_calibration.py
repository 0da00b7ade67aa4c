r"""How the fixed-k mechanisms spend a budget: Rényi order and share of delta from public numbers alone.

A mechanism says what it would need to see under given limits (`needed`, plain floats) and builds itself inside them (`build`,
proved curves). What is minimised is the one-gap number: how far k items must stand above everything else to come out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Protocol, TypeVar

import numpy as np

from cutline.errors import BudgetError, ParameterError
from cutline.histogram import check_max_k
from cutline.mechanisms.closed_selection import checked_k
from cutline.privacy import Budget, Cost, Filter, largest
from cutline.privacy.curves.bounded_range import approximate_rdp
from cutline.privacy.rounding import fraction_down
from cutline.privacy.rules.rdp import best_order

INSIDE = 1 - 1e-9  # room for what curves and conversions round up
_SUCCESS = 0.9
_FAILURE = 1e15
_POLISH = 4
_DOWN = 1 - 2.0**-50


class _Priced(Protocol):
    @property
    def cost(self) -> Cost: ...


_M = TypeVar("_M", bound=_Priced)


def spend(
    budget: Budget,
    limits: Filter | None,
    *,
    needed: Callable[[Filter], float],
    build: Callable[[Filter], _M],
) -> _M:
    r"""Return the mechanism that spends a budget best, or a filter's limits.

    Parameters
    ----------
    budget
        Total (epsilon, delta) for ``budget.releases`` releases.
    limits
        A ledger's filter for all releases together, or None to search order and share of delta.
    needed
        The gap needed within the limits of one release; infinite or at least 1e15 if nothing can be built there.
    build
        Builds the mechanism within the limits of one release.
    """
    if limits is not None:
        if not (budget.covers(limits) and limits.rdp > 0 and limits.delta > 0):
            raise BudgetError(
                "the filter must lie within the budget and leave something to spend",
                f"order={limits.order:.3g}, rdp={limits.rdp:.3g}, delta={limits.delta:.3g}",
                "Make it with budget.filter(order=..., delta_share=...).",
            )
        return build(_each(limits, budget.releases))
    order, delta_share = _search(budget, needed)
    ready = build(_each(budget.filter(order=order, delta_share=delta_share), budget.releases))
    for _ in range(_POLISH):
        # What was built may convert a little better beside the order it was searched at: follow it.
        better = best_order(budget.releases * ready.cost, budget.delta)
        if abs(better / order - 1) < 1e-9:
            break
        order = better
        ready = build(_each(budget.filter(order=order, delta_share=delta_share), budget.releases))
    return ready


def _each(limits: Filter, releases: int) -> Filter:
    """Split the limits of all releases evenly among them."""
    each = Fraction(1, releases)
    return Filter(
        order=limits.order,
        rdp=fraction_down(Fraction(limits.rdp) * each),
        delta=fraction_down(Fraction(limits.delta) * each * Fraction(INSIDE)),
    )


def _search(budget: Budget, needed: Callable[[Filter], float]) -> tuple[float, float]:
    """Search order and share of delta."""
    from scipy.optimize import minimize

    def place(point: Sequence[float]) -> tuple[float, float]:
        return 1 + math.exp(max(-7.0, min(point[0], 14.0))), 1 / (1 + math.exp(max(-20.0, min(20.0, -point[1]))))

    def objective(point: Sequence[float]) -> float:
        order, delta_share = place(point)
        try:
            limits = _each(budget.filter(order=order, delta_share=delta_share), budget.releases)
        except BudgetError:
            return _FAILURE
        return min(needed(limits), _FAILURE) if limits.rdp > 0 and limits.delta > 0 else _FAILURE

    typical = math.log(2 * math.log(1 / budget.delta) / budget.epsilon + 1)
    tries = [
        minimize(
            objective,
            [start, -1.0],
            method="Nelder-Mead",
            options={
                "xatol": 1e-4,
                "fatol": 1e-6,
                "maxfev": 200,
                "initial_simplex": [[start, -1.0], [start + 0.7, -1.0], [start, -2.5]],
            },
        )
        for start in (typical, typical + 2.5)
    ]
    best = min(tries, key=lambda found: float(found.fun))
    if best.fun >= _FAILURE:
        raise BudgetError(
            "the budget must be large enough to calibrate the mechanism",
            f"epsilon={budget.epsilon:.3g}, delta={budget.delta:.3g}, releases={budget.releases}",
            "Raise epsilon or delta, plan fewer releases, or lower k.",
        )
    return place(best.x)


def step_size(order: float, rdp: float) -> float:
    """Return, in plain floats, the epsilon of a bounded-range step that costs ``rdp`` at ``order``; 0 if nothing is left."""
    if not rdp > 0:
        return 0.0
    return largest(lambda e: approximate_rdp(e, order) <= rdp, low=1e-12, high=1e4, relative=1e-9)


def stretched(epsilon: float, *, draws: int, over: int) -> float:
    r"""Return the epsilon of ``over`` draws that never cost more than ``draws`` draws of ``epsilon``, at any order.

    **Privacy.** ``R_BR(a, e) / e^2`` never rises with e, so ``over R_BR(a, e sqrt(draws/over)) <= draws R_BR(a, e)``
    wherever over <= draws [docs/proofs/test-first.md].

    Examples
    --------
    >>> from cutline.privacy import BoundedRange
    >>> one = BoundedRange(epsilon=stretched(0.1, draws=9, over=1))
    >>> all(one.rdp(a) <= 9 * BoundedRange(epsilon=0.1).rdp(a) for a in (1.01, 2.0, 8.0, 64.0, 1e4, math.inf))
    True
    """
    return epsilon if draws == over else epsilon * math.sqrt(draws / over) * _DOWN


@lru_cache(maxsize=1024)
def log_odds_needed(k: int, success: float = _SUCCESS) -> float:
    r"""Return ln(w) such that k items of weight w all come out before one rival of weight 1 with that probability.

    The chance is the product of ``j w / (j w + 1)`` over j = 1..k, which grows with w.

    Examples
    --------
    >>> f"{log_odds_needed(1):.4f}", f"{math.log(9):.4f}"
    ('2.1972', '2.1972')
    """
    ranks = np.arange(1, k + 1, dtype=np.float64)
    inverse = largest(lambda x: math.exp(-float(np.log1p(x / ranks).sum())) >= success, low=1e-12, high=10.0)
    return -math.log(inverse)


def check_window(k: int, max_k: int) -> None:
    """Refuse a ``max_k`` that is not a whole number of at least ``k``."""
    check_max_k(max_k)
    if max_k < k:
        raise ParameterError("max_k must be at least k", f"max_k={max_k}, k={k}", "Raise max_k or lower k.")


def ranks_for(k: int, max_k: int | None) -> int:
    """Return how many ranks are looked at, ``max(100, 10 k)`` unless it was said; refuse what makes no sense."""
    k = checked_k(k)
    ranks = max(100, 10 * k) if max_k is None else max_k
    check_window(k, ranks)
    return ranks
