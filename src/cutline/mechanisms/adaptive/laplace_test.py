r"""The paper's Laplace stability test, drawn as the coin it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from flint import arb, ctx

from cutline.arrays import FloatArray, IntArray
from cutline.errors import ParameterError
from cutline.mechanisms.calibration import largest_pure
from cutline.privacy import Adjacency, Cost, Pure
from cutline.privacy.curves.base import check_positive
from cutline.sampling import Source, bernoulli_real


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
            with ctx.workprec(bits):
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
