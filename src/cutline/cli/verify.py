r"""``cutline verify``: the exhaustive privacy check, with progress."""

from __future__ import annotations

import math
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
    as_json: o.AsJson = False,
) -> None:
    """Check the privacy claims on every pair of small neighbouring inputs.

    Exact output laws, no sampling. Checks marked "fails" are broken on purpose: the checker must catch them.

    \b
    Example:
      cutline verify
      cutline verify --mechanism stable-top-k --json
    """  # noqa: D301 - \b is the mark for lines that help must not refill
    from cutline.verify.all_suites import checks

    reports = _run(checks(None if mechanism is None else [mechanism]))
    ok = all(report.as_expected for _, report in reports)
    pairs = sum(report.pairs for _, report in reports)
    if as_json:
        print_json({"checks": [_plain(*found) for found in reports], "pairs": pairs, "ok": ok})
    else:
        _print(reports, pairs, ok)
    if not ok:
        raise typer.Exit(1)


def _run(wanted: Sequence[Check]) -> list[tuple[Check, Report]]:
    """Run the checks one by one with a bar on standard error."""
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

    from cutline.cli.show import talk

    console = talk()
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
    found = []
    with Progress(*columns, console=console, disable=not console.is_terminal, transient=True) as bar:
        overall = bar.add_task("all checks", total=len(wanted))
        for check in wanted:
            task = bar.add_task(check.name, total=None)

            def show(pairs: int, total: int, task: Any = task) -> None:
                bar.update(task, advance=pairs, total=total)

            found.append((check, check.run(show)))
            bar.remove_task(task)
            bar.advance(overall)
    return found


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
    print_titled(
        console,
        "Every pair of neighbours; the worst is observed / claimed",
        table,
    )
    unexpected = sum(not report.as_expected for _, report in reports)
    verdict = "every check came out as expected." if ok else f"{unexpected} not as expected."
    console.print(f"{pairs:,} ordered pairs of neighbours checked; {verdict}")
