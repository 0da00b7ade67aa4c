r"""Which mechanism to take, before anything is spent: what each would need to see, from public numbers alone.

Every registered mechanism is calibrated for the budget in each of its variants. Its exact law then says how large one gap
must be to go out half of the time, or 19 times in 20; and, on a public prior histogram, how much of the true top it would find.

One gap is what a mechanism that finds k looks for. Told a k, a log has a gap exactly there only by luck: what counts is how
many of the k come out of a long tail, as most logs have. Without a prior, plans for a told k are made on such tails.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from cutline.errors import CutlineError, DomainError, LawTooLarge, ParameterError, shortened
from cutline.histogram import BoundedHistogram, ClosedHistogram, Histogram, OpenHistogram
from cutline.mechanisms.base import Mechanism
from cutline.mechanisms.one_gap import FARTHEST, one_gap
from cutline.mechanisms.registry import MECHANISMS
from cutline.outcome import Outcome
from cutline.privacy import Adjacency, Budget
from cutline.sampling import SeededSource

_RUNS = 400  # of a law too large to list
_RUNS_EACH = 20  # on each of the assumed tails
_ALIKE = 0.02  # shares of the top k that differ by no more are told apart by the gap needed
FIRST_ITEM = (100, 1_000, 10_000)  # users of the first item of the assumed tails; the item at rank i has 1/i of them


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One mechanism in one variant, and what it could show at this budget."""

    mechanism: str
    parameters: Mapping[str, Any]  # beyond the defaults
    domains: tuple[str, ...]  # on which it can run
    gap_50: int | None  # smallest single gap that goes out with probability 0.5; None if none does
    gap_95: int | None
    expected_items: float | None  # how many of the true top go out, on the prior or in the mean of the assumed tails
    recall: float | None = None  # on the prior, if there is one

    @property
    def title(self) -> str:
        """The mechanism's name and its parameters in one line."""
        return " ".join([self.mechanism, *(f"{name}={value}" for name, value in self.parameters.items())])

    def to_dict(self) -> dict[str, Any]:
        """Return the option as plain data for JSON."""
        return {**asdict(self), "parameters": dict(self.parameters), "domains": list(self.domains)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """All options, the recommended one first."""

    budget: Budget
    adjacency: Adjacency
    k: int | None
    max_k: int
    options: tuple[Option, ...]

    @property
    def recommended(self) -> Option:
        """The best by recall on the prior; without one by items to expect (alike: by the 95 % gap), or by the gap alone."""
        return self.options[0]

    @property
    def assumption(self) -> str:
        """What the figures assume of the log, in a sentence or two."""
        gap = "The gap needed assumes a single gap at the cut, all others being 0."
        if self.recommended.recall is not None:
            return f"{gap} Items to expect are those on the prior."
        tails = (
            "in the mean of three long tails, whose first item has 100, 1,000 or 10,000 users and whose item at rank i "
            "has 1/i of them"
        )
        if any(option.domains == ("bounded",) for option in self.options):
            tails += " (and where items per user are bounded, nobody has more)"
        if self.k is None:
            return f"{gap} Items to expect are those that go out {tails}."
        return f"{gap} Options are ranked by the items to expect: those of the true top {self.k} that go out, {tails}."

    def recommended_on(self, domain: str) -> Option | None:
        """Return the first option that can run on an "open" or a "closed" domain; None if there is none."""
        return next((option for option in self.options if domain in option.domains), None)

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as plain data for JSON, the recommended option first."""
        return {
            "epsilon": self.budget.epsilon,
            "delta": self.budget.delta,
            "releases": self.budget.releases,
            "adjacency": str(self.adjacency),
            "k": self.k,
            "max_k": self.max_k,
            "recommended": self.recommended.title,
            "assumption": self.assumption,
            "options": [option.to_dict() for option in self.options],
        }


def plan(
    budget: Budget,
    *,
    adjacency: Adjacency = Adjacency.ADD_REMOVE,
    k: int | None = None,
    max_k: int = 100,
    max_items_per_user: int | None = None,
    domain: str | None = None,
    prior: Histogram | None = None,
    accounting: str | None = None,
) -> Plan:
    r"""Compare every mechanism at one budget, without any private data.

    Parameters
    ----------
    budget
        Total (epsilon, delta) and the number of releases that share it.
    adjacency
        Who is protected.
    k
        How many items to release; None compares the mechanisms that find where the top ends, a number those that are given k.
    max_k
        How many counts are looked at.
    max_items_per_user
        In how many items one user would count at most; without it, mechanisms that need such a bound are not compared. Their
        gap is one of bounded counts.
    domain
        ``"open"`` (any item may occur) or ``"closed"`` (the candidates are listed): only mechanisms that can run there are
        compared, and a gap is one of that domain, a closed one of ``max_k`` candidates. By default the prior's; without one
        all are compared.
    prior
        A *public* histogram (last year's published counts, say) on which expected recall of its true cut, the largest gap, is
        computed. Never the private counts: a plan made from them would depend on them.
    accounting
        ``"adaptive"`` calibrates the mechanisms that take it for exactly this number of releases, by the rule of that name.

    Examples
    --------
    >>> found = plan(Budget(epsilon=1.0, delta=1e-6, releases=100), max_k=100)
    >>> found.recommended.title, found.recommended.gap_95
    ('stable-top-k', 337)
    """
    if domain is not None and not (isinstance(domain, str) and domain in ("open", "closed")):
        raise ParameterError("domain must be 'open' or 'closed'", shortened(domain), "Leave it out to compare all.")
    if prior is not None:
        known = "closed" if isinstance(prior, ClosedHistogram) else "open"
        if domain not in (None, known):
            raise DomainError(
                "the prior must be of the domain asked about", f"{known}, not {domain}", "Leave domain out."
            )
        domain = known
    options = []
    for kind in MECHANISMS:
        bound = max_items_per_user if kind.domains == ("bounded",) else None
        runs = domain is None or domain in kind.domains or (bound is not None and domain == "open")
        needs = kind.accepts("max_items_per_user") and bound is None
        if kind.accepts("k") != (k is not None) or not runs or needs:
            continue
        offered: dict[str, int | str | None] = {
            "k": k,
            "max_k": max_k,
            "max_items_per_user": bound,
            "accounting": accounting,
        }
        public = {name: value for name, value in offered.items() if kind.accepts(name) and value is not None}
        for parameters in kind.variants:
            mechanism = kind.calibrate(budget, adjacency=adjacency, **public, **parameters)
            closed = domain == "closed" or "open" not in kind.domains
            gap_50, gap_95 = (
                one_gap(mechanism.chance, max_k=max_k, k=k, success=success, closed=closed, bound=bound)
                for success in (0.5, 0.95)
            )
            logs = [long_tail(first, max_k=max_k, closed=closed, bound=bound) for first in FIRST_ITEM]
            if prior is not None:
                logs = [prior] if bound is None else []  # a prior says nothing of bounded counts
            # Many a mechanism that is told k takes long to list its law; one that finds k does not.
            draws = None if k is None or prior is not None else _RUNS_EACH
            items = [expected_items(mechanism, log, k=k, runs=draws) for log in logs]
            option = Option(
                mechanism=kind.name,
                parameters=parameters,
                domains=kind.domains,
                gap_50=None if gap_50 > FARTHEST else gap_50,
                gap_95=None if gap_95 > FARTHEST else gap_95,
                expected_items=sum(items) / len(items) if items else None,
                recall=None if prior is None or bound else expected_recall(mechanism, prior, max_k=max_k, k=k),
            )
            options.append(option)
    if prior is None and k is not None:
        ranked = _by_items(options, alike=_ALIKE * k)
    else:
        ranked = sorted(options, key=lambda o: (-(o.recall or 0.0), o.gap_95 or FARTHEST))
    return Plan(budget=budget, adjacency=adjacency, k=k, max_k=max_k, options=tuple(ranked))


def _by_items(options: list[Option], *, alike: float) -> list[Option]:
    """Order by the items to expect, and by the gap among those that are within ``alike`` of the best of them."""
    left = sorted(options, key=_items, reverse=True)
    ranked: list[Option] = []
    while left:
        near = [option for option in left if _items(option) >= _items(left[0]) - alike]
        ranked += sorted(near, key=lambda o: o.gap_95 or FARTHEST)
        left = left[len(near) :]
    return ranked


def _items(option: Option) -> float:
    return option.expected_items or 0.0


def long_tail(first: int, *, max_k: int, closed: bool, bound: int | None = None) -> Histogram:
    r"""Return counts that fall like 1/rank, as those of many logs do; a bound on items per user is met by all as they are.

    Examples
    --------
    >>> long_tail(100, max_k=4, closed=False).gaps(4).tolist()
    [50, 17, 8, 5]
    """
    counts = {rank: first // rank for rank in range(1, max_k + 2 - closed)}
    if bound is not None:
        return BoundedHistogram.from_counts(counts, counts, max_items_per_user=bound)
    return ClosedHistogram.from_counts(counts) if closed else OpenHistogram.from_counts(counts, max_k=max_k)


def expected_recall(mechanism: Mechanism, histogram: Histogram, *, max_k: int, k: int | None = None) -> float:
    """Return the expected share of the true top k that is released; k is the largest gap of the histogram by default."""
    cut = k or int(histogram.gaps(max_k).argmax()) + 1
    truth = len(histogram.top(cut))
    if not truth:
        raise CutlineError("a prior must hold at least one item", "", "Leave the prior out.")
    return expected_items(mechanism, histogram, k=cut) / truth


def expected_items(mechanism: Mechanism, histogram: Histogram, *, k: int | None, runs: int | None = None) -> float:
    """Return how many items of the true top k go out, in the mean; with no k, where only true top sets do, how many at all.

    By the exact law; or in the mean of so many ``runs``, of 400 if the law is too large to list.
    """
    truth = None if k is None else frozenset(histogram.top(k))

    def right(outcome: Outcome) -> int:
        items = frozenset(outcome.items or ())
        return len(items if truth is None else items & truth)

    if runs is None:
        try:
            return float(sum(p * right(outcome) for outcome, p in mechanism.law(histogram).items()))
        except LawTooLarge:
            runs = _RUNS
    rng = SeededSource(0)  # a simulation on public counts, repeated exactly
    return sum(right(mechanism.run(histogram, rng)[0]) for _ in range(runs)) / runs
