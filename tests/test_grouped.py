"""A table by groups is one release per group, calibrated and charged for the groups that one user can touch."""

from __future__ import annotations

import datetime as dt
import itertools
import json
import pickle
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cutline import Budget
from cutline.api import count, top_by
from cutline.cli.show import print_answer
from cutline.counting import count_by
from cutline.errors import BudgetError, CutlineError, ParameterError, SourceError
from cutline.grouped import GroupedRelease, dearest
from cutline.ledger import Ledger
from cutline.mechanisms import StableTopK
from cutline.mechanisms.registry import calibrate
from cutline.privacy import Adjacency, BoundedRange, Cost, Gaussian, Pure
from cutline.sampling import SeededSource

DAYS = [dt.date(2020, 3, 12) + dt.timedelta(days=n) for n in range(4)]
STATES = ["Alba", "Brent", "Corve", "Dunmar", "Esk", "Foyle"]


@pytest.fixture(scope="module")
def cases(tmp_path_factory):
    """Case reports: who, in which state, on which day; some people are reported on several days, some rows are empty."""
    random = np.random.default_rng(7)
    rows = 4_000
    days = random.integers(0, len(DAYS) + 1, rows)  # one day more than is asked about
    who = random.integers(0, 1_500, rows)
    states = random.choice(len(STATES), rows, p=[0.4, 0.3, 0.2, 0.05, 0.03, 0.02])
    table = pa.table(
        {
            "person": pa.array([None if n % 97 == 0 else int(n) for n in who], pa.int64()),
            "state": pa.array([STATES[s] for s in states]),
            "day": pa.array([DAYS[0] + dt.timedelta(days=int(d)) for d in days], pa.date32()),
        }
    )
    path = tmp_path_factory.mktemp("cases") / "cases.parquet"
    pq.write_table(table, path)
    return path


def one_day(cases, day, **options):
    return count(cases, user="person", item="state", where=f"day = DATE '{day}'", **options)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "candidates", "parameters"),
    [
        ("stable-top-k", None, {"max_k": 6}),
        ("limited-domain", None, {"k": 2, "max_k": 5}),
        ("subset-em", STATES, {"k": 3}),
    ],
)
def test_by_day_is_one_call_per_day(cases, name, candidates, parameters):
    each = Budget(epsilon=0.1, delta=1e-6, releases=len(DAYS))
    mechanism = calibrate(
        name, each, closed=candidates is not None, candidates=candidates and len(candidates), **parameters
    )
    table = count_by(cases, user="person", item="state", by="day", groups=DAYS, max_k=6, candidates=candidates)
    for day in DAYS:
        alone = one_day(cases, day, max_k=6, candidates=candidates)
        assert table[day].top(6) == alone.top(6)
        assert table[day].gaps(6).tolist() == alone.gaps(6).tolist()
        law = mechanism.law(table[day])
        assert law == mechanism.law(alone)
        assert sum(law.values()) == pytest.approx(1)
        assert len(law) > 1
    found = top_by(
        cases, user="person", item="state", by="day", groups=DAYS, candidates=candidates, mechanism=name,
        epsilon=0.1, rng=SeededSource(5), **parameters,
    )  # fmt: skip
    same = SeededSource(5)
    assert list(found.releases) == DAYS
    for day in DAYS:
        # The same mechanism, the same law, the same bits: the same release.
        assert found.releases[day] == mechanism.release(one_day(cases, day, max_k=6, candidates=candidates), rng=same)
    assert found.reserved == len(DAYS) * mechanism.cost


def test_a_bound_on_groups_buys_accuracy(cases):
    options = {"user": "person", "item": "state", "by": "day", "groups": DAYS, "max_k": 6, "rng": SeededSource(0)}
    every = top_by(cases, **options)
    one = top_by(cases, max_groups_per_user=1, key="a", **options)
    assert (every.groups_per_user, one.groups_per_user) == (4, 1)
    assert top_by(cases, max_groups_per_user=9, **options).groups_per_user == 4
    each = next(iter(one.releases.values()))
    assert each.budget == Budget(epsilon=1.0, delta=1e-6, releases=1)
    assert each.cost.rdp(20.0) > next(iter(every.releases.values())).cost.rdp(20.0)
    assert each.budget.fits(one.reserved)
    assert not Budget(epsilon=1.0, delta=1e-6).fits(2 * one.reserved)


@pytest.mark.parametrize("counts", [False, True])
@pytest.mark.parametrize(("bound", "releases"), [(None, 1), (2, 3)])
def test_the_whole_table_fits_the_budget_that_was_asked(cases, counts, bound, releases):
    found = top_by(
        cases, user="person", item="state", by="day", groups=DAYS, max_k=5, counts=counts, releases=releases,
        max_groups_per_user=bound, epsilon=2.0, delta=1e-5, rng=SeededSource(1),
    )  # fmt: skip
    asked = Budget(epsilon=2.0, delta=1e-5, releases=releases)
    assert asked.fits(found.reserved)
    assert found.budget == asked
    limits = asked.filter(order=12.0, delta_share=0.5)
    for group in itertools.combinations(found.releases.values(), bound or len(DAYS)):
        together = sum((release.cost for release in group), Cost(adjacency=Adjacency.ADD_REMOVE))
        assert together.rdp(limits.order) <= found.cost.rdp(limits.order)
        assert together.delta <= found.cost.delta
    assert found.cost.rdp(limits.order) <= found.reserved.rdp(limits.order)
    assert found.cost.delta <= found.reserved.delta
    assert all(release.counts is not None for release in found.releases.values() if release.items) is counts
    assert found.guarantee.startswith("(2, 1e-05)-DP for one user joining or leaving; covers ")
    assert ("all 3 releases" in found.guarantee) is (releases == 3)
    assert f"4 groups by 'day', and one user counts in at most {bound or 4} of them" in found.guarantee


def test_what_is_charged_is_a_function_of_the_outcomes():
    """Test first: a group whose test passes costs less, and the table is charged for the two dearest a user can touch."""
    rows = [(n, "a", group) for n in range(500) for group in ("clear", "tie", "also clear")]
    rows += [(n, "b", "tie") for n in range(500)]
    users, items, groups = zip(*rows, strict=True)
    found = top_by(
        pa.table({"u": users, "i": items, "g": groups}), user="u", item="i", by="g", groups=["clear", "tie", "also clear"],
        k=1, max_k=6, max_groups_per_user=2, rng=SeededSource(3),
    )  # fmt: skip
    clear, tie, also = (release.cost for release in found.releases.values())
    assert [release.steps for release in found.releases.values()] == [
        ("test", "release"),
        ("test", "limited-rounds"),
        ("test", "release"),
    ]
    assert clear == also
    assert 2 * tie == found.reserved
    assert found.cost == clear + tie
    assert found.seeded
    assert "a simulation, not a release" in found.guarantee


@pytest.fixture
def books(tmp_path):
    budget = Budget(epsilon=1.0, delta=1e-6, releases=2)
    with Ledger(tmp_path / "books.db") as ledger:
        limits = budget.filter(order=20.0, delta_share=0.5)
        ledger.create("cases", budget=budget, limits=limits, owner="ann", unit="person")
        yield ledger


TABLE = {"user": "person", "item": "state", "by": "day", "groups": DAYS, "dataset": "cases"}


@pytest.mark.parametrize("counts", [False, True])
def test_a_table_through_a_ledger_pays_for_the_groups_one_user_can_touch(cases, books, counts):
    options = TABLE | {"max_groups_per_user": 2, "k": 3, "max_k": 6, "counts": counts, "ledger": books}
    found = top_by(cases, **options)
    (entry,) = books.history("cases")
    order = books.show("cases").filter.order
    assert entry.reserved_cost == found.reserved.to_dict()
    assert entry.settled_cost == found.cost.to_dict()
    assert 0.49 < found.reserved.rdp(order) / books.show("cases").filter.rdp <= 0.5
    assert found.budget == Budget(epsilon=1.0, delta=1e-6, releases=2)
    assert found.guarantee.startswith(
        "(1, 1e-06)-DP for one user joining or leaving; covers all 2 releases of this kind"
    )
    top_by(cases, **options)  # the second half fits
    assert not found.seeded


def test_a_table_that_does_not_fit_is_refused_before_a_row_is_read(books, tmp_path):
    (tmp_path / "broken.parquet").write_bytes(b"PAR1 this is no log PAR1")
    options = TABLE | {"k": 3, "max_k": 6, "ledger": str(tmp_path / "books.db")}
    with pytest.raises(SourceError):  # and a file that cannot be read before anything is charged
        top_by(tmp_path / "broken.parquet", **options)
    assert books.history("cases") == []
    row = pa.table({"person": [1], "state": ["Alba"], "day": pa.array(DAYS[:1], pa.date32())})
    top_by(row, releases=1, **options)
    with pytest.raises(BudgetError, match="before any data is read"):
        top_by(row, releases=1, **options)
    assert len(books.history("cases")) == 1


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"user": "state"}, "its own column"),
        ({"rng": SeededSource(0)}, "not simulations"),
        ({"dataset": "other"}, "must know the dataset"),
        ({"dataset": None}, "go together"),
        ({"ledger": None}, "go together"),
        ({"item": "missing"}, "must have the column"),
        ({"groups": ["not a day"]}, "type"),
    ],
)
def test_refusals_with_a_ledger_cost_nothing(cases, books, wrong, words):
    with pytest.raises(CutlineError, match=words):
        top_by(cases, **TABLE | {"ledger": books, "max_k": 6, "test": "paper"} | wrong)
    assert books.history("cases") == []


ADD = Adjacency.ADD_REMOVE
PURE, BR = Cost.of(Pure(epsilon=0.3), adjacency=ADD), Cost.of(BoundedRange(epsilon=0.2), adjacency=ADD, delta=1e-9)


def noise(k):
    return Cost.of(Gaussian(sigma=9.0, squared_sensitivity=float(k), discrete=True), adjacency=ADD)


@pytest.mark.parametrize(
    ("costs", "number", "total"),
    [
        ([PURE, BR, PURE + BR], 3, 2 * PURE + 2 * BR),  # all of them: no need to compare
        ([PURE, PURE + BR, 2 * PURE + BR], 2, 3 * PURE + 2 * BR),
        ([PURE, BR], 1, None),
        ([PURE, 2 * PURE, BR + PURE], 2, None),
        ([PURE + noise(3), PURE + noise(7), PURE], 2, 2 * PURE + noise(3) + noise(7)),
        ([PURE + noise(3), PURE + BR + noise(2)], 1, None),
    ],
)
def test_the_dearest_groups(costs, number, total):
    for order in itertools.permutations(costs):
        assert dearest(order, number) == total


def test_groups_that_do_not_compare_are_charged_in_full():
    releases = top_by(
        pa.table({"u": [1, 2], "i": ["a", "b"], "g": ["x", "y"]}),
        user="u", item="i", by="g", groups=["x", "y"], max_k=3, max_groups_per_user=1, rng=SeededSource(0),
    ).releases  # fmt: skip
    x, y = (replace(release, cost=cost) for release, cost in zip(releases.values(), (PURE, BR), strict=True))
    table = GroupedRelease(
        by="g", releases={"x": x, "y": y}, groups_per_user=1,
        budget=Budget(epsilon=1.0, delta=1e-6), reserved=PURE + BR,
    )  # fmt: skip
    assert table.cost == PURE + BR


def laws_of_tables(mechanism, bound):
    """The exact laws of whole tables: two groups, released independently, of logs with 0, 1, 2, ... users."""
    for users in range(7):
        log = pa.table(
            {
                "u": pa.array([n for n in range(users) for _ in "xy"], pa.int64()),
                "i": pa.array(["a"] * 2 * users, pa.string()),
                "g": pa.array(["x", "y"] * users, pa.string()),
            }
        )
        groups = {"groups": ["x", "y"], "max_groups_per_user": bound}
        histograms = count_by(log, user="u", item="i", by="g", max_k=2, **groups)
        x, y = (mechanism.law(histogram) for histogram in histograms.values())
        yield {(a, b): x[a] * y[b] for a in x for b in y}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("bound", "releases", "holds"),
    [(None, 2, True), (1, 1, True), (None, 1, False)],  # the last pays for one group and lets users count in two
)
def test_whole_tables_keep_their_claim_by_enumeration(bound, releases, holds):
    budget = Budget(epsilon=1.0, delta=0.01, releases=releases)
    mechanism = StableTopK.calibrate(budget, max_k=2)
    excesses = [
        sum(max(0.0, p.get(outcome, 0.0) - np.e * q.get(outcome, 0.0)) for outcome in set(p) | set(q))
        for without, whole in itertools.pairwise(laws_of_tables(mechanism, bound))
        for p, q in ((whole, without), (without, whole))
    ]
    assert len(excesses) == 12
    assert (max(excesses) <= 0.01 * (1 + 1e-9)) is holds


def shown(capsys, found):
    print_answer(found, header="state")
    return capsys.readouterr().out


def test_the_printed_table_and_its_json(cases, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    options = {"user": "person", "item": "state", "by": "day", "groups": DAYS, "epsilon": 8.0, "k": 2, "max_k": 6}
    found = top_by(cases, counts=True, rng=SeededSource(2), **options)
    text = shown(capsys, found)
    assert "The top by day: 4 of 4 released, in item order, not by rank" in text
    assert "2020-03-12" in text
    assert "state (users, noisy, 95 %)" in text
    assert text.count("guarantee ") == 1
    plain = json.loads(json.dumps(found.to_dict(full=True), allow_nan=False))
    assert list(plain["groups"]) == [str(day) for day in DAYS]
    assert plain["by"] == "day"
    assert plain["cost"] == found.cost.to_dict()
    for group in plain["groups"].values():
        assert group["guarantee"] == plain["guarantee"] == found.guarantee
        assert (group["releases"], group["epsilon"], len(group["items"])) == (1, 8.0, len(group["counts"]))
    withheld = top_by(
        pa.table({"u": [1], "i": ["[red]\x1b"], "g": [1]}),
        user="u",
        item="i",
        by="g",
        groups=[1, 2],
        max_k=3,
        rng=SeededSource(0),
    )
    assert shown(capsys, withheld).count("withheld │") == 2
    assert withheld.status is withheld.releases[1].status


def test_a_table_is_public_and_can_be_stored(cases):
    found = top_by(cases, user="person", item="state", by="day", groups=DAYS, max_k=6, rng=SeededSource(0))
    again = pickle.loads(pickle.dumps(found))
    assert again == found
    assert again.cost == found.cost


def test_days_may_be_listed_as_text(cases):
    options = {"user": "person", "item": "state", "by": "day", "max_k": 6, "test": "paper"}
    days, texts = (
        top_by(cases, groups=groups, rng=SeededSource(4), **options) for groups in (DAYS, [str(day) for day in DAYS])
    )
    assert list(texts.releases) == [str(day) for day in DAYS]
    assert list(texts.releases.values()) == list(days.releases.values())


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"adjacency": "replace"}, "joining or leaving"),
        ({"adjacency": "sideways"}, "add-remove or replace"),
        ({"groups": None}, "public list"),
        ({"groups": []}, "at least one"),
        ({"groups": ["x", "x"]}, "not repeat"),
        ({"max_groups_per_user": 0}, "whole number of at least 1"),
        ({"max_groups_per_user": True}, "whole number of at least 1"),
        ({"by": "missing"}, "must have the column"),
        ({"mechanism": "subset-em", "k": 1}, "domain that is closed"),
        ({"releases": 0}, "whole number"),
        ({"wings": 2}, "wings"),
    ],
)
def test_refusals_are_public(wrong, words):
    log = pa.table({"u": [1], "i": ["a"], "g": ["x"]})
    options = {"user": "u", "item": "i", "by": "g", "groups": ["x", "y"]} | wrong
    with pytest.raises(CutlineError, match=words):
        top_by(log, **options)


def test_ready_counts_have_no_groups():
    with pytest.raises(ParameterError, match="no groups"):
        top_by({"a": 3}, user="u", item="i", by="g", groups=["x"], max_k=3)
