r"""How StableTopK spends a budget: order, delta share and the split between choosing and testing, from public numbers alone.

The search runs on plain floats and a smooth version of the one-gap number; what it proposes is then built for real,
with proved tables and exact curves, a hair inside the limits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from itertools import islice, pairwise

import numpy as np

from cutline.errors import ParameterError, shortened
from cutline.mechanisms.adaptive.choosers import (
    Chooser,
    GapArgmax,
    GapExponential,
    GapGaussian,
    GapLaplace,
    GapPermuteAndFlip,
)
from cutline.mechanisms.adaptive.gap_tests import (
    GapTest,
    GaussianTest,
    LaplaceTest,
    TableTest,
    exact_offset,
    paper_offset,
)
from cutline.mechanisms.calibration import (
    FAILURE,
    INSIDE,
    SUCCESS,
    Proposal,
    approximate_step,
    check_limits,
    inner_share,
    search_limits,
    split_evenly,
)
from cutline.mechanisms.planned import Search, settle_size
from cutline.mechanisms.remembered import Public, remember
from cutline.privacy import Adjacency, BitTable, BoundedRange, Budget, Cost, Filter, GaussianBit, largest
from cutline.privacy.curves.bit_table import biases
from cutline.privacy.curves.bounded_range import approximate_rdp
from cutline.privacy.rules.adaptive import Round, adaptive
from cutline.privacy.rules.rdp import best_order
from cutline.rounding import fraction_down

CHOICES = ("em", "argmax", "rnm-gaussian", "rnm-laplace", "permute-and-flip")
TESTS = ("table", "gaussian", "paper", "laplace")
_POLISH = 3
_HIGH_ENOUGH = 0.01  # a table is followed until its chance of "no" is below this
_LONG_TABLE = 1500
_CURVE_POINTS = 300


def check_parts(choose: str, test: str) -> None:
    """Raise if the chooser or the test is not one of those there are."""
    if not (isinstance(choose, str) and choose in CHOICES and isinstance(test, str) and test in TESTS):
        raise ParameterError(
            "choose and test must be known ones",
            f"choose={shortened(choose)}, test={shortened(test)}",
            f"Choose: joint, {', '.join(CHOICES)}. Test: {', '.join(TESTS)}.",
        )


@lru_cache(maxsize=256)
def calibrate_parts(
    budget: Budget,
    limits: Filter | None,
    *,
    adjacency: Adjacency,
    choices: int,
    choose: str,
    test: str,
) -> tuple[Chooser, GapTest]:
    """Return the chooser and the test that spend the budget best; a function of public numbers, so remembered."""
    if choose == "argmax" and test not in ("table", "laplace") and choices > 1:
        raise ParameterError("choosing by argmax needs the table test", f"test={test!r}", "Use test='table'.")
    if limits is not None:
        check_limits(budget, limits)
    if test == "paper" and limits is None:
        return _as_in_the_paper(budget, adjacency, choices)
    study = _Study(adjacency=adjacency, choices=choices, choose=choose, test=test)
    if limits is not None:
        return study.build(study.best_within(split_evenly(limits, budget.releases)))
    found = search_limits(
        budget,
        study.gap_needed,
        with_part=study.draws,
        delta_step=-2.0,
        tolerances=(2e-3, 2e-3),
        evaluations=220,
        advice="Raise epsilon or delta, or plan fewer releases.",
    )
    parts = study.build(found)
    # A table is cheap at the order it was built for. A smooth curve may convert a little better beside it: follow that order,
    # with the delta that the last proposal really had.
    for _ in range(0 if test == "table" else _POLISH):
        order = best_order(budget.releases * (parts[0].cost(adjacency) + parts[1].cost(adjacency)), budget.delta)
        delta_share = float(Fraction(found.limits.delta) * budget.releases / Fraction(budget.delta))
        whole = budget.filter(order=order, delta_share=delta_share)
        found = replace(found, limits=split_evenly(whole, budget.releases))
        parts = study.build(found)
    return parts


@lru_cache(maxsize=64)
def calibrate_planned(
    budget: Budget, *, adjacency: Adjacency, choices: int, choose: str, test: str = "table"
) -> tuple[Chooser, TableTest]:
    r"""Return the chooser and the table that spend the budget of a fixed plan best, by the rule ``adaptive``.

    **Privacy.** `cutline.privacy.rules.adaptive`: for ``budget.releases`` releases, one after the other, and not for a ledger.
    Remembered in this process and on disk, since a search takes some ten seconds.
    """
    if choose not in ("em", "argmax") or test != "table":
        raise ParameterError(
            "adaptive accounting prices choosing by em or argmax, with the table test",
            f"choose={choose!r}, test={test!r}",
            "Take those, or leave accounting out.",
        )
    study = _Study(adjacency=adjacency, choices=choices, choose=choose, test="table")

    def build(found: Mapping[str, float]) -> tuple[Chooser, TableTest]:
        chooser: Chooser = GapExponential(epsilon=found["epsilon"]) if study.draws else GapArgmax()
        table = BitTable.stability(order=found["order"], rdp=found["rdp"], delta=found["delta"])
        return chooser, TableTest(table=table)

    def cost(parts: tuple[Chooser, TableTest]) -> Cost:
        return parts[0].cost(adjacency) + parts[1].cost(adjacency)

    def search() -> dict[str, float]:
        return _search_planned(budget, study, build, cost)

    asked: Public = {
        "kind": "table test",
        "epsilon": budget.epsilon,
        "delta": budget.delta,
        "releases": budget.releases,
    }
    # Without a draw, the number of choices and the relation change the gap that is needed, and not which table needs least.
    drawn: Public = {"choices": choices, "adjacency": str(adjacency)} if study.draws else {}
    return remember(
        {**asked, **drawn},
        search=search,
        build=build,
        fits=lambda parts: adaptive(cost(parts), budget.delta, releases=budget.releases) <= budget.epsilon,
    )


def _search_planned(
    budget: Budget,
    study: _Study,
    build: Callable[[Mapping[str, float]], tuple[Chooser, TableTest]],
    cost: Callable[[tuple[Chooser, TableTest]], Cost],
) -> dict[str, float]:
    """Search from where the Rényi rule would end up, which is near."""
    near = search_limits(budget, study.gap_needed, with_part=study.draws, tolerances=(2e-2, 2e-2), evaluations=80)

    def play(limits: Filter, part: float) -> Round:
        coins = biases(limits.delta, order=limits.order, rdp=(1 - part) * limits.rdp, stop=limits.delta / 2)
        step = approximate_step(limits.order, part * limits.rdp) if part else 0.0
        return Round(biases=np.array(list(coins)), unstable=limits.delta, epsilon=step)

    def needed(limits: Filter, part: float) -> float:
        return study.gap_needed(Proposal(limits=limits, delta_share=0.0, part=part))

    start = [math.log(near.limits.order - 1), _logit(near.delta_share), *([_logit(near.part)] if study.draws else [])]
    search = Search(budget=budget, times=budget.releases, play=play, needed=needed)
    found, size = search.best(start, rdp=near.limits.rdp)

    def numbers(rdp: float) -> dict[str, float]:
        limits = found.limits(rdp, delta=budget.delta, times=budget.releases)
        spent = found.part * rdp
        choice = {"epsilon": BoundedRange.within(order=limits.order, rdp=spent).epsilon} if study.draws else {}
        return {"order": limits.order, "rdp": rdp - spent, "delta": limits.delta} | choice

    size, _ = settle_size(budget, lambda rdp: build(numbers(rdp)), cost=cost, guess=size, times=budget.releases)
    return numbers(size)


def _as_in_the_paper(budget: Budget, adjacency: Adjacency, choices: int) -> tuple[Chooser, GapTest]:
    """Even split, half of delta for the test, zCDP with the right conversion [docs/proofs/stable-top-k.md]."""
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

    def best_within(self, limits: Filter) -> Proposal:
        """Search how one release's limits are split between choosing and testing; the limits are fixed."""
        from scipy.optimize import minimize_scalar

        def propose(t: float) -> Proposal:
            return Proposal(limits=limits, delta_share=0.0, part=inner_share(t))

        if not self.draws:
            return Proposal(limits=limits, delta_share=0.0)
        found = minimize_scalar(
            lambda t: self.gap_needed(propose(t)), bounds=(-5.0, 5.0), method="bounded", options={"xatol": 1e-3}
        )
        return propose(found.x)

    def build(self, proposal: Proposal) -> tuple[Chooser, GapTest]:
        """Build chooser and test for real, a hair inside the split."""
        chooser: Chooser = GapArgmax()
        if self.draws:
            chooser = self._chooser(proposal.limits.order, proposal.part * proposal.limits.rdp * INSIDE)
        spent = chooser.cost(self.adjacency).rdp(proposal.limits.order)
        left = (Fraction(proposal.limits.rdp) - Fraction(spent)) * Fraction(INSIDE)
        return chooser, self.build_test(proposal.limits, fraction_down(left))

    def _chooser(self, order: float, rdp: float) -> Chooser:
        if self.choose == "rnm-gaussian":
            return GapGaussian.within(order=order, rdp=rdp, choices=self.choices, adjacency=self.adjacency)
        if self.choose == "rnm-laplace":
            return GapLaplace.within(order=order, rdp=rdp)
        if self.choose == "permute-and-flip":
            return GapPermuteAndFlip.within(order=order, rdp=rdp)
        return GapExponential(epsilon=BoundedRange.within(order=order, rdp=rdp).epsilon)

    def build_test(self, limits: Filter, rdp: float) -> GapTest:
        """Build the test for real."""
        if self.test == "table":
            return TableTest(table=BitTable.stability(order=limits.order, rdp=rdp, delta=limits.delta))
        if self.test == "laplace":
            return LaplaceTest.within(order=limits.order, rdp=rdp, delta=min(limits.delta, 0.5))
        offset = self._offset(limits.delta)
        guess = _sigma(limits.order, rdp, offset, self.adjacency)

        def fits(inverse: float) -> bool:
            bit = GaussianBit(sigma=1 / inverse, offset=offset, reach=self.adjacency.gap_change)
            return bit.rdp(limits.order) <= rdp

        inverse = largest(fits, low=0.25 / guess, high=4 / guess, relative=1e-9)
        return GaussianTest(sigma=1 / inverse, offset=offset, name=self.test)

    def _offset(self, delta: float) -> float:
        return exact_offset(delta) if self.test == "gaussian" else paper_offset(delta)

    def gap_needed(self, proposal: Proposal) -> float:
        """Return the smooth one-gap number of a proposal."""
        passes = self._passing(proposal)
        rate = self._rate(proposal)

        def success(gap: float) -> float:
            right = 1.0 if rate is None else 1 / (1 + (self.choices - 1) * math.exp(-min(rate * gap, 700.0)))
            return right * passes(gap)

        low = high = 1.0
        while success(high) < SUCCESS:
            high *= 2
            if high > 1e12:
                return FAILURE
        while high - low > 1e-4 * high:
            middle = (low + high) / 2
            low, high = (low, middle) if success(middle) >= SUCCESS else (middle, high)
        return high

    def _rate(self, proposal: Proposal) -> float | None:
        if not self.draws:
            return None
        cost = max(proposal.part * proposal.limits.rdp, 1e-300)
        epsilon = largest(
            lambda e: approximate_rdp(e, proposal.limits.order) <= cost, low=1e-12, high=1e4, relative=1e-6
        )
        return epsilon / self.adjacency.gap_range

    def _passing(self, proposal: Proposal) -> Callable[[float], float]:
        """Return the chance to pass as a smooth function of the gap."""
        change, limits = self.adjacency.gap_change, proposal.limits
        rdp = (1 - proposal.part) * limits.rdp
        # An argmax choice must also win over the runner-up, whose gap is 0: the margin is the gap itself.
        margin = change if self.draws or self.choices == 1 else self.adjacency.gap_range
        if self.test == "laplace":
            scale = change / LaplaceTest.within(order=limits.order, rdp=rdp, delta=min(limits.delta, 0.5)).epsilon
            threshold = scale * math.log(1 / (2 * min(limits.delta, 0.5)))
            return lambda gap: _laplace_tail(((gap - margin) / (margin / change) - threshold) / scale)
        if self.test != "table":
            from scipy.special import ndtr

            offset = self._offset(limits.delta)
            sigma = _sigma(limits.order, rdp, offset, self.adjacency)
            return lambda gap: float(ndtr((gap - change) / sigma - offset))
        steps, logits = table_profile(limits.order, rdp, limits.delta)
        return lambda gap: _logistic(float(np.interp((gap - margin) / margin, steps, logits)))


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
    return 1 - math.exp(-x) / 2 if x > 0 else math.exp(x) / 2


def _logistic(t: float) -> float:
    return 1 / (1 + math.exp(-t)) if t > -700 else 0.0


def table_profile(order: float, rdp: float, delta: float) -> tuple[list[float], list[float]]:
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
