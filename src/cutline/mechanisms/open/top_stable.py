r"""Top Stable: the sparse vector technique over prefixes, which releases the first one found stable, or nothing."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, ClassVar, Self

import numpy as np
from flint import arb

from cutline.arrays import IntArray
from cutline.errors import LawTooLarge, ParameterError, shortened
from cutline.histogram import MOST_RANKS, Histogram, check_max_k
from cutline.mechanisms.base import Mechanism, Parameter, declare
from cutline.mechanisms.calibration import INSIDE, SUCCESS, check_limits, inner_share, largest_pure
from cutline.mechanisms.noise_laws import first_pass_law
from cutline.outcome import Law, Outcome
from cutline.privacy import Adjacency, Budget, Cost, Filter, Pure, largest
from cutline.privacy.curves.base import check_positive, check_whole
from cutline.privacy.rules.advanced import advanced
from cutline.rounding import ball_up, enclose, fraction_down
from cutline.sampling import Source
from cutline.sampling.noise import LAPLACE, first_above

THRESHOLD_SHARE = Fraction(37, 100)  # p1: what the threshold's noise takes of epsilon
RATIO = 2 * THRESHOLD_SHARE / (1 - THRESHOLD_SHARE)  # c: the tests' noise scale over the threshold's
_COARSE, _FINE = 1e-4, 1e-9  # how closely epsilon is found while searching, and at the end
_LARGEST_LAW = 1000  # ranks; a law is a sum of as many integrals of as many factors


@dataclass(frozen=True, slots=True, kw_only=True)
class TopStable(Mechanism):
    r"""The set of the top i for the first tested rank i whose gap is seen to be stable, or nothing.

    The ranks are tested in a public order, by default k, k-1, ..., 1: what is released is then the largest prefix of at most
    k items that looked stable. With ``eps1 = 0.37 epsilon`` and ``eps2 = 0.63 epsilon``, rank i passes if
    ``d_i + Lap(2/eps2) > 2 ln(1/delta_q)/eps2 + Lap(1/eps1)``, with one threshold for all tests and d_i the distance to
    instability; the first that passes is released and the rest are not tested.

    **Privacy.** (epsilon, delta)-DP under the stated adjacency: the sparse vector technique on 1-Lipschitz distances where
    the sets agree, and at most delta for all ranks together where they differ [CWG20, Algorithm 1 with p1 = 0.37;
    docs/proofs/top-stable.md]. The authors' published code compares the wrong pair of ranks; this is the algorithm as written.

    Parameters
    ----------
    k
        The largest prefix wanted.
    max_k
        How many tests delta is shared between; at least k.
    epsilon, delta
        Of one release.
    ranks
        The order of the tests: different ranks from 1 to max_k, public. None is k down to 1.

    Examples
    --------
    >>> from cutline import OpenHistogram
    >>> from cutline.sampling import SeededSource
    >>> mechanism = TopStable.calibrate(Budget(epsilon=1.0, delta=1e-6), k=3)
    >>> counts = OpenHistogram.from_counts({"a": 940, "b": 933, "c": 629, "d": 628}, max_k=3)
    >>> release = mechanism.release(counts, rng=SeededSource(0))
    >>> release.k, release.listed()
    (2, ['a', 'b'])
    """

    name: ClassVar[str] = "top-stable"
    ordered: ClassVar[bool] = False
    domains: ClassVar[tuple[str, ...]] = ("open", "closed")
    reference: ClassVar[str] = "CWG20"
    cost_rule: ClassVar[str] = "one (eps, delta) step"
    parameters: ClassVar[tuple[Parameter, ...]] = declare("max_k", "ranks", required=("k",))

    k: int
    max_k: int
    epsilon: float
    delta: float
    ranks: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        Mechanism.__post_init__(self)
        check_k(self.k, self.max_k)
        check_positive("epsilon", self.epsilon)
        if not 0 < self.delta < 1:
            raise ParameterError("delta must be above 0 and below 1", f"delta={self.delta}", "Try delta=1e-6.")
        if self.ranks is not None:
            object.__setattr__(self, "ranks", check_ranks(self.ranks))
            distinct = set(self.ranks)
            if not distinct or len(distinct) < len(self.ranks) or not distinct <= set(range(1, self.max_k + 1)):
                raise ParameterError(
                    "ranks must be different whole numbers from 1 to max_k",
                    f"{len(self.ranks)} ranks, max_k={self.max_k}",
                    "Leave ranks out to test k down to 1.",
                )

    @classmethod
    def calibrate(
        cls,
        budget: Budget,
        *,
        adjacency: Adjacency = Adjacency.ADD_REMOVE,
        limits: Filter | None = None,
        k: int,
        max_k: int | None = None,
        ranks: tuple[int, ...] | None = None,
    ) -> Self:
        r"""Calibrate as `Mechanism.calibrate` says; several releases compose by optimal composition of pure steps [KOV15].

        The share of delta that the tests get is the one that makes the gap they need smallest. By default ``max_k`` is k, or
        the largest of ``ranks``.
        """
        check_max_k(k if max_k is None else max_k)
        ranks = None if ranks is None else check_ranks(ranks)
        reach = max([k, *(ranks or ())]) if max_k is None else max_k
        check_k(k, reach)
        epsilon, delta = calibrate_step(budget, limits, tests=reach)
        return cls(
            k=k, max_k=reach, epsilon=epsilon, delta=delta, adjacency=Adjacency(adjacency), ranks=ranks, budget=budget
        )

    @property
    def cost(self) -> Cost:
        """The cost of one release; the same whatever comes out."""
        return Cost.of(Pure(epsilon=self.epsilon), adjacency=self.adjacency, delta=self.delta)

    @property
    def tested(self) -> tuple[int, ...]:
        """The ranks in the order in which they are tested."""
        return tuple(range(self.k, 0, -1)) if self.ranks is None else self.ranks

    @property
    def delta_q(self) -> float:
        """The share of one test, the delta_q of the paper; the threshold is ``2 ln(1/delta_q)/eps2``."""
        return tail_within(self.delta, self.max_k)

    def run(self, histogram: Histogram, source: Source) -> tuple[Outcome, Cost]:
        k = int(self.sample(histogram, 1, rng=source)[0])
        return self.outcome(histogram, k), self.cost

    def outcome(self, histogram: Histogram, k: int) -> Outcome:
        """Return the outcome in which the top ``k`` go out; nothing does if k is 0."""
        return Outcome(items=frozenset(histogram.top(k)) if k else None, k=k, steps=("test",))

    def sample(self, histogram: Histogram, runs: int, *, rng: Source | None = None) -> IntArray:
        """Draw the released k, or 0, ``runs`` times; for simulations, since each run is a release of its own."""
        each = Fraction(self.epsilon) * (1 - THRESHOLD_SHARE)
        scale, delta_q = 2 / each, self.delta_q
        scores = np.broadcast_to(self.distances(histogram), (runs, len(self.tested)))
        first = first_above(
            scores,
            scale=scale,
            threshold=lambda: -arb(delta_q).log() * scale.numerator / scale.denominator,
            threshold_scale=scale / RATIO,
            noise=LAPLACE,
            rng=rng,
        )
        released: IntArray = np.where(first < 0, 0, np.asarray(self.tested)[first])
        return released

    def distances(self, histogram: Histogram) -> IntArray:
        """Return the distance to instability of each tested rank, in the order of the tests."""
        ranks = np.asarray(self.tested)
        distances: IntArray = self.adjacency.distance(histogram.gaps(int(ranks.max())))[ranks - 1]
        return distances

    def law(self, histogram: Histogram) -> Law:
        if len(self.tested) > _LARGEST_LAW:
            raise LawTooLarge(
                f"a law of Top Stable is integrated for up to {_LARGEST_LAW} ranks",
                f"{len(self.tested)} ranks",
                "Lower k, or sample.",
            )
        chances = self.chances(tuple(self.distances(histogram).tolist()))
        return {self.outcome(histogram, k): p for k, p in zip((*self.tested, 0), chances, strict=True)}

    def chance(self, histogram: Histogram, k: int) -> float:
        """Return the probability that exactly the top ``k`` go out: one integral."""
        if k not in self.tested:
            return 0.0
        at = self.tested.index(k)
        return self.chances(tuple(self.distances(histogram).tolist()), wanted=(at,))[0]

    def chances(self, distances: tuple[int, ...], wanted: tuple[int, ...] | None = None) -> list[float]:
        """Return the chance that each test is the first to pass at these distances, and last that none is; or only of some."""
        unit = Fraction(self.epsilon) * (1 - THRESHOLD_SHARE) / 2
        return first_pass_law([d * unit for d in distances], threshold=self.delta_q, ratio=RATIO, wanted=wanted)

    def public_parameters(self) -> dict[str, Any]:
        ranks = {} if self.ranks is None else {"ranks": list(self.ranks)}
        return {"k": int(self.k), "max_k": int(self.max_k), **ranks, "epsilon": self.epsilon, "delta": self.delta}


@lru_cache(maxsize=256)
def tail_within(delta: float, tests: int) -> float:
    r"""Return the largest delta_q, to a relative 1e-12, that keeps ``tests`` tests of unstable prefixes within delta.

    ``tests * (2 dq^c + dq - c (dq^c + 2 dq)) / (4 (1 - c)) <= delta``, checked in ball arithmetic; never above 1.
    """

    def holds(dq: float) -> bool:
        def spent() -> Any:
            c, x = arb(RATIO.numerator) / RATIO.denominator, arb(dq)
            return tests * (2 * x**c + x - c * (x**c + 2 * x)) / (4 * (1 - c))

        return ball_up(enclose(spent)) <= delta

    # The bracket is below dq (2c - 1)/(4 (c - 1)), which gives a start that holds.
    start = float(4 * (RATIO - 1) / (2 * RATIO - 1)) * delta / tests * (1 - 1e-9)
    return largest(holds, low=min(start, 1.0), high=1.0, relative=1e-12)


def check_k(k: int, max_k: int) -> None:
    """Refuse a k that is not a whole number from 1 to ``max_k``."""
    check_max_k(max_k)
    if isinstance(k, bool) or not isinstance(k, int | np.integer) or not 1 <= k <= max_k:
        raise ParameterError(
            "k must be a whole number from 1 to max_k", f"k={shortened(k)}, max_k={max_k}", "Lower k or raise max_k."
        )


def check_ranks(ranks: Iterable[int]) -> tuple[int, ...]:
    """Return the ranks as plain numbers; refuse what is not a list of whole numbers."""
    if isinstance(ranks, str | bytes) or getattr(ranks, "shape", None) == () or not isinstance(ranks, Iterable):
        raise ParameterError("ranks must be a list of whole numbers", shortened(ranks), "Try ranks=(5, 10).")
    return tuple(check_whole("a rank", rank, "Try ranks=(5, 10).", most=MOST_RANKS) for rank in ranks)


@lru_cache(maxsize=256)
def calibrate_step(budget: Budget, limits: Filter | None, *, tests: int) -> tuple[float, float]:
    """Return (epsilon, delta) of one release: of the filter, if there is one, else those that need the smallest gap."""
    if limits is not None:
        return _within(budget, limits)
    if budget.releases == 1:
        return budget.epsilon, budget.delta
    # All of delta to the tests leaves plain addition; less of it leaves a share for optimal composition.
    plain = budget.epsilon / budget.releases * INSIDE, _each(budget.delta, 1.0, budget.releases)
    from scipy.optimize import minimize_scalar

    found = minimize_scalar(
        lambda t: gap_needed(_composed(budget, inner_share(t), _COARSE), tests),
        bounds=(-6.0, 6.0),
        method="bounded",
        options={"xatol": 1e-2},
    )
    composed = _composed(budget, inner_share(found.x), _FINE)
    return min(plain, composed, key=lambda step: gap_needed(step, tests))


def gap_needed(step: tuple[float, float], tests: int) -> float:
    """Return the distance that passes 9 times in 10 when it is tested first."""
    epsilon, delta = step
    return (2 * math.log(1 / tail_within(delta, tests)) / (1 - float(THRESHOLD_SHARE)) + _reserve()) / epsilon


@lru_cache(maxsize=1)
def _reserve() -> float:
    """Return, for epsilon = 1, how far above the threshold a distance must be to pass 9 times in 10."""
    test, bar = 2 / (1 - float(THRESHOLD_SHARE)), 1 / float(THRESHOLD_SHARE)

    def misses(x: float) -> float:
        c = float(RATIO)
        return (c * c * math.exp(-x / test) - math.exp(-x / bar)) / (2 * (c * c - 1))

    return largest(lambda x: misses(x) >= 1 - SUCCESS, low=1e-6, high=1e3)


def _composed(budget: Budget, share: float, relative: float) -> tuple[float, float]:
    """Return the largest epsilon whose optimal composition fits when the tests take ``share`` of delta."""
    delta = _each(budget.delta, share, budget.releases)

    def fits(epsilon: float) -> bool:
        total = budget.releases * Cost.of(Pure(epsilon=epsilon), adjacency=Adjacency.ADD_REMOVE, delta=delta)
        return advanced(total, budget.delta) <= budget.epsilon

    low = budget.epsilon / budget.releases * INSIDE
    return largest(fits, low=low, high=max(low, budget.epsilon) * 2, relative=relative), delta


def _within(budget: Budget, limits: Filter) -> tuple[float, float]:
    check_limits(budget, limits)
    rdp = fraction_down(Fraction(limits.rdp) / budget.releases)
    return largest_pure(order=limits.order, rdp=rdp), _each(limits.delta, 1.0, budget.releases)


def _each(delta: float, share: float, releases: int) -> float:
    """Return one release's part of a share of delta, rounded down."""
    return fraction_down(Fraction(delta) * Fraction(share) / releases)
