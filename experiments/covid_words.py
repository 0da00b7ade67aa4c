r"""What the pages of EXP2a say: sentences made from the results, so that none can contradict its own table."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from cutline.arrays import IntArray
from experiments.report import Estimate

Results = Mapping[str, Mapping[str, Estimate]]  # recall by block and mechanism
_IN_THE_PAPER = ("EM-CDP (paper)", "Top Stable", "Limited Domain", "StableTopK (paper)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """Which cases are counted, and what that means for the day before a block, which the plan sees."""

    what: str
    rule: str
    day_before: str


DAILY = Counts(
    what="daily new cases",
    rule=" Negative differences of the cumulative file count as 0.",
    day_before="published by then, and other people's cases than those of the ten days",
)
CUMULATIVE = Counts(
    what="cumulative cases",
    rule="",
    day_before="taken as published: they hold the same people as the ten days, so they are not outside what is protected, and "
    "a plan like this is private only where that day is public anyway",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stability:
    """What became of the stability tests of one mechanism in one block."""

    passed: float  # the share of the releases
    cut: int | None  # the typical cut where one passed

    def __str__(self) -> str:
        return f"{self.passed:.1%}" + ("" if self.cut is None else f" at {self.cut}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Bars:
    """What public parameters say must be seen."""

    gap: int  # at k, for test-first to pass its first test nine times in ten
    bottom: int  # the count at which a state weighs as much as Limited Domain's bottom element


def what_was_run(counts: Counts, *, k: int, start: object) -> str:
    """Say what was run."""
    return (
        f"**What was run.** The {k} states with the most cases, by {counts.what}, are released on each of ten days; the ten "
        f"releases together are (0.1, 1e-6)-DP for one person joining or leaving. There are four blocks of ten days from "
        f"{start}. One trial is the recall averaged over the ten days of a block, with exact draws. A state that ties with the "
        f"fifteenth counts as found.{counts.rule}"
    )


def mechanisms(counts: Counts) -> str:
    """Say what the rows are."""
    return (
        "**The mechanisms.** *EM-CDP (paper)*: peeling with zCDP and its textbook conversion, one peel at eps_EM / sqrt(15). "
        "*Peeling EM*: the same mechanism with exact accounting; the difference is accounting alone. *Subset EM*: one draw of "
        "a whole set. *Top Stable* and *Limited Domain*: as published, with the constants that a proof supports; Top Stable "
        "composes by optimal composition, Limited Domain by its Rényi curve. *StableTopK*: a cut near 15 is chosen and "
        "tested, then filled up or cut down by peeling, half of the allowance for each; *(paper)* with the paper's Gaussian "
        "test, *(bit table)* with ours. *Test-first*: 5 % of the allowance tests the gap at 15 itself, and half as much a "
        "largest gap a little under 15; the rest buys the selection of what no test released. *Plan's choice*: the mechanism "
        "that `cutline plan` recommends, with the draws of its own row. The plan sees k, the number of states, the budget, and "
        f"as its prior the counts of the day before the block, {counts.day_before}."
    )


PRINTED = (
    "**What the paper printed.** A figure without numbers. It says that EM-CDP is best in all four blocks, that StableTopK and "
    "Top Stable are worse and come closer once the gaps are large, and that Limited Domain is worst."
)
GENERATED = (
    "**Why it differs.** These data are generated, so rows compare with one another and not with the paper. Give the data "
    "directory to run on the published cases."
)


def why(
    results: Results, tests: Mapping[str, Sequence[Stability]], blocks: Mapping[str, IntArray], bars: Bars, *, k: int
) -> str:
    """Say what came out, beside what the paper says, and where it comes from."""
    ranked = [np.sort(days, axis=1)[:, ::-1] for days in blocks.values()]
    gaps = [int(np.median(days[:, k - 1] - days[:, k])) for days in ranked]
    counts = [int(np.median(days[:, k - 1])) for days in ranked]
    return (
        "**What came out, and why.** "
        f"Of the paper's own four, {leaders(results, among=_IN_THE_PAPER)}; of all rows, {leaders(results)}. "
        f"{compared(results, 'peeling EM', 'EM-CDP (paper)')}: one mechanism at one guarantee; only the accounting differs. "
        f"Test-first passes its test at {k} nine times in ten if the gap there is {bars.gap:,} cases; the median gap is "
        f"{_listed(f'{gap:,}' for gap in gaps)} in the four blocks, and one of its tests passes in "
        f"{_listed(f'{one.passed:.1%}' for one in tests['test-first'])} of the releases. "
        f"{compared(results, 'test-first', 'peeling EM')}. {compared(results, 'subset EM', 'peeling EM')}: it draws once "
        f"instead of {k} times, but from all sets of {k} states, and needs a gap at the edge of the set. "
        f"{_chosen_cuts(tests['StableTopK (bit table)'], k=k)} "
        "The paper replaces a failed Top Stable by the exponential mechanism at half the budget; here it stands alone, and "
        f"finds {_listed(_means(results, 'Top Stable'))}. "
        f"A state weighs as much as Limited Domain's bottom element at {bars.bottom:,} cases; the {k}th state has "
        f"{_listed(f'{count:,}' for count in counts)} on the median day, and the mean recall is "
        f"{_listed(_means(results, 'Limited Domain'))}."
    )


def leaders(results: Results, *, among: Sequence[str] | None = None) -> str:
    """Say whose mean is the highest in which blocks.

    Examples
    --------
    >>> found = {"May": {"a": Estimate(0.5, 0.0), "b": Estimate(0.4, 0.0)}}
    >>> found["June"] = {"a": Estimate(0.1, 0.0), "b": Estimate(0.2, 0.0)}
    >>> leaders(found), leaders(found, among=["b"])
    ('a has the highest mean in May and b in June', 'b has the highest mean in every block')
    """
    best: dict[str, list[str]] = {}
    for block, found in results.items():
        best.setdefault(max(among or found, key=lambda name: found[name].mean), []).append(block)
    first, *others = ((name, _blocks(where, results)) for name, where in best.items())
    return _listed(
        [f"{first[0]} has the highest mean in {first[1]}", *(f"{name} in {where}" for name, where in others)]
    )


def compared(results: Results, one: str, other: str) -> str:
    """Say where one mechanism is above another, below it, or within two standard errors of the difference.

    Examples
    --------
    >>> found = {"May": {"a": Estimate(0.5, 0.01), "b": Estimate(0.4, 0.01)}}
    >>> found["June"] = {"a": Estimate(0.1, 0.1), "b": Estimate(0.2, 0.1)}
    >>> compared(found, "a", "b")
    'A is above b in May and level with it (within two standard errors) in June'
    >>> compared({"May": {"a": Estimate(0.5, math.inf), "b": Estimate(0.4, math.inf)}}, "a", "b")
    'One trial cannot tell a from b'
    """
    pairs = {block: (found[one], found[other]) for block, found in results.items()}
    if not all(math.isfinite(estimate.error) for pair in pairs.values() for estimate in pair):
        return f"One trial cannot tell {one} from {other}"
    where: dict[str, list[str]] = {"above {}": [], "below {}": [], "level with {} (within two standard errors)": []}
    above, below, level = where.values()
    for block, (mine, theirs) in pairs.items():
        room = 2 * math.hypot(mine.error, theirs.error)
        apart = mine.mean - theirs.mean
        (above if apart > room else below if apart < -room else level).append(block)
    said = [(words, blocks) for words, blocks in where.items() if blocks]
    parts = [
        f"{words.format('it' if later else other)} in {_blocks(blocks, results)}"
        for later, (words, blocks) in enumerate(said)
    ]
    return f"{one[0].upper()}{one[1:]} is {_listed(parts)}"


def _chosen_cuts(tests: Sequence[Stability], *, k: int) -> str:
    passed = (
        f"StableTopK (bit table) passes its test in {_listed(f'{one.passed:.1%}' for one in tests)} of the releases"
    )
    cuts = sorted({one.cut for one in tests if one.cut is not None})
    if not cuts:
        return f"{passed}."
    where = f"{passed}, at a median cut of {_listed(map(str, cuts), last=' or ')}"
    if max(cuts) > k // 2:
        return f"{where}."
    return f"{where}, far from {k}: half of the allowance has bought that, and the other half selects the rest."


def _means(results: Results, name: str) -> list[str]:
    return [f"{found[name].mean:.3f}" for found in results.values()]


def _blocks(some: Sequence[str], results: Results) -> str:
    return "every block" if len(some) == len(results) else _listed(some)


def _listed(words: Iterable[str], *, last: str = " and ") -> str:
    *first, final = words
    return last.join([", ".join(first), final]) if first else final
