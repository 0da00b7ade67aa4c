r"""Everything behind the routes, opened together: the books, the store, the key, and those who work with them.

Pages and the REST interface call the same methods, so a rule that holds for one holds for the other.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

from starlette.concurrency import run_in_threadpool

from cutline.counting import list_columns
from cutline.errors import ParameterError
from cutline.grouped import GroupedRelease
from cutline.ledger import Account, Entry, Ledger
from cutline.ledger.database import Database
from cutline.payment import read_record
from cutline.privacy import Budget
from cutline.release import Release
from cutline.service.asking import Asked, Desk, Price, without_names
from cutline.service.catalogue import Catalogue, Dataset, Description
from cutline.service.certificates import Signer
from cutline.service.config import Config
from cutline.service.jobs import Jobs
from cutline.service.openid import OpenId
from cutline.service.people import Caller, People
from cutline.service.store import Clock, Recall, Store, current_time, no_such
from cutline.service.turns import Turns, hold_file
from cutline.service.wording import read_asked, say_question
from cutline.version import __version__


class Books(Ledger):
    """The ledger, which does not tell those who ask where it is."""

    def __init__(self, address: str) -> None:
        super().__init__(address)
        self._database.printable_address = "the books"


class Office:
    """The service without its routes."""

    def __init__(self, config: Config, *, clock: Clock = current_time) -> None:
        self.config = config
        secret = "" if config.openid is None else config.openid.read_secret(config.folder)
        self._held = hold_file(config.place(config.store))
        self.store = Store(config.place(config.store), clock=clock)
        self.store.create()
        self.books = Books(config.place(config.books))
        self._accounts = Recall(Database(config.place(config.books)).path, clock)
        self.signer = Signer(Path(config.place(config.signing_key)))
        self.people = People(self.store)
        self.openid = None
        if config.openid is not None:
            self.openid = OpenId(config.openid, secret=secret, origin=config.public_origin, store=self.store)
        self.catalogue = Catalogue(self.store, self.books, self.people)
        self.desk = Desk(config, self.books)
        self.jobs = Jobs(self.store, self.desk, self.catalogue, self.people, Turns(config.place(config.store)))

    def close(self) -> None:
        """Finish what runs, then close the books and the store."""
        self.jobs.close()
        self.books.__exit__()
        self.store.close()
        if self._held is not None:
            self._held.close()

    def invite(self, name: str, role: str) -> str:
        """Register a person, and return where they begin: a one-time link, or the page to sign in if passwords are off."""
        link = self.people.invite(name, role)
        return f"{self.config.public_origin}/{f'welcome/{link}' if self.config.passwords else 'sign-in'}"

    def register(
        self, caller: Caller, name: str, description: Description, *, version: str, period: str, budget: Budget
    ) -> Dataset:
        """Register a log whose source, columns, filters and groups were tried on the engine; no row is read."""
        if description.source not in self.config.sources:
            known = ", ".join(sorted(self.config.sources)) or "none"
            raise ParameterError(
                "a source must be named in the settings", repr(description.source)[:80], f"Named: {known}."
            )
        trial = Dataset(
            name=name, owner=caller.name, description=description, version=version, account="", accounts=("",)
        )
        self.desk.check_source(trial)
        return self.catalogue.register(caller, name, description, version=version, period=period, budget=budget)

    def describe(self, caller: Caller, dataset: Dataset) -> dict[str, Any]:
        """Return a dataset as a caller sees it: what may be asked, the sum of all periods and of all datasets over its log."""
        accounts = self.catalogue.accounts(dataset)
        shown = dataset.description.to_dict()
        del shown["source"]
        return {
            "name": dataset.name,
            "owner": dataset.owner,
            "version": dataset.version,
            **shown,
            "period": dataset.account.partition(":")[2],
            "account": _without_analysts(accounts[-1], caller),
            "all_periods": {"periods": len(accounts), **add_up([account.budget for account in accounts])},
            "whole_log": add_up(self.catalogue.budgets_of_log(dataset).values()),
            "questions_left": questions_left(accounts[-1], caller.name),
        }

    def quote(self, caller: Caller, dataset: Dataset, asked: Asked, *, size: int | None = None) -> dict[str, Any]:
        """Return what a question would cost this caller and what could be seen; nothing is read and nothing charged.

        With a ``size``, also the chance that the right items come out if they have so many users more than any other.
        """
        price, account = self.desk.price(dataset, asked), self.books.show(dataset.account)
        chance = None if price.sight is None or size is None else price.sight.chance(size)
        return self._describe_price(caller, dataset, asked, price, account) | {"size": size, "chance": chance}

    async def quote_soon(
        self, caller: Caller, dataset: Dataset, asked: Asked, *, size: int | None = None
    ) -> dict[str, Any]:
        """Do the same for a coroutine: at once if the price is known, with an account that was read within the last second."""
        price = self.desk.known_price(dataset, asked)
        if price is None or size is not None:
            return await run_in_threadpool(self.quote, caller, dataset, asked, size=size)
        account = await self._accounts.get_soon(dataset.account, lambda: self.books.show(dataset.account))
        return self._describe_price(caller, dataset, asked, price, account) | {"size": None, "chance": None}

    def _describe_price(
        self, caller: Caller, dataset: Dataset, asked: Asked, price: Price, account: Account
    ) -> dict[str, Any]:
        return {
            "dataset": dataset.name,
            "version": dataset.version,
            "question": asked.to_dict(),
            **price.to_dict(),
            "affordable": self.desk.affords(account, price.cost, caller),
            "questions_left": questions_left(account, caller.name),
        }

    def answer_of(self, dataset: Dataset, number: int) -> tuple[Entry, Release | GroupedRelease]:
        """Return an entry of a dataset's books with its answer."""
        entry = self.books.answer(number) if number > 0 else None
        if entry is None or entry.dataset not in dataset.accounts or entry.answer is None:
            raise no_such("answer", str(number))
        read: Any = GroupedRelease if entry.answer.get("kind") == "table" else Release
        answer: Release | GroupedRelease = read_record(entry, read.from_record)
        return entry, without_names(answer.with_account(self.books.show(entry.dataset).to_dict(), entry=entry.id))

    def certify(self, dataset: Dataset, number: int) -> dict[str, Any]:
        """Return a signed certificate of an answer."""
        entry, answer = self.answer_of(dataset, number)
        account = self.books.show(entry.dataset)
        return self.signer.sign(
            {
                "dataset": dataset.name,
                "account": entry.dataset,
                "entry": entry.id,
                "asked_at": entry.at,
                "data_version": entry.data_version,
                "question": entry.question,
                "answer": entry.answer,
                "guarantee": answer.guarantee,
                "account_guarantee": account.guarantee,
                "chain_head": account.head,
                "signed_at": self.store.now(),
                "version": __version__,
            }
        )

    def history(self, caller: Caller, dataset: Dataset, *, before: int | None, limit: int) -> list[dict[str, Any]]:
        """Return a page of what was asked, newest first; analysts do not see who else asked, or what for."""
        shown: list[dict[str, Any]] = []
        for name in reversed(dataset.accounts):
            if len(shown) < limit:
                account = self.books.show(name)
                page = self.books.history(name, before=before, limit=limit - len(shown))
                shown += [_describe_entry(entry, caller, dataset, account) for entry in page]
        return shown

    def columns(self, source: str) -> list[str] | None:
        """Return the names of the columns of a log of the settings; None if it declares none, or is not there now."""
        settings = self.config.sources.get(source)
        try:
            opened = None if settings is None else settings.open()
            log = self.config.place(opened) if isinstance(opened, str) else opened
            return None if settings is None else list_columns(log, format=settings.format)
        except Exception:  # whatever a warehouse says, an owner can still type the names
            return None


def _without_analysts(account: Account, caller: Caller) -> dict[str, Any]:
    """Return an account; who else asks, and how much, is for its owner and reviewers."""
    shown = account.to_dict()
    if caller.role == "analyst":
        shown["analysts"] = [each for each in shown["analysts"] if each["analyst"] == caller.name]
    return shown


def hide_asker(entry: Entry, caller: Caller) -> Entry:
    """Return an entry as a caller may see it: analysts do not see who else asked, or what for."""
    full = caller.role in ("owner", "reviewer") or entry.analyst == caller.name
    return entry if full else replace(entry, analyst=None, purpose=None)


def _describe_entry(entry: Entry, caller: Caller, dataset: Dataset, account: Account) -> dict[str, Any]:
    """Return one line of the history as a caller may see it."""
    entry = hide_asker(entry, caller)
    asked = read_asked(entry, dataset, account)
    return {
        "entry": entry.id,
        "at": entry.at,
        "period": entry.dataset.partition(":")[2],
        "analyst": entry.analyst,
        "purpose": entry.purpose,
        "state": entry.state,
        "answered": entry.answered,
        "item": asked.item,
        "question": asked.to_dict(),
        "in_words": say_question(asked),
        "data_version": entry.data_version,
        "mechanism": dict(entry.mechanism).get("name"),
        "charged": entry.charged.to_dict(),
        "share_percent": 100 * float(max(entry.charged.shares(account.limits))),
    }


def add_up(budgets: Iterable[Budget]) -> dict[str, float]:
    """Return what several budgets may tell together about somebody whom all of them protect."""
    all_of_them = list(budgets)
    return {
        "epsilon": math.fsum(budget.epsilon for budget in all_of_them),
        "delta": math.fsum(budget.delta for budget in all_of_them),
    }


def questions_left(account: Account, analyst: str | None = None) -> dict[str, int]:
    """Return how many usual questions are left, of how many: of the account, and of the analyst's own share of it."""
    total, left = account.budget.releases, account.remaining_releases
    for one in account.analysts:
        if one.name == analyst and one.limits is not None:
            whole = min(one.limits.shares(account.limits))
            rest = (one.limits - one.spent).shares(account.limits)
            total = _whole_questions(total * min(whole, Fraction(1)))
            left = max(0, min(left, _whole_questions(account.budget.releases * min(rest))))
    return {"left": left, "of": total}


def _whole_questions(number: Fraction) -> int:
    """Return how many whole questions there are; limits are rounded down, and a millionth is not missed."""
    return math.floor(number + Fraction(1, 1_000_000))
