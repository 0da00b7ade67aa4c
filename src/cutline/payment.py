r"""Who pays: the account in the books, what one release may take of it, and whether the answer is there already.

`agree_terms` settles it before a row is read, for top sets and for labels alike. The same `Terms` then charge the dearest path,
keep the answer in the transaction that settles the charge, and give it out again, free, to whoever asks the same question of
the same version of the data.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Protocol, Self, TypedDict, TypeVar

from cutline.errors import AdjacencyError, ParameterError, SchemaError
from cutline.privacy import Adjacency, Budget, Cost, Filter
from cutline.privacy.budget import Share, parse_share
from cutline.sampling import Source, resolve

if TYPE_CHECKING:
    from cutline.ledger import Account, Entry, Ledger, Reservation

LedgerAddress = str | os.PathLike[str]  # by address; an open `cutline.Ledger` will do as well


class Payment(TypedDict, total=False):
    """What may be spent and who pays; `cutline.top` explains it, and `agree_terms` settles it."""

    epsilon: float | None
    delta: float | None
    releases: int | None
    share: Share | None
    adjacency: Adjacency | str | None
    ledger: Ledger | LedgerAddress | None
    dataset: str | None
    analyst: str | None
    purpose: str | None
    data_version: str | None
    fresh: bool
    rng: Source | None


class Payable(Protocol):
    """What was paid for: a release, a table of releases, or labels; it can be kept, and shown with the account that paid."""

    @property
    def cost(self) -> Cost: ...
    @property
    def seeded(self) -> bool: ...
    @property
    def cut(self) -> int | None: ...
    def to_record(self) -> dict[str, Any]: ...
    def with_account(self, account: Mapping[str, Any], *, entry: int, repeated: bool = False) -> Self: ...


Answer = TypeVar("Answer", bound=Payable)


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """Who is protected, what may be spent, with whose random bits, and who pays: an account in open books, or nobody."""

    adjacency: Adjacency
    budget: Budget  # of all releases of this kind together
    rng: Source
    limits: Filter | None = None  # the same at the ledger's Rényi order, if there is a ledger
    books: Ledger | None = None
    ours: bool = False  # whether the books were opened here, and are closed here
    account: Account | None = None  # as it was when this was agreed
    analyst: str | None = None
    purpose: str | None = None
    data_version: str | None = None
    fresh: bool = False

    def opened(self) -> AbstractContextManager[object]:
        """Return the books as a context that closes them at its end, if they were opened here."""
        return self.books if self.books is not None and self.ours else nullcontext()

    def complete(self, question: Mapping[str, Any]) -> dict[str, Any]:
        """Return a public question with what it may spend."""
        limits = None if self.limits is None else asdict(self.limits)
        return {**question, "budget": asdict(self.budget), "limits": limits}

    def find(self, question: Mapping[str, Any], read: Callable[[Mapping[str, Any]], Answer]) -> Answer | None:
        """Return the kept answer to this question about this version of the data, or None: then it has to be paid for.

        **Privacy.** The books and the question are public, so whether an answer is found is too. What is found became public
        when it was paid for, withheld answers included, and is given out unchanged.
        """
        if self.books is None or self.account is None or self.data_version is None or self.fresh:
            return None
        dataset = self.account.dataset
        entry = self.books.find_answer(dataset, question=question, data_version=self.data_version, analyst=self.analyst)
        if entry is None or entry.answer is None:
            return None
        answer = read_record(entry, read)
        return answer.with_account(self.books.show(dataset).to_dict(), entry=entry.id, repeated=True)

    def last_cut(self, topic: Mapping[str, Any]) -> int | None:
        """Return the cut that went out last on this topic, or None; books, topic and cut are public."""
        if self.books is None or self.account is None:
            return None
        with self.opened():
            return self.books.last_cut(self.account.dataset, topic=topic, analyst=self.analyst)

    def affords(self, cost: Cost) -> bool:
        """Say whether the account had room for a cost when this was agreed; a refusal that another cost would spare."""
        return self.account is None or self.account.affords(cost, analyst=self.analyst)

    def pay(self, cost: Cost, *, mechanism: Mapping[str, Any], question: Mapping[str, Any]) -> Reservation | None:
        """Charge the dearest path, or refuse; without books there is nothing to charge."""
        if self.books is None or self.account is None:
            return None
        return self.books.reserve(
            cost,
            dataset=self.account.dataset,
            analyst=self.analyst,
            mechanism=mechanism,
            question=question,
            data_version=self.data_version,
            purpose=self.purpose,
        )

    def settle(self, reservation: Reservation | None, answer: Answer) -> Answer:
        """Lower the charge to what ran, keep the answer, and return it with the account as it is then."""
        if self.books is None or reservation is None:
            return answer
        account = self.books.settle(reservation, answer, answer=answer.to_record(), cut=answer.cut)
        return answer.with_account(account.to_dict(), entry=reservation.id)


def agree_terms(
    *,
    unit: str | None = None,
    epsilon: float | None = None,
    delta: float | None = None,
    releases: int | None = None,
    share: Share | None = None,
    adjacency: Adjacency | str | None = None,
    ledger: Ledger | LedgerAddress | None = None,
    dataset: str | None = None,
    analyst: str | None = None,
    purpose: str | None = None,
    data_version: str | None = None,
    fresh: bool = False,
    rng: Source | None = None,
) -> Terms:
    """Settle who is protected, what may be spent and who pays.

    Without a ledger: the caller's epsilon, delta and number of releases, or 1, 1e-6 and 1. With one and without an epsilon: the
    ``share`` or one ``releases``-th of the dataset's budget, by default the dataset's own share of one release.
    """
    source = resolve(rng)
    asked = None if adjacency is None else Adjacency.parse(adjacency)
    part = None if share is None else parse_share(share)
    for_books = {
        "dataset": dataset,
        "analyst": analyst,
        "share": share,
        "purpose": purpose,
        "data_version": data_version,
        "fresh": fresh or None,
    }
    if ledger is None:
        named = [name for name, value in for_books.items() if value is not None]
        if named:
            raise ParameterError(
                "a ledger and a dataset go together, and a share, a purpose or a version of the data goes with them",
                f"{', '.join(named)} without a ledger",
                "Pass ledger and dataset, or neither.",
            )
        budget = Budget(
            epsilon=1.0 if epsilon is None else epsilon,
            delta=1e-6 if delta is None else delta,
            releases=1 if releases is None else releases,
        )
        return Terms(adjacency=asked or Adjacency.ADD_REMOVE, budget=budget, rng=source)
    if dataset is None:
        raise ParameterError(
            "a ledger and a dataset go together", "a ledger without a dataset", "Pass ledger and dataset, or neither."
        )
    if source.seeded:
        raise ParameterError(
            "a ledger keeps releases, not simulations", "a seeded generator", "Leave rng out, or leave the ledger out."
        )
    from cutline.ledger import Ledger as OpenBooks  # loads the database's library: not for those who keep no books
    from cutline.ledger import allowance

    books = OpenBooks(ledger) if isinstance(ledger, str | os.PathLike) else ledger
    with books if books is not ledger else nullcontext():  # a quote that is never run leaves no connection behind
        account = books.show(dataset)
    if asked not in (None, account.adjacency):
        raise AdjacencyError(
            f"{dataset!r} is kept under one adjacency relation, {account.adjacency}",
            str(asked),
            f"Take the dataset's: adjacency={str(account.adjacency)!r}.",
        )
    if None not in (account.unit, unit) and account.unit != unit:
        raise ParameterError(
            f"{dataset!r} protects those named in its own column",
            f"user={unit!r}, for {account.unit!r}",
            f"Pass user={account.unit!r}.",
        )
    budget, limits = allowance(account, epsilon=epsilon, delta=delta, releases=releases, share=part)
    return Terms(
        adjacency=account.adjacency,
        budget=budget,
        limits=limits,
        books=books,
        ours=books is not ledger,
        account=account,
        analyst=analyst,
        purpose=purpose,
        data_version=data_version,
        fresh=fresh,
        rng=source,
    )


def read_record(entry: Entry, read: Callable[[Mapping[str, Any]], Answer]) -> Answer:
    """Return the answer that an entry keeps, or refuse one that cannot be read."""
    try:
        return read(entry.answer or {})
    except (KeyError, TypeError, ValueError, IndexError, AttributeError):
        raise SchemaError(
            "a kept answer must be one that this version of cutline can read",
            f"entry {entry.id}, written by version {entry.version}",
            "Use the version that wrote it, or draw and pay again with fresh=True.",
        ) from None
