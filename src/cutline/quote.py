r"""The front office: everything about a release that is settled before a row is read, and then the one way through.

::

    ask -> quote -> pay -> count -> draw -> settle -> release

`quote` takes a question and settles what is public: which mechanism with which parameters, what it costs at worst, who is
protected, whose budget pays, and what is left of it afterwards. It reads no row, so a refusal never depends on the data.
`Quote.run` goes the rest of the way. `cutline.top`, `cutline.top_by`, `cutline.label` and `cutline.PATEClassifier` all pass
through here: no other verb of the package pays.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Generic, Unpack, overload

import numpy as np

from cutline.ask import Ask
from cutline.counting import Log, Progress, Question, ask, bind, group_by
from cutline.counting.question import Columns, Grouping
from cutline.errors import CutlineError, ParameterError
from cutline.grouped import GroupedRelease, of_table
from cutline.histogram import ClosedHistogram, Histogram, Item, item_key
from cutline.mechanisms import Mechanism, StableTopK
from cutline.mechanisms.adaptive.hinted import HintedTopK, check_hint
from cutline.mechanisms.noisy_counts import NoisyCounts, calibrate_with_counts, count_bound, with_counts
from cutline.mechanisms.one_gap import say_by_chance
from cutline.mechanisms.planned import check_plan
from cutline.mechanisms.registry import check_parameters, default_max_k, default_mechanism, needs_no_bound
from cutline.notebook import Shown
from cutline.payment import Answer, Payment, Terms, agree_terms
from cutline.privacy import Adjacency, Budget, Cost
from cutline.release import Release, describe_cost, digest_items, state_guarantee
from cutline.sampling import Source
from cutline.termination import clean_termination
from cutline.work import Work


@dataclass(frozen=True, slots=True, kw_only=True)
class Quote(Shown, Generic[Answer]):
    r"""Everything that is settled before a row is read; all of it is public.

    Parameters
    ----------
    work
        What will run, calibrated.
    terms
        Who is protected, the budget, who pays, and where the random bits come from.
    reason
        Why this mechanism was taken.

    Examples
    --------
    >>> asked = quote(k=3, max_k=20, epsilon=1.0)
    >>> asked.mechanism["name"], asked.guarantee[:45]
    ('test-first', '(1, 1e-06)-DP for one user joining or leaving')
    >>> asked.run({"castle": 900, "harbour": 880, "museum": 870, "kiosk": 12}).listed()
    ['castle', 'harbour', 'museum']
    """

    work: Work[Answer]
    terms: Terms
    reason: str = ""

    @property
    def mechanism(self) -> Mapping[str, Any]:
        """Name and public parameters of what will run."""
        return self.work.describe()

    @property
    def cost(self) -> Cost:
        """The cost of the dearest path: what is reserved."""
        return self.work.cost

    @property
    def budget(self) -> Budget:
        """What all releases of this kind may spend together."""
        return self.work.planned(self.terms.budget)

    @property
    def guarantee(self) -> str:
        """The sentence that will come with the answer, whatever the answer is."""
        return self.work.promise(self.budget, seeded=self.terms.rng.seeded)

    @property
    def question(self) -> dict[str, Any]:
        """What is asked, as plain public data; equal questions about one version of the data are paid for once."""
        # Parameters that are not described, like the parts of a budget, show in what the steps cost.
        asked = self.work.as_asked()
        cost = hashlib.sha256(json.dumps(asked.cost.to_dict(), sort_keys=True).encode()).hexdigest()
        return self.terms.complete({**asked.ask(), "mechanism": asked.describe(), "cost": cost})

    def run(self, source: Any, *, progress: Progress | None = None) -> Answer:
        """Pay, count, draw, settle: return what became public. Every run is a release of its own, and is paid for.

        With a ledger the dearest path is on the books before a row is read. Whatever fails afterwards leaves that charge, and
        if only the settling fails, `UnsettledError` carries the answer. If the terms name a version of the data and the books
        hold the answer to this question about it, that one is returned instead, and the source is not opened.
        """
        with self.terms.opened():
            question = {} if self.terms.books is None else self.question
            kept = self.terms.find(question, self.work.read)
            if kept is not None:
                return kept
            bound = self.work.bind(source)  # a typo in a name is refused before it costs anything
            reservation = self.terms.pay(self.cost, mechanism=self.mechanism, question=question)
            with clean_termination():
                counted = self.work.count(bound, progress)
                answer = self.work.draw(counted, self.terms.rng)
                del counted  # an engine that keeps it is open until then
            return self.terms.settle(reservation, answer)

    def to_dict(self, *, full: bool = False) -> dict[str, Any]:
        """Return it as plain data: what would be charged, to whom, and what would be left."""
        budget, account = self.budget, self.terms.account
        return {
            **describe_cost(self.mechanism, cost=self.cost, budget=budget, delta=budget.delta, full=full),
            "reason": self.reason,
            "by_chance": self.work.say_by_chance(),
            "guarantee": self.guarantee,
            "seeded": self.terms.rng.seeded,
            "ledger": None if account is None else account.to_dict(),
            "ledger_after": None if account is None else account.after(self.cost).to_dict(),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class TopWork(Work[Release]):
    """One top set of a log."""

    question: Question
    mechanism: Mechanism
    noisy: NoisyCounts | None
    max_k: int  # how many ranks are counted
    topic: Mapping[str, Any] | None = None  # what a later day asks again, whatever its share; None if no cut is found
    unhinted: TopWork | None = None  # what would run without the hint that the books gave

    @property
    def cost(self) -> Cost:
        return self.mechanism.cost if self.noisy is None else self.mechanism.cost + self.noisy.cost

    def describe(self) -> dict[str, Any]:
        return self.mechanism.describe() | ({} if self.noisy is None else {"counts": self.noisy.describe()})

    def promise(self, budget: Budget, *, seeded: bool) -> str:
        return state_guarantee(self.describe(), worst=self.cost, budget=budget, seeded=seeded)

    def ask(self) -> dict[str, Any]:
        asked = self.question
        # Candidates are a set: what comes out does not depend on the order they are listed in.
        listed = None if asked.candidates is None else digest_items(sorted(asked.candidates, key=item_key))
        # All other fields, so that a new one cannot be forgotten here; how much memory there is changes nothing.
        plain = {field.name: getattr(asked, field.name) for field in fields(asked)}
        del plain["grouping"], plain["memory_limit"]
        return {"kind": "top", **plain, "candidates": listed, "max_k": self.max_k, "topic": self.topic}

    def as_asked(self) -> TopWork:
        return self.unhinted or self

    def planned(self, budget: Budget) -> Budget:
        return self.mechanism.budget or budget if isinstance(self.mechanism, HintedTopK) else budget

    def say_by_chance(self) -> str | None:
        size = len(self.question.candidates or ())
        k = self.mechanism.describe().get("k") if size else None
        if k is None or k >= size:
            return None
        try:
            return say_by_chance(self.mechanism.chance, k=k, candidates=size)
        except CutlineError:  # a law that is too large: nothing is said
            return None

    def read(self, record: Mapping[str, Any]) -> Release:
        return Release.from_record(record)

    def bind(self, source: object) -> Log:
        return bind(source, self.question)

    def count(self, bound: Log, progress: Progress | None) -> list[Histogram]:
        return bound.count(self.max_k, progress)

    def draw(self, counted: list[Histogram], rng: Source) -> Release:
        (histogram,) = counted
        return self.draw_one(histogram, rng)

    def draw_one(self, histogram: Histogram, rng: Source) -> Release:
        """Draw the release of one histogram, with noisy counts of what comes out if they were asked for."""
        release = self.mechanism.release(histogram, rng=rng)
        return release if self.noisy is None else with_counts(release, histogram, self.noisy, rng=rng)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableWork(Work[GroupedRelease]):
    """One top set for each group of a log; one user counts in at most ``touched`` of them."""

    each: TopWork
    grouping: Grouping
    touched: int
    budget: Budget

    @property
    def cost(self) -> Cost:
        return self.touched * self.each.cost

    def describe(self) -> dict[str, Any]:
        return self.each.describe() | {"groups": len(self.grouping.groups), "groups_per_user": self.touched}

    def promise(self, budget: Budget, *, seeded: bool) -> str:
        one = state_guarantee(self.describe(), worst=self.cost, budget=budget, seeded=seeded)
        return of_table(one, by=self.grouping.column, groups=len(self.grouping.groups), touched=self.touched)

    def ask(self) -> dict[str, Any]:
        limit, salts = self.grouping.limit, self.grouping.salts
        return {
            **self.each.ask(),
            "kind": "table",
            "by": self.grouping.column,
            "groups": digest_items(self.grouping.groups),
            "max_groups_per_user": limit,
            "key": None if limit is None else digest_items(salts)["sha256"],  # it chooses the groups of a user
        }

    def say_by_chance(self) -> str | None:
        return self.each.say_by_chance()

    def read(self, record: Mapping[str, Any]) -> GroupedRelease:
        return GroupedRelease.from_record(record)

    def bind(self, source: object) -> Log:
        return self.each.bind(source)

    def count(self, bound: Log, progress: Progress | None) -> list[Histogram]:
        return self.each.count(bound, progress)

    def draw(self, counted: list[Histogram], rng: Source) -> GroupedRelease:
        drawn = [self.each.draw_one(histogram, rng) for histogram in counted]
        return GroupedRelease(
            by=self.grouping.column,
            releases=dict(zip(self.grouping.groups, drawn, strict=True)),
            groups_per_user=self.touched,
            budget=self.budget,
            reserved=self.cost,
        )


@overload
def quote(*, by: None = None, **ask: Unpack[Ask]) -> Quote[Release]: ...
@overload
def quote(
    *,
    by: str,
    groups: Iterable[Item] | None = None,
    max_groups_per_user: int | None = None,
    key: str | bytes | None = None,
    **ask: Unpack[Ask],
) -> Quote[GroupedRelease]: ...
def quote(
    *,
    by: str | None = None,
    groups: Iterable[Item] | None = None,
    max_groups_per_user: int | None = None,
    key: str | bytes | None = None,
    k: int | None = None,
    max_k: int | None = None,
    mechanism: str | None = None,
    counts: bool | str = False,
    hint: int | bool | None = None,
    **others: Any,
) -> Quote[Release] | Quote[GroupedRelease]:
    r"""Settle everything public about a release: mechanism, price, guarantee, whose account; no row is read.

    The parameters are those of `cutline.top`, and with ``by`` those of `cutline.top_by`.

    Raises
    ------
    CutlineError
        For a public reason only: a parameter, the caller's own lists, the ledger.
    """
    paying = {name: others.pop(name) for name in Payment.__annotations__ if name in others}
    columns = {name: others.pop(name) for name in Columns.__annotations__ if name in others}
    grouping = None
    if any(given is not None for given in (by, groups, max_groups_per_user, key)):
        grouping = group_by(by=by, groups=groups, max_groups_per_user=max_groups_per_user, key=key)
    question = ask(**columns, grouping=grouping)
    size = None if question.candidates is None else len(question.candidates)
    terms = agree_terms(unit=question.user, **paying)
    if (
        question.user is None and question.item is not None and terms.account is not None
    ):  # ready counts have no columns
        question = replace(question, user=terms.account.unit)
    touched = 1
    if grouping is not None:
        if terms.adjacency is not Adjacency.ADD_REMOVE:
            raise ParameterError(
                "a table by groups protects a user joining or leaving",
                f"{terms.adjacency}: a user whose rows change can leave some groups and enter others",
                "Take add-remove.",
            )
        touched = grouping.limit or len(grouping.groups)
    each = replace(terms.budget, releases=terms.budget.releases * touched)
    bound = question.max_items_per_user
    after_bound = isinstance(counts, str) and counts == "bounded"
    default = default_mechanism(
        k, closed=size is not None, max_items_per_user=bound, budget=each, bounded_counts=after_bound
    )
    if mechanism is None and needs_no_bound(default.name):
        question = replace(question, max_items_per_user=None, vote_parts=None)
    others |= {"max_items_per_user": question.max_items_per_user, "vote_parts": question.vote_parts}
    kind, parameters = check_parameters(
        default.name if mechanism is None else mechanism,
        closed=size is not None,
        candidates=size,
        k=k,
        max_k=max_k,
        **others,
    )
    if "accounting" in parameters:
        check_plan(parameters["accounting"], grouped=grouping is not None, counts=bool(counts))
    if hint is not None:
        check_hint(hint, finds_k=kind is StableTopK and grouping is None, ledger=terms.books is not None)
    ranks = max_k or default_max_k(k)
    moved = None
    if counts is not False:
        bound, parts = question.max_items_per_user, question.vote_parts
        moved = count_bound(counts, bound, terms.adjacency, vote_parts=parts)
    agreed: dict[str, Any] = {"adjacency": terms.adjacency, "limits": terms.limits, **parameters}

    def work_of(kind: type[Mechanism], **hinted: Any) -> TopWork:
        noisy = None
        if counts:
            calibrated, noisy = calibrate_with_counts(kind, each, bound=moved, **agreed, **hinted)
        else:
            calibrated = kind.calibrate(each, **agreed, **hinted)
        if size is not None:  # k may be more than there are candidates, which should not cost anything
            calibrated.check_domain(ClosedHistogram.from_counts(np.zeros(size, dtype=np.int64)))
        reach = int(calibrated.describe().get("max_k", 0))  # how many ranks the mechanism itself looks at
        counted_ranks = int(max(reach, max_k or 0) or ranks)
        return TopWork(question=question, mechanism=calibrated, noisy=noisy, max_k=counted_ranks)

    top = work_of(kind)
    reason = "it was asked for" if mechanism else default.reason
    if grouping is not None:
        table = TableWork(each=top, grouping=grouping, touched=touched, budget=terms.budget)
        return Quote(work=table, terms=terms, reason=reason)
    if isinstance(top.mechanism, StableTopK):
        top = replace(top, topic={**top.ask(), "mechanism": kind.name, "parameters": parameters})
        hinted = _take_hint(hint, top, terms, work_of)
        top = top if hinted is None else hinted
    return Quote(work=top, terms=terms, reason=reason)


def _take_hint(hint: int | bool | None, top: TopWork, terms: Terms, work_of: Callable[..., TopWork]) -> TopWork | None:
    """Return the work that tests the caller's cut first, or the one that went out last; None if there is none to test."""
    if hint is False or top.topic is None:
        return None
    named = None if hint is None or hint is True else int(hint)
    cut = terms.last_cut(top.topic) if named is None else named
    window = top.mechanism.preference if isinstance(top.mechanism, StableTopK) else None
    if cut is None or window is None or not window.min_k <= cut <= window.max_k:
        return None
    if named is None and terms.budget.releases < 2:  # both steps together take two shares
        return None
    hinted = work_of(HintedTopK, hint=cut, hint_from="ledger" if named is None else "caller")
    hinted = replace(hinted, topic=top.topic, unhinted=top if named is None else None)
    return hinted if named is not None or terms.affords(hinted.cost) else None
