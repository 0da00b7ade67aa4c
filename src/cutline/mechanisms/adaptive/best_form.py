r"""Which form of StableTopK to take: a joint draw, the exponential mechanism or the largest gap, by the one-gap number.

What is best depends on public numbers alone. A joint draw needs the smallest gap of one or two releases, whose epsilons are
simply added; it is dear at the moderate Rényi orders at which many releases are paid for, where a table is built to be cheap.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache

import numpy as np

from cutline.errors import BudgetError
from cutline.mechanisms.adaptive.choosers import UNIT, Chooser, Preference
from cutline.mechanisms.adaptive.gap_tests import GapTest
from cutline.mechanisms.adaptive.joint_draw import JointDraw, clip_surely_shown, shape_prior
from cutline.mechanisms.adaptive.stable_top_k_calibration import calibrate_parts, calibrate_planned
from cutline.mechanisms.calibration import INSIDE, SUCCESS, check_limits, largest_pure, largest_step, split_evenly
from cutline.mechanisms.one_gap import smallest
from cutline.privacy import Adjacency, Budget, Filter, Pure
from cutline.privacy.rules.rdp import best_order, remaining_delta
from cutline.rounding import fraction_down, sum_up

FORMS = (JointDraw.name, "em", "argmax")  # the first of equals is taken
_SHARES = (1.0, 0.95, 0.8, 0.5, 0.2)  # of delta, for joint draws; all of it where epsilons are added
_FEW = 10  # releases: for more a joint draw is far from the best
_MOST_DELTA = 0.9  # share of delta that a ledger's filter gives to stability tests


def calibrate_wished(
    budget: Budget,
    limits: Filter | None,
    *,
    adjacency: Adjacency,
    preference: Preference,
    prior: Sequence[float] | None,
    prefer_larger: bool,
) -> tuple[Preference, JointDraw]:
    """Return the joint draw with what is wished of k, and the preference, which a wish for larger k clips."""
    shape = shape_prior(preference, prior, prefer_larger=prefer_larger)
    joint = calibrate_joint(budget, limits, adjacency=adjacency, prior=shape)
    return clip_surely_shown(joint, preference, adjacency) if prefer_larger else preference, joint


@lru_cache(maxsize=256)
def calibrate_joint(
    budget: Budget, limits: Filter | None, *, adjacency: Adjacency, prior: tuple[float, ...]
) -> JointDraw:
    """Return the joint draw that spends the budget best: by adding epsilons, or by the optimal composition of pure steps."""
    if limits is not None:
        check_limits(budget, limits)
        each = split_evenly(limits, budget.releases)
        epsilon = largest_pure(order=each.order, rdp=fraction_down(Fraction(each.rdp) * Fraction(INSIDE)))
        return JointDraw(epsilon=epsilon, delta=each.delta, prior=prior)

    def spend(share: float) -> JointDraw:
        delta = fraction_down(Fraction(share) * Fraction(budget.delta) / budget.releases)
        if share == 1:
            return JointDraw(
                epsilon=fraction_down(Fraction(budget.epsilon) / budget.releases), delta=delta, prior=prior
            )
        left = remaining_delta(delta=budget.delta, slack=sum_up([(budget.releases, delta)]))
        epsilon = largest_step(replace(budget, delta=left), None, step=Pure, times=1)
        return JointDraw(epsilon=epsilon, delta=delta, prior=prior)

    shares = _SHARES[:1] if budget.releases == 1 else _SHARES
    return min(map(spend, shares), key=lambda joint: joint_gap(joint, adjacency))


def joint_gap(joint: JointDraw, adjacency: Adjacency) -> float:
    """Return the smooth one-gap number of a joint draw, with the gap where the weight is the mean one."""
    weight = sum(joint.weights) / len(joint.weights)
    # b^2 = odds (1 + b rest) for the weight b that goes out with these odds, beside the rest of the window.
    odds, rest = SUCCESS / (1 - SUCCESS), sum(joint.weights) - weight
    heavy = (odds * rest + math.sqrt((odds * rest) ** 2 + 4 * odds)) / 2
    return adjacency.gap_change * (1 + 2 * math.log(heavy / weight) / joint.epsilon)


@lru_cache(maxsize=256)
def calibrate_best(
    budget: Budget, limits: Filter | None, *, adjacency: Adjacency, choices: int
) -> tuple[Chooser, GapTest | None]:
    """Return the form with the smallest one-gap number: a joint draw, or choosing by em or argmax with the table test."""
    found: list[tuple[int, Chooser, GapTest | None]] = []
    for choose in FORMS if limits is not None or budget.releases <= _FEW else FORMS[1:]:
        chooser: Chooser
        test: GapTest | None = None
        try:
            if choose == JointDraw.name:
                chooser = calibrate_joint(budget, limits, adjacency=adjacency, prior=(1.0,) * choices)
            else:
                chooser, test = calibrate_parts(
                    budget, limits, adjacency=adjacency, choices=choices, choose=choose, test="table"
                )
        except BudgetError:
            if choose == FORMS[-1] and not found:
                raise
            continue
        found.append((exact_gap(chooser, test, adjacency=adjacency, choices=choices), chooser, test))
    _, chooser, test = min(found, key=lambda one: one[0])  # the first of equals
    return chooser, test


def calibrate_plan(
    budget: Budget, *, adjacency: Adjacency, choices: int, choose: str | None, test: str
) -> tuple[Chooser, GapTest | None]:
    """Return the parts that spend a fixed plan by the rule ``adaptive``; of no form asked for, those of the usual best."""
    if choose is None:
        # A rule that is tighter by a few percent for em and argmax alike hardly changes which of the forms is best.
        best = calibrate_best(budget, None, adjacency=adjacency, choices=choices)
        if best[1] is None:
            return best  # the epsilons of few joint draws are added, which needs no other rule
        choose = best[0].name
    return calibrate_planned(budget, adjacency=adjacency, choices=choices, choose=choose, test=test)


def exact_gap(chooser: Chooser, test: GapTest | None, *, adjacency: Adjacency, choices: int) -> int:
    """Return the one-gap number of a choice and its test, from the exact law."""

    def holds(gap: int) -> bool:
        gaps = np.zeros((1, choices), dtype=np.int64)
        gaps[0, 0] = gap
        scores = gaps * UNIT
        if test is None:
            yes = chooser.pass_chances(scores, adjacency)[0][0]
        else:
            slack = np.broadcast_to(chooser.slack(scores, adjacency), (choices,))
            yes = test.chances(gaps[0], slack, adjacency)[0]
        return float(chooser.law(scores, adjacency)[0, 0] * yes[0]) >= SUCCESS

    return smallest(holds)


def usual_limits(budget: Budget, *, adjacency: Adjacency, max_k: int) -> Filter:
    r"""Return the filter that suits ``budget.releases`` releases of choose-then-test best; a function of public numbers.

    A joint draw is not asked: the high order that it likes makes a ledger dear for everything else. At two releases of
    epsilon = 1 it would lower the one-gap number from 53 to 45, and triple that of ten items by ``test-first``.
    """
    # By itself an argmax of one or two releases likes such an order too.
    forms = FORMS[1:2] if budget.releases <= 2 else FORMS[1:]
    parts = [
        calibrate_parts(budget, None, adjacency=adjacency, choices=max_k, choose=choose, test="table")
        for choose in forms
    ]
    chooser, test = min(parts, key=lambda pair: exact_gap(*pair, adjacency=adjacency, choices=max_k))
    total = budget.releases * (chooser.cost(adjacency) + test.cost(adjacency))
    delta_share = float(f"{float(Fraction(total.delta) / Fraction(budget.delta)):.3g}")
    order = float(f"{best_order(total, budget.delta):.4g}")
    return budget.filter(order=order, delta_share=min(delta_share, _MOST_DELTA))
