"""The public functions with arguments that nobody should pass: a result, or a refusal in our words, and soon."""

from __future__ import annotations

import warnings
from functools import lru_cache
from typing import Any

import numpy as np

import cutline
from fuzz.doors import Door, doors, ledger_doors
from fuzz.target import Case, Found, TooLongError, expect_our_words, processor_time
from fuzz.values import NUMBERS, pick

_LONGEST = 20.0  # seconds of processor time that one call may take


def calls(case: Case) -> None:
    """Pass random values to random doors, then several hostile arguments to one quote."""
    chance = case.random
    names = _known_doors()
    for name in chance.sample(sorted(names), 3 * case.size):
        words, value = pick(chance)
        _call(name, names[name], words, value)
    hostile = {name: pick(chance) for name in chance.sample(_ASKED, 1 + case.size // 2)}
    said = ", ".join(f"{name}={words}" for name, (words, _) in hostile.items())
    asked: dict[str, Any] = {"k": 3, "max_k": 20, **{name: value for name, (_, value) in hostile.items()}}
    _call(f"quote({said})", lambda _: cutline.quote(**asked), "these", None)


_ASKED = (
    "epsilon",
    "delta",
    "releases",
    "k",
    "max_k",
    "adjacency",
    "mechanism",
    "counts",
    "candidates",
    "where",
    "user",
)


def books(case: Case) -> None:
    """Pass random values to the doors of a ledger."""
    chance = case.random
    known = ledger_doors(case.directory)
    for name in chance.sample(sorted(known), min(len(known), 3 * case.size)):
        words, value = pick(chance)
        _call(name, known[name], words, value)


@lru_cache(maxsize=1)
def _known_doors() -> dict[str, Door]:
    return dict(doors())


def _call(name: str, door: Door, words: str, value: object) -> None:
    what = f"{name} <- {words}"
    try:
        with warnings.catch_warnings(), processor_time(_LONGEST):
            warnings.simplefilter("error")
            expect_our_words(lambda: door(value), what)
    except TooLongError:
        raise Found(f"{what}: more than {_LONGEST:g} s of processor time") from None


def ready_counts(case: Case) -> None:
    """Pass ready counts of every kind; a refusal must not quote one of them."""
    chance = case.random
    secret = chance.randint(10**8, 10**9)
    odd = chance.choice(list(NUMBERS.values()))
    counts = {f"item{i}": chance.choice((1, 50, 900)) for i in range(case.size)} | {"a": secret, "b": odd}
    kept = chance.choice((counts, list(counts.values()), np.array([secret, 2, 3]), {secret: 3, "b": odd}))
    try:
        expect_our_words(lambda: cutline.top(kept, max_k=5), f"top(counts with a {type(odd).__name__})")
    except Found as found:
        if str(secret) in str(found):
            raise Found("a raw exception that quotes a count") from None
        raise
