import csv
from pathlib import Path

import numpy as np
import pytest

from cutline.experiments import cliff, covid
from cutline.experiments.datasets import load_covid
from cutline.experiments.report import Estimate, Report
from cutline.experiments.rivals import paper_peeling, recall
from cutline.privacy import Budget

PAGES = Path(__file__).parents[2] / "docs" / "reproduce"


def rows(name):
    with (PAGES / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("budget", [Budget(epsilon=0.1, delta=1e-6, releases=10), Budget(epsilon=2.0, delta=1e-3)])
def test_the_papers_peeling_spends_its_budget_by_zcdp_and_no_more(budget):
    ready = paper_peeling(budget, k=15)
    spent = (budget.releases * ready.cost).epsilons(budget.delta)
    assert budget.fits(ready.cost)
    rho = 15 * budget.releases * ready.epsilon**2 / 8
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
    assert (high.passed, high.cut) == ((1.0, 15) if column == "test-first" else (0.0, None))


def test_every_table_and_figure_of_generated_data_says_so(tmp_path):
    cases = load_covid(None)
    block = covid._label(0)
    found = {column: Estimate(0.1 * i, 0.01) for i, column in enumerate(covid._COLUMNS)}
    parts = covid._parts(
        "daily new cases",
        cases,
        {block: cases.new_cases()[11:21]},
        {block: found},
        {block: "peeling EM", "no prior": "subset EM"},
        [("test-first", "1.0% at 15")],
        trials=3,
        seed=7,
    )
    titled = [part for part in parts if not isinstance(part, str)]
    assert [part.name for part in titled] == ["recall", "recall", "plan", "tests"]
    assert all("generated data" in part.title for part in titled)
    assert titled[0].rows[-1] == ("plan's choice", found["peeling EM"])
    (choice,) = titled[2].rows
    assert choice[:2] == ("Mar 12-21", "peeling EM")
    assert choice[-2:] == pytest.approx((0.7 - 0.1, 0.2))  # below the best, and without a prior
    assert "3 trials" in parts[0]
    assert "seed 7" in parts[0]
    page = Report(name="p", title="t", parts=parts).write(tmp_path)[0]
    assert "no real data" in page.read_text(encoding="utf-8")


def test_a_plan_without_a_prior_needs_no_data():
    assert covid._planned(covid._Prior(counts=None, states=55), seed=0) == "stable-top-k-fixed"


def test_a_stable_cut_far_from_k_is_told_apart():
    # The first stands far above, the others are alike: the stable set is the first alone.
    days = np.tile(np.r_[40_000, np.full(54, 50)], (1, 1))
    found = covid._recalls(covid._Cell(column="StableTopK (paper)", days=days, trials=5), seed=1)
    assert (found.passed, found.cut) == (1.0, 1)
    assert covid._tested([found, covid._Found(recalls=(0.0,), passed=0.0, cut=None)]) == ["100.0% at 1", "0.0%"]


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
