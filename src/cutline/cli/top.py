r"""``cutline top``: a log in, a private top set out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from typer.core import TyperCommand

from cutline.cli import options as o
from cutline.cli.door import guarded

if TYPE_CHECKING:
    from cutline.ask import Ask
    from cutline.grouped import GroupedRelease
    from cutline.histogram import Item


class TopCommand(TyperCommand):
    """Takes ``--counts`` alone or with the word ``bounded`` after it, and no other word: that may be the log."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Write ``--counts`` with its value in one word, which the parser cannot mistake, and parse."""
        with_value = {name for param in self.params if not getattr(param, "is_flag", True) for name in param.opts}
        left, written = list(args), list[str]()
        while left:
            word = left.pop(0)
            if word == "--counts":
                word = "--counts=bounded" if left[:1] == ["bounded"] and left.pop(0) else "--counts=all"
            # What follows an option with a value is that value, whatever it looks like; after -- there are no options.
            values = len(left) if word == "--" else int(word in with_value)
            written += [word, *left[:values]]
            del left[:values]
        return super().parse_args(ctx, written)


@guarded
def top(
    log: Annotated[
        str, typer.Argument(metavar="LOG", help="A parquet, CSV or JSON file, or a quoted pattern of them.")
    ],
    item: Annotated[str, typer.Option(metavar="COL", help="The column that says what.")],
    user: Annotated[
        str | None,
        typer.Option(metavar="COL", help="The column that says who.  [default: with --ledger the dataset's unit]"),
    ] = None,
    epsilon: o.AskedEpsilon = None,
    delta: o.AskedDelta = None,
    releases: Annotated[
        int | None,
        typer.Option(
            metavar="T",
            help="How many releases of this kind share the budget.  [default: 1, with --ledger the dataset's]",
        ),
    ] = None,
    k: o.K = None,
    max_k: o.MaxK = None,
    max_items_per_user: o.MaxItems = None,
    min_k: o.MinK = None,
    target: o.Target = None,
    weight: o.Weight = None,
    clip: o.Clip = None,
    prefer_larger: o.PreferLarger = None,
    hint: Annotated[
        int | None,
        typer.Option(metavar="K", help="Test this public cut first.  [default: the last cut the ledger saw released]"),
    ] = None,
    no_hint: Annotated[bool, typer.Option("--no-hint", help="Choose the cut anew, whatever the last one was.")] = False,
    choose: o.Choose = None,
    test: o.GapTest = None,
    accounting: o.Accounting = None,
    mechanism: o.Mechanism = None,
    candidates: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="All items there can be: a text file with one per line, or CSV, JSON or parquet; of the type of --item.",
        ),
    ] = None,
    candidates_column: Annotated[
        str | None, typer.Option(metavar="COL", help="The column of --candidates.  [default: the name of --item]")
    ] = None,
    adjacency: Annotated[
        o.Relation | None,
        typer.Option(
            help="Who is protected: a user joining or leaving, or a user's rows changing.  "
            "[default: add-remove, with --ledger the dataset's]"
        ),
    ] = None,
    counts: Annotated[
        Literal["all", "bounded"] | None,
        typer.Option(
            metavar="[bounded]",
            help="Also release noisy counts of the set, at a price: of all users, or, if bounded, of users after the bound of "
            "--max-items-per-user, less noisy.",
        ),
    ] = None,
    bounded_counts: Annotated[bool, typer.Option("--bounded-counts", hidden=True)] = False,  # its older name
    where: o.Where = None,
    by: Annotated[
        str | None, typer.Option(metavar="COL", help="One top set per group of this column; needs --groups.")
    ] = None,
    groups: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="All groups of the table, a public list: a text file with one per line, or CSV, JSON or parquet.",
        ),
    ] = None,
    groups_column: Annotated[
        str | None, typer.Option(metavar="COL", help="The column of --groups.  [default: the name of --by]")
    ] = None,
    max_groups_per_user: Annotated[
        int | None,
        typer.Option(metavar="N", help="Let each user count in at most N groups.  [default: in all, at a price]"),
    ] = None,
    memory_limit: o.MemoryLimit = None,
    format: o.Format = None,
    ledger: o.Ledger = None,
    dataset: o.Dataset = None,
    analyst: o.Analyst = None,
    share: o.Share = None,
    purpose: o.Purpose = None,
    data_version: o.DataVersion = None,
    fresh: o.Fresh = False,
    require: o.Require = None,
    plot: o.PlotOrShow = None,
    as_json: o.AsJson = False,
    full: o.Full = False,
) -> None:
    """Release the top items of a log, or withhold them.

    \b
    Example:
      cutline top checkins.parquet --user user_id --item venue
      cutline top checkins.parquet --user user_id --item venue --k 10 --counts
      cutline top 'logs/*.csv' --user who --item page --where "country = 'FR'" --json
      cutline top checkins.parquet --user user_id --item venue --by day --groups days.txt
      cutline top checkins.parquet --user user_id --item venue --ledger books.db --dataset checkins --share 1/20
    """  # noqa: D301 - \b is the mark for lines that help must not refill
    from cutline.cli.files import check_plot, read_list
    from cutline.cli.show import counting, publish
    from cutline.counting import type_list
    from cutline.errors import UnsettledError
    from cutline.quote import Quote, quote
    from cutline.release import Release

    if plot is not None:
        check_plot(plot, as_json=as_json)
    _check_groups(by, groups, max_groups_per_user)

    def listed(path: Path, what: str, column: str, named: str | None) -> list[Item]:
        return type_list(log, read_list(path, what, column=named, usual=column), column=column, format=format)

    ask: Ask = {
        "user": user,
        "item": item,
        "epsilon": epsilon,
        "delta": delta,
        "releases": releases,
        "k": k,
        "max_k": max_k,
        "max_items_per_user": max_items_per_user,
        "mechanism": mechanism,
        "adjacency": adjacency,
        "candidates": None if candidates is None else listed(candidates, "the candidates", item, candidates_column),
        "counts": "bounded" if bounded_counts or counts == "bounded" else counts is not None,
        "where": where,
        "memory_limit": memory_limit,
        "format": format,
        "ledger": ledger,
        "dataset": dataset,
        "analyst": analyst,
        "share": share,
        "purpose": purpose,
        "data_version": data_version,
        "fresh": fresh,
        "min_k": min_k,
        "target": target,
        "weight": weight,
        "clip": clip,
        "prefer_larger": prefer_larger,
        "hint": False if no_hint else hint,
        "choose": choose,
        "test": test,
        "accounting": accounting,
    }
    asked: Quote[Release] | Quote[GroupedRelease]
    if by is None or groups is None:
        asked = quote(**ask)
    else:
        of_table = listed(groups, "the groups", by, groups_column)
        asked = quote(by=by, groups=of_table, max_groups_per_user=max_groups_per_user, **ask)
    unsettled, by_chance = None, asked.work.say_by_chance()
    with counting("Counting distinct users per item") as progress:
        try:
            answer: object = asked.run(log, progress=progress)
        except UnsettledError as error:  # paid for in full: it is printed, even if the books broke down afterwards
            answer, unsettled = error.release, error
    publish(
        answer,
        header=item,
        ledger=ledger,
        unsettled=unsettled,
        plot=plot,
        as_json=as_json,
        full=full,
        require=require,
        by_chance=by_chance,
    )


def _check_groups(by: str | None, groups: Path | None, most: int | None) -> None:
    """Raise if only one of --by and --groups is given."""
    from cutline.errors import ParameterError

    if by is None and (groups is not None or most is not None):
        raise ParameterError("a table of groups needs the column that names them", "no --by", "Pass --by COL.")
    if by is not None and groups is None:
        raise ParameterError(
            "the groups of a table are listed by you; taken from the log they would tell who is in it",
            f"--by {by} without --groups",
            "List them in a file: --groups days.txt.",
        )
