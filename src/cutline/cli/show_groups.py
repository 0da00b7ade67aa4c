r"""How a table of releases looks, one row per group; and as JSON."""

from __future__ import annotations

from typing import Any

from rich.table import Table

from cutline import __version__
from cutline.cli.show import parameters, plain, print_facts, print_titled, printable, release_dict, results
from cutline.grouped import GroupedRelease
from cutline.release import Release


def print_grouped(grouped: GroupedRelease, *, header: str) -> None:
    """Print the releases of all groups on standard output, under the one guarantee of the whole table."""
    console = results()
    first = next(iter(grouped.releases.values()))
    table = Table()
    table.add_column(printable(grouped.by), overflow="fold")
    table.add_column("k", justify="right")
    table.add_column(f"{printable(header)}{' (users, noisy)' if _counted(grouped) else ''}", overflow="fold")
    for group, release in grouped.releases.items():
        table.add_row(printable(group), str(release.k) if release.k else "", _items(release))
    print_titled(console, _headline(grouped), table)
    print_facts(console, {"guarantee": grouped.guarantee, "mechanism": parameters(first.mechanism)})


def grouped_dict(grouped: GroupedRelease) -> dict[str, Any]:
    """Return the object that ``top --by --json`` prints; each group's entry states the guarantee of the whole table."""
    whole = grouped.to_dict()
    shared = {"releases": whole["releases"], "guarantee": whole["guarantee"]}
    return {
        "groups": {str(plain(group)): release_dict(release) | shared for group, release in grouped.releases.items()},
        **whole,
        "version": __version__,
    }


def _headline(grouped: GroupedRelease) -> str:
    shown = sum(release.released for release in grouped.releases.values())
    ordered = any(isinstance(release.items, tuple) for release in grouped.releases.values())
    order = "in their released order" if ordered else "in item order, not by rank"
    return f"The top by {printable(grouped.by)}: {shown} of {len(grouped.releases)} released, {order}"


def _counted(grouped: GroupedRelease) -> bool:
    return any(release.counts is not None for release in grouped.releases.values())


def _items(release: Release) -> str:
    listed = release.listed()
    if listed is None:
        return "withheld"
    counts = release.counts
    return ", ".join(printable(item) + ("" if counts is None else f" ({counts[item]:,})") for item in listed)
