r"""``cutline plan-labels``: what PATE would need, before a teacher is trained; no private data, nothing spent."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cutline.cli import options as o
from cutline.cli.door import deliver, guarded

if TYPE_CHECKING:
    from cutline.pate.planning import LabelOption, LabelPlan

_SHOWN = 4  # settings an epsilon


@guarded
def plan_labels(
    records: Annotated[int, typer.Option(metavar="N", help="About how many private records there are; public.")],
    labels: Annotated[int, typer.Option(metavar="N", help="How many labels there are.")],
    classes: Annotated[
        bool, typer.Option("--classes", help="A record has exactly one of the labels: its class.")
    ] = False,
    epsilon: Annotated[
        list[float],
        typer.Option("--epsilon", metavar="E", help="Total epsilon of all queries. May be given several times."),
    ] = [1.0, 2.0, 4.0, 8.0],  # noqa: B006
    delta: o.Delta = 1e-6,
    teachers: Annotated[
        list[int], typer.Option("--teachers", metavar="N", help="How many teachers. May be given several times.")
    ] = [50, 100, 250, 500],  # noqa: B006
    queries: Annotated[
        list[int],
        typer.Option("--queries", metavar="N", help="How many public examples to label. May be given several times."),
    ] = [100],  # noqa: B006
    limit: Annotated[
        list[int] | None,
        typer.Option("--limit", metavar="N", help="Cut ballots to their N surest labels. May be given several times."),
    ] = None,
    quorum: Annotated[
        list[float] | None,
        typer.Option(
            "--quorum", metavar="SHARE", help="Share that must say yes, like 0.25. May be given several times."
        ),
    ] = None,
    examples: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="PUBLIC examples like the private records: an .npz file with X and y. Never private ones.",
        ),
    ] = None,
    adjacency: Annotated[
        o.Relation, typer.Option(help="What may change: a ballot in any way, or its being there.")
    ] = "replace",
    as_json: o.AsJson = False,
) -> None:
    """Compare settings of PATE before a teacher is trained: epsilon, teachers, queries, ballot limit and quorum.

    From public numbers alone it says how clear a majority must be: the share of teachers that must say yes for a label to come
    out set 19 times in 20. With public examples that are labelled it also says how many labels would come out right, with
    logistic regression as the teacher; the library takes any.

    \b
    Example:
      cutline plan-labels --records 100000 --labels 40 --limit 5
      cutline plan-labels --records 60000 --labels 10 --classes --epsilon 2 --teachers 250 --queries 500
      cutline plan-labels --records 20000 --labels 6 --examples public.npz --quorum 0.5 --quorum 0.25
    """  # noqa: D301 - \b is the mark for lines that help must not refill
    from cutline.cli.ballots import read_examples
    from cutline.cli.show import working
    from cutline.pate.planning import plan_labels as compare

    known = None if examples is None else read_examples(examples)
    with working("Calibrating, and training on public examples"):
        found = compare(
            records=records,
            labels=labels,
            classes=classes,
            epsilons=epsilon,
            teachers=teachers,
            queries=queries,
            limits=(None, *(limit or ())),
            quorums=quorum or (0.5,),
            delta=delta,
            adjacency=adjacency,
            examples=known,
        )
    deliver(found.to_dict(), lambda: _print(found), as_json=as_json)


def _print(found: LabelPlan) -> None:
    from cutline.cli.show import print_facts, print_table, results

    tried = sorted({option.queries for option in found.options})
    # What does not vary needs no column: a terminal is narrow.
    columns = [
        name
        for name in ("epsilon", "teachers", "records each", "queries", "limit", "quorum", "clear", "right", "F1")
        if not (name == "queries" and len(tried) == 1)
        and not (name == "limit" and {option.limit for option in found.options} == {None})
        and not (name == "quorum" and {option.quorum for option in found.options} <= {None, 0.5})
        and not (name == "F1" and found.classes)
        and not (name in ("right", "F1") and found.recommended.f1 is None)
    ]
    epsilons = sorted({option.epsilon for option in found.options})
    shown = [option for each in epsilons for option in [o for o in found.options if o.epsilon == each][:_SHOWN]]
    queries = f"{tried[0]} queries, " if len(tried) == 1 else ""
    what = "classes" if found.classes else "labels"
    title = f"{found.records:,} records, {found.labels} {what}, {queries}delta = {found.delta:.3g}"
    print_table(title, columns, [[_cell(option, name) for name in columns] for option in shown])
    tested = found.recommended.f1 is not None
    order = "the best on the public examples first" if tested else "the least clear majority first"
    sure = "class comes out against one rival" if found.classes else "label comes out set"
    facts = {"clear": f"the share of teachers at which a {sure} 19 times in 20; - if all of them are too few"}
    if tested:
        measure = "" if found.classes else "; F1 is that of the labels that are set"
        facts["right"] = f"the share of {what} expected to come out right on the public examples{measure}"
    if len(shown) < len(found.options):
        facts["shown"] = f"for every epsilon {_SHOWN} settings, {order}; --json has all {len(found.options)}"
    if found.public_alone is not None:
        score = "right" if found.classes else "F1"
        facts["without PATE"] = f"{score} {found.public_alone:.2f} from the public examples alone"
    facts |= {"mind": " ".join(found.advice)} if found.advice else {}
    print_facts(results(), facts | {"protects": found.adjacency.protects})


def _cell(option: LabelOption, name: str) -> str:
    value = option.to_dict()[name.lower().replace(" ", "_")]
    return (
        "-"
        if value is None
        else f"{value:.0%}"
        if name == "clear"
        else f"{value:.3g}"
        if name in ("right", "F1")
        else f"{value:g}"
    )
