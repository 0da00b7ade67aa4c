"""Time ``cutline.count`` and ``cutline.top`` against the bare DuckDB query for the same counts.

Writes a Zipf log to a temporary parquet file, runs them interleaved in one warm process, and compares medians.

    python benchmarks/count_duckdb.py
    python benchmarks/count_duckdb.py --rows 1000000 --items text --json
"""

from __future__ import annotations

import argparse
import json
import pathlib
import tempfile

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table

from cutline.api import count, top
from measure import interleave

USERS, ITEMS = 1_000_000, 100_000


def write_log(path: pathlib.Path, *, rows: int, items: str) -> None:
    """Write rows of uniform users and Zipf(1) items."""
    random = np.random.default_rng(0)
    weights = 1 / np.arange(1, ITEMS + 1)
    drawn = np.searchsorted(np.cumsum(weights) / weights.sum(), random.random(rows)).clip(0, ITEMS - 1)
    names = pa.array(drawn)
    if items == "text":
        names = pa.array([f"venue-{n:06d}" for n in range(ITEMS)]).take(names)
    pq.write_table(pa.table({"user": random.integers(0, USERS, rows), "item": names}), path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--items", choices=("numbers", "text"), default="numbers")
    parser.add_argument("--max-k", type=int, default=100)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        path = pathlib.Path(directory) / "log.parquet"
        write_log(path, rows=options.rows, items=options.items)
        connection = duckdb.connect()
        query = (
            f"SELECT item, count(DISTINCT \"user\") AS n FROM '{path}' "
            f"GROUP BY item ORDER BY n DESC, item LIMIT {options.max_k + 1}"
        )
        bare = connection.execute(query).fetchall()
        ours = count(path, user="user", item="item", max_k=options.max_k)
        if bare != list(zip(ours.items, ours.counts.tolist(), strict=True)):
            raise SystemExit("the two do not agree")
        medians = interleave(
            {
                "bare DuckDB": lambda: connection.execute(query).fetchall(),
                "cutline.count": lambda: count(path, user="user", item="item", max_k=options.max_k),
                "cutline.top": lambda: top(path, user="user", item="item", max_k=options.max_k),
            },
            repeats=options.repeats,
        )
    ratios = {name: seconds / medians["bare DuckDB"] for name, seconds in medians.items()}
    if options.json:
        print(json.dumps({"rows": options.rows, "items": options.items, "seconds": medians, "ratio": ratios}))
        return
    table = Table("run", "median seconds", "ratio", title=f"{options.rows:,} rows, {options.items} as items")
    for name, seconds in medians.items():
        table.add_row(name, f"{seconds:.2f}", f"{ratios[name]:.2f}")
    Console().print(table)


if __name__ == "__main__":
    main()
