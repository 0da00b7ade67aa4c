r"""Does a claimed cost hold between two exact laws? Decided, not sampled.

The claim ``(delta_0, R)`` at an order holds for a pair (P, Q) exactly if there are ``P' <= P/(1-delta_0)`` and
``Q' <= Q/(1-delta_0)``, both probability laws, with ``D_order(P' || Q') <= R``. The best such pair clips the likelihood ratio
from both sides: with ``r1`` the ratio at which ``sum min(P/(1-delta_0), r1 Q/(1-delta_0)) = 1`` and ``r2`` its mirror image,
``P' = min(P/(1-delta_0), r1 Q/(1-delta_0))`` and ``Q' = min(Q/(1-delta_0), P/((1-delta_0) r2))`` minimise every Rényi
divergence at once (docs/proofs/verification.md). So a pair passes if and only if the claim is true for it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from cutline.arrays import FloatArray, IntArray

RELATIVE = 1e-9  # allowance of comparisons
_LAW_ERROR = 1e-12  # laws are good to this relative error
_ABSOLUTE = 1e-11


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """How many of the pairs broke the claim, and the largest ratio of what was observed to what was claimed."""

    violations: int
    worst: float


def judge(
    p: FloatArray,
    q: FloatArray,
    *,
    delta: float,
    rdp: dict[float, float],
    epsilons: FloatArray,
    times: IntArray | None = None,
) -> Verdict:
    """Check the claim for rows of laws, from P to Q.

    ``p`` lists P on its own support and ``q`` gives Q there; outcomes only Q has need not be listed. A row stands for as many
    pairs as ``times`` says, or for one.
    """
    broken = np.zeros(len(p), dtype=bool)
    ratios, kept_p = closest(p / (1 - delta), q / (1 - delta))
    feasible = np.isfinite(ratios).all(axis=1)
    worst = 0.0 if feasible.all() else math.inf
    broken |= ~feasible
    with np.errstate(divide="ignore"):
        log_p, log_ratios = np.log(kept_p), np.log(np.where(kept_p > 0, ratios, 1.0))
    for order, claimed in rdp.items():
        if not math.isfinite(claimed):
            continue
        if order == math.inf:
            observed = log_ratios.max(axis=1, initial=0.0)
        else:
            # In logarithms, relative to the largest: a ratio of 1e6 to the power of 63 is no float.
            terms = log_p + (order - 1) * log_ratios
            largest = np.maximum(terms.max(axis=1), 0.0)
            with np.errstate(under="ignore"):
                observed = largest + np.log(np.maximum(np.exp(terms - largest[:, None]).sum(axis=1), np.exp(-largest)))
            observed /= order - 1
        observed = np.where(feasible, observed, math.inf)
        broken |= observed > claimed * (1 + RELATIVE) + _ABSOLUTE
        if feasible.any() and claimed > 0:
            worst = max(worst, float((observed / claimed)[feasible].max()))
    for epsilon in epsilons:
        stick = np.maximum(p - math.exp(epsilon) * q, 0.0).sum(axis=1)
        claimed = delta + (1 - delta) * converted(float(epsilon), rdp)
        broken |= stick > claimed * (1 + RELATIVE) + _ABSOLUTE
    return Verdict(violations=int(broken.sum() if times is None else times[broken].sum()), worst=worst)


def closest(p: FloatArray, q: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the ratios and the first law of the closest pair below ``p`` and ``q``; NaN ratios if there is none."""
    high = _clip_level(p, q)
    low = 1 / _clip_level(q, p)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = np.where((p > 0) & (q > 0), p / q, 1.0)
        # If both levels pass 1 the laws can be made equal and every divergence is 0.
        ratios = np.clip(ratios, np.minimum(low, 1.0)[:, None], np.maximum(high, 1.0)[:, None])
        kept_p = np.where((p > 0) & (q > 0), np.minimum(p, high[:, None] * q), 0.0)
    equal = (high <= 1) | (low >= 1)
    ratios = np.where(equal[:, None], 1.0, ratios)
    ratios[np.isnan(high) | np.isnan(low)] = np.nan
    return ratios, kept_p


def _clip_level(p: FloatArray, q: FloatArray) -> FloatArray:
    """Return r with ``sum min(p, r q) = 1`` over the shared support; NaN where even all of p there is below 1."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where((p > 0) & (q > 0), p / q, np.inf)
    order = np.argsort(ratio, axis=1)
    ratio, sorted_p, sorted_q = (np.take_along_axis(a, order, axis=1) for a in (ratio, p, q))
    shared = np.isfinite(ratio)
    sorted_p, sorted_q = np.where(shared, sorted_p, 0.0), np.where(shared, sorted_q, 0.0)
    below_p = np.cumsum(sorted_p, axis=1) - sorted_p  # of all smaller ratios
    rest_q = np.cumsum(sorted_q[:, ::-1], axis=1)[:, ::-1]  # from the tail: a total minus a sum would cancel there
    reach = np.where(shared, below_p + np.where(shared, ratio, 0.0) * rest_q, -np.inf)
    target = 1 - 4 * _LAW_ERROR
    crossed = reach >= target
    level = np.full(len(p), np.nan)
    rows = np.flatnonzero(crossed.any(axis=1))
    first = crossed[rows].argmax(axis=1)
    exact = (target - below_p[rows, first]) / rest_q[rows, first]
    level[rows] = np.minimum(exact, ratio[rows, first])
    return level


def converted(epsilon: float, rdp: dict[float, float]) -> float:
    """Return the smallest delta that the Rényi claims give at ``epsilon`` [CKS20, Proposition 12]."""
    best = 1.0
    for order, claimed in rdp.items():
        if order == math.inf:
            best = 0.0 if epsilon >= claimed else best
        elif math.isfinite(claimed):
            exponent = (order - 1) * (claimed - epsilon + math.log1p(-1 / order)) - math.log(order)
            best = min(best, math.exp(min(exponent, 0.0)))
    return best
