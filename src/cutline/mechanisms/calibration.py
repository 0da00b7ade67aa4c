r"""How a mechanism spends a budget, from public numbers alone.

There is one search. A budget becomes the limits of one release at a Rényi order with a share of delta (`search_limits`); a
mechanism says in plain floats what it would need to see within such limits, builds itself inside the best of them from proved
curves, and follows the order at which it then converts best (`follow_best_order`). A ledger's filter fixes order and limits.
What is minimised is the one-gap number: how far k items must stand above everything else to come out nine times in ten.
Mechanisms made of equal steps need no search over limits: `largest_step` spends a budget on them by whichever rule allows most.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import TypeAlias, TypeVar

import numpy as np

from cutline.errors import BudgetError, ParameterError
from cutline.mechanisms.base import Mechanism
from cutline.privacy import Adjacency, BoundedRange, Budget, Cost, Filter, Pure, largest
from cutline.privacy.curves.base import check_number, check_order, check_positive
from cutline.privacy.curves.bounded_range import approximate_rdp
from cutline.privacy.rules.rdp import best_order, rdp_within
from cutline.privacy.rules.registry import RULES
from cutline.rounding import fraction_down

INSIDE = 1 - 1e-9  # room for what curves and conversions round up, and for a search over orders that stops nearby
SUCCESS = 0.9  # of the one-gap number
SMALLEST_PART = 0.001  # of an allowance that a test may be given: with less, its table would be endless
FAILURE = 1e15  # what is needed where nothing can be built
_DOWN = 1 - 2.0**-50
_ROUNDS = 40  # of alternating between an order and the step it allows
_CLOSE = 1 - 1e-8
_CLOSE_PRICE, _SECANTS = 1e-7, 24
_MOST_STEPS = 10_000  # of the optimal composition of pure steps: its terms grow with them

Step: TypeAlias = type[BoundedRange] | type[Pure]


_M = TypeVar("_M", bound=Mechanism)
_T = TypeVar("_T")


def check_limits(budget: Budget, limits: Filter, *, needs_delta: bool = True) -> None:
    """Raise if a filter admits more than the budget, or leaves nothing to spend."""
    if not (budget.covers(limits) and limits.rdp > 0 and (limits.delta > 0 or not needs_delta)):
        raise BudgetError(
            "the filter must lie within the budget and leave something to spend",
            f"order={limits.order:.3g}, rdp={limits.rdp:.3g}, delta={limits.delta:.3g}",
            "Make it with budget.filter(order=..., delta_share=...).",
        )


def split_evenly(limits: Filter, releases: int) -> Filter:
    """Split the limits of all releases evenly among them; the sum of the deltas stays a hair inside."""
    each = Fraction(1, releases)
    return Filter(
        order=limits.order,
        rdp=fraction_down(Fraction(limits.rdp) * each),
        delta=fraction_down(Fraction(limits.delta) * each * Fraction(INSIDE)),
    )


def part_of(limits: Filter, share: float) -> Filter:
    """Return this share of both limits, at the same order."""
    return Filter(order=limits.order, rdp=share * limits.rdp, delta=share * limits.delta)


def check_test_share(test_share: object, *, usual: float) -> float:
    """Return the share of an allowance that a test gets; raise if nothing would be left for the test, or for the rest."""
    share = check_number("test_share", test_share)
    if not SMALLEST_PART <= share <= 0.5:
        raise ParameterError(
            f"test_share must be from {SMALLEST_PART} to 0.5", f"test_share={share}", f"Try test_share={usual}."
        )
    return share


def inner_share(t: float) -> float:
    """Return a share strictly between 0 and 1 for any real number: the logistic function, cut off far out."""
    return 1 / (1 + math.exp(max(-20.0, min(20.0, -t))))


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """Limits of one release, the share of delta they stand for, and the part of the Rényi limit that a first step gets."""

    limits: Filter
    delta_share: float
    part: float = 0.0


def search_limits(
    budget: Budget,
    needed: Callable[[Proposal], float],
    *,
    with_part: bool = False,
    delta_step: float = -1.5,
    tolerances: tuple[float, float] = (1e-4, 1e-6),
    evaluations: int = 200,
    advice: str = "Raise epsilon or delta, plan fewer releases, or lower k.",
) -> Proposal:
    r"""Return the order and the share of delta at which the least is needed; raise with ``advice`` if nothing can be built.

    ``needed`` returns the gap needed within a proposal, infinite or at least 1e15 if nothing can be built there. With
    ``with_part`` the Rényi limit is also split, between a first step and the rest. The simplex starts with ``delta_step`` in
    the log-odds of delta's share, and stops at the ``tolerances`` of its points and of what is needed.
    """
    from scipy.optimize import minimize

    def propose(point: Sequence[float]) -> Proposal | None:
        order, delta_share = 1 + math.exp(max(-7.0, min(point[0], 14.0))), inner_share(point[1])
        try:
            limits = budget.filter(order=order, delta_share=delta_share)
        except BudgetError:
            return None
        part = inner_share(point[2]) if with_part else 0.0
        return Proposal(limits=split_evenly(limits, budget.releases), delta_share=delta_share, part=part)

    def objective(point: Sequence[float]) -> float:
        proposal = propose(point)
        if proposal is None or not (proposal.limits.rdp > 0 and proposal.limits.delta > 0):
            return FAILURE
        return min(needed(proposal), FAILURE)

    typical = math.log(2 * math.log(1 / budget.delta) / budget.epsilon + 1)
    moves = np.array([[0.0, 0.0, 0.0], [0.7, 0.0, 0.0], [0.0, delta_step, 0.0], [0.0, 0.0, 0.8]])
    size = 3 if with_part else 2
    tries = [
        minimize(
            objective,
            [order, -1.0, 0.5][:size],
            method="Nelder-Mead",
            options={
                "xatol": tolerances[0],
                "fatol": tolerances[1],
                "maxfev": evaluations,
                "initial_simplex": (np.array([order, -1.0, 0.5]) + moves)[: size + 1, :size],
            },
        )
        for order in (typical, typical + 2.5)
    ]
    best = min(tries, key=lambda found: float(found.fun))
    proposal = propose(best.x) if best.fun < FAILURE else None
    if proposal is None:
        raise BudgetError(
            "the budget must be large enough to calibrate the mechanism",
            f"epsilon={budget.epsilon:.3g}, delta={budget.delta:.3g}, releases={budget.releases}",
            advice,
        )
    return proposal


def follow_best_order(
    order: float, build: Callable[[float], _T], *, total: Callable[[_T], Cost], delta: float, rounds: int, close: float
) -> _T:
    """Build at an order, then at the order at which what was built converts best to ``delta``, until both are close."""
    built = build(order)
    for _ in range(rounds):
        better = best_order(total(built), delta)
        if abs(better / order - 1) < close:
            break
        order = better
        built = build(order)
    return built


def spend(
    budget: Budget, limits: Filter | None, *, needed: Callable[[Filter], float], build: Callable[[Filter], _M]
) -> _M:
    """Return the mechanism that spends a budget best, or a ledger's limits for all releases together.

    ``needed`` and ``build`` take the limits of one release: ``needed`` as in `search_limits`, ``build`` builds for real.
    """
    if limits is not None:
        check_limits(budget, limits)
        return build(split_evenly(limits, budget.releases))
    found = search_limits(budget, lambda proposal: needed(proposal.limits))

    def build_at(order: float) -> _M:
        whole = budget.filter(order=order, delta_share=found.delta_share)
        return build(split_evenly(whole, budget.releases))

    # What was built may convert a little better beside the order it was searched at.
    return follow_best_order(
        found.limits.order,
        build_at,
        total=lambda mechanism: budget.releases * mechanism.cost,
        delta=budget.delta,
        rounds=4,
        close=1e-9,
    )


def largest_step(budget: Budget, limits: Filter | None, *, step: Step, times: int) -> float:
    r"""Return the largest epsilon of one step when ``times`` equal steps make a release.

    **Privacy.** The steps of all releases together fit the budget by one of the rules `rdp`, `pure`, `exact` (for steps of
    bounded range) and `advanced` (for pure ones), whichever allows most; or, with a filter, its limit at its order.

    Examples
    --------
    >>> budget = Budget(epsilon=1.0, delta=1e-6)
    >>> [round(largest_step(budget, None, step=BoundedRange, times=k), 4) for k in (1, 10, 100)]
    [1.0016, 0.1534, 0.0474]
    """
    return _largest_step(budget, limits, bounded=step is BoundedRange, times=times)


@lru_cache(maxsize=256)
def _largest_step(budget: Budget, limits: Filter | None, *, bounded: bool, times: int) -> float:
    step: Step = BoundedRange if bounded else Pure
    steps = times * budget.releases
    if limits is not None:
        check_limits(budget, limits, needs_delta=False)
        return _step_at_order(step, order=limits.order, rdp=limits.rdp, steps=steps)
    added = fraction_down(Fraction(budget.epsilon) / steps)
    found = max(added, _step_by_renyi(budget, step, steps))
    if step is BoundedRange:
        return _step_by_value_recursion(budget, steps, found)
    return max(found, _step_by_optimal_composition(budget, steps, added))


def _total(step: Step, epsilon: float, steps: int) -> Cost:
    # The curves do not know the adjacency relation; any will do to add them up.
    return steps * Cost.of(step(epsilon=epsilon), adjacency=Adjacency.ADD_REMOVE)


def _step_at_order(step: Step, *, order: float, rdp: float, steps: int) -> float:
    """Return the largest epsilon whose curve at one order stays within an even share of ``rdp``."""
    share = fraction_down(Fraction(rdp) / steps * Fraction(INSIDE))
    if not share > 0:
        raise BudgetError("the budget must leave something for every step", f"{steps} steps", "Lower k or releases.")
    if step is BoundedRange:
        return BoundedRange.within(order=order, rdp=share).epsilon
    return largest_pure(order=order, rdp=share, relative=1e-12)


def _step_by_renyi(budget: Budget, step: Step, steps: int) -> float:
    """Spend the budget at the Rényi order that is best for what it buys: alternate between the two."""
    cost = _total(step, fraction_down(Fraction(budget.epsilon) / steps), steps)
    best = 0.0
    for _ in range(_ROUNDS):
        order = best_order(cost, budget.delta)
        rdp = rdp_within(order=order, epsilon=budget.epsilon, delta=budget.delta, slack=0.0)
        if not rdp > 0:
            break
        epsilon = _step_at_order(step, order=order, rdp=rdp, steps=steps)
        cost = _total(step, epsilon, steps)
        spent = RULES["rdp"](cost, budget.delta)
        if spent <= budget.epsilon:
            best = max(best, epsilon)
        if spent >= budget.epsilon * _CLOSE:
            break
    return best


def _step_by_value_recursion(budget: Budget, steps: int, found: float) -> float:
    """Spend what the exact price of adaptive steps leaves over: few trials, by the secant rule, as each takes 0.2 s."""
    low, high = -math.inf, math.inf  # logarithms of an epsilon that fits and of one that does not
    at, before = math.log(found), (0.0, math.inf)
    for _ in range(_SECANTS):
        price = RULES["exact"](_total(BoundedRange, math.exp(at), steps), budget.delta)
        if price == math.inf and high == math.inf and low == -math.inf:
            break  # the rule does not apply
        excess = math.log(price / budget.epsilon) if price > 0 else -math.inf  # delta alone may cover it
        low, high = (at, high) if excess <= 0 else (low, at)
        if -_CLOSE_PRICE <= excess <= 0:
            break
        slope = (excess - before[1]) / (at - before[0]) if math.isfinite(excess) and math.isfinite(before[1]) else 1.0
        after = at - (excess + _CLOSE_PRICE / 4) / max(slope, 0.25)
        if not low < after < high:
            after = (low + high) / 2 if math.isfinite(low + high) else at + math.copysign(math.log(2), -excess)
        before, at = (at, excess), after
    return max(found, math.exp(low))


def _step_by_optimal_composition(budget: Budget, steps: int, added: float) -> float:
    """Spend the budget by the optimal composition of pure steps, which addition never beats."""
    if steps > _MOST_STEPS:
        return added

    def fits(epsilon: float) -> bool:
        return RULES["advanced"](_total(Pure, epsilon, steps), budget.delta) <= budget.epsilon

    return largest(fits, low=added, high=budget.epsilon, relative=1e-8)


def largest_pure(*, order: float, rdp: float, relative: float = 1e-9) -> float:
    """Return the largest epsilon, to a relative 1e-9, whose curve of pure DP at ``order`` stays within ``rdp``.

    Examples
    --------
    >>> f"{largest_pure(order=8.0, rdp=0.5):.6f}"
    '0.564296'
    """
    check_order(order)
    check_positive("rdp", rdp)
    if order == math.inf:
        return rdp
    # The curve is at most epsilon and at most a eps^2 / 2, and at least epsilon minus a constant.
    low = max(rdp, math.sqrt(2 * rdp / order)) * (1 - 1e-9)
    high = low + rdp + math.log(2) * order / (order - 1)
    return largest(lambda e: Pure(epsilon=e).rdp(order) <= rdp, low=low, high=high, relative=relative)


def approximate_step(order: float, rdp: float) -> float:
    """Return, in plain floats, the epsilon of a bounded-range step that costs ``rdp`` at ``order``; 0 if nothing is left."""
    if not rdp > 0:
        return 0.0
    return largest(lambda e: approximate_rdp(e, order) <= rdp, low=1e-12, high=1e4, relative=1e-9)


def stretch_epsilon(epsilon: float, *, draws: int, over: int) -> float:
    r"""Return the epsilon of ``over`` draws that never cost more than ``draws`` draws of ``epsilon``, at any order.

    **Privacy.** ``R_BR(a, e) / e^2`` never rises with e, so ``over R_BR(a, e sqrt(draws/over)) <= draws R_BR(a, e)``
    wherever over <= draws [docs/proofs/test-first.md].

    Examples
    --------
    >>> one = BoundedRange(epsilon=stretch_epsilon(0.1, draws=9, over=1))
    >>> all(one.rdp(a) <= 9 * BoundedRange(epsilon=0.1).rdp(a) for a in (1.01, 2.0, 8.0, 64.0, 1e4, math.inf))
    True
    """
    return epsilon if draws == over else epsilon * math.sqrt(draws / over) * _DOWN


@lru_cache(maxsize=1024)
def log_odds_needed(k: int, success: float = SUCCESS) -> float:
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
