r"""Which datasets there are, what may be asked of them, and by whom.

An owner declares once which columns, groups and filters are open to questions, and analysts choose among these by name: no
expression and no list ever comes from an analyst. A dataset's budget is an account in the books. It never resets: a new period
is a new account, opened by the owner, and the sum over all periods is always shown.
"""

from __future__ import annotations

import datetime as dt
import json
import re
import secrets
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Self

from sqlalchemy import Connection, delete, insert, select, update

from cutline.errors import CutlineError, DatasetError, ParameterError
from cutline.histogram import Item
from cutline.ledger import Account, Ledger
from cutline.privacy import Budget
from cutline.privacy.budget import parse_share
from cutline.service import tables
from cutline.service.people import Caller, People
from cutline.service.store import Conflict, Store, no_such, plain

_DATASET = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")
_VERSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:+-]{0,62}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Groups:
    """A public list of groups of one column, and in how many of them one user counts."""

    values: tuple[Item, ...]
    max_groups_per_user: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """What an owner declares about a log; all of it is public to those who may ask."""

    title: str
    source: str  # a name of the settings, never a path
    user: str
    items: tuple[str, ...]
    filters: Mapping[str, str] = field(default_factory=dict)  # by label: one row-local expression
    groups: Mapping[str, Groups] = field(default_factory=dict)  # by column
    max_items_per_user: int | None = None
    answers: str = "now"  # or "later": as a job; fixed here, so that it never depends on how long an answer took
    practice_names: tuple[str, ...] = ()  # public names for made-up data

    def __post_init__(self) -> None:
        if not self.title or not self.items or len(set(self.items)) < len(self.items):
            raise ParameterError(
                "a dataset has a title and different item columns", f"{len(self.items)} columns", "Name at least one."
            )
        if self.answers not in ("now", "later"):
            raise ParameterError("answers come now or later", repr(self.answers)[:60], "Take one of the two.")

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Self:
        """Read it back from what `to_dict` returned."""
        groups = {
            column: Groups(values=tuple(each["values"]), max_groups_per_user=each["max_groups_per_user"])
            for column, each in plain["groups"].items()
        }
        lists = {name: tuple(plain[name]) for name in ("items", "practice_names")}
        return cls(**{**plain, **lists, "groups": groups, "filters": dict(plain["filters"])})

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data."""
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Dataset:
    """A registered log, with its newest version and the account that pays now."""

    name: str
    owner: str
    description: Description
    version: str
    account: str
    accounts: tuple[str, ...]

    def as_of(self, *, account: str, version: str) -> Dataset:
        """Return it as it was when this account paid and this version of the data was the newest."""
        return replace(self, account=account, version=version)


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """That one person may ask about a dataset, or review it, until when and with which share of the budget."""

    dataset: str
    person: str
    role: str
    share: str | None
    expires: str | None

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data."""
        return asdict(self)


class Catalogue:
    """The datasets of the service; every lookup names its caller, and what they may not see is not there."""

    def __init__(self, store: Store, books: Ledger, people: People) -> None:
        self._store, self._books, self._people = store, books, people

    def register(
        self, caller: Caller, name: str, description: Description, *, version: str, period: str, budget: Budget
    ) -> Dataset:
        """Register a log and open its first account."""
        if not _DATASET.fullmatch(name):
            raise ParameterError(
                "a dataset's name has 1 to 63 of a-z, 0-9 and -", repr(name)[:80], "Try one like check-ins."
            )
        version = _check_version("version", version)
        with self._store.reading() as connection:  # before an account is opened under somebody else's name
            _refuse_taken(connection, name)
        account = self._open_account(name, period, description, budget=budget, owner=caller.name)
        with self._store.writing() as connection:
            _refuse_taken(connection, name)
            now = self._store.now()
            row = {"name": name, "owner": caller.name, "description": json.dumps(description.to_dict()), "created": now}
            connection.execute(insert(tables.datasets).values(**row))
            for table, first in ((tables.versions, version), (tables.periods, account)):
                _append(connection, table, name, first, now)
            return _read_dataset(connection, name)

    def find(self, caller: Caller, name: str) -> Dataset:
        """Return a dataset that the caller may see; one that is not there looks the same as one that may not be seen."""
        found = self._read(caller, name)
        if found is None:
            raise no_such("dataset", name)
        return found

    async def find_soon(self, caller: Caller, name: str) -> Dataset:
        """Do the same for a coroutine; within a second it is looked up once."""
        key = ("dataset", caller.person, name)
        found = await self._store.recall.get_soon(key, lambda: self._read(caller, name))
        if found is None:
            raise no_such("dataset", name)
        return found

    def _read(self, caller: Caller, name: str) -> Dataset | None:
        with self._store.reading() as connection:
            return _read_dataset(connection, name) if name in self._visible(connection, caller) else None

    def listed(self, caller: Caller, *, after: str = "", limit: int = 50) -> list[Dataset]:
        """Return the datasets that the caller may see, by name, from the one after ``after``."""
        with self._store.reading() as connection:
            names = sorted(name for name in self._visible(connection, caller) if name > after)
            return [_read_dataset(connection, name) for name in names[:limit]]

    def declare_version(self, dataset: Dataset, version: str) -> None:
        """Say that the data are new: questions are about this version from now on, and answers about older ones stay."""
        version = _check_version("version", version)
        with self._store.writing() as connection:
            _append(connection, tables.versions, dataset.name, version, self._store.now())

    def versions(self, dataset: Dataset) -> list[dict[str, Any]]:
        """Return all versions, newest first."""
        with self._store.reading() as connection:
            rows = _in_order(connection, tables.versions, dataset.name)
        return [{"version": row.name, "declared": row.declared} for row in reversed(rows)]

    def open_period(self, dataset: Dataset, period: str, budget: Budget) -> str:
        """Open another account for the same people: what was spent before stays spent, and the sums add up."""
        if self._books.show(dataset.account).closed is not None:
            raise Conflict(
                "a closed dataset takes no more questions", repr(dataset.name), "Register it under a new name."
            )
        account = self._open_account(dataset.name, period, dataset.description, budget=budget, owner=dataset.owner)
        for grant in self.grants(dataset):
            if grant.role == "analyst":
                self._allow(account, grant)
        with self._store.writing() as connection:  # last: whoever may ask can ask as soon as this account pays
            _append(connection, tables.periods, dataset.name, account, self._store.now())
        return account

    def accounts(self, dataset: Dataset) -> list[Account]:
        """Return the accounts of all periods, oldest first."""
        return [self._books.show(account) for account in dataset.accounts]

    def budgets_of_log(self, dataset: Dataset) -> dict[str, Budget]:
        """Return, by account, the budgets of all datasets over the same source: who is in the log is protected by their sum."""
        source = dataset.description.source
        return self._store.recall.get(("log", source), lambda: self._read_budgets(source))

    def _read_budgets(self, source: str) -> dict[str, Budget]:
        with self._store.reading() as connection:
            names = [row.name for row in connection.execute(select(tables.datasets.c.name))]
            everything = [_read_dataset(connection, name) for name in names]
        accounts = [account for each in everything if each.description.source == source for account in each.accounts]
        return {account: self._books.show(account).budget for account in accounts}

    def grant(
        self, dataset: Dataset, person: str, *, role: str, share: str | None = None, expires: dt.date | None = None
    ) -> Grant:
        """Let a person ask, with a share of the budget of their own limit, or review; a second grant replaces the first."""
        found = self._people.find(person)
        if role not in ("analyst", "reviewer") or found is None or found.role != role:
            raise ParameterError(
                "access is given to an analyst or a reviewer by the name they were invited under",
                f"{person[:60]!r} as {role[:20]!r}",
                "Ask an administrator to invite them.",
            )
        if share is not None:
            parse_share(share)
        ends = None if expires is None else dt.datetime.combine(expires, dt.time(), dt.UTC).isoformat()
        grant = Grant(dataset=dataset.name, person=person, role=role, share=share, expires=ends)
        if role == "analyst":
            self._allow(dataset.account, grant)
        with self._store.writing() as connection:
            where = (tables.grants.c.dataset == dataset.name, tables.grants.c.person == person)
            connection.execute(delete(tables.grants).where(*where))
            connection.execute(insert(tables.grants).values(**asdict(grant), created=self._store.now()))
        return grant

    def revoke(self, dataset: Dataset, person: str) -> None:
        """Take access away; what was asked stays on the books."""
        where = (tables.grants.c.dataset == dataset.name, tables.grants.c.person == person)
        with self._store.writing() as connection:
            if connection.execute(delete(tables.grants).where(*where)).rowcount == 0:
                raise no_such("grant", person)

    def grants(self, dataset: Dataset) -> list[Grant]:
        """Return who has access, by name."""
        with self._store.reading() as connection:
            rows = connection.execute(_of_dataset(tables.grants, dataset.name).order_by(tables.grants.c.person))
            return [_grant(row) for row in rows]

    def ask_for_more(self, dataset: Dataset, caller: Caller, *, wish: str, share: str | None) -> str:
        """Write down that an analyst wishes for more, for the owner to decide; return the request's id."""
        if share is not None:
            parse_share(share)
        if not 1 <= len(wish) <= 1000:
            raise ParameterError("a request says why in 1 to 1,000 characters", f"{len(wish)}", "Say what it is for.")
        number = secrets.token_hex(8)
        row = {
            "id": number, "dataset": dataset.name, "person": caller.name, "wish": wish, "share": share,
            "state": "open", "created": self._store.now(),
        }  # fmt: skip
        with self._store.writing() as connection:
            connection.execute(insert(tables.requests).values(**row))
        return number

    def requests(self, dataset: Dataset, caller: Caller) -> list[dict[str, Any]]:
        """Return the requests about a dataset, newest first: the owner's all, an analyst's own."""
        wanted = _of_dataset(tables.requests, dataset.name).order_by(tables.requests.c.created.desc())
        with self._store.reading() as connection:
            found = [plain(row) for row in connection.execute(wanted)]
        return [row for row in found if caller.role in ("owner", "reviewer") or row["person"] == caller.name]

    def decide(self, dataset: Dataset, number: str, *, approve: bool) -> None:
        """Approve a request, which widens the analyst's share, or decline it; either way once."""
        where = (tables.requests.c.dataset == dataset.name, tables.requests.c.id == number)
        state = {"state": "approved" if approve else "declined", "decided": self._store.now()}
        with self._store.writing() as connection:
            row = connection.execute(select(tables.requests).where(*where)).first()
            if row is None:
                raise no_such("request", number)
            if row.state != "open":
                raise Conflict("a request is decided once", row.state, "Ask the analyst for another.")
            before = connection.execute(
                _of_dataset(tables.grants, dataset.name).where(tables.grants.c.person == row.person)
            ).first()
            if approve and before is None:
                raise Conflict(
                    "a request is of somebody who has access", repr(row.person), "Give access anew, or decline."
                )
            connection.execute(update(tables.requests).where(*where).values(**state))
        if approve and before is not None:
            ends = None if before.expires is None else dt.datetime.fromisoformat(before.expires).date()
            share = before.share if row.share is None else row.share
            try:
                self.grant(dataset, row.person, role="analyst", share=share, expires=ends)
            except CutlineError:  # the books do not answer, say: it is not decided then
                with self._store.writing() as connection:
                    connection.execute(update(tables.requests).where(*where).values(state="open", decided=None))
                raise

    def close(self, dataset: Dataset) -> None:
        """Refuse every further question to all periods, for ever."""
        with self._store.reading() as connection:
            accounts = _read_dataset(connection, dataset.name).accounts
        for account in accounts:
            self._books.close(account)

    def _visible(self, connection: Connection, caller: Caller) -> set[str]:
        if caller.role == "owner":
            mine = select(tables.datasets.c.name).where(tables.datasets.c.owner == caller.name)
            return {row.name for row in connection.execute(mine)}
        given = select(tables.grants).where(tables.grants.c.person == caller.name, tables.grants.c.role == caller.role)
        now = self._store.now()
        return {row.dataset for row in connection.execute(given) if row.expires is None or row.expires > now}

    def _open_account(self, name: str, period: str, description: Description, *, budget: Budget, owner: str) -> str:
        account = f"{name}:{_check_version('period', period)}"
        try:
            self._books.create(account, budget=budget, owner=owner, unit=description.user, analysts=[owner])
        except DatasetError:
            if not self._was_cut_off(account, budget=budget, owner=owner, unit=description.user):
                raise Conflict(
                    "a period is opened once, and its budget is fixed", repr(account), "Take another name."
                ) from None
        return account

    def _was_cut_off(self, account: str, *, budget: Budget, owner: str, unit: str) -> bool:
        """Say whether a crash left just this account, unused and part of no dataset, when it was opened before."""
        found = self._books.show(account)
        same = (found.budget, found.owner, found.unit, found.entries, found.closed) == (budget, owner, unit, 0, None)
        with self._store.reading() as connection:
            used = connection.execute(select(tables.periods).where(tables.periods.c.name == account)).first()
        return same and used is None

    def _allow(self, account: str, grant: Grant) -> None:
        self._books.allow(account, grant.person)
        limited = any(one.name == grant.person and one.limits for one in self._books.show(account).analysts)
        if grant.share is not None or limited:  # without a share, an earlier limit is lifted
            self._books.limit(account, grant.person, share=parse_share(grant.share or 1))


def _refuse_taken(connection: Connection, name: str) -> None:
    if connection.execute(select(tables.datasets).where(tables.datasets.c.name == name)).first() is not None:
        raise Conflict("a dataset is registered once", repr(name), "Take another name, or open a period of it.")


def _check_version(what: str, name: str) -> str:
    if not isinstance(name, str) or not _VERSION.fullmatch(name):
        raise ParameterError(
            f"a {what} has 1 to 63 letters, digits and . _ : + -", repr(name)[:80], "Try one like 2026-11."
        )
    return name


def _of_dataset(table: Any, dataset: str) -> Any:
    return select(table).where(table.c.dataset == dataset)


def _in_order(connection: Connection, table: Any, dataset: str) -> list[Any]:
    """Return the versions or the periods of a dataset, oldest first."""
    return list(connection.execute(_of_dataset(table, dataset).order_by(table.c.number)))


def _append(connection: Connection, table: Any, dataset: str, name: str, now: str) -> None:
    """Add a version or a period after all others."""
    before = _in_order(connection, table, dataset)
    if any(row.name == name for row in before):
        raise Conflict("a name is given once", repr(name), "Take a new one, like a date.")
    row = {"dataset": dataset, "name": name, "declared": now, "number": len(before) + 1}
    connection.execute(insert(table).values(**row))


def _grant(row: Any) -> Grant:
    return Grant(dataset=row.dataset, person=row.person, role=row.role, share=row.share, expires=row.expires)


def _read_dataset(connection: Connection, name: str) -> Dataset:
    row = connection.execute(select(tables.datasets).where(tables.datasets.c.name == name)).one()
    version = _in_order(connection, tables.versions, name)[-1].name
    accounts = tuple(each.name for each in _in_order(connection, tables.periods, name))
    try:
        description = Description.from_dict(json.loads(row.description))
    except (ValueError, TypeError, KeyError, AttributeError):
        raise CutlineError("a dataset must be what Cutline wrote", repr(name), "Restore the service's store.") from None
    return Dataset(
        name=name, owner=row.owner, description=description, version=version, account=accounts[-1], accounts=accounts
    )
