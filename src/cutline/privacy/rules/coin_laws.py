r"""What an adversary can be shown by one coin of a table: laws of the likelihood ratio, and the few of them that matter.

Between neighbours a coin has some bias under P and another under Q. All that counts for composition is the law, under Q, of the
ratio ``r = P/Q``: it takes the values ``1 + up`` and ``1 - down`` and has mean 1, so two numbers say everything. An expected
convex function of r is largest at the laws that spread most, and laws that spread less need not be tried
[docs/proofs/adaptive.md].
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt

from cutline.arrays import FloatArray

_OUTWARD = 1 + 2.0**-44  # covers the few roundings between a table's floats and a ratio
_MARGIN = 1 + 2.0**-36  # covers those of a comparison of two laws


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class CoinLaws:
    r"""Laws of a ratio with two values, ``1 + up`` with Q-mass ``down / (up + down)`` and ``1 - down`` with the rest.

    Examples
    --------
    >>> laws = CoinLaws.of(np.array([0.1, 0.2, 0.4]))
    >>> [f"{up:.3f}/{down:.3f}" for up, down in zip(laws.up, laws.down)]  # 0.2 against 0.1 and 0.4 against 0.2, both ways
    ['1.000/0.250', '0.333/0.500']
    """

    up: FloatArray
    down: FloatArray

    @classmethod
    def of(cls, biases: FloatArray, *, at_least: float = 0.0) -> Self:
        """Return the laws of neighbouring coins, both ways, less those of a total variation up to ``at_least``.

        Every law is spread by a hair, so that those of the real numbers are not spread more; of two laws of which one spreads
        more on both sides, the other is left out. Up falls and down rises along what is left.
        """
        low, high = biases[:-1], biases[1:]
        far = high - low > at_least / _OUTWARD
        low, high = low[far], high[far]
        rise = (high - low) * _OUTWARD
        up = np.concatenate([rise / low, rise / (1 - high)])
        down = np.concatenate([rise / (1 - low), rise / high])
        order = np.lexsort((-down, -up))
        up, down = up[order], np.minimum(down[order], 1.0)
        widest = np.maximum.accumulate(down)
        kept = np.concatenate([[True], down[1:] > widest[:-1]]) if down.size else np.zeros(0, dtype=np.bool_)
        return cls(up=up[kept], down=down[kept])

    def __len__(self) -> int:
        return len(self.up)

    @property
    def variations(self) -> FloatArray:
        """The total variation between P and Q, of each law."""
        return self.up * self.down / (self.up + self.down)

    @property
    def step(self) -> float:
        """The standard deviation of the ratio where P and Q are farthest apart: how far one coin moves the log-ratio."""
        at = int(np.argmax(self.variations))
        return float(np.sqrt(self.up[at] * self.down[at]))

    def thinned(self, spread: float) -> CoinLaws:
        r"""Return fewer laws, each spread by the factor ``1 + spread``, which allow an adversary no less.

        Of three neighbours, the one in the middle may go if a mixture of the other two, spread, exceeds it in convex order:
        then no expected convex function of the ratio is larger for it than for the larger of the two.
        """
        up, down = self.up * (1 + spread), np.minimum(self.down * (1 + spread), (1 + self.down) / 2)
        kept = [0] if len(self) else []
        while kept and kept[-1] < len(self) - 1:
            first = last = kept[-1]
            step = 1
            while (
                step
            ):  # the farthest neighbour that lets all between go: by doubling, then halving, as far as that leads
                beyond = last + step
                between = slice(first + 1, beyond)
                ends = ((up[first], down[first]), (up[beyond], down[beyond])) if beyond < len(self) else None
                if ends and np.all(_exceeded(*ends, up=self.up[between], down=self.down[between])):
                    last, step = beyond, 2 * step
                else:
                    step //= 2
            kept.append(max(last, first + 1))
        return CoinLaws(up=up[kept], down=down[kept])


def _exceeded(
    first: tuple[float, float], last: tuple[float, float], *, up: FloatArray, down: FloatArray
) -> npt.NDArray[np.bool_]:
    r"""Say which laws lie below a mixture of two, in convex order; ups fall and downs rise from the first to the last.

    With ``E(k) = E_Q (r - 1 - k)_+``, a law with two values has a straight E between them, and trivial ones beyond. The
    mixture's E is convex, with kinks at the ends' four values, of which the outer two are trivial: it is enough to compare at
    the inner two. There each asks for a share of the first that is at least, or at most, some number.
    """
    (up_0, down_0), (up_1, down_1) = first, last
    mass = down / (up + down) * _MARGIN
    least = mass * np.maximum(up - up_1, 0.0) / (down_0 / (up_0 + down_0) * (up_0 - up_1))
    # At the smaller down, E less the trivial one: of the last, and of each law. Differences of E itself would cancel there.
    last_above = up_1 * (down_1 - down_0) / (up_1 + down_1)
    above = up * (down - down_0) / (up + down) + (_MARGIN - 1) * mass * (up + down_0)
    with np.errstate(
        divide="ignore", invalid="ignore"
    ):  # ends of equal downs: then only what is trivial there is exceeded
        most = 1 - above / last_above
    return np.asarray(least * _MARGIN <= np.minimum(most, 1.0), dtype=np.bool_)
