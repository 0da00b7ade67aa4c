"""Limited Domain in rounds: its law draw by draw, its price along every path, and what it finds that one round does not."""

import math
from fractions import Fraction

import numpy as np
import pytest

from cutline.errors import DomainError, LawTooLarge, ParameterError
from cutline.histogram import ClosedHistogram, OpenHistogram
from cutline.mechanisms.open.limited_domain import LimitedDomain
from cutline.mechanisms.open.limited_rounds import LimitedRounds
from cutline.privacy import Adjacency, BoundedRange, Budget
from cutline.sampling import SeededSource

ADD, REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE
COUNTS = {"a": 9, "b": 7, "c": 7, "d": 4, "e": 2}
SMALL = OpenHistogram.from_counts(COUNTS, max_k=4)
LONG_TAIL = OpenHistogram.from_counts({i: 2000 // (i + 1) for i in range(600)}, max_k=500)


def small(*, k=3, epsilon=0.8, adjacency=ADD, delta=0.2, max_k=4):
    return LimitedRounds(k=k, max_k=max_k, epsilon=epsilon, delta=delta, adjacency=adjacency)


def draw_by_draw(counts, floor, *, k, max_k, epsilon, delta, c):
    """The law of the lists from the description alone: one draw after the other, in plain floats."""
    law: dict[tuple, float] = {}

    def play(listed, chance, in_round, draws, rate, left):
        """``draws`` of a round that has listed ``in_round`` items; ``left`` is the delta before it."""
        part = left if draws == 1 else left / 2
        open_items = {item: math.exp(rate * n / c) for item, n in counts.items() if item not in listed}
        # The round's max_k is what it was when the round began.
        bottom = (max_k - len(listed) + in_round) / part * math.exp(rate * (floor + c) / c)
        total = sum(open_items.values()) + bottom
        for item, weight in open_items.items():
            after = (*listed, item)
            if in_round + 1 == draws:
                law[after] = law.get(after, 0.0) + chance * weight / total
            else:
                play(after, chance * weight / total, in_round + 1, draws, rate, left)
        unused = draws - in_round - 1
        if unused == 0:
            law[listed] = law.get(listed, 0.0) + chance * bottom / total
        else:
            pooled = math.ceil(unused / 2)
            rest = (1 + left) / (1 + part) - 1
            play(listed, chance * bottom / total, 0, pooled, rate * math.sqrt(unused / pooled), rest)

    play((), 1.0, 0, k, epsilon, delta)
    return law


@pytest.mark.parametrize("adjacency", Adjacency)
@pytest.mark.parametrize("k", [1, 2, 3, 4])
def test_the_law_is_that_of_the_draws(adjacency, k):
    seen = dict(list(COUNTS.items())[:4])
    expected = draw_by_draw(seen, 2, k=k, max_k=4, epsilon=0.8, delta=0.2, c=adjacency.count_range)
    law = small(k=k, adjacency=adjacency).law_of_lists(SMALL)
    assert law.keys() == expected.keys()
    assert all(law[o] == pytest.approx(expected[o], rel=1e-10) for o in law)


def test_many_rounds_where_few_items_were_seen():
    few = OpenHistogram.from_counts({"a": 6, "b": 3}, max_k=9)
    law = LimitedRounds(k=9, max_k=9, epsilon=0.5, delta=0.1, adjacency=ADD).law_of_lists(few)
    expected = draw_by_draw({"a": 6, "b": 3}, 0, k=9, max_k=9, epsilon=0.5, delta=0.1, c=1)
    assert math.fsum(law.values()) == pytest.approx(1.0, abs=1e-12)
    assert all(law[o] == pytest.approx(expected[o], rel=1e-9) for o in law)


def test_one_draw_is_limited_domain():
    plain = LimitedDomain(k=1, max_k=4, epsilon=0.8, delta=0.2, adjacency=ADD)
    assert small(k=1).law_of_lists(SMALL) == plain.law_of_lists(SMALL)
    assert small(k=1).cost == plain.cost


def paths(going, made=()):
    """Yield every path of rounds: (draws made, round) for each."""
    for found in range(going.domain.k + 1):
        drawn = min(found + 1, going.domain.k)
        after = going.after(found)
        if after is None:
            yield (*made, (drawn, going))
        else:
            yield from paths(after, (*made, (drawn, going)))


@pytest.mark.parametrize("k", [1, 2, 3, 7, 12])
@pytest.mark.parametrize("delta", [1e-6, 0.3, 0.9])
def test_no_path_costs_more_than_it_reserves(k, delta):
    mechanism = small(k=k, max_k=2 * k, delta=delta)
    for path in paths(mechanism.first):
        assert sum(drawn for drawn, _ in path) <= k
        assert sum(drawn for drawn, _ in path[:-1]) + path[-1][1].domain.k <= k
        weight = math.prod((1 + Fraction(going.domain.delta) for _, going in path), start=Fraction(1))
        assert weight <= 1 + Fraction(delta)
        for order in (1.01, 2.0, 9.0, 80.0, math.inf):
            spent = sum(drawn * BoundedRange(epsilon=going.domain.epsilon).rdp(order) for drawn, going in path)
            assert spent <= k * BoundedRange(epsilon=0.8).rdp(order) * (1 + 1e-12)


def test_a_long_run_uses_nearly_all_that_is_reserved():
    mechanism = LimitedRounds(k=1000, max_k=10_000, epsilon=0.01, delta=1e-6, adjacency=ADD)
    weight, rounds, going = Fraction(1), 0, mechanism.first
    while going is not None:
        weight, rounds, last, going = weight * (1 + Fraction(going.domain.delta)), rounds + 1, going, going.after(0)
    assert float(weight - 1) == pytest.approx(1e-6, rel=1e-12)  # the last round takes all the delta that is left
    assert rounds == 10
    assert last.domain.k == 1
    assert last.domain.epsilon > 0.01 * math.sqrt(1000 / 2)


def test_the_price_is_limited_domains():
    budget = Budget(epsilon=1.0, delta=1e-6, releases=3)
    plain, rounds = (kind.calibrate(budget, k=7, adjacency=REPLACE) for kind in (LimitedDomain, LimitedRounds))
    assert rounds.cost == plain.cost
    assert rounds.budget == budget
    assert rounds.describe() == plain.describe() | {"name": "limited-rounds"}
    assert rounds.release(SMALL_WIDE, rng=SeededSource(0)).cost == plain.cost


SMALL_WIDE = OpenHistogram.from_counts(COUNTS, max_k=100)


@pytest.mark.slow
@pytest.mark.parametrize("adjacency", Adjacency)
def test_releases_match_the_law_and_reject_wrong_parameters(adjacency, p_value):
    right = small(adjacency=adjacency)
    lists = right.sample(SMALL, 3000, rng=SeededSource(3))
    assert right.release(SMALL, rng=SeededSource(3)).items == lists[0]
    assert p_value(lists, right.law_of_lists(SMALL)) > 1e-3
    for wrong in (small(epsilon=0.6, adjacency=adjacency), small(delta=0.1, adjacency=adjacency)):
        assert p_value(lists, wrong.law_of_lists(SMALL)) < 1e-6
    one_round = LimitedDomain(k=3, max_k=4, epsilon=0.8, delta=0.2, adjacency=adjacency)
    assert p_value(lists, one_round.law_of_lists(SMALL)) < 1e-6


@pytest.mark.parametrize("k", [1, 2, 3, 4])
def test_chance_is_a_sum_over_the_law(k):
    mechanism = small(k=k)
    for histogram in (SMALL, OpenHistogram.from_counts({"a": 30, "b": 28}, max_k=4)):
        law = mechanism.law_of_lists(histogram)
        for cut in range(6):
            top = set(histogram.top(cut))
            expected = math.fsum(p for o, p in law.items() if set(o) == top)
            assert mechanism.chance(histogram, cut) == pytest.approx(expected, rel=1e-11, abs=1e-300)


@pytest.mark.slow
def test_it_finds_far_more_of_a_long_tail_than_one_round():
    budget = Budget(epsilon=0.5, delta=1e-6)
    found = {}
    for kind in (LimitedDomain, LimitedRounds):
        mechanism = kind.calibrate(budget, k=50)
        lists = [mechanism.release(LONG_TAIL, rng=SeededSource(seed)).items for seed in range(12)]
        found[kind] = np.mean([sum(item < 50 for item in items) for items in lists])
        assert all(len(set(items)) == len(items) <= 50 for items in lists)
    assert found[LimitedRounds] > 1.5 * found[LimitedDomain]


def test_refusals_are_public():
    with pytest.raises(DomainError):
        small().release(ClosedHistogram.from_counts(COUNTS))
    with pytest.raises(ParameterError, match="max_k"):
        small(max_k=9).release(SMALL)
    with pytest.raises(ParameterError, match="delta"):
        small(k=3, delta=5e-324)  # no later round could have half of it: refused when built, not when run
    with pytest.raises(ParameterError, match="epsilon"):
        small(k=4, epsilon=1.4e308)  # nor one draw as dear as four
    assert small(k=1, delta=5e-324).first.domain.delta == 5e-324
    with pytest.raises(LawTooLarge):
        small(k=50, max_k=100).law(OpenHistogram.from_counts(dict.fromkeys(range(90), 3), max_k=100))
    for fields in ({"k": 0}, {"k": True}, {"k": 5, "max_k": 4}, {"epsilon": 0.0}, {"delta": 1.0}):
        with pytest.raises(ParameterError):
            small(**fields)
