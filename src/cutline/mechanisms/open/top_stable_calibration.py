r"""How Top Stable spends a budget: epsilon and delta of one release, from public numbers alone."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

from cutline.errors import BudgetError
from cutline.mechanisms.open.top_stable import RATIO, THRESHOLD_SHARE, tail_within
from cutline.mechanisms.pure_step import largest_pure
from cutline.privacy import Adjacency, Budget, Cost, Filter, Pure, largest
from cutline.privacy.rounding import fraction_down
from cutline.privacy.rules.advanced import advanced

_SUCCESS = 0.9
_INSIDE = 1 - 1e-9
_COARSE, _FINE = 1e-4, 1e-9


@lru_cache(maxsize=256)
def calibrated_step(budget: Budget, limits: Filter | None, *, tests: int) -> tuple[float, float]:
    """Return (epsilon, delta) of one release: of the filter, if there is one, else those that need the smallest gap."""
    if limits is not None:
        return _within(budget, limits)
    if budget.releases == 1:
        return budget.epsilon, budget.delta
    # All of delta to the tests leaves plain addition; less of it leaves a share for optimal composition.
    plain = budget.epsilon / budget.releases * _INSIDE, _each(budget.delta, 1.0, budget.releases)
    from scipy.optimize import minimize_scalar

    found = minimize_scalar(
        lambda t: gap_needed(_composed(budget, _share(t), _COARSE), tests),
        bounds=(-6.0, 6.0),
        method="bounded",
        options={"xatol": 1e-2},
    )
    composed = _composed(budget, _share(found.x), _FINE)
    return min(plain, composed, key=lambda step: gap_needed(step, tests))


def gap_needed(step: tuple[float, float], tests: int) -> float:
    """Return the distance that passes 9 times in 10 when it is tested first."""
    epsilon, delta = step
    return (2 * math.log(1 / tail_within(delta, tests)) / (1 - float(THRESHOLD_SHARE)) + _reserve()) / epsilon


@lru_cache(maxsize=1)
def _reserve() -> float:
    """Return, for epsilon = 1, how far above the threshold a distance must be to pass 9 times in 10."""
    test, bar = 2 / (1 - float(THRESHOLD_SHARE)), 1 / float(THRESHOLD_SHARE)

    def misses(x: float) -> float:
        c = float(RATIO)
        return (c * c * math.exp(-x / test) - math.exp(-x / bar)) / (2 * (c * c - 1))

    return largest(lambda x: misses(x) >= 1 - _SUCCESS, low=1e-6, high=1e3)


def _composed(budget: Budget, share: float, relative: float) -> tuple[float, float]:
    """Return the largest epsilon whose optimal composition fits when the tests take ``share`` of delta."""
    delta = _each(budget.delta, share, budget.releases)

    def fits(epsilon: float) -> bool:
        total = budget.releases * Cost.of(Pure(epsilon=epsilon), adjacency=Adjacency.ADD_REMOVE, delta=delta)
        return advanced(total, budget.delta) <= budget.epsilon

    low = budget.epsilon / budget.releases * _INSIDE
    return largest(fits, low=low, high=max(low, budget.epsilon) * 2, relative=relative), delta


def _within(budget: Budget, limits: Filter) -> tuple[float, float]:
    if not (budget.covers(limits) and limits.rdp > 0 and limits.delta > 0):
        raise BudgetError(
            "the filter must lie within the budget and leave something to spend",
            f"order={limits.order:.3g}, rdp={limits.rdp:.3g}, delta={limits.delta:.3g}",
            "Make it with budget.filter(order=..., delta_share=...).",
        )
    rdp = fraction_down(Fraction(limits.rdp) / budget.releases)
    return largest_pure(order=limits.order, rdp=rdp), _each(limits.delta, 1.0, budget.releases)


def _each(delta: float, share: float, releases: int) -> float:
    """Return one release's part of a share of delta, rounded down."""
    return fraction_down(Fraction(delta) * Fraction(share) / releases)


def _share(t: float) -> float:
    return 1 / (1 + math.exp(-t))
