"""A plan compares mechanisms from public numbers alone, whatever the items of a public prior look like."""

import pytest

import cutline
from cutline.histogram import ClosedHistogram, OpenHistogram
from cutline.mechanisms import StableTopK, mechanism
from cutline.mechanisms.planning import expected_recall, plan
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
    assert expected_recall(peels, histogram, max_k=4, k=2) == pytest.approx(found)


def test_a_withheld_set_counts_for_nothing():
    flat = OpenHistogram.from_counts({"a": 1}, max_k=4)
    assert expected_recall(StableTopK.calibrate(BUDGET, max_k=4), flat, max_k=4) < 0.1
    with pytest.raises(cutline.CutlineError, match="at least one item"):
        expected_recall(StableTopK.calibrate(BUDGET, max_k=4), OpenHistogram.from_counts({}, max_k=4), max_k=4)


def test_plain_form_of_a_plan():
    found = plan(BUDGET, max_k=4)
    plain = found.to_dict()
    assert plain["recommended"] == found.recommended.title
    assert plain["options"][0]["mechanism"] == found.recommended.mechanism
    assert [len(option) for option in plain["options"]] == [6] * len(found.options)
    assert (plain["epsilon"], plain["releases"], plain["adjacency"], plain["k"], plain["max_k"]) == (
        2.0,
        1,
        "add-remove",
        None,
        4,
    )
