r"""The hash chain: whoever changes a row of the books by another hand leaves a link that no longer fits.

Every transaction that writes appends one link to a chain that all accounts of a database share. A link holds what happened
(an account, a charge, a settlement, a limit, a permission, a note, a closing), the digest of the rows that were written for
it, the digest of the account as it is afterwards, and the hash of all this with the hash of the link before. The last hash is
the *head* of the chain. Whoever noted it can tell later that everything up to it is still there, unchanged.

Before each charge the account must be what its last link says, so totals, limits and analysts that another hand has changed
refuse every charge at the price of a few look-ups; `audit` recomputes everything. The same check refuses a file that was copied
in the middle of a commit: pages from before and after it do not fit together.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import Connection, Row, bindparam, select

from cutline.errors import SchemaError
from cutline.ledger import reading, tables
from cutline.ledger.account import Account

START: Final = hashlib.sha256(b"cutline ledger, layout 2").hexdigest()  # what the first link follows
_WAY_OUT = "Look with `cutline ledger audit`, and restore the ledger from a backup."
_MUTABLE = ("spent_rdp", "spent_delta", "entries", "limited", "listed", "closed")
_links = tables.links.c
_SELECT_NEWEST = select(tables.links).order_by(_links.number.desc()).limit(2)
_SELECT_HEAD = select(_links.number, _links.hash).order_by(_links.number.desc()).limit(1)
_SELECT_LAST_OF_ACCOUNT = (
    select(_links.number, _links.state)
    .where(_links.dataset_id == bindparam("dataset_id"))
    .order_by(_links.number.desc())
    .limit(1)
)
_SELECT_OF_ENTRY = select(_links.number, _links.kind, _links.record).where(_links.entry_id == bindparam("entry_id"))
_SELECT_SEEN = select(_links.hash).where(_links.number == bindparam("number"))
_SELECT_WRITTEN = {
    "reserve": tables.SELECT_ENTRY_ALONE,
    "settle": select(tables.settlements).where(tables.settlements.c.entry_id == bindparam("entry_id")),
}


@dataclass(frozen=True, slots=True)
class Head:
    """A link by its number and its hash."""

    number: int
    hash: str


def digest(value: object) -> str:
    """Return the SHA-256 of plain data in its canonical form."""
    plain = json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(plain.encode()).hexdigest()


def hash_link(previous: str, link: Mapping[str, object]) -> str:
    """Return the hash of a link that follows the link with the hash ``previous``."""
    return digest([previous, {name: value for name, value in link.items() if name != "hash"}])


def digest_state(dataset: Row[Any], analysts: Sequence[Row[Any]]) -> str:
    """Return the digest of an account: its row, and the rows of its analysts."""
    return digest([dict(dataset._mapping), [dict(row._mapping) for row in analysts]])


def digest_account(dataset: Row[Any]) -> str:
    """Return the digest of what never changes of an account."""
    return digest({str(name): value for name, value in dataset._mapping.items() if name not in _MUTABLE})


def digest_row(row: Row[Any]) -> str:
    """Return the digest of a row that never changes."""
    return digest({str(name): value for name, value in row._mapping.items()})


def read_head(books: Connection) -> Head:
    """Return the last link of the chain."""
    row = books.execute(_SELECT_HEAD).first()
    return Head(0, START) if row is None else Head(row.number, row.hash)


class OpenAccount:
    """An account inside a transaction that writes: checked against the chain, and locked for everybody else.

    Parameters
    ----------
    seen
        A link that the caller has seen before. Books in which it is no longer there were put back to an earlier time.
    """

    def __init__(self, books: Connection, dataset: str, *, seen: Head | None = None) -> None:
        lock_books(books)
        self.books = books
        self.head = _check_newest(books, seen)
        self._read(dataset)
        last = books.execute(_SELECT_LAST_OF_ACCOUNT, {"dataset_id": self.row.id}).first()
        if last is None or last.state != digest_state(self.row, self.analysts):
            raise SchemaError(
                "an account must be what the last link of its chain says, before anything is charged",
                repr(self.row.name),
                _WAY_OUT,
            )

    def _read(self, dataset: str) -> None:
        self.row = reading.find_dataset(self.books, dataset)
        self.analysts = self.books.execute(tables.SELECT_ANALYSTS, {"dataset_id": self.row.id}).all()
        self._account: Account | None = None

    @property
    def account(self) -> Account:
        """The account as it was when it was read, or after the last link."""
        if self._account is None:
            self._account = reading.account_from_row(self.row, analysts=self.analysts, head=self.head.hash)
        return self._account

    def append(
        self,
        kind: str,
        *,
        entry_id: int | None = None,
        record: str | None = None,
        detail: Mapping[str, object] | None = None,
    ) -> Account:
        """Append the link of what was just written, and return the account as it is then."""
        self._read(self.row.name)
        self.head = append_link(
            self.books, self.head, self.row, self.analysts, kind=kind, entry_id=entry_id, record=record, detail=detail
        )
        return self.account

    def check_open_entry(self, entry: Row[Any]) -> bool:
        """Say whether an entry is still open; raise if it is not what was linked when it was written."""
        found = self.books.execute(_SELECT_OF_ENTRY, {"entry_id": entry.id}).all()
        if [link.record for link in found if link.kind == "reserve"] != [digest_row(entry)]:
            raise SchemaError("an entry must be what its link says", f"entry {entry.id}", _WAY_OUT)
        return all(link.kind != "settle" for link in found)


def lock_books(books: Connection) -> None:
    """Let every other writer wait until the end of the transaction; raise for another layout."""
    reading.refuse_other_layouts(books.execute(tables.LOCK_BOOKS).scalar())


def append_link(
    books: Connection,
    head: Head,
    dataset: Row[Any],
    analysts: Sequence[Row[Any]],
    *,
    kind: str,
    at: str | None = None,
    entry_id: int | None = None,
    record: str | None = None,
    detail: Mapping[str, object] | None = None,
) -> Head:
    """Write one link after ``head``, and return it."""
    link: dict[str, Any] = {
        "number": head.number + 1,
        "kind": kind,
        "at": reading.current_time() if at is None else at,
        "dataset_id": dataset.id,
        "entry_id": entry_id,
        "detail": None if detail is None else reading.encode("a link's detail", detail),
        "record": record,
        "state": digest_state(dataset, analysts),
    }
    link["hash"] = hash_link(head.hash, link)
    books.execute(tables.INSERT_LINK, link)
    return Head(link["number"], link["hash"])


def _check_newest(books: Connection, seen: Head | None) -> Head:
    """Return the last link; raise if it does not follow from the one before, or if the seen link is gone."""
    newest = books.execute(_SELECT_NEWEST).all()
    if not newest:
        return Head(0, START)
    last = newest[0]
    previous = newest[1].hash if len(newest) > 1 else START
    known = {row.number: row.hash for row in newest}
    if seen is not None and seen.number not in known:
        known[seen.number] = books.execute(_SELECT_SEEN, {"number": seen.number}).scalar()
    if hash_link(previous, dict(last._mapping)) != last.hash or last.number - len(newest) + 1 != newest[-1].number:
        raise SchemaError("the last link of a ledger's chain must follow from the one before", "another one", _WAY_OUT)
    # A link that this very ledger has written and seen on the disk was complete then.
    ours = seen is not None and (seen.number, seen.hash) == (last.number, last.hash)
    if not (ours or _is_complete(books, last)):
        raise SchemaError("what the last link of a ledger's chain stands for must be there", "a part of it", _WAY_OUT)
    if seen is not None and known[seen.number] != seen.hash:
        raise SchemaError(
            "a ledger must not be put back to an earlier time while it is open",
            f"books without the link {seen.hash[:16]}... that was there before",
            _WAY_OUT,
        )
    return Head(last.number, last.hash)


def _is_complete(books: Connection, link: Row[Any]) -> bool:
    """Say whether everything that was written with a link is found from it, and it from everything.

    Of a file that was copied in the middle of a commit, only the rows of that commit can be in pieces, and they are the last.
    """
    of_account = books.execute(_SELECT_LAST_OF_ACCOUNT, {"dataset_id": link.dataset_id}).first()
    if of_account is None or of_account.number != link.number:
        return False
    if link.entry_id is None:
        return True
    of_entry = books.execute(_SELECT_OF_ENTRY, {"entry_id": link.entry_id}).all()
    if link.number not in {row.number for row in of_entry}:
        return False
    if link.kind not in _SELECT_WRITTEN:
        return True
    written = books.execute(_SELECT_WRITTEN[link.kind], {"entry_id": link.entry_id}).first()
    return written is not None and digest_row(written) == link.record
