"""The constants of both relations, against brute force."""

from itertools import pairwise, product

import numpy as np
import pytest

from cutline.mechanisms.adaptive.choosers import UNIT
from cutline.privacy import Adjacency

MOVES = {Adjacency.ADD_REMOVE: [(0, 1), (-1, 0)], Adjacency.REPLACE: [(-1, 0, 1)]}


def gaps(counts):
    ordered = [*sorted(counts, reverse=True), 0]
    return np.array([a - b for a, b in pairwise(ordered)])


def neighbours(counts, adjacency):
    for moves in MOVES[adjacency]:
        for step in product(moves, repeat=len(counts)):
            moved = tuple(c + s for c, s in zip(counts, step, strict=True))
            if min(moved) >= 0:
                yield moved


@pytest.mark.parametrize("adjacency", Adjacency)
def test_ranges_are_reached_and_never_passed(adjacency):
    widest_gap = widest_range = widest_count = 0
    for counts in product(range(5), repeat=3):
        for moved in neighbours(counts, adjacency):
            change = gaps(moved) - gaps(counts)
            widest_gap = max(widest_gap, np.abs(change).max())
            widest_range = max(widest_range, change.max() - change.min())
            each = np.array(moved) - np.array(counts)
            widest_count = max(widest_count, each.max() - each.min())
    assert widest_gap == adjacency.gap_change
    assert widest_range == adjacency.gap_range
    assert widest_count == adjacency.count_range


@pytest.mark.parametrize("adjacency", Adjacency)
def test_distance_is_lipschitz_and_zero_where_the_set_can_differ(adjacency):
    def top(counts, k):
        return frozenset(sorted(range(len(counts)), key=lambda i: (-counts[i], i))[:k])

    for counts in product(range(6), repeat=3):
        for moved in neighbours(counts, adjacency):
            here, there = adjacency.distance(gaps(counts)), adjacency.distance(gaps(moved))
            assert np.abs(here - there).max() <= 1
            for k in (1, 2):
                if top(counts, k) != top(moved, k):
                    assert here[k - 1] == there[k - 1] == 0


@pytest.mark.parametrize("adjacency", Adjacency)
def test_margin_distance_matches_its_formula(adjacency):
    for margin in np.arange(0, 40, 0.25):
        units = np.array([int(margin * UNIT)])
        expected = max(0, int(np.ceil((margin - adjacency.gap_range) / adjacency.gap_range)))
        assert adjacency.margin_distance(units, unit=UNIT)[0] == expected
