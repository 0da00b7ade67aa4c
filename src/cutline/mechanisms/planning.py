r"""Which mechanism to take, and at which epsilon, before anything is spent: from public numbers alone.

Every registered mechanism that can run is calibrated for the budget in each of its variants. Its exact law then says how large
one gap must be to go out half of the time, or 19 times in 20; and, on a public prior histogram, how much of the true top it
would find. `cutline.mechanisms.epsilons` asks the same at other epsilons, and searches the one that is enough.

One gap is what a mechanism that finds k looks for. Told a k, a log has a gap exactly there only by luck: what counts is how
many of the k come out of a long tail, as most logs have. Without a prior, plans for a told k are made on such tails.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from cutline.errors import CutlineError, DomainError, ParameterError, shortened
from cutline.histogram import ClosedHistogram, Histogram
from cutline.mechanisms import registry
from cutline.mechanisms.base import Mechanism
from cutline.mechanisms.epsilons import Curve, Variant, Wanted, check_epsilons, check_want, draw_curves, search_epsilon
from cutline.mechanisms.expectations import FIRST_ITEM, SHAPES, Expectation, Trial, example, long_tail
from cutline.mechanisms.one_gap import FARTHEST, one_gap
from cutline.mechanisms.planned import check_accounting
from cutline.notebook import Shown
from cutline.privacy import Adjacency, Budget
from cutline.privacy.curves.base import check_flag

_ERROR = 0.01  # standard error of a recall on the prior
_ALIKE = 0.02  # shares of the top k that differ by no more are told apart by the gap needed
_AS_GOOD = 0.03  # the default, chosen on public logs, is taken unless it finds less than the best by more than that

Progress = Callable[[float], None]


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
    expected_k: float | None = None  # on the prior, where a mechanism that finds k would cut, if it shows a set

    @property
    def title(self) -> str:
        """The mechanism's name and its parameters in one line."""
        return " ".join([self.mechanism, *(f"{name}={value}" for name, value in self.parameters.items())])

    def to_dict(self) -> dict[str, Any]:
        """Return the option as plain data for JSON."""
        return {**asdict(self), "parameters": dict(self.parameters), "domains": list(self.domains)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan(Shown):
    """All options, the recommended one first; how they do at other epsilons, and which epsilon is enough, if that was asked."""

    budget: Budget
    adjacency: Adjacency
    k: int | None
    max_k: int
    options: tuple[Option, ...]
    domain: str | None = None  # "open" or "closed", if only mechanisms that can run there were compared
    redrawn: bool = False  # whether recalls are those of logs drawn around the public counts
    left_out: Mapping[str, str] = field(default_factory=dict)  # mechanisms that cannot run here, and why
    curves: tuple[Curve, ...] = ()  # recall and length of the list against epsilon
    wanted: tuple[Wanted, ...] = ()  # the smallest epsilon that is enough, on each log

    @property
    def recommended(self) -> Option:
        """The best by recall on the prior; without one the default, or what finds more of a told k; else by the gap."""
        return self.options[0]

    @property
    def assumption(self) -> str:
        """What the figures assume of the log, in a few sentences."""
        gap = "The gap needed assumes a single gap at the cut, all others being 0."
        if self.recommended.recall is not None:
            return f"{gap} Items to expect are those on the prior. {self.tried_on}"
        tails = (
            "in the mean of three long tails, whose first item has 100, 1,000 or 10,000 users and whose item at rank i "
            "has 1/i of them"
        )
        if any(option.domains == ("bounded",) for option in self.options):
            tails += " (and where items per user are bounded, nobody has more)"
        items = f"Items to expect are those that go out {tails}."
        if self.k is not None:
            items = f"Options are ranked by the items to expect: those of the true top {self.k} that go out, {tails}."
            if self.domain != "closed":
                items += " A default that finds as much but for 3 % of them comes first: it was chosen on public logs."
        return f"{gap} {items}" + (f" {self.tried_on}" if self.curves or self.wanted else "")

    @property
    def tried_on(self) -> str:
        """On which public counts recalls are computed, and of what."""
        top = "all above the largest gap" if self.k is None else f"the true top {self.k}"
        logs = "on a log that has exactly these counts"
        if self.redrawn:
            logs = "in the mean of logs whose counts vary around these like Poisson draws"
        if self.recommended.recall is not None:
            return f"Recall is the share of the prior's top, {top}, that goes out {logs}."
        shapes = "; ".join(f"{name}: {words}" for name, words in SHAPES.items())
        unlisted = "" if self.domain else ", of items that nobody has listed"
        return (
            f"Recall is the share of the top, {top}, that goes out {logs}. Without a prior, epsilons are tried on three "
            f"example shapes{unlisted}. {shapes[0].upper()}{shapes[1:]}. With ten times the users, about a tenth of the "
            "epsilon finds as much."
        )

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
            "domain": self.domain,
            "redrawn": self.redrawn,
            "recommended": self.recommended.title,
            "assumption": self.assumption,
            "options": [option.to_dict() for option in self.options],
            "left_out": dict(self.left_out),
            "curves": [curve.to_dict() for curve in self.curves],
            "wanted": [wanted.to_dict() for wanted in self.wanted],
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
    mechanism: str | None = None,
    epsilons: Sequence[float] = (),
    want: float | None = None,
    redraw: bool = False,
    progress: Progress | None = None,
) -> Plan:
    r"""Compare every mechanism that can run, without any private data; one that cannot is left out with its reason.

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
    mechanism
        Compare this one alone.
    epsilons
        Also try these epsilons, for as many releases and with the same delta: `Plan.curves`. On the prior, or without one on
        three example shapes, of items that nobody has listed unless the domain is closed.
    want
        Also search the smallest epsilon at which this share of the true top goes out, in the mean: `Plan.wanted`.
    redraw
        Expect logs that are only like the prior or the shapes: every draw is made on counts that are Poisson draws around the
        public ones, and the true top is that of the draw. Without it, the log is taken to have exactly the public counts.
    progress
        Told, now and then, the share of the work that is done, from 0 to 1.

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
    if mechanism is not None:
        registry.mechanism(mechanism)  # refuses an unknown name
    if accounting is not None:
        check_accounting(accounting, None)
    check_flag("redraw", redraw)
    epsilons, want = check_epsilons(epsilons), check_want(want)
    question = _Question(
        adjacency=adjacency,
        k=k,
        max_k=max_k,
        bound=max_items_per_user,
        domain=domain,
        accounting=accounting,
        redraw=redraw,
    )
    tell = progress or (lambda _: None)
    share = 0.3 if epsilons or want else 1.0
    options: list[Option] = []
    variants: list[Variant] = []
    left_out: dict[str, str] = {}
    refusals: list[CutlineError] = []
    kinds = [kind for kind in registry.MECHANISMS if mechanism in (None, kind.name)]
    for done, kind in enumerate(kinds):
        tell(share * done / len(kinds))
        if reason := question.reason(kind):
            left_out[kind.name] = reason
            continue
        try:
            for parameters in kind.variants:
                variants.append(question.variant(kind, parameters))
                options.append(_option(kind, variants[-1], budget, question, prior))
        except CutlineError as refusal:
            del variants[len(options) :]
            left_out[kind.name] = str(refusal)
            refusals.append(refusal)
    if not options:
        reasons = "; ".join(f"{name} {reason}" for name, reason in left_out.items())
        raise refusals[0] if refusals else ParameterError("a mechanism must be able to run", reasons, "Ask otherwise.")
    if prior is None and k is not None:
        ranked = _by_items(options, alike=_ALIKE * k)
        if domain != "closed":
            default = registry.default_mechanism(k, max_items_per_user=max_items_per_user, budget=budget).name
            ranked = _with_default(ranked, default, as_good=_AS_GOOD * k)
    else:
        ranked = sorted(options, key=lambda o: (-(o.recall or 0.0), o.gap_95 or FARTHEST))
    found = Plan(
        budget=budget,
        adjacency=adjacency,
        k=k,
        max_k=max_k,
        options=tuple(ranked),
        domain=domain,
        redrawn=redraw,
        left_out=left_out,
    )
    logs = question.logs(prior)
    # Listed candidates need less epsilon, and are for those who asked for a closed domain.
    variants = [variant for variant in variants if domain or not variant.closed] or variants
    curves = draw_curves(variants, logs, budget, epsilons, k=k, progress=lambda done: tell(share + 0.35 * done))
    wanted: tuple[Wanted, ...] = ()
    if want is not None:
        wanted = search_epsilon(
            variants, logs, budget, want, curves=curves, k=k, progress=lambda done: tell(0.65 + 0.35 * done)
        )
    tell(1.0)
    return replace(found, curves=curves, wanted=wanted)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Question:
    """What is asked of every mechanism alike."""

    adjacency: Adjacency
    k: int | None
    max_k: int
    bound: int | None
    domain: str | None
    accounting: str | None
    redraw: bool

    def reason(self, kind: type[Mechanism]) -> str | None:
        """Return why a mechanism is not compared, from its declaration alone; None if it is."""
        bounded = kind.domains == ("bounded",)
        if kind.accepts("k") and self.k is None:
            return "is told how many items to release: give k"
        if not kind.accepts("k") and self.k is not None:
            return "finds how many items to release by itself: leave k out"
        if bounded and self.domain != "closed" and self.bound is None:
            return "needs a bound on the items of one user: give max_items_per_user"
        if not bounded and self.domain is not None and self.domain not in kind.domains:
            return (
                "needs candidates that are listed" if self.domain == "open" else "is for items that nobody has listed"
            )
        return "is for items that nobody has listed" if bounded and self.domain == "closed" else None

    def variant(self, kind: type[Mechanism], parameters: Mapping[str, Any]) -> Variant:
        """Return what calibrates a mechanism in one of its variants."""
        bound = self.bound if kind.domains == ("bounded",) else None
        offered: dict[str, int | str | None] = {
            "k": self.k,
            "max_k": self.max_k,
            "max_items_per_user": bound,
            "accounting": self.accounting,
        }
        public = {name: value for name, value in offered.items() if kind.accepts(name) and value is not None}

        def calibrate(budget: Budget) -> Mechanism:
            return kind.calibrate(budget, adjacency=self.adjacency, **public, **parameters)

        closed = self.domain == "closed" or "open" not in kind.domains
        return Variant(
            mechanism=kind.name,
            parameters=parameters,
            closed=closed and bound is None,
            bound=bound,
            redraw=self.redraw,
            calibrate=calibrate,
        )

    def logs(self, prior: Histogram | None) -> Callable[[Variant], Mapping[str, Histogram]]:
        """Return the public counts that epsilons are tried on, by name, for any variant."""

        def logs_of(variant: Variant) -> dict[str, Histogram]:
            if prior is not None:
                return {} if variant.bound else {"prior": prior}  # a prior says nothing of bounded counts
            return {
                shape: example(shape, k=self.k, max_k=self.max_k, closed=variant.closed, bound=variant.bound)
                for shape in SHAPES
            }

        return logs_of


def _option(
    kind: type[Mechanism], variant: Variant, budget: Budget, question: _Question, prior: Histogram | None
) -> Option:
    """Return what a variant needs to see at this budget, and what to expect of it."""
    mechanism, k, max_k = variant.calibrate(budget), question.k, question.max_k
    gaps = [
        one_gap(mechanism.chance, max_k=max_k, k=k, success=success, closed=variant.closed, bound=variant.bound)
        for success in (0.5, 0.95)
    ]
    items, on_prior = None, None
    if prior is None:
        tails = [long_tail(first, max_k=max_k, closed=variant.closed, bound=variant.bound) for first in FIRST_ITEM]
        items = sum(_found(Trial(mechanism, tail, k=k).expect(error=1.0), k, tail) for tail in tails) / len(tails)
    elif variant.bound is None:
        mechanism.check_domain(prior)
        on_prior = Trial(mechanism, prior, k=k, redraw=variant.redraw).expect(error=_ERROR)
        items = _found(on_prior, k, prior)
    return Option(
        mechanism=kind.name,
        parameters=variant.parameters,
        domains=kind.domains,
        gap_50=None if gaps[0] > FARTHEST else gaps[0],
        gap_95=None if gaps[1] > FARTHEST else gaps[1],
        expected_items=items,
        recall=None if on_prior is None else on_prior.recall,
        expected_k=None if on_prior is None or k is not None else on_prior.k,
    )


def _found(expected: Expectation, k: int | None, histogram: Histogram) -> float:
    """Return how many items of the true top k go out; with no k, where only true top sets do, how many at all."""
    return expected.items if k is None else expected.recall * len(histogram.top(k))


def _by_items(options: list[Option], *, alike: float) -> list[Option]:
    """Order by the items to expect, and by the gap among those that are within ``alike`` of the best of them."""
    left = sorted(options, key=_items, reverse=True)
    ranked: list[Option] = []
    while left:
        near = [option for option in left if _items(option) >= _items(left[0]) - alike]
        ranked += sorted(near, key=lambda o: o.gap_95 or FARTHEST)
        left = left[len(near) :]
    return ranked


def _with_default(ranked: list[Option], default: str, *, as_good: float) -> list[Option]:
    """Put the default before all others that can run on an open domain, if it finds as much as the best of those."""
    opened = [option for option in ranked if option.domains != ("closed",)]
    mine = next((option for option in opened if option.mechanism == default), None)
    if mine is None or _items(mine) < max(map(_items, opened)) - as_good:
        return ranked
    place = ranked.index(opened[0])
    return [*ranked[:place], mine, *(option for option in ranked[place:] if option is not mine)]


def _items(option: Option) -> float:
    return option.expected_items or 0.0
