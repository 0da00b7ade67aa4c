r"""From a question to its price and its answer: the library's own way through, for the callers of the service.

A price is worked out once for each question and account and then remembered, since nothing in it depends on rows or on what
was spent. Equal questions are answered one after the other, so that the second finds the first one's answer on the books.
Whatever reads data, answers and failures alike, becomes visible on a public tick: the books themselves are settled on it, so
that neither a page of the history nor a second question shows how long the first one took.
"""

from __future__ import annotations

import json
import math
import os
import re
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from cutline.errors import CutlineError, ParameterError, SourceError, UnsettledError
from cutline.grouped import GroupedRelease
from cutline.ledger import Account, Ledger, Reservation
from cutline.payment import Answer, Terms
from cutline.privacy import Cost
from cutline.privacy.budget import parse_share
from cutline.quote import Quote, TableWork, TopWork, quote
from cutline.release import Release
from cutline.service.catalogue import Dataset
from cutline.service.config import Config, SourceSettings
from cutline.service.people import Caller
from cutline.service.sight import Sight
from cutline.service.store import Conflict
from cutline.service.turns import Turns

LARGEST_K = 1000
_MOST_PRICES = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A question in the words of the service: everything by a name that the owner declared."""

    item: str
    k: int | None = None
    filter: str | None = None
    by: str | None = None
    counts: bool = False
    share: str | None = None
    purpose: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data."""
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """What a question would cost and could show, whatever the rows are."""

    cost: Cost
    share_percent: float
    guarantee: str
    mechanism: Mapping[str, Any]
    reason: str
    sight: Sight | None  # None if what is seen cannot be said in one number
    finds: str

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {
            "share_percent": self.share_percent,
            "guarantee": self.guarantee,
            "mechanism": dict(self.mechanism),
            "reason": self.reason,
            "seen_nine_in_ten": None if self.sight is None else self.sight.nine_in_ten,
            "finds": self.finds,
        }


class OnTick(Exception):  # noqa: N818 - not an error, but one that waits
    """A failure of a run that may have read data, and when it may be seen."""

    def __init__(self, error: CutlineError, *, visible_from: float) -> None:
        super().__init__()
        self.error, self.visible_from = error, visible_from


@dataclass(frozen=True, slots=True, kw_only=True)
class OnTheTick(Terms):
    """Terms that pay before they wait for a place to read, and wait before they settle.

    So what a run does to the books shows at a time that does not depend on rows: neither on its own, nor on those that were
    counted before it.
    """

    begin: Callable[[], None]
    wait: Callable[[], None]

    @classmethod
    def of(cls, terms: Terms, *, begin: Callable[[], None], wait: Callable[[], None]) -> OnTheTick:
        """Return the same terms, with these to wait for."""
        return cls(**{each.name: getattr(terms, each.name) for each in fields(terms)}, begin=begin, wait=wait)

    def pay(self, cost: Cost, *, mechanism: Mapping[str, Any], question: Mapping[str, Any]) -> Reservation | None:
        """Pay, then wait for a place to read."""
        reservation = Terms.pay(self, cost, mechanism=mechanism, question=question)
        self.begin()
        return reservation

    def settle(self, reservation: Reservation | None, answer: Answer) -> Answer:
        """Wait, then settle."""
        self.wait()
        return Terms.settle(self, reservation, answer)


class Desk:
    """Where questions are priced, paid for and answered; ``now`` and ``sleep`` are the clock of the ticks."""

    def __init__(
        self,
        config: Config,
        books: Ledger,
        *,
        now: Callable[[], float] = time.time,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._config, self._books, self._now, self._sleep = config, books, now, sleep
        self._prices: OrderedDict[tuple[str, Asked], Price] = OrderedDict()
        self._guard = threading.Lock()
        self._turns = Turns(config.place(config.books))
        self._counting = threading.BoundedSemaphore(2)  # logs are read by this many at a time

    def price(self, dataset: Dataset, asked: Asked) -> Price:
        """Return the price of a question; reads no row, and of the books only what was fixed when the account was opened."""
        known = self.known_price(dataset, asked)
        return self._work_out_once(dataset, asked) if known is None else known

    def known_price(self, dataset: Dataset, asked: Asked) -> Price | None:
        """Return the price of a question if it was worked out before, else None; a dataset's description never changes."""
        key = _key_of_price(dataset, asked)
        with self._guard:
            if key not in self._prices:
                return None
            self._prices.move_to_end(key)
            return self._prices[key]

    def _work_out_once(self, dataset: Dataset, asked: Asked) -> Price:
        price, key = self._work_out(dataset, asked), _key_of_price(dataset, asked)
        with self._guard:
            self._prices[key] = price
            while len(self._prices) > _MOST_PRICES:
                self._prices.popitem(last=False)
        return price

    def affords(self, account: Account, cost: Cost, caller: Caller) -> bool:
        """Say whether the account, and the caller's own share of it, have room for a cost."""
        return account.closed is None and account.affords(cost, analyst=caller.name)

    def check_source(self, dataset: Dataset) -> None:
        """Refuse columns, filters and groups that the log or the engine does not take; no row is read."""
        described = dataset.description
        questions = [Asked(item=item, filter=name) for item in described.items for name in (None, *described.filters)]
        questions += [Asked(item=described.items[0], by=column) for column in described.groups]
        for asked in questions:
            work = self._quote(dataset, asked, books=None).work
            try:
                work.bind(self._source(dataset))
            except CutlineError as error:
                refused = self._without_path(error, dataset)
                if isinstance(error, SourceError):  # of what the owner wrote, not of a log that was there
                    refused = ParameterError(refused.rule, refused.value, refused.way_out)
                raise refused from None

    def answer(self, dataset: Dataset, asked: Asked, caller: Caller) -> Release | GroupedRelease:
        """Pay, count, draw, settle on the tick, and return the answer.

        A refusal of the question itself is public and comes at once. Whatever fails once the run has begun is an `OnTick`.
        """
        work = self._quote(dataset, asked, books=self._books, caller=caller)
        if work.terms.account is not None and work.terms.account.closed is not None:
            raise Conflict("a closed dataset takes no more questions", repr(dataset.name), "Read the answers it gave.")
        question = f"{dataset.account}\n{dataset.version}\n{json.dumps(work.question, sort_keys=True, default=str)}"
        with self._turns.take(question), ExitStack() as place:
            paid = False

            def begin() -> None:
                nonlocal paid
                paid = True
                place.enter_context(self._counting)

            def wait() -> None:
                place.close()  # the rows are counted: another question may read
                self._sleep(max(0.0, self.next_tick() - self._now()))

            try:
                on_tick: Quote[Any] = replace(work, terms=OnTheTick.of(work.terms, begin=begin, wait=wait))
                found: Release | GroupedRelease = on_tick.run(self._source(dataset))
                return without_names(found)
            except UnsettledError as error:
                if not isinstance(error.release, Release | GroupedRelease):
                    raise
                return without_names(error.release)  # paid for in full, and the charge stays
            except Exception as error:
                visible_from = self.next_tick()
                if paid:
                    wait()  # within the turn, so that an equal question, which runs then, begins on the tick too
                if not isinstance(error, CutlineError):
                    raise
                raise OnTick(self._without_path(error, dataset), visible_from=visible_from) from None

    def find(self, dataset: Dataset, asked: Asked, caller: Caller) -> int | None:
        """Return the entry of the books that holds the answer to a question, if there is one."""
        work = self._quote(dataset, asked, books=self._books, caller=caller)
        kept = work.terms.find(work.question, work.work.read)
        return None if kept is None else kept.entry

    def next_tick(self) -> float:
        """Return the next time, in seconds since the epoch, at which what reads data may become visible."""
        return math.ceil(self._now() / self._config.tick) * self._config.tick

    def _work_out(self, dataset: Dataset, asked: Asked) -> Price:
        work = self._quote(dataset, asked, books=self._books)
        account = work.terms.account
        top = work.work.each if isinstance(work.work, TableWork) else work.work
        limits = None if account is None else account.limits
        part = 0.0
        if account is not None and limits is not None:
            charged = account.after(work.cost).spent - account.spent
            part = 100 * float(max(charged.shares(limits)))
        return Price(
            cost=work.cost,
            share_percent=part,
            guarantee=work.guarantee,
            mechanism=work.mechanism,
            reason=work.reason,
            sight=Sight.of(top) if isinstance(top, TopWork) else None,
            finds="a gap of this many users" if asked.k is None else "a set whose items each have this many users more",
        )

    def _quote(
        self, dataset: Dataset, asked: Asked, *, books: Ledger | None, caller: Caller | None = None
    ) -> Quote[Any]:
        described = dataset.description
        _check_listed("item", asked.item, described.items)
        _check_listed("filter", asked.filter, described.filters)
        _check_listed("by", asked.by, described.groups)
        if asked.k is not None and not 1 <= asked.k <= LARGEST_K:
            raise ParameterError(f"k must be from 1 to {LARGEST_K}", f"k={asked.k}", "Try k=10.")
        settings = self._settings(dataset)
        ask: dict[str, Any] = {
            "user": described.user,
            "item": asked.item,
            "k": asked.k,
            "counts": asked.counts,
            "where": None if asked.filter is None else described.filters[asked.filter],
            "max_items_per_user": described.max_items_per_user,
            "memory_limit": settings.memory_limit,
            "format": settings.format,
        }
        if asked.by is not None:
            groups = described.groups[asked.by]
            ask |= {"by": asked.by, "groups": groups.values, "max_groups_per_user": groups.max_groups_per_user}
            if groups.max_groups_per_user is not None:
                ask["key"] = f"{dataset.name} {asked.by}"
        if books is not None:
            ask |= {"ledger": books, "dataset": dataset.account, "data_version": dataset.version}
            ask["purpose"] = asked.purpose
            ask["hint"] = False if asked.by is None and asked.k is None else None
            ask["analyst"] = None if caller is None else caller.name
            ask["share"] = None if asked.share is None else parse_share(asked.share)
        return quote(**{name: value for name, value in ask.items() if value is not None})

    def _without_path(self, error: CutlineError, dataset: Dataset) -> CutlineError:
        """Return a refusal in which the log has the name that the settings give it, and no path, nor one of its files."""
        name, settings = dataset.description.source, self._settings(dataset)
        if settings.path is None:
            return error
        path = self._config.place(settings.path)
        folder = os.path.dirname(re.split(r"[*?\[]", path)[0])
        parts = [part.replace(path, name) for part in (error.rule, error.value, error.way_out)]
        told = zip(parts, (error.rule, f"a file of {name!r}", "Tell the operator."), strict=True)
        private = (folder, os.path.realpath(folder))
        return type(error)(*(other if any(each in part for each in private) else part for part, other in told))

    def _settings(self, dataset: Dataset) -> SourceSettings:
        found = self._config.sources.get(dataset.description.source)
        if found is None:
            raise Conflict("the log of a dataset must be named in the settings", "", "Tell the operator.")
        return found

    def _source(self, dataset: Dataset) -> Any:
        source = self._settings(dataset).open()
        return self._config.place(source) if isinstance(source, str) else source


def without_names(answer: Release | GroupedRelease) -> Release | GroupedRelease:
    """Return an answer whose account does not say who else asks, and how much: that is for its owner and reviewers."""
    if answer.account is None or answer.entry is None:
        return answer
    shown = {**answer.account, "analysts": []}
    return answer.with_account(shown, entry=answer.entry, repeated=answer.repeated_from is not None)


def _key_of_price(dataset: Dataset, asked: Asked) -> tuple[str, Asked]:
    return dataset.account, asked if asked.purpose is None else replace(asked, purpose=None)


def _check_listed(what: str, name: str | None, listed: Mapping[str, object] | tuple[str, ...]) -> None:
    """Raise for a name that the owner did not declare."""
    if name is not None and name not in listed:
        known = ", ".join(map(repr, listed)) or "none"
        raise ParameterError(f"{what} must be one that the owner listed", repr(name)[:80], f"Listed: {known[:300]}.")
