r"""How rows become records, and how names, texts and costs are written.

Everything that is read back is what was written, bit by bit: numbers are shortest decimals or exact fractions, and plain data
is JSON. What cannot be read back was written by another hand and is refused.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import unicodedata
from collections.abc import Iterable, Mapping, Sequence, Set
from functools import lru_cache
from typing import Any

from sqlalchemy import Connection, Row, select

from cutline.errors import DatasetError, ParameterError, SchemaError, shortened
from cutline.ledger import tables
from cutline.ledger.account import Account, Analyst, Entry, Note, Sums
from cutline.privacy import Adjacency, Budget, Cost, Filter
from cutline.rounding import fraction_down

_LONGEST_NAME = 200
_LONGEST_TEXT = 2000


def check_version(connection: Connection) -> None:
    """Raise if the tables have a layout that this version of the library does not keep."""
    refuse_other_layouts(connection.execute(select(tables.schema.c.version)).scalar())


def refuse_other_layouts(version: object) -> None:
    """Raise for any layout but the one that this version of the library keeps."""
    if version != tables.LAYOUT:
        raise SchemaError(
            f"a ledger must have layout {tables.LAYOUT}, the one this version keeps",
            f"layout {version}",
            "Bring it there with `cutline ledger upgrade`."
            if version == 1
            else "Use the newer version of cutline that wrote it.",
        )


def is_key(value: object) -> bool:
    """Say whether it could be the id of an entry, in the range of both databases."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 < value < 2**63


def check_key(value: object) -> int:
    """Return the id of an entry, or raise for what cannot be one."""
    if isinstance(value, int) and is_key(value):
        return value
    raise ParameterError(
        "an entry is named by its id, a positive whole number", shortened(value), "Take it from the history."
    )


def find_dataset(books: Connection, dataset: str) -> Row[Any]:
    """Return the dataset's row, or raise."""
    row = books.execute(tables.SELECT_DATASET, {"dataset": dataset}).first()
    if row is None:
        raise DatasetError("the ledger must know the dataset", repr(dataset), "Create it with `cutline ledger init`.")
    return row


def find_entry(books: Connection, entry_id: int) -> Row[Any]:
    """Return an entry's row with its settlement, or raise."""
    row = books.execute(tables.SELECT_ENTRY, {"entry_id": entry_id}).first()
    if row is None:
        raise DatasetError("the ledger must know the entry", f"entry {entry_id}", "Look at `cutline ledger history`.")
    return row


def name_of(books: Connection, dataset_id: int) -> str:
    """Return the name of the dataset with this id."""
    query = select(tables.datasets.c.name).where(tables.datasets.c.id == dataset_id)
    return str(books.execute(query).scalar_one())


def list_datasets(books: Connection) -> list[str]:
    """Return the names of all datasets in their own order."""
    return sorted(name for (name,) in books.execute(select(tables.datasets.c.name)))


def read_account(books: Connection, dataset: str, *, head: str) -> Account:
    """Return a dataset's account with everybody who may ask, has spent something of it or has a limit."""
    row = find_dataset(books, dataset)
    return account_from_row(
        row, analysts=books.execute(tables.SELECT_ANALYSTS, {"dataset_id": row.id}).all(), head=head
    )


def account_from_row(row: Row[Any], *, analysts: Sequence[Row[Any]] = (), head: str | None = None) -> Account:
    """Return the account that a dataset's row holds; totals that no charge can have made are refused, not added to."""
    try:
        account = _read_rows(row, analysts, head)
    except (ValueError, TypeError, ZeroDivisionError):
        account = None
    if account is None or min(account.spent.rdp, account.spent.delta) < 0:
        raise SchemaError(
            "a dataset's row must hold what Cutline wrote there",
            repr(row.name),
            "Restore the database from a copy that holds every entry.",
        )
    return account


def _read_rows(row: Row[Any], analysts: Sequence[Row[Any]], head: str | None) -> Account:
    return Account(
        dataset=row.name,
        owner=row.owner,
        adjacency=Adjacency(row.adjacency),
        unit=row.unit,
        budget=Budget(epsilon=float(row.epsilon), delta=float(row.delta), releases=row.releases),
        filter=Filter(order=float(row.filter_order), rdp=float(row.filter_rdp), delta=float(row.filter_delta)),
        spent=Sums.from_row(row, "spent"),
        entries=row.entries,
        created=row.created,
        closed=row.closed,
        version=row.version,
        lists_analysts=bool(row.listed),
        head=head,
        analysts=tuple(
            Analyst(
                name=analyst.analyst,
                spent=Sums.from_row(analyst, "spent"),
                limits=None if analyst.limit_rdp is None else Sums.from_row(analyst, "limit"),
                allowed=bool(analyst.allowed),
            )
            for analyst in analysts
        ),
    )


def read_page(books: Connection, dataset: str, *, before: int | None, limit: int) -> list[Entry]:
    """Return one page of entries, newest first; found by key, so that the last page costs what the first does."""
    query = tables.SELECT_HISTORY.order_by(tables.entries.c.id.desc()).limit(limit)
    if before is not None:
        query = query.where(tables.entries.c.id < before)
    rows = books.execute(query, {"dataset_id": find_dataset(books, dataset).id}).all()
    return entries_from_rows(books, dataset, rows)


def entries_from_rows(
    books: Connection, dataset: str, rows: Sequence[Row[Any]], *, answer: str | None = None
) -> list[Entry]:
    """Return entries with their costs and notes; ``answer`` is the text of the answer if there is one entry."""
    digests = {row.cost for row in rows} | {row.settled_cost for row in rows} - {None}
    query_costs = select(tables.costs).where(tables.costs.c.digest.in_(sorted(digests)))
    plain = {row.digest: json.loads(row.cost) for row in books.execute(query_costs)} if digests else {}
    notes = _read_notes(books, [row.id for row in rows])
    return [
        Entry(
            id=row.id,
            dataset=dataset,
            at=row.at,
            analyst=row.analyst,
            mechanism=json.loads(row.mechanism),
            reserved=Sums.from_row(row, "reserved"),
            settled=None if row.settled_cost is None else Sums.from_row(row, "settled"),
            settled_at=row.settled_at,
            reserved_cost=plain[row.cost],
            settled_cost=None if row.settled_cost is None else plain[row.settled_cost],
            version=row.version,
            purpose=row.purpose,
            question=None if row.question is None else json.loads(row.question),
            data_version=row.data_version,
            answered=row.answer_digest is not None,
            answer=None if answer is None else json.loads(answer),
            notes=tuple(notes.get(row.id, ())),
        )
        for row in rows
    ]


def _read_notes(books: Connection, entry_ids: list[int]) -> dict[int, list[Note]]:
    notes: dict[int, list[Note]] = {}
    if entry_ids:
        link = tables.links.c
        query = select(link.entry_id, link.at, link.detail).where(link.entry_id.in_(entry_ids), link.kind == "note")
        for row in books.execute(query.order_by(link.number)):
            notes.setdefault(row.entry_id, []).append(Note(at=row.at, text=json.loads(row.detail)["note"]))
    return notes


def read_answer(books: Connection, row: Row[Any]) -> Entry:
    """Return an entry with its answer, if it has one; raise for an answer that is not the one that was settled."""
    answer = books.execute(tables.SELECT_ANSWER, {"entry_id": row.id}).scalar()
    if (None if answer is None else digest_text(answer)) != row.answer_digest:
        raise SchemaError("an answer must be what was settled", f"entry {row.id}", "Look with `cutline ledger audit`.")
    (entry,) = entries_from_rows(books, name_of(books, row.dataset_id), [row], answer=answer)
    return entry


def find_answer(books: Connection, dataset_id: int, question: str, *, data_version: str) -> Entry | None:
    """Return the newest answered entry with this question about this version of the data."""
    same = {"dataset_id": dataset_id, "digest": digest_text(question), "data_version": data_version}
    row = books.execute(tables.SELECT_REPEAT, same).first()
    return None if row is None else read_answer(books, row)


def find_last_cut(books: Connection, dataset_id: int, topic: str) -> int | None:
    """Return the cut that went out last on this topic, or None."""
    found = books.execute(tables.SELECT_LAST_CUT, {"dataset_id": dataset_id, "digest": digest_text(topic)}).scalar()
    return None if found is None else int(found)


def read_burn_down(books: Connection, dataset: str) -> list[tuple[str, float, float]]:
    """Replay the whole history in the order of time: what was left after each event, in percent of both limits."""
    found = find_dataset(books, dataset)
    limits = account_from_row(found).limits
    events: list[tuple[str, Sums]] = []
    for row in books.execute(tables.SELECT_HISTORY.order_by(tables.entries.c.id), {"dataset_id": found.id}):
        reserved = Sums.from_row(row, "reserved")
        events.append((row.at, reserved))
        if row.settled_cost is not None and (refund := Sums.from_row(row, "settled") - reserved) != Sums():
            events.append((row.settled_at, refund))
    points, spent = [(found.created, 100.0, 100.0)], Sums()
    for at, change in sorted(events, key=lambda event: event[0]):
        spent += change
        rdp, delta = (100 * fraction_down(1 - share) for share in spent.shares(limits))
        points.append((at, rdp, delta))
    return points


def check_name(what: str, name: object) -> str:
    """Return the name, in Unicode's composed form (NFC), if both databases and every screen can hold it; raise otherwise.

    Two ways to type one name are one account: an é may be one character, or an e and an accent.
    """
    return _check_text(what, name, _LONGEST_NAME, "a name")


def check_text(what: str, text: object) -> str:
    """Return a line of text, such as a purpose or a note, under the rules for names; raise for other things."""
    return _check_text(what, text, _LONGEST_TEXT, "one line")


def _check_text(what: str, text: object, longest: int, kind: str) -> str:
    if isinstance(text, str):
        composed = unicodedata.normalize("NFC", text)
        if 0 < len(composed) <= longest and composed.isprintable() and composed == composed.strip():
            return composed
    raise ParameterError(
        f"{what} must be {kind} of 1 to {longest} printable characters", shortened(text), "Try another one."
    )


def check_names(what: str, names: Iterable[str] | None) -> list[str] | None:
    """Return a list of different names, or None for None; raise for an empty one and for a single text."""
    if names is None:
        return None
    listed = [] if isinstance(names, str | bytes) else sorted({check_name(what, name) for name in names})
    if not listed:
        raise ParameterError(
            f"a list of {what}s must name at least one", "none", f"Leave {what}s out to let everybody ask."
        )
    return listed


def encode(what: str, value: Mapping[str, object]) -> str:
    """Return public plain data as text, the same for equal data."""
    try:
        return json.dumps(dict(value), sort_keys=True, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        raise ParameterError(
            f"{what} is given to a ledger in plain data",
            type(value).__name__,
            "Pass texts, numbers, lists and mappings with texts as keys, as `describe()` and `to_dict()` return them.",
        ) from None


def encode_mechanism(mechanism: Mapping[str, object]) -> str:
    """Return a mechanism's public parameters as text, in their own order."""
    return encode_in_order("a mechanism", mechanism)


def encode_in_order(what: str, value: Mapping[str, object]) -> str:
    """Return public plain data as text, in their own order: what is read back is also printed as it was."""
    encode(what, value)
    return json.dumps(dict(value), separators=(",", ":"), allow_nan=False)


def digest_text(text: str) -> str:
    """Return the SHA-256 of a text."""
    return hashlib.sha256(text.encode()).hexdigest()


@lru_cache(maxsize=64)
def encode_cost(cost: Cost) -> tuple[str, str]:
    """Return a cost's digest and its text: a table of a thousand values is written once, not once per release."""
    plain = json.dumps(cost.to_dict(), sort_keys=True, separators=(",", ":"), allow_nan=False)
    return digest_text(plain), plain


def write_cost(books: Connection, cost: Cost, *, known: Set[str]) -> str:
    """Write a cost unless its digest is among the known ones, which are on the books already; return its digest."""
    digest, plain = encode_cost(cost)
    if digest not in known:
        books.execute(tables.INSERT_COST, {"digest": digest, "cost": plain})
    return digest


def current_time() -> str:
    """Return the time by the clock, in UTC."""
    return dt.datetime.now(dt.UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
