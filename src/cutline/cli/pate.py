r"""``cutline pate``: teachers' votes in, private labels out."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cutline.cli import options as o
from cutline.cli.door import guarded, print_json

if TYPE_CHECKING:
    from cutline.cli.ballots import BallotBox
    from cutline.pate import Aggregator, Labels
    from cutline.pate.paying import Account
    from cutline.privacy import Budget


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
    epsilon: Annotated[float, typer.Option(metavar="E", help="Total epsilon of all queries.")] = 1.0,
    delta: Annotated[float, typer.Option(metavar="D", help="Total delta of all queries.")] = 1e-6,
    aggregator: Annotated[str, typer.Option(metavar="NAME", help="How votes become labels.")] = "optimal-vote",
    adjacency: Annotated[
        o.Relation, typer.Option(help="What may change: a ballot in any way, or its being there (as in the paper).")
    ] = o.Relation.REPLACE,
    limit: Annotated[
        int | None, typer.Option(metavar="N", help="Cut every ballot to its N surest labels; needs ballots.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Where the labels go: .npz, .parquet or .csv.")
    ] = None,
    ledger: Annotated[
        str | None, typer.Option(metavar="URL", help="The ledger that pays: a SQLite file or a postgresql:// address.")
    ] = None,
    dataset: Annotated[str | None, typer.Option(metavar="NAME", help="The dataset in the ledger.")] = None,
    analyst: Annotated[str | None, typer.Option(metavar="NAME", help="Who asks, if the ledger wants to know.")] = None,
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
    from cutline.pate.paying import opened, released
    from cutline.privacy import Budget

    check_labels_file(out, needed=not as_json)
    box = read_ballots(ballots)
    budget = Budget(epsilon=epsilon, delta=delta, releases=box.queries)
    with _books(ledger) as books, working("Drawing labels"):
        account = opened(books, dataset, analyst, seeded=False)
        ready = _calibrated(box, aggregator, budget, account, teachers, str(adjacency), limit)
        labels, unsettled = released(lambda: _draw(ready, box), account=account, aggregator=ready, queries=box.queries)
    if out is not None:
        write_labels(out, labels.values, box.names, labels.guarantee)
    if as_json:
        plain = labels.to_dict(full=full) | {"unsettled": None if unsettled is None else unsettled.to_dict()}
        print_json(
            plain if out is None else plain | {"labels": None}
        )  # those that went to a file are not printed again
        return
    _print(labels)
    talk().print(f"Labels written to {out}", soft_wrap=True)
    if unsettled is not None:  # the labels are paid for in full, and in their file: this is news, not a refusal
        raise unsettled


def _books(url: str | None) -> AbstractContextManager[Any]:
    if url is None:
        return nullcontext()
    from cutline.ledger import Ledger

    return Ledger(url)


def _calibrated(
    box: BallotBox,
    name: str,
    budget: Budget,
    account: Account | None,
    teachers: int | None,
    adjacency: str,
    limit: int | None,
) -> Aggregator:
    """Return the aggregator, or refuse for a public reason."""
    from cutline.errors import ParameterError
    from cutline.pate.by_name import calibrated

    if teachers is None:
        if box.ballots is None:
            raise ParameterError(
                "the number of teachers is public, and never read from their votes",
                "no --teachers",
                "Pass --teachers N.",
            )
        teachers = len(box.ballots)
    if limit is not None and box.ballots is None:
        raise ParameterError(
            "a ballot limit needs the ballots: votes do not show who cast them", "--limit with votes", "Leave it out."
        )
    ready = calibrated(
        name,
        budget,
        teachers=teachers,
        labels=len(box.names),
        adjacency=adjacency,
        limits=None if account is None else account.filter(budget),
        limit=limit,
    )
    if box.votes is not None and (ready.limit is not None or ready.width != box.votes.shape[1]):
        raise ParameterError(f"{name} counts ballots in its own way", "a file of votes", "Save the ballots instead.")
    return ready


def _draw(aggregator: Aggregator, box: BallotBox) -> Labels:
    votes = box.votes if box.ballots is None else aggregator.tally(box.ballots, box.scores)
    assert votes is not None  # noqa: S101 - a box holds one or the other
    return aggregator.release(votes)


def _print(labels: Labels) -> None:
    from cutline.cli.show import parameters, print_facts, results

    console = results()
    console.print(
        f"{labels.queries:,} queries: {labels.answered:,} answered, {labels.withheld:,} withheld, "
        f"{labels.partial:,} partly labelled\n",
        style="bold",
    )
    print_facts(console, {"guarantee": labels.guarantee, "mechanism": parameters(labels.mechanism)})
