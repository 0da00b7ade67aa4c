r"""Many runs of the mechanisms for long tails on one log, in plain floats: for simulations on public logs, never for a release.

The laws and parameters are those of the mechanisms; coins and Gumbel noise come from numpy instead of exact draws.
That is a hundred times faster and differs by nothing that a recall of three digits could show.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from cutline.arrays import IntArray
from cutline.mechanisms.open.find_then_choose import Choice, FindThenChoose
from cutline.mechanisms.open.peel_then_test import PeelThenTest
from cutline.mechanisms.open.table_threshold import TableThreshold

LongTail: TypeAlias = FindThenChoose | PeelThenTest | TableThreshold


def bound_contributions(users: npt.NDArray[Any], items: IntArray, *, bound: int, seed: int = 0) -> IntArray:
    """Return how many users keep each item when each keeps at most ``bound`` of the distinct pairs, by lot.

    Examples
    --------
    >>> bound_contributions(np.array([1, 1, 2]), np.array([0, 1, 1]), bound=2).tolist()
    [1, 2]
    >>> int(bound_contributions(np.array([1, 1, 2]), np.array([0, 1, 1]), bound=1).sum())
    2
    """
    lots = np.random.default_rng(seed).random(len(users))
    order = np.lexsort((lots, users))
    first = np.flatnonzero(np.diff(users[order], prepend=users[order[:1]] - 1)) if len(users) else np.empty(0, int)
    place = np.arange(len(users)) - np.repeat(first, np.diff(np.append(first, len(users))))
    return np.bincount(items[order[place < bound]], minlength=int(items.max(initial=-1)) + 1)


def released_indices(
    mechanism: LongTail, full: IntArray, bounded: IntArray, runs: int, *, seed: int
) -> Iterator[IntArray]:
    r"""Yield, for each of ``runs`` independent releases, the indices that went out; none if it was withheld.

    Parameters
    ----------
    mechanism
        What releases.
    full, bounded
        Public or made-up counts over the same items: of all users, and after the bound. Without a bound, only ``full`` counts.
    runs
        How many releases.
    seed
        Of numpy's generator.
    """
    rng = np.random.default_rng(seed)
    if isinstance(mechanism, PeelThenTest):
        ranked = np.argsort(-full, kind="stable")
        for _ in range(runs):
            yield ranked[_peel(mechanism, full[ranked], rng)]
        return
    seen = np.flatnonzero(bounded)
    steps = [mechanism.step] if isinstance(mechanism, TableThreshold) else [r.step for r in mechanism.rounds]
    chances = [step.chances(bounded[seen]) for step in steps]
    for _ in range(runs):
        found = np.zeros(len(seen), dtype=np.bool_)
        for number, chance in enumerate(chances):
            found |= rng.random(len(seen)) < chance
            if isinstance(mechanism, FindThenChoose) and found.sum() >= mechanism.rounds[number].enough:
                choice = mechanism.choice(mechanism.rounds[number], int(found.sum()))
                yield _choose(choice, seen[found], full, rng)
                break
        else:
            yield seen[found]


def recall(indices: IntArray, counts: IntArray, *, k: int) -> float:
    """Return the share of the top k among the indices; an item that ties with the k-th is as good as it."""
    least = np.sort(counts)[-k] if k <= len(counts) else 0
    return min(int((counts[indices] >= max(least, 1)).sum()), k) / k


def _choose(choice: Choice, candidates: IntArray, full: IntArray, rng: np.random.Generator) -> IntArray:
    scores = float(choice.peels.rate) * full[candidates] * (-1.0 if choice.drops else 1.0)
    drawn = np.argsort(-(scores + rng.gumbel(size=len(scores))))
    return candidates[drawn[choice.peels.k :]] if choice.drops else candidates[drawn[: choice.k]]


def _peel(mechanism: PeelThenTest, counts: IntArray, rng: np.random.Generator) -> IntArray:
    """Return the ranks that go out, of counts in descending order."""
    padded = np.zeros(mechanism.max_k + 1, dtype=np.int64)
    padded[: min(len(counts), len(padded))] = counts[: len(padded)]
    if mechanism.first is not None:
        distance = mechanism.distance(int(padded[mechanism.k - 1] - padded[mechanism.k]))
        if rng.random() < mechanism.first.table(np.array([distance]))[0]:
            return np.arange(min(mechanism.k, len(counts)))
    draws = mechanism.draws
    rate = mechanism.epsilon / mechanism.adjacency.count_range
    noisy = rate * padded[:-1] + rng.gumbel(size=mechanism.max_k)
    order = np.argsort(-noisy)
    if draws.weight:
        bottom = rate * (padded[-1] + draws.height) + np.log(draws.weight) + rng.gumbel()
        order = order[noisy[order] > bottom]
    ranks = order[: mechanism.k]
    if len(ranks):
        distance = mechanism.distance(int(padded[ranks].min() - padded[-1]))
        values = mechanism.table.values
        if rng.random() >= values[min(distance, len(values) - 1)]:
            return ranks[:0]
    return ranks[ranks < len(counts)]
