"""Grouped counting is one count per group, and a user's bound on groups reads the user's own rows alone."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cutline.counting import check, count, count_by
from cutline.errors import ColumnTypeError, ParameterError, SourceError, WhereError

GROUPS = ["c", "a", "nobody"]
rows_of = st.lists(
    st.tuples(
        st.one_of(st.none(), st.integers(0, 5)),
        st.one_of(st.none(), st.sampled_from("xyzZé")),
        st.one_of(st.none(), st.sampled_from("abcd")),
    ),
    max_size=40,
)


def table(rows):
    users, items, groups = zip(*rows, strict=True) if rows else ((), (), ())
    return pa.table(
        {"u": pa.array(users, pa.int64()), "i": pa.array(items, pa.string()), "g": pa.array(groups, pa.string())}
    )


def shown(histogram):
    if hasattr(histogram, "counts"):
        return tuple(histogram.items), histogram.counts.tolist()
    return tuple(histogram.items), histogram.values.tolist(), histogram.multiplicities.tolist()


def grouped(source, **options):
    return count_by(source, user="u", item="i", by="g", **{"groups": GROUPS, "max_k": 2} | options)


@settings(max_examples=10)
@given(rows=rows_of, candidates=st.sampled_from([None, ["z", "x", "absent"]]))
def test_groups_are_one_count_each(rows, candidates):
    log = table(rows)
    answers = grouped(log, candidates=candidates)
    assert list(answers) == GROUPS
    for group, histogram in answers.items():
        alone = count(log, user="u", item="i", max_k=2, where=f"g = '{group}'", candidates=candidates)
        assert shown(histogram) == shown(alone)


def groups_of(answers, users):
    """Which groups each user counts in, where every user has an item of their own."""
    return {user: {g for g, histogram in answers.items() if user in histogram.items} for user in users}


@settings(max_examples=8)
@given(
    touched=st.lists(st.frozensets(st.sampled_from("abcde"), max_size=5), min_size=2, max_size=6),
    limit=st.integers(1, 3),
    key=st.sampled_from([None, "k", b"\x00\xff"]),
)
def test_a_user_keeps_so_many_groups_whoever_else_is_there(touched, limit, key):
    rows = [(user, str(user), group) for user, groups in enumerate(touched) for group in sorted(groups)]
    listed = list("abcd")  # e is not listed, and takes nobody's place

    def kept(log_rows, groups=listed):
        names = sorted({item for _, item, _ in log_rows})
        return groups_of(grouped(table(log_rows), groups=groups, max_k=9, max_groups_per_user=limit, key=key), names)

    everyone = kept(rows)
    for user, groups in enumerate(touched):
        own = [row for row in rows if row[0] == user]
        if own:
            assert len(everyone[str(user)]) == min(limit, len(groups & set(listed)))
            assert kept(own) == {str(user): everyone[str(user)]}
            assert kept(own, listed[::-1]) == {str(user): everyone[str(user)]}


def test_the_key_chooses_and_all_groups_are_chosen_alike():
    rows = [(user, "x", group) for user in range(400) for group in "abcd"]
    first, second = (
        [
            h.counts[0]
            for h in grouped(table(rows), groups=list("abcd"), max_k=1, max_groups_per_user=1, key=key).values()
        ]
        for key in ("one", "two")
    )
    assert sum(first) == sum(second) == 400
    assert first != second
    assert all(60 < n < 140 for n in first + second)  # 100 each; six standard deviations of 8.7 and more


def test_a_limit_that_does_not_bind_changes_nothing():
    rows = [(user, "x", group) for user in range(9) for group in "ac"]
    free = {g: shown(h) for g, h in grouped(table(rows)).items()}
    assert {g: shown(h) for g, h in grouped(table(rows), max_groups_per_user=3).items()} == free


def test_with_candidates_the_limit_is_spent_on_items_that_count():
    rows = [(user, item, group) for user in range(20) for item, group in (("other", "a"), ("x", "c"))]
    answers = grouped(table(rows), candidates=["x", "y"], max_groups_per_user=1)
    assert shown(answers["c"]) == (("x", "y"), [20, 0], [1, 1])
    assert shown(answers["a"]) == (("x", "y"), [0], [2])


def test_groups_in_the_type_of_their_column(tmp_path):
    path = tmp_path / "log.parquet"
    days = [dt.date(2020, 1, 1), dt.date(2020, 1, 2)]
    pq.write_table(pa.table({"u": [1, 2], "i": ["x", "y"], "day": pa.array(days, pa.date32())}), path)
    answers = count_by(path, user="u", item="i", by="day", groups=days[::-1], max_k=1)
    assert [shown(h) for h in answers.values()] == [(("y",), [1, 0]), (("x",), [1, 0])]
    written = count_by(path, user="u", item="i", by="day", groups=["2020-01-02", "2020-01-01"], max_k=1)
    assert {day: shown(h) for day, h in written.items()} == {str(day): shown(h) for day, h in answers.items()}
    for wrong in (["2020-01-32"], [1], [dt.datetime(2020, 1, 1)]):
        with pytest.raises(ColumnTypeError, match="groups must be values of the by column's type, DATE"):
            count_by(path, user="u", item="i", by="day", groups=wrong, max_k=1)
        with pytest.raises(ColumnTypeError, match="groups"):
            check(path, user="u", item="i", by="day", groups=wrong)
    with pytest.raises(ColumnTypeError, match="groups must stay distinct"):
        check(path, user="u", item="i", by="day", groups=["2020-01-01", days[0]])
    check(path, user="u", item="i", by="day", groups=days)


def test_a_filter_and_a_memory_limit_apply():
    rows = [(user, "x", "a") for user in range(9)]
    answers = grouped(table(rows), where="u < 4", memory_limit="100MB", max_groups_per_user=1)
    assert shown(answers["a"]) == (("x",), [4, 0, 0])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"groups": None}, "groups must be a public list"),
        ({"groups": []}, "groups must name at least one"),
        ({"groups": "abc"}, "groups must be a list"),
        ({"groups": ["a", "a"]}, "groups must not repeat"),
        ({"groups": ["a", None]}, "groups must not be missing"),
        ({"by": None}, "by must be the name of a column"),
        ({"max_groups_per_user": 0}, "max_groups_per_user"),
        ({"max_groups_per_user": True}, "max_groups_per_user"),
        ({"max_groups_per_user": 1.5}, "max_groups_per_user"),
        ({"key": 5}, "key must be text or bytes"),
        ({"max_k": 0}, "max_k"),
    ],
)
def test_refusals_depend_on_the_question_alone(options, message):
    asked = {"user": "u", "item": "i", "by": "g", "groups": GROUPS, "max_k": 2} | options
    with pytest.raises(ParameterError, match=message):
        count_by(table([]), **asked)
    if "max_k" not in options:
        del asked["max_k"]
        with pytest.raises(ParameterError, match=message):
            check(table([]), **asked)


def test_a_memory_limit_that_counts_a_sparse_log_counts_a_dense_one():
    groups, names = range(20), range(100_000)
    rows = np.arange(len(groups) * len(names))
    log = pa.table({"u": np.zeros_like(rows), "i": rows % len(names), "g": rows // len(names)})
    for source, counts in ((log.slice(0, 0), [0]), (log, [1])):
        answers = count_by(
            source, user="u", item="i", by="g", groups=groups, candidates=names, memory_limit="60MB", max_k=2
        )
        assert [histogram.values.tolist() for histogram in answers.values()] == [counts] * len(groups)
        assert answers[19].top(2) == (0, 1)


def test_a_group_that_is_no_text_is_refused_like_any_other():
    with pytest.raises(ColumnTypeError, match="groups must be values of the by column's type"):
        count_by(table([]), user="u", item="i", by="g", groups=["a", "\ud800"], max_groups_per_user=1)


def test_the_group_column_is_checked_and_ready_counts_have_none():
    with pytest.raises(SourceError, match="'day'"):
        count_by(table([]), user="u", item="i", by="day", groups=GROUPS)
    for ask in (count_by, check):
        with pytest.raises(ParameterError, match="ready counts have no groups"):
            ask({"x": 1}, by="g", groups=GROUPS)


def test_check_refuses_what_count_refuses_and_counts_nothing(tmp_path):
    log = table([(1, "x", "a")])
    check(log, user="u", item="i", where="g = 'a'", candidates=["x"], memory_limit="100MB")
    check({"x": 1})
    for refusal, options in (
        (SourceError, {"item": "I"}),
        (WhereError, {"where": "random() < 1"}),
        (ColumnTypeError, {"candidates": [1]}),
        (ParameterError, {"memory_limit": "no"}),
        (ParameterError, {"user": None}),
    ):
        with pytest.raises(refusal):
            check(log, **{"user": "u", "item": "i"} | options)
    broken = tmp_path / "log.parquet"
    pq.write_table(log, broken)
    data = bytearray(broken.read_bytes())
    data[4:40] = bytes(36)  # the pages of rows, not the schema
    broken.write_bytes(data)
    check(broken, user="u", item="i")


def test_progress_comes_in_order_and_ends_with_one():
    log = table([(user % 5000, f"{user % 997}", "abcd"[user % 4]) for user in range(200_000)])
    for run in (
        lambda seen: count(log, user="u", item="i", max_k=5, progress=seen.append),
        lambda seen: grouped(log, progress=seen.append),
        lambda seen: grouped(log, progress=seen.append, candidates=["1"]),
    ):
        seen: list[float] = []
        run(seen)
        assert seen == sorted(seen)
        assert seen[-1] == 1.0
        assert all(0 <= share <= 1 for share in seen)


def test_what_a_progress_function_raises_is_the_callers():
    class Stop(ValueError):
        pass

    def stop(_share):
        raise Stop("mine")

    with pytest.raises(Stop, match="mine"):
        count(table([(1, "x", "a")]), user="u", item="i", max_k=5, progress=stop)
