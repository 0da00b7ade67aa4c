r"""EXP3 at a small size, on generated data: the ballots, the privacy table, and the whole report."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import RidgeClassifier

from cutline import PATEClassifier
from cutline.pate import limit_ballots
from cutline.pate.student import LabelWarning
from cutline.pate.surest import SurestLabels
from cutline.privacy import Adjacency, BitTable
from cutline.privacy.rules.registry import RULES
from experiments.datasets import LabelData
from experiments.datasets.generated import generated_labels
from experiments.exp3.celeba_ballots import accuracies_in_probits, count_limited, simulate
from experiments.exp3.least_epsilon import Interval, interval, least_epsilon
from experiments.exp3.polls import Poll, score, tally
from experiments.exp3.privacy_table import BEST_EXACT, least_rdp
from experiments.exp3.study import Plan, study
from experiments.exp3.sweeps import (
    DELTA,
    LINES,
    PAPERS_TEST,
    RELATIONS,
    Found,
    LineCell,
    calibrate,
    price_by_the_paper,
    release_labels,
)
from experiments.exp3.tables import least
from experiments.exp3.taught_ballots import CLASSES, _split, poll_teachers
from experiments.report import StudyReport
from experiments.trials import Setting


def _table(examples: int = 3_000, labels: int = 40) -> LabelData:
    values = np.random.default_rng(5).random((examples, labels)) < np.linspace(0.43, 0.02, labels)  # nine of forty
    return LabelData(
        name="celeba", title="made up", note="", generated=True, labels=tuple(map(str, range(labels))),
        features=None, values=values, split=np.full(examples, 2, np.int8),
    )  # fmt: skip


@pytest.fixture(scope="module")
def celeba() -> Poll:
    return simulate(_table(), seed=0, limit=10, limits=(10,))


def test_the_majority_of_simulated_teachers_is_as_accurate_as_they_are_meant_to_be(celeba: Poll) -> None:
    from scipy.special import ndtr

    by_attribute = (celeba.majority == celeba.truth).mean(axis=0)
    # The share of images on which mu + s xi > 0; 600 images, so 5 standard errors are at most 0.1.
    assert np.abs(by_attribute - ndtr(accuracies_in_probits(40) / 0.9)).max() < 0.1
    assert score(celeba.majority.astype(int), celeba.truth).right == pytest.approx(0.893, abs=0.01)


def test_optimal_vote_meets_its_bars_on_simulated_ballots(celeba: Poll) -> None:
    plain = score(celeba.majority.astype(int), celeba.truth).right

    def right(line: str, epsilon: float) -> float:
        [values] = release_labels(celeba, LINES[line], epsilon=epsilon, adjacency=Adjacency.REPLACE, trials=1, seed=3)
        return score(values, celeba.truth).right

    at = right("OptimalVote", 3.66)
    assert at >= plain - 0.035
    assert right("OptimalVote", 5.0) >= plain - 0.022
    assert right("OptimalVote", 3.6) >= 0.85
    assert at > right("PATE-Gaussian", 3.66) + 0.01
    assert right("OptimalVote, limited", 3.66) > at + 0.01


def test_ballots_are_cut_as_the_aggregators_cut_them() -> None:
    sure = np.random.default_rng(1).standard_normal((7, 5, 9)).astype(np.float32)
    found = count_limited(sure, (1, 3, 9))
    for tau in (1, 3, 9):
        assert np.array_equal(found[tau], limit_ballots(sure > 0, sure, tau).sum(axis=0))
    assert np.array_equal(found[None], (sure > 0).sum(axis=0))


def test_a_poll_has_the_quorum_of_its_aggregators() -> None:
    votes = np.array([[24, 26, 50, 51]])
    poll = Poll(
        name="x", title="x", teachers=100, truth=np.ones((1, 4), bool), votes={None: votes}, limit=1, quorum=0.25
    )
    assert poll.majority.tolist() == [[False, True, True, True]]
    assert replace(poll, quorum=0.5).majority.tolist() == [[False, False, False, True]]
    for line in LINES.values():
        vote = calibrate(replace(poll, limit=4), line, epsilon=500.0, adjacency=Adjacency.REPLACE)
        assert vote.quorum == (0.5 if line.aggregator == "stable-top-k-vote" else 0.25)
        if "stable" not in line.aggregator:  # so large a budget that what comes out is the majority
            assert vote.release(votes).values.tolist() == [[0, 1, 1, 1]]


@pytest.mark.parametrize(
    ("name", "teacher"),
    [("tmc2007", RidgeClassifier(alpha=1.0)), ("delicious", SurestLabels(RidgeClassifier(alpha=2.0), names=10))],
)
def test_the_classifier_releases_what_the_study_does(
    name: str, teacher: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The public face alone gives the study's labels: same records to the same teachers, same limit, quorum and draws."""
    features, values = generated_labels(name, examples=1_600, labels=120, per_example=6.0, features=80)
    data = LabelData(
        name="few", title="made up", note="", generated=True, labels=tuple(map(str, range(120))), features=features,
        values=values, split=np.repeat(np.arange(2, dtype=np.int8), (1_500, 100)),
    )  # fmt: skip
    monkeypatch.setattr("experiments.exp3.taught_ballots._loaded", lambda *_: data)
    group = replace(CLASSES[name], teachers=24, queries=20, quorum=0.25)
    poll = poll_teachers(group, Setting(jobs=1)).poll
    line = LINES["OptimalVote, limited"]
    [expected] = release_labels(poll, line, epsilon=30.0, adjacency=Adjacency.REPLACE, trials=1, seed=5)
    public, _ = _split(data, group, 0)
    numbers, private = features.astype(np.float64), data.split == 0
    model = PATEClassifier(
        teacher, RidgeClassifier(alpha=10.0), n_teachers=24, epsilon=30.0, delta=DELTA, limit=group.limit, quorum=0.25,
        partition_key=b"exp3", noise_seed=5, random_state=0,
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LabelWarning)
        model.fit(numbers[private], values[private].astype(int), X_public=numbers[public])
    assert np.array_equal(model.labels_.values, expected)
    assert 20 < expected.sum() < 20 * 120 / 2


@pytest.fixture(scope="module")
def report() -> StudyReport:
    plan = Plan(
        teachers=40, queries=20, limits=(10,), celeba_epsilons=(4.0, 8.0), taught_epsilons=(4.0, 8.0), shown=4.0,
        student_epsilons=(8.0,), digit_teachers=12, digit_targets=(0.5,), lines=("OptimalVote", "PATE-tau", PAPERS_TEST),
        classes=(replace(CLASSES["tmc2007"], teachers=24, queries=20, limits=(2,)),),
    )  # fmt: skip
    return study(Setting(trials=2, jobs=1), plan)


def _printed(report: StudyReport) -> list[tuple[float | None, ...]]:
    [table] = [table for table in report.tables if table.name == "privacy"]
    return [tuple(None if cell is None else round(float(cell), 3) for cell in row[1:3]) for row in table.rows]


def test_the_privacy_table_prints_the_errata(report: StudyReport) -> None:
    assert _printed(report)[:7] == [
        (3.6, None), (71.419, None), (20.48, None), (3.665, None), (4.348, 9.257), (3.917, 8.58), (3.674, 8.022)
    ]  # fmt: skip


def test_the_bit_table_in_the_papers_setting(report: StudyReport) -> None:
    assert [setting.distance for setting in BEST_EXACT] == [485, 242]
    as_printed, exact, rdp = _printed(report)[7:10]
    assert as_printed == (3.323, 7.28)
    assert exact == (3.202, 7.045)
    assert rdp == (3.194, 6.969)
    # The distance passes with probability 0.95, and not at a cost one percent lower.
    for setting in BEST_EXACT:
        cost = least_rdp(order=setting.order, delta=setting.delta, distance=setting.distance)
        chances = [
            float(BitTable.stability(order=setting.order, rdp=rdp, delta=setting.delta)(np.array(setting.distance)))
            for rdp in (cost, 0.99 * cost)
        ]
        assert chances[0] >= 0.95 > chances[1]


@pytest.mark.parametrize(
    ("curve", "target", "truth"),
    [
        (lambda e: 1 - 1 / e, 0.7, 10 / 3),  # bends to the right
        (lambda e: e**4 / 1e4, 0.9, 9000**0.25),  # bends up: a chord falls short each time
        (lambda e: float(e >= 6.1), 0.5, 6.1),  # a step
        (lambda e: (e / 16) ** 0.01, 0.999, 16 * 0.999**100),  # nearly flat
    ],
)
def test_the_least_epsilon_is_one_that_was_seen_and_half_a_percent_above_the_truth(curve, target, truth) -> None:
    seen: dict[float, float] = {}

    def mean(epsilon: float) -> float:
        return seen.setdefault(epsilon, curve(epsilon))

    found = least_epsilon(mean, (1.0, 2.0, 3.66, 5.0, 8.0, 16.0), target)
    assert found is not None
    assert seen[found] >= target
    assert truth * (1 - 1e-12) <= found <= truth * 1.005
    assert len(seen) <= 6 + 8


def test_a_target_that_is_not_reached_and_one_that_the_smallest_epsilon_reaches() -> None:
    epsilons = (1.0, 2.0)
    assert least_epsilon(lambda e: 1 - 1 / e, epsilons, 0.9) is None
    assert least_epsilon(lambda e: e, epsilons, 0.6) == 1.0
    scores = {epsilon: [score(np.array([[1]]), np.array([[True]]))] for epsilon in epsilons}
    found = {needed: Found(scores=scores, needed=needed, between=Interval(0.0, np.inf)) for needed in (1.0, 1.5)}
    assert least(found[1.0]) == "at most 1 (< 1 to > 2)"
    assert least(found[1.5]) == "1.50 (< 1 to > 2)"
    assert least(Found(scores=scores, needed=None)) == "> 2"


def test_the_interval_is_as_wide_as_other_queries_move_the_least_epsilon() -> None:
    # A query is right at epsilon e with probability e / 10: 0.5 is reached at 5, with a standard error of 5 / sqrt(queries).
    epsilons, queries = np.linspace(1, 9, 33), 400
    truth = np.ones((queries, 1), bool)

    def ends(seed: int) -> Interval:
        level = np.random.default_rng(seed).random((queries, 1))
        tallies = {float(e): tally((level < e / 10).astype(int), truth, "right") for e in epsilons}
        return interval(tallies, 0.5, seed=seed)

    found = np.array([ends(seed) for seed in range(40)])
    # 80 % of a normal law lies within 1.28 standard errors; 40 intervals, of which 32 should hold the truth.
    assert np.diff(found).mean() == pytest.approx(2 * 1.28 * 5 / np.sqrt(queries), rel=0.15)
    assert 25 <= ((found[:, 0] <= 5) & (found[:, 1] >= 5)).sum() <= 38


def test_a_target_that_moves_with_the_majority_moves_less() -> None:
    random = np.random.default_rng(2)
    truth = random.random((300, 8)) < 0.3
    easy = random.random((300, 1)) < 0.5  # hard queries are hard for everybody
    said = {
        e: np.where(random.random((300, 8)) < np.where(easy, 1.0, e / 16), truth, ~truth) for e in (1.0, 2.0, 4.0, 8.0)
    }
    tallies = {e: tally(values.astype(int), truth, "f1") for e, values in said.items()}
    plain = tally(np.where(easy, truth, ~truth).astype(int), truth, "f1")
    target = float(tallies[4.0].gained.sum() / tallies[4.0].possible.sum())
    fixed, moving = (interval(tallies, target, majority=of, seed=0) for of in (None, plain))
    assert moving.high - moving.low < 0.7 * (fixed.high - fixed.low)


@pytest.mark.slow
def test_every_line_spends_the_same_total(celeba: Poll) -> None:
    poll = replace(celeba, window=39)
    for name, line in LINES.items():
        for relation in RELATIONS:
            ready = calibrate(poll, line, epsilon=3.66, adjacency=relation)
            total = len(poll.truth) * ready.cost
            # PLD is slow and never the best here: it is asked about the line that is calibrated by one rule alone.
            rules = [rule for rule in RULES if rule != "pld" or (name, relation) == (PAPERS_TEST, Adjacency.ADD_REMOVE)]
            spent = min(RULES[rule](total, DELTA) for rule in rules)
            assert 3.66 * (1 - 2e-6) <= spent <= 3.66, (name, relation)
            assert ready.budget.epsilon == 3.66


def test_the_papers_accounting_books_more_than_its_test_costs(celeba: Poll) -> None:
    poll = replace(celeba, window=39)
    named = price_by_the_paper(poll, epsilon=3.66, adjacency=Adjacency.ADD_REMOVE)
    as_named = replace(LINES[PAPERS_TEST], spend=lambda build, budget: build(budget))
    wasteful = calibrate(poll, as_named, epsilon=named, adjacency=Adjacency.ADD_REMOVE)
    exact = calibrate(poll, LINES[PAPERS_TEST], epsilon=3.66, adjacency=Adjacency.ADD_REMOVE)
    assert named == pytest.approx(4.66, abs=0.005)
    assert wasteful.test.sigma == pytest.approx(exact.test.sigma, rel=1e-9)
    assert wasteful.chooser.epsilon == pytest.approx(exact.chooser.epsilon, rel=1e-9)


def test_the_report_is_written_and_says_that_data_are_generated(report: StudyReport, tmp_path: Path) -> None:
    assert [table.name for table in report.tables] == [
        "privacy", "needed", "planned", "balanced",
        "celeba-labels", "tmc2007-labels", "answers", "accounting", "limits", "students", "digits",
        "digits-needed",
    ]  # fmt: skip
    assert all("(generated)" in table.title for table in report.tables if table.name.endswith("-labels"))
    page, *files = report.write(tmp_path, "*A run.*")
    assert {path.suffix for path in files} == {".csv", ".png", ".svg"}
    text = page.read_text(encoding="utf-8")
    assert "(generated)" in text
    assert text.startswith("# EXP3: multi-label PATE (generated data)\n\n*A run.*\n\n- CelebA attributes (generated): ")
    assert "\n- TMC2007: generated examples" in text


@pytest.mark.slow
def test_equal_seeds_give_equal_results() -> None:
    def found(seed: int) -> tuple[object, ...]:
        poll = simulate(_table(), seed=seed, limit=10, limits=(10,), teachers=40, queries=20)
        cell = LineCell(poll=poll, line="PATE-tau", epsilons=(4.0, 8.0), target=0.8, trials=2)
        return tuple((one.scores, one.needed) for one in cell(seed).values())

    assert found(1) == found(1) != found(2)
