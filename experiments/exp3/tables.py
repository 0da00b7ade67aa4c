r"""The tables of EXP3."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from cutline.pate.aggregators.base import moved_labels
from cutline.privacy import Adjacency
from experiments.exp3.ballot_limits import Limited
from experiments.exp3.least_epsilon import CLOSELY
from experiments.exp3.polls import Poll, score
from experiments.exp3.sweeps import PAPERS_TEST, RELATIONS, Found, Wasted, price_by_the_paper
from experiments.exp3.taught_ballots import Lesson
from experiments.report import Cell, Table
from experiments.trials import mean_and_error

Sweep: TypeAlias = Mapping[str, Mapping[Adjacency, Found]]

MEASURES = {"right": "share of all labels that are right", "f1": "micro F1 of the labels set"}
TITLES = {Adjacency.REPLACE: "REPLACE", Adjacency.ADD_REMOVE: "ADD_REMOVE"}


def needed_table(polls: Sequence[Poll], sweeps: Mapping[str, Sweep], targets: Mapping[str, float]) -> Table:
    """Return the epsilon each aggregator needs for equal labels."""
    columns = [f"{poll.title} {TITLES[relation]}" for poll in polls for relation in RELATIONS]
    rows: list[tuple[Cell, ...]] = [
        (line, *(least(sweeps[poll.name][line][relation]) for poll in polls for relation in RELATIONS))
        for line in sweeps[polls[0].name]
    ]
    goals = "; ".join(f"{poll.title}: {MEASURES[poll.measure]}, {targets[poll.name]:.3f}" for poll in polls)
    return Table(
        name="needed",
        title="Epsilon needed for equal labels, delta = 1e-6 for all queries together",
        columns=("aggregator", *columns),
        rows=tuple(rows),
        note=f"The goals: {goals}; where F1 counts, nine tenths of the plain majority's. A missing label is not right and not "
        f"set. Epsilons are searched to {CLOSELY:.1%}. In brackets: what four of five other draws of as many queries need (a "
        'bootstrap over the queries). ">": not reached at the largest epsilon tried; "at most": the smallest one is enough.',
    )


def least(found: Found) -> str:
    """Return the least epsilon as it is printed, with what other queries would need."""
    if found.needed is None:
        return f"> {max(found.scores):g}"
    value = f"at most {found.needed:g}" if found.at_most else f"{found.needed:.2f}"
    return f"{value} ({others(found)})"


def reached(found: Found) -> Cell:
    """Return the least epsilon as a number where it is one."""
    return f"at most {found.needed:g}" if found.at_most else found.needed


def others(found: Found) -> str:
    """Return which epsilons other draws of queries need."""
    if found.between is None:
        raise AssertionError(found.needed)
    low, high = found.between
    first = f"< {min(found.scores):g}" if low == 0 else f"{low:.2f}"
    return f"{first} to {high:.2f}" if high < np.inf else f"{first} to > {max(found.scores):g}"


def other_queries(found: Mapping[Adjacency, Found]) -> str:
    """Return what other draws of queries need, for the table of privacy."""
    ends = [f"{others(one)} {TITLES[relation]}" for relation, one in found.items() if one.needed is not None]
    return f"other queries: {' and '.join(ends)}" if ends else "not reached"


def accounting_table(
    polls: Sequence[Poll],
    sweeps: Mapping[str, Sweep],
    wasted: Mapping[str, Mapping[Adjacency, Wasted]],
    *,
    epsilon: float,
) -> Table:
    """Return what the paper's test makes of a budget by its own accounting, and by its exact cost."""
    rows: list[tuple[Cell, ...]] = []
    for poll in polls:
        for relation in RELATIONS:
            own, found = wasted[poll.name][relation], sweeps[poll.name][PAPERS_TEST][relation]
            rows.append(
                (
                    poll.title,
                    TITLES[relation],
                    own.spent,
                    *(
                        mean_and_error([getattr(each, what) for each in own.scores])
                        for what in ("answered", poll.measure)
                    ),
                    *(mean_and_error(found.values(epsilon, what)) for what in ("answered", poll.measure)),
                    found.needed,
                    None
                    if found.needed is None
                    else price_by_the_paper(poll, epsilon=found.needed, adjacency=relation),
                )
            )
    return Table(
        name="accounting",
        title=f"The paper's test by the paper's own accounting and by its exact cost, epsilon {epsilon:g}",
        keys=2,
        columns=(
            "data", "relation", "part of epsilon it spends, own accounting", "answered, own", "score, own",
            "answered, exact", "score, exact", "epsilon for the goal, exact", "the same, as its own accounting says",
        ),
        rows=tuple(rows),
        note="All other tables hold the exact one. Its own: zCDP with the right conversion, half of delta for the tests. "
        "An empty cell: the goal was not reached.",
    )  # fmt: skip


def sweep_table(poll: Poll, sweep: Sweep, *, trials: int) -> Table:
    """Return the scores at equal epsilon."""
    epsilons = sorted(next(iter(sweep.values()))[RELATIONS[0]].scores)
    rows: list[tuple[Cell, ...]] = []
    for line, found in sweep.items():
        for relation in RELATIONS:
            scores = [mean_and_error(found[relation].values(epsilon, poll.measure)) for epsilon in epsilons]
            rows.append((line, TITLES[relation], *scores))
    plain = score(poll.majority.astype(int), poll.truth)
    nothing = score(np.zeros(poll.truth.shape, int), poll.truth)
    return Table(
        name=f"{poll.name}-labels",
        title=f"{poll.title}: {MEASURES[poll.measure]} at equal epsilon, mean ± standard error of {trials} trials",
        keys=2,
        columns=("aggregator", "relation", *(f"epsilon {epsilon:g}" for epsilon in epsilons)),
        rows=tuple(rows),
        note=f"The plain majority, without privacy: {plain.right:.3f} of all labels right, F1 {plain.f1:.3f}. "
        f"Setting no label at all: {nothing.right:.3f} right, F1 0.",
    )


def answers_table(polls: Sequence[Poll], sweeps: Mapping[str, Sweep], *, epsilon: float) -> Table:
    """Return how many labels go out, and how many of those are right."""
    columns = [f"{what}, {TITLES[relation]}" for relation in RELATIONS for what in ("answered", "right of those")]
    rows: list[tuple[Cell, ...]] = []
    for poll in polls:
        for line, found in sweeps[poll.name].items():
            cells: list[Cell] = []
            for relation in RELATIONS:
                cells.append(mean_and_error(found[relation].values(epsilon, "answered")))
                right = [value for value in found[relation].values(epsilon, "correct") if value == value]
                cells.append(mean_and_error(right) if right else None)
            rows.append((poll.title, line, *cells))
    return Table(
        name="answers",
        title=f"How many labels go out at epsilon {epsilon:g}, and how many of those are right",
        keys=2,
        columns=("data", "aggregator", *columns),
        rows=tuple(rows),
        note="An empty cell: no label went out.",
    )


def limits_table(polls: Sequence[Poll], limits: Mapping[str, Mapping[int | None, Limited]], *, epsilon: float) -> Table:
    """Return what a ballot limit buys."""
    rows: list[tuple[Cell, ...]] = []
    for poll in polls:
        labels = poll.truth.shape[1]
        for tau, found in limits[poll.name].items():
            moved = " / ".join(str(moved_labels(labels, tau, relation)) for relation in RELATIONS)
            scores = [mean_and_error(of[relation]) for of in (found.optimal, found.gaussian) for relation in RELATIONS]
            rows.append((poll.title, "none" if tau is None else str(tau), moved, found.majority, *scores))
    names = [f"{name} {TITLES[relation]}" for name in ("OptimalVote", "PATE-tau") for relation in RELATIONS]
    return Table(
        name="limits",
        title=f"What a ballot limit buys at epsilon {epsilon:g}",
        keys=2,
        columns=("data", "limit", "labels paid for", "plain majority", *names),
        rows=tuple(rows),
        note="Scores are those of the other tables: CelebA's is the share of all labels that are right, the others' is F1. "
        "Labels paid for: under REPLACE / ADD_REMOVE. Without a limit PATE-tau is PATE-Gaussian.",
    )


def student_table(
    lessons: Sequence[Lesson], students: Mapping[str, Mapping[str | None, Any]], *, epsilons: Sequence[float]
) -> Table:
    """Return how good students are on examples that nobody has seen."""
    columns = [f"{TITLES[relation]} {epsilon:g}" for relation in RELATIONS for epsilon in epsilons]
    rows: list[tuple[Cell, ...]] = []
    notes = []
    for lesson in lessons:
        title, found = lesson.poll.title, students[lesson.poll.name]
        for line, scores in found.items():
            if line is not None:
                keys = [(relation, epsilon) for relation in RELATIONS for epsilon in epsilons]
                rows.append((title, line, *(mean_and_error([each.f1 for each in scores[key]]) for key in keys)))
        plain = {what: each[0] for what, each in found[None].items()}
        notes.append(
            f"{title}, without privacy: a student of the plain majority F1 {plain['majority'].f1:.3f}, of the true "
            f"labels of the same examples {plain['truth'].f1:.3f}, a classifier of all private records "
            f"{plain['everything'].f1:.3f}; {len(lesson.truth):,} test examples."
        )
    return Table(
        name="students",
        title="Micro F1 of the student on unseen examples, by relation and epsilon",
        keys=2,
        columns=("data", "aggregator", *columns),
        rows=tuple(rows),
        note=" ".join(notes),
    )
