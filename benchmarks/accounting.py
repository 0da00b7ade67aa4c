r"""Our rules beside dp-accounting and autodp: epsilon and time for the same sequences, side by side.

``python benchmarks/accounting.py [--json]``. Needs the development environment; what is not installed or does not run says so
in its cell. Each time is the fastest of some runs, imports done before and our caches of curve values emptied between runs.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import gc
import importlib
import json
import math
import time
import warnings
from collections.abc import Callable
from typing import Any

from rich.console import Console
from rich.table import Table

from cutline import Budget, StableTopK
from cutline.interop.dp_accounting_events import neighbouring_relation, to_event_and_delta
from cutline.privacy import Adjacency, BoundedRange, Cost, Gaussian
from cutline.privacy.rules.pld import pld
from cutline.privacy.rules.rdp import rdp

ROUNDS = 3


def sequences() -> dict[str, tuple[Cost, float]]:
    adjacency = Adjacency.ADD_REMOVE
    budget = Budget(epsilon=3.66, delta=1e-6, releases=600)
    rows = {
        "600 Gaussians, sigma 60": (600 * Cost.of(Gaussian(sigma=60.0), adjacency=adjacency), 4e-7),
        "600 EM, epsilon 0.05": (600 * Cost.of(BoundedRange(epsilon=0.05), adjacency=adjacency), 4e-7),
    }
    for test in ("table", "gaussian"):
        release = StableTopK.calibrate(budget, max_k=39, test=test).cost
        rows[f"600 StableTopK ({test}), (3.66, 1e-6)"] = (600 * release, 1e-6)
    return rows


def ours() -> dict[str, Callable[[Cost, float], float]]:
    rules: dict[str, Callable[[Cost, float], float]] = {"cutline rdp": rdp, "cutline pld": pld}
    with contextlib.suppress(ImportError, AttributeError):
        rules["cutline exact"] = importlib.import_module("cutline.privacy.rules.exact").exact
    return rules


def dp_accounting_rdp(cost: Cost, delta: float) -> float:
    from dp_accounting.rdp import RdpAccountant

    event, target = to_event_and_delta(cost, delta)
    return RdpAccountant(neighboring_relation=neighbouring_relation(cost.adjacency)).compose(event).get_epsilon(target)


def dp_accounting_pld(cost: Cost, delta: float) -> float:
    from dp_accounting.pld import PLDAccountant

    event, target = to_event_and_delta(cost, delta)
    accountant = PLDAccountant(neighbouring_relation(cost.adjacency))
    return accountant.compose(event).get_epsilon(target) if accountant.supports(event) else math.nan


def autodp_rdp(cost: Cost, delta: float) -> float:
    """Give autodp our curves as functions, as it has no bounded range and no tables: it composes and converts them."""
    from autodp import autodp_core, transformer_zoo

    target = (delta - cost.delta) / (1 - cost.delta)
    mechanisms, times = [], []
    for use in cost.uses:
        mechanism = autodp_core.Mechanism()
        mechanism.name, mechanism.params = use.curve.kind, {}
        mechanism.propagate_updates(lambda a, curve=use.curve: curve.rdp(float(a)) if a > 1 else 0.0, "RDP")
        mechanisms.append(mechanism)
        times.append(use.times)
    return float(transformer_zoo.Composition()(mechanisms, times).get_approxDP(target))


def rivals() -> dict[str, Callable[[Cost, float], float]]:
    return {
        "dp-accounting RDP": dp_accounting_rdp,
        "dp-accounting PLD": dp_accounting_pld,
        "autodp RDP": autodp_rdp,
    }


def measure(rule: Callable[[Cost, float], float], cost: Cost, delta: float) -> dict[str, Any]:
    fastest, value = math.inf, math.nan
    try:
        for _ in range(ROUNDS):
            forget()
            started = time.perf_counter()
            value = rule(cost, delta)
            fastest = min(fastest, time.perf_counter() - started)
    except Exception as error:  # a rival that does not run is part of the result
        return {"epsilon": None, "seconds": None, "note": f"{type(error).__name__}: {error}"[:80]}
    note = "" if math.isfinite(value) else "does not apply"
    return {"epsilon": value if math.isfinite(value) else None, "seconds": fastest, "note": note}


def forget() -> None:
    for thing in gc.get_objects():
        if isinstance(thing, functools._lru_cache_wrapper) and thing.__module__.startswith("cutline"):
            thing.cache_clear()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    rules = ours() | rivals()
    warm = Cost.of(Gaussian(sigma=5.0), adjacency=Adjacency.ADD_REMOVE)
    for rule in rules.values():
        measure(rule, warm, 1e-5)
    results = {
        name: {rule: measure(function, cost, delta) for rule, function in rules.items()}
        for name, (cost, delta) in sequences().items()
    }
    if arguments.json:
        print(json.dumps(results, indent=2))
        return
    table = Table(title=f"epsilon and time (fastest of {ROUNDS})")
    table.add_column("sequence")
    for rule in rules:
        table.add_column(rule, justify="right")
    for name, row in results.items():
        table.add_row(name, *(show(cell) for cell in row.values()))
    Console(width=200).print(table)


def show(cell: dict[str, Any]) -> str:
    if cell["epsilon"] is None:
        return cell["note"]
    return f"{cell['epsilon']:.4f}\n{1000 * cell['seconds']:.1f} ms"


if __name__ == "__main__":
    main()
