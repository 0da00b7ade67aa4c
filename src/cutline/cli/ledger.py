r"""``cutline ledger``: budgets that cannot be overspent. Each command opens the books, calls the library and prints."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cutline.cli import options as o
from cutline.cli.door import deliver, guarded, print_json, printable

if TYPE_CHECKING:
    from cutline.ledger import Account

ledger = typer.Typer(
    name="ledger",
    help="Keep a dataset's privacy budget: every release is charged before data is read.\n\n"
    "\b\nExample:\n"
    "  cutline ledger init --ledger books.db --dataset visits --epsilon 1 --releases 10 --owner ann\n"
    "  cutline top visits.parquet --user user_id --item venue --ledger books.db --dataset visits\n"
    "  cutline ledger show --ledger books.db --dataset visits",
    no_args_is_help=True,
    rich_markup_mode=None,
)

Books = Annotated[
    str,
    typer.Option(
        "--ledger",
        metavar="URL",
        help="The books: the path of a SQLite file, or postgresql://host/database.",
    ),
]
Dataset = Annotated[str, typer.Option(metavar="NAME", help="The account.")]


@ledger.command()
@guarded
def init(
    books: Books,
    dataset: Dataset,
    owner: Annotated[str, typer.Option(metavar="NAME", help="Who answers for the budget.")],
    epsilon: o.Epsilon = 1.0,
    delta: o.Delta = 1e-6,
    releases: Annotated[
        int, typer.Option(metavar="T", help="For how many releases of the usual kind the budget is meant.")
    ] = 10,
    adjacency: o.Adjacency = "add-remove",
    unit: Annotated[
        str | None, typer.Option(metavar="COL", help="The column that names the protected; top refuses another.")
    ] = None,
    analyst: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Who may ask; repeat it for several.  [default: everybody]"),
    ] = None,
    order: Annotated[
        float | None, typer.Option(metavar="A", help="The filter's Rényi order.  [default: a good one]")
    ] = None,
    delta_share: Annotated[
        float | None, typer.Option(metavar="S", help="The share of delta for the sum of deltas; goes with --order.")
    ] = None,
    as_json: o.AsJson = False,
) -> None:
    """Open an account: its budget, order, adjacency and unit never change.

    \b
    Example:
      cutline ledger init --ledger books.db --dataset visits --epsilon 1 --delta 1e-6 --releases 10 --owner ann
      cutline ledger init --ledger postgresql://host/books --dataset visits --owner ann --unit user_id
    """  # noqa: D301 - \b is the mark for lines that help must not refill
    from cutline.cli.show import working
    from cutline.errors import ParameterError
    from cutline.ledger import Ledger
    from cutline.privacy import Budget

    budget = Budget(epsilon=epsilon, delta=delta, releases=releases)
    if (order is None) != (delta_share is None):
        raise ParameterError("order and delta_share go together", "one of them", "Pass both, or neither.")
    limits = None if order is None or delta_share is None else budget.filter(order=order, delta_share=delta_share)
    with Ledger(books) as opened:
        with working("Choosing the order of the filter"):
            opened.create(
                dataset,
                budget=budget,
                limits=limits,
                adjacency=adjacency,
                owner=owner,
                unit=unit,
                analysts=analyst or None,
            )
        _show_account(opened.show(dataset), as_json=as_json)


@ledger.command()
@guarded
def show(
    books: Books,
    dataset: Annotated[
        str | None, typer.Option(metavar="NAME", help="The account; without it, all are listed.")
    ] = None,
    plot: o.Plot = None,
    as_json: o.AsJson = False,
    full: Annotated[bool, typer.Option("--full", help="Also the filter, and what is used of its two limits.")] = False,
) -> None:
    """Show what is left of a budget; --plot draws the burn-down.

    \b
    Example:
      cutline ledger show --ledger books.db
      cutline ledger show --ledger books.db --dataset visits --plot burn-down.png
    """  # noqa: D301 - \b is the mark for lines that help must not refill
    from cutline.cli.files import check_plot
    from cutline.cli.show import account_facts, print_facts, results
    from cutline.errors import ParameterError
    from cutline.ledger import Ledger

    if plot is not None:
        check_plot(plot)
    if plot is not None and dataset is None:
        raise ParameterError("a burn-down is drawn for one dataset", "no dataset", "Pass --dataset.")
    with Ledger(books) as opened:
        if dataset is None:
            _show_accounts([opened.show(name) for name in opened.datasets()], as_json=as_json)
            return
        account, name = opened.show(dataset), dataset

        def draw(path: Path) -> None:
            from cutline.plots import plot_burn_down

            plot_burn_down(account, opened.burn_down(name), path)

        plain = account.to_dict()
        deliver(
            plain,
            lambda: print_facts(results(), account_facts(plain, full=full)),
            as_json=as_json,
            plot=plot,
            draw=draw,
        )


@ledger.command()
@guarded
def limit(
    books: Books,
    dataset: Dataset,
    analyst: Annotated[str, typer.Option(metavar="NAME", help="Whom to limit.")],
    share: Annotated[float | None, typer.Option(metavar="S", help="The share of both limits, between 0 and 1.")] = None,
    rdp: Annotated[float | None, typer.Option(metavar="R", help="A Rényi limit at the filter's order.")] = None,
    delta: Annotated[float | None, typer.Option(metavar="D", help="A limit of the sum of deltas.")] = None,
    as_json: o.AsJson = False,
) -> None:
    """Limit one analyst under the dataset's budget; from then on every release must name its analyst.

    \b
    Example:
      cutline ledger limit --ledger books.db --dataset visits --analyst bob --share 0.25
    """  # noqa: D301 - \b is the mark for lines that help must not refill
    from cutline.ledger import Ledger

    with Ledger(books) as opened:
        opened.limit(dataset, analyst, rdp=rdp, delta=delta, share=share)
        _show_account(opened.show(dataset), as_json=as_json)


@ledger.command()
@guarded
def allow(
    books: Books,
    dataset: Dataset,
    analyst: Annotated[str, typer.Option(metavar="NAME", help="Whom to put on the account's list.")],
    as_json: o.AsJson = False,
) -> None:
    """Put an analyst on an account's list; an account without a list begins one, and refuses everybody else.

    \b
    Example:
      cutline ledger allow --ledger books.db --dataset visits --analyst bob
    """  # noqa: D301 - \b is the mark for lines that help must not refill
    from cutline.ledger import Ledger

    with Ledger(books) as opened:
        opened.allow(dataset, analyst)
        _show_account(opened.show(dataset), as_json=as_json)


@ledger.command()
@guarded
def note(
    entry: Annotated[int, typer.Argument(metavar="ID", help="The entry, as `history` numbers it.")],
    text: Annotated[str, typer.Argument(metavar="TEXT", help="One line.")],
    books: Books,
    as_json: o.AsJson = False,
) -> None:
    """Write a note beside an entry, such as why it was never settled; its charge stays, and so does the note.

    \b
    Example:
      cutline ledger note 41 "the machine lost power; nobody saw an answer" --ledger books.db
    """  # noqa: D301 - \b is the mark for lines that help must not refill
    from cutline.ledger import Ledger

    with Ledger(books) as opened:
        opened.note(entry, text)
        noted = opened.answer(entry)
    if as_json:
        print_json(noted.to_dict())
        return
    from cutline.cli.show import print_facts, results

    facts = {note.at[:19].replace("T", " "): printable(note.text) for note in noted.notes}
    print_facts(results(), {"entry": f"{noted.id}, {noted.state}: the charge stays", **facts})


@ledger.command()
@guarded
def close(books: Books, dataset: Dataset, as_json: o.AsJson = False) -> None:
    """Refuse every further release of a dataset, for ever; its history stays.

    \b
    Example:
      cutline ledger close --ledger books.db --dataset visits
    """  # noqa: D301 - \b is the mark for lines that help must not refill
    from cutline.ledger import Ledger

    with Ledger(books) as opened:
        opened.close(dataset)
        _show_account(opened.show(dataset), as_json=as_json)


def _show_account(account: Account, *, as_json: bool) -> None:
    if as_json:
        print_json(account.to_dict())
        return
    from cutline.cli.show import account_facts, print_facts, results

    print_facts(results(), account_facts(account.to_dict()))


def _show_accounts(accounts: list[Account], *, as_json: bool) -> None:
    if as_json:
        print_json({"datasets": [account.to_dict() for account in accounts]})
        return
    from cutline.cli.show import account_facts, print_table

    rows = [
        (
            printable(account.dataset),
            printable(account.owner),
            account.state,
            f"{account.budget.epsilon:.4g}",
            f"{account.budget.delta:.3g}",
            account_facts(account.to_dict())["left"],
        )
        for account in accounts
    ]
    print_table("Datasets", ("dataset", "owner", "state", "epsilon", "delta", "left"), rows)
