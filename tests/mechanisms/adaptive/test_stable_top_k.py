"""StableTopK: the promised gaps, the right sets, the exact law."""

import math

import numpy as np
import pytest

from cutline.errors import LawTooLarge, ParameterError
from cutline.histogram import ClosedHistogram, OpenHistogram
from cutline.mechanisms import StableTopK
from cutline.mechanisms.adaptive.choosers import GapArgmax, GapExponential, Preference
from cutline.mechanisms.adaptive.gap_tests import GaussianTest, TableTest
from cutline.mechanisms.one_gap import one_gap
from cutline.outcome import Outcome
from cutline.privacy import Adjacency, BitTable, Budget
from cutline.sampling import SeededSource

ADD, REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE
ROWS = [  # epsilon, releases, max_k, the README's number of joint, em and argmax, the paper's own
    (0.5, 1, 100, (43, 61, 61), 112),
    (1.0, 1, 100, (22, 31, 31), 57),
    (2.0, 1, 100, (12, 16, 17), 29),
    (1.0, 2, 100, (44, 53, 63), 81),
    (1.0, 3, 100, (67, 66, 81), 99),
    (1.0, 10, 100, (231, 118, 133), 184),
    (1.0, 100, 100, (1117, 351, 315), 600),
    (3.66, 600, 39, (869, 229, 205), 424),
]
FORMS = ("joint", "em", "argmax")


@pytest.mark.parametrize(("epsilon", "releases", "max_k", "most", "paper"), ROWS)
def test_one_gap_numbers(epsilon, releases, max_k, most, paper):
    budget = Budget(epsilon=epsilon, delta=1e-6, releases=releases)
    built = {
        **{choose: StableTopK.calibrate(budget, max_k=max_k, choose=choose) for choose in FORMS},
        "paper": StableTopK.calibrate(budget, max_k=max_k, test="paper"),
        "best": StableTopK.calibrate(budget, max_k=max_k),
    }
    assert all(budget.fits(each.cost) for each in built.values())
    gaps = {name: one_gap(each.chance, max_k=max_k) for name, each in built.items()}
    assert all(gaps[choose] <= bar for choose, bar in zip(FORMS, most, strict=True))
    assert gaps["paper"] == paper
    assert gaps["best"] == min(gaps[choose] for choose in FORMS)
    assert gaps[built["best"].describe()["choose"]] == gaps["best"]


@pytest.mark.parametrize(("order", "choose"), [(243.0, "joint"), (25.0, "em"), (12.0, "em")])
def test_a_ledgers_order_decides_the_form(order, choose):
    """One draw is dear at a moderate order: the form is compared where it is paid for."""
    budget = Budget(epsilon=1.0, delta=1e-6)
    limits = budget.filter(order=order, delta_share=0.1)
    mechanism = StableTopK.calibrate(budget, limits=limits)
    assert mechanism.describe()["choose"] == choose
    assert limits.admits(0.0, 0.0, mechanism.cost)
    gaps = [one_gap(StableTopK.calibrate(budget, limits=limits, choose=c).chance, max_k=100) for c in FORMS]
    assert one_gap(mechanism.chance, max_k=100) == min(gaps)


@pytest.mark.parametrize("fields", [{"target": 3}, {"target": 3, "weight": 1.0}, {"clip": 40}, {"test": "table"}])
def test_what_belongs_to_choose_then_test_keeps_its_form(fields):
    assert StableTopK.calibrate(Budget(epsilon=1.0, delta=1e-6), max_k=10, **fields).describe()["choose"] == "em"


@pytest.mark.parametrize(
    ("epsilon", "releases", "fixed"),
    [(0.5, 1, 31), (1.0, 1, 16), (2.0, 1, 9), (1.0, 2, 32), (1.0, 10, 67), (1.0, 100, 158), (3.66, 600, 103)],
)
def test_one_gap_numbers_of_a_fixed_k(epsilon, releases, fixed):
    budget = Budget(epsilon=epsilon, delta=1e-6, releases=releases)
    only = StableTopK.calibrate(budget, max_k=20, min_k=20)
    assert isinstance(only.chooser, GapArgmax)
    assert one_gap(only.chance, max_k=20, k=20) <= fixed


def cliff(max_k=50):
    return OpenHistogram.from_counts(
        {f"top{i:02d}": 900 + i for i in range(7)} | {f"low{i:02d}": 300 + i for i in range(80)}, max_k=max_k
    )


@pytest.mark.parametrize("adjacency", Adjacency)
@pytest.mark.parametrize("choose", FORMS)
def test_a_true_cliff_is_released_and_is_right(adjacency, choose):
    mechanism = StableTopK.calibrate(Budget(epsilon=1.0, delta=1e-6), max_k=50, adjacency=adjacency, choose=choose)
    for seed in range(20):
        release = mechanism.release(cliff(), rng=SeededSource(seed))
        assert release.items == frozenset(f"top{i:02d}" for i in range(7))
        assert release.k == 7
        steps = ("draw",) if choose == "joint" else ("choose", "test")
        assert release.outcome == Outcome(items=release.items, k=7, steps=steps)


@pytest.mark.parametrize("choose", FORMS)
def test_no_gap_is_withheld(choose):
    flat = OpenHistogram.from_counts({i: 1000 - i for i in range(200)}, max_k=50)
    mechanism = StableTopK.calibrate(Budget(epsilon=1.0, delta=1e-6), max_k=50, choose=choose)
    for seed in range(50):
        release = mechanism.release(flat, rng=SeededSource(seed))
        assert release.items is None
        assert (release.k > 0) == (choose == "em")  # the others never show the k of a withheld set


@pytest.mark.parametrize("counts", [{}, {"only": 3}, dict.fromkeys("abcdef", 4)])
@pytest.mark.parametrize("choose", FORMS)
def test_empty_single_and_tied_logs_run_the_same_path(counts, choose):
    mechanism = StableTopK.calibrate(Budget(epsilon=1.0, delta=1e-6), max_k=10, choose=choose)
    histogram = OpenHistogram.from_counts(counts, max_k=10)
    law = mechanism.law(histogram)
    assert math.fsum(law.values()) == pytest.approx(1.0, abs=1e-12)
    released = sum(p for outcome, p in law.items() if outcome.items is not None)
    assert released < 1e-3
    assert mechanism.release(histogram, rng=SeededSource(1)).items is None


def test_k_beyond_the_seen_items_releases_the_seen_items():
    table = TableTest(table=BitTable(values=(0.5,)))
    mechanism = StableTopK(preference=Preference(max_k=5, min_k=5), chooser=GapArgmax(), test=table, adjacency=ADD)
    law = mechanism.law(OpenHistogram.from_counts({"a": 2, "b": 1}, max_k=5))
    withheld, released = (
        Outcome(items=items, k=k, steps=("choose", "test")) for items, k in ((None, 0), (frozenset("ab"), 5))
    )
    assert law == {released: 0.5, withheld: 0.5}
    assert (released.status, withheld.status) == ("partial", "withheld")


def test_closed_domain_smaller_than_max_k():
    mechanism = StableTopK.calibrate(Budget(epsilon=1.0, delta=1e-6), max_k=10)
    closed = ClosedHistogram.from_counts({"a": 200, "b": 0, "c": 195})
    assert mechanism.release(closed, rng=SeededSource(0)).items == frozenset("ac")
    assert math.fsum(mechanism.law(closed).values()) == pytest.approx(1.0)


SMALL = OpenHistogram.from_counts({"a": 9, "b": 7, "c": 7, "d": 3, "e": 2}, max_k=4)


def small(*, epsilon=0.8, stretch=1.0, adjacency=ADD, test="table"):
    tests = {
        "table": lambda: TableTest(table=BitTable.stability(order=4.0, rdp=0.3 * stretch, delta=0.05)),
        "gaussian": lambda: GaussianTest.exact(sigma=2.0 / stretch, delta=0.1),
        "paper": lambda: GaussianTest.paper(sigma=1.0 / stretch, delta=0.3),
    }
    return StableTopK(
        preference=Preference(max_k=4),
        chooser=GapExponential(epsilon=epsilon * stretch),
        test=tests[test](),
        adjacency=adjacency,
    )


@pytest.mark.parametrize("adjacency", Adjacency)
@pytest.mark.parametrize("test", ["table", "gaussian", "paper"])
def test_twenty_thousand_runs_match_the_law_and_reject_wrong_parameters(test, adjacency, p_value):
    right = small(test=test, adjacency=adjacency)
    cuts, passed = right.sample(SMALL, 20_000, rng=SeededSource(11))
    seen = [right.outcome(SMALL, k, passed=bool(yes)) for k, yes in zip(cuts.tolist(), passed, strict=True)]
    assert p_value(seen, right.law(SMALL)) > 1e-3
    for factor in (0.7, 1.3):
        assert p_value(seen, small(test=test, adjacency=adjacency, stretch=factor).law(SMALL)) < 1e-6


@pytest.mark.slow
def test_single_releases_follow_the_same_law_as_batches(p_value):
    mechanism, rng = small(), SeededSource(5)
    outcomes = [mechanism.release(SMALL, rng=rng).outcome for _ in range(4000)]
    assert p_value(outcomes, mechanism.law(SMALL)) > 1e-3


def test_window_target_and_clip_steer_the_cut():
    counts = {f"i{i:02d}": c for i, c in enumerate([2000] * 2 + [1000] * 4 + [500] * 20)}
    histogram = OpenHistogram.from_counts(counts, max_k=20)
    budget = Budget(epsilon=1.0, delta=1e-6)
    assert StableTopK.calibrate(budget, max_k=20).release(histogram, rng=SeededSource(0)).k == 2
    assert StableTopK.calibrate(budget, max_k=20, min_k=3).release(histogram, rng=SeededSource(0)).k == 6
    steered = StableTopK.calibrate(budget, max_k=20, target=6, weight=50.0, clip=300)
    assert steered.release(histogram, rng=SeededSource(0)).k == 6
    assert steered.describe()["clip"] == 300


def test_preference_scores_are_exact_multiples():
    preference = Preference(max_k=4, target=2, weight=0.1)
    assert preference.weight == round(0.1 * 2**20) / 2**20
    assert preference.scores(np.array([[5, 5, 5, 5]]))[0, 0] == 5 * 2**20 - round(0.1 * 2**20)


@pytest.mark.parametrize(
    "fields",
    [
        {"min_k": 0},
        {"min_k": 11},
        {"min_k": 1.5},
        {"target": 0},
        {"target": 99},
        {"weight": 1.0},
        {"weight": -1.0, "target": 3},
        {"weight": math.nan, "target": 3},
        {"weight": math.inf, "target": 3},
        {"clip": 0},
        {"clip": 2.5},
        {"choose": "best"},
        {"test": "coin"},
        {"choose": "argmax", "test": "gaussian"},
        {"choose": "joint", "test": "table"},
        {"choose": "joint", "target": 3, "weight": 1.0},
        {"choose": "em", "prefer_larger": True},
        {"test": "paper", "prior": (1.0,) * 10},
        {"prior": (1.0,) * 9},
        {"prior": (1.0,) * 9 + (0.0,)},
        {"prior": (1.0,) * 9 + (math.nan,)},
        {"prior": (1.0,) * 9 + (1e-300,)},
        {"prior": "larger"},
        {"prior": (1.0,) * 10, "prefer_larger": True},
    ],
)
def test_refusals(fields):
    with pytest.raises(ParameterError):
        StableTopK.calibrate(Budget(epsilon=1.0, delta=1e-6), max_k=10, **fields)


def test_argmax_with_a_gaussian_test_is_refused_when_built_by_hand():
    with pytest.raises(ParameterError, match="argmax"):
        StableTopK(
            preference=Preference(max_k=5),
            chooser=GapArgmax(),
            test=GaussianTest.exact(sigma=1.0, delta=0.1),
            adjacency=ADD,
        )


def test_a_histogram_counted_with_a_smaller_max_k_is_refused():
    mechanism = StableTopK.calibrate(Budget(epsilon=1.0, delta=1e-6), max_k=10)
    with pytest.raises(ParameterError, match="max_k"):
        mechanism.release(OpenHistogram.from_counts({"a": 3}, max_k=5))


def test_a_huge_law_is_refused_by_name():
    mechanism = StableTopK(
        preference=Preference(max_k=60_000), chooser=GapExponential(epsilon=1.0), test=small().test, adjacency=ADD
    )
    with pytest.raises(LawTooLarge):
        mechanism.law(OpenHistogram.from_counts({"a": 3}, max_k=60_000))


@pytest.mark.slow
def test_tiny_budgets_are_refused_or_fit():
    for epsilon, delta, releases in [(0.02, 1e-9, 1), (20.0, 0.1, 1), (50.0, 1e-6, 2), (5.0, 1e-3, 5000)]:
        budget = Budget(epsilon=epsilon, delta=delta, releases=releases)
        assert budget.fits(StableTopK.calibrate(budget, max_k=10).cost)
