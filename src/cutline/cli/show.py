r"""How things look: two consoles, and the words for a release.

Consoles take every text literally (no markup, no emoji codes), and items pass through `printable`: a venue called
``[red]`` or one with control characters is shown, not obeyed.
"""

from __future__ import annotations

import math
import shlex
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from cutline.cli.door import NOT_AS_REQUIRED, deliver, printable
from cutline.errors import UnsettledError
from cutline.grouped import GroupedRelease
from cutline.histogram import Item
from cutline.outcome import Status
from cutline.release import Paid, Release

_NO_FONT = (
    "No font of this machine has some letters of these names, so the figure spells them out. Install one that has (on Debian "
    "fonts-noto-cjk for Chinese, Japanese and Korean), or draw an .svg file, which holds the names as text."
)


def results() -> Console:
    """Return the console of standard output."""
    return Console(file=sys.stdout, markup=False, emoji=False, highlight=False)


def talk() -> Console:
    """Return the console of standard error."""
    return Console(file=sys.stderr, markup=False, emoji=False, highlight=False)


@contextmanager
def working(sentence: str) -> Iterator[None]:
    """Show a spinner on standard error while the body runs, if somebody is watching."""
    console = talk()
    if not console.is_terminal:
        yield
        return
    with console.status(sentence):
        yield


@contextmanager
def counting(sentence: str) -> Iterator[Callable[[float], None] | None]:
    """Show a bar on standard error while a log is counted, if somebody is watching; yields what to tell the share to."""
    console = talk()
    if not console.is_terminal:
        yield None
        return
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), TaskProgressColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(sentence, total=1.0)
        yield lambda share: bar.update(task, completed=share)


def print_facts(console: Console, pairs: Mapping[str, str]) -> None:
    """Print names and values in two columns, folded at the width of the console; no option is broken at its hyphens."""
    margin = max(map(len, pairs)) + 2
    for name, value in pairs.items():
        room = max(20, console.width - margin)
        lines = [line for part in value.split("\n") for line in textwrap.wrap(part, room, break_on_hyphens=False)] or [
            ""
        ]
        folded = f"\n{' ' * margin}".join(lines)
        console.print(Text.assemble((name.ljust(margin), "dim"), folded), soft_wrap=True)


def print_titled(console: Console, title: str, table: Table) -> None:
    """Print a table under its title; rich would fold the title to the width of the table."""
    console.print(title, style="bold")
    console.print(table)
    console.print()


def print_table(title: str, headings: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print rows of text under their headings on standard output; numbers stand to the right."""
    table = Table()
    for heading in headings:
        table.add_column(heading, justify="right" if heading in ("entry", "share") else "left", overflow="fold")
    for row in rows:
        table.add_row(*row)
    print_titled(results(), title, table)


def item_table(header: str, release: Release) -> Table:
    """Return one item per row, with its noisy count and what it may be off by if there is one."""
    table = Table()
    table.add_column(printable(header), overflow="fold")
    if release.counts is not None:
        table.add_column(f"{_counted(release)} (noisy, 95 %)", justify="right")
    for item in release.listed() or ():
        table.add_row(printable(item), *([] if release.counts is None else [_count_in_words(release, item)]))
    return table


def recall(entry: int, ledger: str | None) -> str:
    """Return the command that prints a kept answer; a URL may hold a password, and is not repeated.

    Examples
    --------
    >>> recall(41, "our books.db"), recall(41, "postgresql://ann:secret@host/books")
    ("cutline ledger answer 41 --ledger 'our books.db'", 'cutline ledger answer 41 --ledger URL')
    """
    return (
        f"cutline ledger answer {entry} --ledger {'URL' if ledger is None or '://' in ledger else shlex.quote(ledger)}"
    )


def publish(
    answer: object,
    *,
    header: str = "item",
    ledger: str | None = None,
    unsettled: UnsettledError | None = None,
    plot: Path | None = None,
    as_json: bool = False,
    full: bool = False,
    instead: Mapping[str, Any] = {},
    require: str | None = None,
    by_chance: str | None = None,
) -> None:
    """Deliver what became public, the same now and when the ledger is asked for it again; ``instead`` replaces parts of it.

    ``by_chance`` says what a closed domain shows of a flat log, if there is anything to say. ``require`` is the least status
    that is wanted: if the answer has not got it, the exit code says so once all is printed.
    """
    assert isinstance(answer, Paid)  # noqa: S101 - nothing else is paid for

    def draw(path: Path) -> None:
        from cutline.plots import plot_release, plot_table, spells_letters

        if isinstance(answer, GroupedRelease):
            plot_table(answer, path)
        elif isinstance(answer, Release):
            plot_release(answer, path)
        if path.suffix.lower() == ".png" and isinstance(answer, Release | GroupedRelease) and spells_letters(answer):
            typer.echo(_NO_FONT, err=True)

    def show() -> None:
        print_answer(answer, header=header)
        if by_chance is not None:
            print_facts(results(), {"by chance": by_chance})
        if in_terminal:
            from cutline.cli.text_figure import print_figure

            results().print()
            print_figure(results(), answer)

    said = {} if by_chance is None else {"by_chance": by_chance}
    in_terminal = plot is not None and str(plot) == "-"

    place = "Without a ledger it is not kept, and asking again is another release."
    if unsettled is not None:
        place = "The books could not be told either, so it is lost; what was charged for it stays charged."
    elif answer.entry is not None:
        place = f"It is paid for and kept: `{recall(answer.entry, ledger)}` prints it again."
    deliver(
        answer.to_dict(full=full) | said | {"unsettled": unsettled and unsettled.to_dict()} | dict(instead),
        show,
        as_json=as_json,
        plot=None if in_terminal else plot,
        draw=draw,
        unsettled=unsettled,
        kept=place,
    )
    if require is not None and not answer.status.meets(require):
        raise typer.Exit(NOT_AS_REQUIRED)


def print_answer(answer: Paid, *, header: str) -> None:
    """Print what became public on standard output; ``header`` names the items."""
    console, plain = results(), answer.to_dict()
    if isinstance(answer, GroupedRelease):
        print_titled(console, _table_headline(answer), _group_table(header, answer))
    elif not isinstance(answer, Release):
        console.print(_labels_headline(plain) + "\n", style="bold")
    elif not answer.items:
        console.print(headline(answer) + "\n", style="bold")
    else:
        print_titled(console, headline(answer), item_table(header, answer))
    facts = status_facts(answer) | {"guarantee": plain["guarantee"], "mechanism": parameters(plain["mechanism"])}
    if answer.account is not None:
        account = account_facts(answer.account)
        again = "answered from the ledger, free: the same question about the same version of the data"
        facts |= {"entry": f"{answer.entry}, {again}" if answer.repeated_from else f"{answer.entry}"}
        facts |= {name: account[name] for name in ("dataset", "left")} | {"in all": account["guarantee"]}
    print_facts(console, facts)


def _labels_headline(labels: Mapping[str, Any]) -> str:
    counts = {name: labels[name] for name in ("queries", "answered", "withheld", "partly")}
    return "{queries:,} queries: {answered:,} answered, {withheld:,} withheld, {partly:,} partly labelled".format(
        **counts
    )


def status_facts(answer: Paid) -> dict[str, str]:
    """Return how an answer ended, how that can come, and what to change when asking again."""
    why = f": {answer.why}" if isinstance(answer, Release | GroupedRelease) else ""
    facts = {"status": f"{answer.status}{why}"}
    if answer.next_steps:
        name = "for a longer list" if answer.status is Status.RELEASED else "to find more"
        facts[name] = "\nor ".join(step.sentence for step in answer.next_steps)
    return facts


def _table_headline(table: GroupedRelease) -> str:
    shown = [release for release in table.releases.values() if release.items]
    order = "each as its row says" if _mixed(table) else _order(any(isinstance(one.items, tuple) for one in shown))
    return f"The top by {printable(table.by)}: {len(shown)} of {len(table.releases)} released, {order}"


def _mixed(table: GroupedRelease) -> bool:
    """Say whether some groups came out in an order that means something, and others as sets."""
    return len({isinstance(release.items, tuple) for release in table.releases.values() if release.items}) > 1


def _group_table(header: str, grouped: GroupedRelease) -> Table:
    """Return one row per group."""
    counted = next((_counted(release) for release in grouped.releases.values() if release.counts is not None), None)
    table = Table()
    table.add_column(printable(grouped.by), overflow="fold")
    table.add_column("k", justify="right")
    mixed = _mixed(grouped)
    if mixed:
        table.add_column("order")
    table.add_column(f"{printable(header)}{f' ({counted}, noisy, 95 %)' if counted else ''}", overflow="fold")
    for group, release in grouped.releases.items():
        order = ("as released" if isinstance(release.items, tuple) else "by name") if release.items else ""
        k = str(release.k) if release.k else ""
        table.add_row(printable(group), k, *([order] if mixed else []), _items_in_words(release))
    return table


def _counted(release: Release) -> str:
    """Say what the noisy counts of a release are of."""
    return str(dict(release.mechanism.get("counts") or {}).get("of", "users"))


def _items_in_words(release: Release) -> str:
    listed, counts = release.listed(), release.counts
    if not listed:
        return str(release.status)
    words = {item: "" if counts is None else f" ({_count_in_words(release, item)})" for item in listed}
    return ", ".join(printable(item) + words[item] for item in listed)


def _count_in_words(release: Release, item: Item) -> str:
    """Return the noisy count of one item with its error; without one if the release does not say how it was made."""
    error, count = release.count_error, (release.counts or {})[item]
    return f"{count:,}" if error is None else error.in_words(count)


def _order(ordered: bool) -> str:
    return "in their released order" if ordered else "in item order, not by rank"


def headline(release: Release) -> str:
    """Say in one line what came out."""
    if release.items is None:
        where = f"the set at k = {release.k}" if release.k else "the set"
        return f"Withheld: {where} did not pass the stability test, so no item is shown."
    shown = len(release.items)
    if not shown:
        return f"Empty: no item{f' of the top {release.k}' if release.k else ''} is shown."
    if not release.k:
        return (
            f"{shown} {'item' if shown == 1 else 'items'} with many users, {_order(isinstance(release.items, tuple))}"
        )
    what = f"The top {release.k}" if shown == release.k else f"Partial: {shown} of the top {release.k}"
    return f"{what}, {_order(isinstance(release.items, tuple))}"


def percent(value: float) -> str:
    """Print one decimal, rounded up: what is used is never shown as less."""
    return f"{math.ceil(round(10 * value, 6)) / 10:.1f} %"


def account_facts(account: Mapping[str, Any], *, full: bool = False) -> dict[str, str]:
    """Return an account (`Account.to_dict()`) as names and values for a person; in full, also what only an expert asks for."""
    budget, limits, used = account["budget"], account["filter"], account["used_percent"]
    unit = f", as named by {printable(account['unit'])}" if account["unit"] else ""
    share = f"{math.floor(round(10 * (100 - max(used.values())), 6)) / 10:.4g} % of the budget"
    facts = {
        "dataset": f"{printable(account['dataset'])} ({account['state']}), owned by {printable(account['owner'])}",
        "budget": f"epsilon = {budget['epsilon']:.6g}, delta = {budget['delta']:.3g}",
        "left": f"{account['remaining_releases']} of {budget['releases']} questions left ({share})"
        if account["closed"] is None
        else "nothing: closed for good",
        "protects": account["protects"] + unit,
        "entries": f"{account['entries']:,}",
    }
    if full:
        facts |= {
            "filter": f"order = {limits['order']:.4g}, rdp = {limits['rdp']:.4g}, delta = {limits['delta']:.3g}",
            "used": f"{percent(used['rdp'])} of the Rényi limit, {percent(used['delta'])} of the delta limit",
        }
    for analyst in account["analysts"]:
        part = analyst["used_percent"]
        said = "no limit of their own" if part is None else f"{percent(max(part.values()))} of their limit used"
        facts[f"analyst {printable(analyst['analyst'])}"] = said
    return facts | {"guarantee": account["guarantee"]} | ({"head": account["head"]} if account["head"] else {})


def parameters(described: Mapping[str, Any]) -> str:
    """Name a mechanism and its public parameters."""
    return f"{described['name']} ({_in_words({k: v for k, v in described.items() if k not in ('name', 'adjacency')})})"


def _in_words(pairs: Mapping[str, Any]) -> str:
    def word(value: Any) -> str:
        if isinstance(value, Mapping):
            return f"({_in_words(value)})"
        return f"{value:.4g}" if isinstance(value, float) else str(value)

    return ", ".join(f"{k} = {word(v)}" for k, v in pairs.items())


def where(domains: Sequence[str]) -> str:
    """Return on which domain a mechanism runs, in one word."""
    return domains[0] if len(domains) == 1 else "either"
