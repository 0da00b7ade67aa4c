r"""``cutline plan``: what gap each mechanism would need, and which one to take; no data, nothing spent."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from cutline.cli import options as o
from cutline.cli.door import deliver, guarded

if TYPE_CHECKING:
    from rich.table import Table

    from cutline.mechanisms.epsilons import Wanted
    from cutline.mechanisms.planning import Plan

_BAR = 8  # characters of a whole bar of a figure in the terminal

Prior = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="A PUBLIC list of items and counts, like last year's: CSV, parquet or JSON. Never the private counts.",
    ),
]
PriorItem = Annotated[str | None, typer.Option(metavar="COL", help="The prior's column of items, if not obvious.")]
PriorCount = Annotated[str | None, typer.Option(metavar="COL", help="The prior's column of counts, if not obvious.")]
Want = Annotated[
    float | None,
    typer.Option(metavar="SHARE", help="Search the smallest epsilon that finds this share of the true top, like 0.9."),
]
Redraw = Annotated[
    bool, typer.Option("--redraw", help="Expect logs whose counts vary around the public ones, not exactly these.")
]
OnlyMechanism = Annotated[
    str | None,
    typer.Option("--mechanism", metavar="NAME", help="Plan for this one alone.  [default: all that can run]"),
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
    mechanism: OnlyMechanism = None,
    prior: Prior = None,
    prior_item: PriorItem = None,
    prior_count: PriorCount = None,
    want: Want = None,
    redraw: Redraw = False,
    accounting: o.Accounting = None,
    plot: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Also draw a figure: .png or .svg, or - for this terminal."),
    ] = None,
    as_json: o.AsJson = False,
) -> None:
    """Compare the mechanisms at a budget, and say which epsilon is enough, before anything is spent.

    The gap needed is the smallest single gap, all others being 0, at which exactly the right set goes out with
    probability 0.5 or 0.95. Few logs have one gap alone, so a plan also says how many items to expect: on a public prior
    (last year's published counts), or on long tails without one. With a prior, recall and the length of the list are
    shown against epsilon. Never pass the private counts here.

    \b
    Example:
      cutline plan --epsilon 1 --releases 100
      cutline plan --k 10 --domain open
      cutline plan --k 10 --prior published-2025.csv --plot plan.png
      cutline plan --k 10 --prior published-2025.csv --want 0.9 --redraw
    """  # noqa: D301 - \b is the mark for lines that help must not refill
    from cutline.api import plan as compare
    from cutline.cli.files import check_plot
    from cutline.cli.show import counting
    from cutline.mechanisms.epsilons import EPSILONS
    from cutline.privacy import Budget

    if plot is not None:
        check_plot(plot, as_json=as_json)
    budget = Budget(epsilon=epsilon, delta=delta, releases=releases)
    tried = {*EPSILONS, epsilon} if prior is not None or plot is not None else ()
    with counting("Calibrating and trying the mechanisms") as progress:
        found = compare(
            budget,
            adjacency=adjacency,
            k=k,
            max_k=max_k,
            max_items_per_user=max_items_per_user,
            domain=domain,
            prior=prior,
            prior_item=prior_item,
            prior_count=prior_count,
            accounting=accounting,
            mechanism=mechanism,
            epsilons=sorted(tried),
            want=want,
            redraw=redraw,
            progress=progress,
        )

    def draw(path: Path) -> None:
        from cutline.plan_figure import plot_plan

        plot_plan(found, path)

    in_terminal = str(plot) == "-"

    def show() -> None:
        _print(found)
        if in_terminal:
            _print_figure(found)

    deliver(found.to_dict(), show, as_json=as_json, plot=None if in_terminal else plot, draw=draw)


def _print(found: Plan) -> None:
    from rich.table import Table

    from cutline.cli.cost import in_words
    from cutline.cli.show import print_facts, print_titled, results, where

    console = results()
    table = Table()
    table.add_column("mechanism", no_wrap=True)
    table.add_column("domain")
    table.add_column("gap for 50 %", justify="right")
    table.add_column("gap for 95 %", justify="right")
    table.add_column("items to expect", justify="right")
    on_prior = found.recommended.recall is not None
    finds_k = on_prior and found.k is None
    for name, shown in (("recall", on_prior), ("k", finds_k)):
        if shown:
            table.add_column(name, justify="right")
    for option in found.options:
        more = [] if not on_prior else [_number(option.recall, ".3f")]
        more += [_number(option.expected_k, ".1f")] if finds_k else []
        style = "bold" if option is found.recommended else None
        gaps = in_words(option.gap_50), in_words(option.gap_95)
        items = _number(option.expected_items, ".1f")
        items += "" if found.k is None or option.expected_items is None else f" of {found.k}"
        table.add_row(_named(option.title), where(option.domains), *gaps, items, *more, style=style)
    budget = found.budget
    times = "1 release" if budget.releases == 1 else f"{budget.releases} releases together"
    print_titled(console, f"{times}, epsilon = {budget.epsilon:.4g}, delta = {budget.delta:.3g}", table)
    for log in dict.fromkeys(curve.log for curve in found.curves):
        print_titled(console, _curve_title(found, log), _curve_table(found, log))
    facts = {"take": _choice(found)}
    facts |= {f"for {wanted.want:.3g}" + _on(wanted.log): _enough(wanted) for wanted in found.wanted}
    left_out = _left_out(found)
    facts |= {"left out": left_out} if left_out else {}
    print_facts(console, facts | {"assumes": found.assumption, "protects": found.adjacency.protects})


def _print_figure(found: Plan) -> None:
    """Print recall and the length of the list against epsilon as bars of text."""
    from cutline.cli.show import results

    console = results()
    block = "#" if console.options.ascii_only else "█"
    most = max((each.items for curve in found.curves for _, each in curve.points), default=1.0) or 1.0
    named = max(len(curve.title) for curve in found.curves)
    for log in dict.fromkeys(curve.log for curve in found.curves):
        curves = [curve for curve in found.curves if curve.log == log]
        heads = "".join(f"{epsilon:<{_BAR + 1}.4g}" for epsilon, _ in curves[0].points)
        for title, whole in ((f"Recall, {_BAR * block} is 100 %", 1.0), (f"Items, {_BAR * block} is {most:.1f}", most)):
            console.print(f"\n{title}{_on(log)}", style="bold")
            console.print(f"{'epsilon':<{named}} │{heads}".rstrip(), soft_wrap=True)
            for curve in curves:
                shares = [
                    (each.recall if title.startswith("Recall") else each.items / whole) for _, each in curve.points
                ]
                bars = "".join(f"{block * round(_BAR * share):<{_BAR + 1}}" for share in shares)
                console.print(f"{curve.title:<{named}} │{bars}".rstrip(), soft_wrap=True)


def _number(value: float | None, form: str) -> str:
    return "-" if value is None else f"{value:{form}}"


def _named(title: str) -> str:
    """Return a mechanism on one line and its parameters below: a name stays whole on a narrow terminal."""
    return title.replace(" ", "\n")


def _on(log: str) -> str:
    return "" if log == "prior" else f", {log}"


def _curve_title(found: Plan, log: str) -> str:
    shown = "items that go out), and where they end" if found.k is None else f"items that go out, of {found.k})"
    where = "the prior" if log == "prior" else f"the example shape {log!r}"
    return f"Recall ({shown}, against epsilon on {where}"


def _curve_table(found: Plan, log: str) -> Table:
    """Return a row per mechanism and a column per epsilon."""
    from rich.table import Table

    from cutline.mechanisms.expectations import HARDLY_ANY

    curves = [curve for curve in found.curves if curve.log == log]
    table = Table()
    table.add_column("mechanism", no_wrap=True)
    for epsilon, _ in curves[0].points:
        table.add_column(f"{epsilon:.4g}", justify="right")
    for curve in curves:
        cells = [f"{each.recall:.2f} ({each.items:.1f})" for _, each in curve.points]
        if found.k is None:
            cuts = [each.k if each.items >= HARDLY_ANY else None for _, each in curve.points]
            cells = [cell if k is None else f"{cell} k={k:.1f}" for cell, k in zip(cells, cuts, strict=True)]
        table.add_row(_named(curve.title), *cells)
    return table


def _enough(wanted: Wanted) -> str:
    """Say which epsilon is enough."""
    from cutline.mechanisms.epsilons import LARGEST

    if wanted.epsilon is None or wanted.expected is None:
        return f"no epsilon up to {LARGEST:.0f} is enough"
    how = "by the exact law" if wanted.expected.exact else f"+- {2 * wanted.expected.error:.3f} over seeded draws"
    recall = f"expected recall {wanted.expected.recall:.3f} ({how})"
    return (
        f"epsilon = {wanted.epsilon:.3g} with {_title(wanted)}: {recall}, {wanted.expected.items:.1f} items in the mean"
    )


def _title(wanted: Wanted) -> str:
    return " ".join([str(wanted.mechanism), *(f"{name}={value}" for name, value in (wanted.parameters or {}).items())])


def _left_out(found: Plan) -> str:
    """Name the mechanisms that were not compared, by their reason; that some find k and others are told it goes without."""
    reasons: dict[str, list[str]] = {}
    for name, reason in found.left_out.items():
        if not reason.endswith(("give k", "leave k out")):
            reasons.setdefault(reason, []).append(name)
    return "; ".join(f"{', '.join(names)}: {reason}" for reason, names in reasons.items())


def _choice(found: Plan) -> str:
    """Name the recommended mechanism; two, if the best of all needs the candidates listed."""
    best, opened = found.recommended, found.recommended_on("open")
    if "open" in best.domains or opened is None or found.domain == "closed":
        return best.title
    return f"{best.title} if the candidates are listed, {opened.title} otherwise"
