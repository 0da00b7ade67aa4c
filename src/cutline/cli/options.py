r"""The options that several commands share, so that a word means the same everywhere."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

Relation = Literal["add-remove", "replace"]
Choice = Literal["joint", "em", "argmax", "rnm-gaussian", "rnm-laplace", "permute-and-flip"]
Test = Literal["table", "gaussian", "paper", "laplace"]

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]
Full = Annotated[
    bool, typer.Option("--full", help="With --json: the whole cost, every value of its bit tables included.")
]
Require = Annotated[
    Literal["released", "partial"] | None,
    typer.Option(help="Exit with 3 unless all items went out (released), or any at all (partial)."),
]
Plot = Annotated[Path | None, typer.Option(metavar="FILE", help="Also draw a figure: .png or .svg.")]
PlotOrShow = Annotated[
    Path | None,
    typer.Option("--plot", metavar="FILE", help="Also draw a figure: .png or .svg, or - for this terminal."),
]
Mechanism = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="Which mechanism to take.  [default: stable-top-k; with --k by its size]"),
]
Epsilon = Annotated[float, typer.Option(metavar="E", help="Total epsilon of all releases.")]
Delta = Annotated[float, typer.Option(metavar="D", help="Total delta of all releases.")]
Releases = Annotated[int, typer.Option(metavar="T", help="How many releases of this kind share the budget.")]
AskedEpsilon = Annotated[
    float | None,
    typer.Option(metavar="E", help="Total epsilon of all releases.  [default: 1, with --ledger the dataset's share]"),
]
AskedDelta = Annotated[
    float | None,
    typer.Option(metavar="D", help="Total delta of all releases.  [default: 1e-6, with --ledger the dataset's share]"),
]
Ledger = Annotated[
    str | None, typer.Option(metavar="URL", help="Charge the release to these books; see cutline ledger.")
]
Dataset = Annotated[str | None, typer.Option(metavar="NAME", help="The account in the ledger.")]
Analyst = Annotated[str | None, typer.Option(metavar="NAME", help="Who asks, for the ledger.")]
Share = Annotated[
    str | None, typer.Option(metavar="S", help="Take this share of the dataset's whole budget: 1/20, 0.05 or 5%.")
]
Purpose = Annotated[str | None, typer.Option(metavar="TEXT", help="What the answer is for; the ledger keeps it.")]
DataVersion = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Which data this is, like 2026-11-16: the same question about the same version is answered again, free.",
    ),
]
Fresh = Annotated[bool, typer.Option("--fresh", help="Draw and pay, even if the ledger holds the answer.")]
K = Annotated[int | None, typer.Option("--k", metavar="K", help="How many items to release; without it, k is found.")]
MaxK = Annotated[
    int | None,
    typer.Option(metavar="N", help="How many ranks are looked at.  [default: 100, with --k max(100, 10 k)]"),
]
MaxItems = Annotated[
    int | None,
    typer.Option(
        metavar="D", help="Count each user in at most D items, to find more of a long tail.  [default: in all]"
    ),
]
MinK = Annotated[int | None, typer.Option(metavar="N", help="The smallest cut that can come out.  [default: 1]")]
Target = Annotated[int | None, typer.Option(metavar="K", help="The cut wished for; needs --weight.")]
Weight = Annotated[float | None, typer.Option(metavar="W", help="How much gap one rank away from --target is worth.")]
Clip = Annotated[int | None, typer.Option(metavar="N", help="A gap above this counts as this.")]
Choose = Annotated[Choice | None, typer.Option(help="How the cut is chosen.  [default: what needs the smallest gap]")]
PreferLarger = Annotated[
    bool | None, typer.Option("--prefer-larger", help="Of cuts with large gaps, take larger ones more often.")
]
Accounting = Annotated[
    Literal["renyi", "adaptive"] | None,
    typer.Option(
        help="How a plan is paid for; adaptive is tighter, slower at first and never with a ledger.  [default: renyi]"
    ),
]
GapTest = Annotated[Test | None, typer.Option(help="How its stability is tested.  [default: table]")]
Adjacency = Annotated[
    Relation, typer.Option(help="Who is protected: a user joining or leaving, or a user's rows changing.")
]
Where = Annotated[str | None, typer.Option(metavar="SQL", help="A condition on one row; other rows are left out.")]
MemoryLimit = Annotated[str | None, typer.Option(metavar="SIZE", help="Spill to disk above this, like 1GB.")]
Format = Annotated[
    str | None,
    typer.Option(metavar="FORMAT", help="Of LOG: parquet, csv, tsv, json or jsonl.  [default: by its name]"),
]
