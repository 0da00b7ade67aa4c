r"""Which epsilon? Recall and length of the list against epsilon, and the smallest epsilon that is enough.

All of it is computed on public counts, before anything is spent; see `cutline.mechanisms.expectations`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from cutline.errors import BudgetError, ParameterError, shortened
from cutline.histogram import Histogram
from cutline.mechanisms.base import Mechanism
from cutline.mechanisms.expectations import NOTHING, Expectation, Trial
from cutline.privacy import Budget
from cutline.privacy.curves.base import check_positive
from cutline.rounding import digits_up

EPSILONS = (0.1, 0.25, 0.5, 1.0, 2.0, 4.0)  # tried unless the caller says
SMALLEST, LARGEST = 0.01, 64.0  # between which an epsilon is searched
_CURVE_ERROR = 0.015  # standard error of a point of a curve
_ERRORS = (0.02, 0.004)  # of a recall that is compared with the wanted one, the closer it is the finer
_CLEAR = 3.0  # standard errors apart, a recall is above or below the wanted one
_CLOSE = 1.005  # a ratio of two epsilons that need not be told apart
_BETTER = 1.02  # another variant is taken if it needs so many times less
_ENOUGH = 0.006  # a recall that is no more than this above the wanted one is near enough

Progress = Callable[[float], None]
Logs = Callable[["Variant"], Mapping[str, Histogram]]  # the public counts that a variant is tried on, by name


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """A mechanism in one variant, which can be calibrated for any budget."""

    mechanism: str
    parameters: Mapping[str, Any]
    closed: bool  # whether it is tried on listed candidates
    bound: int | None  # on items per user
    redraw: bool  # whether every draw is made on a log of its own, like the public one
    calibrate: Callable[[Budget], Mechanism]


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """What to expect of one variant on one log at several epsilons."""

    log: str
    mechanism: str
    parameters: Mapping[str, Any]
    points: tuple[tuple[float, Expectation], ...]

    @property
    def title(self) -> str:
        """The mechanism's name and its parameters in one line."""
        return " ".join([self.mechanism, *(f"{name}={value}" for name, value in self.parameters.items())])

    def to_dict(self) -> dict[str, Any]:
        """Return the curve as plain data for JSON."""
        points = [{"epsilon": epsilon, **found.to_dict()} for epsilon, found in self.points]
        return {
            "log": self.log,
            "mechanism": self.mechanism,
            "parameters": dict(self.parameters),
            "points": points,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The smallest epsilon, to about 2 %, at which as much is found as was wanted, and by which mechanism; None if by none."""

    log: str
    want: float
    epsilon: float | None = None  # rounded up, so that it can be typed as it is printed
    mechanism: str | None = None
    parameters: Mapping[str, Any] | None = None
    expected: Expectation | None = None  # at that epsilon

    def to_dict(self) -> dict[str, Any]:
        """Return the answer as plain data for JSON."""
        return {
            "log": self.log,
            "want": self.want,
            "epsilon": self.epsilon,
            "mechanism": self.mechanism,
            "parameters": None if self.parameters is None else dict(self.parameters),
            "expected": None if self.expected is None else self.expected.to_dict(),
        }


def check_epsilons(epsilons: Sequence[float]) -> tuple[float, ...]:
    """Return the epsilons to try, ascending; raise if one is not a number above 0."""
    for epsilon in epsilons:
        check_positive("epsilon", epsilon)
    return tuple(sorted({float(epsilon) for epsilon in epsilons}))


def check_want(want: object) -> float | None:
    """Return the wanted recall; raise if it is not a number between 0 and 1."""
    if want is None:
        return None
    if isinstance(want, bool) or not isinstance(want, int | float | np.number) or not 0 < want < 1:
        raise ParameterError(
            "want must be a share between 0 and 1 of the true top", f"want={shortened(want)}", "Try want=0.9."
        )
    return float(want)


def draw_curves(
    variants: Sequence[Variant],
    logs: Logs,
    budget: Budget,
    epsilons: Sequence[float],
    *,
    k: int | None,
    progress: Progress,
) -> tuple[Curve, ...]:
    """Return what to expect of every variant on every log at every epsilon."""
    curves: list[Curve] = []
    for done, variant in enumerate(variants):
        found: dict[str, list[tuple[float, Expectation]]] = {name: [] for name in logs(variant) if epsilons}
        for step, epsilon in enumerate(epsilons):
            progress((done + step / len(epsilons)) / len(variants))
            for name, trial in _trials(variant, logs, replace(budget, epsilon=epsilon), k=k).items():
                found[name].append((epsilon, trial.expect(error=_CURVE_ERROR) if trial else NOTHING))
        curves += [
            Curve(log=name, mechanism=variant.mechanism, parameters=variant.parameters, points=tuple(points))
            for name, points in found.items()
        ]
    order = list(dict.fromkeys(curve.log for curve in curves))
    return tuple(sorted(curves, key=lambda curve: order.index(curve.log)))


def _trials(
    variant: Variant, logs: Logs, budget: Budget, *, k: int | None, only: str | None = None
) -> dict[str, Trial | None]:
    """Return the variant at this budget on every log; None where the budget is too small to calibrate for."""
    chosen = {name: log for name, log in logs(variant).items() if only in (None, name)}
    try:
        mechanism = variant.calibrate(budget)
    except BudgetError:
        return dict.fromkeys(chosen)
    return {name: Trial(mechanism, log, k=k, redraw=variant.redraw) for name, log in chosen.items()}


def search_epsilon(
    variants: Sequence[Variant],
    logs: Logs,
    budget: Budget,
    want: float,
    *,
    curves: Sequence[Curve],
    k: int | None,
    progress: Progress,
) -> tuple[Wanted, ...]:
    """Return the smallest epsilon that is enough on each log, and the variant that needs it.

    The variant that a curve shows to be the best is searched first. Another is searched only if it is enough at a smaller
    epsilon than the best one so far.
    """
    names = list(dict.fromkeys(name for variant in variants for name in logs(variant)))
    answers = []
    for at, name in enumerate(names):
        able = [variant for variant in variants if name in logs(variant)]
        drawn = {(curve.mechanism, repr(curve.parameters)): curve for curve in curves if curve.log == name}
        guesses = [_guess(drawn.get((v.mechanism, repr(v.parameters))), want, budget.epsilon) for v in able]
        best: Wanted = Wanted(log=name, want=want)
        for step, which in enumerate(np.argsort(guesses, kind="stable").tolist()):
            progress((at + step / len(able)) / len(names))
            search = _Search(variant=able[which], logs=logs, log=name, budget=budget, want=want, k=k)
            best = search.run(start=guesses[which], below=best.epsilon) or best
        answers.append(best)
    return tuple(answers)


def _guess(curve: Curve | None, want: float, otherwise: float) -> float:
    """Return about the epsilon at which a curve reaches the wanted recall; past its end, more than that."""
    if curve is None:
        return otherwise
    low, missed = 0.0, 0.0  # the last epsilon that is not enough, and its recall
    for epsilon, found in curve.points:
        if found.recall >= want:
            share = (want - missed) / (found.recall - missed)
            return low * (epsilon / low) ** share if low else epsilon
        low, missed = epsilon, found.recall
    return 2.0 * curve.points[-1][0]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Search:
    """The search for the epsilon at which one variant finds as much as is wanted on one log."""

    variant: Variant
    logs: Logs
    log: str
    budget: Budget
    want: float
    k: int | None
    trials: dict[float, Trial | None] = field(default_factory=dict)  # that were made, by epsilon

    def run(self, *, start: float, below: float | None) -> Wanted | None:
        """Return the smallest epsilon that is enough; None if there is none, or none below the one that is known."""
        high = min(start, LARGEST) if below is None else below / _BETTER
        found = self._expect(high)
        if below is not None and found.recall < self.want:
            return None
        low, missed = 0.0, 0.0  # the largest epsilon that is not enough, and its recall
        while found.recall < self.want:
            if high >= LARGEST:
                return None
            low, missed, high = high, found.recall, min(1.5 * high, LARGEST)
            found = self._expect(high)
        while high > SMALLEST and high > _CLOSE * low and found.recall > self.want + _ENOUGH:
            between = float(digits_up(self._between(low, missed, high, found.recall), 3))
            if not low < between < high:  # no number of three digits is left
                break
            tried = self._expect(between)
            if tried.recall < self.want:
                low, missed = between, tried.recall
            else:
                high, found = between, tried
        epsilon = float(digits_up(high, 3))
        return Wanted(
            log=self.log,
            want=self.want,
            epsilon=epsilon,
            mechanism=self.variant.mechanism,
            parameters=self.variant.parameters,
            expected=self._expect(epsilon, settle=True),
        )

    def _between(self, low: float, missed: float, high: float, recall: float) -> float:
        """Return an epsilon between one that is not enough and one that is: on the line through both, and at neither end."""
        if not low:
            return max(high / 1.5, SMALLEST)
        share = (self.want + _ENOUGH / 2 - missed) / (recall - missed)
        return low * math.exp(math.log(high / low) * min(max(share, 0.1), 0.9))

    def _expect(self, epsilon: float, *, settle: bool = False) -> Expectation:
        """Return what to expect at that epsilon, as finely as it takes to compare it with what is wanted."""
        if epsilon not in self.trials:
            budget = replace(self.budget, epsilon=epsilon)
            self.trials[epsilon] = _trials(self.variant, self.logs, budget, k=self.k, only=self.log)[self.log]
        trial = self.trials[epsilon]
        if trial is None:
            return NOTHING
        found = trial.expect(error=_ERRORS[0])
        for error in _ERRORS[1:]:
            if settle or abs(found.recall - self.want) <= _CLEAR * found.error:
                found = trial.expect(error=error)
        return found
