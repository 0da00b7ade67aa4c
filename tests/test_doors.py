"""Numbers of numpy, decimals, fractions, huge and hostile values at every door: a result, or a refusal in our words."""

import json
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

import cutline
from cutline.errors import CutlineError, ParameterError
from cutline.privacy import Budget, Filter, Pure
from fuzz.doors import doors, ledger_doors
from fuzz.target import expect_our_words
from fuzz.values import VALUES

DOORS = doors()
# What is not refused is run, and to calibrate takes time: of the values that are sound somewhere, every door meets one.
SOUND = (
    *("np.int64(3)", "np.uint8(2)", "np.float32(0.5)", "np.float64(1e-6)", "np.longdouble('1e-3')", "Decimal('0.5')"),
    *("Fraction(1, 3)", "1e-9", "0.999999999", "1", "7", "50.0"),
)
HOSTILE = tuple(name for name in VALUES if name not in SOUND)


@pytest.mark.slow
@pytest.mark.parametrize("name", DOORS)
def test_every_value_is_taken_or_refused_in_our_words(name):
    for words in (*HOSTILE, SOUND[list(DOORS).index(name) % len(SOUND)]):
        expect_our_words(lambda value=VALUES[words]: DOORS[name](value), f"{name} <- {words}")


def test_every_value_at_the_doors_of_a_ledger(tmp_path):
    for name, door in ledger_doors(tmp_path).items():
        for words, value in VALUES.items():
            expect_our_words(lambda door=door, value=value: door(value), f"{name} <- {words}")


@pytest.mark.parametrize("three", [np.int64(3), np.float32(3), Decimal(3), Fraction(3), 3, np.uint8(3)])
def test_numbers_of_every_kind_mean_the_same(three):
    assert Budget(epsilon=three, delta=1e-6) == Budget(epsilon=3.0, delta=1e-6)
    assert repr(Budget(epsilon=three, delta=1e-6)) == repr(Budget(epsilon=3.0, delta=1e-6))
    assert Filter(order=three, rdp=0.1, delta=0.0) == Filter(order=3.0, rdp=0.1, delta=0.0)
    assert Pure(epsilon=three).rdp(three) == Pure(epsilon=3.0).rdp(3.0)
    assert cutline.quote(k=3, max_k=20, epsilon=three).guarantee == cutline.quote(k=3, max_k=20, epsilon=3.0).guarantee


@pytest.mark.parametrize(
    "asked",
    [
        {"delta": 1e-300, "releases": 1000},
        {"epsilon": 2**31},
        {"releases": 2**63},
        {"epsilon": 10**5000},
        {"max_k": 2**31},
        {"k": 2**63},
        {"epsilon": "3"},
        {"epsilon": True},
    ],
)
def test_what_is_out_of_range_is_refused_with_the_range(asked):
    with pytest.raises(ParameterError, match="must be"):
        cutline.quote(**{"k": 3, **asked})


@pytest.mark.parametrize(
    ("numbers", "plain"),
    [
        ({"max_k": np.int64(20)}, {"max_k": 20}),
        ({"max_k": np.int64(20), "mechanism": "joint-stable"}, {"max_k": 20, "mechanism": "joint-stable"}),
        ({"max_k": 20, "min_k": np.uint8(2), "clip": np.int32(9)}, {"max_k": 20, "min_k": 2, "clip": 9}),
        ({"max_k": 20, "target": np.int64(5), "weight": Fraction(1, 2)}, {"max_k": 20, "target": 5, "weight": 0.5}),
        ({"max_k": 3, "prior": np.array([1, 2, 3])}, {"max_k": 3, "prior": (1, 2, 3)}),
        ({"max_k": 3, "prior": [Decimal(1)] * 3, "prefer_larger": None}, {"max_k": 3, "prior": [1.0] * 3}),
        ({"max_k": 20, "prefer_larger": np.bool_(True)}, {"max_k": 20, "prefer_larger": True}),
    ],
)
def test_parameters_of_every_kind_make_one_question_in_plain_data(tmp_path, numbers, plain):
    with cutline.Ledger(tmp_path / "books.db") as books:
        books.create("visits", budget=Budget(epsilon=2.0, delta=1e-6, releases=10), owner="ann")
        asked, same = (cutline.quote(ledger=books, dataset="visits", **words) for words in (numbers, plain))
        assert json.dumps(asked.question) == json.dumps(same.question)
        assert json.dumps(asked.to_dict()) == json.dumps(same.to_dict())


def test_the_ends_of_the_range_are_taken():
    for epsilon, delta, releases in ((1e-9, 0.5, 1), (1e4, 1e-200, 10**9)):
        assert Budget(epsilon=epsilon, delta=delta, releases=releases).releases == releases


def test_a_refusal_is_never_longer_than_a_screen():
    with pytest.raises(CutlineError) as refused:
        cutline.quote(k=3, mechanism="x" * 10_000)
    assert len(str(refused.value)) < 1_000
    assert len(str(CutlineError("a rule", "x" * 10_000, "A way out."))) < 1_000
