r"""Time released labels against numpy's floats on the same counts.

From a (queries x labels) matrix of votes: each aggregator's ``release`` with the operating system's source and with a seeded
one, against ``rng.random(shape) < table[counts]``, which is neither exact nor from a cryptographic source. What the source
itself takes is timed alone. Runs are interleaved and medians compared; only ratios within one run mean anything.

    python benchmarks/aggregators.py
    python benchmarks/aggregators.py --queries 10000 --json
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable

import numpy as np
from rich.console import Console
from rich.table import Table

from cutline.pate import AGGREGATORS, aggregator
from cutline.privacy import Budget
from cutline.sampling import SeededSource, SystemSource
from measure import interleave

NUMPY = "numpy floats"
COINS = ("optimal-vote", "pate-gaussian", "pate-tau", "binary-vote")


def simulated(queries: int, labels: int, teachers: int) -> np.ndarray:
    """Return counts of teachers who are right with a probability of their own for each query and label."""
    rng = np.random.default_rng(0)
    return rng.binomial(teachers, rng.beta(0.6, 0.6, (queries, labels)))


def measure(queries: int, labels: int, teachers: int, *, repeats: int, names: list[str]) -> dict[str, float]:
    budget = Budget(epsilon=3.66, delta=1e-6, releases=600)
    counts = simulated(queries, labels, teachers)
    votes = {
        name: aggregator(name).calibrate(
            budget, teachers=teachers, labels=labels, **({"limit": 5} if name == "pate-tau" else {})
        )
        for name in names
    }
    table = votes["optimal-vote"].table(np.arange(teachers + 1))
    random, seeded, system = np.random.default_rng(), SeededSource(0), SystemSource()
    runs: dict[str, Callable[[], object]] = {NUMPY: lambda: random.random(counts.shape) < table[counts]}
    for name, vote in votes.items():
        runs[name] = lambda vote=vote: vote.release(counts)
        runs[f"{name}, seeded"] = lambda vote=vote: vote.release(counts, rng=seeded)
    runs["the system's 8 bits a label, alone"] = lambda: system.words(-(-counts.size // 8))
    return interleave(runs, repeats=repeats)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--queries", type=int, default=100_000)
    parser.add_argument("--labels", type=int, default=40)
    parser.add_argument("--teachers", type=int, default=800)
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--all", action="store_true", help="also those that choose among labels; some take seconds")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    names = [kind.name for kind in AGGREGATORS]
    names = [name for name in names if name in COINS or name == "stable-majority" or options.all]
    names = [name for name in names if name != "powerset-vote" or options.labels <= 8]
    medians = measure(options.queries, options.labels, options.teachers, repeats=options.repeats, names=names)
    if options.json:
        print(json.dumps({name: {"seconds": s, "ratio": s / medians[NUMPY]} for name, s in medians.items()}))
        return
    table = Table(
        "run", "ms", "times numpy", title=f"{options.queries:,} x {options.labels} counts of {options.teachers}"
    )
    for name, seconds in medians.items():
        table.add_row(name, f"{1000 * seconds:,.1f}", f"{seconds / medians[NUMPY]:.2f}")
    Console().print(table)


if __name__ == "__main__":
    main()
