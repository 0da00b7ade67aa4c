"""Mechanisms and aggregators, calibrated at random, against what they claim: exact laws on random pairs of neighbours."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from typing import Any

import numpy as np

from cutline.errors import CutlineError, LawTooLarge
from cutline.histogram import BoundedHistogram, ClosedHistogram, OpenHistogram
from cutline.mechanisms.registry import MECHANISMS
from cutline.pate.aggregators.registry import AGGREGATORS
from cutline.privacy import Adjacency, Budget, Cost, Filter
from cutline.verify.check import EPSILONS, ORDERS, Laws, Subject
from cutline.verify.claim import judge
from cutline.verify.suites.aggregators.on_ballots import OnBallots
from fuzz.target import Case, Found

_SLACK = 1 + 1e-9


def mechanisms(case: Case) -> None:
    """Calibrate a random mechanism, and hold the claim on a random pair of neighbouring histograms."""
    chance = case.random
    kind, adjacency = chance.choice(MECHANISMS), chance.choice(list(Adjacency))
    budget, limits = random_budget(chance)
    items = chance.randint(1, 1 + case.size)
    closed = "closed" in kind.domains and (kind.domains == ("closed",) or chance.random() < 0.5)
    offered: dict[str, Any] = {
        "k": chance.randint(1, max(1, items - closed)),
        "max_k": max(1, items + chance.randint(0, 2)),
        "candidates": items,
        "max_items_per_user": chance.randint(1, items),
        "min_k": chance.choice((1, 1, 2)),
        "target": chance.randint(1, items),
        "weight": chance.choice((0.0, 0.5, 2.0)),
        "clip": chance.randint(1, 40),
        "choose": chance.choice(("em", "em", "argmax", "rnm-gaussian", "rnm-laplace", "permute-and-flip")),
        "test": chance.choice(("table", "table", "gaussian", "laplace", "paper")),
        "test_share": chance.choice((0.05, 0.3)),
    }
    always = ("k", "max_k", "candidates", "max_items_per_user")
    taken = [parameter.name for parameter in kind.parameters if parameter.name in always or chance.random() < 0.4]
    parameters = {name: offered[name] for name in taken if name in offered}
    words = f"{kind.name} {parameters} at {budget}, {adjacency}, limits={limits}"
    try:
        made = kind.calibrate(budget, adjacency=adjacency, limits=limits, **parameters)
    except CutlineError:
        return  # the API target sees that refusals are in our words
    check_price(made.cost, budget, limits, words)
    if kind.accepts("max_items_per_user"):
        pair, counts = random_bounded(chance, items, parameters["max_items_per_user"], adjacency)
        check_claim(made, pair, f"{words}, counts {counts}")
        return
    first, second = random_counts(chance, items, adjacency)
    max_k = int(made.describe().get("max_k", items))
    build = ClosedHistogram.from_counts if closed else lambda counts: OpenHistogram.from_counts(counts, max_k=max_k)
    if closed and items == 1 and kind.domains == ("closed",):
        return  # nothing to choose from, which such mechanisms refuse
    one, other = (build({f"item{i}": int(n) for i, n in enumerate(counts)}) for counts in (first, second))
    check_claim(made, (one, other), f"{words}, counts {first.tolist()} and {second.tolist()}")


def aggregators(case: Case) -> None:
    """Calibrate a random aggregator, and hold the claim on two neighbouring boxes of ballots."""
    chance = case.random
    kind, adjacency = chance.choice(AGGREGATORS), chance.choice(list(Adjacency))
    budget, limits = random_budget(chance)
    teachers, labels = chance.randint(1, 2 + 3 * case.size), chance.randint(1, min(3, 1 + case.size // 2))
    limit = chance.choice((None, 1, 2)) if any(p.name == "limit" for p in kind.parameters) else None
    words = (
        f"{kind.name} limit={limit} for {teachers} teachers, {labels} labels at {budget}, {adjacency}, limits={limits}"
    )
    try:
        made = kind.calibrate(budget, teachers=teachers, labels=labels, adjacency=adjacency, limits=limits, limit=limit)
    except CutlineError:
        return
    check_price(made.cost, budget, limits, words)
    share = chance.random()
    ballots = np.array([[[int(chance.random() < share) for _ in range(labels)]] for _ in range(teachers)])
    other = ballots[1:] if adjacency is Adjacency.ADD_REMOVE else ballots.copy()
    if adjacency is Adjacency.REPLACE:
        other[0, 0] = [chance.randint(0, 1) for _ in range(labels)]
    check_claim(OnBallots(subject=made), (ballots, other), f"{words}, ballots {ballots.tolist()}")


def random_budget(chance: random.Random) -> tuple[Budget, Filter | None]:
    """Return a budget, and in four cases of ten a ledger's limits within it."""
    epsilon, delta = math.exp(chance.uniform(math.log(0.01), math.log(10))), 10 ** chance.uniform(-12, -0.5)
    budget = Budget(epsilon=epsilon, delta=delta, releases=chance.choice((1, 1, 2, 10, 300)))
    if chance.random() < 0.6:
        return budget, None
    try:
        return budget, budget.filter(order=1 + math.exp(chance.uniform(-1, 6)), delta_share=chance.uniform(0.01, 0.9))
    except CutlineError:
        return budget, None


def random_counts(chance: random.Random, items: int, adjacency: Adjacency) -> tuple[Any, Any]:
    """Return two neighbouring vectors of counts, often with ties and small gaps."""
    level = chance.choice((1, 4, 40, 10**6))
    first = np.array([max(0, chance.choice((level, level // 2, 0)) + chance.randint(-2, 2)) for _ in range(items)])
    moves = (0, 1) if adjacency is Adjacency.ADD_REMOVE else (-1, 0, 1)
    second = np.maximum(first + np.array([chance.choice(moves) for _ in range(items)]), 0)
    return first, second


def random_bounded(chance: random.Random, items: int, bound: int, adjacency: Adjacency) -> tuple[Any, Any]:
    """Return two neighbouring bounded histograms: one user of a few kept items joins, or is another; and their counts."""
    level = chance.choice((0, 1, 3, 30))
    bounded = np.array([chance.randint(0, level + 1) for _ in range(items)])
    full = bounded + np.array([chance.randint(0, level) for _ in range(items)])

    def one_user() -> tuple[Any, Any]:
        has = np.array([chance.randint(0, 1) for _ in range(items)])
        kept = np.zeros(items, dtype=np.int64)
        kept[chance.sample(np.flatnonzero(has).tolist(), min(bound, int(has.sum())))] = 1
        return has, kept

    without = (np.zeros(items, dtype=np.int64),) * 2
    users = (without if adjacency is Adjacency.ADD_REMOVE else one_user(), one_user())
    pairs = [(full + has, bounded + kept) for has, kept in users]
    build = BoundedHistogram.from_counts
    built = tuple(build(g.astype(np.int64), h.astype(np.int64), max_items_per_user=bound) for g, h in pairs)
    return built, [(g.tolist(), h.tolist()) for g, h in pairs]


def check_price(cost: Cost, budget: Budget, limits: Filter | None, words: str) -> None:
    """All releases together must fit the budget by some rule, and with a ledger its limits."""
    total = budget.releases * cost
    if limits is not None:
        if total.rdp(limits.order) > limits.rdp * _SLACK or total.delta > limits.delta * _SLACK:
            raise Found(f"{words}: dearer than the ledger's limits")
    elif not replace(budget, epsilon=budget.epsilon * _SLACK).fits(cost):
        raise Found(f"{words}: dearer than the budget, {total.epsilon(budget.delta)}")


def check_claim(subject: Subject, pair: tuple[Any, Any], words: str) -> None:
    """Judge both directions between two exact laws."""
    try:
        laws = Laws.of(subject, pair)
    except LawTooLarge:
        return
    cost = subject.cost
    claim = {order: cost.rdp(order) for order in ORDERS}
    p, q = laws.compare(np.array([0, 1]), np.array([1, 0]))
    verdict = judge(p, q, delta=cost.delta, rdp=claim, epsilons=EPSILONS)
    if verdict.violations:
        raise Found(f"{words}: the claim is broken, by a factor of {verdict.worst:.6g}")
