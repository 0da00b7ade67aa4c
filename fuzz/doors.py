r"""Every public way in for a number or a name: one value is passed there, and comes back as a result or as a refusal.

A door is a name and a function of one value; what else it needs is sound and small.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import cutline
from cutline.ledger import Ledger
from cutline.mechanisms.registry import MECHANISMS
from cutline.pate.aggregators.registry import AGGREGATORS
from cutline.privacy import Adjacency, BoundedRange, Budget, Cost, Filter, Gaussian, Pure

Door = Callable[[Any], object]

_BUDGET = Budget(epsilon=1.0, delta=1e-6)
_COST = Cost.of(BoundedRange(epsilon=0.1), adjacency=Adjacency.ADD_REMOVE)
_SOUND = {"k": 3, "max_k": 20, "candidates": 12, "max_items_per_user": 5}
_COUNTS = {"castle": 90, "harbour": 88, "museum": 5}


def doors() -> Mapping[str, Door]:
    """Return the doors that keep no books."""
    return {**_numbers(), **_verbs(), **_mechanisms(), **_aggregators()}


def _numbers() -> dict[str, Door]:
    return {
        "Budget(epsilon)": lambda v: Budget(epsilon=v, delta=1e-6),
        "Budget(delta)": lambda v: Budget(epsilon=1.0, delta=v),
        "Budget(releases)": lambda v: Budget(epsilon=1.0, delta=1e-6, releases=v),
        "Filter(order)": lambda v: Filter(order=v, rdp=0.1, delta=1e-7),
        "Filter(rdp)": lambda v: Filter(order=8.0, rdp=v, delta=1e-7),
        "Filter(delta)": lambda v: Filter(order=8.0, rdp=0.1, delta=v),
        "Budget.filter(order)": lambda v: _BUDGET.filter(order=v, delta_share=0.2),
        "Budget.filter(delta_share)": lambda v: _BUDGET.filter(order=20.0, delta_share=v),
        "Cost.epsilon(delta)": _COST.epsilon,
        "Cost.summary(delta)": _COST.summary,
        "times * Cost": _COST.__rmul__,
        "Cost.of(delta)": lambda v: Cost.of(Pure(epsilon=0.1), adjacency=Adjacency.ADD_REMOVE, delta=v),
        "Cost.rdp(order)": _COST.rdp,
        "Pure(epsilon)": lambda v: Pure(epsilon=v).rdp(3.0),
        "BoundedRange(epsilon)": lambda v: BoundedRange(epsilon=v).rdp(3.0),
        "Gaussian(sigma)": lambda v: Gaussian(sigma=v).rdp(3.0),
        "Adjacency.parse": Adjacency.parse,
    }


def _verbs() -> dict[str, Door]:
    found: dict[str, Door] = {}
    for name in ("epsilon", "delta", "releases", "max_k", "min_k", "target", "weight", "clip", "choose", "test"):
        found[f"quote({name})"] = partial(_ask, {"max_k": 20}, name)
    for name in ("k", "max_k", "test_share", "mechanism", "adjacency", "counts", "user", "item", "where", "rng"):
        found[f"quote(k, {name})"] = partial(_ask, {"k": 3, "max_k": 20}, name)
    for name in ("candidates", "memory_limit", "ledger", "dataset", "analyst", "ranks"):
        found[f"quote({name})"] = partial(_ask, {"k": 3, "max_k": 20}, name)
    table = {"k": 3, "max_k": 20, "by": "day", "groups": ["mon", "tue"], "user": "who", "item": "what"}
    for name in ("by", "groups", "max_groups_per_user", "key"):
        found[f"quote(by, {name})"] = partial(_ask, table, name)
    found["plan(k)"] = lambda v: cutline.plan(_BUDGET, k=v, max_k=20)
    found["plan(max_k)"] = lambda v: cutline.plan(_BUDGET, k=3, max_k=v)
    found["plan(domain)"] = lambda v: cutline.plan(_BUDGET, k=3, max_k=20, domain=v)
    found["count(max_k)"] = lambda v: cutline.count(_COUNTS, max_k=v)
    found["count(source)"] = lambda v: cutline.count(v, max_k=5)
    ballots = np.ones((5, 2, 3), dtype=np.int64)
    for name in ("epsilon", "delta", "releases", "teachers", "limit", "aggregator", "adjacency"):
        found[f"label({name})"] = partial(_label, ballots, name)
    found["label(ballots)"] = lambda v: cutline.label(v)
    return found


def _ask(sound: Mapping[str, Any], name: str, value: Any) -> object:
    return cutline.quote(**{**sound, name: value})


def _label(ballots: Any, name: str, value: Any) -> object:
    return cutline.label(ballots, **{name: value})


def _mechanisms() -> dict[str, Door]:
    found: dict[str, Door] = {}
    for kind in MECHANISMS:
        sound = {name: _SOUND[name] for name in _SOUND if kind.accepts(name)}
        for parameter in kind.parameters:
            found[f"{kind.name}({parameter.name})"] = partial(_calibrate, kind, sound, parameter.name)
    return found


def _aggregators() -> dict[str, Door]:
    found: dict[str, Door] = {}
    for kind in AGGREGATORS:
        sound = {"teachers": 20, "labels": 4}
        for name in (*sound, "limit"):
            found[f"{kind.name}({name})"] = partial(_calibrate, kind, sound, name)
    return found


def _calibrate(kind: Any, sound: Mapping[str, Any], name: str, value: Any) -> object:
    return kind.calibrate(_BUDGET, **{**sound, name: value})


def ledger_doors(directory: Path) -> Mapping[str, Door]:
    """Return the doors of a ledger, with an account "visits" in it."""
    ledger = Ledger(directory / "books.db")
    limits = _BUDGET.filter(order=20.0, delta_share=0.25)
    ledger.create("visits", budget=_BUDGET, limits=limits, owner="ann")
    made = iter(range(10**6))
    return {
        "Ledger": Ledger,
        "Ledger.create(dataset)": lambda v: ledger.create(v, budget=_BUDGET, limits=limits, owner="ann"),
        "Ledger.create(owner)": lambda v: ledger.create(f"d{next(made)}", budget=_BUDGET, limits=limits, owner=v),
        "Ledger.create(unit)": lambda v: ledger.create(
            f"d{next(made)}", budget=_BUDGET, limits=limits, owner="ann", unit=v
        ),
        "Ledger.create(adjacency)": lambda v: ledger.create(
            f"d{next(made)}", budget=_BUDGET, limits=limits, owner="ann", adjacency=v
        ),
        "Ledger.create(budget)": lambda v: ledger.create(f"d{next(made)}", budget=v, limits=limits, owner="ann"),
        "Ledger.create(limits)": lambda v: (
            ledger.create(f"d{next(made)}", budget=_BUDGET, limits=v, owner="ann") if v is not None else None
        ),
        "Ledger.show": ledger.show,
        "Ledger.history(dataset)": ledger.history,
        "Ledger.history(limit)": lambda v: ledger.history("visits", limit=v),
        "Ledger.history(before)": lambda v: ledger.history("visits", before=v),
        "Ledger.limit(analyst)": lambda v: ledger.limit("visits", v, share=0.5),
        "Ledger.limit(share)": lambda v: ledger.limit("visits", f"a{next(made)}", share=v),
        "Ledger.limit(rdp)": lambda v: ledger.limit("visits", f"a{next(made)}", rdp=v, delta=1e-9),
        "Ledger.limit(delta)": lambda v: ledger.limit("visits", f"a{next(made)}", rdp=0.01, delta=v),
        "Ledger.burn_down": ledger.burn_down,
        "Ledger.close": ledger.close,
        "Ledger.reserve(analyst)": lambda v: ledger.reserve(_tiny(), dataset="visits", analyst=v, mechanism={}),
        "Ledger.reserve(dataset)": lambda v: ledger.reserve(_tiny(), dataset=v, analyst=None, mechanism={}),
        "quote(ledger, epsilon)": partial(_paid, ledger, "epsilon"),
        "quote(ledger, releases)": partial(_paid, ledger, "releases"),
        "quote(ledger, delta)": partial(_paid, ledger, "delta"),
        "quote(ledger, analyst)": partial(_paid, ledger, "analyst"),
        "quote(ledger, dataset)": partial(_paid, ledger, "dataset"),
    }


def _tiny() -> Cost:
    return Cost.of(Pure(epsilon=1e-9), adjacency=Adjacency.ADD_REMOVE)


def _paid(ledger: Ledger, name: str, value: Any) -> object:
    sound: dict[str, Any] = {"k": 3, "max_k": 20, "ledger": ledger, "dataset": "visits"}
    sound |= {"epsilon": 0.5} if name == "delta" else {}
    return cutline.quote(**{**sound, name: value})
