r"""``cutline top``: a log in, a private top set out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cutline.cli import options as o
from cutline.cli.door import guarded, print_json


@guarded
def top(
    log: Annotated[
        str, typer.Argument(metavar="LOG", help="A parquet, CSV or JSON file, or a quoted pattern of them.")
    ],
    user: Annotated[str, typer.Option(metavar="COL", help="The column that says who.")],
    item: Annotated[str, typer.Option(metavar="COL", help="The column that says what.")],
    epsilon: o.Epsilon = 1.0,
    delta: o.Delta = 1e-6,
    releases: o.Releases = 1,
    k: o.K = None,
    max_k: o.MaxK = None,
    min_k: o.MinK = None,
    target: o.Target = None,
    weight: o.Weight = None,
    clip: o.Clip = None,
    choose: o.Choose = None,
    test: o.GapTest = None,
    mechanism: o.Mechanism = None,
    candidates: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="All items there can be: a text file with one per line, or a .json list (numbers stay numbers).",
        ),
    ] = None,
    adjacency: o.Adjacency = o.Relation.ADD_REMOVE,
    counts: Annotated[bool, typer.Option("--counts", help="Also release noisy counts of the set, at a price.")] = False,
    where: Annotated[
        str | None, typer.Option(metavar="SQL", help="A condition on one row; other rows are left out.")
    ] = None,
    memory_limit: Annotated[
        str | None, typer.Option(metavar="SIZE", help="Spill to disk above this, like 1GB.")
    ] = None,
    plot: o.Plot = None,
    as_json: o.AsJson = False,
) -> None:
    """Release the top items of a log, or withhold them.

    \b
    Example:
      cutline top checkins.parquet --user user_id --item venue
      cutline top checkins.parquet --user user_id --item venue --k 10 --counts
      cutline top 'logs/*.csv' --user who --item page --where "country = 'FR'" --json
    """  # noqa: D301 - \b is the mark for lines that help must not refill
    from cutline import api
    from cutline.cli.files import check_plot, read_candidates
    from cutline.cli.show import print_release, release_dict, talk, working

    check_plot(plot)
    listed = None if candidates is None else read_candidates(candidates)
    with working("Counting distinct users per item"):
        release = api.top(
            log,
            user=user,
            item=item,
            epsilon=epsilon,
            delta=delta,
            releases=releases,
            k=k,
            max_k=max_k,
            mechanism=mechanism,
            adjacency=str(adjacency),
            candidates=listed,
            counts=counts,
            where=where,
            memory_limit=memory_limit,
            **o.given(min_k=min_k, target=target, weight=weight, clip=clip, choose=choose, test=test),
        )
    if as_json:
        print_json(release_dict(release))
    else:
        print_release(release, header=item)
    if plot is not None:
        from cutline.plots import plot_release

        plot_release(release, plot)
        talk().print(f"Figure written to {plot}", soft_wrap=True)
