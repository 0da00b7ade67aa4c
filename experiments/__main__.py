r"""``python -m experiments NAME``: run one of the paper's experiments; ``python -m experiments`` lists them.

These are simulations on public or generated data: nothing here is a release. Results go to standard output and to files,
progress to standard error. The exit code is 0 if the experiment was run, 1 if it was refused, 2 if the command was
misspelled and 130 if it was interrupted.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

from cutline.errors import CutlineError
from experiments.registry import EXPERIMENTS, find_experiment
from experiments.report import StudyReport, check_directory, check_page
from experiments.terminal_tables import fit_table
from experiments.trials import ReportProgress, Setting


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    options = _parser().parse_args(arguments)
    if options.name is None:
        _list_experiments()
        return 0
    try:
        _run(options)
    except CutlineError as error:
        if options.json:
            _print_json({"error": error.to_dict()})
        else:
            sys.stderr.write(f"experiments: {error}\n")
        return 1
    except KeyboardInterrupt:
        sys.stderr.write("Interrupted. Nothing was written.\n")
        return 130
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m experiments",
        description="Run one of the paper's experiments and write what was found. Without a name, list the experiments.",
        epilog="Example: python -m experiments exp1 --data data --out found --trials 100",
    )
    named = os.environ.get("CUTLINE_DATA")
    parser.add_argument("name", nargs="?", metavar="NAME", help=", ".join(EXPERIMENTS))
    parser.add_argument(
        "--data",
        type=Path,
        metavar="DIR",
        default=Path(named) if named else None,
        help="where the data files are; CUTLINE_DATA can name it instead. Without it data are generated, and labelled so. "
        "Logs that the directory lacks are left out and named.",
    )
    parser.add_argument(
        "--out",
        type=Path,
        metavar="DIR",
        default=Path("reproduce"),
        help="where page, tables and figures go (default: %(default)s)",
    )
    parser.add_argument(
        "--trials",
        type=int,
        metavar="N",
        help="repetitions of each cell (default: 500 in exp1, 100 in exp2, 20 in exp3, 200 in long-tail and recurring; the "
        "others draw nothing)",
    )
    parser.add_argument("--seed", type=int, metavar="N", default=0, help="equal seeds give equal files (default: 0)")
    parser.add_argument("--jobs", type=int, metavar="N", default=2, help="how many processes work at once (default: 2)")
    parser.add_argument("--json", action="store_true", help="print the tables as one JSON object")
    return parser


def _list_experiments() -> None:
    width = max(map(len, EXPERIMENTS))
    for experiment in EXPERIMENTS.values():
        sys.stdout.write(f"{experiment.name.ljust(width)}  {experiment.summary}\n")


def _run(options: argparse.Namespace) -> None:
    experiment = find_experiment(options.name)
    out: Path = options.out
    check_directory(out)
    with _progress_bar(experiment.name) as progress:
        setting = Setting(
            data=options.data, trials=options.trials, seed=options.seed, jobs=options.jobs, progress=progress
        )
        described = experiment.describe_run(setting)
        check_page(out / f"{experiment.name}.md", described)
        report = experiment.run(setting)
    written = report.write(out, described)
    if options.json:
        tables = {table.name: table.to_dict() for table in report.tables}
        files = [str(path) for path in written]
        _print_json(
            {"experiment": experiment.name, "title": report.title, "run": described, "files": files, "tables": tables}
        )
        return
    _print_report(report, written)


@contextmanager
def _progress_bar(name: str) -> Iterator[ReportProgress]:
    """Show a bar on standard error, if somebody is watching."""
    console = Console(file=sys.stderr)
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal, transient=True) as bar:
        task = bar.add_task(name, total=None)

        def show(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total)

        yield show


def _print_report(report: StudyReport, written: Sequence[Path]) -> None:
    console = Console(file=sys.stdout, markup=False, emoji=False, highlight=False)
    console.print(report.title, style="bold")
    for table in report.tables:
        console.print()
        console.print(table.title, style="bold")
        console.print(fit_table(table, console.width))
    console.print(f"\npage   {written[0]}\nfiles  {len(written)} in {written[0].parent}", soft_wrap=True)


def _print_json(plain: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(plain, indent=2, allow_nan=False) + "\n")


if __name__ == "__main__":
    sys.exit(main())
