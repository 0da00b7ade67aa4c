r"""OptimalVote for a fixed number of queries: which epsilon a score needs when the plan is paid for by the rule ``adaptive``.

One price of a plan of 24,000 coins takes half a minute, so the search does not go over epsilons: it finds the smallest table
that reaches the target, of the order that calibration would take, and prices that one. ``accounting="adaptive"`` at that
epsilon builds the same table, to the tolerance of its search.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from cutline.pate.aggregators.calibration import planned_shape
from cutline.pate.aggregators.optimal_vote import OptimalVote
from cutline.privacy import Adjacency, BitTable, Budget, largest
from cutline.privacy.rules.adaptive import adaptive
from cutline.privacy.rules.registry import RULES
from cutline.sampling import SeededSource
from experiments.exp3.least_epsilon import CLOSELY
from experiments.exp3.polls import Poll, Score, score
from experiments.exp3.sweeps import DELTA, Found
from experiments.report import Cell, Table
from experiments.trials import mean_and_error

_FARTHEST = 64.0  # times the size that was guessed


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """The smallest table that reaches the target: its order, what it costs by two rules, and its scores in all trials."""

    order: float
    by_adaptive: float
    by_renyi: float
    scores: list[Score]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedCell:
    """OptimalVote on one poll under REPLACE; ``near`` is about the epsilon that will be needed."""

    poll: Poll
    target: float
    trials: int
    near: float

    def __call__(self, seed: int) -> Planned | None:
        """Return what was found; None if the target is not reached."""
        queries, labels = self.poll.truth.shape
        votes, teachers = self.poll.votes[None], self.poll.teachers
        budget = Budget(epsilon=self.near, delta=DELTA, releases=queries)
        order, guess = planned_shape(budget, coins=labels, teachers=teachers)

        def vote(rdp: float) -> OptimalVote:
            table = BitTable.voting(order=order, rdp=rdp, teachers=teachers)
            return OptimalVote(table=table, teachers=teachers, labels=labels, adjacency=Adjacency.REPLACE)

        def scores(rdp: float) -> list[Score]:
            source, ready = SeededSource(seed), vote(rdp)
            return [score(ready.release(votes, rng=source).values, self.poll.truth) for _ in range(self.trials)]

        def reaches(inverse: float) -> bool:
            return float(np.mean([getattr(each, self.poll.measure) for each in scores(1 / inverse)])) >= self.target

        if not reaches(1 / (_FARTHEST * guess)):
            return None
        # Epsilon grows like the square root of a table's size: twice as closely as epsilons are searched elsewhere.
        low, high = 1 / (_FARTHEST * guess), _FARTHEST / guess
        size = 1 / largest(reaches, low=low, high=high, relative=CLOSELY)
        cost = vote(size).cost
        return Planned(
            order=order,
            by_adaptive=adaptive(cost, DELTA, releases=queries),
            by_renyi=RULES["rdp"](queries * cost, DELTA),
            scores=scores(size),
        )


def planned_table(poll: Poll, usual: Found | None, found: Planned | None, *, target: float) -> Table:
    """Return the epsilon of the target by either accounting."""
    rows: list[tuple[Cell, ...]] = []
    if usual is not None:
        rows.append(("renyi, the default", usual.needed, None, None, "the table's own order, searched with epsilon"))
    if found is not None:
        right, balanced = (
            mean_and_error([getattr(each, what) for each in found.scores]) for what in ("right", "balanced")
        )
        how = f"order {found.order:.1f}; by the Rényi rule this table costs {found.by_renyi:.2f}"
        rows.append(("adaptive", found.by_adaptive, right, balanced, how))
    return Table(
        name="planned",
        title=f"{poll.title}: epsilon of OptimalVote for {target:g} of all labels right, REPLACE, by how the plan is paid for",
        columns=("accounting", "epsilon", "right", "balanced accuracy", "how"),
        rows=tuple(rows),
        note=f"{len(poll.truth)} queries, fixed in advance. Either epsilon is searched to {CLOSELY:.1%}.",
    )


def balanced_table(poll: Poll, sweep: Mapping[str, Mapping[Adjacency, Found]], *, epsilon: float) -> Table:
    """Return accuracy beside balanced accuracy: labels that are set count as much as those that are not, though rarer."""
    relations = (Adjacency.REPLACE, Adjacency.ADD_REMOVE)
    rows: list[tuple[Cell, ...]] = [
        (
            line,
            *(
                mean_and_error(found[relation].values(epsilon, what))
                for relation in relations
                for what in ("right", "balanced")
            ),
        )
        for line, found in sweep.items()
    ]
    plain = score(poll.majority.astype(int), poll.truth)
    titles = [f"{what}, {name}" for name in ("REPLACE", "ADD_REMOVE") for what in ("right", "balanced")]
    return Table(
        name="balanced",
        title=f"{poll.title}: share of all labels that are right, and balanced accuracy, at epsilon {epsilon:g}",
        columns=("aggregator", *titles),
        rows=tuple(rows),
        note="Balanced accuracy: the mean of the share of set labels that come out set and the share of unset ones that come "
        f"out unset; a missing label is neither. The plain majority: {plain.right:.3f} right, balanced {plain.balanced:.3f}. "
        "Setting no label at all: balanced 0.5.",
    )
