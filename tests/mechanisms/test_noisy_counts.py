"""Noisy counts: of released items only, charged for what went out, true up to discrete Gaussian noise."""

import math
import pickle
from itertools import product

import numpy as np
import pytest
from scipy.stats import chisquare

import cutline
from cutline.errors import AdjacencyError, BudgetError, DomainError, ParameterError
from cutline.histogram import BoundedHistogram, ClosedHistogram, OpenHistogram
from cutline.mechanisms.adaptive.stable_top_k import StableTopK
from cutline.mechanisms.noisy_counts import NoisyCounts, calibrate_with_counts, true_counts, with_counts
from cutline.mechanisms.open.top_stable import TopStable
from cutline.privacy import Adjacency, Budget, Filter, Gaussian
from cutline.sampling import SeededSource
from cutline.verify.universe import all_counts, neighbours

ADD, REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE
COUNTS = {"a": 340, "b": 333, "c": 329, "d": 12, "e": 11}
BUDGET = Budget(epsilon=1.0, delta=1e-6)


def released(adjacency=ADD, seed=0):
    histogram = OpenHistogram.from_counts(COUNTS, max_k=10)
    mechanism = StableTopK.calibrate(BUDGET, max_k=10, adjacency=adjacency)
    return histogram, mechanism.release(histogram, rng=SeededSource(seed))


def test_counts_are_of_the_released_items_in_their_own_order_and_near_the_truth():
    histogram, release = released()
    noisy = NoisyCounts(sigma=4.0, max_k=10, adjacency=ADD)
    counted = with_counts(release, histogram, noisy, rng=SeededSource(1))
    assert list(counted.counts) == ["a", "b", "c"]
    assert all(abs(counted.counts[item] - COUNTS[item]) < 30 for item in "abc")
    assert counted.items == release.items
    assert counted.steps == (*release.steps, "counts")
    assert counted.seeded
    assert pickle.loads(pickle.dumps(counted)) == counted
    assert counted.mechanism["counts"] == {"sigma": 4.0, "max_k": 10}


def test_what_went_out_is_charged_and_the_worst_case_is_known_before():
    histogram, release = released()
    noisy = NoisyCounts(sigma=4.0, max_k=10, adjacency=ADD)
    counted = with_counts(release, histogram, noisy, rng=SeededSource(1))
    assert counted.cost == release.cost + noisy.cost_of(3)
    assert noisy.cost_of(3).rdp(8.0) == pytest.approx(8 * 3 / (2 * 16))
    assert noisy.cost.rdp(8.0) == pytest.approx(8 * 10 / (2 * 16))
    assert "gdp" not in noisy.cost.epsilons(1e-6)  # the profile of the discrete law is another


def test_a_withheld_or_empty_release_costs_nothing_more():
    flat = OpenHistogram.from_counts(dict.fromkeys("abcdef", 5), max_k=4)
    release = StableTopK.calibrate(BUDGET, max_k=4).release(flat, rng=SeededSource(0))
    assert release.items is None
    noisy = NoisyCounts(sigma=4.0, max_k=4, adjacency=ADD)
    asked = with_counts(release, flat, noisy)
    assert (asked.counts, asked.cost, asked.steps) == (None, release.cost, release.steps)
    assert asked.reserved == release.cost + noisy.cost
    assert noisy.cost_of(0).rdp(5.0) == 0
    assert noisy.counts(flat, []) == {}


@pytest.mark.parametrize("kind", ["open", "closed", "array"])
def test_true_counts_are_found_by_rank_in_every_shape(kind):
    rng = np.random.default_rng(0)
    values = rng.integers(0, 30, 10_000)
    histogram = {
        "open": lambda: OpenHistogram.from_counts(values, max_k=9_000),
        "closed": lambda: ClosedHistogram.from_counts({f"i{i}": int(v) for i, v in enumerate(values)}),
        "array": lambda: ClosedHistogram.from_counts(values),
    }[kind]()
    some = rng.choice(10_000, 50, replace=False).tolist()
    items = [f"i{i}" for i in some] if kind == "closed" else some
    floor = int(histogram.counts[-1]) if kind == "open" else 0
    assert true_counts(histogram, items).tolist() == np.maximum(values[some], floor).tolist()


@pytest.mark.parametrize("adjacency", Adjacency)
def test_any_public_set_moves_by_at_most_one_per_count_even_past_the_window(adjacency):
    """The window of an open histogram moves with the data; what is read for an item outside it must not jump."""
    counts = all_counts(3, 4)
    tables = [
        true_counts(OpenHistogram.from_counts(dict(zip("abc", row, strict=True)), max_k=1), ["a", "b", "c"])
        for row in counts.tolist()
    ]
    first, second = neighbours(counts, 4, adjacency)
    moves = np.abs(np.array(tables)[first] - np.array(tables)[second])
    assert moves.max() == 1


def test_a_count_that_is_no_candidate_is_refused_without_a_number():
    noisy = NoisyCounts(sigma=1.0, max_k=5, adjacency=ADD)
    with pytest.raises(ParameterError, match="candidates"):
        noisy.counts(ClosedHistogram.from_counts({"a": 3}), ["b"])


def test_noise_has_the_law_of_the_discrete_gaussian():
    noisy = NoisyCounts(sigma=2.0, max_k=4000, adjacency=ADD)
    histogram = ClosedHistogram.from_counts(np.full(4000, 50))
    drawn = np.array(list(noisy.counts(histogram, range(4000), rng=SeededSource(3)).values())) - 50
    values = np.arange(-5, 6)

    def p_value(sigma):
        weights = np.exp(-(np.arange(-60, 61) ** 2) / (2 * sigma**2))
        inner = weights[55:66] / weights.sum()
        observed = [int(np.sum(drawn == v)) for v in values]
        expected = np.append(inner, 1 - inner.sum()) * len(drawn)
        return chisquare([*observed, len(drawn) - sum(observed)], expected).pvalue

    assert p_value(2.0) > 1e-3
    assert p_value(1.4) < 1e-6
    assert p_value(2.6) < 1e-6


@pytest.mark.slow
@pytest.mark.parametrize("order", [2.0, 8.0])
def test_claimed_divergence_holds_between_exact_neighbouring_laws(order):
    """Two counts moved by all of (-1, 0, 1): the Rényi divergence of the product law never passes the claim."""
    sigma = 0.8
    whole = np.arange(-60, 61)
    total = math.log(np.sum(np.exp(-(whole**2) / (2 * sigma**2))))

    def divergence(move):
        here, there = (-((whole - m) ** 2) / (2 * sigma**2) - total for m in (0, move))
        return math.log(np.sum(np.exp(order * here + (1 - order) * there))) / (order - 1)

    claim = NoisyCounts(sigma=sigma, max_k=2, adjacency=REPLACE).cost.rdp(order)
    for moves in product((-1, 0, 1), repeat=2):
        assert sum(divergence(m) for m in moves) <= claim * (1 + 1e-9)
    assert 2 * divergence(1) > 0.9 * claim


@pytest.mark.parametrize("releases", [1, 50])
@pytest.mark.parametrize("max_k", [1, 30])
def test_calibration_spends_it_all_and_no_more(releases, max_k):
    budget = Budget(epsilon=1.0, delta=1e-6, releases=releases)
    noisy = NoisyCounts.calibrate(budget, max_k=max_k)
    assert 1 - 1e-6 <= (releases * noisy.cost).epsilons(1e-6)["rdp"] <= 1.0
    limits = budget.filter(order=40.0, delta_share=0.0)
    filtered = NoisyCounts.calibrate(budget, max_k=max_k, limits=limits)
    assert limits.admits(0.0, 0.0, releases * filtered.cost)
    assert (releases * filtered.cost).rdp(40.0) >= limits.rdp * (1 - 1e-6)
    with pytest.raises(BudgetError):
        NoisyCounts.calibrate(budget, max_k=max_k, limits=Filter(order=40.0, rdp=9.0, delta=0.0))


@pytest.mark.parametrize("adjacency", Adjacency)
@pytest.mark.parametrize(
    ("kind", "public"),
    [(StableTopK, {"max_k": 10}), (StableTopK, {"max_k": 10, "choose": "argmax"}), (TopStable, {"k": 4})],
)
@pytest.mark.parametrize("releases", [1, 20])
def test_a_mechanism_and_its_counts_share_one_budget(kind, public, releases, adjacency):
    budget = Budget(epsilon=1.0, delta=1e-6, releases=releases)
    mechanism, noisy = calibrate_with_counts(kind, budget, counted=10, adjacency=adjacency, **public)
    both = mechanism.cost + noisy.cost
    assert budget.fits(both)
    assert (releases * both).epsilons(1e-6)["rdp"] >= 1 - 1e-5
    assert mechanism.cost.adjacency is noisy.cost.adjacency is adjacency
    histogram = OpenHistogram.from_counts({item: 40 * count for item, count in COUNTS.items()}, max_k=10)
    release = mechanism.release(histogram, rng=SeededSource(1))
    counted = with_counts(release, histogram, noisy, rng=SeededSource(2))
    assert counted.released
    assert counted.guarantee.startswith("(1, 1e-06)-DP")


def test_mixtures_and_nonsense_are_refused():
    histogram, release = released()
    with pytest.raises(AdjacencyError):
        with_counts(release, histogram, NoisyCounts(sigma=1.0, max_k=10, adjacency=REPLACE))
    noisy = NoisyCounts(sigma=1.0, max_k=10, adjacency=ADD)
    counted = with_counts(release, histogram, noisy, rng=SeededSource(0))
    with pytest.raises(ParameterError, match="once"):
        with_counts(counted, histogram, noisy)
    with pytest.raises(ParameterError, match="max_k"):
        NoisyCounts(sigma=1.0, max_k=2, adjacency=ADD).counts(histogram, "abc")
    for fields in ({"sigma": 0.0}, {"sigma": math.nan}, {"max_k": 0}, {"max_k": None}):
        with pytest.raises(ParameterError):
            NoisyCounts(**({"sigma": 1.0, "max_k": 2, "adjacency": ADD} | fields))
    for share in (0.0, 1.0, math.nan):
        with pytest.raises(ParameterError, match="share"):
            calibrate_with_counts(StableTopK, BUDGET, counted=5, counts_share=share)


PAIR = ({"a": 4000, "b": 3000, "c": 90}, {"a": 900, "b": 800, "c": 9})


@pytest.mark.parametrize("adjacency", list(Adjacency))
def test_counts_after_the_bound_are_labelled_and_priced_by_the_bound(adjacency):
    moved = 3 if adjacency is Adjacency.ADD_REMOVE else 6
    asked = cutline.quote(max_items_per_user=3, counts="bounded", adjacency=adjacency, rng=SeededSource(0))
    release = asked.run(PAIR)
    assert release.items == {"a", "b"}
    assert release.mechanism["counts"]["of"] == "users after the bound"
    sigma = release.mechanism["counts"]["sigma"]
    assert all(abs(release.counts[item] - PAIR[1][item]) < 6 * sigma for item in "ab")
    (counted,) = (use.curve for use in asked.cost.uses if isinstance(use.curve, Gaussian))
    assert counted.squared_sensitivity == moved
    (paid,) = (use.curve for use in release.cost.uses if isinstance(use.curve, Gaussian))
    assert paid.squared_sensitivity == 2  # two items went out, and no user moved more of them
    assert asked.budget.fits(asked.cost)


def test_a_set_of_any_size_is_counted_after_the_bound():
    noisy = NoisyCounts(sigma=2.0, max_k=3, adjacency=Adjacency.ADD_REMOVE, bound=3)
    counts = dict.fromkeys(range(500), 40)
    histogram = BoundedHistogram.from_counts(counts, counts, max_items_per_user=3)
    found = noisy.counts(histogram, range(500), rng=SeededSource(1))
    errors = np.array([found[item] - 40 for item in range(500)])
    assert 1.6 < errors.std() < 2.4
    assert noisy.cost_of(500) == noisy.cost_of(3) == noisy.cost
    assert noisy.cost_of(2).rdp(2.0) < noisy.cost.rdp(2.0)
    with pytest.raises(DomainError, match="after the bound"):
        noisy.counts(OpenHistogram.from_counts({"a": 9}, max_k=3), ["a"])


@pytest.mark.parametrize(
    "wrong",
    [
        {"counts": "bounded"},
        {"counts": "all", "max_items_per_user": 3},
        {"counts": "bounded", "max_items_per_user": 3, "k": 2},  # counts each user in all items
        {"counts": "bounded", "max_items_per_user": 3, "vote_parts": 8},
        {"counts": True, "max_items_per_user": 3},  # a set of any size
    ],
)
def test_counts_that_make_no_sense_are_refused(wrong):
    with pytest.raises(ParameterError, match="counts"):
        cutline.quote(**wrong)
