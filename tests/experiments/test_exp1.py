"""EXP1 on generated logs: the batched draws follow the mechanisms' laws, the measure, the bars and the page."""

import numpy as np
import pytest
from scipy.stats import chisquare

from cutline.histogram import OpenHistogram
from cutline.mechanisms.adaptive.choosers import GapExponential, Preference
from cutline.mechanisms.adaptive.gap_tests import TableTest
from cutline.mechanisms.fixed.stable_fixed import StableTopKFixed
from cutline.mechanisms.fixed.test_first import TestFirst
from cutline.mechanisms.open.limited_domain import LimitedDomain
from cutline.mechanisms.open.limited_rounds import LimitedRounds
from cutline.mechanisms.open.top_stable import TopStable
from cutline.privacy import Adjacency, BitTable, Budget
from cutline.sampling import SeededSource
from experiments.datasets import LogData
from experiments.datasets.generated import generated_log
from experiments.exp1 import (
    LATER,
    METHODS,
    PAPER,
    StudyCase,
    answer,
    compare_with_the_paper,
    mechanisms,
    questions,
    run,
)
from experiments.fixed_k_trials import shares_found, taken_ranks
from experiments.report import Estimate
from experiments.trials import Setting

ADD = Adjacency.ADD_REMOVE
COUNTS = OpenHistogram.from_counts(np.array([9, 7, 7, 3, 2]), max_k=4)
TABLE = TableTest(table=BitTable.stability(order=4.0, rdp=0.6, delta=0.05))
RUNS = 8_000
NONE = (np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64))


def small(name, stretch=1.0):
    limited = {"epsilon": 0.8 * stretch, "delta": 0.2, "adjacency": ADD}
    if name == "limited-domain":
        return LimitedDomain(k=2, max_k=4, **limited)
    if name == "limited-rounds":
        return LimitedRounds(k=3, max_k=4, **limited)
    if name == "test-first":
        return TestFirst(k=3, max_k=4, test=TABLE, nearby=TABLE, **limited)
    if name == "top-stable":
        return TopStable(k=4, max_k=4, epsilon=2.0 * stretch, delta=0.1, adjacency=ADD)
    preference = Preference(max_k=4, target=2, weight=0.5)
    return StableTopKFixed(preference=preference, chooser=GapExponential(epsilon=0.9 * stretch), test=TABLE, **limited)


def law_of_ranks(mechanism):
    """Sum the law over orders and steps: only which ranks went out is kept."""
    law = {}
    for outcome, p in mechanism.law(COUNTS).items():
        key = frozenset(outcome.items or ())
        law[key] = law.get(key, 0.0) + p
    return law


def p_value(taken, law):
    seen = {}
    for row in taken:
        key = frozenset(np.flatnonzero(row).tolist())
        seen[key] = seen.get(key, 0) + 1
    assert seen.keys() <= law.keys()
    expected = np.array(list(law.values())) * len(taken)
    observed = np.array([seen.get(key, 0) for key in law], dtype=float)
    common = expected >= 5
    if not common.all():
        observed = np.append(observed[common], observed[~common].sum())
        expected = np.append(expected[common], expected[~common].sum())
    return chisquare(observed, expected * observed.sum() / expected.sum()).pvalue


@pytest.mark.parametrize("name", ["limited-domain", "limited-rounds", "test-first", "top-stable", "stable-top-k-fixed"])
def test_batched_runs_follow_the_law_and_reject_others(name):
    mechanism = small(name)
    assert mechanism.name == name
    taken = taken_ranks(mechanism, COUNTS, RUNS, rng=SeededSource(5))
    assert p_value(taken, law_of_ranks(mechanism)) > 1e-3
    for factor in (0.7, 1.3):
        assert p_value(taken, law_of_ranks(small(name, factor))) < 1e-6


def test_a_score_far_below_the_bottom_is_still_drawn_with_its_own_chance():
    # The bottom weighs e^1400 times an item: plain floats would see only it; and the reverse.
    high = LimitedDomain(k=2, max_k=3, epsilon=700.0, delta=0.5, adjacency=ADD)
    counts = OpenHistogram.from_counts(np.array([9, 6, 1, 1]), max_k=3)
    assert taken_ranks(high, counts, 5, rng=SeededSource(0)).tolist() == [[True, True, False, False]] * 5
    alone = OpenHistogram.from_counts(np.array([3, 2, 2, 2]), max_k=3)
    taken = taken_ranks(
        LimitedDomain(k=1, max_k=3, epsilon=1e-3, delta=1e-9, adjacency=ADD), alone, 50, rng=SeededSource(0)
    )
    assert not taken.any()


def test_ties_with_the_kth_are_true_up_to_k():
    counts = np.array([9, 7, 7, 7, 2, 1])
    taken = np.array([[0, 1, 1, 1, 0], [1, 0, 0, 1, 1], [0, 0, 0, 0, 1], [1, 1, 1, 1, 1]], dtype=bool)
    assert shares_found(taken, counts, k=2).tolist() == [1.0, 1.0, 0.0, 1.0]
    assert shares_found(taken, counts, k=5).tolist() == pytest.approx([0.6, 0.6, 0.2, 1.0])


def test_every_mechanism_spends_the_same_total():
    budget = Budget(epsilon=0.8, delta=1 / 2000)
    for mechanism in mechanisms(10, budget).values():
        assert 0.99 * budget.epsilon <= mechanism.cost.epsilon(budget.delta * (1 + 1e-9)) <= budget.epsilon * (1 + 1e-9)
        assert mechanism.adjacency is ADD


def test_a_cell_repeats_and_finds_a_cliff():
    counts = np.concatenate([np.full(3, 900), np.full(98, 100)])
    question = StudyCase(
        data="cliff",
        counts=counts,
        bounded=(counts, np.where(counts > 100, 450, 5)),
        users=2000,
        k=3,
        epsilon=1.0,
        trials=20,
    )
    found = answer(question, 7)
    assert found == answer(question, 7)
    assert tuple(found) == (*METHODS, "limited-rounds", *LATER)
    assert all(share == (1.0, 0.0) for share in found.values())


def test_printed_figures_stand_beside_the_logs_they_may_be_of():
    table = generated_log("x", users=60, items=30, pairs=200, top=50)
    logs = {
        name: LogData(name=name, title=name.title(), table=table, note="", generated=name == "brightkite", users=60)
        for name in ("brightkite", "gowalla", "kuala-lumpur")
    }
    rows = [
        (
            StudyCase(data=name, counts=np.arange(9)[::-1], bounded=NONE, users=60, k=10, epsilon=0.8, trials=2),
            dict.fromkeys(METHODS, Estimate(0.5, 0.1)),
        )
        for name in logs
    ]
    [beside] = compare_with_the_paper(rows, logs)
    assert beside.rows == (("BrightKite; Gowalla", 10, "0.8", 0.80, 0.5, 0.79, 0.5, 1.00, 0.5, 0.5),)
    assert compare_with_the_paper(rows[:1], logs) == []


def test_questions_count_distinct_users_at_the_public_rule():
    log = LogData(
        name="x",
        title="Here",
        table=generated_log("x", users=60, items=30, pairs=200, top=50),
        note="",
        generated=True,
        users=60,
    )
    cells = questions({"x": log}, trials=2)
    assert len(cells) == 9
    sizes = {question.k: len(question.counts) - 1 for question in cells.values()}
    assert sizes == {3: 100, 10: 100, 50: 500}
    assert int(cells["x k=50 epsilon=0.4"].counts.sum()) == 200
    full, bounded = cells["x k=50 epsilon=0.4"].bounded
    assert full.sum() == bounded.sum() == 200  # nobody has more than 50 of 30 items


def test_the_papers_table_is_as_printed():
    assert all(tuple(methods) == METHODS[:-1] for methods in PAPER.values())
    # Sums over epsilon at each k, added up by hand from the paper: a wrong digit changes one.
    sums = {
        name: [[round(sum(row[k::3]), 2) for k in range(3)] for row in methods.values()]
        for name, methods in PAPER.items()
    }
    assert sums == {
        "BrightKite": [[3.0, 2.37, 0.48], [3.0, 2.14, 0.63], [3.0, 2.91, 1.95]],
        "Foursquare": [[3.0, 2.44, 0.47], [2.34, 2.41, 0.65], [3.0, 2.72, 1.82]],
    }


def test_the_whole_report_on_generated_logs(tmp_path, monkeypatch):
    from experiments import exp1

    monkeypatch.setattr(exp1, "DATA", ("brightkite",))
    monkeypatch.setattr(exp1, "SIZES", (3, 10))
    monkeypatch.setattr(exp1, "EPSILONS", (0.4, 0.8))
    report = run(Setting(trials=5, jobs=1))
    page = report.write(tmp_path, "*A run.*")[0].read_text(encoding="utf-8")
    assert page.startswith(
        "# EXP1: the top k places of check-in logs, k given (generated logs)\n\n*A run.*\n\n- Brightkite: a"
    )
    assert "(generated)" in page
    assert [table.name for table in report.tables] == ["found"]  # the paper's figures are of other logs
    assert "Tokyo" not in page
    assert len(report.tables[0].rows) == 4
    assert (tmp_path / "exp1-found.svg").stat().st_size < 200_000
