r"""How aggregators without a delta of their own spend a budget: order and one parameter, from public numbers alone."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import lru_cache
from itertools import islice
from typing import TypeVar

import numpy as np

from cutline.mechanisms.adaptive.gap_tests import TableTest
from cutline.mechanisms.adaptive.stable_top_k_calibration import calibrate_parts
from cutline.mechanisms.calibration import INSIDE, check_limits, follow_best_order
from cutline.mechanisms.planned import Search, settle_size
from cutline.mechanisms.remembered import Public, remember
from cutline.privacy import Adjacency, BitTable, Budget, Cost, Filter, largest
from cutline.privacy.curves.base import Curve, Use
from cutline.privacy.curves.bit_table import biases
from cutline.privacy.curves.class_table import HASTES, ClassTable
from cutline.privacy.rules.adaptive import Round, adaptive
from cutline.privacy.rules.rdp import best_order, rdp_within
from cutline.privacy.rules.registry import RULES
from cutline.rounding import fraction_down

_T = TypeVar("_T")

_POLISH = 6
_SURE = 0.95
_SPENT = 1e-7
_LONG_TABLE = 1500
_FAILURE = 1e300
CHECK_SHARE = Fraction(3, 20)  # of what a query may cost, where a check comes before the answer
_HARDLY = 2.0**-50  # a chance at which a voting table ends


@lru_cache(maxsize=256)
def voting_table(budget: Budget, limits: Filter | None, *, coins: int, teachers: int) -> BitTable:
    r"""Return the voting table of which ``coins`` per query spend the budget, with the fewest votes needed to be sure.

    What is minimised over the order is the margin at which a label comes out right with probability 0.95. The table is
    cheap at its own order only, so after the search its order follows the order at which all coins convert best.
    """
    tosses = budget.releases * coins

    def build(order: float, rdp: float) -> BitTable:
        each = fraction_down(Fraction(rdp) / tosses * Fraction(INSIDE))
        return BitTable.voting(order=order, rdp=each, teachers=teachers)

    return _spend_at_best_order(
        budget,
        limits,
        build,
        needed=lambda order, rdp: margin_needed(order, rdp / tosses),
        total=lambda table: tosses * Cost.of(table, adjacency=Adjacency.REPLACE),
    )


@lru_cache(maxsize=64)
def planned_voting_table(budget: Budget, *, coins: int, teachers: int) -> BitTable:
    r"""Return the voting table of which ``coins`` per query spend the budget of a fixed plan, by the rule ``adaptive``.

    **Privacy.** `cutline.privacy.rules.adaptive`: for ``budget.releases`` queries, and not for a ledger. Remembered in this
    process and on disk, since ten thousand coins take minutes.
    """

    def build(found: Mapping[str, float]) -> BitTable:
        return BitTable.voting(order=found["order"], rdp=found["rdp"], teachers=teachers)

    def cost(table: BitTable) -> Cost:
        return coins * Cost.of(table, adjacency=Adjacency.REPLACE)

    def search() -> dict[str, float]:
        order, guess = planned_shape(budget, coins=coins, teachers=teachers)
        size, _ = settle_size(
            budget,
            lambda rdp: build({"order": order, "rdp": rdp}),
            cost=cost,
            guess=guess,
            times=budget.releases * coins,
        )
        return {"order": order, "rdp": size}

    asked: Public = {"kind": "voting", "epsilon": budget.epsilon, "delta": budget.delta, "releases": budget.releases}
    return remember(
        {**asked, "coins": coins, "teachers": teachers},
        search=search,
        build=build,
        fits=lambda table: adaptive(cost(table), budget.delta, releases=budget.releases) <= budget.epsilon,
    )


def planned_shape(budget: Budget, *, coins: int, teachers: int) -> tuple[float, float]:
    """Return the order of the best voting table for a plan, and about the Rényi cost of one coin there; not a promise."""
    tosses = budget.releases * coins
    order = cheapest_order(budget, lambda order, rdp: margin_needed(order, rdp / tosses))
    near = Filter(order=order, rdp=_allowed(budget, order) / tosses, delta=0.0)

    def play(limits: Filter, _part: float) -> Round:
        # Where fewer and larger coins stand for many, fewer teachers stand for all.
        last = math.ceil(teachers / 2 * math.sqrt(_pace(near) / _pace(limits))) + 2
        upper = np.array(list(islice(biases(0.5, order=limits.order, rdp=limits.rdp, stop=_HARDLY), last)))
        return Round(biases=np.concatenate([1 - upper[:0:-1], upper]))

    def needed(limits: Filter, _part: float) -> float:
        return margin_needed(limits.order, limits.rdp)

    search = Search(budget=budget, times=tosses, play=play, needed=needed)
    shape, size = search.best([math.log(near.order - 1)], rdp=near.rdp, evaluations=16)
    return shape.order, size


def _pace(limits: Filter) -> float:
    """Return the squared step of the middle of a table, which is sin^2 of a straight line."""
    return limits.rdp / (2 * limits.order)


@lru_cache(maxsize=256)
def stability_table(budget: Budget, limits: Filter | None) -> BitTable:
    """Return the stability table over a distance of which one coin per query spends the budget; the same for both relations."""
    # One k and nothing to choose: what is left of StableTopK is its table over the distance, here in steps of 1.
    steps = Adjacency.ADD_REMOVE
    _, test = calibrate_parts(budget, limits, adjacency=steps, choices=1, choose="argmax", test="table")
    assert isinstance(test, TableTest)  # noqa: S101 - it was asked for
    table = test.table
    for _ in range(0 if limits is not None else _POLISH):
        # The search stops near the best order; follow the order at which the table converts best.
        total = budget.releases * Cost.of(table, adjacency=steps, delta=table.values[0])
        if RULES["rdp"](total, budget.delta) > budget.epsilon * (1 - _SPENT):
            break
        order = best_order(total, budget.delta)
        rdp = rdp_within(order=order, epsilon=budget.epsilon, delta=budget.delta, slack=total.delta)
        each = fraction_down(Fraction(rdp) / budget.releases * Fraction(INSIDE))
        table = BitTable.stability(order=order, rdp=each, delta=table.values[0])
    return table


@lru_cache(maxsize=64)
def class_table(budget: Budget, limits: Filter | None, *, classes: int, votes: int, moved: int) -> ClassTable:
    """Return the table of classes of which one draw per query spends the budget, at the order of the best voting table."""
    build_classes = _hasten(votes=votes, classes=classes, moved=moved)

    def build(order: float, rdp: float) -> ClassTable:
        return build_classes(order, fraction_down(Fraction(rdp) / budget.releases * Fraction(INSIDE)))

    return _spend_at_best_order(
        budget,
        limits,
        build,
        needed=lambda order, rdp: margin_needed(order, rdp / budget.releases),
        total=lambda table: budget.releases * Cost.of(table, adjacency=Adjacency.REPLACE),
    )


@lru_cache(maxsize=64)
def checked_class_table(
    budget: Budget, limits: Filter | None, *, classes: int, votes: int, moved: int, agreeing: int
) -> tuple[BitTable, ClassTable]:
    """Return a voting table for the check, a `CHECK_SHARE` of the cost, and a table of classes for the answer."""
    build_classes = _hasten(votes=votes, classes=classes, moved=moved)

    def build(order: float, rdp: float) -> tuple[BitTable, ClassTable]:
        each = Fraction(rdp) / budget.releases * Fraction(INSIDE)
        first, rest = (fraction_down(each * part) for part in (CHECK_SHARE, 1 - CHECK_SHARE))
        return BitTable.voting(order=order, rdp=first, teachers=agreeing), build_classes(order, rest)

    def total(both: tuple[BitTable, ClassTable]) -> Cost:
        return budget.releases * sum_costs(both)

    return _spend_at_best_order(
        budget, limits, build, needed=lambda order, rdp: margin_needed(order, rdp / budget.releases), total=total
    )


def _hasten(*, votes: int, classes: int, moved: int) -> Callable[[float, float], ClassTable]:
    """Return what builds tables of classes: the first in several shapes, of which the sharpest is kept for the others."""
    shape: list[float] = []

    def build(order: float, rdp: float) -> ClassTable:
        tables = {
            haste: ClassTable.build(order=order, rdp=rdp, votes=votes, classes=classes, moved=moved, haste=haste)
            for haste in shape or HASTES
        }
        best = max(tables, key=lambda haste: tables[haste].sharpness())
        shape[:] = [best]
        return tables[best]

    return build


def sum_costs(curves: tuple[Curve, ...], adjacency: Adjacency = Adjacency.REPLACE) -> Cost:
    """Return the cost of one use of each curve."""
    return Cost(adjacency=adjacency, uses=tuple(Use(curve=curve) for curve in curves))


def _spend_at_best_order(
    budget: Budget,
    limits: Filter | None,
    build: Callable[[float, float], _T],
    *,
    needed: Callable[[float, float], float],
    total: Callable[[_T], Cost],
) -> _T:
    """Build from an order and what may be spent there in all: a filter's, or those at which the least is needed."""
    if limits is not None:
        check_limits(budget, limits, needs_delta=False)
        return build(limits.order, limits.rdp)
    return follow_best_order(
        cheapest_order(budget, needed),
        lambda order: build(order, _allowed(budget, order)),
        total=total,
        delta=budget.delta,
        rounds=_POLISH - 1,
        close=1e-7,
    )


def _allowed(budget: Budget, order: float) -> float:
    return rdp_within(order=order, epsilon=budget.epsilon, delta=budget.delta, slack=0.0)


def cheapest_order(budget: Budget, needed: Callable[[float, float], float]) -> float:
    """Return the order at which the least is needed, given the order and what the budget allows there in all."""
    from scipy.optimize import minimize_scalar

    def objective(t: float) -> float:
        order = 1 + math.exp(t)
        allowed = _allowed(budget, order)
        return math.log(needed(order, allowed)) if allowed > 0 else math.log(_FAILURE)

    typical = math.log(2 * math.log(1 / budget.delta) / budget.epsilon + 1)
    grid = [typical + step / 4 for step in range(-16, 25)]
    at = min(range(len(grid)), key=lambda i: objective(grid[i]))
    low, high = grid[max(at - 1, 0)], grid[min(at + 1, len(grid) - 1)]
    found = minimize_scalar(objective, bounds=(low, high), method="bounded", options={"xatol": 1e-5})
    return 1 + math.exp(found.x)


def margin_needed(order: float, rdp: float) -> float:
    """Return by how many votes a majority must be ahead to come out right with probability 0.95; smooth."""
    pace = math.sqrt(rdp / (2 * order))
    angle = math.asin(math.sqrt(_SURE)) - math.pi / 4
    if angle / pace > _LONG_TABLE:
        return angle / pace  # the middle of a long table is sin^2 of a straight line
    values = list(islice(biases(0.5, order=order, rdp=rdp, stop=1 - _SURE), 2 * _LONG_TABLE))
    last, before = values[-1], values[-2] if len(values) > 1 else 0.5
    share = (_logit(_SURE) - _logit(before)) / max(_logit(last) - _logit(before), 1e-12)
    return max(len(values) - 2, 0) + min(max(share, 1e-6), 1.0)


def _logit(p: float) -> float:
    return math.log(p / max(1 - p, 2.0**-53))


def vector_precision(
    budget: Budget, limits: Filter | None, cost: Callable[[float], Cost], *, squared_sensitivity: float
) -> float:
    r"""Return the largest precision 1/sigma at which a noisy vector per query stays within the budget, or the filter.

    ``cost(precision)`` is that of one query and grows with the precision. Gaussian DP composes vectors exactly.
    """

    def fits(precision: float) -> bool:
        total = budget.releases * cost(precision)
        if limits is not None:
            return limits.admits(0.0, 0.0, total)
        needed = RULES["gdp"](total, budget.delta)  # exact where it applies: no other rule finds less
        return (needed if needed < math.inf else RULES["rdp"](total, budget.delta)) <= budget.epsilon

    if limits is not None:
        check_limits(budget, limits, needs_delta=False)
    guess = typical_precision(budget, squared_sensitivity)
    return largest(fits, low=guess / 1000, high=guess * 1000, relative=1e-9)


def typical_precision(budget: Budget, squared_sensitivity: float) -> float:
    """Return roughly the precision 1/sigma at which Gaussian noise on every query spends the budget."""
    rho = budget.epsilon**2 / (4 * (math.log(1 / budget.delta) + budget.epsilon))
    return math.sqrt(2 * rho / (budget.releases * squared_sensitivity))


def bit_precision(budget: Budget, limits: Filter | None, cost: Callable[[float], Cost], *, coins: int) -> float:
    r"""Return the largest precision 1/sigma at which ``coins`` Gaussian bits per query spend the budget.

    The curve of a bit is searched at one order, and the order follows the one at which all bits convert best.
    """
    guess = typical_precision(budget, coins)

    def within(order: float, rdp: float) -> float:
        allowed = rdp / budget.releases * INSIDE
        return largest(lambda x: cost(x).rdp(order) <= allowed, low=guess / 100, high=guess * 100, relative=1e-10)

    return _spend_at_best_order(
        budget,
        limits,
        within,
        needed=lambda order, rdp: order / rdp,
        total=lambda precision: budget.releases * cost(precision),
    )
