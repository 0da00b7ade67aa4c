"""What every registered aggregator must keep, so that a newcomer cannot skip it."""

import dataclasses
import inspect
import json
import math
import pickle

import numpy as np
import pytest
from scipy.stats import chisquare

from cutline.errors import BudgetError, ParameterError
from cutline.pate import AGGREGATORS, aggregator
from cutline.privacy import Adjacency, Budget, Cost
from cutline.privacy.rules.registry import RULES
from cutline.sampling import SeededSource

TEACHERS, LABELS = 40, 3
BUDGET = Budget(epsilon=1.5, delta=1e-3)
NOTHING = np.full((1, LABELS), -1, dtype=np.int8)  # a query that is withheld
CASES = [(kind.name, adjacency) for kind in AGGREGATORS for adjacency in Adjacency]
RUNS = 20_000
# A person who joins changes a teacher's ballot as they like: "one user joining" would promise more than ADD_REMOVE keeps.
PROTECTED = {
    Adjacency.ADD_REMOVE: "one teacher's ballot being there or not",
    Adjacency.REPLACE: "one teacher's whole ballot changing",
}


def public(name):
    """Parameters beside teachers and labels that the aggregator declares as required."""
    values = {"limit": 2}
    return {each.name: values[each.name] for each in aggregator(name).parameters if each.required}


def build(name, adjacency, budget=BUDGET, **more):
    return aggregator(name).calibrate(
        budget, **{"teachers": TEACHERS, "labels": LABELS, "adjacency": adjacency} | public(name) | more
    )


def votes_of(vote):
    """A query about which nothing is certain, whatever the aggregator."""
    if vote.width != LABELS:
        return np.array([2, 14, 1, 3, 1, 16, 1, 2])
    if vote.one_class:  # one vote a teacher
        return np.array([15, 11, 14] if vote.cost.uses == vote.cost_of(NOTHING).uses else [21, 2, 17])
    return np.array({"stable-majority": [31, 9, 26]}.get(vote.name, [33, 7, 22]))


def spent(cost, budget):
    """The smallest epsilon by the rules that calibration uses."""
    total = budget.releases * cost
    return min(RULES[rule](total, budget.delta) for rule in ("rdp", "gdp"))


def p_value(rows, law):
    """Chi-square test of released rows against a law, rare outcomes pooled."""
    seen: dict = {}
    for row in rows:
        seen[row] = seen.get(row, 0) + 1
    if not set(seen) <= set(law):
        return 0.0
    expected = np.array([law[outcome] * len(rows) for outcome in law])
    observed = np.array([seen.get(outcome, 0) for outcome in law], dtype=float)
    common = expected >= 5
    e, o = np.append(expected[common], expected[~common].sum()), np.append(observed[common], observed[~common].sum())
    if e[-1] < 5:
        e, o = np.append(e[:-2], e[-2:].sum()), np.append(o[:-2], o[-2:].sum())
    return chisquare(o, e * o.sum() / e.sum()).pvalue


@pytest.mark.parametrize(("name", "adjacency"), CASES)
class TestEveryAggregator:
    def test_is_frozen_public_data(self, name, adjacency):
        vote = build(name, adjacency)
        assert (vote.name, vote.teachers, vote.labels, vote.adjacency) == (name, TEACHERS, LABELS, adjacency)
        with pytest.raises(dataclasses.FrozenInstanceError):
            vote.adjacency = Adjacency.ADD_REMOVE
        assert pickle.loads(pickle.dumps(vote)) == vote
        plain = json.loads(json.dumps(vote.describe()))
        assert (plain["name"], plain["teachers"], plain["adjacency"]) == (name, TEACHERS, str(adjacency))

    def test_replace_is_the_default(self, name, adjacency):
        vote = aggregator(name).calibrate(BUDGET, teachers=TEACHERS, labels=LABELS, **public(name))
        assert vote == build(name, Adjacency.REPLACE)

    @pytest.mark.parametrize("budget", [BUDGET, Budget(epsilon=2.0, delta=1e-5, releases=70)])
    def test_the_budget_is_spent_and_never_more(self, name, adjacency, budget):
        vote = build(name, adjacency, budget)
        assert vote.cost.adjacency is adjacency
        assert budget.fits(vote.cost)
        assert budget.epsilon * (1 - 1e-6) <= spent(vote.cost, budget) <= budget.epsilon

    def test_a_filter_fixes_order_and_limits(self, name, adjacency):
        budget = dataclasses.replace(BUDGET, releases=4)
        limits = budget.filter(order=9.0, delta_share=0.3)
        vote = build(name, adjacency, budget, limits=limits)
        assert limits.admits(0.0, 0.0, 4 * vote.cost)
        assert (4 * vote.cost).rdp(9.0) >= limits.rdp * (1 - 1e-6)
        with pytest.raises(BudgetError):
            build(name, adjacency, Budget(epsilon=0.5, delta=1e-3), limits=limits)

    def test_law_sums_to_one(self, name, adjacency):
        vote = build(name, adjacency)
        law = vote.law(votes_of(vote))
        assert math.fsum(law.values()) == pytest.approx(1.0, abs=1e-12)
        assert min(law.values()) >= 0
        assert all(len(row) == LABELS and set(row) <= {0, 1, None} for row in law)

    def test_release_matches_law_and_no_other(self, name, adjacency):
        vote = build(name, adjacency)
        votes = votes_of(vote)
        rows = vote.release(np.tile(votes, (RUNS, 1)), rng=SeededSource(3)).outcomes
        assert p_value(rows, vote.law(votes)) > 1e-4
        for factor in (0.7, 1.3):
            other = build(name, adjacency, Budget(epsilon=factor * BUDGET.epsilon, delta=BUDGET.delta))
            assert p_value(rows, other.law(votes)) < 1e-6

    def test_rows_are_answered_each_for_itself(self, name, adjacency):
        """A mixed batch has, row kind by row kind, the law of that row."""
        vote = build(name, adjacency)
        one, other = votes_of(vote), votes_of(vote)[::-1]
        batch = np.tile(np.stack([one, other]), (6000, 1))
        rows = vote.release(batch, rng=SeededSource(4)).outcomes
        assert p_value(rows[::2], vote.law(one)) > 1e-4
        assert p_value(rows[1::2], vote.law(other)) > 1e-4

    def test_labels_are_public_and_priced(self, name, adjacency):
        vote = build(name, adjacency, Budget(epsilon=2.0, delta=1e-5, releases=70))
        labels = vote.release(np.tile(votes_of(vote), (70, 1)))
        assert (labels.values.dtype, labels.values.shape) == (np.int8, (70, LABELS))
        assert labels.worst == 70 * vote.cost
        assert labels.cost == vote.cost_of(labels.values)
        assert all(labels.cost.rdp(order) <= labels.worst.rdp(order) for order in (2.0, 8.0))
        assert Cost.from_dict(labels.cost.to_dict()) == labels.cost
        assert labels.answered + labels.partial + labels.withheld == labels.queries == 70
        assert not labels.seeded
        assert labels.guarantee.startswith(f"(2, 1e-05)-DP for {PROTECTED[adjacency]}; covers these 70 queries")
        assert "simulation" not in labels.guarantee
        again = vote.release(np.tile(votes_of(vote), (2, 1)), rng=SeededSource(1))
        assert again.seeded
        assert "simulation" in again.guarantee
        assert np.array_equal(pickle.loads(pickle.dumps(again)).values, again.values)

    def test_no_queries_cost_nothing(self, name, adjacency):
        labels = (vote := build(name, adjacency)).release(np.zeros((0, vote.width), dtype=np.int64))
        assert (labels.values.shape, labels.cost) == ((0, LABELS), Cost(adjacency=adjacency))

    def test_votes_are_refused_for_public_reasons_only(self, name, adjacency):
        vote = build(name, adjacency)
        for bad in (
            np.zeros((2, vote.width + 1), dtype=int),
            np.zeros((2, vote.width)),
            np.zeros(vote.width, dtype=int),
        ):
            with pytest.raises(ParameterError, match="votes must be integers"):
                vote.release(bad)
        with pytest.raises(ParameterError, match="votes must be integers"):
            vote.law(np.zeros((1, vote.width), dtype=int))

    def test_impossible_counts_are_read_as_the_nearest_possible(self, name, adjacency):
        vote = build(name, adjacency)
        wild = np.resize([-9, TEACHERS + 7, 3], vote.width)
        assert vote.law(wild) == vote.law(np.clip(wild, 0, TEACHERS))
        for kind in (np.int8, np.uint8, np.uint64):
            ends = np.resize(np.array([0, np.iinfo(kind).max], dtype=kind), (5, vote.width))
            expected = vote.release(np.minimum(ends, TEACHERS).astype(np.int64), rng=SeededSource(0)).values
            assert np.array_equal(vote.release(ends, rng=SeededSource(0)).values, expected)

    def test_tallies_add_up_over_teachers(self, name, adjacency):
        vote = build(name, adjacency)
        rng = np.random.default_rng(0)
        ballots, scores = rng.integers(0, 2, (TEACHERS, 5, LABELS)), rng.random((TEACHERS, 5, LABELS))
        whole = vote.tally(ballots, scores)
        assert whole.shape == (5, vote.width)
        assert np.array_equal(whole, vote.tally(ballots[:13], scores[:13]) + vote.tally(ballots[13:], scores[13:]))
        assert not vote.tally(ballots[:0]).any()
        vote.release(whole)
        for wrong in (np.zeros((TEACHERS + 1, 5, LABELS), dtype=int), np.zeros((2, 5, LABELS + 1), dtype=int)):
            with pytest.raises(ParameterError, match="declared"):
                vote.tally(wrong)

    def test_one_teacher_moves_no_more_than_the_charge_says(self, name, adjacency):
        """Replacing or removing any one ballot moves at most the limit's worth of counts, each by one."""
        vote = build(name, adjacency)
        rng = np.random.default_rng(1)
        for _ in range(20):
            ballots = rng.integers(0, 2, (6, 4, LABELS))
            other = ballots.copy()
            other[2] = rng.integers(0, 2, (4, LABELS))
            if adjacency is Adjacency.ADD_REMOVE:
                other = np.delete(ballots, 2, axis=0)
            moved = np.abs(vote.tally(ballots) - vote.tally(other))
            assert moved.max() <= 1
            if vote.limit is not None:
                assert moved.sum(axis=1).max() <= adjacency.count_range * vote.limit

    def test_nonsense_is_refused(self, name, adjacency):
        for key in ("teachers", "labels"):
            for value in (0, -3, 2.5, True):
                with pytest.raises(ParameterError, match=key):
                    build(name, adjacency, **{key: value})
        with pytest.raises(ValueError, match="nearby"):
            build(name, "nearby")


@pytest.mark.parametrize("kind", AGGREGATORS, ids=lambda kind: kind.name)
class TestDeclaredParameters:
    def test_they_are_those_of_the_signature(self, kind):
        """The declaration is what callers go by, so it must be what the method takes."""
        own = [
            each
            for each in inspect.signature(kind.spend).parameters.values()
            if each.kind is inspect.Parameter.KEYWORD_ONLY
        ]
        assert [(each.name, each.required) for each in kind.parameters] == [
            (each.name, each.default is inspect.Parameter.empty) for each in own
        ]

    def test_what_is_not_declared_is_refused(self, kind):
        given = {"teachers": TEACHERS, "labels": LABELS} | public(kind.name)
        with pytest.raises(ParameterError, match=f"{kind.name} takes no colour"):
            kind.calibrate(BUDGET, **given, colour=3)
        if "limit" not in [each.name for each in kind.parameters]:
            with pytest.raises(ParameterError, match=f"{kind.name} takes no ballot limit; got limit=2"):
                kind.calibrate(BUDGET, **given, limit=2)

    def test_none_stands_for_not_given(self, kind):
        given = {"teachers": TEACHERS, "labels": LABELS}
        absent = {each.name: None for each in kind.parameters}
        if public(kind.name):
            with pytest.raises(ParameterError, match=f"{kind.name} must be told a ballot limit; got no limit"):
                kind.calibrate(BUDGET, **given, **absent)
        else:
            assert kind.calibrate(BUDGET, **given, **absent) == kind.calibrate(BUDGET, **given)


def test_unknown_aggregators_are_refused():
    assert [aggregator(kind.name) for kind in AGGREGATORS] == list(AGGREGATORS)
    with pytest.raises(ParameterError, match="optimal-vote"):
        aggregator("nonsense")
