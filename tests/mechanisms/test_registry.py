"""Which mechanism is taken when none is named: by public numbers alone, and the quote says why."""

import pytest

import cutline
from cutline.mechanisms.registry import MECHANISMS, default_mechanism
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
        (101, None, False, "test-first"),
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
