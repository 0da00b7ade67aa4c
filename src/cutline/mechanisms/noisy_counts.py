r"""Noisy counts of a set that has already been released: an optional second step after any mechanism."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Self, TypeVar

import numpy as np

from cutline.arrays import IntArray
from cutline.count_errors import spread
from cutline.errors import AdjacencyError, DomainError, ParameterError, shortened
from cutline.histogram import BoundedHistogram, Histogram, Item, OpenHistogram, item_key
from cutline.mechanisms.base import Mechanism
from cutline.mechanisms.calibration import INSIDE, check_limits
from cutline.privacy import Adjacency, Budget, Cost, Filter, Gaussian, largest
from cutline.privacy.rules.rdp import best_order, rdp
from cutline.ranking import Ranked
from cutline.release import Release
from cutline.rounding import fraction_down
from cutline.sampling import Source, resolve
from cutline.sampling.noise import check_sigma, discrete_gaussian

AFTER_BOUND = "users after the bound"
_CHUNK = 4096
_MOST_ITEMS = 2**32  # of a set, for which every sigma can still be drawn
_MOST_DELTA = 0.9
_HIGH_ORDER, _SOME_DELTA = 1e4, 0.25
_ROUNDS = 16

_M = TypeVar("_M", bound=Mechanism)


@dataclass(frozen=True, slots=True, kw_only=True)
class NoisyCounts:
    r"""The counts of released items, each with discrete Gaussian noise that grows with the root of how many there are.

    **Privacy.** One person moves each count by at most 1 under both relations, so k counts have squared L2 sensitivity k; with
    noise of standard deviation ``sigma sqrt(k)`` they cost ``order / (2 sigma^2)``, the same for every k [CKS20, Theorem 4;
    docs/proofs/noisy-counts.md]. The items, and with them k, must already be public.

    Parameters
    ----------
    sigma
        Standard deviation of the noise of a single item.
    bound
        How many of the counts one person can move, if they are counts with a bound on items per user: those are "users after
        the bound", whose noise does not grow beyond that many items. None: the counts of all users.

    Examples
    --------
    >>> from cutline.sampling import SeededSource
    >>> noisy = NoisyCounts.calibrate(Budget(epsilon=1.0, delta=1e-6))
    >>> counts = OpenHistogram.from_counts({"a": 340, "b": 333, "c": 12}, max_k=3)
    >>> f"{noisy.sigma:.2f}", f"{noisy.deviation(2):.2f}", noisy.counts(counts, ["a", "b"], rng=SeededSource(0))
    ('4.53', '6.41', {'a': 340, 'b': 337})
    """

    sigma: float
    adjacency: Adjacency
    bound: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "adjacency", Adjacency(self.adjacency))
        check_sigma(self.sigma)
        check_sigma(spread(self.sigma, _MOST_ITEMS))

    @classmethod
    def calibrate(
        cls,
        budget: Budget,
        *,
        adjacency: Adjacency = Adjacency.ADD_REMOVE,
        limits: Filter | None = None,
        bound: int | None = None,
    ) -> Self:
        """Spend a whole budget on counts of sets of any size; with a filter, all of its Rényi limit."""
        if limits is not None:
            check_limits(budget, limits, needs_delta=False)
            rdp_each = float(Fraction(limits.rdp) / budget.releases)
            return cls(sigma=math.sqrt(limits.order / (2 * rdp_each * INSIDE)), adjacency=adjacency, bound=bound)

        def fits(precision: float) -> bool:
            noisy = cls(sigma=1 / precision, adjacency=adjacency, bound=bound)
            return rdp(budget.releases * noisy.cost, budget.delta) <= budget.epsilon

        # zCDP is never better than the best order: its sigma is a start that fits, and is not far off.
        log = math.log(1 / budget.delta)
        rho = (budget.epsilon / (math.sqrt(log + budget.epsilon) + math.sqrt(log))) ** 2 / budget.releases
        start = math.sqrt(2 * rho)
        precision = largest(fits, low=start * INSIDE, high=4 * start, relative=1e-9)
        return cls(sigma=1 / precision, adjacency=adjacency, bound=bound)

    @property
    def cost(self) -> Cost:
        """The cost of a set of any size."""
        return self.cost_of(1)

    def cost_of(self, k: int) -> Cost:
        """Return the cost of counting k items: the same for every k, and nothing for none."""
        curve = Gaussian(sigma=self.sigma, discrete=True)
        return Cost.of(curve, adjacency=self.adjacency) if k else Cost(adjacency=self.adjacency)

    def deviation(self, k: int) -> float:
        """Return the standard deviation of each count of k items."""
        return spread(self.sigma, k if self.bound is None else min(k, self.bound))

    def counts(self, histogram: Histogram, items: Iterable[Item], *, rng: Source | None = None) -> dict[Item, int]:
        """Return a noisy count for each of the public ``items``, in the items' own order; it may be negative."""
        public = sorted(set(items), key=item_key)
        if self.bound is None:
            true = true_counts(histogram, public)
        else:
            true = bounded_counts(histogram, public, bound=self.bound, adjacency=self.adjacency)
        noise = discrete_gaussian(len(public), sigma=self.deviation(max(1, len(public))), rng=rng)
        return dict(zip(public, (true + noise).tolist(), strict=True))

    def describe(self) -> dict[str, Any]:
        """Return the public parameters as plain data."""
        own = {} if self.bound is None else {"of": AFTER_BOUND, "moved": self.bound}
        return {"sigma_of_one": self.sigma, **own}


def with_counts(release: Release, histogram: Histogram, noisy: NoisyCounts, *, rng: Source | None = None) -> Release:
    r"""Return the release with noisy counts of its items, drawn from the histogram it was made from.

    For a withheld release, or an empty set, there is nothing to count and nothing to pay, but the price it might have had is
    part of its guarantee all the same. How many items went out is public by then, and decides how much noise there is.
    """
    if release.cost.adjacency != noisy.adjacency:
        raise AdjacencyError(
            "a release and its counts protect the same people",
            f"{release.cost.adjacency} and {noisy.adjacency}",
            "Calibrate both for the same relation.",
        )
    if release.counts is not None:
        raise ParameterError("a release is counted once", "a release with counts", "Release again.")
    asked = replace(
        release,
        reserved=(release.reserved or release.cost) + noisy.cost,
        mechanism={**release.mechanism, "counts": noisy.describe()},
    )
    if not release.items:
        return asked
    source = resolve(rng)
    drawn = noisy.counts(histogram, release.items, rng=source)
    counts = {item: drawn[item] for item in release.listed() or ()}  # in the order of the release, if it has one
    cost = release.cost + noisy.cost_of(len(counts))
    return replace(asked, counts=counts, cost=cost, seeded=release.seeded or source.seeded)


def calibrate_with_counts(
    kind: type[_M],
    budget: Budget,
    *,
    bound: int | None = None,
    counts_share: float = 0.2,
    adjacency: Adjacency = Adjacency.ADD_REMOVE,
    limits: Filter | None = None,
    **declared: Any,
) -> tuple[_M, NoisyCounts]:
    r"""Calibrate a mechanism and the counts of what it releases for one budget together.

    **Privacy.** One filter is fixed, by the caller or by the Rényi order and delta that the mechanism asks for alone, and its
    Rényi limit is split, so that the sum of both costs stays within the budget for all its releases.

    ``bound`` is as in `NoisyCounts`, and ``counts_share`` is what the counts take of the Rényi limit. The other parameters are
    those of ``kind.calibrate``.
    """
    if not 0 < counts_share < 1:
        raise ParameterError("counts_share must be above 0 and below 1", f"counts_share={counts_share}", "Try 0.2.")

    def split(whole: Filter) -> tuple[_M, NoisyCounts]:
        for_counts = fraction_down(Fraction(whole.rdp) * Fraction(counts_share))
        rest = replace(whole, rdp=fraction_down(Fraction(whole.rdp) - Fraction(for_counts)))
        mechanism = kind.calibrate(budget, adjacency=adjacency, limits=rest, **declared)
        allowed = replace(whole, rdp=for_counts, delta=0.0)
        noisy = NoisyCounts.calibrate(budget, adjacency=adjacency, limits=allowed, bound=bound)
        return mechanism, noisy

    if limits is not None:
        return split(limits)
    alone = kind.calibrate(budget, adjacency=adjacency, **declared)
    # All of delta may not go to the mechanism: something must be left for the conversion.
    delta_share = min(float(Fraction(alone.cost.delta) * budget.releases / Fraction(budget.delta)), _MOST_DELTA)
    curves = Cost(adjacency=alone.cost.adjacency, uses=tuple(replace(use, delta=0.0) for use in alone.cost.uses))
    order = best_order(budget.releases * curves, (1 - delta_share) * budget.delta)
    if order > _HIGH_ORDER:  # epsilons that are simply added: dear at orders that suit noise, so start where noise does
        order, delta_share = 1 + 2 * math.log(1 / budget.delta) / budget.epsilon, _SOME_DELTA
    for _ in range(_ROUNDS):
        mechanism, noisy = split(budget.filter(order=order, delta_share=delta_share))
        # A single release likes a high order and Gaussian noise a low one: go where both together convert best.
        total = budget.releases * (mechanism.cost + noisy.cost)
        if rdp(total, budget.delta) >= budget.epsilon * (1 - 1e-6):
            break
        order = best_order(total, budget.delta)
    return mechanism, noisy


def true_counts(histogram: Histogram, items: list[Item]) -> IntArray:
    r"""Return the true counts of public items: private, and never shown.

    An open histogram holds its top ``max_k + 1`` counts only; any other item reads as the smallest of them. So the answer is
    ``max(h_i, h_(max_k+1))`` for every item that could be asked about, which one person moves by at most 1.
    """
    ranks = _ranks(histogram, items)
    if isinstance(histogram, OpenHistogram):
        floor = int(histogram.counts[-1])
        found = [histogram.counts[ranks[item]] if item in ranks else floor for item in items]
        return np.array(found, dtype=np.int64)
    if isinstance(histogram, BoundedHistogram):  # of all users, whatever found the items
        return histogram.full_counts([ranks[item] for item in items])
    if len(ranks) < len(items):
        raise ParameterError(
            "counted items must be among the candidates", "another item", "Use the histogram of the release."
        )
    ends = np.cumsum(histogram.multiplicities)
    places = np.searchsorted(ends, np.array([ranks[item] for item in items], dtype=np.int64), side="right")
    counts: IntArray = histogram.values[places]
    return counts


def bounded_counts(histogram: Histogram, items: list[Item], *, bound: int, adjacency: Adjacency) -> IntArray:
    """Return the bounded counts of public items: private, and never shown.

    Raise if one person can move more than ``bound`` of them, or one of them by more than 1; all of that is public.
    """
    if not isinstance(histogram, BoundedHistogram):
        raise DomainError(
            "counts after the bound are of counts with one", "counts of all users", "Pass max_items_per_user."
        )
    parts, moved = histogram.parts, count_bound("bounded", histogram.max_items_per_user, adjacency)
    if parts != 1 or moved is None or moved > bound:
        raise DomainError(
            "the noise of counts after the bound must be made for that bound and for whole votes",
            f"max_items_per_user={histogram.max_items_per_user} in {parts} parts, for noise that hides {bound} counts",
            "Count again, or calibrate again.",
        )
    ranks = _ranks(histogram, items)
    ends = np.cumsum(histogram.multiplicities)
    places = np.searchsorted(ends, np.array([ranks[item] for item in items], dtype=np.int64), side="right")
    return np.asarray(histogram.values[places], dtype=np.int64)


def count_bound(
    counts: bool | str, max_items_per_user: int | None, adjacency: Adjacency, *, vote_parts: int | None = None
) -> int | None:
    """Return how many counts one person can move if they are those after the bound; None for counts of all users, or none.

    ``counts`` is what the caller asked for: true or false, or "bounded".
    """
    if isinstance(counts, bool | np.bool_):
        return None
    if not isinstance(counts, str) or counts != "bounded" or max_items_per_user is None:
        raise ParameterError(
            "counts are true, false, or 'bounded' for a mechanism with a bound on items per user",
            f"counts={shortened(counts)}{'' if max_items_per_user else ' without such a bound'}",
            "Leave counts out, or pass max_items_per_user and a mechanism that uses it.",
        )
    if vote_parts is not None:
        raise ParameterError(
            "counts after the bound are of whole votes",
            f"counts={shortened(counts)}, vote_parts={vote_parts}",
            "Leave vote_parts out, or take counts of all users.",
        )
    return max_items_per_user if adjacency is Adjacency.ADD_REMOVE else 2 * max_items_per_user


def _ranks(histogram: Histogram, items: list[Item]) -> dict[Item, int]:
    """Find the ranks of some items from the top, in growing chunks: a lazy list of names is asked for no more than needed."""
    wanted = set(items)
    # What has gone out was looked up: those names are asked for no second time, and no others beside them.
    seen = histogram.items.remembered() if isinstance(histogram.items, Ranked) else {}
    found = {item: rank for rank, item in seen.items() if item in wanted}
    start, size, end = 0, max(_CHUNK, len(items)), len(histogram.items)
    while start < end and len(found) < len(wanted):
        names = enumerate(histogram.items[start : start + size], start=start)
        found |= {item: rank for rank, item in names if item in wanted}
        start, size = start + size, 2 * size
    return found
