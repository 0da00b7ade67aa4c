r"""``cutline verify``: the exhaustive privacy check on all cores, with progress."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cutline.cli import options as o
from cutline.cli.door import guarded, print_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cutline.verify import Check, Report


@guarded
def verify(
    mechanism: Annotated[
        str | None, typer.Option(metavar="NAME", help="Check this mechanism or aggregator only.  [default: all]")
    ] = None,
    jobs: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="How many processes to use.  [default: all cores]")
    ] = None,
    as_json: o.AsJson = False,
) -> None:
    """Check the privacy claims on every pair of small neighbouring inputs.

    Exact output laws, no sampling. Checks marked "fails" are broken on purpose: the checker must catch them.

    \b
    Example:
      cutline verify
      cutline verify --mechanism stable-top-k --json
    """  # noqa: D301 - \b is the mark for lines that help must not refill
    from cutline.verify import checks, run_checks

    wanted = checks(None if mechanism is None else [mechanism])
    with _progress(wanted, jobs) as finished:
        reports = list(zip(wanted, run_checks(wanted, jobs=jobs, finished=finished), strict=True))
    ok = all(report.as_expected for _, report in reports)
    pairs = sum(report.pairs for _, report in reports)
    if as_json:
        print_json({"checks": [_plain(*found) for found in reports], "pairs": pairs, "ok": ok})
    else:
        _print(reports, pairs, ok)
    if not ok:
        raise typer.Exit(1)


@contextmanager
def _progress(wanted: Sequence[Check], jobs: int | None) -> Iterator[Callable[[Check], None]]:
    """Say on standard error how long the checks will take; yield what to call after each, for the bar of a terminal."""
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

    from cutline.cli.show import talk
    from cutline.verify.run import available_cores, expected_duration, expected_seconds

    processes = max(1, min(jobs or available_cores(), len(wanted)))
    expected = expected_duration(wanted, processes)
    pairs = sum(check.universe.size for check in wanted)
    console = talk()
    on = f"{processes} process{'' if processes == 1 else 'es'}"
    sentence = f"{len(wanted):,} checks, {pairs:,} pairs of neighbours, {on}: {_in_words(expected)}."
    console.print(sentence, soft_wrap=True)
    columns = (
        TextColumn("{task.fields[done]} of {task.fields[all]} checks", markup=False),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[left]}", markup=False),
    )
    started, done = time.monotonic(), 0
    with Progress(*columns, console=console, disable=not console.is_terminal, transient=True) as bar:
        whole = sum(map(expected_seconds, wanted))
        task = bar.add_task("", total=whole, done=0, all=len(wanted), left=f"{_in_words(expected)} left")

        def finished(check: Check) -> None:
            nonlocal done
            done += 1
            bar.advance(task, expected_seconds(check))
            share = bar.tasks[0].percentage / 100
            left = remaining_seconds(expected, elapsed=time.monotonic() - started, share=share)
            bar.update(task, done=done, left=f"{_in_words(left)} left")

        yield finished


def remaining_seconds(expected: float, *, elapsed: float, share: float) -> float:
    """Return how many seconds are left once a share of the work is done; what was expected counts like a first twentieth.

    Examples
    --------
    >>> remaining_seconds(100.0, elapsed=0.0, share=0.0), round(remaining_seconds(100.0, elapsed=100.0, share=0.5))
    (100.0, 95)
    """
    weight = 0.05
    return (1 - share) * (elapsed + weight * expected) / (share + weight)


def _in_words(seconds: float) -> str:
    """Return a duration as roughly as it is known."""
    if seconds < 10:
        return "a few seconds"
    if seconds < 90:
        return f"about {math.ceil(seconds / 10) * 10} seconds"
    return f"about {round(seconds / 60)} minutes"


def _plain(check: Check, report: Report) -> dict[str, Any]:
    return {
        "name": check.name,
        "expected": check.expected,
        "pairs": report.pairs,
        "violations": report.violations,
        "worst": report.worst if math.isfinite(report.worst) else None,  # JSON has no infinity
        "seconds": round(report.seconds, 3),
        "as_expected": report.as_expected,
    }


def _print(reports: Sequence[tuple[Check, Report]], pairs: int, ok: bool) -> None:
    from rich import box
    from rich.table import Table

    from cutline.cli.show import print_titled, results

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("check", overflow="fold")
    table.add_column("expected")
    for name in ("pairs", "violations", "worst"):
        table.add_column(name, justify="right")
    table.add_column("verdict")
    for check, report in reports:
        table.add_row(
            check.name,
            check.expected,
            f"{report.pairs:,}",
            f"{report.violations:,}",
            f"{report.worst:.3f}" if report.worst < 1e4 else f"{report.worst:.1e}",
            "ok" if report.as_expected else "WRONG",
            style=None if report.as_expected else "bold red",
        )
    console = results()
    print_titled(console, "Every pair of neighbours; the worst is observed / claimed", table)
    unexpected = sum(not report.as_expected for _, report in reports)
    verdict = "every check came out as expected." if ok else f"{unexpected} not as expected."
    console.print(f"{pairs:,} ordered pairs of neighbours checked; {verdict}")
