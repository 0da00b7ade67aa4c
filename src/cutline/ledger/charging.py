r"""Charging: what one release may take of a dataset's filter, the two transactions that move the totals, and the refusal.

The filter fixes one Rényi order for ever. A release through a ledger is calibrated at it, because a mechanism that is cheap at
its own best order can be dear at another. Reserving and settling run whole or not at all, with the dataset locked.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Set
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any, Self

from cutline.errors import AdjacencyError, BudgetError, DatasetError, ParameterError, SchemaError, SettlementError
from cutline.ledger import reading, tables
from cutline.ledger.account import Account, Reservation, Sums, charge
from cutline.ledger.chain import OpenAccount, digest
from cutline.privacy import Adjacency, Budget, Cost, Filter
from cutline.privacy.curves.base import check_number
from cutline.privacy.rules.rdp import epsilon_from_rdp, rdp_within
from cutline.rounding import digits_up, fraction_down
from cutline.version import __version__


def usual_filter(budget: Budget, *, adjacency: Adjacency = Adjacency.ADD_REMOVE, max_k: int = 100) -> Filter:
    r"""Choose the order and the share of delta that suit ``budget.releases`` releases of choose-then-test best.

    The choice depends on public numbers alone. Any order gives the same guarantee; at a good one the mechanism finds smaller
    gaps.

    Examples
    --------
    >>> usual = usual_filter(Budget(epsilon=1.0, delta=1e-6, releases=10))
    >>> usual.order, f"{usual.rdp:.4f}"
    (20.91, '0.5035')
    """
    # Heavy, and needed once in the life of a dataset: whoever only looks at the books must not wait for it.
    from cutline.mechanisms.adaptive.best_form import usual_limits

    return usual_limits(budget, adjacency=adjacency, max_k=max_k)


def allowance(
    account: Account,
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    releases: int | None = None,
    share: Fraction | None = None,
) -> tuple[Budget, Filter]:
    r"""Return the budget and the filter that one release through the ledger is calibrated with.

    Without an epsilon, a release takes the ``share`` or one ``releases``-th of the dataset's limits; by default ``releases`` is
    the number that the dataset was created for. With an epsilon, the limits are what (epsilon, delta) leaves to spend at the
    dataset's order, for ``releases`` releases together; of delta, a release takes no more than one of the usual kind does.
    """
    total = account.budget
    if share is not None:
        if (epsilon, delta, releases) != (None, None, None):
            raise ParameterError(
                "a share of the budget stands for epsilon, delta and releases",
                f"share={share} and one of them",
                "Pass a share alone.",
            )
        return _part_of_limits(account, share)
    if epsilon is None and delta is None:
        return replace(total, releases=total.releases if releases is None else releases), account.filter
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
    slack = fraction_down(min(share_of_delta * Fraction(asked.delta), _usual_delta(account, asked.releases)))
    order = account.filter.order
    limit = rdp_within(order=order, epsilon=asked.epsilon, delta=asked.delta, slack=slack)
    if not limit > 0:
        least = epsilon_from_rdp(order=order, rdp=0.0, delta=asked.delta, slack=slack)
        part = max(total.releases, _smallest_part(account.limits, account.left) or 1)
        raise BudgetError(
            f"an epsilon of one release must be above {digits_up(least, 3)} on this account; less is a share of it",
            f"epsilon={asked.epsilon:.3g}",
            f"Ask for a share, like share='1/{part}', and for no epsilon.",
        )
    return asked, Filter(order=order, rdp=limit, delta=slack)


def _part_of_limits(account: Account, share: Fraction) -> tuple[Budget, Filter]:
    """Return the budget of as many releases of this share as it has room for, and the limits of all of them together."""
    number = math.floor(1 / share)
    whole, part = account.limits, share * number
    limits = Filter(
        order=account.filter.order, rdp=fraction_down(whole.rdp * part), delta=fraction_down(whole.delta * part)
    )
    return replace(account.budget, releases=number), limits


def _usual_delta(account: Account, releases: int) -> Fraction:
    """Return the delta that ``releases`` releases of the usual kind may use together."""
    return Fraction(account.filter.delta) * releases / account.budget.releases


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What is written beside a charge, all of it public: who asks, with which mechanism, what, of which data, and why."""

    analyst: str | None = None
    mechanism: str = "{}"
    question: str | None = None
    data_version: str | None = None
    purpose: str | None = None
    topic_digest: str | None = None  # of the part of the question that a later day asks again

    @classmethod
    def check(
        cls,
        *,
        analyst: str | None,
        mechanism: Mapping[str, object],
        question: Mapping[str, object] | None,
        data_version: str | None,
        purpose: str | None,
    ) -> Self:
        """Return it in the form in which it is written, or raise if a part cannot be."""
        topic = question.get("topic") if isinstance(question, Mapping) else None
        return cls(
            analyst=None if analyst is None else reading.check_name("analyst", analyst),
            mechanism=reading.encode_mechanism(mechanism),
            question=None if question is None else reading.encode("a question", question),
            data_version=None if data_version is None else reading.check_name("data version", data_version),
            purpose=None if purpose is None else reading.check_text("purpose", purpose),
            topic_digest=None if topic is None else reading.digest_text(reading.encode("a question", {"topic": topic})),
        )

    def to_columns(self) -> dict[str, str | None]:
        """Return what is written into an entry."""
        digest = None if self.question is None else reading.digest_text(self.question)
        return {**asdict(self), "question_digest": digest}


def reserve(opened: OpenAccount, cost: Cost, *, asked: Asked, known_costs: Set[str]) -> Reservation:
    """Check both limits with the cost added, write the entry, and raise the totals."""
    account, analyst = opened.account, asked.analyst
    if account.closed is not None:
        raise DatasetError(
            "a closed dataset takes no more releases", repr(account.dataset), "Its owner closed it for good."
        )
    if not _covers(account.budget, account.filter):
        raise SchemaError(
            "an account's limits must lie within its budget, before anything is charged",
            repr(account.dataset),
            "Look with `cutline ledger audit`, and restore the ledger from a backup.",
        )
    check_analyst(account, analyst)
    if cost.adjacency != account.adjacency:
        raise AdjacencyError(
            f"{account.dataset!r} is kept under one adjacency relation, {account.adjacency}",
            str(cost.adjacency),
            f"Calibrate the mechanism for {account.adjacency}.",
        )
    needed = charge(cost, account.filter.order)
    spent = account.spent + needed
    if not spent.within(account.limits):
        raise _budget_error(account, needed, whose="the budget", limits=account.limits, spent=account.spent)
    if analyst is not None:
        _charge_analyst(opened, analyst, needed)
    elif opened.row.limited:
        raise ParameterError(
            "a dataset with limits per analyst must be told who asks", "no analyst", "Pass analyst=..., or --analyst."
        )
    entry = write_entry(opened, needed, cost=reading.write_cost(opened.books, cost, known=known_costs), asked=asked)
    return Reservation(id=entry["id"], dataset=account.dataset, analyst=analyst, cost=cost, at=entry["at"])


def write_entry(opened: OpenAccount, needed: Sums, *, cost: str, asked: Asked) -> dict[str, Any]:
    """Write an entry, raise the dataset's totals by it, and link both; return the entry's row."""
    entry: dict[str, Any] = {
        "dataset_id": opened.row.id,
        **asked.to_columns(),
        "cost": cost,
        **needed.to_columns("reserved"),
        "at": reading.current_time(),
        "version": __version__,
    }
    (key,) = opened.books.execute(tables.INSERT_ENTRY, entry).inserted_primary_key or (0,)
    entry["id"] = int(key)
    spent = (opened.account.spent + needed).to_columns("spent")
    opened.books.execute(tables.CHARGE_DATASET, {"dataset_id": opened.row.id, **spent, "more": 1})
    opened.append("reserve", entry_id=entry["id"], record=digest(entry))
    return entry


def check_analyst(account: Account, analyst: str | None) -> None:
    """Raise if the account lists its analysts and this is none of them."""
    if not account.admits(analyst):
        raise ParameterError(
            f"{account.dataset!r} lists its analysts, and takes questions from them alone",
            "no analyst" if analyst is None else f"analyst={analyst!r}",
            "Name one of them, or ask the owner for `cutline ledger allow`.",
        )


def settle(
    opened: OpenAccount,
    reservation: Reservation,
    cost: Cost,
    *,
    answer: str | None,
    cut: int | None,
    known_costs: Set[str],
) -> Account:
    """Write what ran and its answer beside the reserve, lower the totals by the difference; return the account then."""
    books, account = opened.books, opened.account
    key = reservation.id if reading.is_key(reservation.id) else 0
    entry = books.execute(tables.SELECT_ENTRY_ALONE, {"entry_id": key}).first()
    expected = (opened.row.id, reservation.at, reservation.analyst)
    if entry is None or (entry.dataset_id, entry.at, entry.analyst) != expected:
        raise SettlementError(
            "a reservation is settled in the books it was made in",
            f"reservation {reservation.id} of {reservation.dataset!r}",
            "Settle with the ledger that reserved.",
        )
    if not opened.check_open_entry(entry):
        raise SettlementError(
            "a reservation is settled once", f"reservation {reservation.id}", "Reserve again for another release."
        )
    reserved = Sums.from_row(entry, "reserved")
    settled = _check_within_reserve(cost, reserved, account)
    refund = reserved - settled
    if refund != Sums():
        spent = (account.spent - refund).to_columns("spent")
        books.execute(tables.CHARGE_DATASET, {"dataset_id": opened.row.id, **spent, "more": 0})
        if entry.analyst is not None:
            _, before = _find_analyst(account, entry.analyst)
            _write_analyst(opened, entry.analyst, before - refund)
    written = reading.write_cost(books, cost, known=known_costs)
    return write_settlement(opened, entry.id, settled, cost=written, answer=answer, cut=cut)


def write_settlement(
    opened: OpenAccount,
    entry_id: int,
    settled: Sums,
    *,
    cost: str,
    answer: str | None = None,
    cut: int | None = None,
) -> Account:
    """Write a settlement and its answer, and link them; return the account as it is then."""
    settlement = {
        "entry_id": entry_id,
        "cost": cost,
        **settled.to_columns("settled"),
        "at": reading.current_time(),
        "version": __version__,
        "answer_digest": None if answer is None else reading.digest_text(answer),
        "cut": cut,
    }
    opened.books.execute(tables.INSERT_SETTLEMENT, settlement)
    if answer is not None:
        opened.books.execute(tables.INSERT_ANSWER, {"entry_id": entry_id, "answer": answer})
    return opened.append("settle", entry_id=entry_id, record=digest(settlement))


def _check_within_reserve(cost: Cost, reserved: Sums, account: Account) -> Sums:
    """Return what a release is charged for what ran; raise if that is more than was reserved."""
    try:
        settled = charge(cost, account.filter.order)
    except BudgetError as error:
        raise SettlementError(
            "a release costs at most what was reserved", error.value, "Reserve the dearest path."
        ) from None
    if cost.adjacency != account.adjacency or not settled.within(reserved):
        raise SettlementError(
            "a release costs at most what was reserved, under the same adjacency",
            f"rdp={float(settled.rdp):.4g}, delta={float(settled.delta):.4g}, {cost.adjacency}, for a reserve of "
            f"rdp={float(reserved.rdp):.4g}, delta={float(reserved.delta):.4g}, {account.adjacency}",
            "Reserve the dearest path.",
        )
    return settled


def limit_analyst(
    opened: OpenAccount, analyst: str, *, rdp: float | None, delta: float | None, share: float | None
) -> None:
    """Write an analyst's limits; from then on every release of the dataset must name its analyst."""
    limits = _check_analyst_limits(opened.account, rdp=rdp, delta=delta, share=share).to_columns("limit")
    opened.books.execute(tables.LIMIT_ANALYST, {"dataset_id": opened.row.id, "analyst": analyst, **limits})
    opened.books.execute(tables.REQUIRE_ANALYSTS, {"dataset_id": opened.row.id})
    opened.append("limit", detail={"analyst": analyst, **limits})


def allow_analysts(opened: OpenAccount, analysts: Iterable[str]) -> None:
    """Put analysts on the account's list; from then on it takes questions from those on the list alone."""
    opened.books.execute(tables.LIST_ANALYSTS, {"dataset_id": opened.row.id})
    for analyst in analysts:
        opened.books.execute(tables.ALLOW_ANALYST, {"dataset_id": opened.row.id, "analyst": analyst})
        opened.append("allow", detail={"analyst": analyst})


def _check_analyst_limits(account: Account, *, rdp: float | None, delta: float | None, share: float | None) -> Sums:
    """Return an analyst's limits as sums, given as a share of both or as the two themselves; raise if they are neither."""
    whole = account.limits
    share, rdp, delta = (None if n is None else check_number("an analyst's limit", n) for n in (share, rdp, delta))
    if share is not None and rdp is None and delta is None and 0 <= share <= 1:
        part = Fraction(share)
        # Rounded down to floats: a limit is a number that can be shown as it is.
        return Sums(rdp=Fraction(fraction_down(whole.rdp * part)), delta=Fraction(fraction_down(whole.delta * part)))
    if share is None and rdp is not None and delta is not None and rdp >= 0 and delta >= 0:
        limits = Sums(rdp=Fraction(rdp), delta=Fraction(delta)) if max(rdp, delta) < float("inf") else whole + whole
        if limits.within(whole):
            return limits
    raise ParameterError(
        "an analyst's limit is a share between 0 and 1, or an rdp and a delta within the dataset's",
        f"share={share}, rdp={rdp}, delta={delta}",
        f"The dataset has rdp={account.filter.rdp:.4g}, delta={account.filter.delta:.4g}; try share=0.25.",
    )


def _charge_analyst(opened: OpenAccount, analyst: str, needed: Sums) -> None:
    """Raise an analyst's own total, or raise an error if that is above the analyst's own limit."""
    account = opened.account
    limits, before = _find_analyst(account, analyst)
    if limits is not None and not (before + needed).within(limits):
        raise _budget_error(account, needed, whose=f"the limit of {analyst!r}", limits=limits, spent=before)
    _write_analyst(opened, analyst, before + needed)


def _find_analyst(account: Account, analyst: str) -> tuple[Sums | None, Sums]:
    """Return an analyst's own limits, if there are any, and what the analyst has spent."""
    known = (one for one in account.analysts if one.name == analyst)
    return next(((one.limits, one.spent) for one in known), (None, Sums()))


def _write_analyst(opened: OpenAccount, analyst: str, spent: Sums) -> None:
    row = {"dataset_id": opened.row.id, "analyst": analyst, **spent.to_columns("spent")}
    opened.books.execute(tables.CHARGE_ANALYST, row)


@lru_cache(maxsize=64)
def _covers(budget: Budget, limits: Filter) -> bool:
    return budget.covers(limits)


def _budget_error(account: Account, needed: Sums, *, whose: str, limits: Sums, spent: Sums) -> BudgetError:
    """Return the refusal that says what was needed and what is left, as shares, and what would fit."""
    left = limits - spent
    order = account.filter.order
    pairs = ((needed.rdp, left.rdp, limits.rdp), (needed.delta, left.delta, limits.delta))
    need, rest, limit = next(pair for pair in pairs if pair[0] > pair[1])  # the sum that has no room
    value = f"{_percent(need, limit, up=True)} of it, with {_percent(rest, limit)} left"
    room = Sums(rdp=min(left.rdp, account.left.rdp), delta=min(left.delta, account.left.delta))
    epsilon, part = _largest_epsilon(account, room), _smallest_part(account.limits, room)
    fits = f"The largest epsilon that fits is {epsilon} at delta={account.budget.delta:.3g}."
    advice = ["No epsilon fits in what is left." if epsilon is None else fits]
    if part is not None:
        advice.insert(0, f"A release of 1/{part} of the budget fits: share='1/{part}'.")
    if not needed.within(limits):
        advice.append(f"Calibrate the mechanism with the dataset's filter (order {order:.4g}).")
    return BudgetError(f"{whose} must have room for the whole cost before any data is read", value, " ".join(advice))


def _largest_epsilon(account: Account, left: Sums) -> str | None:
    """Return the largest epsilon `allowance` would accept and `left` could pay for, rounded down to four digits."""
    slack = min(Fraction(account.filter.delta), _usual_delta(account, 1))
    if left.rdp <= 0 or left.delta < slack:
        return None
    order, delta = account.filter.order, account.budget.delta
    rdp, slack_float = fraction_down(left.rdp), fraction_down(slack)
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


def _percent(part: Fraction, whole: Fraction, *, up: bool = False) -> str:
    """Return a share in percent to a tenth; what is needed is rounded up, and what is left down."""
    if not whole:
        return "more than all" if part > 0 else "nothing"
    tenths = 1000 * part / whole
    return f"{(math.ceil(tenths) if up else max(0, math.floor(tenths))) / 10:.4g} %"
