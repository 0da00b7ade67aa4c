"""Time ``cutline.count`` with a bound on items per user against the bare DuckDB query for the full counts alone.

Two logs of as many rows: one in which nobody reaches the bound (ten rows a user, D = 50), and one in which nearly everybody is
above it (a hundred rows a user, D = 20). Runs are interleaved in one warm process; medians of seconds and of processor time are
compared, because the latter depend less on who else is using the machine.

    python benchmarks/count_bounded.py
    python benchmarks/count_bounded.py --rows 1000000 --items text --json
"""

from __future__ import annotations

import argparse
import json
import pathlib
import statistics
import tempfile
import time
from collections.abc import Callable

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table

from cutline.counting import count

ITEMS = 100_000
CASES = {"nobody reaches D = 50": (10, 50), "most are above D = 20": (100, 20)}  # rows a user, and the bound


def write_log(path: pathlib.Path, *, rows: int, rows_a_user: int, items: str) -> None:
    """Write rows of uniform users and Zipf(1) items."""
    random = np.random.default_rng(0)
    weights = 1 / np.arange(1, ITEMS + 1)
    drawn = np.searchsorted(np.cumsum(weights) / weights.sum(), random.random(rows)).clip(0, ITEMS - 1)
    names = pa.array(drawn)
    if items == "text":
        names = pa.array([f"venue-{n:06d}" for n in range(ITEMS)]).take(names)
    pq.write_table(pa.table({"user": random.integers(0, rows // rows_a_user, rows), "item": names}), path)


def measure(runs: dict[str, Callable[[], object]], repeats: int) -> dict[str, tuple[float, float]]:
    """Run each once to warm up, then all in turn; return the median seconds and processor seconds."""
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in runs}
    for repeat in range(repeats + 1):
        for name, run in runs.items():
            started = time.perf_counter(), time.process_time()
            run()
            if repeat:
                taken[name].append((time.perf_counter() - started[0], time.process_time() - started[1]))
    return {name: tuple(map(statistics.median, zip(*times, strict=True))) for name, times in taken.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--items", choices=("numbers", "text"), default="numbers")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    found = {}
    with tempfile.TemporaryDirectory() as directory:
        for name, (rows_a_user, bound) in CASES.items():
            path = pathlib.Path(directory) / f"{bound}.parquet"
            write_log(path, rows=options.rows, rows_a_user=rows_a_user, items=options.items)
            connection = duckdb.connect()
            query = f"SELECT item, count(DISTINCT \"user\") AS n FROM '{path}' GROUP BY item ORDER BY n DESC, item LIMIT 101"
            medians = measure(
                {
                    "bare DuckDB": lambda connection=connection, query=query: connection.execute(query).fetchall(),
                    "cutline.count": lambda path=path, bound=bound: count(
                        path, user="user", item="item", max_items_per_user=bound
                    ),
                },
                options.repeats,
            )
            ratios = [ours / bare for ours, bare in zip(medians["cutline.count"], medians["bare DuckDB"], strict=True)]
            found[name] = {"seconds": medians, "ratio": ratios[0], "ratio of processor time": ratios[1]}
    if options.json:
        print(json.dumps({"rows": options.rows, "items": options.items, **found}))
        return
    table = Table(
        "log", "bare", "ours", "ratio", "ratio of processor time", title=f"{options.rows:,} rows, {options.items}"
    )
    for name, one in found.items():
        bare, ours = one["seconds"]["bare DuckDB"][0], one["seconds"]["cutline.count"][0]
        table.add_row(
            name, f"{bare:.2f} s", f"{ours:.2f} s", f"{one['ratio']:.2f}", f"{one['ratio of processor time']:.2f}"
        )
    Console().print(table)


if __name__ == "__main__":
    main()
