r"""What exact composition of exponential mechanisms gains over the best Rényi order, and how long each takes.

Run it with the Python of the environment: ``python benchmarks/exact_rule.py``. Times are medians; the first call, which
fills caches, is left out.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable

from cutline.privacy import Adjacency, BoundedRange, Cost, Gaussian, GaussianBit
from cutline.privacy.rules.exact import exact
from cutline.privacy.rules.rdp import rdp

ROUNDS = 5
ADD = Adjacency.ADD_REMOVE
PAPER = 50 * math.sqrt(6) / math.pi  # Gumbel scale of standard deviation 50


def em(epsilon: float) -> Cost:
    return Cost.of(BoundedRange(epsilon=epsilon), adjacency=ADD)


ROWS: dict[str, tuple[Cost, float]] = {
    "1 x 1": (em(1.0), 1e-6),
    "10 x 0.3": (10 * em(0.3), 1e-6),
    "100 x 0.1": (100 * em(0.1), 1e-6),
    "600 x 0.05": (600 * em(0.05), 4e-7),
    "600 x 0.2": (600 * em(0.2), 1e-6),
    "600 x 1": (600 * em(1.0), 1e-6),
    "5000 x 0.01": (5000 * em(0.01), 1e-6),
    "paper, choice, add-remove": (600 * em(2 / PAPER), 1e-6),
    "paper, choice, replace": (600 * em(4 / PAPER), 1e-6),
    "paper, choice and noisy gap": (600 * (em(2 / PAPER) + Cost.of(Gaussian(sigma=60.0), adjacency=ADD)), 1e-6),
    "paper, choice and bit": (
        600 * (em(2 / PAPER) + Cost.of(GaussianBit(sigma=60.0, offset=6.0, reach=1), adjacency=ADD, delta=1e-9)),
        1e-6,
    ),
    "300 x 0.05 and 300 x 0.04": (300 * em(0.05) + 300 * em(0.04), 1e-6),
}


def timed(rule: Callable[[Cost, float], float], cost: Cost, delta: float) -> tuple[float, float]:
    value, seconds = rule(cost, delta), []
    for _ in range(ROUNDS):
        started = time.perf_counter()
        rule(cost, delta)
        seconds.append(time.perf_counter() - started)
    return value, 1000 * statistics.median(seconds)


def main() -> None:
    print(f"{'steps x epsilon':28} {'delta':>6} {'rdp':>9} {'ms':>6} {'exact':>9} {'ms':>6} {'saved':>7}")
    for name, (cost, delta) in ROWS.items():
        (loose, loose_ms), (tight, tight_ms) = timed(rdp, cost, delta), timed(exact, cost, delta)
        saved = f"{100 * (1 - tight / loose):6.1f}%"
        print(f"{name:28} {delta:6.0e} {loose:9.4f} {loose_ms:6.1f} {tight:9.4f} {tight_ms:6.0f} {saved}")


if __name__ == "__main__":
    main()
