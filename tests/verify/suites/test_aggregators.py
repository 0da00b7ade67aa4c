"""The exhaustive checks of the aggregators, and proof that they can fail."""

from itertools import combinations_with_replacement, product

import pytest

from cutline.errors import ParameterError
from cutline.mechanisms.registry import MECHANISMS
from cutline.pate.aggregators.registry import AGGREGATORS
from cutline.privacy import Adjacency
from cutline.verify.all_suites import checks
from cutline.verify.ballots import ballot_boxes

NAMES = [kind.name for kind in AGGREGATORS]
ALL = checks(NAMES)


@pytest.mark.parametrize("check", ALL, ids=lambda c: c.name)
def test_exhaustive(check):
    report = check.run()
    assert report.pairs > 0
    assert report.as_expected, f"{check.name}: {report.violations} violations in {report.pairs} pairs"
    assert (report.violations == 0) == (check.expected == "holds")


def test_every_aggregator_is_checked_on_every_size_under_both_relations():
    for name in NAMES:
        names = [check.name for check in ALL if check.mechanism == name and check.expected == "holds"]
        for adjacency, teachers, labels in product(Adjacency, (1, 2, 3, 4), (1, 2, 3)):
            assert any(f"; {adjacency}; {teachers} teachers, {labels} labels" in found for found in names)


def test_every_control_of_the_plan_is_there():
    names = " | ".join(check.name for check in ALL if check.expected == "fails")
    for words in ("the paper's constants under replace", "a middle that follows", "table rounded to 1"):
        assert words in names


def test_neighbouring_boxes_are_exactly_the_relation():
    known = list(product((0, 1), repeat=2))
    for adjacency in Adjacency:
        universe = ballot_boxes(teachers=3, labels=2, adjacency=adjacency)
        sizes = range(4) if adjacency is Adjacency.ADD_REMOVE else (3,)
        boxes = [box for n in sizes for box in combinations_with_replacement(known, n)]
        assert [tuple(map(tuple, found[:, 0].tolist())) for found in universe.inputs] == boxes
        pairs = set(zip(*(side.tolist() for side in universe.pairs), strict=True))
        assert len(pairs) == len(universe.pairs[0])
        for i, j in product(range(len(boxes)), repeat=2):
            only_i, only_j = left_over(boxes[i], boxes[j]), left_over(boxes[j], boxes[i])
            near = (only_i, only_j) == (1, 1) if adjacency is Adjacency.REPLACE else {only_i, only_j} == {0, 1}
            assert ((i, j) in pairs) == near


def left_over(box, other):
    rest = list(box)
    for ballot in other:
        if ballot in rest:
            rest.remove(ballot)
    return len(rest)


def test_all_checks_together_and_by_name():
    names = {check.mechanism for check in checks()}
    assert names == {*MECHANISMS, *NAMES}
    assert {check.mechanism for check in checks(["gnmax", "joint-em"])} == {"gnmax", "joint-em"}
    with pytest.raises(ParameterError, match="nonsense"):
        checks(["nonsense"])
