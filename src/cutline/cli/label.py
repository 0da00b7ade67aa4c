r"""``cutline label``: teachers' votes in, private labels out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cutline.cli import options as o
from cutline.cli.door import guarded


@guarded
def label(
    ballots: Annotated[
        Path,
        typer.Argument(
            metavar="BALLOTS",
            help="An .npz file with ballots (teachers x queries x labels of 0 and 1, and their scores if --limit is given) or "
            "votes (queries x labels: how many teachers said yes), or a .parquet file of votes with one row per query and one "
            "whole-number column per label.",
        ),
    ],
    teachers: Annotated[
        int | None,
        typer.Option(
            metavar="N", help="How many teachers there are; public.  [default: as many as the file has, or says]"
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
        int | None, typer.Option(metavar="N", help="Cut every ballot to its N surest labels; needs ballots and scores.")
    ] = None,
    quorum: Annotated[
        float | None,
        typer.Option(metavar="SHARE", help="Share of the teachers that must say yes.  [default: 0.5, half of them]"),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Where the labels go: .npz, .parquet or .csv.")
    ] = None,
    ledger: o.Ledger = None,
    dataset: o.Dataset = None,
    analyst: o.Analyst = None,
    share: o.Share = None,
    purpose: o.Purpose = None,
    data_version: o.DataVersion = None,
    fresh: o.Fresh = False,
    as_json: o.AsJson = False,
    full: o.Full = False,
) -> None:
    """Turn teachers' votes into labels under differential privacy.

    \b
    Example:
      cutline label votes.npz --teachers 250 --epsilon 3 --out labels.npz
      cutline label ballots.npz --limit 5 --aggregator pate-tau --out labels.parquet
      cutline label votes.parquet --teachers 250 --ledger books.db --dataset patients --out labels.csv
    """  # noqa: D301 - \b is the mark for lines that help must not refill
    from cutline.cli.ballots import check_labels_file, read_ballots, write_labels
    from cutline.cli.show import publish, working
    from cutline.pate.label import keep_unsettled
    from cutline.pate.label import label as draw

    check_labels_file(out, needed=not as_json, votes=ballots, ledger=ledger)
    box, names, teachers = read_ballots(ballots, teachers)
    with working("Drawing labels"):
        labels, unsettled = keep_unsettled(
            lambda: draw(
                box,
                teachers=teachers,
                aggregator=aggregator,
                limit=limit,
                quorum=quorum,
                epsilon=epsilon,
                delta=delta,
                adjacency=adjacency,
                ledger=ledger,
                dataset=dataset,
                analyst=analyst,
                share=share,
                purpose=purpose,
                data_version=data_version,
                fresh=fresh,
            )
        )  # what was paid for in full goes to its file, even if the books broke down afterwards
    unwritten = None if out is None else write_labels(out, labels.values, names, labels.guarantee)
    in_file = out is not None and unwritten is None
    if in_file and not as_json:
        typer.echo(f"Labels written to {out}", err=True)
    publish(
        labels,
        ledger=ledger,
        unsettled=unsettled,
        as_json=as_json
        or unwritten is not None,  # labels that are paid for and have no file are printed, asked for or not
        full=full,
        instead=({"labels": None} if in_file else {}) | {"unwritten": unwritten and unwritten.to_dict()},
    )
    if unwritten is not None:
        if as_json:
            raise typer.Exit(1)
        raise unwritten
