"""PermuteAndFlip: the law of the process itself, and of noisy max with exponential noise, drawn by groups."""

import math
from fractions import Fraction
from itertools import permutations, product

import numpy as np
import pytest
from flint import arb, arb_poly, ctx

from cutline.errors import DomainError, LawTooLarge, ParameterError
from cutline.histogram import ClosedHistogram, OpenHistogram
from cutline.mechanisms.closed.peeling import PeelingEM
from cutline.mechanisms.closed.permute_and_flip import PermuteAndFlip, member_chances
from cutline.privacy import Adjacency, Budget
from cutline.sampling import SeededSource

ADD, REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE
COUNTS = {"a": 9, "b": 7, "c": 7, "d": 3, "e": 0}
SMALL = ClosedHistogram.from_counts(COUNTS)


def one_round(counts, rate):
    """Average over all orders and all coins: permute, then flip."""
    best = max(counts.values())
    accept = {item: math.exp(rate * (n - best)) for item, n in counts.items()}
    law = dict.fromkeys(counts, 0.0)
    for order in permutations(counts):
        missed = 1.0
        for item in order:
            law[item] += missed * accept[item] / math.factorial(len(counts))
            missed *= 1 - accept[item]
    return law


def all_rounds(counts, rate, k):
    law = {(): 1.0}
    for _ in range(k):
        law = {
            (*drawn, item): chance * step
            for drawn, chance in law.items()
            for item, step in one_round({i: n for i, n in counts.items() if i not in drawn}, rate).items()
        }
    return law


@pytest.mark.parametrize("adjacency", Adjacency)
@pytest.mark.parametrize(("k", "epsilon"), [(1, 0.4), (3, 1.0), (5, 0.2)])
def test_law_is_that_of_permuting_and_flipping(adjacency, k, epsilon):
    outcomes = PermuteAndFlip(k=k, epsilon=epsilon, adjacency=adjacency).law(SMALL)
    law = {outcome.items: p for outcome, p in outcomes.items()}
    truth = all_rounds(COUNTS, epsilon / adjacency.count_range, k)
    assert law.keys() == truth.keys()
    assert all(law[items] == pytest.approx(truth[items], rel=1e-12) for items in truth)


def test_coins_flipped_beforehand_give_the_same_law():
    """The winner is uniform among those whose coins say yes."""
    accept = {item: math.exp(0.3 * (n - 9)) for item, n in COUNTS.items()}
    law = dict.fromkeys(COUNTS, 0.0)
    for coins in product([False, True], repeat=5):
        chance = math.prod(accept[i] if yes else 1 - accept[i] for i, yes in zip(COUNTS, coins, strict=True))
        yes = [i for i, says in zip(COUNTS, coins, strict=True) if says]
        for item in yes:
            law[item] += chance / len(yes)
    mechanism = PermuteAndFlip(k=1, epsilon=0.3, adjacency=ADD)
    found = {outcome.items: p for outcome, p in mechanism.law(SMALL).items()}
    assert all(found[item,] == pytest.approx(law[item], rel=1e-12) for item in law)


@pytest.mark.parametrize(
    ("scores", "members"),
    [([40, 12, 3, 0], [1, 2, 5, 4]), ([3, 2, 1, 0], [1, 20, 80, 300]), ([5, 0], [1, 600]), ([9, 9], [70, 70])],
)
def test_large_groups_equal_a_polynomial_in_ball_arithmetic(scores, members):
    rate = Fraction(1, 3)
    found = member_chances(np.array(scores), np.array([members]), rate)[0]
    with ctx.workprec(2000):
        accept = [(arb(s - scores[0]) / 3).exp() for s in scores]
        for group, a in enumerate(accept):
            polynomial = arb_poly([1])
            for other, b in enumerate(accept):
                polynomial *= arb_poly([1, -b]) ** (members[other] - (other == group))
            truth = a * polynomial.integral()(arb(1))
            assert found[group] == pytest.approx(float(truth), rel=1e-12)


def test_members_chances_add_up_in_a_huge_domain():
    values, members = np.array([60, 20, 3, 1, 0]), np.array([[1, 40, 10**3, 10**5, 10**7]])
    for rate in (Fraction(1, 50), Fraction(1, 2), Fraction(9)):
        assert (member_chances(values, members, rate) * members).sum() == pytest.approx(1.0, abs=1e-12)


def test_never_a_worse_expected_count_than_the_exponential_mechanism():
    """At equal epsilon of one round [MS20]."""

    def expected(kind, epsilon):
        law = kind(k=1, epsilon=epsilon, adjacency=ADD).law(SMALL)
        return sum(p * COUNTS[item] for outcome, p in law.items() for item in outcome.items)

    for epsilon in (0.05, 0.3, 1.0, 4.0):
        assert expected(PermuteAndFlip, epsilon) > expected(PeelingEM, epsilon)


def test_calibration_spends_the_budget_by_the_best_rule_for_pure_steps():
    budget = Budget(epsilon=1.0, delta=1e-6)
    few, many = PermuteAndFlip.calibrate(budget, k=2), PermuteAndFlip.calibrate(budget, k=100)
    assert few.epsilon >= 0.5
    for mechanism in (few, many):
        spent = mechanism.cost.epsilon(1e-6)
        assert 1 - 1e-6 <= spent <= 1.0
    assert many.cost.epsilons(1e-6)["advanced"] < many.cost.epsilons(1e-6)["rdp"]
    limits = budget.filter(order=20.0, delta_share=0.1)
    filtered = PermuteAndFlip.calibrate(budget, k=5, limits=limits)
    assert limits.rdp * (1 - 1e-6) <= filtered.cost.rdp(20.0) <= limits.rdp


def test_refusals():
    with pytest.raises(DomainError, match="limited-domain"):
        PermuteAndFlip(k=1, epsilon=1.0, adjacency=ADD).release(OpenHistogram.from_counts(COUNTS, max_k=3))
    with pytest.raises(ParameterError, match="5 candidates"):
        PermuteAndFlip(k=6, epsilon=1.0, adjacency=ADD).release(SMALL)
    for k in (0, -3, 2.5, True, None):
        with pytest.raises(ParameterError, match="k"):
            PermuteAndFlip.calibrate(Budget(epsilon=1.0, delta=1e-6), k=k)
    wide = ClosedHistogram.from_counts(dict(enumerate(range(100))))
    for too_large in (lambda m: m.law(wide), lambda m: m.chance(wide, 20)):
        with pytest.raises(LawTooLarge):
            too_large(PermuteAndFlip(k=20, epsilon=1.0, adjacency=ADD))


def test_a_million_candidates():
    counts = np.zeros(10**6, dtype=np.int64)
    counts[[123_456, 7, 999_999]] = [10**6, 9 * 10**5, 8 * 10**5]
    release = PermuteAndFlip(k=5, epsilon=1.0, adjacency=ADD).release(
        ClosedHistogram.from_counts(counts), rng=SeededSource(0)
    )
    assert release.items[:3] == (123_456, 7, 999_999)
    assert len(set(release.items)) == 5
