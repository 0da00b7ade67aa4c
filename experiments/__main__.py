r"""``cutline reproduce``: the paper's experiments, each with one command; pages, tables and figures go to a directory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cutline.cli import options as o
from cutline.cli.door import guarded, print_json

if TYPE_CHECKING:
    from experiments.report import Report
    from experiments.setting import Progress


@guarded
def reproduce(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME", help="exp1, exp2-covid, exp2-synthetic, adaptive-k, one-gap, ...; another word lists them."
        ),
    ],
    data: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            envvar="CUTLINE_DATA",
            help="Where the data files are.  [default: generated data, labelled so]",
        ),
    ] = None,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where page, tables and figures go.")] = Path("reproduce"),
    trials: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Repetitions of each cell; adaptive-k and one-gap draw nothing.  [default: 500 in exp1, 100 in exp2, 20 in "
            "exp3]",
        ),
    ] = None,
    seed: Annotated[int, typer.Option(metavar="N", help="Equal seeds give equal files.")] = 0,
    jobs: Annotated[int, typer.Option(metavar="N", help="How many processes work at once.")] = 2,
    as_json: o.AsJson = False,
) -> None:
    """Run one of the paper's experiments and write what was found.

    Simulations on public or generated data: nothing here is a release. A given data directory need not hold all logs: those it
    lacks are left out and named.

    \b
    Example:
      cutline reproduce exp2-synthetic
      cutline reproduce exp1 --data data --out docs/reproduce --trials 100
    """  # noqa: D301 - \b is the mark for lines that help must not refill
    from experiments.registry import experiment
    from experiments.report import check_directory
    from experiments.setting import Setting

    chosen = experiment(name)
    check_directory(out)
    try:
        with _bar(chosen.name) as progress:
            report = chosen.run(Setting(data=data, trials=trials, seed=seed, jobs=jobs, progress=progress))
    except KeyboardInterrupt:
        typer.echo("Interrupted. Nothing was written.", err=True)
        raise typer.Exit(130) from None
    written = report.write(out)
    if as_json:
        tables = {table.name: table.to_dict() for table in report.tables}
        files = [str(path) for path in written]
        print_json({"experiment": chosen.name, "title": report.title, "seed": seed, "files": files, "tables": tables})
        return
    _print(report, written)


@contextmanager
def _bar(name: str) -> Iterator[Progress]:
    """Show a bar on standard error, if somebody is watching."""
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

    from cutline.cli.show import talk

    console = talk()
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal, transient=True) as bar:
        task = bar.add_task(name, total=None)

        def show(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total)

        yield show


def _print(report: Report, written: list[Path]) -> None:
    from cutline.cli.show import print_facts, print_titled, results
    from experiments.terminal_tables import fitted

    console = results()
    console.print(report.title, style="bold")
    console.print()
    for table in report.tables:
        print_titled(console, table.title, fitted(table, console.width))
    print_facts(console, {"page": str(written[0]), "files": f"{len(written)} in {written[0].parent}"})


if __name__ == "__main__":
    typer.run(reproduce)
