r"""``cutline pate``: teachers' votes in, private labels out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cutline.cli import options as o
from cutline.cli.door import guarded, print_json

if TYPE_CHECKING:
    from cutline.pate.labels import Labels


@guarded
def pate(
    ballots: Annotated[
        Path,
        typer.Argument(
            metavar="BALLOTS",
            help="An .npz file with votes (queries x labels) or ballots (teachers x queries x labels, and their scores if "
            "--limit is given), or a .parquet file with one row per query and one whole-number column per label.",
        ),
    ],
    teachers: Annotated[
        int | None,
        typer.Option(
            metavar="N", help="How many teachers there are; public.  [default for ballots: as many as the file has]"
        ),
    ] = None,
    epsilon: o.AskedEpsilon = None,
    delta: o.AskedDelta = None,
    aggregator: Annotated[str, typer.Option(metavar="NAME", help="How votes become labels.")] = "optimal-vote",
    adjacency: Annotated[
        o.Relation | None,
        typer.Option(
            help="What may change: a ballot in any way, or its being there (as in the paper).  [default: replace]"
        ),
    ] = None,
    limit: Annotated[
        int | None, typer.Option(metavar="N", help="Cut every ballot to its N surest labels; needs ballots.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Where the labels go: .npz, .parquet or .csv.")
    ] = None,
    ledger: o.Ledger = None,
    dataset: o.Dataset = None,
    analyst: o.Analyst = None,
    as_json: o.AsJson = False,
    full: o.Full = False,
) -> None:
    """Turn teachers' votes into labels under differential privacy.

    \b
    Example:
      cutline pate votes.npz --teachers 250 --epsilon 3 --out labels.npz
      cutline pate ballots.npz --limit 5 --aggregator pate-tau --out labels.parquet
      cutline pate votes.parquet --teachers 250 --ledger books.db --dataset patients --out labels.csv
    """  # noqa: D301 - \b is the mark for lines that help must not refill
    from cutline.cli.ballots import check_labels_file, read_ballots, write_labels
    from cutline.cli.show import talk, working
    from cutline.pate.label import keep_unsettled, label

    check_labels_file(out, needed=not as_json, votes=ballots, ledger=ledger)
    box, names = read_ballots(ballots)
    with working("Drawing labels"):
        labels, unsettled = keep_unsettled(
            lambda: label(
                box,
                teachers=teachers,
                aggregator=aggregator,
                limit=limit,
                epsilon=epsilon,
                delta=delta,
                adjacency=adjacency,
                ledger=ledger,
                dataset=dataset,
                analyst=analyst,
            )
        )  # what was paid for in full goes to its file, even if the books broke down afterwards
    unwritten = None if out is None else write_labels(out, labels.values, names, labels.guarantee)
    if as_json or unwritten is not None:  # labels that are paid for and have no file are printed, asked for or not
        written = (
            {} if out is None or unwritten is not None else {"labels": None}
        )  # those in a file are not printed again
        failures = {"unsettled": unsettled, "unwritten": unwritten}
        said = {name: error and error.to_dict() for name, error in failures.items()}
        print_json(labels.to_dict(full=full) | written | said)
        if unwritten is None:
            return
        if as_json:
            raise typer.Exit(1)
        raise unwritten
    _print(labels)
    talk().print(f"Labels written to {out}", soft_wrap=True)
    if unsettled is not None:
        raise unsettled


def _print(labels: Labels) -> None:
    from cutline.cli.show import parameters, print_facts, results

    console = results()
    console.print(
        f"{labels.queries:,} queries: {labels.answered:,} answered, {labels.withheld:,} withheld, "
        f"{labels.partial:,} partly labelled\n",
        style="bold",
    )
    print_facts(console, {"guarantee": labels.guarantee, "mechanism": parameters(labels.mechanism)})
