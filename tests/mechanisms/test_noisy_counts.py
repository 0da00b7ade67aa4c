"""Noisy counts: of released items only, charged for what went out, true up to discrete Gaussian noise."""

import functools
import json
import math
import pickle
from dataclasses import replace
from itertools import combinations, product

import numpy as np
import pytest
from scipy.stats import chisquare

import cutline
from cutline.count_errors import LEVEL, CountError, spread
from cutline.errors import AdjacencyError, BudgetError, DomainError, ParameterError
from cutline.histogram import BoundedHistogram, ClosedHistogram, OpenHistogram
from cutline.mechanisms.adaptive.stable_top_k import StableTopK
from cutline.mechanisms.closed.peeling import PeelingEM
from cutline.mechanisms.noisy_counts import NoisyCounts, calibrate_with_counts, true_counts, with_counts
from cutline.mechanisms.open.top_stable import TopStable
from cutline.privacy import Adjacency, Budget, Cost, Filter, Gaussian, Pure
from cutline.release import Release
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
    noisy = NoisyCounts(sigma=4.0, adjacency=ADD)
    counted = with_counts(release, histogram, noisy, rng=SeededSource(1))
    assert list(counted.counts) == ["a", "b", "c"]
    assert all(abs(counted.counts[item] - COUNTS[item]) < 30 for item in "abc")
    assert counted.items == release.items
    assert counted.steps == (*release.steps, "counts")
    assert counted.seeded
    assert pickle.loads(pickle.dumps(counted)) == counted
    assert counted.mechanism["counts"] == {"sigma_of_one": 4.0}


def test_every_set_costs_the_same_and_the_noise_is_that_of_what_went_out():
    histogram, release = released()
    noisy = NoisyCounts(sigma=4.0, adjacency=ADD)
    counted = with_counts(release, histogram, noisy, rng=SeededSource(1))
    assert counted.cost == release.cost + noisy.cost_of(3)
    assert noisy.cost_of(3) == noisy.cost_of(500) == noisy.cost
    assert noisy.cost.rdp(8.0) == pytest.approx(8 / (2 * 16))
    assert counted.count_error.deviation == noisy.deviation(3) == pytest.approx(4 * math.sqrt(3))
    assert counted.to_dict()["count_error"]["intervals"][0][0] == counted.counts["a"] - math.ceil(1.96 * 4 * 3**0.5)
    assert "gdp" not in noisy.cost.epsilons(1e-6)  # the profile of the discrete law is another


def test_a_withheld_or_empty_release_costs_nothing_more():
    flat = OpenHistogram.from_counts(dict.fromkeys("abcdef", 5), max_k=4)
    release = StableTopK.calibrate(BUDGET, max_k=4).release(flat, rng=SeededSource(0))
    assert release.items is None
    noisy = NoisyCounts(sigma=4.0, adjacency=ADD)
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
    noisy = NoisyCounts(sigma=1.0, adjacency=ADD)
    with pytest.raises(ParameterError, match="candidates"):
        noisy.counts(ClosedHistogram.from_counts({"a": 3}), ["b"])


def test_noise_has_the_law_of_the_discrete_gaussian():
    noisy = NoisyCounts(sigma=2.0 / math.sqrt(4000), adjacency=ADD)
    assert noisy.deviation(4000) == pytest.approx(2.0, rel=1e-12)
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


@functools.cache
def noise_divergence(order, moves, here, there=None):
    """The exact Rényi divergence of two vectors of counts with discrete Gaussian noise that are so far apart."""
    whole = np.arange(-120, 121)

    def log_law(deviation, at):
        logs = -((whole - at) ** 2) / (2 * deviation**2)
        return logs - math.log(np.sum(np.exp(-(whole**2) / (2 * deviation**2))))

    p = log_law(here, 0)
    terms = {move: order * p + (1 - order) * log_law(there or here, move) for move in set(moves)}
    return sum(np.logaddexp.reduce(terms[move]) / (order - 1) for move in moves)


@pytest.mark.parametrize("order", [2.0, 8.0])
def test_claimed_divergence_holds_between_exact_neighbouring_laws_of_sets_of_any_size(order):
    """Moved by all of (-1, 0, 1): the divergence never passes the claim, and nearly reaches it for every size."""
    noisy = NoisyCounts(sigma=0.8, adjacency=REPLACE)
    claim = noisy.cost.rdp(order)
    for size in (1, 2, 3):
        for moves in product((-1, 0, 1), repeat=size):
            assert noise_divergence(order, moves, noisy.deviation(size)) <= claim * (1 + 1e-9)
        assert noise_divergence(order, (1,) * size, noisy.deviation(size)) > 0.9 * claim
    assert noise_divergence(order, (1, 1), noisy.sigma) > 1.5 * claim  # control: the deviation must grow


@pytest.mark.parametrize("adjacency", Adjacency)
@pytest.mark.parametrize("grows", ["with what went out", "not at all", "with what was seen"])
def test_a_set_with_its_counts_costs_what_both_steps_cost(adjacency, grows):
    """Every pair of neighbours among three items: the exact law of set and counts together, k found and part of the output.

    Between two members of a pair, the chance of a set moves by the mechanism's law and its counts by the noise, whose scale
    depends on the set alone. The controls keep the scale of one item, or take it from how many items were seen.
    """
    order, largest, outcomes = 3.0, 2, [frozenset(chosen) for n in (1, 2, 3) for chosen in combinations(range(3), n)]
    chooser = 0.4  # epsilon of a draw of the set, by the exponential mechanism on its smallest count
    noisy = NoisyCounts(sigma=0.7, adjacency=adjacency)
    rows = all_counts(3, largest)
    scores = np.array([[min(row[i] for i in chosen) for chosen in outcomes] for row in rows.tolist()], dtype=float)
    weights = np.exp(chooser * scores / 2)
    laws = weights / weights.sum(axis=1, keepdims=True)

    def scale(row, chosen):
        sizes = {"with what went out": len(chosen), "not at all": 1, "with what was seen": int((row > 0).sum())}
        return noisy.deviation(max(1, sizes[grows]))

    worst = 0.0
    for first, second in zip(*neighbours(rows, largest, adjacency), strict=True):
        total = 0.0
        for column, chosen in enumerate(outcomes):
            moves = tuple(sorted(abs(int(rows[first][i] - rows[second][i])) for i in chosen))
            scales = (scale(row, chosen) for row in (rows[first], rows[second]))
            p, q = laws[first, column], laws[second, column]
            apart = min(
                noise_divergence(order, moves, *scales), 100.0
            )  # noise of another scale is as good as infinitely far
            total += p**order * q ** (1 - order) * math.exp((order - 1) * apart)
        worst = max(worst, math.log(total) / (order - 1))
    claim = (Cost.of(Pure(epsilon=chooser), adjacency=adjacency) + noisy.cost).rdp(order)
    assert (worst <= claim * (1 + 1e-9)) == (grows == "with what went out"), worst / claim


def test_an_interval_is_wide_enough_by_the_exact_law():
    for deviation in np.geomspace(0.05, 200, 120).tolist():
        width = CountError(deviation=deviation).half_width
        whole = np.arange(-2000, 2001)
        chances = np.exp(-(whole**2) / (2 * deviation**2))
        covered = chances[np.abs(whole) <= width].sum() / chances.sum()
        assert covered >= LEVEL
        short = chances[np.abs(whole) <= 0.7 * 1.96 * deviation].sum() / chances.sum()
        assert deviation < 2 or short < 0.9


RUNS = 300


@pytest.mark.parametrize("asked", [{"k": 3}, {}], ids=["k told", "k found"])
def test_intervals_cover_the_true_counts(asked):
    counts = {"a": 900, "b": 880, "c": 850, "d": 12, "e": 3}
    quoted = cutline.quote(max_k=20, counts=True, **asked)
    histogram = OpenHistogram.from_counts(counts, max_k=20)
    covered, shown, rng = 0, 0, SeededSource(5)
    for _ in range(RUNS):
        release = quoted.work.draw_one(histogram, rng)
        for item, noisy in (release.counts or {}).items():
            low, high = release.count_error.interval(noisy)
            covered += low <= counts[item] <= high
            shown += 1
    assert shown >= 3 * RUNS * 0.9
    # The counts of one release are independent, so each is a trial of its own.
    assert covered / shown >= LEVEL - 3 * math.sqrt(LEVEL * (1 - LEVEL) / shown)
    assert covered / shown < 0.99  # an interval that covers too often is too wide


def test_five_items_have_the_noise_of_five():
    """With an allowance for max_k = 100 items the deviation was 131."""
    asked = cutline.quote(counts=True)
    error = CountError.of_release(asked.mechanism["counts"], 5)
    assert error.deviation < 30
    assert CountError.of_release(asked.mechanism["counts"], 100).deviation > 100


def test_ordered_releases_keep_counts_in_their_order():
    histogram = ClosedHistogram.from_counts({"a": 10, "b": 5000, "c": 90_000})
    mechanism = PeelingEM.calibrate(BUDGET, k=3)
    release = mechanism.release(histogram, rng=SeededSource(0))
    counted = with_counts(release, histogram, NoisyCounts(sigma=1.0, adjacency=ADD), rng=SeededSource(1))
    assert list(counted.counts) == list(counted.items) == ["c", "b", "a"]
    plain = counted.to_dict()
    assert plain["counts"] == sorted(plain["counts"], reverse=True)


def test_a_count_below_zero_says_what_it_means():
    error = CountError(deviation=10.0)
    assert error.in_words(-5) == "at most 15 (-5 ± 20)"
    assert error.interval(-50) == (0, 0)


def test_answers_that_were_kept_before_have_their_error_too():
    _, release = released()
    old = replace(
        release,
        counts=dict.fromkeys("abc", 300),
        mechanism={**release.mechanism, "counts": {"sigma": 4.0, "max_k": 10}},
    )
    assert Release.from_record(json.loads(json.dumps(old.to_record()))).count_error.deviation == 4.0


@pytest.mark.parametrize("releases", [1, 50])
def test_calibration_spends_it_all_and_no_more(releases):
    budget = Budget(epsilon=1.0, delta=1e-6, releases=releases)
    noisy = NoisyCounts.calibrate(budget)
    assert 1 - 1e-6 <= (releases * noisy.cost).epsilons(1e-6)["rdp"] <= 1.0
    limits = budget.filter(order=40.0, delta_share=0.0)
    filtered = NoisyCounts.calibrate(budget, limits=limits)
    assert limits.admits(0.0, 0.0, releases * filtered.cost)
    assert (releases * filtered.cost).rdp(40.0) >= limits.rdp * (1 - 1e-6)
    with pytest.raises(BudgetError):
        NoisyCounts.calibrate(budget, limits=Filter(order=40.0, rdp=9.0, delta=0.0))


@pytest.mark.parametrize("adjacency", Adjacency)
@pytest.mark.parametrize(
    ("kind", "public"),
    [(StableTopK, {"max_k": 10}), (StableTopK, {"max_k": 10, "choose": "argmax"}), (TopStable, {"k": 4})],
)
@pytest.mark.parametrize("releases", [1, 20])
def test_a_mechanism_and_its_counts_share_one_budget(kind, public, releases, adjacency):
    budget = Budget(epsilon=1.0, delta=1e-6, releases=releases)
    mechanism, noisy = calibrate_with_counts(kind, budget, adjacency=adjacency, **public)
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
        with_counts(release, histogram, NoisyCounts(sigma=1.0, adjacency=REPLACE))
    noisy = NoisyCounts(sigma=1.0, adjacency=ADD)
    counted = with_counts(release, histogram, noisy, rng=SeededSource(0))
    with pytest.raises(ParameterError, match="once"):
        with_counts(counted, histogram, noisy)
    for sigma in (0.0, math.nan, 2.0**30):  # the last could not be drawn for a set of millions
        with pytest.raises(ParameterError):
            NoisyCounts(sigma=sigma, adjacency=ADD)
    for share in (0.0, 1.0, math.nan):
        with pytest.raises(ParameterError, match="share"):
            calibrate_with_counts(StableTopK, BUDGET, counts_share=share)


PAIR = ({"a": 4000, "b": 3000, "c": 90}, {"a": 900, "b": 800, "c": 9})


@pytest.mark.parametrize("adjacency", list(Adjacency))
def test_counts_after_the_bound_are_labelled_and_priced_by_the_bound(adjacency):
    moved = 3 if adjacency is Adjacency.ADD_REMOVE else 6
    asked = cutline.quote(max_items_per_user=3, counts="bounded", adjacency=adjacency, rng=SeededSource(0))
    release = asked.run(PAIR)
    assert release.items == {"a", "b"}
    assert release.mechanism["counts"]["of"] == "users after the bound"
    assert release.mechanism["counts"]["moved"] == moved
    sigma = release.count_error.deviation
    assert all(abs(release.counts[item] - PAIR[1][item]) < 6 * sigma for item in "ab")
    assert sigma == spread(release.mechanism["counts"]["sigma_of_one"], 2)  # two items went out
    (reserved, paid) = (
        [use.curve for use in cost.uses if isinstance(use.curve, Gaussian)] for cost in (asked.cost, release.cost)
    )
    assert reserved == paid
    assert asked.budget.fits(asked.cost)


def test_a_set_of_any_size_is_counted_after_the_bound():
    noisy = NoisyCounts(sigma=2.0, adjacency=Adjacency.ADD_REMOVE, bound=3)
    counts = dict.fromkeys(range(500), 40)
    histogram = BoundedHistogram.from_counts(counts, counts, max_items_per_user=3)
    found = noisy.counts(histogram, range(500), rng=SeededSource(1))
    errors = np.array([found[item] - 40 for item in range(500)])
    assert noisy.deviation(500) == noisy.deviation(3) > noisy.deviation(2)
    assert 0.8 < errors.std() / noisy.deviation(3) < 1.2
    assert noisy.cost_of(500) == noisy.cost_of(3) == noisy.cost
    with pytest.raises(DomainError, match="after the bound"):
        noisy.counts(OpenHistogram.from_counts({"a": 9}, max_k=3), ["a"])


@pytest.mark.parametrize(
    ("adjacency", "bound", "parts", "hidden"),
    [
        (ADD, 3, 1, True),
        (ADD, 4, 1, False),  # one person moves four counts
        (ADD, 1, 8, False),  # one person moves one count by up to eight
        (REPLACE, 2, 1, False),  # two fall and two others rise
        (REPLACE, 1, 1, True),
    ],
)
def test_the_noise_of_counts_after_the_bound_is_for_that_bound(adjacency, bound, parts, hidden):
    noisy = NoisyCounts(sigma=2.0, adjacency=adjacency, bound=3)
    histogram = BoundedHistogram.from_counts({"a": 9}, {"a": 9}, max_items_per_user=bound, parts=parts)
    if hidden:
        assert noisy.counts(histogram, ["a"], rng=SeededSource(1)).keys() == {"a"}
        return
    with pytest.raises(DomainError, match="made for that bound"):
        noisy.counts(histogram, ["a"], rng=SeededSource(1))


@pytest.mark.parametrize(
    "wrong",
    [
        {"counts": "bounded"},
        {"counts": "all", "max_items_per_user": 3},
        {"counts": "bounded", "mechanism": "peel-then-test", "k": 2},  # counts each user in all items
        {"counts": "bounded", "max_items_per_user": 3, "vote_parts": 8},
    ],
)
def test_counts_that_make_no_sense_are_refused(wrong):
    with pytest.raises(ParameterError, match="counts") as refused:
        cutline.quote(**wrong)
    assert "None" not in str(refused.value)
    assert ("vote_parts=8" in str(refused.value)) == ("vote_parts" in wrong)


def test_counts_of_all_users_of_a_set_of_any_size():
    release = cutline.top(PAIR, max_items_per_user=3, counts=True, rng=SeededSource(0))
    assert release.items == {"a", "b"}
    assert all(abs(n - PAIR[0][item]) < 6 * release.count_error.deviation for item, n in release.counts.items())
