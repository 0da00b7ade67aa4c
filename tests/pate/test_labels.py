"""What a batch of labels says about itself."""

import json
import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

from cutline.errors import ParameterError
from cutline.pate.aggregators.optimal_vote import OptimalVote
from cutline.pate.aggregators.stable_sets import StableMajority
from cutline.pate.label import label
from cutline.pate.labels import state_label_guarantee
from cutline.privacy import BitTable, Budget, Cost
from cutline.release import digits_up
from cutline.sampling import SeededSource

STEEP = BitTable.stability(order=3.0, rdp=1.2, delta=0.02)


def test_a_batch_that_is_no_part_of_its_budget_speaks_for_itself():
    vote = OptimalVote.calibrate(Budget(epsilon=1.0, delta=1e-6, releases=2), teachers=50, labels=2)
    within, beyond = (vote.release(np.full((n, 2), 20)).guarantee for n in (2, 3))
    assert within.startswith("(1, 1e-06)-DP")
    assert "these 3 queries" in beyond
    assert 1.0 < float(beyond[1:].split(",")[0]) < 1.5
    alone = OptimalVote(table=vote.table, teachers=50, labels=2).release(np.full((1, 2), 20))
    assert "this one query" in alone.guarantee


def test_deltas_that_add_up_to_one_promise_nothing_and_say_so():
    vote = StableMajority(table=STEEP, teachers=50, labels=2)
    some, all_spent = (vote.release(np.full((n, 2), 20)) for n in (49, 50))
    assert some.stated()[1] < 1
    assert all_spent.stated() == (math.inf, 1.0)
    assert all_spent.guarantee.startswith("(inf, 1)-DP")
    cost = all_spent.to_dict()["cost"]
    assert (cost["order"], cost["epsilon"]) == (None, None)


def test_labels_as_plain_data():
    budget = Budget(epsilon=2.0, delta=1e-6, releases=3)
    vote = StableMajority.calibrate(budget, teachers=400, labels=2)
    labels = vote.release(np.array([[399, 1], [200, 200], [1, 1]]), rng=SeededSource(0))
    plain = json.loads(json.dumps(labels.to_dict()))
    assert plain["labels"] == [[1, 0], [None, None], [0, 0]]
    assert [plain[key] for key in ("queries", "answered", "withheld", "partly")] == [3, 2, 1, 0]
    assert [plain[key] for key in ("epsilon", "delta", "releases")] == [2.0, 1e-6, 3]
    assert (plain["adjacency"], plain["seeded"], plain["guarantee"]) == ("replace", True, labels.guarantee)
    assert plain["mechanism"] == vote.describe()
    assert plain["cost"] == labels.cost.summary(1e-6)
    full = json.loads(json.dumps(labels.to_dict(full=True)))
    assert Cost.from_dict(full.pop("cost")) == labels.cost
    assert full.items() <= plain.items()


def test_labels_without_a_budget_are_priced_at_the_usual_delta():
    table = BitTable.voting(order=3.0, rdp=0.4, teachers=8)
    plain = OptimalVote(table=table, teachers=8, labels=2).release(np.full((5, 2), 4)).to_dict()
    assert (plain["epsilon"], plain["delta"], plain["releases"]) == (None, None, None)
    assert (plain["cost"]["kinds"], plain["cost"]["delta"]) == ({"bit-table": 10}, 1e-6)
    assert plain["guarantee"].startswith(f"({digits_up(plain['cost']['epsilon'], 4)}, 1e-06)-DP")


def test_no_queries_have_a_plain_form_too():
    plain = OptimalVote.calibrate(Budget(epsilon=1.0, delta=1e-6), teachers=8, labels=2)
    empty = plain.release(np.zeros((0, 2), dtype=int)).to_dict()
    assert (empty["labels"], empty["cost"]["epsilon"]) == ([], 0.0)


def test_the_guarantee_can_be_said_before_any_vote():
    vote = OptimalVote.calibrate(Budget(epsilon=1.0, delta=1e-6, releases=4), teachers=50, labels=2)
    before = state_label_guarantee(vote.describe(), cost=4 * vote.cost, budget=vote.budget, queries=4, seeded=False)
    assert vote.release(np.full((4, 2), 20)).guarantee == before


BALLOTS = np.zeros((30, 2, 3), dtype=int)


@pytest.mark.parametrize("whole", [30, np.int8(30), np.uint64(30), np.int64(40)])
def test_teachers_are_any_whole_number_that_is_large_enough(whole):
    assert label(BALLOTS, teachers=whole, aggregator="pate-gaussian").mechanism["teachers"] == int(whole)


@pytest.mark.parametrize(
    "odd", [30.0, np.float64(30), Decimal(30), Fraction(30), "30", True, [30], np.nan, 2**24 + 1, 2**63, 0]
)
@pytest.mark.parametrize("name", ["teachers", "limit"])
def test_other_numbers_are_refused_in_our_words(name, odd):
    if name == "limit" and isinstance(odd, int) and odd > 1:  # more than there are labels is no limit, and no mistake
        assert label(BALLOTS, limit=odd).mechanism["limit"] == odd
        return
    with pytest.raises(ParameterError, match=f"{name} must be"):
        label(BALLOTS, **{name: odd})


@pytest.mark.parametrize("odd", [None, 3, Decimal(3), np.array([3, 4]), OptimalVote])
def test_an_aggregator_is_a_name_or_an_aggregator(odd):
    with pytest.raises(ParameterError, match="registered name, or an Aggregator"):
        label(BALLOTS, aggregator=odd)
