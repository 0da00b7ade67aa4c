r"""What the exact price of a plan gains over the best Rényi order, and how long it takes.

Run it with the Python of the environment: ``python benchmarks/adaptive_rule.py``. Tables are those that the Rényi calibration
builds, so what is saved here is left over; a calibration by the rule spends it. The last column is the time of one price as a
multiple of the time of the rule ``exact`` on 600 steps, within the same run.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from cutline.mechanisms.adaptive.stable_top_k import StableTopK
from cutline.pate.aggregators.optimal_vote import OptimalVote
from cutline.privacy import Adjacency, BoundedRange, Budget, Cost
from cutline.privacy.rules.adaptive import adaptive
from cutline.privacy.rules.exact import exact
from cutline.privacy.rules.rdp import rdp

DELTA = 1e-6
TOP_K = [(1.0, 10, 100), (1.0, 100, 100), (3.66, 600, 39)]
VOTES = [(2.0, 60, 5, 100), (3.0, 600, 4, 800)]  # epsilon, queries, labels, teachers: 300 and 2,400 coins


def plans() -> dict[str, tuple[Cost, int]]:
    found: dict[str, tuple[Cost, int]] = {}
    for epsilon, releases, max_k in TOP_K:
        budget = Budget(epsilon=epsilon, delta=DELTA, releases=releases)
        for choose in ("argmax", "em"):
            found[f"{releases} releases, {choose}"] = (
                StableTopK.calibrate(budget, max_k=max_k, choose=choose).cost,
                releases,
            )
    for epsilon, queries, labels, teachers in VOTES:
        budget = Budget(epsilon=epsilon, delta=DELTA, releases=queries)
        vote = OptimalVote.calibrate(budget, teachers=teachers, labels=labels)
        found[f"{queries * labels} coins of votes"] = vote.cost, queries
    return found


def timed(compute: Callable[[], float]) -> tuple[float, float]:
    started = time.perf_counter()
    value = compute()
    return value, time.perf_counter() - started


def main() -> None:
    steps = 600 * Cost.of(BoundedRange(epsilon=0.05), adjacency=Adjacency.ADD_REMOVE)
    exact(steps, DELTA)
    _, unit = timed(lambda: exact(steps, DELTA))
    print(f"{'plan':26} {'rdp':>9} {'adaptive':>9} {'saved':>7} {'seconds':>8} {'of exact':>9}")
    for name, (cost, releases) in plans().items():
        loose = rdp(releases * cost, DELTA)
        tight, seconds = timed(lambda cost=cost, releases=releases: adaptive(cost, DELTA, releases=releases))
        saved = f"{100 * (1 - tight / loose):6.1f}%"
        print(f"{name:26} {loose:9.4f} {tight:9.4f} {saved} {seconds:8.2f} {seconds / unit:8.1f}x")


if __name__ == "__main__":
    main()
