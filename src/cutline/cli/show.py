r"""How things look: two consoles, and the words for a release.

Consoles take every text literally (no markup, no emoji codes), and items pass through `printable`: a venue called
``[red]`` or one with control characters is shown, not obeyed.
"""

from __future__ import annotations

import math
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from cutline.grouped import GroupedRelease
from cutline.release import Release


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


def printable(item: object) -> str:
    r"""Return the item as text with every control or invisible character spelled out.

    Examples
    --------
    >>> print(printable("[red]tab\there\x1b[0m"), printable("café"), printable(7))
    [red]tab\there\x1b[0m café 7
    """
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in str(item))


def print_facts(console: Console, pairs: Mapping[str, str]) -> None:
    """Print names and values in two columns, folded at the width of the console."""
    margin = max(map(len, pairs)) + 2
    for name, value in pairs.items():
        lines = textwrap.wrap(value, max(20, console.width - margin)) or [""]
        folded = f"\n{' ' * margin}".join(lines)
        console.print(Text.assemble((name.ljust(margin), "dim"), folded), soft_wrap=True)


def print_titled(console: Console, title: str, table: Table) -> None:
    """Print a table under its title; rich would fold the title to the width of the table."""
    console.print(title, style="bold")
    console.print(table)
    console.print()


def item_table(header: str, items: Iterable[object], counts: Mapping[Any, int] | None = None) -> Table:
    """Return one item per row, with its noisy count if there is one."""
    table = Table()
    table.add_column(printable(header), overflow="fold")
    if counts is not None:
        table.add_column("users, noisy", justify="right")
    for item in items:
        table.add_row(printable(item), *([] if counts is None else [f"{counts[item]:,}"]))
    return table


def print_answer(answer: Release | GroupedRelease, *, header: str) -> None:
    """Print what became public on standard output; ``header`` names the items."""
    console = results()
    first = next(iter(answer.releases.values())) if isinstance(answer, GroupedRelease) else answer
    if isinstance(answer, GroupedRelease):
        print_titled(console, _table_headline(answer), _group_table(header, answer))
    elif answer.items is None:
        console.print(headline(answer) + "\n", style="bold")
    else:
        print_titled(console, headline(answer), item_table(header, answer.listed() or (), answer.counts))
    print_facts(console, {"guarantee": answer.guarantee, "mechanism": parameters(first.mechanism)})
    if answer.account is not None:
        facts = account_facts(answer.account)
        shown = {name: facts[name] for name in ("dataset", "used", "left")}
        print_facts(console, shown | {"in all": facts["guarantee"]})


def _table_headline(table: GroupedRelease) -> str:
    shown = sum(release.released for release in table.releases.values())
    ordered = any(isinstance(release.items, tuple) for release in table.releases.values())
    return f"The top by {printable(table.by)}: {shown} of {len(table.releases)} released, {_order(ordered)}"


def _group_table(header: str, grouped: GroupedRelease) -> Table:
    """Return one row per group."""
    counted = any(release.counts is not None for release in grouped.releases.values())
    table = Table()
    table.add_column(printable(grouped.by), overflow="fold")
    table.add_column("k", justify="right")
    table.add_column(f"{printable(header)}{' (users, noisy)' if counted else ''}", overflow="fold")
    for group, release in grouped.releases.items():
        table.add_row(printable(group), str(release.k) if release.k else "", _items_in_words(release))
    return table


def _items_in_words(release: Release) -> str:
    listed, counts = release.listed(), release.counts
    if listed is None:
        return "withheld"
    return ", ".join(printable(item) + ("" if counts is None else f" ({counts[item]:,})") for item in listed)


def _order(ordered: bool) -> str:
    return "in their released order" if ordered else "in item order, not by rank"


def headline(release: Release) -> str:
    """Say in one line what came out."""
    if release.items is None:
        where = f"the set at k = {release.k}" if release.k else "the set"
        return f"Withheld: {where} did not pass the stability test, so no item is shown."
    shown = len(release.items)
    fewer = "" if shown == release.k else f" ({shown} of them)"
    return f"The top {release.k}{fewer}, {_order(isinstance(release.items, tuple))}"


def percent(value: float) -> str:
    """Print one decimal, rounded up: what is used is never shown as less."""
    return f"{math.ceil(round(10 * value, 6)) / 10:.1f} %"


def account_facts(account: Mapping[str, Any]) -> dict[str, str]:
    """Return an account (`Account.to_dict()`) as names and values for a person."""
    budget, limits, used = account["budget"], account["filter"], account["used_percent"]
    unit = f", as named by {printable(account['unit'])}" if account["unit"] else ""
    facts = {
        "dataset": f"{printable(account['dataset'])} ({account['state']}), owned by {printable(account['owner'])}",
        "budget": f"epsilon = {budget['epsilon']:.6g}, delta = {budget['delta']:.3g}",
        "used": f"{percent(used['rdp'])} of the Rényi limit, {percent(used['delta'])} of the delta limit",
        "left": f"{account['remaining_releases']} of {budget['releases']} releases of the usual kind"
        if account["closed"] is None
        else "nothing: closed for good",
        "protects": account["protects"] + unit,
        "filter": f"order = {limits['order']:.4g}, rdp = {limits['rdp']:.4g}, delta = {limits['delta']:.3g}",
        "entries": f"{account['entries']:,}",
    }
    for analyst in account["analysts"]:
        share = analyst["used_percent"]
        said = "no limit of their own" if share is None else f"{percent(max(share.values()))} of their limit used"
        facts[f"analyst {printable(analyst['analyst'])}"] = said
    return facts | {"guarantee": account["guarantee"]}


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
