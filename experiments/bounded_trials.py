r"""Many runs of the mechanisms for long tails on one log, in plain floats: for simulations on public logs, never for a release.

The laws and parameters are those of the mechanisms; coins and Gumbel noise come from numpy instead of exact draws.
That is a hundred times faster and differs by nothing that a recall of three digits could show.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from cutline.arrays import IntArray
from cutline.counting import ask, bind
from cutline.histogram import BoundedHistogram
from cutline.mechanisms.open.find_then_choose import Choice, FindThenChoose
from cutline.mechanisms.open.peel_then_test import PeelThenTest
from cutline.mechanisms.open.table_threshold import TableThreshold

if TYPE_CHECKING:
    import pyarrow as pa

LongTail: TypeAlias = FindThenChoose | PeelThenTest | TableThreshold


def count_bounded(table: pa.Table, *, bound: int, parts: int | None = None) -> tuple[IntArray, IntArray]:
    """Return the full and the bounded counts of the items that somebody kept, as a release would count them.

    Parameters
    ----------
    table
        A public log with the columns user and item.
    bound
        How many items a user keeps.
    parts
        8 for bounded counts in eighths of a vote, of which a user with many items gives each a few.

    Examples
    --------
    >>> import pyarrow
    >>> log = pyarrow.table({"user": [1, 1, 2], "item": ["tea", "rum", "tea"]})
    >>> [counts.tolist() for counts in count_bounded(log, bound=2)]
    [[2, 1], [2, 1]]
    """
    question = ask(user="user", item="item", max_items_per_user=bound, vote_parts=parts)
    (histogram,) = bind(table, question).count(1)
    assert isinstance(histogram, BoundedHistogram)  # noqa: S101 - a bound was asked for
    return histogram.full_counts(range(len(histogram.items))), np.repeat(histogram.values, histogram.multiplicities)


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
