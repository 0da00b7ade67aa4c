"""Finding, then choosing: every path runs, is charged for what ran, and no log is refused."""

import itertools
import math

import numpy as np
import pytest

import cutline
from cutline.errors import ParameterError
from cutline.histogram import BoundedHistogram, ClosedHistogram
from cutline.mechanisms.closed.peeling import PeelingEM
from cutline.mechanisms.open.find_then_choose import Choice, FindThenChoose, Round
from cutline.mechanisms.open.table_threshold import TableStep
from cutline.privacy import Adjacency, BitTable, Budget
from cutline.sampling import SeededSource

ADDS = Adjacency.ADD_REMOVE


def coins(*values, bound=2):
    return TableStep(table=BitTable(values=values), max_items_per_user=bound)


def bounded(full, counts=None, bound=1):
    return BoundedHistogram.from_counts(full, full if counts is None else counts, max_items_per_user=bound)


def three_rounds(k):
    """Rounds that find items of at least 4, 3 and 2 users, but for one case in 2^40."""
    no, yes = 2.0**-40, 1 - 2.0**-40
    biases = [(no, no, no, yes), (no, no, yes), (no, yes)]
    return FindThenChoose(
        k=k,
        order=4.0,
        adjacency=ADDS,
        rounds=tuple(Round(step=coins(*values), choosing=2.0, enough=k + 1) for values in biases),
    )


def test_a_release_stops_to_find_when_there_is_enough_and_pays_for_no_more():
    mechanism = three_rounds(2)
    tables = [going.step.cost(ADDS) for going in mechanism.rounds]
    for counts, rounds, found in (
        ("444", 1, 3),
        ("443", 2, 3),
        ("4432", 2, 3),
        ("4422", 3, 4),
        ("42", 3, 2),
        ("", 3, 0),
    ):
        names = dict(zip("abcd", map(int, counts), strict=False))
        release = mechanism.release(bounded(names), rng=SeededSource(1))
        chosen = (f"choose 2 of {found}",) if found > 2 else ()
        assert release.steps == ("table",) * rounds + chosen
        price = sum(tables[1:rounds], start=tables[0])
        if chosen:
            choice = mechanism.choice(mechanism.rounds[rounds - 1], found)
            assert release.cost == price + choice.cost
            assert choice.cost.rdp(4.0) <= 2.0
            assert choice.cost.rdp(4.0) == pytest.approx(2.0, rel=1e-6)
            assert choice.cost.delta == 0
        else:
            assert release.cost == price
            assert release.items == set(names)
        assert release.cost.rdp(4.0) <= mechanism.cost.rdp(4.0)
        assert release.reserved == mechanism.cost


@pytest.mark.parametrize("adjacency", list(Adjacency))
def test_every_path_stays_within_the_limits(adjacency):
    budget = Budget(epsilon=1.0, delta=1e-6, releases=3)
    limits = budget.filter(order=12.0, delta_share=0.4)
    mechanism = FindThenChoose.calibrate(budget, limits=limits, adjacency=adjacency, k=5, max_items_per_user=7)
    spent = cutline.Cost(adjacency=adjacency)
    for going in mechanism.rounds:
        spent += going.step.cost(adjacency)
        for candidates in (going.enough, 2 * going.enough, 1000):
            path = spent + mechanism.choice(going, candidates).cost
            assert (3 * path).rdp(12.0) <= limits.rdp
            assert path.rdp(12.0) >= limits.rdp / 3 * (1 - 1e-6)
    assert (3 * spent).delta <= limits.delta
    assert mechanism.cost.rdp(12.5) == math.inf
    assert [going.enough for going in mechanism.rounds] == [8, 6, 6]


def test_the_full_counts_rank_what_the_bounded_ones_found():
    full, counts = {"a": 900, "b": 800, "c": 700, "d": 90}, {"a": 90, "b": 300, "c": 95, "d": 90}
    mechanism = FindThenChoose.calibrate(Budget(epsilon=3.0, delta=1e-6), k=2, max_items_per_user=1)
    releases = [mechanism.release(bounded(full, counts), rng=SeededSource(seed)) for seed in range(20)]
    assert all(release.items == {"a", "b"} for release in releases)
    assert not any(release.mechanism["k"] != 2 for release in releases)


@pytest.mark.parametrize("k", [1, 2, 3, 4])
@pytest.mark.parametrize("adjacency", list(Adjacency))
def test_choosing_is_peeling_the_best_or_the_worst(k, adjacency):
    counts = np.array([[9, 7, 7, 3, 0]])
    choice = Choice.within(0.7, order=3.0, k=k, candidates=5, adjacency=adjacency)
    (law,) = choice.laws(counts)
    scores = counts[0] if k <= 2 else counts[0].max() - counts[0]
    drawn = PeelingEM(k=min(k, 5 - k), epsilon=choice.peels.epsilon, adjacency=adjacency).law(
        ClosedHistogram.from_counts(scores)
    )
    for kept in itertools.combinations(range(5), k):
        shown = frozenset(kept) if k <= 2 else frozenset(range(5)) - frozenset(kept)
        expected = math.fsum(p for outcome, p in drawn.items() if frozenset(outcome.items) == shown)
        assert law[frozenset(kept)] == pytest.approx(expected, rel=1e-11)


@pytest.mark.parametrize(("k", "bound"), [(1, 1), (4, 50), (1000, 300)])
def test_no_log_is_refused(k, bound):
    asked = cutline.quote(k=k, max_items_per_user=bound, mechanism="find-then-choose", rng=SeededSource(0))
    order = asked.mechanism["order"]
    for counts in ({}, {"a": 1}, {"a": 500}, dict.fromkeys("abcdef", 300), {n: 900 - n for n in range(700)}):
        release = asked.run((counts, counts))
        assert release.items <= set(counts)
        assert len(release.items) <= k
        assert release.k == k
        assert release.cost.rdp(order) <= release.reserved.rdp(order)


def test_chance_is_that_of_the_law_and_of_what_goes_out_whole():
    mechanism = FindThenChoose(
        k=2,
        order=3.0,
        adjacency=ADDS,
        rounds=(
            Round(step=coins(0.1, 0.3, 0.6), choosing=1.0, enough=3),
            Round(step=coins(0.2, 0.5), choosing=0.5, enough=3),
        ),
    )
    for counts in ({"a": 5, "b": 3, "c": 3, "d": 1}, {"a": 4, "b": 1}, {"a": 1}):
        law = mechanism.law(bounded(counts))
        for k in range(1, 4):
            wanted = frozenset(sorted(counts)[:k])
            expected = math.fsum(p for outcome, p in law.items() if outcome.items == wanted)
            assert mechanism.chance(bounded(counts), k) == pytest.approx(expected, rel=1e-11)


def test_noisy_counts_are_of_all_users():
    full, counts = {"a": 4000, "b": 3000, "c": 90}, {"a": 900, "b": 800, "c": 9}
    release = cutline.top(
        (full, counts), k=2, max_items_per_user=1, mechanism="find-then-choose", counts=True, rng=SeededSource(0)
    )
    assert release.items == {"a", "b"}
    assert {item: round(n, -2) for item, n in release.counts.items()} == {"a": 4000, "b": 3000}


def test_parts_that_make_no_sense_are_refused():
    step = coins(0.1, 0.5)
    for wrong in (
        {"rounds": ()},
        {"rounds": (Round(step=step, choosing=1.0, enough=2),)},
        {"rounds": (Round(step=step, choosing=0.0, enough=3),)},
        {"rounds": tuple(Round(step=coins(0.1, bound=n), choosing=1.0, enough=3) for n in (1, 2))},
        {"order": 1.0},
        {"k": 0},
    ):
        right = {"k": 2, "rounds": (Round(step=step, choosing=1.0, enough=3),), "order": 3.0, "adjacency": ADDS}
        with pytest.raises(ParameterError):
            FindThenChoose(**(right | wrong))


@pytest.mark.parametrize("adjacency", list(Adjacency))
def test_weighted_votes_are_counted_in_eighths(adjacency):
    budget = Budget(epsilon=1.0, delta=1e-6)
    asked = {"k": 2, "max_items_per_user": 10, "vote_parts": 8, "adjacency": adjacency}
    mechanism = FindThenChoose.calibrate(budget, **asked)
    assert budget.fits(mechanism.cost)
    full = {"a": 900, "b": 800, "c": 300, "d": 3}
    release = cutline.top(
        (full, {item: 6 * n for item, n in full.items()}),
        mechanism="find-then-choose",
        epsilon=1.0,
        rng=SeededSource(0),
        **asked,
    )
    assert release.items == {"a", "b"}
    assert release.mechanism["vote_parts"] == 8
    whole = FindThenChoose.calibrate(budget, k=2, max_items_per_user=10, adjacency=adjacency)
    for eighths, votes in zip(mechanism.rounds, whole.rounds, strict=True):  # a little later than whole votes
        halves = [np.searchsorted(going.step.table.values, 0.5) / going.step.parts for going in (eighths, votes)]
        assert halves[1] <= halves[0] <= 1.1 * halves[1] + 2


@pytest.mark.parametrize("parts", [0, 2, True, "8"])
def test_a_vote_has_one_part_or_eight(parts):
    with pytest.raises(ParameterError, match="vote_parts"):
        cutline.quote(k=20, max_items_per_user=5, vote_parts=parts)
    with pytest.raises(ParameterError, match="vote_parts"):
        FindThenChoose.calibrate(Budget(epsilon=1.0, delta=1e-6), k=2, max_items_per_user=5, vote_parts=parts)
    with pytest.raises(ParameterError, match="vote_parts"):
        cutline.quote(vote_parts=8)


def test_a_ledger_reserves_the_dearest_path_and_charges_what_ran(tmp_path):
    full = {n: 9000 - 20 * n for n in range(300)}
    with cutline.Ledger(tmp_path / "books.db") as books:
        books.create("visits", budget=Budget(epsilon=3.0, delta=1e-6, releases=10), owner="ann")
        asked = cutline.quote(k=20, max_items_per_user=50, ledger=books, dataset="visits")
        after = asked.to_dict()["ledger_after"]["used_percent"]
        assert after == pytest.approx({"rdp": 10.0, "delta": 10.0}, rel=1e-6)
        release = asked.run((full, full))
        used = books.show("visits").to_dict()["used_percent"]
    assert release.steps == ("table", "choose 20 of 300")  # everything was found in the first round
    assert used == pytest.approx({"rdp": 10.0, "delta": 10 / 3}, rel=1e-6)
