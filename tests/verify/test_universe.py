"""Universes list every input and exactly the neighbours; how many there are is known beforehand."""

from itertools import combinations_with_replacement, product

import numpy as np
import pytest

from cutline.privacy import Adjacency
from cutline.verify import checks
from cutline.verify.suites.mechanisms.bounded import PopularItems
from cutline.verify.universe import (
    BallotBoxes,
    BoundedHistograms,
    Counts,
    Histograms,
    WeightedHistograms,
    all_counts,
    neighbours,
)


def test_sizes_are_those_of_the_proof():
    counts = all_counts(4, 6)
    assert len(counts) == 7**4
    assert len(neighbours(counts, 6, Adjacency.ADD_REMOVE)[0]) == 2 * (13**4 - 7**4)
    assert len(neighbours(counts, 6, Adjacency.REPLACE)[0]) == 19**4 - 7**4
    first = checks(["stable-top-k"])[0]
    assert first.universe.size == 2 * (13**4 - 7**4)


@pytest.mark.parametrize("adjacency", Adjacency)
def test_the_size_is_the_number_of_pairs(adjacency):
    sizes = product((1, 2, 3, 4), (1, 2, 3))
    universes = [BallotBoxes(teachers=t, labels=c, adjacency=adjacency) for t, c in sizes]
    universes += [Counts(items=c, largest=t, adjacency=adjacency) for t, c in ((16, 2), (6, 3))]
    universes += [Histograms.named(name, adjacency, max_k=3) for name in ("open 3 x 4", "closed 2 x 24", "open 1 x 6")]
    universes += [
        BoundedHistograms(items=n, largest=h, bound=bound, more=more, adjacency=adjacency)
        for n, h, bound, more in ((3, 2, 1, 0), (3, 3, 2, 0), (2, 2, 1, 1), (2, 1, 4, 2))
    ]
    universes += [
        WeightedHistograms(items=n, largest=h, parts=parts, bound=bound, adjacency=adjacency)
        for n, h, parts, bound in ((2, 5, 2, 1), (1, 9, 4, 1), (2, 3, 8, 2))
    ]
    universes += [PopularItems(users=3, adjacency=adjacency)]
    for universe in universes:
        first, second = universe.pairs()
        assert universe.size == len(first) == len(second)
        assert len(set(zip(first.tolist(), second.tolist(), strict=True))) == universe.size
        assert max(first.max(), second.max()) < len(universe.inputs())


def test_neighbours_are_exactly_the_relation():
    counts = all_counts(2, 3)
    for adjacency in Adjacency:
        found = set(zip(*(a.tolist() for a in neighbours(counts, 3, adjacency)), strict=True))
        for i, a in enumerate(counts):
            for j, b in enumerate(counts):
                step = b - a
                one_way = (step >= 0).all() or (step <= 0).all()
                near = np.abs(step).max() == 1 and (adjacency is Adjacency.REPLACE or one_way)
                assert ((i, j) in found) == near


def ballots():
    """Every way in which one user can vote for two items and count in at most one of them."""
    for votes in product((0, 1), repeat=2):
        for kept in product((0, 1), repeat=2):
            if sum(kept) <= 1 and all(k <= v for k, v in zip(kept, votes, strict=True)):
                yield np.array(kept), np.array(votes)


def test_neighbouring_bounded_histograms_are_exactly_the_relation():
    for adjacency in Adjacency:
        universe = BoundedHistograms(items=2, largest=2, bound=1, more=1, adjacency=adjacency)
        rows = [np.array(row) for row in universe._rows()]  # of (bounded, full - bounded)
        first, second = universe.pairs()
        found = set(zip(first.tolist(), second.tolist(), strict=True))
        before = [(np.zeros(2, int), np.zeros(2, int))] if adjacency is Adjacency.ADD_REMOVE else list(ballots())
        moves = {
            tuple(np.concatenate([new[0] - old[0], new[1] - old[1]]).tolist()) for old in before for new in ballots()
        }
        moves |= {tuple(-n for n in move) for move in moves}
        for i, a in enumerate(rows):
            for j, b in enumerate(rows):
                bounded, full = b[:, 0] - a[:, 0], b.sum(axis=1) - a.sum(axis=1)
                near = i != j and tuple(np.concatenate([bounded, full]).tolist()) in moves
                assert ((i, j) in found) == near


def test_neighbouring_boxes_are_exactly_the_relation():
    known = list(product((0, 1), repeat=2))
    for adjacency in Adjacency:
        universe = BallotBoxes(teachers=3, labels=2, adjacency=adjacency)
        sizes = range(4) if adjacency is Adjacency.ADD_REMOVE else (3,)
        boxes = [box for n in sizes for box in combinations_with_replacement(known, n)]
        assert [tuple(map(tuple, found[:, 0].tolist())) for found in universe.inputs()] == boxes
        first, second = universe.pairs()
        pairs = set(zip(first.tolist(), second.tolist(), strict=True))
        assert len(pairs) == len(first)
        for i, j in product(range(len(boxes)), repeat=2):
            only_i, only_j = left_over(boxes[i], boxes[j]), left_over(boxes[j], boxes[i])
            near = (only_i, only_j) == (1, 1) if adjacency is Adjacency.REPLACE else {only_i, only_j} == {0, 1}
            assert ((i, j) in pairs) == near


def left_over(box, other):
    rest = list(box)
    for ballot in other:
        if ballot in rest:
            rest.remove(ballot)
    return len(rest)


def test_an_open_histogram_has_no_item_with_count_0():
    universe = Histograms.named("open 2 x 1", Adjacency.REPLACE, max_k=2)
    assert [set(histogram.items) for histogram in universe.inputs()] == [set(), {"b"}, {"a"}, {"a", "b"}]
    closed = Histograms.named("closed 2 x 1", Adjacency.REPLACE, max_k=2)
    assert all(histogram.size == 2 for histogram in closed.inputs())
