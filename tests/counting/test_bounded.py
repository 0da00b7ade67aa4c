"""With a bound on items per user, what stays in the engine, what leaves it, and that nothing is refused for the rows."""

from __future__ import annotations

import gc
import os
import pickle
from collections import Counter
from itertools import combinations

import pyarrow as pa
import pytest

from cutline import quote, top
from cutline.counting import ask, bind, check, count, count_by
from cutline.counting.kept import bounded_histograms
from cutline.errors import ParameterError
from cutline.mechanisms.noisy_counts import NoisyCounts, with_counts
from cutline.mechanisms.open.find_then_choose import FindThenChoose
from cutline.privacy import Budget
from cutline.sampling import SeededSource


def table(rows):
    users, items = zip(*rows, strict=True) if rows else ((), ())
    return pa.table({"u": pa.array(users, pa.int64()), "i": pa.array(items, pa.string())})


def counted(source, bound, **options):
    return count(source, user="u", item="i", max_items_per_user=bound, **options)


def shown(histogram):
    ranks = range(len(histogram.items))
    counts = [n for n, m in zip(histogram.values, histogram.multiplicities, strict=True) for _ in range(m)]
    return list(zip(histogram.named(ranks), counts, histogram.full_counts(ranks).tolist(), strict=True))


ROWS = [(user, f"i{(user * 7 + n * n) % 23}") for user in range(40) for n in range(user % 12)]


def test_a_bound_that_nobody_reaches_changes_nothing():
    full = Counter(item for _, item in set(ROWS))
    assert shown(counted(table(ROWS * 2), 12)) == [
        (item, n, n) for item, n in sorted(full.items(), key=lambda pair: (-pair[1], pair[0]))
    ]


@pytest.mark.parametrize("bound", [1, 3, 1500])
def test_slices_of_users_keep_the_same_items(bound, monkeypatch):
    source = table([*ROWS, *((99, f"only {n}") for n in range(2000))])
    at_once = shown(counted(source, bound))
    monkeypatch.setattr("cutline.counting.engines.duck.bounded._AT_ONCE", 50)
    assert shown(counted(source, bound)) == at_once
    monkeypatch.setattr("cutline.counting.engines.duck.bounded._HEAP", 0)
    assert shown(counted(source, bound, memory_limit="60MB")) == at_once


def test_every_item_of_a_user_is_kept_as_often_as_any_other():
    source = table([(user, f"i{n}") for user in range(3000) for n in range(12)])
    kept = {item: n for item, n, full in shown(counted(source, 3)) if full == 3000}
    assert sum(kept.values()) == 3 * 3000
    assert len(kept) == 12
    assert all(abs(n - 750) < 6 * 23.8 for n in kept.values())  # binomial, 1/4 of 3000; six standard deviations


def test_pairs_of_items_are_kept_together_as_often_as_by_chance():
    users, items = range(300), [f"i{n}" for n in range(6)]
    source = table([(user, item) for user in users for item in items])
    asked = {"user": "u", "item": "i", "max_items_per_user": 3}
    each = count_by(source, **asked, by="u", groups=users)  # every user is a group, so it shows what they keep
    together = Counter(frozenset(pair) for kept in each.values() for pair in combinations(kept.items, 2))
    assert sum(together.values()) == 300 * 3
    assert all(abs(together[frozenset(pair)] - 60) < 6 * 6.9 for pair in combinations(items, 2))  # 1/5 of 300
    assert len({kept.items[:] for kept in each.values()}) == 20  # every choice occurs


class Watched:
    """Counts that note what is asked of them."""

    def __init__(self, kept):
        self.kept, self.asked = kept, []

    def tally(self):
        return self.kept.tally()

    def find(self, group, wanted):
        self.asked.append(list(wanted))
        return self.kept.find(group, wanted)


def test_names_leave_the_engine_only_when_they_go_out():
    rows = [(user, f"top {n}") for user in range(900) for n in range(4)] + [(n, f"rare {n}") for n in range(900)]
    bound = bind(table(rows), ask(user="u", item="i", max_items_per_user=5))
    kept = Watched(bound.votes.keep())
    (histogram,) = bounded_histograms(kept, groups=1, max_items_per_user=5, parts=1)
    assert (histogram.values.tolist(), histogram.multiplicities.tolist()) == ([900, 1], [4, 900])
    assert kept.asked == []
    mechanism = FindThenChoose.calibrate(Budget(epsilon=1.0, delta=1e-6), k=3, max_items_per_user=5)
    release = mechanism.release(histogram, rng=SeededSource(0))
    assert release.items < {f"top {n}" for n in range(4)}
    assert kept.asked == [[(900, place) for place in range(4)]]  # once, names and full counts together
    noisy = NoisyCounts.calibrate(Budget(epsilon=9.0, delta=1e-6))
    counts = with_counts(release, histogram, noisy, rng=SeededSource(0)).counts
    assert all(abs(n - 900) < 20 for n in counts.values())
    assert len(kept.asked) == 1


def test_an_engine_is_open_as_long_as_its_counts_and_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))  # others count beside this test
    root = tmp_path / f"cutline-{os.getuid()}"

    def directories():
        gc.collect()
        return {path for path in root.iterdir() if path.is_dir()} if root.exists() else set()

    before = directories()
    histogram = counted(table(ROWS), 2)
    assert len(directories() - before) == 1
    assert len(histogram.named([0])) == 1
    with pytest.raises(TypeError, match="private data"):
        pickle.dumps(histogram)
    del histogram
    assert directories() <= before


EDGES = {
    "no rows": [],
    "no items": [(1, None), (None, "a"), (None, None)],
    "one item": [(user, "a") for user in range(400)],
    "one user": [(1, f"i{n}") for n in range(40)],
    "ties": [(user, item) for user in range(300) for item in "abc"],
}


@pytest.mark.parametrize(
    ("bound", "asked"), [(1, {}), (10**6, {}), (2, {"k": 20}), (1, {"k": 20, "counts": True})], ids=str
)
def test_any_log_runs_the_same_path(bound, asked):
    settled = quote(user="u", item="i", max_items_per_user=bound, rng=SeededSource(0), **asked)
    for name, rows in EDGES.items():
        release = settled.run(table(rows))
        assert release.status in ("released", "partial", "empty")
        assert release.items <= {item for _, item in rows}
        if name == "one item" and bound == 1:
            assert release.items == {"a"}
            assert (release.counts is not None) == ("counts" in asked)


def test_any_log_runs_the_same_path_by_groups():
    settled = quote(
        user="u", item="i", by="i", groups=["a", "nobody's"], max_items_per_user=1, rng=SeededSource(0), epsilon=3.0
    )
    for rows in EDGES.values():
        many = sum(item == "a" for _, item in rows) > 200
        found = {group: release.items for group, release in settled.run(table(rows)).releases.items()}
        assert found == {"a": frozenset("a") if many else frozenset(), "nobody's": frozenset()}


def test_the_release_of_a_log_is_that_of_its_ready_counts():
    log = table(ROWS * 2)
    rows = shown(counted(log, 4))
    pair = {item: n for item, _, n in rows}, {item: n for item, n, _ in rows}
    for options in ({}, {"k": 20}):
        drawn = [
            top(source, max_items_per_user=4, epsilon=3.0, delta=0.01, rng=SeededSource(3), **options, **columns)
            for source, columns in ((log, {"user": "u", "item": "i"}), (pair, {}))
        ]
        assert drawn[0].items == drawn[1].items


def test_what_is_refused_is_public():
    for log in (table([]), table(ROWS)):
        for bound in (0, -1, True, 2.5, 10**6 + 1):
            with pytest.raises(ParameterError, match="max_items_per_user must be a whole number"):
                check(log, user="u", item="i", max_items_per_user=bound)
        with pytest.raises(ParameterError, match="a domain that is open"):
            check(log, user="u", item="i", max_items_per_user=5, candidates=["i1"])
    with pytest.raises(ParameterError, match="ready counts are a pair"):
        check({"a": 3}, max_items_per_user=5)
