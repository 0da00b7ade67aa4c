"""Binding opens a log, refuses for public reasons and leaves nothing open; counting comes after it, if at all."""

import os

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cutline.counting import ask, bind, count, count_by, group_by
from cutline.counting.engines.duck.engine import Engine
from cutline.errors import CountsError, CutlineError, EngineError, ParameterError, SourceError
from cutline.histogram import BoundedHistogram

LOG = pa.table({"u": [1, 2, 2, 3], "i": ["a", "a", "b", None], "g": ["x", "x", "y", "y"]})
ASKED = ask(user="u", item="i")


def shown(histogram):
    return histogram.items, histogram.counts.tolist()


@pytest.fixture
def engines(monkeypatch):
    """The engines that are open, and how many there have ever been."""
    opened = {"now": 0, "ever": 0}
    start, close = Engine.__init__, Engine.__exit__

    def counted_start(self, **options):
        start(self, **options)
        opened["now"] += 1
        opened["ever"] += 1

    def counted_close(self, *error):
        close(self, *error)
        opened["now"] -= 1

    monkeypatch.setattr(Engine, "__init__", counted_start)
    monkeypatch.setattr(Engine, "__exit__", counted_close)
    return opened


def test_a_bound_log_is_counted_as_often_as_one_likes():
    log = bind(LOG, ASKED)
    assert [shown(histogram) for histogram in log.count(2)] == [(("a", "b"), [2, 1, 0])]
    assert [shown(histogram) for histogram in log.count(max_k=1, progress=lambda _: None)] == [(("a", "b"), [2, 1])]


def test_nothing_is_open_between_binding_and_counting(tmp_path, monkeypatch, engines):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    pq.write_table(LOG, tmp_path / "log.parquet")
    for source in (LOG, tmp_path / "log.parquet"):
        for question in (ASKED, ask(user="u", item="i", where="g = 'x'", candidates=["a", "z"])):
            bind(source, question)
            assert engines["now"] == 0
            assert not list((tmp_path / f"cutline-{os.getuid()}").iterdir())
    assert engines["ever"] == 4


def test_a_question_with_groups_gives_one_histogram_each_in_their_order():
    grouping = group_by(by="g", groups=["y", "x", "none"], max_groups_per_user=None, key=None)
    histograms = bind(LOG, ask(user="u", item="i", grouping=grouping)).count(1)
    assert [shown(histogram) for histogram in histograms] == [(("b",), [1, 0]), (("a",), [2, 0]), ((), [0, 0])]
    found = count_by(LOG, user="u", item="i", by="g", groups=["y", "x", "none"], max_k=1)
    assert [shown(histogram) for histogram in found.values()] == [shown(histogram) for histogram in histograms]


def test_what_is_public_is_refused_when_binding(tmp_path):
    for source, question in (
        (LOG, ask()),
        (LOG, ask(user="u")),
        (LOG, ask(user="u", item="missing")),
        (LOG, ask(user="u", item="i", where="sum(u) > 1")),
        (LOG, ask(user="u", item="i", candidates=[1])),
        (tmp_path / "missing.parquet", ASKED),
        ({"a": 1}, ASKED),
        ({"a": 1.5}, ask()),
        (object(), ASKED),
    ):
        with pytest.raises(CutlineError):
            bind(source, question)
    for asked in ({"user": 3}, {"item": ""}, {"candidates": []}, {"memory_limit": "lots"}):
        with pytest.raises(ParameterError):
            ask(**asked)
    with pytest.raises(ParameterError, match="max_k"):
        bind(LOG, ASKED).count(0)


def test_a_place_to_spill_that_is_not_ones_own_is_refused_before_anything_is_paid(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    (tmp_path / f"cutline-{os.getuid()}").symlink_to(tmp_path)
    with pytest.raises(EngineError, match="this user alone"):
        bind(LOG, ASKED)


def test_a_log_that_changes_its_types_is_refused_for_them(tmp_path):
    path = tmp_path / "log.parquet"
    pq.write_table(pa.table({"u": [1], "i": [7]}), path)
    log = bind(path, ask(user="u", item="i", candidates=[7]))
    pq.write_table(pa.table({"u": [1], "i": ["seven"]}), path)
    with pytest.raises(SourceError, match="keep the types"):
        log.count(1)


@pytest.mark.parametrize("ready", [{"a": 3, "b": 1}, np.array([3, 1])])
def test_ready_counts_are_taken_when_they_are_bound(ready):
    log = bind(ready, ask())
    first = next(iter(ready)) if isinstance(ready, dict) else 0
    ready[first] = 0
    (histogram,) = log.count(2)
    assert histogram.counts.tolist() == [3, 1, 0]
    ready[first] = -1
    with pytest.raises(CountsError):
        bind(ready, ask())


def test_ready_counts_of_candidates_only():
    (histogram,) = bind({"a": 3, "b": 1}, ask(candidates=["b", "c"])).count(max_k=5, progress=None)
    assert (histogram.top(2), histogram.values.tolist()) == (("b", "c"), [1, 0])
    assert count(np.array([3, 1]), candidates=[1, 2]).top(2) == (1, 2)


def test_a_pair_of_ready_counts_is_bounded():
    full, bounded = {"a": 9, "b": 8, "c": 2}, {"a": 3, "b": 5}
    histogram = count((full, bounded), max_items_per_user=1)
    assert isinstance(histogram, BoundedHistogram)
    assert (histogram.items, histogram.full_counts([0]).tolist(), histogram.max_items_per_user) == (("b", "a"), [8], 1)
    assert count((full, bounded), max_k=2).counts.tolist() == [9, 8, 2]  # nobody asks for the bounded ones
    for source in (full, (full,), (full, bounded, full)):
        with pytest.raises(ParameterError, match="bounded"):
            count(source, max_items_per_user=1)
    with pytest.raises(ParameterError, match="open"):
        count((full, bounded), max_items_per_user=1, candidates=["a"])
    with pytest.raises(ParameterError, match="columns"):
        count((full, bounded), max_items_per_user=1, user="u")
