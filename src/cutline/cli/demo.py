r"""``cutline demo``: the whole way on made-up check-ins, with the truth beside it."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cutline.cli import options as o
from cutline.cli.door import deliver, guarded, printable

if TYPE_CHECKING:
    from cutline.histogram import OpenHistogram
    from cutline.release import Release

_MAX_K = 100
_ROWS_BELOW = 4  # of the table, under the cut
_BAR = 24


@guarded
def demo(
    plot: o.Plot = None,
    seed: Annotated[
        int | None,
        typer.Option(metavar="N", min=0, help="Other check-ins, and a draw that repeats: a simulation, not a release."),
    ] = None,
    as_json: o.AsJson = False,
) -> None:
    """Release the top venues of made-up check-ins, and compare with the truth.

    \b
    Example:
      cutline demo
      cutline demo --plot demo.png
    """  # noqa: D301 - \b is the mark for lines that help must not refill
    from cutline import api
    from cutline.cli.cost import gap_needed
    from cutline.cli.files import check_plot
    from cutline.cli.show import working
    from cutline.demo import write_checkins
    from cutline.histogram import OpenHistogram
    from cutline.mechanisms.registry import calibrate
    from cutline.privacy import Budget
    from cutline.sampling import SeededSource

    if plot is not None:
        check_plot(plot)
    columns: dict[str, Any] = {"user": "user_id", "item": "venue", "max_k": _MAX_K}
    with (
        tempfile.TemporaryDirectory(prefix="cutline-demo-") as folder,
        working("Making up check-ins, counting, releasing"),
    ):
        log = Path(folder) / "checkins.parquet"
        write_checkins(log, seed=seed or 0)
        release = api.top(log, **columns, rng=None if seed is None else SeededSource(seed))
        counts = api.count(log, **columns)
    assert isinstance(counts, OpenHistogram)  # noqa: S101 - for the type checker; no candidates were given
    budget = release.budget or Budget(epsilon=1.0, delta=1e-6)
    needed = {
        form: gap_needed(calibrate("stable-top-k", budget, max_k=_MAX_K, test=test), max_k=_MAX_K)
        for form, test in (("ours", None), ("paper", "paper"))
    }
    true_k = _true_cut(counts)
    truth = {"true_k": true_k, "true_items": sorted(map(str, counts.top(true_k)))}

    def draw(path: Path) -> None:
        from cutline.plots import plot_demo

        plot_demo(counts, release, path)

    deliver(
        release.to_dict() | truth | {"one_gap": needed["ours"], "one_gap_paper": needed["paper"]},
        lambda: _print(counts, release, needed),
        as_json=as_json,
        plot=plot,
        draw=draw,
    )


def _true_cut(counts: OpenHistogram) -> int:
    """Return the k with the largest gap."""
    return int(counts.gaps(counts.max_k).argmax()) + 1


def _print(counts: OpenHistogram, release: Release, needed: dict[str, int | None]) -> None:
    from rich.table import Table

    from cutline.cli.cost import in_words
    from cutline.cli.show import headline, print_facts, print_titled, results

    console = results()
    true_k = _true_cut(counts)
    block = "#" if console.options.ascii_only else "█"
    table = Table()
    table.add_column("rank", justify="right")
    table.add_column("venue")
    table.add_column("users", justify="right")
    table.add_column("")
    table.add_column("released")
    released = release.items or ()
    for rank, venue in enumerate(counts.top(max(true_k, release.k) + _ROWS_BELOW), 1):
        users = int(counts.counts[rank - 1])
        table.add_row(
            str(rank),
            printable(venue),
            f"{users:,}",
            block * round(_BAR * users / max(1, int(counts.counts[0]))),
            "yes" if venue in released else "",
            style="bold" if venue in released else "dim",
            end_section=rank == true_k,
        )
    print_titled(console, "Distinct users per venue: the truth, shown because the data are made up", table)
    if not release.released:
        answer = headline(release)
    elif release.items == frozenset(counts.top(true_k)):
        answer = f"k = {release.k}, exactly the true top {true_k}"
    else:
        answer = f"k = {release.k}, not where the largest gap is"
    gap = int(counts.gaps(true_k)[-1])
    print_facts(
        console,
        {
            "true cut": f"k = {true_k}, where the largest gap is: {gap} users",
            "private cut": answer,
            "one-gap number": f"{in_words(needed['ours'])}: a lone gap of this size is found 9 times in 10 "
            f"(the paper's mechanism at this budget: {in_words(needed['paper'])})",
            "guarantee": release.guarantee,
        },
    )
