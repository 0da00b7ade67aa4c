"""Which mechanism is taken when none is named: by public numbers alone, and the quote says why."""

import pytest

import cutline
from cutline.errors import ParameterError
from cutline.mechanisms.registry import MECHANISMS, default_mechanism
from cutline.privacy import Budget
from cutline.sampling import SeededSource


@pytest.mark.parametrize(
    ("k", "bound", "closed", "name"),
    [
        (None, None, False, "stable-top-k"),
        (None, None, True, "stable-top-k"),
        (None, 50, False, "table-threshold"),
        (1, None, False, "test-first"),
        (3, 50, False, "test-first"),
        (4, None, False, "peel-then-test"),
        (15, 50, False, "peel-then-test"),
        (16, 50, False, "find-then-choose"),
        (16, None, False, "peel-then-test"),
        (100, None, False, "peel-then-test"),
        (200, None, False, "peel-then-test"),
        (201, None, False, "test-first"),
        (5000, 3, False, "find-then-choose"),
        (10, None, True, "test-first"),
    ],
)
def test_the_default_follows_from_k_the_bound_and_the_domain(k, bound, closed, name):
    found = default_mechanism(k, closed=closed, max_items_per_user=bound)
    assert found.name == name
    assert found.name in {kind.name for kind in MECHANISMS}
    assert found.reason
    assert k is None or closed or f"k = {k}" in found.reason


@pytest.mark.parametrize(
    ("k", "epsilon", "releases", "bound", "name"),
    [
        (2, 0.1, 1, None, "test-first"),
        (1, 1.0, 20, None, "peel-then-test"),  # of several releases each is below 0.4
        (2, 1.0, 20, 50, "peel-then-test"),
        (2, 3.0, 20, None, "test-first"),
        (3, 0.3, 1, 50, "peel-then-test"),
        (3, 0.4, 1, 50, "test-first"),
        (3, 1.0, 7, None, "peel-then-test"),  # 1 / sqrt(7) < 0.4
        (15, 1e-9, 10**6, 50, "peel-then-test"),
        (16, 1e-9, 10**6, 50, "find-then-choose"),
        (16, 1e-9, 10**6, None, "test-first"),
        (200, 0.3, 1, None, "test-first"),
        (200, 3.0, 9, None, "peel-then-test"),
        (200, 3.0, 10, None, "test-first"),
        (300, 3.0, 1, None, "peel-then-test"),
    ],
)
def test_the_default_follows_from_the_epsilon_of_one_release(k, epsilon, releases, bound, name):
    budget = Budget(epsilon=epsilon, delta=1e-6, releases=releases)
    found = default_mechanism(k, max_items_per_user=bound, budget=budget)
    assert found.name == name
    assert f"k = {k}" in found.reason
    assert default_mechanism(k, closed=True, budget=budget).name == "test-first"


@pytest.mark.parametrize("k", [1, 10, 15, 16])
def test_counts_after_the_bound_need_a_mechanism_that_uses_it(k):
    found = default_mechanism(k, max_items_per_user=50, bounded_counts=True)
    assert found.name == "find-then-choose"
    assert "at most 50 items" in found.reason
    asked = cutline.quote(k=k, max_items_per_user=50, counts="bounded", rng=SeededSource(0))
    assert (asked.mechanism["name"], asked.reason) == (found.name, found.reason)
    assert asked.mechanism["counts"]["moved"] == 50
    assert default_mechanism(None, max_items_per_user=50, bounded_counts=True).name == "table-threshold"
    with pytest.raises(ParameterError, match="without such a bound"):
        cutline.quote(k=k, counts="bounded")


def test_groups_share_the_epsilon_that_decides():
    asked = {"k": 3, "epsilon": 1.0, "rng": SeededSource(0)}
    assert cutline.quote(**asked).mechanism["name"] == "test-first"
    table = cutline.quote(**asked, by="day", groups=list(range(7)))
    assert (table.mechanism["name"], table.reason) == (
        "peel-then-test",
        "k = 3 is between 1 and 122 for an epsilon of 0.38 a release",
    )


def test_the_quote_says_which_and_why():
    pair = ({"a": 900, "b": 800}, {"a": 700, "b": 700})
    asked = cutline.quote(k=20, max_items_per_user=30, rng=SeededSource(0))
    assert (asked.mechanism["name"], asked.mechanism["max_items_per_user"]) == ("find-then-choose", 30)
    assert asked.to_dict()["reason"] == asked.reason == "k = 20 is above 15, and each user counts in at most 30 items"
    assert asked.run(pair).items == {"a", "b"}
    small = cutline.quote(k=1, max_items_per_user=30, rng=SeededSource(0))
    assert small.mechanism["name"] == "test-first"
    assert "counting each user in all items" in small.reason
    assert small.run(pair).listed() == ["a"]
    assert cutline.quote(k=1, mechanism="limited-domain").reason == "it was asked for"
