r"""A question of the books, back in the words of the service: for pages, links, and programs that ask the same again."""

from __future__ import annotations

import json
import shlex
from typing import Any
from urllib.parse import urlencode

from cutline.ledger import Account, Entry
from cutline.outcome import NextStep
from cutline.service.asking import Asked
from cutline.service.catalogue import Dataset

_FOR_OWNERS = {"max_items_per_user": "items of one user", "max_groups_per_user": "groups of one user"}


def read_asked(entry: Entry, dataset: Dataset, account: Account) -> Asked:
    """Return the question of an entry, by the names that the owner declared."""
    question: dict[str, Any] = dict(entry.question or {})
    mechanism: dict[str, Any] = question.get("mechanism") or {}
    filters = dataset.description.filters
    spent = questions_in(entry, account)
    return Asked(
        item=str(question.get("item")),
        k=mechanism.get("k"),
        filter=next((name for name, where in filters.items() if where == question.get("where")), None),
        by=question.get("by"),
        counts=bool(mechanism.get("counts")),
        share=f"{spent}/{account.budget.releases}" if spent > 1 else None,
        purpose=entry.purpose,
    )


def questions_in(entry: Entry, account: Account) -> int:
    """Return for how many usual questions an entry was charged at first."""
    return max(1, round(account.budget.releases * float(max(entry.reserved.shares(account.limits)))))


def say_question(asked: Asked) -> str:
    """Return a question in a line of plain words."""
    parts = [f"the top {asked.k} of {asked.item}" if asked.k else f"the top of {asked.item}, wherever it ends"]
    parts += [asked.filter] if asked.filter else []
    parts += [f"one list for each {asked.by}"] if asked.by else []
    parts += ["with counts"] if asked.counts else []
    return ", ".join(parts)


def ask_again(dataset: Dataset, asked: Asked, **changed: object) -> str:
    """Return the address of the page on which this question, or one a little different, is filled in already."""
    spend = asked.share.partition("/")[0] if asked.share else None
    counts = "yes" if asked.counts else None
    fields = {
        "item": asked.item,
        "k": asked.k,
        "filter": asked.filter,
        "by": asked.by,
        "counts": counts,
        "spend": spend,
    }
    given = {name: value for name, value in (fields | changed).items() if value is not None}
    return f"/datasets/{dataset.name}?{urlencode(given)}"


def advise_next(dataset: Dataset, asked: Asked, steps: tuple[NextStep, ...], *, left: int) -> list[dict[str, str]]:
    """Return what to ask next, as the service offers it: a link where the page has a field for it, or whom to turn to.

    ``left`` is how many questions whoever reads it could still spend.
    """
    told, spent = [], int(asked.share.partition("/")[0]) if asked.share else 1
    for step in steps:
        because = step.because[:1].upper() + step.because[1:]
        if step.parameter == "k":
            words = f"Ask for the top {step.value}"
            told.append({"do": words, "because": because, "link": ask_again(dataset, asked, k=step.value)})
        elif step.parameter == "share":
            spend = min(3 * spent, left)
            link = ask_again(dataset, asked, spend=spend)
            if spend > spent:
                told.append({"do": f"Spend {spend} questions on it", "because": because, "link": link})
        elif step.parameter in _FOR_OWNERS:
            words = f"Ask the owner to limit the {_FOR_OWNERS[step.parameter]}"
            told.append({"do": words, "because": because, "link": ""})
    return told


def as_python(origin: str, dataset: Dataset, asked: Asked) -> str:
    """Return the lines of Python that ask the same."""
    words = ", ".join(f"{name}={value!r}" for name, value in _body(asked).items())
    return (
        f"from cutline.client import Client\n\nservice = Client({origin!r}, token=...)\n"
        f"release = service.top({dataset.name!r}, {words})"
    )


def as_curl(origin: str, dataset: Dataset, asked: Asked) -> str:
    """Return the command that asks the same; the shell does not read what names hold."""
    body = shlex.quote(json.dumps(_body(asked), ensure_ascii=False))
    return (
        f"curl {origin}/api/v1/datasets/{dataset.name}/releases \\\n  -H 'Authorization: Bearer '\"$TOKEN\" \\\n"
        f"  -H 'Content-Type: application/json' \\\n  -d {body}"
    )


def _body(asked: Asked) -> dict[str, Any]:
    return {name: value for name, value in asked.to_dict().items() if value and name != "purpose"}
