r"""``cutline inspect``: private facts about a log for its owner, on a terminal and nowhere else."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from cutline.cli import options as o
from cutline.cli.door import guarded


@guarded
def inspect(
    log: Annotated[
        str, typer.Argument(metavar="LOG", help="A parquet, CSV or JSON file, or a quoted pattern of them.")
    ],
    user: Annotated[str, typer.Option(metavar="COL", help="The column that says who.")],
    item: Annotated[str, typer.Option(metavar="COL", help="The column that says what.")],
    where: o.Where = None,
    memory_limit: o.MemoryLimit = None,
    format: o.Format = None,
) -> None:
    """Show the owner of a log what is in it: PRIVATE, on a terminal only.

    A bound, k, epsilon, filter or candidate list that is chosen from what it shows is not covered by any guarantee.

    \b
    Example:
      cutline inspect checkins.csv --user user_id --item venue
    """  # noqa: D301 - \b is the mark for lines that help must not refill
    from cutline.errors import ParameterError

    if not sys.stdout.isatty():
        raise ParameterError(
            "what inspect shows is private, and goes to a terminal only",
            "an output that is a file, a pipe or a program",
            "Run it in a terminal, without > or |.",
        )
    from cutline.cli.show import counting, print_facts, results
    from cutline.inspect_log import WARNING
    from cutline.inspect_log import inspect as look

    with counting("Reading the log") as progress:
        found = look(
            log, user=user, item=item, where=where, format=format, memory_limit=memory_limit, progress=progress
        )
    console = results()
    console.print(WARNING, style="bold red", soft_wrap=True)
    console.print()
    print_facts(console, found.facts())
