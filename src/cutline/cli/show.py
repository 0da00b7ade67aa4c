r"""How things look: two consoles, and the words for a release.

Consoles take every text literally (no markup, no emoji codes), and items pass through `printable`: a venue called
``[red]`` or one with control characters is shown, not obeyed.
"""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from cutline import __version__
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


def plain(item: object) -> Any:
    """Return the item as JSON can hold it: numbers and truth values as they are, the rest as text."""
    if item is None or isinstance(item, bool | int | str):
        return item
    if isinstance(item, float) and abs(item) < float("inf"):
        return item
    return str(item)


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


def headline(release: Release) -> str:
    """Say in one line what came out."""
    if release.items is None:
        where = f"the set at k = {release.k}" if release.k else "the set"
        return f"Withheld: {where} did not pass the stability test, so no item is shown."
    shown = len(release.items)
    fewer = "" if shown == release.k else f" ({shown} of them)"
    order = "in their released order" if isinstance(release.items, tuple) else "in item order, not by rank"
    return f"The top {release.k}{fewer}, {order}"


def parameters(described: Mapping[str, Any]) -> str:
    """Name a mechanism and its public parameters."""
    return f"{described['name']} ({_in_words({k: v for k, v in described.items() if k not in ('name', 'adjacency')})})"


def _in_words(pairs: Mapping[str, Any]) -> str:
    def word(value: Any) -> str:
        if isinstance(value, Mapping):
            return f"({_in_words(value)})"
        return f"{value:.4g}" if isinstance(value, float) else str(value)

    return ", ".join(f"{k} = {word(v)}" for k, v in pairs.items())


def print_release(release: Release, *, header: str) -> None:
    """Print a release on standard output."""
    console = results()
    listed = release.listed()
    if listed is None:
        console.print(headline(release) + "\n", style="bold")
    else:
        print_titled(console, headline(release), item_table(header, listed, release.counts))
    print_facts(console, {"guarantee": release.guarantee, "mechanism": parameters(release.mechanism)})


def release_dict(release: Release) -> dict[str, Any]:
    """Return the object that ``top --json`` prints."""
    listed, budget = release.listed(), release.budget
    return {
        "released": release.released,
        "items": None if listed is None else [plain(item) for item in listed],
        "ordered": isinstance(release.items, tuple),
        "k": release.k,
        "mechanism": dict(release.mechanism),
        "adjacency": str(release.cost.adjacency),
        "epsilon": budget.epsilon if budget else None,
        "delta": budget.delta if budget else None,
        "releases": budget.releases if budget else None,
        "cost": release.cost.to_dict(),
        "counts": None if release.counts is None else [int(release.counts[item]) for item in listed or ()],
        "guarantee": release.guarantee,
        "seeded": release.seeded,
        "version": __version__,
    }


def where(domains: Sequence[str]) -> str:
    """Return on which domain a mechanism runs, in one word."""
    return domains[0] if len(domains) == 1 else "either"
