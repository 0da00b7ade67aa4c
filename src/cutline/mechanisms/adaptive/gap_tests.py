r"""Is the top set stable? One bit about the gap, released by a coin whose bias is the whole mechanism."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, Self

import numpy as np
import numpy.typing as npt
from flint import arb

from cutline.arrays import FloatArray, IntArray
from cutline.errors import ParameterError
from cutline.mechanisms.calibration import largest_pure
from cutline.privacy import Adjacency, BitTable, Cost, Filter, GaussianBit, Pure
from cutline.privacy.curves.base import check_positive
from cutline.rounding import ball_up, working_precision
from cutline.sampling import Source, bernoulli, bernoulli_real


class GapTest(Protocol):
    """A coin whose bias grows with the gap, at most ``delta`` where the top set is unstable."""

    certifies_choice: ClassVar[bool]  # whether the bias is a function of a 1-Lipschitz distance, as argmax needs

    @property
    def name(self) -> str:
        """What `StableTopK.calibrate` calls it."""

    @property
    def delta(self) -> float:
        """The chance of passing where the set is unstable."""

    def cost(self, adjacency: Adjacency) -> Cost:
        """Return the cost of one test."""

    def chances(self, gaps: IntArray, slack: IntArray, adjacency: Adjacency) -> tuple[FloatArray, FloatArray]:
        """Return the probabilities of passing and of not passing, each with full relative accuracy."""

    def passes(self, gaps: IntArray, slack: IntArray, adjacency: Adjacency, rng: Source) -> npt.NDArray[np.bool_]:
        """Draw the bit, exactly."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableTest:
    r"""Pass with probability ``table(distance to instability)``; the optimal test at one order.

    **Privacy.** delta-approximate at the table's own curve: neighbours with different sets both have distance 0, where
    the test passes with probability at most delta [docs/proofs/stable-top-k.md]. The table is the optimal rule of [HM26].
    """

    name: ClassVar[str] = "table"
    certifies_choice: ClassVar[bool] = True
    table: BitTable

    def __post_init__(self) -> None:
        if self.table.start != 0:
            raise ParameterError(
                "a stability table starts at 0", f"start={self.table.start}", "Use BitTable.stability."
            )

    @classmethod
    def within(cls, limits: Filter) -> Self:
        """Return the test that spends these limits."""
        return cls(table=BitTable.stability(order=limits.order, rdp=limits.rdp, delta=limits.delta))

    @property
    def delta(self) -> float:
        return self.table.values[0]

    def cost(self, adjacency: Adjacency) -> Cost:
        return Cost.of(self.table, adjacency=adjacency, delta=self.delta)

    def chances(self, gaps: IntArray, slack: IntArray, adjacency: Adjacency) -> tuple[FloatArray, FloatArray]:
        yes = self.table(np.minimum(adjacency.distance(gaps), slack))
        return yes, 1 - yes

    def passes(self, gaps: IntArray, slack: IntArray, adjacency: Adjacency, rng: Source) -> npt.NDArray[np.bool_]:
        return bernoulli(self.chances(gaps, slack, adjacency)[0], rng=rng)


@dataclass(frozen=True, slots=True, kw_only=True)
class GaussianTest:
    r"""The paper's test: pass if ``max(c, gap) + N(0, sigma^2) - sigma * offset > c``, with c = 1 (ADD_REMOVE) or 2 (REPLACE).

    **Privacy.** delta-approximate at the curve of the released bit [docs/proofs/gaussian-bit.md]. The bit is drawn
    with its exact probability ``Phi(n / sigma - offset)``; no Gaussian variate is ever rounded.

    Parameters
    ----------
    sigma
        Standard deviation of the (virtual) noise.
    offset
        The threshold in standard deviations; an unstable set passes with probability ``Phi(-offset)``.
    name
        "gaussian", or "paper" for the paper's threshold.
    """

    certifies_choice: ClassVar[bool] = False
    sigma: float
    offset: float
    name: str = "gaussian"

    def __post_init__(self) -> None:
        check_positive("sigma", self.sigma)
        if not 0 <= self.offset < math.inf:
            raise ParameterError(
                "offset must be finite and at least 0", f"offset={self.offset}", "Use GaussianTest.exact or .paper."
            )

    @property
    def delta(self) -> float:
        """The chance of passing where the set is unstable, rounded up."""
        return ball_up(_normal(-arb(self.offset), 128))

    @classmethod
    def exact(cls, *, sigma: float, delta: float) -> Self:
        """Take the exact quantile ``Phi^-1(1 - delta)`` as the threshold, rounded up."""
        return cls(sigma=sigma, offset=exact_offset(delta))

    @classmethod
    def paper(cls, *, sigma: float, delta: float) -> Self:
        """Take the paper's threshold ``sqrt(2 ln(1/delta))``; its true delta is smaller."""
        return cls(sigma=sigma, offset=paper_offset(delta), name="paper")

    def cost(self, adjacency: Adjacency) -> Cost:
        bit = GaussianBit(sigma=self.sigma, offset=self.offset, reach=adjacency.gap_change)
        return Cost.of(bit, adjacency=adjacency, delta=self.delta)

    def chances(
        self,
        gaps: IntArray,
        slack: IntArray,  # noqa: ARG002 - never finite here, see certifies_choice
        adjacency: Adjacency,
    ) -> tuple[FloatArray, FloatArray]:
        from scipy.special import ndtr

        x = np.maximum(gaps - adjacency.gap_change, 0) / self.sigma - self.offset
        return ndtr(x), ndtr(-x)

    def passes(self, gaps: IntArray, slack: IntArray, adjacency: Adjacency, rng: Source) -> npt.NDArray[np.bool_]:
        steps = np.maximum(gaps - adjacency.gap_change, 0)

        def enclose(index: int, bits: int) -> Any:
            with working_precision(bits):
                return _normal(arb(int(steps[index])) / arb(self.sigma) - arb(self.offset), bits)

        return bernoulli_real(self.chances(gaps, slack, adjacency)[0], enclose, rng=rng)


def exact_offset(delta: float) -> float:
    """Return a float z just above ``Phi^-1(1 - delta)`` with ``Phi(-z) <= delta``, proved; never below 0."""
    _check_delta(delta)
    from scipy.special import ndtri

    z = max(0.0, float(-ndtri(delta)))
    while ball_up(_normal(-arb(z), 128)) > delta:
        z = z * (1 + 2**-50) + 2.0**-60
    return z


def paper_offset(delta: float) -> float:
    """Return ``sqrt(2 ln(1/delta))``."""
    _check_delta(delta)
    return math.sqrt(2 * math.log(1 / delta))


def _normal(x: Any, bits: int) -> Any:
    with working_precision(bits):
        return (-x / arb(2).sqrt()).erfc() / 2


def _check_delta(delta: float) -> None:
    if not 0 < delta < 1:
        raise ParameterError("delta must be above 0 and below 1", f"delta={delta}", "Try delta=1e-6.")


@dataclass(frozen=True, slots=True, kw_only=True)
class LaplaceTest:
    r"""Pass if ``max(c, gap) + Lap(c/epsilon) > c + c ln(1/(2 delta))/epsilon``, with c = 1 (ADD_REMOVE) or 2 (REPLACE).

    **Privacy.** (epsilon, delta)-DP: neighbours with the same set see two coins with log-ratios within epsilon; where the sets
    differ, both pass with probability delta exactly [ZW22, PTR-Laplace; docs/proofs/laplace-test.md]. The bit is drawn
    with its exact probability; no Laplace variate is ever rounded.

    Parameters
    ----------
    epsilon
        Of the test.
    delta
        The chance of passing where the set is unstable; at most 1/2.

    Examples
    --------
    >>> test = LaplaceTest(epsilon=1.0, delta=1e-6)
    >>> yes, _ = test.chances(np.array([1, 14, 20]), np.array([99, 99, 99]), Adjacency.ADD_REMOVE)
    >>> [f"{p:.6f}" for p in yes]
    ['0.000001', '0.442413', '0.998599']
    """

    name: ClassVar[str] = "laplace"
    certifies_choice: ClassVar[bool] = True
    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        check_positive("epsilon", self.epsilon)
        if not 0 < self.delta <= 0.5:
            raise ParameterError(
                "the delta of a Laplace test must be above 0 and at most 1/2", f"delta={self.delta}", "Try delta=1e-6."
            )

    @classmethod
    def within(cls, *, order: float, rdp: float, delta: float) -> Self:
        """Return the test with the largest epsilon whose curve at ``order`` stays within ``rdp``."""
        return cls(epsilon=largest_pure(order=order, rdp=rdp), delta=delta)

    def cost(self, adjacency: Adjacency) -> Cost:
        return Cost.of(Pure(epsilon=self.epsilon), adjacency=adjacency, delta=self.delta)

    def chances(self, gaps: IntArray, slack: IntArray, adjacency: Adjacency) -> tuple[FloatArray, FloatArray]:
        x = self._steps(gaps, slack, adjacency) * (self.epsilon / adjacency.gap_change)
        with np.errstate(under="ignore", over="ignore"):
            low = self.delta * np.exp(np.minimum(x, 745.0))
            high = np.exp(-x) / (4 * self.delta)  # of not passing, where passing is likelier than not
        likely = low > 0.5
        return np.where(likely, 1 - high, low), np.where(likely, high, 1 - low)

    def passes(self, gaps: IntArray, slack: IntArray, adjacency: Adjacency, rng: Source) -> npt.NDArray[np.bool_]:
        steps = self._steps(gaps, slack, adjacency)

        def enclose(index: int, bits: int) -> Any:
            with working_precision(bits):
                x = arb(int(steps[index])) * arb(self.epsilon) / adjacency.gap_change
                low, high = arb(self.delta) * x.exp(), 1 - (-x).exp() / (4 * arb(self.delta))
                if low <= 0.5:
                    return low
                return high if low > 0.5 else low.union(high)  # both are 1/2 where they meet

        return bernoulli_real(self.chances(gaps, slack, adjacency)[0], enclose, rng=rng)

    @staticmethod
    def _steps(gaps: IntArray, slack: IntArray, adjacency: Adjacency) -> IntArray:
        """Return how far the gap is above what one person can undo, never farther than the choice's own slack."""
        change = adjacency.gap_change
        return np.minimum(np.maximum(gaps - change, 0), change * slack)
