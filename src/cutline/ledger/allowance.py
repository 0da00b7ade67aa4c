r"""From a dataset's filter to what one release may take of it, and what to say when that is not there.

The filter fixes one Rényi order for ever. A release through a ledger is calibrated at it: a bit table is dear at any other.
"""

from __future__ import annotations

import decimal
import math
from fractions import Fraction

from cutline.errors import BudgetError, ParameterError
from cutline.ledger.records import Account, usual_share
from cutline.ledger.sums import Sums
from cutline.privacy import Adjacency, Budget, Filter
from cutline.privacy.conversion import epsilon_from_rdp, rdp_within
from cutline.privacy.rounding import fraction_down
from cutline.privacy.rules.registry import best_order


def usual_filter(budget: Budget, *, adjacency: Adjacency = Adjacency.ADD_REMOVE, max_k: int = 100) -> Filter:
    r"""Choose the order and the share of delta that suit ``budget.releases`` releases of the default mechanism best.

    A function of public numbers. Any order gives the same guarantee; a good one buys smaller gaps.

    Examples
    --------
    >>> usual = usual_filter(Budget(epsilon=1.0, delta=1e-6, releases=10))
    >>> usual.order, f"{usual.rdp:.4f}"
    (20.91, '0.5035')
    """
    from cutline.mechanisms import StableTopK  # heavy, and needed once in the life of a dataset

    alone = StableTopK.calibrate(budget, adjacency=adjacency, max_k=max_k)
    delta_share = float(f"{float(Fraction(alone.cost.delta) * budget.releases / Fraction(budget.delta)):.3g}")
    order = float(f"{best_order(budget.releases * alone.cost, budget.delta):.4g}")
    return budget.filter(order=order, delta_share=min(delta_share, 0.9))


def allowance(
    account: Account, *, epsilon: float | None = None, delta: float | None = None, releases: int | None = None
) -> tuple[Budget, Filter]:
    r"""Return the budget and the filter that one release through the ledger is calibrated with.

    Without an epsilon: one ``releases``-th of the dataset's limits (by default its own number of releases). With one: what
    (epsilon, delta) leaves to spend at the dataset's order, for ``releases`` releases together; of delta, a release takes no
    more than the usual kind does.
    """
    total = account.budget
    if epsilon is None and delta is None:
        share = total.releases if releases is None else releases
        return Budget(epsilon=total.epsilon, delta=total.delta, releases=share), account.filter
    if epsilon is None:
        raise ParameterError(
            "with a ledger, a delta goes with an epsilon", f"delta={delta}", "Pass epsilon too, or leave both out."
        )
    asked = Budget(
        epsilon=epsilon,
        delta=total.delta if delta is None else delta,
        releases=1 if releases is None else releases,
    )
    share_of_delta = Fraction(account.filter.delta) / Fraction(total.delta)
    slack = fraction_down(min(share_of_delta * Fraction(asked.delta), usual_share(account, asked.releases)))
    order = account.filter.order
    limit = rdp_within(order=order, epsilon=asked.epsilon, delta=asked.delta, slack=slack)
    if not limit > 0:
        least = epsilon_from_rdp(order=order, rdp=0.0, delta=asked.delta, slack=slack)
        raise BudgetError(
            f"at the dataset's order {order:.4g} and delta={asked.delta:.3g} an epsilon must be above {least:.3g}",
            f"epsilon={asked.epsilon:.3g}",
            "Leave epsilon out and pass releases=T instead: one T-th of the whole budget.",
        )
    return asked, Filter(order=order, rdp=limit, delta=slack)


def over_budget(account: Account, needed: Sums, *, whose: str, limits: Sums, spent: Sums) -> BudgetError:
    """Say what was needed, what is left, and the largest epsilon that would fit."""
    left = limits - spent
    order = account.filter.order
    value = (
        f"rdp={_up(needed.rdp)} of {_down(left.rdp)} left ({_percent(left.rdp, limits.rdp)}), "
        f"delta={_up(needed.delta)} of {_down(left.delta)} left ({_percent(left.delta, limits.delta)})"
    )
    room = Sums(rdp=min(left.rdp, account.left.rdp), delta=min(left.delta, account.left.delta))
    ways = []
    epsilon = _largest_epsilon(account, room)
    if epsilon is None:
        ways.append("No epsilon fits in what is left.")
    else:
        ways.append(f"The largest epsilon that fits is {epsilon} at delta={account.budget.delta:.3g}.")
    part = _smallest_part(account.limits, room)
    if part is not None:
        ways.append(f"A release of 1/{part} of the budget (releases={part}) fits.")
    if not needed.within(limits):
        ways.append(f"Calibrate the mechanism with the dataset's filter (order {order:.4g}).")
    return BudgetError(f"{whose} must have room for the whole cost before any data is read", value, " ".join(ways))


def _largest_epsilon(account: Account, left: Sums) -> str | None:
    """Return the largest epsilon `allowance` would accept and `left` could pay for, rounded down to four digits."""
    slack = min(Fraction(account.filter.delta), usual_share(account, 1))
    if left.rdp <= 0 or left.delta < slack:
        return None
    order, delta = account.filter.order, account.budget.delta
    rdp, _ = left.rounded_down()
    slack_float = fraction_down(slack)
    exact = epsilon_from_rdp(order=order, rdp=rdp, delta=delta, slack=slack_float)
    if not 0 < exact < math.inf:
        return None
    digits = 10.0 ** (math.floor(math.log10(exact)) - 3)
    epsilon = float(f"{(math.ceil(exact / digits) - 1) * digits:.4g}")
    room = rdp_within(order=order, epsilon=epsilon, delta=delta, slack=slack_float) if epsilon > 0 else 0.0
    return f"{epsilon:.4g}" if 0 < room <= rdp else None


def _smallest_part(limits: Sums, left: Sums) -> int | None:
    """Return the smallest T such that one T-th of both limits is left."""
    pairs = [(limit, rest) for limit, rest in ((limits.rdp, left.rdp), (limits.delta, left.delta)) if limit]
    if any(rest <= 0 for _, rest in pairs):
        return None
    part = max(math.ceil(limit / rest) for limit, rest in pairs)
    return part if part <= 10**6 else None


def _percent(part: Fraction, whole: Fraction) -> str:
    return f"{math.floor(1000 * part / whole) / 10 if whole else 0:.4g} %"


def _up(value: Fraction) -> str:
    return _digits(value, up=True)


def _down(value: Fraction) -> str:
    return _digits(value, up=False)


def _digits(value: Fraction, *, up: bool) -> str:
    """Print four digits, rounded to one side, so that what is needed is never shown as less than what is left."""
    context = decimal.Context(prec=4, rounding=decimal.ROUND_CEILING if up else decimal.ROUND_FLOOR)
    return f"{float(context.divide(decimal.Decimal(value.numerator), decimal.Decimal(value.denominator))):.4g}"
