r"""``cutline plan``: what gap each mechanism would need, and which one to take; no data, nothing spent."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from cutline.cli import options as o
from cutline.cli.door import guarded, print_json

if TYPE_CHECKING:
    from cutline.mechanisms.planning import Plan

Prior = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help='A PUBLIC histogram as JSON, {"item": count, ...}, to compute expected recall on.'
    ),
]


OnDomain = Annotated[
    Literal["open", "closed"] | None,
    typer.Option(help="Only mechanisms for any items, or for listed candidates.", show_default="both, or the prior's"),
]


@guarded
def plan(
    epsilon: o.Epsilon = 1.0,
    delta: o.Delta = 1e-6,
    releases: o.Releases = 1,
    k: o.K = None,
    max_k: o.MaxK = None,
    max_items_per_user: o.MaxItems = None,
    adjacency: o.Adjacency = "add-remove",
    domain: OnDomain = None,
    prior: Prior = None,
    accounting: o.Accounting = None,
    as_json: o.AsJson = False,
) -> None:
    """Compare the mechanisms at a budget, before anything is spent.

    The gap needed is the smallest single gap, all others being 0, at which exactly the right set goes out with
    probability 0.5 or 0.95. Few logs have one gap alone, so a plan also says how many items to expect: on a public prior
    (last year's published counts), or on long tails without one. Never pass the private counts here.

    \b
    Example:
      cutline plan --epsilon 1 --releases 100
      cutline plan --k 10 --domain open
      cutline plan --epsilon 1 --prior published-2024.json --json
    """  # noqa: D301 - \b is the mark for lines that help must not refill
    from cutline.api import plan as compare
    from cutline.cli.files import read_counts
    from cutline.cli.show import working
    from cutline.privacy import Budget

    budget = Budget(epsilon=epsilon, delta=delta, releases=releases)
    known = None if prior is None else read_counts(prior)
    with working("Calibrating every mechanism"):
        found = compare(
            budget,
            adjacency=adjacency,
            k=k,
            max_k=max_k,
            max_items_per_user=max_items_per_user,
            domain=domain,
            prior=known,
            accounting=accounting,
        )
    if as_json:
        print_json(found.to_dict())
        return
    _print(found)


def _print(found: Plan) -> None:
    from rich.table import Table

    from cutline.cli.cost import in_words
    from cutline.cli.show import print_facts, print_titled, results, where

    console = results()
    table = Table()
    table.add_column("mechanism")
    table.add_column("domain")
    table.add_column("gap for 50 %", justify="right")
    table.add_column("gap for 95 %", justify="right")
    table.add_column("items to expect", justify="right")
    if found.recommended.recall is not None:
        table.add_column("expected recall", justify="right")
    for option in found.options:
        recall = [] if option.recall is None else [f"{option.recall:.3f}"]
        style = "bold" if option is found.recommended else None
        gaps = in_words(option.gap_50), in_words(option.gap_95)
        items = "-" if option.expected_items is None else f"{option.expected_items:.1f}"
        items += "" if found.k is None or option.expected_items is None else f" of {found.k}"
        table.add_row(option.title, where(option.domains), *gaps, items, *recall, style=style)
    budget = found.budget
    times = "1 release" if budget.releases == 1 else f"{budget.releases} releases together"
    print_titled(console, f"{times}, epsilon = {budget.epsilon:.4g}, delta = {budget.delta:.3g}", table)
    print_facts(console, {"take": _choice(found), "assumes": found.assumption, "protects": found.adjacency.protects})


def _choice(found: Plan) -> str:
    """Name the recommended mechanism; two, if the best of all needs the candidates listed."""
    best, opened = found.recommended, found.recommended_on("open")
    if "open" in best.domains or opened is None:
        return best.title
    return f"{best.title} if the candidates are listed, {opened.title} otherwise"
