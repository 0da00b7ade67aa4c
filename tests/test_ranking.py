"""Lazily ranked arrays: the same ranks as a full sort, however deep and in whatever order they are asked for."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutline.counting import count
from cutline.histogram import ClosedHistogram
from cutline.ranking import Ranked, RankedIndices, RankedTail, take, tally


def ranked(counts):
    values, multiplicities = tally(counts)
    return RankedIndices(counts, values, multiplicities)


def sorted_indices(counts):
    return np.argsort(-counts, kind="stable").tolist()


shapes = {
    "small": lambda random: random.integers(0, 9, 20_000),
    "around two bytes": lambda random: random.integers(65_530, 65_541, 20_000),
    "huge": lambda random: random.integers(0, 2**42, 20_000),
    "zipf": lambda random: random.permutation(10**7 // np.arange(1, 20_001)),
    "all equal": lambda random: np.full(20_000, 65_535),
}


@pytest.mark.parametrize("shape", shapes)
def test_ranks_are_those_of_a_full_sort_at_any_depth(shape):
    counts = shapes[shape](np.random.default_rng(1))
    truth = sorted_indices(counts)
    indices = ranked(counts)
    for ranks in ([0], [2, 0, 1], [150, 3], [9000], [19_999, 0], range(0, 20_000, 7)):
        assert list(indices.take(ranks)) == [truth[rank] for rank in ranks]
    assert list(indices) == truth
    assert list(ranked(counts)) == truth
    assert ranked(counts)[:300] == tuple(truth[:300])
    assert ranked(counts)[-1] == truth[-1]
    assert type(ranked(counts)[5]) is int


@given(st.lists(st.one_of(st.integers(0, 5), st.integers(65_533, 65_540), st.integers(0, 2**41)), max_size=30))
def test_tally_is_unique_in_descending_order(listed):
    counts = np.array(listed, dtype=np.int64)
    values, multiplicities = tally(counts)
    truth, times = np.unique(counts, return_counts=True)
    assert values.tolist() == truth[::-1].tolist()
    assert multiplicities.tolist() == times[::-1].tolist()
    assert ranked(counts).take(range(len(listed))) == tuple(sorted_indices(counts))


def test_a_rank_past_the_end_is_refused_as_by_any_sequence():
    with pytest.raises(IndexError):
        ranked(np.array([1, 2]))[2]
    assert ranked(np.array([], dtype=np.int64)).take([]) == ()


def test_the_array_is_a_snapshot():
    counts = np.array([5, 1, 3])
    histogram = ClosedHistogram.from_counts(counts)
    counts[:] = [0, 9, 9]
    assert histogram.top(3) == (0, 2, 1)


def test_named_looks_up_arrays_and_mappings_alike():
    assert ClosedHistogram.from_counts(np.array([5, 1, 3])).named([2, 0]) == (1, 0)
    assert ClosedHistogram.from_counts({"a": 5, "b": 1, "c": 3}).named([2, 0]) == ("b", "a")


def test_every_ranked_sequence_answers_like_a_tuple():
    random = np.random.default_rng(2)
    counts = random.integers(0, 50, 300)
    truth = tuple(sorted_indices(counts))
    rows = [(user, index) for index, number in enumerate(counts.tolist()) for user in range(number)]
    users, items = zip(*rows, strict=True)
    log = pa.table({"u": users, "i": items})
    counted = count(log, user="u", item="i", candidates=range(300)).items
    for sequence, expected in (
        (ranked(counts), truth),
        (counted, truth),
        (RankedTail(truth, 7), truth[7:]),
        (RankedTail(ranked(counts), 7), truth[7:]),
        (RankedTail(counted, 7), truth[7:]),
        (RankedTail(truth, 400), ()),
    ):
        assert isinstance(sequence, Ranked)
        assert len(sequence) == len(expected)
        assert tuple(sequence) == expected
        for part in (slice(5), slice(5, 250, 40), slice(None, None, -1), slice(-3, None), slice(9, 2)):
            assert sequence[part] == expected[part]
        if expected:
            assert (sequence[0], sequence[-1]) == (expected[0], expected[-1])
            assert (
                sequence.take([250, 3, 3]) == take(expected, [250, 3, 3]) == (expected[250], expected[3], expected[3])
            )
        with pytest.raises(IndexError):
            sequence[len(expected)]
