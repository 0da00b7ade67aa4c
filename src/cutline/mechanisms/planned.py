r"""How planned releases spend a budget by the rule ``adaptive``: a search for the shape of a table, and then for its size.

A shape is a Rényi order, a share of delta for unstable sets and a part of the allowance for choosing k; a size is the Rényi
cost of one release at that order. For every shape the size that spends the budget is found on a coarse grid, and the shape
with the least gap needed is taken; many releases are searched as if they were fewer and larger, since the best shape hardly
depends on their number. Then the parts are built for real, and their size is settled by the rule itself. What comes out is
remembered (`cutline.mechanisms.remembered`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from cutline.errors import BudgetError, ParameterError, shortened
from cutline.privacy import Budget, Cost, Filter
from cutline.privacy.rules.adaptive import Round, adaptive, price

ACCOUNTINGS = ("renyi", "adaptive")
_FEW = 150  # rounds that are enough to search a shape
_COARSE, _SPREAD = 4.0, 2e-3  # of the grid while a shape is searched
_BEYOND = 1.5  # how far that grid reaches, in epsilons
_SLOPE = 0.55  # of ln(epsilon) over ln(rdp), about
_CLOSE, _CLOSE_OF_MANY, _MANY = 1e-5, 1e-3, 5_000  # share of epsilon that may be left over
_TRIALS = 9
_LEAST_LOG, _MOST_LOG = -7.0, 9.0  # ln(order - 1)

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """A point of the search: a Rényi order, how much of delta unstable sets get, how much of the allowance choosing gets."""

    order: float
    delta_share: float
    part: float

    @classmethod
    def at(cls, point: Sequence[float]) -> Shape:
        """Return the shape at log-odds; what the point leaves out is 0."""
        share, part = (1 / (1 + math.exp(-max(-30.0, min(t, 30.0)))) for t in (*point[1:], -30.0, -30.0)[:2])
        order = 1 + math.exp(max(_LEAST_LOG, min(point[0], _MOST_LOG)))
        return cls(order=order, delta_share=share if len(point) > 1 else 0.0, part=part if len(point) > 2 else 0.0)

    def limits(self, rdp: float, *, delta: float, times: float) -> Filter:
        """Return the limits of one release of that size, of as many."""
        return Filter(order=self.order, rdp=rdp, delta=self.delta_share * delta / times)


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """What is searched: how a release of some limits is played, and what it needs to see."""

    budget: Budget
    times: int  # rounds in all
    play: Callable[[Filter, float], Round]  # of the limits of one round, and the part for choosing
    needed: Callable[[Filter, float], float]

    def best(self, start: Sequence[float], *, rdp: float, evaluations: int = 40) -> tuple[Shape, float]:
        """Return the best shape near a start, and about the size at which it spends the budget."""
        from scipy.optimize import minimize

        sizes = [rdp]

        def objective(point: Sequence[float]) -> float:
            shape = Shape.at(point)
            size = self._size(shape, sizes[-1])
            if not size > 0:
                return math.inf
            sizes.append(size)
            return self.needed(shape.limits(size, delta=self.budget.delta, times=self.times), shape.part)

        first = np.array(start)
        simplex = np.vstack([first, first + np.diag([0.3, -0.7, 0.4][: len(first)])])
        options = {"initial_simplex": simplex, "xatol": 0.02, "fatol": 1e-4, "maxfev": evaluations}
        found = Shape.at(minimize(objective, first, method="Nelder-Mead", options=options).x)
        return found, self._size(found, sizes[-1])

    def _size(self, shape: Shape, guess: float) -> float:
        """Return about the size at which a shape spends the budget: two prices, and the secant through them."""
        fewer = max(1.0, self.times / _FEW)
        times = round(self.times / fewer)

        def excess(log_size: float) -> float:
            limits = shape.limits(fewer * math.exp(log_size), delta=self.budget.delta, times=times)
            paid = price(
                self.play(limits, shape.part),
                times,
                self.budget.delta,
                guess=self.budget.epsilon,
                reach=_BEYOND * self.budget.epsilon,
                finest=_COARSE,
                spread=_SPREAD,
            )
            return math.log(paid / self.budget.epsilon) if 0 < paid < math.inf else 0.5

        at = math.log(guess)
        over = excess(at)
        after = at - over / _SLOPE
        if abs(over) < 1e-3:
            return math.exp(after)
        over_after = excess(after)
        slope = min(max((over_after - over) / (after - at), _SLOPE / 2), 2 * _SLOPE)
        return math.exp(after - over_after / slope)


def settle_size(
    budget: Budget, build: Callable[[float], _T], *, cost: Callable[[_T], Cost], guess: float, times: int
) -> tuple[float, _T]:
    """Build at growing or falling sizes until the budget is all but spent, by the rule; return the size, and what was built."""
    close = _CLOSE_OF_MANY if times > _MANY else _CLOSE
    tried: list[tuple[float, float]] = []  # ln(size), ln(epsilon / budget)
    best: tuple[float, _T] | None = None
    at, aim = math.log(guess), -close / 2
    for _ in range(_TRIALS):
        built = build(math.exp(at))
        paid = adaptive(cost(built), budget.delta, releases=budget.releases)
        over = math.log(paid / budget.epsilon) if 0 < paid < math.inf else 1.0
        if over <= 0 and (best is None or at > math.log(best[0])):
            best = math.exp(at), built
        if -close <= over <= 0:
            break
        tried.append((at, over))
        slope = _SLOPE
        if len(tried) > 1 and tried[-2][0] != at:
            slope = min(max((over - tried[-2][1]) / (at - tried[-2][0]), _SLOPE / 3), 3 * _SLOPE)
        at += (aim - over) / slope
    if best is None:
        raise BudgetError(
            "the budget must be large enough to calibrate the mechanism",
            f"epsilon={budget.epsilon:.3g}, delta={budget.delta:.3g}, releases={budget.releases}",
            "Raise epsilon or delta, or plan fewer releases.",
        )
    return best


def check_accounting(accounting: str, limits: Filter | None) -> bool:
    """Say whether the budget is to be spent by the rule ``adaptive``; raise if that is asked for a ledger's filter."""
    if not isinstance(accounting, str) or accounting not in ACCOUNTINGS:
        raise ParameterError(
            f"accounting must be one of {', '.join(ACCOUNTINGS)}", shortened(accounting), "Leave it out."
        )
    if accounting == "adaptive" and limits is not None:
        raise BudgetError(
            "adaptive accounting prices a fixed plan, and a ledger's releases are not one: it is no filter",
            "accounting='adaptive' with a ledger or with limits",
            "Leave those out, or take the default accounting.",
        )
    return accounting == "adaptive"


def check_plan(accounting: object, *, grouped: bool, counts: bool) -> None:
    """Raise if the rule ``adaptive`` is asked for a release with parts that it does not price."""
    if accounting == "adaptive" and (grouped or counts):
        raise ParameterError(
            "adaptive accounting prices single releases, without tables by groups and without noisy counts",
            f"accounting='adaptive' with {'by' if grouped else 'counts'}",
            "Leave that out, or take the default accounting.",
        )
