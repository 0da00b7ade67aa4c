r"""EXP3 of the paper: multi-label PATE. What the setting costs, and what each aggregator makes of the same ballots."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from cutline.privacy import Adjacency
from experiments.datasets import load_celeba
from experiments.exp3 import tables
from experiments.exp3.ballot_limits import LimitCell
from experiments.exp3.celeba_ballots import LIMITS, QUERIES, TEACHERS, simulate
from experiments.exp3.class_rivals import TARGETS, RivalsCell, rivals_table
from experiments.exp3.digits import TEACHERS as TEACHERS_OF_DIGITS
from experiments.exp3.digits import DigitsCell, digits_table
from experiments.exp3.figures import draw_needed, draw_sweep
from experiments.exp3.planned_votes import PlannedCell, balanced_table, planned_table
from experiments.exp3.polls import Poll, score
from experiments.exp3.privacy_table import privacy_table
from experiments.exp3.students import StudentCell
from experiments.exp3.sweeps import LINES, PAPERS_TEST, LineCell, PaperCell
from experiments.exp3.taught_ballots import CLASSES, Class, Lesson, poll_teachers
from experiments.report import Cell, StudyReport
from experiments.trials import Setting, run_cells

NAME = "exp3"
DATA = ("celeba", *CLASSES)
TRIALS = 20
_STUDENTS = 5  # trials of a student at most
_ACCURACY = 0.85  # the paper's, for CelebA
_SHARE = 0.9  # of the plain majority's score, elsewhere


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How large the study is."""

    teachers: int = TEACHERS
    queries: int = QUERIES
    limits: tuple[int, ...] = LIMITS
    limit: int = 10  # CelebA has about nine attributes an image, by its publishers' count
    classes: tuple[Class, ...] = tuple(CLASSES.values())
    celeba_epsilons: tuple[float, ...] = (1.0, 2.0, 3.66, 5.0, 8.0, 12.0)
    taught_epsilons: tuple[float, ...] = (1.0, 2.0, 3.66, 5.0, 8.0, 16.0)
    shown: float = 3.66  # where limits and answers are compared; one of the epsilons
    student_epsilons: tuple[float, ...] = (3.66, 8.0)
    lines: tuple[str, ...] = tuple(LINES)
    digit_teachers: int = TEACHERS_OF_DIGITS
    digit_targets: tuple[float, ...] = TARGETS
    planned_near: float = 2.9  # about where OptimalVote, paid for as a plan, reaches the accuracy on CelebA


def run(setting: Setting) -> StudyReport:
    """Run EXP3."""
    return study(setting, Plan())


def study(setting: Setting, plan: Plan) -> StudyReport:
    """Run EXP3 in some size: poll the teachers once, then put all aggregators to the same ballots."""
    table = load_celeba(setting.data)
    celeba = simulate(
        table,
        seed=setting.seed,
        limit=plan.limit,
        teachers=plan.teachers,
        queries=plan.queries,
        limits=plan.limits,
    )
    celeba = replace(celeba, window=celeba.truth.shape[1] - 1)
    lessons = [poll_teachers(group, setting) for group in plan.classes]
    polls = [celeba, *(lesson.poll for lesson in lessons)]
    targets = {poll.name: _target(poll) for poll in polls}
    trials = setting.repeated(TRIALS)
    cells = _cells(plan, polls, lessons, targets, trials)
    found = run_cells(_work, cells, experiment=NAME, setting=setting)
    sweeps = {poll.name: {line: found[f"{poll.name}, {line}"] for line in plan.lines} for poll in polls}
    limits = {poll.name: {tau: found[f"{poll.name}, limit {tau}"] for tau in poll.votes} for poll in polls}
    students = {
        lesson.poll.name: {line: found[f"{lesson.poll.name}, student of {line}"] for line in (None, *plan.lines)}
        for lesson in lessons
    }
    ours = [line for line in ("OptimalVote", "OptimalVote, limited") if line in plan.lines]
    needed: dict[str, dict[Adjacency, Cell]] = {
        line: {relation: tables.reached(one) for relation, one in sweeps["celeba"][line].items()} for line in ours
    }
    others: dict[str, str] = {line: tables.other_queries(sweeps["celeba"][line]) for line in ours}
    wasted = {poll.name: found[f"{poll.name}, paper"] for poll in polls if f"{poll.name}, paper" in found}
    return StudyReport(
        name=NAME,
        title="EXP3: multi-label PATE" + (" (generated data)" if setting.data is None else ""),
        notes=(f"{celeba.title}: {table.note}", *(lesson.note for lesson in lessons)),
        parts=(
            privacy_table(needed, others, accuracy=_ACCURACY),
            draw_sweep(celeba, sweeps["celeba"], targets["celeba"]),
            draw_needed(polls, sweeps, targets),
            tables.needed_table(polls, sweeps, targets),
            planned_table(
                celeba,
                sweeps["celeba"]["OptimalVote"][Adjacency.REPLACE] if "OptimalVote" in plan.lines else None,
                found["celeba, planned"],
                target=targets["celeba"],
            ),
            balanced_table(celeba, sweeps["celeba"], epsilon=plan.shown),
            *(tables.sweep_table(poll, sweeps[poll.name], trials=trials) for poll in polls),
            *(draw_sweep(lesson.poll, sweeps[lesson.poll.name], targets[lesson.poll.name]) for lesson in lessons),
            tables.answers_table(polls, sweeps, epsilon=plan.shown),
            *([tables.accounting_table(polls, sweeps, wasted, epsilon=plan.shown)] if wasted else []),
            tables.limits_table(polls, limits, epsilon=plan.shown),
            tables.student_table(lessons, students, epsilons=plan.student_epsilons),
            digits_table([found[f"digits, split {n}"] for n in range(trials)], teachers=plan.digit_teachers),
            rivals_table(found["digits, needed"], plan.digit_targets, teachers=plan.digit_teachers),
        ),
    )


def _cells(
    plan: Plan, polls: list[Poll], lessons: list[Lesson], targets: dict[str, float], trials: int
) -> dict[str, Callable[[int], Any]]:
    """Return all work after the polls, the slowest first so that no process waits for the last at the end."""
    celeba = polls[0]
    cells: dict[str, Callable[[int], Any]] = {
        "celeba, planned": PlannedCell(poll=celeba, target=targets["celeba"], trials=trials, near=plan.planned_near),
        "digits, needed": RivalsCell(splits=trials, teachers=plan.digit_teachers, targets=plan.digit_targets),
    }
    for line in sorted(plan.lines, key=lambda name: "StableTopK" not in name):
        for poll in polls:
            epsilons = plan.celeba_epsilons if poll.name == "celeba" else plan.taught_epsilons
            cells[f"{poll.name}, {line}"] = LineCell(
                poll=poll,
                line=line,
                epsilons=epsilons,
                target=targets[poll.name],
                trials=trials,
                relative=poll.measure == "f1",
            )
    for split in range(trials):
        cells[f"digits, split {split}"] = DigitsCell(split=split, teachers=plan.digit_teachers)
    for lesson in lessons:
        for student in (None, *plan.lines):
            cells[f"{lesson.poll.name}, student of {student}"] = StudentCell(
                lesson=lesson, line=student, epsilons=plan.student_epsilons, trials=min(trials, _STUDENTS)
            )
    for poll in polls:
        if PAPERS_TEST in plan.lines:
            cells[f"{poll.name}, paper"] = PaperCell(poll=poll, epsilon=plan.shown, trials=trials)
        for tau in poll.votes:
            cells[f"{poll.name}, limit {tau}"] = LimitCell(poll=poll, limit=tau, epsilon=plan.shown, trials=trials)
    return cells


def _work(cell: Callable[[int], Any], seed: int) -> Any:
    return cell(seed)


def _target(poll: Poll) -> float:
    if poll.measure == "right":
        return _ACCURACY
    return _SHARE * score(poll.majority.astype(int), poll.truth).f1
