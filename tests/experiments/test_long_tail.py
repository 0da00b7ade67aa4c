"""The study of long tails: its rivals are charged exactly, every answer is cut to k, and the page says what was found."""

import itertools
import math

import numpy as np
import pytest
from scipy.special import ndtr

from cutline.mechanisms.open.table_threshold import TableStep, TableThreshold
from cutline.mechanisms.registry import MECHANISMS
from cutline.privacy import Adjacency, BitTable, Budget, Cost, Gaussian, Pure
from experiments.long_tail import study
from experiments.long_tail.answers import DELTA, METHODS, OURS, RIVALS, LogCounts, Score, run_method, score
from experiments.long_tail.thresholds import GaussianThreshold, LaplaceThreshold
from experiments.report import Estimate
from experiments.trials import Setting

THRESHOLDS = (GaussianThreshold, LaplaceThreshold)


def law_of_item(rival, count):
    """The chances of what is shown of an item: nothing, or its noisy count, in cells; a cell tells less than the count."""
    width = 1.0 if isinstance(rival, LaplaceThreshold) else rival.scale / 8
    edges = rival.threshold + width * np.arange(int((35 + 8 * rival.scale) / width))
    if count == 0:
        return np.append(1.0, np.zeros(len(edges)))
    if isinstance(rival, LaplaceThreshold):
        above = np.array([type(rival)(**fields(rival, threshold=edge)).shown(count) for edge in edges])
    else:
        above = ndtr((count - edges) / rival.scale)
    return np.concatenate([[1 - above[0]], -np.diff(above), above[-1:]])


def fields(rival, **changed):
    names = ("scale", "threshold", "max_items_per_user")
    return {name: getattr(rival, name) for name in names} | changed


def largest_difference(rival, before, after, epsilon):
    """The hockey-stick divergence of two releases of two items, larger of both directions, by enumeration."""
    ours, theirs = (np.outer(*(law_of_item(rival, count) for count in counts)) for counts in (before, after))
    return max(float(np.maximum(p - math.exp(epsilon) * q, 0).sum()) for p, q in ((ours, theirs), (theirs, ours)))


@pytest.mark.parametrize(
    "rival",
    [
        GaussianThreshold(scale=2.0, threshold=5.0, max_items_per_user=2),
        GaussianThreshold(scale=1.2, threshold=4.5, max_items_per_user=2),
        LaplaceThreshold(scale=2.5, threshold=9.0, max_items_per_user=2),
        LaplaceThreshold(scale=1.5, threshold=4.0, max_items_per_user=2),
    ],
    ids=lambda rival: f"{rival.name} {rival.scale}",
)
@pytest.mark.parametrize("epsilon", [0.2, 0.6, 1.1])
def test_the_delta_of_a_threshold_is_that_of_its_worst_neighbours(rival, epsilon):
    promised = rival.delta(epsilon)
    high = round(rival.threshold + 30)  # as good as never below the threshold
    counts = (0, 1, 2, round(rival.threshold), high)
    seen = {
        pair: largest_difference(rival, pair, (pair[0] + 1, pair[1] + 1), epsilon)
        for pair in itertools.combinations_with_replacement(counts, 2)
    }
    assert max(seen.values()) <= promised * (1 + 1e-9)
    assert max(seen.values()) >= 0.98 * promised  # nothing smaller would be honest
    # One user's items count D times, and a threshold that is charged for one of them is refuted.
    alone = type(rival)(**fields(rival, max_items_per_user=1))
    assert max(seen.values()) > alone.delta(epsilon)


@pytest.mark.parametrize("kind", THRESHOLDS)
@pytest.mark.parametrize("epsilon", [0.3, 3.0])
def test_a_calibrated_threshold_spends_its_budget_and_no_more(kind, epsilon):
    budget = Budget(epsilon=epsilon, delta=DELTA)
    rival = kind.calibrate(budget, max_items_per_user=20)
    assert 0.8 * DELTA < rival.delta(epsilon) <= DELTA
    for less in ({"scale": 0.98 * rival.scale}, {"threshold": rival.threshold - max(1.0, 0.02 * rival.scale)}):
        assert kind(**fields(rival, **less)).delta(epsilon) > DELTA


def test_counts_that_move_are_charged_as_the_library_charges_them():
    gaussian = GaussianThreshold.calibrate(Budget(epsilon=1.0, delta=DELTA), max_items_per_user=20)
    noise = Cost.of(Gaussian(sigma=gaussian.scale, squared_sensitivity=20.0), adjacency=Adjacency.ADD_REMOVE)
    assert noise.epsilon(DELTA) == pytest.approx(1.0, rel=1e-3)
    laplace = LaplaceThreshold.calibrate(Budget(epsilon=1.0, delta=DELTA), max_items_per_user=20)
    coins = 20 * Cost.of(Pure(epsilon=1 / laplace.scale), adjacency=Adjacency.ADD_REMOVE)
    assert coins.epsilon(DELTA) == pytest.approx(1.0, rel=1e-2)
    assert laplace.scale < 20  # pure differential privacy alone would need that


@pytest.mark.parametrize("kind", THRESHOLDS)
def test_what_goes_out_is_as_likely_as_it_is_charged_for(kind):
    rival = kind(scale=3.0, threshold=8.0, max_items_per_user=2)
    counts, runs = np.array([0, 1, 5, 8, 9, 14, 0]), 4000
    shown = [indices.tolist() for indices in rival.released_indices(counts, runs, seed=4)]
    for index, count in enumerate(counts.tolist()):
        chance = rival.shown(count) if count else 0.0
        often = sum(index in indices for indices in shown)
        assert abs(often - runs * chance) <= 5 * math.sqrt(runs * chance * (1 - chance)), count
    assert sum(indices[:1] == [5] for indices in shown) > sum(indices[:1] == [4] for indices in shown) > 0


def test_no_answer_holds_more_than_k():
    ranked = np.arange(200, 0, -1)
    counts = LogCounts(ranked=ranked, bounded=(ranked, ranked))
    always = TableThreshold(
        step=TableStep(table=BitTable(values=(0.5, 1.0)), max_items_per_user=2), adjacency=Adjacency.ADD_REMOVE
    )
    loud = GaussianThreshold(scale=5.0, threshold=20.0, max_items_per_user=2)
    for method in (always, loud):
        assert {len(shown) for shown in run_method(method, counts, 5, seed=1, k=10)} == {10}
    assert score(run_method(loud, counts, 5, seed=1, k=10), least=191, k=10).recall.mean > 0.5
    with pytest.raises(AssertionError, match="peeling-em"):
        next(iter(run_method(type("New", (), {"name": "peeling-em"})(), counts, 1, seed=0, k=1)))


def test_every_mechanism_that_is_told_k_is_in_the_study():
    told = {kind.name for kind in MECHANISMS if kind.accepts("k") and {"open", "bounded"} & {*kind.domains}}
    assert set(OURS) == told
    assert {"find-then-choose", "peel-then-test", "test-first", "limited-domain", *RIVALS} < set(METHODS)


def test_the_words_under_the_table_name_every_exception():
    def scores(default, other):
        low = Score(recall=Estimate(0.1, 0.0), precision=None, released=0.0)
        found = {(log, method): low for log in ("here", "there") for method in METHODS}
        found |= {
            (log, "find-then-choose"): Score(recall=Estimate(default, 0), precision=1, released=9.0) for log in logs
        }
        found["there", "limited-domain"] = Score(recall=Estimate(other, 0), precision=1, released=9.0)
        return found

    logs = {"here": "Here", "there": "There"}
    found = {(50, 1.0): scores(0.5, 0.55), (50, 3.0): scores(0.5, 0.9)}
    means = {place: study.mean_recalls(one, tuple(logs)) for place, one in found.items()}
    assert means[50, 3.0]["limited-domain"].mean == pytest.approx(0.5)
    table = study.tabulate_behind(found, means, logs)
    with_bound = [row for row in table.rows if row[0] == "50 items"]
    assert [row[3:6] for row in with_bound] == [("find-then-choose", 0.5, "find-then-choose")] * 2
    assert [(row[8], row[9], round(row[10], 3)) for row in with_bound] == [
        ("There", "limited-domain", 0.05),
        ("There", "limited-domain", 0.4),
    ]
    assert (
        "With D = 50, on one log, the default is at most 0.400 below the best; more than 0.06 below in 1 of 4 cells: "
        "There, k = 50, epsilon = 3: limited-domain (0.400)." in table.note
    )
    assert "With D = 50, in the mean over logs, the default is at most 0.000 below" in table.note
    without = [row for row in table.rows if row[0] == "none"]  # peel-then-test found a tenth
    assert [(row[3], row[5]) for row in without] == [("peel-then-test", "limited-domain")] * 2


@pytest.mark.slow
def test_the_whole_report_on_a_generated_log(tmp_path, monkeypatch):
    monkeypatch.setattr(study, "DATA", ("brightkite",))
    monkeypatch.setattr(study, "SIZES", (3, 20))
    monkeypatch.setattr(study, "EPSILONS", (3.0,))
    report = study.run(Setting(trials=3, jobs=1))
    page = report.write(tmp_path, "*A run.*")[0].read_text(encoding="utf-8")
    assert page.startswith(
        "# Long tails: the top k of any log, k given (generated logs)\n\n*A run.*\n\n- Brightkite: a"
    )
    assert [table.name for table in report.tables] == ["behind", "mean", "recall", "precision", "released"]
    behind, mean, *each = report.tables
    assert len(behind.rows) == 4
    assert all(len(table.rows) == 2 for table in (mean, *each))
    assert {row[3] for row in behind.rows} == {"test-first", "find-then-choose", "peel-then-test"}
    released = each[2].rows[0][3:]
    assert all(0 <= number <= 3 for number in released)
    for name in ("mean", "logs"):
        assert (tmp_path / f"long-tail-{name}.png").read_bytes().startswith(b"\x89PNG")
        assert 10_000 < (tmp_path / f"long-tail-{name}.svg").stat().st_size < 200_000
