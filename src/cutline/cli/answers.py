r"""``cutline ledger history`` and ``cutline ledger answer``: what was asked of a dataset, and what came out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from cutline.cli import options as o
from cutline.cli.door import guarded, print_json, printable
from cutline.cli.ledger import Books, Dataset

if TYPE_CHECKING:
    from cutline.ledger import Account, Entry


@guarded
def history(
    books: Books,
    dataset: Dataset,
    limit: Annotated[int, typer.Option(metavar="N", help="How many entries.")] = 20,
    before: Annotated[int | None, typer.Option(metavar="ID", help="Only entries before this one.")] = None,
    as_json: o.AsJson = False,
) -> None:
    """List what was asked of a dataset, newest first.

    \b
    Example:
      cutline ledger history --ledger books.db --dataset visits
      cutline ledger history --ledger books.db --dataset visits --before 41 --json
    """  # noqa: D301 - \b is the mark for lines that help must not refill
    from cutline.ledger import Ledger

    with Ledger(books) as opened:
        account, entries = opened.show(dataset), opened.history(dataset, before=before, limit=limit)
    following = entries[-1].id if len(entries) == limit else None
    if as_json:
        print_json({"entries": [entry.to_dict() for entry in entries], "before": following})
        return
    _print_entries(account, entries)
    if following is not None:
        typer.echo(f"For older ones: --before {following}", err=True)


@guarded
def answer(
    entry: Annotated[int, typer.Argument(metavar="ID", help="The entry, as `top` and the history name it.")],
    books: Books,
    require: o.Require = None,
    plot: o.PlotOrShow = None,
    as_json: o.AsJson = False,
    full: o.Full = False,
) -> None:
    """Print an answer that was paid for again, as it was printed the first time; free, because it is public.

    \b
    Example:
      cutline ledger answer 17 --ledger books.db
      cutline ledger answer 17 --ledger books.db --json
    """  # noqa: D301 - \b is the mark for lines that help must not refill
    from cutline.api import read_answer
    from cutline.cli.files import check_plot
    from cutline.cli.show import publish
    from cutline.errors import ParameterError
    from cutline.grouped import GroupedRelease
    from cutline.ledger import Ledger
    from cutline.release import Release

    if plot is not None:
        check_plot(plot, as_json=as_json)
    with Ledger(books) as opened:
        found = opened.answer(entry)
        kept = read_answer(found).with_account(opened.show(found.dataset).to_dict(), entry=entry)
    if plot is not None and not isinstance(kept, Release | GroupedRelease):
        raise ParameterError("a figure shows a release or a table of them", "--plot with labels", "Leave --plot out.")
    header = str((found.question or {}).get("item") or "item")
    publish(kept, header=header, ledger=books, plot=plot, as_json=as_json, full=full, require=require)


def _print_entries(account: Account, entries: list[Entry]) -> None:
    from cutline.cli.show import percent, print_table

    rows = [
        (
            str(entry.id),
            entry.at[:19].replace("T", " "),
            printable(entry.analyst or "-"),
            printable(entry.purpose or "-"),
            printable(_question(entry)),
            percent(float(100 * max(entry.charged.shares(account.limits)))),
            _state(entry),
        )
        for entry in entries
    ]
    title = f"What was asked of {printable(account.dataset)}, newest first; shares of the whole budget"
    print_table(title, ("entry", "time (UTC)", "analyst", "purpose", "question", "share", "state"), rows)


def _question(entry: Entry) -> str:
    """Return what was asked in a few words."""
    asked, name = entry.question or {}, str(entry.mechanism.get("name", "?"))
    if asked.get("kind") == "labels":
        words = f"labels of {asked.get('queries', '?')} queries"
    elif asked.get("item"):
        number = f" {entry.mechanism['k']}" if "k" in entry.mechanism else ""
        by = f" by {asked['by']}" if asked.get("by") else ""
        where = f" where {asked['where']}" if asked.get("where") else ""
        words = f"top{number} of {asked['item']}{by}{where}"
    else:
        words = name
    return words + (f", data of {entry.data_version}" if entry.data_version else "")


def _state(entry: Entry) -> str:
    words = ("answer kept" if entry.answered else "settled") if entry.state == "settled" else "charged in full"
    return words + "".join(f"; {printable(note.text)}" for note in entry.notes)
