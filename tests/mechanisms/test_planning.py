"""A plan compares mechanisms from public numbers alone, whatever the items of a public prior look like."""

import pytest

import cutline
from cutline.histogram import ClosedHistogram, OpenHistogram
from cutline.mechanisms import StableTopK, mechanism
from cutline.mechanisms.expectations import Trial
from cutline.mechanisms.planning import Option, _by_items, _with_default, plan
from cutline.privacy import Budget

BUDGET = Budget(epsilon=2.0, delta=1e-3)
TEXT = {"a": 900, "b": 800, "c": 2, "d": 1}
PAIRS = {
    ("a", frozenset("x")): 900,
    ("b", frozenset()): 800,
    ("c", None): 2,
    ("d", ()): 1,
}  # items that look like outcomes


@pytest.mark.parametrize(
    "domain", [ClosedHistogram.from_counts, lambda counts: OpenHistogram.from_counts(counts, max_k=4)]
)
def test_recall_does_not_depend_on_what_an_item_looks_like(domain):
    plans = [plan(BUDGET, k=2, max_k=4, prior=domain(counts)) for counts in (TEXT, PAIRS)]
    text, pairs = ({option.mechanism: option.recall for option in found.options} for found in plans)
    assert pairs == pytest.approx(text)
    assert min(text.values()) > 0.99


def test_recall_counts_what_is_expected_of_the_true_top():
    histogram = ClosedHistogram.from_counts(TEXT)
    peels = mechanism("peeling-em").calibrate(BUDGET, k=2)
    law = {outcome.items: p for outcome, p in peels.law(histogram).items()}
    found = sum(p * len({"a", "b"} & {*items}) / 2 for items, p in law.items())
    assert Trial(peels, histogram, k=2).expect(error=0.01).recall == pytest.approx(found)


def test_without_a_prior_nothing_is_recommended_that_loses_on_long_tails():
    """A mechanism that needs the smallest single gap may find next to nothing where the gaps are those of a log."""
    budget = Budget(epsilon=1.0, delta=1e-6)
    found = plan(budget, k=10, max_k=100, domain="open")
    assert min(found.options, key=lambda option: option.gap_95).mechanism == "stable-top-k-fixed"
    assert found.recommended.mechanism in ("peel-then-test", "test-first", "limited-rounds")
    assert found.recommended.expected_items >= max(option.expected_items for option in found.options) - 0.2
    generated = OpenHistogram.from_counts({i: 2000 // (i + 10) for i in range(400)}, max_k=100)  # of another shape
    ours, others = (
        10 * Trial(mechanism(name).calibrate(budget, k=10, max_k=100), generated, k=10).expect(error=0.02).recall
        for name in (found.recommended.mechanism, "stable-top-k-fixed")
    )
    assert ours > 5 > 1 > others


def test_items_to_expect_are_counted_on_the_tails_that_are_named():
    found = plan(BUDGET, k=2, max_k=4, domain="closed")
    peels = next(option for option in found.options if option.mechanism == "peeling-em")
    built = mechanism("peeling-em").calibrate(BUDGET, k=2)
    tails = [
        ClosedHistogram.from_counts({rank: first // rank for rank in range(1, 5)}) for first in (100, 1_000, 10_000)
    ]
    exact = sum(2 * Trial(built, tail, k=2).expect(error=1.0).recall for tail in tails) / 3
    assert peels.expected_items == pytest.approx(exact)
    for words in ("long tails", "100, 1,000 or 10,000 users", "ranked by the items", "all others being 0"):
        assert words in found.assumption
    assert "on the prior" in plan(BUDGET, k=2, max_k=4, prior=ClosedHistogram.from_counts(TEXT)).assumption


def test_options_that_find_about_as_much_are_told_apart_by_the_gap():
    def option(name, items, gap):
        return Option(mechanism=name, parameters={}, domains=("open",), gap_50=gap, gap_95=gap, expected_items=items)

    listed = [option("a", 9.0, 500), option("b", 8.9, 20), option("c", 8.5, 10), option("d", 8.4, None)]
    assert [o.mechanism for o in _by_items(listed, alike=0.2)] == ["b", "a", "c", "d"]


def test_the_default_comes_first_unless_it_finds_less():
    def option(name, items, *domains):
        return Option(mechanism=name, parameters={}, domains=domains, gap_50=9, gap_95=9, expected_items=items)

    listed = [
        option("a", 9.9, "closed"),
        option("b", 9.0, "open"),
        option("c", 8.8, "open"),
        option("d", 8.6, "bounded"),
    ]
    for default, first in (("c", "acbd"), ("b", "abcd"), ("d", "abcd"), ("none", "abcd")):
        assert "".join(o.mechanism for o in _with_default(listed, default, as_good=0.3)) == first
    assert "".join(o.mechanism for o in _with_default(listed, "d", as_good=0.5)) == "adbc"


@pytest.mark.parametrize("bound", [None, 20])
def test_a_plan_for_a_told_k_takes_the_default(bound):
    found = plan(BUDGET, k=20, max_k=40, domain="open", max_items_per_user=bound)
    asked = cutline.quote(k=20, max_k=40, epsilon=BUDGET.epsilon, delta=BUDGET.delta, max_items_per_user=bound)
    assert found.recommended.mechanism == asked.mechanism["name"] == ("find-then-choose" if bound else "peel-then-test")
    assert "A default that finds as much" in found.assumption


def test_a_withheld_set_counts_for_nothing():
    flat = OpenHistogram.from_counts({"a": 1}, max_k=4)
    found = Trial(StableTopK.calibrate(BUDGET, max_k=4), flat, k=None).expect(error=0.01)
    assert found.recall < 0.1
    assert found.withheld > 0.9
    with pytest.raises(cutline.CutlineError, match="at least one item"):
        Trial(StableTopK.calibrate(BUDGET, max_k=4), OpenHistogram.from_counts({}, max_k=4), k=None)


def test_a_mechanism_that_cannot_run_is_left_out_with_its_reason():
    listed = ClosedHistogram.from_counts({"a": 90, "b": 50})
    found = plan(BUDGET, k=2, max_k=2, prior=listed)
    assert {"joint-em", "subset-em"} <= {*found.left_out} - {option.mechanism for option in found.options}
    assert "k must be below the number of candidates" in found.left_out["joint-em"]
    assert found.left_out["limited-domain"] == "is for items that nobody has listed"
    assert found.to_dict()["left_out"] == found.left_out
    with pytest.raises(cutline.CutlineError, match="k must be below the number of candidates"):
        plan(BUDGET, k=2, max_k=2, prior=listed, mechanism="joint-em")
    with pytest.raises(cutline.CutlineError, match="give k"):
        plan(BUDGET, max_k=2, mechanism="joint-em")
    with pytest.raises(cutline.CutlineError, match="registered"):
        plan(BUDGET, max_k=2, mechanism="nonsense")


def test_plain_form_of_a_plan():
    found = plan(BUDGET, max_k=4)
    plain = found.to_dict()
    assert plain["assumption"] == found.assumption
    assert plain["recommended"] == found.recommended.title
    assert plain["options"][0]["mechanism"] == found.recommended.mechanism
    assert [len(option) for option in plain["options"]] == [8] * len(found.options)
    assert (plain["epsilon"], plain["releases"], plain["adjacency"], plain["k"], plain["max_k"]) == (
        2.0,
        1,
        "add-remove",
        None,
        4,
    )
