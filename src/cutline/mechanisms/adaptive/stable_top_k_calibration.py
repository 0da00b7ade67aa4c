r"""How StableTopK spends a budget: order, delta share and the split between choosing and testing, from public numbers alone.

The search runs on plain floats and a smooth version of the one-gap number; what it proposes is then built for real,
with proved tables and exact curves, a hair inside the limits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import islice, pairwise

import numpy as np

from cutline.errors import BudgetError, ParameterError
from cutline.mechanisms.adaptive.choosers import Chooser, GapArgmax, GapExponential
from cutline.mechanisms.adaptive.gap_tests import GapTest, GaussianTest, TableTest, exact_offset, paper_offset
from cutline.mechanisms.adaptive.laplace_test import LaplaceTest
from cutline.mechanisms.adaptive.noisy_choosers import GapGaussian, GapLaplace, GapPermuteAndFlip
from cutline.privacy import Adjacency, BitTable, BoundedRange, Budget, Filter, GaussianBit, largest
from cutline.privacy.curves.bit_table import biases
from cutline.privacy.curves.bounded_range import approximate_rdp
from cutline.privacy.rounding import fraction_down
from cutline.privacy.rules.rdp import best_order

CHOICES = ("em", "argmax", "rnm-gaussian", "rnm-laplace", "permute-and-flip")
TESTS = ("table", "gaussian", "paper", "laplace")
_SUCCESS = 0.9
_INSIDE = 1 - 1e-9  # room for what curves and conversions round up, and for a search over orders that stops nearby
_FAILURE = 1e15
_POLISH = 3
_HIGH_ENOUGH = 0.01  # a table is followed until its chance of "no" is below this
_LONG_TABLE = 1500
_CURVE_POINTS = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class _Split:
    """One proposal: limits for one release at one order, and the share of the Rényi cost that goes to the choice."""

    order: float
    rdp: float
    delta: float
    share: float


@lru_cache(maxsize=256)
def calibrated_parts(
    budget: Budget,
    limits: Filter | None,
    *,
    adjacency: Adjacency,
    choices: int,
    choose: str,
    test: str,
) -> tuple[Chooser, GapTest]:
    """Return the chooser and the test that spend the budget best; a function of public numbers, so remembered."""
    if choose not in CHOICES or test not in TESTS:
        raise ParameterError(
            "choose and test must be known ones",
            f"choose={choose!r}, test={test!r}",
            f"Choose: {', '.join(CHOICES)}. Test: {', '.join(TESTS)}.",
        )
    if choose == "argmax" and test not in ("table", "laplace") and choices > 1:
        raise ParameterError("choosing by argmax needs the table test", f"test={test!r}", "Use test='table'.")
    if limits is not None and not (budget.covers(limits) and limits.rdp > 0 and limits.delta > 0):
        raise BudgetError(
            "the filter must lie within the budget and leave something to spend",
            f"order={limits.order:.3g}, rdp={limits.rdp:.3g}, delta={limits.delta:.3g}",
            "Make it with budget.filter(order=..., delta_share=...).",
        )
    if test == "paper" and limits is None:
        return _as_in_the_paper(budget, adjacency, choices)
    study = _Study(adjacency=adjacency, choices=choices, choose=choose, test=test)
    if limits is not None:
        return study.build(study.best_within(limits, budget.releases))
    split = study.best(budget)
    parts = study.build(split)
    for _ in range(0 if test == "table" else _POLISH):
        # A smooth curve may convert a little better beside the order it was searched at: follow it.
        total = budget.releases * (parts[0].cost(adjacency) + parts[1].cost(adjacency))
        order = best_order(total, budget.delta)
        delta_share = float(Fraction(split.delta) * budget.releases / Fraction(budget.delta))
        split = study.share_out(budget.filter(order=order, delta_share=delta_share), budget.releases, split.share)
        parts = study.build(split)
    return parts


def _as_in_the_paper(budget: Budget, adjacency: Adjacency, choices: int) -> tuple[Chooser, GapTest]:
    """Even split, half of delta for the test, zCDP with the right conversion [SPEC section 8.1]."""
    delta = budget.delta / 2
    log = math.log(1 / delta)
    rho = (budget.epsilon / (math.sqrt(log + budget.epsilon) + math.sqrt(log))) ** 2 / budget.releases
    sigma = adjacency.gap_change * math.sqrt(1 / rho)
    test = GaussianTest.paper(sigma=sigma, delta=delta / budget.releases)
    return (GapExponential(epsilon=2 * math.sqrt(rho)) if choices > 1 else GapArgmax()), test


@dataclass(frozen=True, slots=True, kw_only=True)
class _Study:
    """The public facts a proposal is judged by."""

    adjacency: Adjacency
    choices: int
    choose: str
    test: str

    @property
    def draws(self) -> bool:
        """Whether k is drawn at a price; all noisy maxima are split like the exponential mechanism, which they resemble."""
        return self.choose != "argmax" and self.choices > 1

    def best(self, budget: Budget) -> _Split:
        """Search order, delta share and split."""
        from scipy.optimize import minimize

        def proposal(point: Sequence[float]) -> _Split | None:
            order, delta_share = 1 + math.exp(min(point[0], 14.0)), _inner(point[1])
            share = _inner(point[2]) if self.draws else 0.0
            try:
                limits = budget.filter(order=order, delta_share=delta_share)
            except BudgetError:
                return None
            return self.share_out(limits, budget.releases, share)

        def objective(point: Sequence[float]) -> float:
            split = proposal(point)
            return _FAILURE if split is None or split.delta <= 0 else self.gap_needed(split)

        typical = math.log(2 * math.log(1 / budget.delta) / budget.epsilon + 1)
        best = None
        for order in (typical, typical + 2.5):
            start = [order, -1.0, 0.5]
            simplex = [start, [order + 0.7, -1.0, 0.5], [order, -3.0, 0.5], [order, -1.0, 1.3]][
                : 4 if self.draws else 3
            ]
            size = 3 if self.draws else 2
            found = minimize(
                objective,
                start[:size],
                method="Nelder-Mead",
                options={
                    "xatol": 2e-3,
                    "fatol": 2e-3,
                    "maxfev": 220,
                    "initial_simplex": [s[:size] for s in simplex],
                },
            )
            if best is None or found.fun < best.fun:
                best = found
        split = proposal([*best.x, 0.0][:3]) if best is not None and best.fun < _FAILURE else None
        if split is None:
            raise BudgetError(
                "the budget must be large enough to calibrate the mechanism",
                f"epsilon={budget.epsilon:.3g}, delta={budget.delta:.3g}, releases={budget.releases}",
                "Raise epsilon or delta, or plan fewer releases.",
            )
        return split

    def best_within(self, limits: Filter, releases: int) -> _Split:
        """Search the split alone; order and limits are the filter's."""
        from scipy.optimize import minimize_scalar

        if not self.draws:
            return self.share_out(limits, releases, 0.0)
        found = minimize_scalar(
            lambda t: self.gap_needed(self.share_out(limits, releases, _inner(t))),
            bounds=(-5.0, 5.0),
            method="bounded",
            options={"xatol": 1e-3},
        )
        return self.share_out(limits, releases, _inner(found.x))

    @staticmethod
    def share_out(limits: Filter, releases: int, share: float) -> _Split:
        """Split the limits of all releases evenly among them."""
        each = Fraction(1, releases)
        return _Split(
            order=limits.order,
            rdp=fraction_down(Fraction(limits.rdp) * each),
            delta=fraction_down(Fraction(limits.delta) * each * Fraction(_INSIDE)),
            share=share,
        )

    def build(self, split: _Split) -> tuple[Chooser, GapTest]:
        """Build chooser and test for real, a hair inside the split."""
        chooser: Chooser = GapArgmax()
        if self.draws:
            chooser = self._chooser(split.order, split.share * split.rdp * _INSIDE)
        spent = chooser.cost(self.adjacency).rdp(split.order)
        left = (Fraction(split.rdp) - Fraction(spent)) * Fraction(_INSIDE)
        return chooser, self.build_test(split, fraction_down(left))

    def _chooser(self, order: float, rdp: float) -> Chooser:
        if self.choose == "rnm-gaussian":
            return GapGaussian.within(order=order, rdp=rdp, choices=self.choices, adjacency=self.adjacency)
        if self.choose == "rnm-laplace":
            return GapLaplace.within(order=order, rdp=rdp)
        if self.choose == "permute-and-flip":
            return GapPermuteAndFlip.within(order=order, rdp=rdp)
        return GapExponential(epsilon=BoundedRange.within(order=order, rdp=rdp).epsilon)

    def build_test(self, split: _Split, rdp: float) -> GapTest:
        """Build the test for real."""
        if self.test == "table":
            return TableTest(table=BitTable.stability(order=split.order, rdp=rdp, delta=split.delta))
        if self.test == "laplace":
            return LaplaceTest.within(order=split.order, rdp=rdp, delta=min(split.delta, 0.5))
        offset = self._offset(split.delta)
        guess = _sigma(split.order, rdp, offset, self.adjacency)

        def fits(inverse: float) -> bool:
            bit = GaussianBit(sigma=1 / inverse, offset=offset, reach=self.adjacency.gap_change)
            return bit.rdp(split.order) <= rdp

        inverse = largest(fits, low=0.25 / guess, high=4 / guess, relative=1e-9)
        return GaussianTest(sigma=1 / inverse, offset=offset, name=self.test)

    def _offset(self, delta: float) -> float:
        return exact_offset(delta) if self.test == "gaussian" else paper_offset(delta)

    def gap_needed(self, split: _Split) -> float:
        """Return the smooth one-gap number of a proposal."""
        passes = self._passing(split)
        rate = self._rate(split)

        def success(gap: float) -> float:
            right = 1.0 if rate is None else 1 / (1 + (self.choices - 1) * math.exp(-min(rate * gap, 700.0)))
            return right * passes(gap)

        low = high = 1.0
        while success(high) < _SUCCESS:
            high *= 2
            if high > 1e12:
                return _FAILURE
        while high - low > 1e-4 * high:
            middle = (low + high) / 2
            low, high = (low, middle) if success(middle) >= _SUCCESS else (middle, high)
        return high

    def _rate(self, split: _Split) -> float | None:
        if not self.draws:
            return None
        cost = max(split.share * split.rdp, 1e-300)
        epsilon = largest(lambda e: approximate_rdp(e, split.order) <= cost, low=1e-12, high=1e4, relative=1e-6)
        return epsilon / self.adjacency.gap_range

    def _passing(self, split: _Split) -> Callable[[float], float]:
        """Return the chance to pass as a smooth function of the gap."""
        change = self.adjacency.gap_change
        rdp = (1 - split.share) * split.rdp
        if self.test == "laplace":
            scale = change / LaplaceTest.within(order=split.order, rdp=rdp, delta=min(split.delta, 0.5)).epsilon
            threshold = scale * math.log(1 / (2 * min(split.delta, 0.5)))
            change = change if self.draws or self.choices == 1 else self.adjacency.gap_range
            return lambda gap: _laplace_tail(
                ((gap - change) / (change / self.adjacency.gap_change) - threshold) / scale
            )
        if self.test != "table":
            from scipy.special import ndtr

            offset = self._offset(split.delta)
            sigma = _sigma(split.order, rdp, offset, self.adjacency)
            return lambda gap: float(ndtr((gap - change) / sigma - offset))
        steps, logits = _table_profile(split.order, rdp, split.delta)
        # An argmax choice must also win over the runner-up, whose gap is 0: the margin is the gap itself.
        change = change if self.draws or self.choices == 1 else self.adjacency.gap_range
        return lambda gap: _logistic(float(np.interp((gap - change) / change, steps, logits)))


def _sigma(order: float, rdp: float, offset: float, adjacency: Adjacency) -> float:
    """Solve the Gaussian bit's curve for sigma, roughly: it falls like 1/sigma^2."""
    reach = adjacency.gap_change
    sigma = reach * math.sqrt(order / (math.pi * rdp))
    for _ in range(6):
        cost = GaussianBit(sigma=sigma, offset=offset, reach=reach).rdp(order)
        if abs(cost / rdp - 1) < 1e-4:
            break
        sigma *= min(max(math.sqrt(cost / rdp), 0.25), 4.0)
    return sigma


def _laplace_tail(x: float) -> float:
    """Return the chance that Laplace noise of scale 1 exceeds -x."""
    return 1 - math.exp(-x) / 2 if x > 0 else math.exp(x) / 2


def _inner(t: float) -> float:
    """Return a share strictly between 0 and 1."""
    return _logistic(max(-20.0, min(20.0, t)))


def _logistic(t: float) -> float:
    return 1 / (1 + math.exp(-t)) if t > -700 else 0.0


def _table_profile(order: float, rdp: float, delta: float) -> tuple[list[float], list[float]]:
    """Return distances and the log-odds of passing there: the table itself, or its curve where it is very long."""
    start = [_logit(p) for p in islice(biases(delta, order=order, rdp=rdp, stop=_HIGH_ENOUGH), _LONG_TABLE)]
    if start[-1] >= _logit(1 - _HIGH_ENOUGH):
        return [float(n) for n in range(len(start))], start
    # Steps vary slowly along a long table: integrate (steps per unit of log-odds) over the log-odds.
    width = (_logit(1 - _HIGH_ENOUGH) - start[0]) / _CURVE_POINTS
    logits = [start[0] + i * width for i in range(_CURVE_POINTS + 1)]
    pace = []
    for t in logits:
        first, second = islice(biases(_logistic(t), order=order, rdp=rdp, stop=0.0), 2)
        pace.append(width / (_logit(second) - _logit(first)))
    steps = [0.0]
    for slow, fast in pairwise(pace):
        steps.append(steps[-1] + (slow + fast) / 2)
    return steps, logits


def _logit(p: float) -> float:
    return math.log(p / max(1 - p, 2.0**-53))
