"""Count distinct users per item on logs of 10 and 50 million rows, with Cutline and without.

Every run is a process of its own, the contenders take turns, and everything is a ratio within one invocation. After every log
its section of ``docs/scale.md`` is written anew, and the others are left as they are. Linux; needs about 3 GB of disk in the
temporary directory, given back at the end.

    python benchmarks/scale/run.py
    python benchmarks/scale/run.py --rows 10000000 --ids integers --repeats 3 --no-write
"""

from __future__ import annotations

import argparse
import datetime
import importlib.metadata
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field

import psutil
from contenders import CONTENDERS
from generate import write_logs

CORE = ("plain scan", "bare DuckDB", "Cutline", "Cutline, 500 MB")
HERE = pathlib.Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "scale.md"
BEGIN, END = "<!-- written by benchmarks/scale/run.py: begin -->", "<!-- end -->"
PANDAS_ROWS = 10_000_000  # beyond, pandas asks for more memory than a shared machine has


@dataclass
class Runs:
    """What the runs of one contender on one log gave."""

    seconds: list[float] = field(default_factory=list)
    work: list[float] = field(default_factory=list)  # seconds of processor time: hardly moved by what else runs
    peaks: list[int] = field(default_factory=list)
    digests: set[str] = field(default_factory=set)
    failure: str = ""


def run_once(name: str, path: pathlib.Path, directory: pathlib.Path, *, most: int) -> dict[str, object] | str:
    """Run a contender in a fresh process; return what it printed, or why there is nothing."""
    with tempfile.TemporaryDirectory(dir=directory) as scratch:
        command = [sys.executable, str(HERE / "contenders.py"), name, str(path), scratch]
        environment = os.environ | {"TMPDIR": scratch}
        child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment)
        while True:
            try:
                printed, _ = child.communicate(timeout=0.2)
                break
            except subprocess.TimeoutExpired:
                if _resident(child.pid) > most:
                    for process in (*psutil.Process(child.pid).children(recursive=True), child):
                        process.kill()
                    child.communicate()
                    return f"over {most / 1e9:.0f} GB"
        return json.loads(printed.splitlines()[-1]) if child.returncode == 0 and printed else "failed"


def _resident(pid: int) -> int:
    try:
        own = psutil.Process(pid)
        return sum(process.memory_info().rss for process in (own, *own.children(recursive=True)))
    except psutil.NoSuchProcess:
        return 0


def interleave(
    path: pathlib.Path, directory: pathlib.Path, contenders: list[str], *, repeats: int, rival_repeats: int, most: int
) -> dict[str, Runs]:
    """Let the contenders take turns; rivals leave after ``rival_repeats`` rounds, failures at once."""
    found = {name: Runs() for name in contenders}
    path.read_bytes() if path.stat().st_size < 2**31 else None  # into the page cache, for everybody
    for turn in range(repeats):
        for name in contenders:
            if found[name].failure or (name not in CORE and turn >= rival_repeats):
                continue
            result = run_once(name, path, directory, most=most)
            if isinstance(result, str):
                found[name].failure = result
                continue
            found[name].seconds.append(float(str(result["seconds"])))
            found[name].work.append(float(str(result["work"])))
            found[name].peaks.append(int(str(result["peak"])))
            found[name].digests.add(str(result["digest"]))
            print(f"  {name}: {result['seconds']:.2f} s", file=sys.stderr, flush=True)
    return found


def check_agreement(found: dict[str, Runs]) -> None:
    """Stop if two contenders, or two runs of one, disagree about the counts."""
    digests = set().union(*(runs.digests for name, runs in found.items() if name != "plain scan"))
    if len(digests) > 1:
        named = {name: sorted(digest[:8] for digest in runs.digests) for name, runs in found.items()}
        raise SystemExit(f"the contenders do not agree: {named}")


def table(found: dict[str, Runs]) -> list[str]:
    """Return the lines of one log's table."""
    lines = [
        "| contender | seconds, median | peak memory | to bare DuckDB | processor time to its | to a plain scan | runs |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    scan = found["plain scan"].seconds
    for name, runs in found.items():
        if runs.failure:
            lines.append(f"| {name} | {runs.failure} | | | | | |")
            continue
        median = statistics.median(runs.seconds)
        bare = found["bare DuckDB"]
        ratios = (_paired(runs.seconds, bare.seconds), _paired(runs.work, bare.work))
        to_bare = " | " if name == "plain scan" else " | ".join(f"{ratio:.2f}x" for ratio in ratios)
        lines.append(
            f"| {name} | {median:.2f} | {max(runs.peaks) / 1e6:,.0f} MB | {to_bare} | {_paired(runs.seconds, scan):.1f}x "
            f"| {len(runs.seconds)} |"
        )
    return lines


def _paired(runs: list[float], bare: list[float]) -> float:
    """Return the median of the ratios within a turn: load that comes and goes hits both sides of a ratio alike."""
    return statistics.median(own / base for own, base in zip(runs, bare, strict=False))


def conditions(*, load: float, seconds: float) -> str:
    """Say where and when the numbers were taken."""
    packages = ("duckdb", "polars", "pandas", "pyspark")
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in packages)
    memory = psutil.virtual_memory().total / 2**30
    return (
        f"All counts agree. Taken on {datetime.datetime.now(tz=datetime.UTC):%Y-%m-%d} in {seconds:,.0f} s on "
        f"{os.cpu_count()} cores and {memory:.0f} GiB of memory, at a load average of {load:.1f} when it began; "
        f"Python {platform.python_version()}, {versions}."
    )


def write(title: str, lines: list[str]) -> None:
    """Put one log's section between the page's two marks; a log that was measured before loses its old numbers."""
    head, rest = PAGE.read_text().split(BEGIN)
    inside, tail = rest.split(END)
    sections = {part.split(" (")[0]: part.strip() for part in inside.split("## ") if part.strip()}
    sections[title.removeprefix("## ").split(" (")[0]] = "\n".join([title.removeprefix("## "), "", *lines])
    ordered = (f"## {sections[name]}" for name in sorted(sections))
    PAGE.write_text("\n\n".join([head + BEGIN, *ordered, END + tail]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="*", default=[10_000_000, 50_000_000])
    parser.add_argument("--ids", choices=("integers", "strings"), nargs="*", default=["integers", "strings"])
    parser.add_argument("--contenders", choices=CONTENDERS, nargs="*", default=list(CONTENDERS))
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--rival-repeats", type=int, default=2)
    parser.add_argument("--most-memory", type=float, default=10.0, help="stop a contender above this many GB")
    parser.add_argument("--no-write", action="store_true", help="print the tables only")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="cutline-scale-") as temporary:
        for rows in options.rows:
            directory = pathlib.Path(temporary) / str(rows)
            directory.mkdir()
            paths = write_logs(directory, rows)
            for kind in options.ids:
                contenders = [
                    name
                    for name in CONTENDERS
                    if (name in options.contenders or name in CORE[:2]) and (name != "pandas" or rows <= PANDAS_ROWS)
                ]
                start, before = time.perf_counter(), os.getloadavg()[0]
                print(f"{rows:,} rows, {kind}, load {before:.1f}", file=sys.stderr, flush=True)
                found = interleave(
                    paths[kind],
                    directory,
                    contenders,
                    repeats=options.repeats,
                    rival_repeats=options.rival_repeats,
                    most=int(options.most_memory * 1e9),
                )
                check_agreement(found)
                size, took = paths[kind].stat().st_size / 1e6, time.perf_counter() - start
                title = f"## {rows // 1_000_000} million rows, {kind} as ids ({size:,.0f} MB of parquet)"
                lines = [*table(found), "", conditions(load=before, seconds=took)]
                print("\n".join(["", title, "", *lines]), flush=True)
                if not options.no_write:
                    write(title, lines)


if __name__ == "__main__":
    main()
