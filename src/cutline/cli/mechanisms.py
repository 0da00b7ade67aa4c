r"""``cutline mechanisms``: the registry."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cutline.cli import options as o
from cutline.cli.door import guarded, print_json

if TYPE_CHECKING:
    from cutline.mechanisms import Mechanism


@guarded
def mechanisms(as_json: o.AsJson = False) -> None:
    """List the mechanisms that can be asked for by name.

    \b
    Example:
      cutline mechanisms
      cutline top log.parquet --user who --item page --mechanism limited-domain --k 10
    """  # noqa: D301 - \b is the mark for lines that help must not refill
    from rich import box
    from rich.table import Table

    from cutline.cli.show import print_titled, results, where
    from cutline.mechanisms import MECHANISMS

    rows = [_row(kind) for kind in MECHANISMS]
    if as_json:
        print_json({"mechanisms": rows})
        return
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    for heading in ("name", "k", "domain", "items", "cost", "reference"):
        table.add_column(heading, no_wrap=heading != "cost")
    for row in rows:
        items = "list" if row["ordered"] else "set"
        table.add_row(row["name"], row["k"], where(row["domains"]), items, row["cost_rule"], row["reference"])
    print_titled(results(), "Mechanisms, each for either adjacency relation", table)


def _row(kind: type[Mechanism]) -> dict[str, Any]:
    return {
        "name": kind.name,
        "k": "told" if kind.accepts("k") else "found",
        "domains": list(kind.domains),
        "ordered": kind.ordered,
        "adjacency": ["add-remove", "replace"],
        "cost_rule": kind.cost_rule,
        "reference": kind.reference,
        "summary": (kind.__doc__ or "").strip().splitlines()[0],
    }
