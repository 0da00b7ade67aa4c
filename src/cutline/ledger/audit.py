r"""The audit: everything on the books is recomputed, and whatever does not fit is named.

What it shows: a row that another hand has changed, added or taken away. Without a head that was noted outside the database it
cannot show that the last links were cut off with everything they stand for, nor that the whole chain was written anew.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from sqlalchemy import Connection, Row, select

from cutline.errors import ParameterError
from cutline.ledger import reading, tables
from cutline.ledger.account import Sums
from cutline.ledger.chain import (
    START,
    digest_account,
    digest_row,
    digest_state,
    hash_link,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """What an audit found: the head of the chain, how much was recomputed, and what does not fit."""

    head: str
    links: int
    datasets: int
    entries: int
    findings: tuple[str, ...]

    @property
    def passed(self) -> bool:
        """Whether everything fits."""
        return not self.findings

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {**asdict(self), "passed": self.passed, "findings": list(self.findings)}


def check_head(head: str | None) -> str | None:
    """Return a head as it is written in the chain, or raise if it cannot be one."""
    if head is None:
        return None
    written = head.strip().lower() if isinstance(head, str) else ""
    if not re.fullmatch("[0-9a-f]{64}", written):
        raise ParameterError(
            "a head is 64 hexadecimal digits", repr(head)[:80], "`cutline ledger audit` and `show` print it."
        )
    return written


def audit(books: Connection, *, head: str | None) -> Audit:
    """Recompute the chain, every row's digest and every sum; with a head, also require that the chain still holds it."""
    links = books.execute(select(tables.links).order_by(tables.links.c.number)).all()
    datasets = books.execute(select(tables.datasets).order_by(tables.datasets.c.id)).all()
    entries = books.execute(select(tables.entries)).all()
    settled = {row.entry_id: row for row in books.execute(select(tables.settlements))}
    answers = {row.entry_id: row.answer for row in books.execute(select(tables.answers))}
    costs = {row.digest: row.cost for row in books.execute(select(tables.costs))}
    analysts = _by_dataset(books.execute(select(tables.analysts).order_by(tables.analysts.c.analyst)).all())
    records = {
        **{("account", row.id, None): digest_account(row) for row in datasets},
        **{("reserve", row.dataset_id, row.id): digest_row(row) for row in entries},
    }
    owner = {row.id: row.dataset_id for row in entries}
    for key, row in settled.items():
        records["settle", owner.get(key), key] = digest_row(row)
    versions = books.execute(select(tables.schema.c.version)).scalars().all()
    findings = [
        *([] if versions == [tables.LAYOUT] else ["the row that names the layout is not what was written"]),
        *_check_chain(links, head),
        *_check_records(links, records, {row.id for row in datasets}),
        *_check_answers(answers, {key: row.answer_digest for key, row in settled.items()}),
        *_check_costs(costs, {row.cost for row in entries} | {row.cost for row in settled.values()}),
        *(
            f"the analysts of dataset {key} belong to no account"
            for key in set(analysts) - {row.id for row in datasets}
        ),
    ]
    links_of, entries_of = _by_dataset(links), _by_dataset(entries)
    for row in datasets:
        findings += _check_account(row, analysts[row.id], links_of[row.id], entries_of[row.id], settled)
    last = links[-1].hash if links else START
    return Audit(head=last, links=len(links), datasets=len(datasets), entries=len(entries), findings=tuple(findings))


def _by_dataset(rows: Sequence[Row[Any]]) -> defaultdict[int, list[Row[Any]]]:
    groups = defaultdict(list)
    for row in rows:
        groups[row.dataset_id].append(row)
    return groups


def _check_chain(links: Sequence[Row[Any]], head: str | None) -> Iterator[str]:
    """Each link has the next number and follows from the one before; the head that the owner noted is one of them."""
    previous = START
    for number, link in enumerate(links, start=1):
        if link.number != number or hash_link(previous, dict(link._mapping)) != link.hash:
            yield f"link {link.number} does not follow from the one before"
            break
        previous = link.hash
    if head is not None and head not in {START, *(link.hash for link in links)}:
        yield "the chain does not hold the given head: links were cut off, or the books were written anew"


def _check_records(
    links: Sequence[Row[Any]], records: dict[tuple[str, int | None, int | None], str], datasets: set[int]
) -> Iterator[str]:
    """Compare rows with links: what was linked is there and unchanged, and what is there was linked once."""
    linked = {}
    for link in links:
        if link.kind in ("account", "reserve", "settle"):
            key = (link.kind, link.dataset_id, link.entry_id)
            if key in linked:
                yield f"link {link.number} tells for a second time what another link tells"
            linked[key] = link.record
        elif link.record is not None or link.detail is None:
            yield f"link {link.number} does not say what it stands for"
        if link.dataset_id not in datasets:
            yield f"link {link.number} belongs to no account"
    for key in {**linked, **records}:
        if linked.get(key) != records.get(key):
            kind, dataset, entry = key
            yield f"the {kind} row of {f'dataset {dataset}' if entry is None else f'entry {entry}'} is not what was linked"


def _check_answers(answers: dict[int, str], digests: dict[int, str | None]) -> Iterator[str]:
    for key in {**answers, **digests}:
        if (reading.digest_text(answers[key]) if key in answers else None) != digests.get(key):
            yield f"the answer of entry {key} is not what was settled"


def _check_costs(costs: dict[str, str], used: set[str]) -> Iterator[str]:
    for key, cost in costs.items():
        if reading.digest_text(cost) != key:
            yield f"the cost {key[:16]} is not what its digest says"
    for key in sorted(used - set(costs)):
        yield f"the cost {key[:16]} is missing"


def _check_account(
    row: Row[Any],
    analysts: list[Row[Any]],
    links: list[Row[Any]],
    entries: list[Row[Any]],
    settled: dict[int, Row[Any]],
) -> Iterator[str]:
    """Totals are the sums of the charges in force, and limits, lists and closings are those that the links tell."""
    if not links or links[-1].state != digest_state(row, analysts):
        yield f"account {row.name!r} is not what its last link says"
    try:
        account = reading.account_from_row(row, analysts=analysts)
        spent: dict[str | None, Sums] = defaultdict(Sums)
        total = Sums()
        for entry in entries:
            known = settled.get(entry.id)
            charged = Sums.from_row(entry, "reserved") if known is None else Sums.from_row(known, "settled")
            total += charged
            spent[entry.analyst] += charged
        told = _replay(links)
    except (ValueError, TypeError, KeyError, ArithmeticError, RuntimeError):
        yield f"account {row.name!r} holds numbers that cannot be read"
        return
    if account.spent != total or account.entries != len(entries):
        yield f"the totals of account {row.name!r} are not the sums of its entries"
    if not account.budget.covers(account.filter):
        yield f"the limits of account {row.name!r} are not within its budget"
    if not total.within(account.limits):
        yield f"account {row.name!r} is overspent"
    for one in account.analysts:
        if one.spent != spent.pop(one.name, Sums()):
            yield f"the totals of an analyst of account {row.name!r} are not the sums of the entries"
    if any(name is not None for name in spent):
        yield f"an analyst of account {row.name!r} has entries and no totals"
    limits = {one.analyst: (one.limit_rdp, one.limit_delta) for one in analysts if one.limit_rdp is not None}
    allowed = {one.analyst for one in analysts if one.allowed}
    flags = (bool(row.limited), bool(row.listed), row.closed)
    if (limits, allowed, flags) != (told.limits, told.allowed, (bool(told.limits), bool(told.allowed), told.closed)):
        yield f"limits, list or closing of account {row.name!r} are not those of its links"


@dataclass(slots=True)
class _Told:
    limits: dict[str, tuple[str, str]]
    allowed: set[str]
    closed: str | None


def _replay(links: list[Row[Any]]) -> _Told:
    """Return what the links tell of limits, permissions and closing."""
    told = _Told({}, set(), None)
    for link in links:
        detail: dict[str, Any] = {} if link.detail is None else json.loads(link.detail)
        if link.kind == "limit":
            told.limits[detail["analyst"]] = (detail["limit_rdp"], detail["limit_delta"])
        elif link.kind == "allow":
            told.allowed.add(detail["analyst"])
        elif link.kind == "close":
            told.closed = detail["closed"]
    return told
