"""The rule for planned releases: at least what every adaptive strategy attains, and close to the best of them."""

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cutline.privacy import Adjacency, BitTable, BoundedRange, Budget, Cost, Gaussian, Pure
from cutline.privacy.rules.adaptive import Round, adaptive, price
from cutline.privacy.rules.coin_laws import CoinLaws
from cutline.privacy.rules.registry import PLANNED_RULES, RULES

ADD = Adjacency.ADD_REMOVE
SMALL = BitTable.stability(order=4.0, rdp=0.6, delta=0.01)  # a handful of values
VOTES = BitTable.voting(order=4.0, rdp=0.3, teachers=5)


def of_table(table, delta=None):
    return Cost.of(table, adjacency=ADD, delta=table.values[0] if delta is None else delta)


def moves(table, unstable):
    """Every pair of laws of one release, outcome by outcome: (P, Q) with as many outcomes as it takes."""
    pairs = []
    for low, high in zip(table.values, table.values[1:], strict=False):
        pairs += [((low, 1 - low), (high, 1 - high)), ((high, 1 - high), (low, 1 - low))]
    if unstable:
        pairs.append(((unstable, 0.0, 1 - unstable), (0.0, unstable, 1 - unstable)))
    return pairs


def attained(pairs, rounds, x):
    """Play every adaptive strategy to its end, no grid: what to show next may depend on every answer so far."""

    def best(p, q, left):
        if left == 0:
            return max(p - math.exp(x) * q, 0.0)
        if p == 0:
            return 0.0
        return max(sum(best(p * a, q * b, left - 1) for a, b in zip(*pair, strict=True)) for pair in pairs)

    return best(1.0, 1.0, rounds)


def listed(pairs, x):
    """The same for two rounds by listing strategies one by one: a first pair, and a second for each of its outcomes."""
    return max(
        sum(
            max(p[o] * a - math.exp(x) * q[o] * b, 0.0) for o in range(len(p)) for a, b in zip(*seconds[o], strict=True)
        )
        for p, q in pairs
        for seconds in product(pairs, repeat=len(p))
    )


def test_a_listing_of_strategies_agrees_with_playing_them():
    pairs = moves(BitTable(values=SMALL.values[:4]), SMALL.values[0])
    for x in (0.0, 0.3, 1.0):
        assert listed(pairs, x) == pytest.approx(attained(pairs, 2, x), rel=1e-12)


@pytest.mark.parametrize("table", [SMALL, VOTES], ids=["stability", "voting"])
@pytest.mark.parametrize("rounds", [1, 2, 3])
def test_no_strategy_beats_the_rule_and_the_best_comes_close(table, rounds):
    unstable = table.values[0] if table is SMALL else 0.0
    pairs = moves(table, unstable)
    for x in (0.2, 0.5, 1.0):
        delta = attained(pairs, rounds, x)
        if delta <= rounds * unstable * 1.001:
            continue  # nothing but the unstable case: any epsilon has this delta
        found = adaptive(of_table(table, unstable), delta, releases=rounds)
        assert x <= found <= x * 1.03 + 0.002


@pytest.mark.parametrize("first", ["choice", "test"])
def test_a_bounded_range_step_may_come_before_or_after_the_coin(first):
    """Against strategies with many bounded-range pairs, in both orders."""
    epsilon, unstable = 0.5, SMALL.values[0]
    tops = epsilon * np.linspace(0.02, 0.98, 25)
    yes = np.expm1(tops - epsilon) / math.expm1(-epsilon)
    ranged = [((p, 1 - p), (p * math.exp(-t), 1 - p * math.exp(-t))) for p, t in zip(yes, tops, strict=True)]
    coins = moves(SMALL, unstable)
    order = (ranged, coins) if first == "choice" else (coins, ranged)

    def value(x):
        return max(
            sum(
                max(sum(max(p * a - math.exp(x) * q * b, 0.0) for a, b in zip(*then, strict=True)) for then in order[1])
                for p, q in zip(*pair, strict=True)
            )
            for pair in order[0]
        )

    cost = of_table(SMALL) + Cost.of(BoundedRange(epsilon=epsilon), adjacency=ADD)
    for x in (0.3, 0.8):
        assert x <= adaptive(cost, value(x)) <= 1.1 * x + 0.02


@given(
    order=st.floats(2.0, 40.0),
    rdp=st.floats(5e-3, 0.2),
    share=st.floats(0.01, 0.9),
    releases=st.integers(1, 12),
    epsilon=st.sampled_from([0.0, 0.05, 0.3]),
)
@settings(max_examples=12, deadline=None)
def test_never_above_the_renyi_rule(order, rdp, share, releases, epsilon):
    delta = 1e-6
    cost = of_table(BitTable.stability(order=order, rdp=rdp, delta=share * delta / releases))
    if epsilon:
        cost += Cost.of(BoundedRange(epsilon=epsilon), adjacency=ADD)
    found = adaptive(cost, delta, releases=releases)
    assert 0 < found <= RULES["rdp"](releases * cost, delta)


def test_more_releases_or_less_delta_cost_no_less():
    cost = of_table(BitTable.stability(order=12.0, rdp=0.02, delta=1e-9))
    by_releases = [adaptive(cost, 1e-6, releases=n) for n in (1, 2, 5, 20, 60)]
    by_delta = [adaptive(cost, delta, releases=5) for delta in (1e-4, 1e-5, 1e-6, 1e-7)]
    assert by_releases == sorted(by_releases)
    assert by_delta == sorted(by_delta)


def test_a_coarser_grid_is_never_below_a_finer_one():
    played = Round(biases=np.array(VOTES.values))
    guess = RULES["rdp"](20 * Cost.of(VOTES, adjacency=ADD), 1e-6)
    grids = ((40, 0), (10, 2e-4), (3, 2e-3))
    prices = [price(played, 20, 1e-6, guess=guess, reach=2 * guess, finest=f, spread=s) for f, s in grids]
    assert prices[0] < prices[1] < prices[2] < 1.03 * prices[0]


def test_coins_may_be_counted_as_uses_or_as_releases():
    coin = Cost.of(VOTES, adjacency=ADD)
    assert adaptive(12 * coin, 1e-6) == adaptive(3 * coin, 1e-6, releases=4)


@pytest.mark.parametrize(
    "cost",
    [
        Cost.of(Pure(epsilon=0.1), adjacency=ADD),
        Cost.of(Gaussian(sigma=9.0), adjacency=ADD),
        Cost.of(BoundedRange(epsilon=0.1), adjacency=ADD),  # the rule exact is for these
        of_table(SMALL, delta=SMALL.values[0] / 2),  # some other event than the unstable case
        of_table(SMALL) + of_table(VOTES, delta=0.0),
        of_table(SMALL) + 2 * Cost.of(BoundedRange(epsilon=0.1), adjacency=ADD),  # whose order no one has said
        2 * (of_table(SMALL) + Cost.of(BoundedRange(epsilon=0.1), adjacency=ADD)),
        Cost.of(BitTable(values=(0.0, 0.5, 1.0)), adjacency=ADD),
        Cost(adjacency=ADD),
    ],
    ids=["pure", "gaussian", "range", "delta", "tables", "ranges", "bag", "certain", "nothing"],
)
def test_it_does_not_apply_elsewhere(cost):
    assert adaptive(cost, 0.1) == math.inf


def test_deltas_that_use_up_delta_leave_no_epsilon():
    cost = of_table(BitTable.stability(order=8.0, rdp=0.1, delta=1e-7))
    assert adaptive(cost, 1e-6, releases=10) == math.inf
    assert adaptive(cost, 1e-6, releases=9) < math.inf


def test_a_constant_table_has_its_unstable_case_only():
    cost = of_table(BitTable(values=(1e-8,)))
    assert adaptive(cost, 1e-6, releases=50) <= 1e-3


def test_a_budget_takes_the_rule_at_its_word():
    cost = of_table(BitTable.stability(order=17.6, rdp=0.00427, delta=2e-9))
    proved = PLANNED_RULES["adaptive"](cost, 1e-6, releases=100)
    assert proved < 0.98 * RULES["rdp"](100 * cost, 1e-6)
    assert Budget(epsilon=proved, delta=1e-6, releases=100).fits(cost)


@given(st.lists(st.floats(1e-6, 1 - 1e-6), min_size=2, max_size=60), st.floats(1e-4, 1e-1), st.integers(0, 2**32))
@settings(max_examples=60, deadline=None)
def test_fewer_laws_allow_no_less(values, spread, seed):
    biases = np.sort(np.array(values))
    every, few = CoinLaws.of(biases), CoinLaws.of(biases).thinned(spread)
    assert len(few) <= len(every)
    random = np.random.default_rng(seed)
    low, high = biases[:-1], biases[1:]
    for kink in np.exp(random.normal(0, 1, 40)):  # hockey-sticks (r - k)_+ generate all convex functions
        true = np.maximum(high - kink * low, 0) + np.maximum((1 - high) - kink * (1 - low), 0)
        reverse = np.maximum(low - kink * high, 0) + np.maximum((1 - low) - kink * (1 - high), 0)
        mass = few.down / (few.up + few.down) if len(few) else np.zeros(1)
        up, down = (few.up, few.down) if len(few) else (np.zeros(1), np.zeros(1))
        bound = mass * np.maximum(1 + up - kink, 0) + (1 - mass) * np.maximum(1 - down - kink, 0)
        assert max(true.max(), reverse.max()) <= max(bound.max(), 1 - kink) * (1 + 1e-9) + 1e-12


def test_long_tables_need_few_laws():
    table = BitTable.voting(order=11.5, rdp=5e-5, teachers=800)
    assert len(CoinLaws.of(np.array(table.values)).thinned(1e-3)) < 120


@pytest.mark.parametrize(
    ("order", "rdp_of_a_step", "delta"),
    [
        (2.0, 2.1554557628033066, 6.885970369752525e-27),
        (1.5, 1.422646879939841, 5.793310678510416e-31),
        (1.5, 1.0, 1e-30),
    ],
)
def test_laws_that_differ_in_tiny_ups_are_left_out_only_if_others_exceed_them(order, rdp_of_a_step, delta):
    every = CoinLaws.of(np.array(BitTable.stability(order=order, rdp=rdp_of_a_step, delta=delta).values))

    def above_trivial(laws, low):  # E_Q (r - low)_+ less (1 - low), where E itself would be 1 to many digits
        return float((laws.up * np.maximum(laws.down - 1 + low, 0) / (laws.up + laws.down)).max())

    for spread in (2e-4, 1e-3):
        few = every.thinned(spread)
        assert all(above_trivial(few, 1 - down) >= above_trivial(every, 1 - down) for down in few.down.tolist())
