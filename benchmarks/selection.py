r"""Time peeling EM against a numpy one-shot Gumbel top-k (floats, not exact) and OpenDP's ``make_noisy_top_k`` (exact).

All three draw the top k of one closed domain with Zipf counts at the same noise: the scale that ``PeelingEM.calibrate`` finds
for epsilon = 1, delta = 1e-6. Cutline runs from a plain count array and from a ready ``ClosedHistogram``. Runs are interleaved
and medians compared. OpenDP runs once a cell and only while it is expected to stay within ``--limit`` seconds; beyond that its
time is extrapolated in proportion to m k from its largest run, and marked.

    python benchmarks/selection.py
    python benchmarks/selection.py --largest 100000 --limit 10 --json
"""

from __future__ import annotations

import argparse
import json
import time
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from cutline.histogram import ClosedHistogram
from cutline.mechanisms.closed.peeling import PeelingEM
from cutline.privacy import Budget
from measure import interleave

SIZES = (10**4, 10**5, 10**6, 10**7)
ARRAY, READY, NUMPY = "array", "ready", "numpy"
OPENDP = {"OpenDP zCDP": "zero_concentrated_divergence", "OpenDP pure": "max_divergence"}


def zipf(size: int, *, top: int) -> np.ndarray:
    """Return shuffled counts ``top // rank``."""
    return np.random.default_rng(0).permutation(top // np.arange(1, size + 1))


class OpenDP:
    """OpenDP's peels in one of its two forms: timed while affordable, extrapolated after that."""

    def __init__(self, name: str, *, limit: float) -> None:
        self.name, self.limit = name, limit
        self.known: tuple[int, float] | None = None  # m k and seconds of the largest run

    def seconds(self, counts: list[int], k: int, *, scale: float) -> tuple[float | None, bool]:
        """Return seconds and whether they were measured."""
        import opendp.prelude as dp

        work = len(counts) * k
        if self.known is not None and self.known[1] * work / self.known[0] > self.limit:
            return self.known[1] * work / self.known[0], False
        if self.known is None and self.limit <= 0:
            return None, False
        dp.enable_features("contrib")
        select = dp.m.make_noisy_top_k(
            dp.vector_domain(dp.atom_domain(T="i64")),
            dp.linf_distance(T="i64", monotonic=True),
            getattr(dp, OPENDP[self.name])(),
            k=k,
            scale=scale,
        )
        started = time.perf_counter()
        select(counts)
        taken = time.perf_counter() - started
        if self.known is None or work >= self.known[0]:
            self.known = (work, taken)
        return taken, True


def cell(counts: np.ndarray, k: int, *, rivals: list[OpenDP], repeats: int) -> dict[str, Any]:
    """Time one size and k."""
    mechanism = PeelingEM.calibrate(Budget(epsilon=1.0, delta=1e-6), k=k)
    ready = ClosedHistogram.from_counts(counts)
    random = np.random.default_rng()
    epsilon, size = mechanism.epsilon, len(counts)

    def one_shot() -> np.ndarray:
        return np.argpartition(-(counts * epsilon + random.gumbel(size=size)), k)[:k]

    medians: dict[str, Any] = interleave(
        {
            ARRAY: lambda: mechanism.release(ClosedHistogram.from_counts(counts)),
            READY: lambda: mechanism.release(ready),
            NUMPY: one_shot,
        },
        repeats=repeats,
    )
    listed = counts.tolist() if rivals else []
    measured = dict.fromkeys(medians, True)
    for rival in rivals:
        medians[rival.name], measured[rival.name] = rival.seconds(listed, k, scale=1 / epsilon)
    ratios = {name: None if s is None else s / medians[ARRAY] for name, s in medians.items()}
    return {"m": size, "k": k, "seconds": medians, "measured": measured, "ratio": ratios}


def installed() -> bool:
    """Say whether the rival is there; it is an extra."""
    try:
        import opendp  # noqa: F401
    except ImportError:
        return False
    return True


def shown(found: dict[str, Any], name: str) -> str:
    """Return one time as text, with its ratio for a rival."""
    seconds, mark = found["seconds"][name], "" if found["measured"][name] else "~"
    text = mark + (f"{seconds:,.0f} s" if seconds >= 10 else f"{1000 * seconds:,.1f} ms")
    return text if name in (ARRAY, READY) else f"{text} ({found['ratio'][name]:,.1f}x)"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--largest", type=int, default=SIZES[-1], help="largest domain")
    parser.add_argument("--top", type=int, default=10**6, help="largest count")
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument(
        "--limit", type=float, default=120.0, help="seconds OpenDP may take in one cell; 0 leaves it out"
    )
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rivals = [OpenDP(name, limit=options.limit) for name in OPENDP] if installed() and options.limit > 0 else []
    cells = [
        cell(zipf(size, top=options.top), k, rivals=rivals, repeats=options.repeats)
        for size in SIZES
        if size <= options.largest
        for k in (10, 100)
    ]
    if options.json:
        print(json.dumps(cells))
        return
    names = list(cells[0]["seconds"])
    title = "Cutline from an array and ready, and its rivals (times Cutline from an array); ~ is extrapolated"
    table = Table("m", "k", *names, title=title)
    for found in cells:
        table.add_row(f"{found['m']:.0e}", str(found["k"]), *(shown(found, name) for name in names))
    Console().print(table)


if __name__ == "__main__":
    main()
