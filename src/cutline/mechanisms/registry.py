r"""Which mechanisms there are: a new one is a new file plus one line here."""

from __future__ import annotations

import math
from dataclasses import dataclass

from cutline.errors import DomainError, ParameterError, shortened
from cutline.histogram import MOST_RANKS, check_max_k
from cutline.mechanisms.adaptive.joint_stable import JointStable
from cutline.mechanisms.adaptive.stable_top_k import StableTopK
from cutline.mechanisms.base import Mechanism, Value, plain_value
from cutline.mechanisms.closed.joint import JointEM
from cutline.mechanisms.closed.peeling import PeelingEM
from cutline.mechanisms.closed.permute_and_flip import PermuteAndFlip
from cutline.mechanisms.closed.subset import SubsetEM
from cutline.mechanisms.fixed.stable_fixed import StableTopKFixed
from cutline.mechanisms.fixed.test_first import TestFirst
from cutline.mechanisms.open.find_then_choose import FindThenChoose
from cutline.mechanisms.open.limited_domain import LimitedDomain
from cutline.mechanisms.open.limited_rounds import LimitedRounds
from cutline.mechanisms.open.peel_then_test import PeelThenTest
from cutline.mechanisms.open.table_threshold import TableThreshold
from cutline.mechanisms.open.top_stable import TopStable
from cutline.privacy import Adjacency, Budget
from cutline.privacy.curves.base import check_whole

# Found on public logs [docs/reproduce/long-tail.md]. Above _FEW coins on bounded counts find more than draws do, whatever the
# bound. Above _LARGE times the root of the epsilon of one release, draws with one test pass it too rarely, and what a bottom
# left over is worth more. From the epsilon _AMPLE on a cliff a little under k is worth more up to one above _SMALL. Below it
# that holds up to _SMALL, for a single release, whose few draws are charged exactly; of several, draws with one test find more.
_SMALL, _FEW, _LARGE, _AMPLE = 2, 15, 200, 0.4

MECHANISMS: tuple[type[Mechanism], ...] = (
    StableTopK,
    JointStable,
    TestFirst,
    StableTopKFixed,
    PeelingEM,
    PermuteAndFlip,
    FindThenChoose,
    PeelThenTest,
    TableThreshold,
    LimitedRounds,
    LimitedDomain,
    TopStable,
    JointEM,
    SubsetEM,
)


def mechanism(name: str) -> type[Mechanism]:
    """Return the mechanism class of that name; an unknown name is refused."""
    by_name = {kind.name: kind for kind in MECHANISMS}
    if not isinstance(name, str) or name not in by_name:
        raise ParameterError(
            "the mechanism must be a registered one", shortened(name), f"Registered: {', '.join(by_name)}."
        )
    return by_name[name]


def calibrate(
    name: str,
    budget: Budget,
    *,
    adjacency: Adjacency | str = Adjacency.ADD_REMOVE,
    closed: bool | None = None,
    candidates: int | None = None,
    k: int | None = None,
    max_k: int | None = None,
    **declared: Value | None,
) -> Mechanism:
    """Return the registered mechanism of that name, checked and calibrated from public numbers alone.

    ``closed`` says whether it will be given a closed domain, None if that is not known yet. ``candidates``, ``k`` and
    ``max_k`` are passed on if the mechanism declares them; ``declared`` are its own parameters, None meaning not given.
    """
    kind, parameters = check_parameters(name, closed=closed, candidates=candidates, k=k, max_k=max_k, **declared)
    return kind.calibrate(budget, adjacency=Adjacency.parse(adjacency), **parameters)


def check_parameters(
    name: str,
    *,
    closed: bool | None,
    candidates: int | None,
    k: int | None,
    max_k: int | None,
    **declared: Value | None,
) -> tuple[type[Mechanism], dict[str, Value]]:
    """Return the mechanism of that name and its parameters, or refuse for a public reason."""
    kind = mechanism(name)
    if max_k is not None:
        check_max_k(max_k)
    bound = declared.get("max_items_per_user")
    if kind.domains == ("bounded",):
        if bound is None or closed:
            raise DomainError(
                f"{name} works on an open domain with a bound on items per user",
                f"max_items_per_user={bound}" + (" and candidates" if closed else ""),
                "Pass max_items_per_user, and no candidates.",
            )
        closed = None
    domain = "closed" if closed else "open"
    if closed is not None and domain not in kind.domains:
        raise DomainError(
            f"{name} works on a domain that is {' or '.join(kind.domains)}",
            f"a domain that is {domain}",
            "Leave the candidates out." if closed else "List the candidates, or take limited-domain.",
        )
    accepted = {parameter.name for parameter in kind.parameters}
    given = {name: plain_value(value) for name, value in declared.items() if value is not None}
    anywhere = {parameter.name for other in MECHANISMS for parameter in other.parameters}
    unknown = sorted({*given} - accepted | {*declared} - anywhere)
    if unknown:
        known = sorted(accepted | {"adjacency"})
        raise ParameterError(
            f"{name} takes only its own parameters", ", ".join(unknown), f"It takes {', '.join(known)}."
        )
    if ("k" in accepted) != (k is not None):
        raise ParameterError(
            f"{name} must be told k" if k is None else f"{name} finds k by itself",
            f"k={shortened(k)}",
            "Pass k." if k is None else "Leave k out, or take another mechanism, like test-first.",
        )
    offered = {"k": k, "max_k": max_k, "candidates": candidates}
    offers = {name: plain_value(value) for name, value in offered.items() if name in accepted and value is not None}
    return kind, given | offers


def needs_no_bound(name: str) -> bool:
    """Say whether a mechanism counts every user in all items."""
    return not mechanism(name).accepts("max_items_per_user")


def default_max_k(k: int | None) -> int:
    """Return how many ranks are counted unless the caller says."""
    return min(max(100, 10 * k), MOST_RANKS) if isinstance(k, int) else 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Default:
    """The mechanism for a question that names none, and why; both follow from public numbers."""

    name: str
    reason: str


def default_mechanism(
    k: int | None,
    *,
    closed: bool = False,
    max_items_per_user: int | None = None,
    budget: Budget | None = None,
    bounded_counts: bool = False,
) -> Default:
    r"""Return the mechanism for a question, by k, in how many items one user counts at most, and the budget.

    Draws cost more the more items are wanted, coins the more items a user may move; where one becomes better than the other
    was measured on public logs [docs/reproduce/long-tail.md]. Of the budget (by default one release at epsilon 1) the epsilon
    of one release counts, as it composes: epsilon over the root of the number of releases. ``bounded_counts`` says that counts
    after the bound are asked for, which only a mechanism that uses the bound has.

    Examples
    --------
    >>> [default_mechanism(k, max_items_per_user=50).name for k in (2, 10, 50)]
    ['test-first', 'peel-then-test', 'find-then-choose']
    >>> [default_mechanism(200, budget=Budget(epsilon=epsilon, delta=1e-6)).name for epsilon in (0.3, 1.0)]
    ['test-first', 'peel-then-test']
    """
    bound = max_items_per_user
    if k is None:
        if bound is None:
            return Default(name="stable-top-k", reason="k is to be found")
        return Default(name="table-threshold", reason="without k, all items that have many users are asked for")
    k = check_whole("k", k, "Try k=10.", most=MOST_RANKS)
    if closed:
        return Default(name="test-first", reason="the candidates are listed")
    if bound is not None and k > _FEW:
        return Default(
            name="find-then-choose", reason=f"k = {k} is above {_FEW}, and each user counts in at most {bound} items"
        )
    if bound is not None and bounded_counts:
        return Default(
            name="find-then-choose", reason=f"counts are asked for in which each user counts in at most {bound} items"
        )
    unbounded = "" if bound is None else f"; up to k = {_FEW} more is found by counting each user in all items"
    each = 1.0 if budget is None else budget.epsilon / math.sqrt(budget.releases)
    alone = budget is None or budget.releases == 1
    small = _SMALL + 1 if each >= _AMPLE else _SMALL * alone
    large = max(_FEW, int(_LARGE * math.sqrt(each)))
    at = f"k = {k} is {{}} for an epsilon of {each:.2g} a release" + unbounded
    if small < k <= large:
        return Default(name="peel-then-test", reason=at.format(f"between {small + 1} and {large}"))
    return Default(name="test-first", reason=at.format("small" if k <= small else "large"))
