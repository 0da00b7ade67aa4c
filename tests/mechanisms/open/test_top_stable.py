"""Top Stable: the paper's constants, the exact law, the largest stable prefix."""

import math
from fractions import Fraction

import numpy as np
import pytest
from flint import arb
from scipy.integrate import quad

from cutline.errors import BudgetError, LawTooLarge, ParameterError
from cutline.histogram import ClosedHistogram, OpenHistogram
from cutline.mechanisms.noise_laws import first_pass_law
from cutline.mechanisms.open.top_stable import RATIO, TopStable, tail_within
from cutline.outcome import Outcome
from cutline.privacy import Adjacency, Budget, Filter
from cutline.sampling import SeededSource
from cutline.verify.check import Check
from cutline.verify.suites.mechanisms.top_stable import ByDistance
from cutline.verify.universe import Histograms

ADD, REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE
SMALL = OpenHistogram.from_counts({"a": 15, "b": 12, "c": 11, "d": 3}, max_k=3)


def small(*, stretch=1.0, adjacency=ADD, ranks=None):
    return TopStable(k=3, max_k=3, epsilon=1.2 * stretch, delta=0.2, adjacency=adjacency, ranks=ranks)


@pytest.mark.slow
def test_the_published_off_by_one_passes_by_accident_elsewhere():
    mechanism = TopStable(k=3, max_k=3, epsilon=0.5, delta=0.2, adjacency=ADD)
    check = Check(
        name="accident",
        mechanism="top-stable",
        expected="holds",
        subject=ByDistance(subject=mechanism, shift=1),
        universe=Histograms.named("open 4 x 6", ADD, max_k=4),
    )
    assert check.run().as_expected


def below(x):
    """The Laplace distribution function at scale 1."""
    return 1 - math.exp(-x) / 2 if x > 0 else math.exp(x) / 2


def brute_law(mechanism, histogram):
    """Integrate the algorithm as it is written, in plain floats."""
    eps1, eps2 = 0.37 * mechanism.epsilon, 0.63 * mechanism.epsilon
    threshold = math.log(1 / mechanism.delta_q) / (eps2 / 2)
    d = [int(mechanism.adjacency.distance(histogram.gaps(k))[k - 1]) for k in mechanism.tested]

    def share(j):
        def density(x):
            missed = math.prod(below((x - s) * eps2 / 2) for s in d[:j])
            last = below((d[j] - x) * eps2 / 2) if j < len(d) else 1.0
            return math.exp(-abs(x - threshold) * eps1) / 2 * eps1 * missed * last

        reach = 45 / eps1
        return quad(density, threshold - reach, threshold + reach, points=[threshold, *d], limit=500, epsabs=1e-13)[0]

    sets = [*((k, frozenset(histogram.top(k))) for k in mechanism.tested), (0, None)]
    outcomes = [Outcome(items=items, k=k, steps=("test",)) for k, items in sets]
    return {outcome: share(j) for j, outcome in enumerate(outcomes)}


@pytest.mark.parametrize("adjacency", Adjacency)
@pytest.mark.parametrize("ranks", [None, (1, 2, 3), (2, 3)])
@pytest.mark.parametrize("counts", [{"a": 15, "b": 12, "c": 11, "d": 3}, {"a": 40, "b": 9}, {}])
def test_law_is_the_integral_of_the_algorithm(adjacency, ranks, counts):
    mechanism = small(adjacency=adjacency, ranks=ranks)
    for histogram in (OpenHistogram.from_counts(counts, max_k=5), ClosedHistogram.from_counts(counts | {"z": 0})):
        law = mechanism.law(histogram)
        assert law == pytest.approx(brute_law(mechanism, histogram), rel=1e-8, abs=1e-12)
        assert math.fsum(law.values()) == pytest.approx(1.0, abs=1e-14)
        for k in range(1, 5):
            assert mechanism.chance(histogram, k) == pytest.approx(law.get(mechanism.outcome(histogram, k), 0.0))


def test_laws_keep_their_relative_accuracy_far_out_and_with_many_ranks():
    far = first_pass_law([Fraction(0), Fraction(900)], threshold=1e-9, ratio=RATIO)
    bar = -math.log(1e-9)
    c = float(RATIO)
    # Both fail: the threshold's noise is far above, or the second test's far below; leading terms of one convolution.
    both = (c * c * math.exp(-(900 - bar)) - math.exp(-c * (900 - bar))) / (2 * (c * c - 1))
    assert far[2] == pytest.approx(both, rel=1e-2)
    assert first_pass_law([Fraction(0)], threshold=1e-9, ratio=RATIO)[0] == pytest.approx(
        (c * c * 1e-9 - 1e-9**c) / (2 * (c * c - 1)), rel=1e-12
    )
    rng = np.random.default_rng(0)
    many = first_pass_law([Fraction(int(n), 7) for n in rng.integers(0, 90, 60)], threshold=1e-4, ratio=RATIO)
    assert math.fsum(many) == pytest.approx(1.0, abs=1e-14)
    assert min(many) > 0
    assert first_pass_law([Fraction(0)] * 3, threshold=1.0, ratio=RATIO)[0] == pytest.approx(0.5)


@pytest.mark.slow
@pytest.mark.parametrize("adjacency", Adjacency)
def test_runs_match_the_law_and_reject_wrong_parameters(adjacency, p_value):
    right = small(adjacency=adjacency)
    cuts = right.sample(SMALL, 30_000, rng=SeededSource(3)).tolist()
    seen = [right.outcome(SMALL, k) for k in cuts]
    assert p_value(seen, right.law(SMALL)) > 1e-3
    for factor in (0.7, 1.3):
        assert p_value(seen, small(adjacency=adjacency, stretch=factor).law(SMALL)) < 1e-6


def test_delta_q_is_the_largest_that_the_papers_inequality_allows():
    c = arb(RATIO.numerator) / RATIO.denominator
    for delta, tests in ((1e-6, 10), (0.2, 3), (0.01, 1), (1e-12, 1000)):
        dq = tail_within(delta, tests)

        def spent(x, tests=tests):
            return tests * (2 * arb(x) ** c + x - c * (arb(x) ** c + 2 * x)) / (4 * (1 - c))

        assert spent(dq) <= delta
        assert spent(dq * (1 + 1e-9)) > delta
    assert tail_within(0.9, 1) == 1.0  # the bracket never passes 3/4: any threshold of at least 0 will do


def test_the_papers_inequality_is_above_the_exact_chance_that_one_unstable_prefix_passes():
    for delta, tests in ((1e-6, 10), (0.2, 3), (0.9, 1)):
        exact = first_pass_law([Fraction(0)], threshold=tail_within(delta, tests), ratio=RATIO)[0]
        assert delta / tests / 2 < exact <= delta / tests


def test_one_release_spends_the_budget_as_it_is():
    mechanism = TopStable.calibrate(Budget(epsilon=1.0, delta=1e-6), k=10)
    assert (mechanism.epsilon, mechanism.delta, mechanism.max_k) == (1.0, 1e-6, 10)


@pytest.mark.parametrize("releases", [2, 10, 100, 600])
def test_many_releases_compose_optimally_and_use_all(releases):
    budget = Budget(epsilon=1.0, delta=1e-6, releases=releases)
    mechanism = TopStable.calibrate(budget, k=10)
    assert budget.fits(mechanism.cost)
    spent = (releases * mechanism.cost).epsilons(1e-6)
    assert max(e for rule, e in spent.items() if rule in ("pure", "advanced") and e <= 1.0) > 1 - 1e-6
    assert mechanism.epsilon >= (1 - 1e-8) / releases


def test_the_largest_stable_prefix_up_to_k_goes_out():
    counts = {f"i{i:02d}": c for i, c in enumerate([2000] * 2 + [1000] * 4 + [500] * 20)}
    for histogram in (OpenHistogram.from_counts(counts, max_k=10), ClosedHistogram.from_counts(counts)):
        for k, cut in ((10, 6), (6, 6), (5, 2), (2, 2), (1, 0)):
            mechanism = TopStable.calibrate(Budget(epsilon=1.0, delta=1e-6), k=k)
            release = mechanism.release(histogram, rng=SeededSource(k))
            assert release.k == cut
            assert release.items == (frozenset(histogram.top(cut)) if cut else None)
            assert release.outcome in mechanism.law(histogram)
    upwards = TopStable.calibrate(Budget(epsilon=1.0, delta=1e-6), k=10, ranks=tuple(range(1, 11)))
    assert upwards.release(histogram, rng=SeededSource(0)).k == 2
    assert upwards.describe()["ranks"] == list(range(1, 11))


def test_ranks_beyond_the_seen_items_are_unstable_and_release_the_seen_ones():
    mechanism = TopStable(k=3, max_k=3, epsilon=1.0, delta=0.5, adjacency=ADD)
    law = mechanism.law(OpenHistogram.from_counts({"a": 30}, max_k=3))
    only = frozenset("a")
    chances = {(outcome.k, outcome.items): p for outcome, p in law.items()}
    assert len(chances) == len(law)
    assert set(chances) == {(3, only), (2, only), (1, only), (0, None)}
    assert max(chances[3, only], chances[2, only]) < 0.5 / 3


def test_a_filter_fixes_the_allowance():
    budget = Budget(epsilon=1.0, delta=1e-6, releases=5)
    limits = budget.filter(order=12.0, delta_share=0.4)
    mechanism = TopStable.calibrate(budget, k=4, limits=limits)
    assert limits.admits(0.0, 0.0, 5 * mechanism.cost)
    assert 5 * mechanism.cost.rdp(12.0) >= limits.rdp * (1 - 1e-6)
    for wrong in (Filter(order=12.0, rdp=5.0, delta=1e-7), Filter(order=12.0, rdp=limits.rdp, delta=0.0)):
        with pytest.raises(BudgetError):
            TopStable.calibrate(budget, k=4, limits=wrong)


@pytest.mark.parametrize(
    "fields",
    [
        {"k": 0},
        {"k": None},
        {"k": 2.0},
        {"k": True},
        {"k": 5, "max_k": 4},
        {"k": 2, "max_k": 0},
        {"k": 2, "ranks": ()},
        {"k": 2, "ranks": (1, 1)},
        {"k": 2, "ranks": (0, 1)},
        {"k": 2, "max_k": 2, "ranks": (3,)},
    ],
)
def test_nonsense_is_refused(fields):
    with pytest.raises(ParameterError):
        TopStable.calibrate(Budget(epsilon=1.0, delta=1e-6), **fields)


@pytest.mark.parametrize("fields", [{"epsilon": 0.0}, {"epsilon": math.nan}, {"delta": 0.0}, {"delta": math.nan}])
def test_parameters_out_of_range_are_refused(fields):
    with pytest.raises(ParameterError):
        TopStable(**({"k": 2, "max_k": 2, "epsilon": 1.0, "delta": 0.1, "adjacency": ADD} | fields))


def test_a_law_of_very_many_ranks_is_refused_by_name():
    mechanism = TopStable.calibrate(Budget(epsilon=1.0, delta=1e-6), k=1001)
    with pytest.raises(LawTooLarge):
        mechanism.law(ClosedHistogram.from_counts({"a": 1}))
    assert mechanism.chance(ClosedHistogram.from_counts({"a": 1}), 1001) < 1e-6
