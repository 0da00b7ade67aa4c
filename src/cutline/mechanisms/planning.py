r"""Which mechanism to take, before anything is spent: what each would need to see, from public numbers alone.

Every registered mechanism is calibrated for the budget in each of its variants. Its exact law then says how large one gap
must be to go out half of the time, or 19 times in 20; and, on a public prior histogram, how much of the true top it would find.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from cutline.errors import CutlineError, DomainError, LawTooLarge, ParameterError
from cutline.histogram import ClosedHistogram, Histogram
from cutline.mechanisms.base import Mechanism
from cutline.mechanisms.one_gap import FARTHEST, one_gap
from cutline.mechanisms.registry import MECHANISMS
from cutline.privacy import Adjacency, Budget
from cutline.sampling import SeededSource

_RUNS = 400  # of a law too large to list


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One mechanism in one variant, and what it could show at this budget."""

    mechanism: str
    parameters: Mapping[str, Any]  # beyond the defaults
    domains: tuple[str, ...]  # on which it can run
    gap_50: int | None  # smallest single gap that goes out with probability 0.5; None if none does
    gap_95: int | None
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
        """The option with the highest expected recall on the prior; without one, with the smallest 95 % gap."""
        return self.options[0]

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
    >>> dict(found.recommended.parameters), found.recommended.gap_95
    ({}, 337)
    """
    if domain not in (None, "open", "closed"):
        raise ParameterError("domain must be 'open' or 'closed'", f"{domain!r}", "Leave it out to compare all.")
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
            option = Option(
                mechanism=kind.name,
                parameters=parameters,
                domains=kind.domains,
                gap_50=None if gap_50 > FARTHEST else gap_50,
                gap_95=None if gap_95 > FARTHEST else gap_95,
                recall=None if prior is None or bound else expected_recall(mechanism, prior, max_k=max_k, k=k),
            )
            options.append(option)
    ranked = sorted(options, key=lambda o: (-(o.recall or 0.0), o.gap_95 or FARTHEST))
    return Plan(budget=budget, adjacency=adjacency, k=k, max_k=max_k, options=tuple(ranked))


def expected_recall(mechanism: Mechanism, histogram: Histogram, *, max_k: int, k: int | None = None) -> float:
    """Return the expected share of the true top k that is released; k is the largest gap of the histogram by default."""
    cut = k or int(histogram.gaps(max_k).argmax()) + 1
    truth = frozenset(histogram.top(cut))
    if not truth:
        raise CutlineError("a prior must hold at least one item", "", "Leave the prior out.")
    try:
        found = [(outcome.items or (), chance) for outcome, chance in mechanism.law(histogram).items()]
    except LawTooLarge:
        rng = SeededSource(0)  # a simulation on public counts, repeated exactly
        found = [(mechanism.release(histogram, rng=rng).items or (), 1 / _RUNS) for _ in range(_RUNS)]
    return float(sum(chance * len(truth & frozenset(items)) / len(truth) for items, chance in found))
