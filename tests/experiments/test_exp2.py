import csv
import math
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cutline.privacy import Budget
from experiments.datasets import load_covid
from experiments.exp2 import cliff, covid
from experiments.exp2.covid import Stability
from experiments.figures import LOOKS
from experiments.report import Estimate, StudyReport
from experiments.rivals import WHOLE, paper_peeling, recall, share_spent, spending

PAGES = Path(__file__).parents[2] / "docs" / "reproduce"


def rows(name):
    with (PAGES / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("budget", [Budget(epsilon=0.1, delta=1e-6, releases=10), Budget(epsilon=2.0, delta=1e-3)])
def test_the_papers_peeling_spends_its_budget_by_zcdp_and_no_more(budget):
    peeling = paper_peeling(budget, k=15)
    spent = (budget.releases * peeling.cost).epsilons(budget.delta)
    assert budget.fits(peeling.cost)
    rho = 15 * budget.releases * peeling.epsilon**2 / 8
    assert rho + 2 * np.sqrt(rho * np.log(1 / budget.delta)) == pytest.approx(budget.epsilon, rel=1e-9)
    assert min(spent.values()) < budget.epsilon  # better accounting leaves something over


def test_recall_takes_a_tie_for_found_and_never_passes_one():
    counts = np.array([5, 3, 3, 3, 0])
    assert recall([0, 3], counts, k=2, least=3) == 1.0
    assert recall([0, 1, 2, 3], counts, k=2, least=3) == 1.0
    assert recall([4, 0], counts, k=2, least=3) == 0.5


@pytest.mark.parametrize("line", ["StableTopK (adaptive)", "test-first", "Top Stable"])
@pytest.mark.parametrize("k", [10, 1500])
def test_a_high_cliff_is_found_whatever_k_is(line, k):
    found = cliff._recalls(cliff._Cell(line=line, k=k, height=700, trials=10), seed=1)
    assert found == [1.0] * 10


def test_peeling_falls_with_k_and_a_low_cliff_is_withheld():
    few, many = (
        cliff._recalls(cliff._Cell(line="EM-CDP (paper)", k=k, height=700, trials=10), seed=1) for k in (10, 500)
    )
    assert np.mean(few) > 0.7
    assert np.mean(many) < 0.3
    assert cliff._recalls(cliff._Cell(line="StableTopK (adaptive)", k=500, height=50, trials=10), seed=1) == [0.0] * 10


@pytest.mark.parametrize("column", [column for column in covid._COLUMNS if "StableTopK" not in column])
def test_ten_days_are_scored_by_trial(column):
    steep = 40_000 // np.arange(1, 56)
    low, high = (
        covid._recalls(covid._Cell(column=column, days=np.tile(steep * factor, (2, 1)), trials=3), seed=1)
        for factor in (1, 1000)
    )
    assert len(low.recalls) == 3
    assert np.mean(low.recalls) < 1
    assert np.mean(high.recalls) == 1
    assert (high.tested.passed, high.tested.cut) == ((1.0, 15) if column == "test-first" else (0.0, None))


@pytest.mark.parametrize("column", covid._COLUMNS)
def test_every_row_of_the_covid_page_spends_one_budget(column):
    spent = share_spent(covid._calibrate(column, 55), covid._BUDGET)
    if column == "EM-CDP (paper)":  # fills the budget by zCDP, and its note says what that wastes
        assert spent == pytest.approx(0.67, abs=0.01)
    else:
        assert WHOLE < spent <= 1


@pytest.mark.slow
@pytest.mark.parametrize("line", cliff._LINES)
@pytest.mark.parametrize("k", [10, 1500])
def test_every_column_of_the_cliff_spends_one_budget(line, k):
    spent = cliff._spent((line, k), 0)
    if line == "EM-CDP (paper)":
        assert 0.6 < spent < 0.7
    else:
        assert WHOLE < spent <= 1


def test_a_note_names_whoever_leaves_something_unspent():
    said = spending({"a": 0.5, "b": 1.0, "c": 0.25})
    assert "a spends 50 %, c spends 25 % of that epsilon; the others" in said
    assert "b" not in re.findall(r"(\w) spends", said)


def outcome(trials=3, error=0.01, **changed):
    cases = load_covid(None)
    block = covid._label(0)
    found = {column: Estimate(0.1 * i, error) for i, column in enumerate(covid._COLUMNS)}
    return covid._Outcome(
        counted="daily new cases",
        cases=replace(cases, **changed),
        blocks={block: cases.new_cases()[11:21]},
        results={block: found},
        chosen={block: "peeling EM", "no prior": "subset EM"},
        tests={column: [Stability(passed=0.01, cut=15)] for column in covid._TESTED},
        spent=dict.fromkeys(covid._COLUMNS, 1.0) | {"EM-CDP (paper)": 0.672},
        trials=trials,
    )


def test_every_table_and_figure_of_generated_data_says_so():
    made = outcome()
    titled = covid._parts(made)
    assert [part.name for part in titled] == ["recall", "recall", "plan", "tests"]
    assert all("generated data" in part.title for part in titled)
    assert titled[0].rows[-1] == ("plan's choice", Estimate(0.1, 0.01))
    assert "EM-CDP (paper) spends 67 %" in titled[0].note
    (choice,) = titled[2].rows
    assert choice[:2] == ("Mar 12-21", "peeling EM")
    assert choice[-2:] == pytest.approx((0.7 - 0.1, 0.2))  # below the best, and without a prior
    assert "of 3 trials" in titled[0].title
    assert titled[3].note.startswith("The median count at 15: ")


def test_one_trial_has_no_error_to_show(tmp_path):
    parts = covid._parts(outcome(trials=1, error=math.inf, generated=False))
    page = StudyReport(name="p", title="t", parts=parts).write(tmp_path, "*A run.*")[0].read_text(encoding="utf-8")
    assert "mean ± standard error of 1 trial**" in page
    assert "| peeling EM | 0.100 ± – |" in page
    assert "errors unknown" in (tmp_path / "p-recall.svg").read_text(encoding="utf-8")


@pytest.mark.slow
def test_a_plan_without_a_prior_needs_no_data():
    assert covid._planned(covid._Prior(counts=None, states=55), seed=0) == "peeling-em"


def test_a_stable_cut_far_from_k_is_told_apart():
    # The first stands far above, the others are alike: the stable set is the first alone.
    days = np.tile(np.r_[40_000, np.full(54, 50)], (1, 1))
    found = covid._recalls(covid._Cell(column="StableTopK (paper)", days=days, trials=5), seed=1)
    assert str(found.tested) == "100.0% at 1"
    assert str(Stability(passed=0.0, cut=None)) == "0.0%"


def test_a_stable_set_under_k_is_counted_where_it_was_cut():
    # Nothing stands out at 15, but the first twelve do: the second test of test-first releases them.
    days = np.r_[np.full(12, 90_000), np.full(43, 50)][None, :]
    found = covid._recalls(covid._Cell(column="test-first", days=days, trials=3), seed=1)
    assert (found.tested.passed, found.tested.cut) == (1.0, 12)


@pytest.mark.parametrize(
    ("steps", "cut"),
    [
        (("test", "release"), [15]),
        (("test", "nearby 7", "release", "peeling-em"), [7]),
        (("choose 3", "test", "release", "peeling-em"), [3]),
        (("choose 20", "test", "release", "drop"), [20]),
        (("test", "nearby", "peeling-em"), []),
        (("choose 3", "test", "peeling-em"), []),
        (("peel",), []),
    ],
)
def test_the_cut_is_read_from_the_steps(steps, cut):
    assert covid._stable_cut(steps) == cut


def test_every_method_has_one_look_and_no_two_share_it():
    assert set(covid._COLUMNS) | set(cliff._LINES) <= set(LOOKS)
    assert len({colour for colour, _ in LOOKS.values()}) == len(LOOKS)


def test_the_page_shows_the_plan_within_a_hundredth_of_the_best():
    found = rows("exp2-covid-plan.csv")
    assert len(found) == 4
    assert all(float(row["below the best"]) <= 0.01 for row in found)


def test_the_page_shows_every_cliff_found_by_ours_and_peeling_falling():
    found = rows("exp2-synthetic-recall.csv")
    assert [int(row["k"]) for row in found] == list(cliff._KS)
    for ours in ("StableTopK (adaptive)", "test-first"):
        assert all(float(row[ours]) >= 0.99 for row in found)
    peeled = [float(row["EM-CDP (paper)"]) for row in found if int(row["k"]) <= 300]
    assert peeled == sorted(peeled, reverse=True)
    assert peeled[0] > 0.9 > 0.2 > peeled[-1]
