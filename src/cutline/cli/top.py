r"""``cutline top``: a log in, a private top set out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cutline.cli import options as o
from cutline.cli.door import guarded, print_json

if TYPE_CHECKING:
    from cutline.ledger import Account


@guarded
def top(
    log: Annotated[
        str, typer.Argument(metavar="LOG", help="A parquet, CSV or JSON file, or a quoted pattern of them.")
    ],
    user: Annotated[str, typer.Option(metavar="COL", help="The column that says who.")],
    item: Annotated[str, typer.Option(metavar="COL", help="The column that says what.")],
    epsilon: Annotated[
        float | None,
        typer.Option(metavar="E", help="Total epsilon of all releases.  [default: 1, with --ledger the dataset's]"),
    ] = None,
    delta: Annotated[
        float | None,
        typer.Option(metavar="D", help="Total delta of all releases.  [default: 1e-6, with --ledger the dataset's]"),
    ] = None,
    releases: Annotated[
        int | None,
        typer.Option(
            metavar="T",
            help="How many releases of this kind share the budget.  [default: 1, with --ledger the dataset's]",
        ),
    ] = None,
    k: o.K = None,
    max_k: o.MaxK = None,
    min_k: o.MinK = None,
    target: o.Target = None,
    weight: o.Weight = None,
    clip: o.Clip = None,
    choose: o.Choose = None,
    test: o.GapTest = None,
    mechanism: o.Mechanism = None,
    candidates: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="All items there can be: a text file with one per line, or a .json list (numbers stay numbers).",
        ),
    ] = None,
    adjacency: Annotated[
        o.Relation | None,
        typer.Option(
            help="Who is protected: a user joining or leaving, or a user's rows changing.  "
            "[default: add-remove, with --ledger the dataset's]"
        ),
    ] = None,
    counts: Annotated[bool, typer.Option("--counts", help="Also release noisy counts of the set, at a price.")] = False,
    where: Annotated[
        str | None, typer.Option(metavar="SQL", help="A condition on one row; other rows are left out.")
    ] = None,
    memory_limit: Annotated[
        str | None, typer.Option(metavar="SIZE", help="Spill to disk above this, like 1GB.")
    ] = None,
    ledger: Annotated[
        str | None, typer.Option(metavar="URL", help="Charge the release to these books; see cutline ledger.")
    ] = None,
    dataset: Annotated[str | None, typer.Option(metavar="NAME", help="The account in the ledger.")] = None,
    analyst: Annotated[str | None, typer.Option(metavar="NAME", help="Who asks, for the ledger.")] = None,
    plot: o.Plot = None,
    as_json: o.AsJson = False,
) -> None:
    """Release the top items of a log, or withhold them.

    \b
    Example:
      cutline top checkins.parquet --user user_id --item venue
      cutline top checkins.parquet --user user_id --item venue --k 10 --counts
      cutline top 'logs/*.csv' --user who --item page --where "country = 'FR'" --json
      cutline top checkins.parquet --user user_id --item venue --ledger books.db --dataset checkins
    """  # noqa: D301 - \b is the mark for lines that help must not refill
    from cutline import api
    from cutline.cli.files import check_plot, read_candidates
    from cutline.cli.show import print_release, release_dict, talk, working

    check_plot(plot)
    listed = None if candidates is None else read_candidates(candidates)
    with working("Counting distinct users per item"):
        release = api.top(
            log,
            user=user,
            item=item,
            epsilon=epsilon,
            delta=delta,
            releases=releases,
            k=k,
            max_k=max_k,
            mechanism=mechanism,
            adjacency=None if adjacency is None else str(adjacency),
            candidates=listed,
            counts=counts,
            where=where,
            memory_limit=memory_limit,
            ledger=ledger,
            dataset=dataset,
            analyst=analyst,
            **o.given(min_k=min_k, target=target, weight=weight, clip=clip, choose=choose, test=test),
        )
    account = _account(ledger, dataset)
    if as_json:
        print_json(release_dict(release) | ({} if account is None else {"ledger": account.to_dict()}))
    else:
        print_release(release, header=item)
        if account is not None:
            _print_account(account)
    if plot is not None:
        from cutline.plots import plot_release

        plot_release(release, plot)
        talk().print(f"Figure written to {plot}", soft_wrap=True)


def _account(ledger: str | None, dataset: str | None) -> Account | None:
    """Look at the account after the release; what is out is printed, whether the books answer again or not."""
    if ledger is None or dataset is None:
        return None
    from cutline.errors import LedgerError
    from cutline.ledger import Ledger

    try:
        with Ledger(ledger) as books:
            return books.show(dataset)
    except LedgerError:
        return None


def _print_account(account: Account) -> None:
    from cutline.cli.ledger import account_facts
    from cutline.cli.show import print_facts, results

    facts = account_facts(account)
    shown = {name: facts[name] for name in ("dataset", "used", "left")}
    print_facts(results(), {**shown, "in all": facts["guarantee"]})
