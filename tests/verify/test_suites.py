"""Every mechanism and aggregator has its suite; every check comes out as it must; the suites have the size that is quoted."""

import re
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from cutline.errors import ParameterError
from cutline.mechanisms.registry import MECHANISMS
from cutline.pate.aggregators.registry import AGGREGATORS
from cutline.privacy import Adjacency
from cutline.verify import SUITES, checks
from cutline.verify.check import Laws
from cutline.verify.claim import judge
from cutline.verify.run import expected_seconds

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/proofs/verification.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| ([^|]+) \| ([\d,]+) \| ([\d,]+) \|$", PAGE, re.MULTILINE)
QUOTED = {f"control: {words}".lower(): (pairs, broken) for words, pairs, broken in ROWS}
ALL = checks()
AGGREGATOR_NAMES = [kind.name for kind in AGGREGATORS]

# The checks that take long carry their marker.
CASES = [
    pytest.param(check, id=check.name, marks=[pytest.mark.slow] if expected_seconds(check) > 0.1 else [])
    for check in ALL
]


@pytest.mark.parametrize("check", CASES)
def test_exhaustive(check):
    report = check.run()
    assert report.pairs == check.universe.size > 0
    assert report.as_expected, f"{check.name}: {report.violations} violations in {report.pairs} pairs"
    assert (report.violations == 0) == (check.expected == "holds")
    found = (f"{report.pairs:,}", f"{report.violations:,}")
    assert QUOTED.get(check.name.lower(), found) == found


def test_every_control_on_the_page_is_a_check():
    assert len(QUOTED) == 9
    assert set(QUOTED) <= {check.name.lower() for check in checks(["stable-top-k"])}


def test_every_mechanism_and_aggregator_has_a_suite():
    names = [*(kind.name for kind in MECHANISMS), *AGGREGATOR_NAMES]
    assert list(SUITES) == names
    for name in names:
        suite = SUITES[name]()
        assert {check.mechanism for check in suite} == {name}
        assert {str(check.universe.adjacency) for check in suite} == {str(relation) for relation in Adjacency}
        assert {check.expected for check in suite} == {"holds", "fails"}  # a checker that cannot fail proves nothing


def test_checks_are_chosen_by_name():
    assert {check.mechanism for check in checks(["gnmax", "joint-em"])} == {"gnmax", "joint-em"}
    for unknown in (["nonsense"], ["joint-em", "nonsense"]):
        with pytest.raises(ParameterError, match="nonsense"):
            checks(unknown)


def test_every_check_has_a_name_of_its_own():
    assert len({check.name for check in ALL}) == len(ALL)


def test_every_control_of_the_plan_is_there():
    names = " | ".join(check.name for check in ALL if check.expected == "fails")
    for words in ("scale 1/eps", "q > 0", "under replace", "seen items", "table rounded to 1"):
        assert words in names
    for words in ("the paper's constants under replace", "a middle that follows", "off by one"):
        assert words in names


def test_slots_cut_to_the_items_seen_are_told_by_a_short_list_and_not_by_an_empty_log():
    (control,) = (check for check in checks(["peel-then-test"]) if "slots cut" in check.name)
    inputs = {tuple(histogram.counts.tolist()): place for place, histogram in enumerate(control.universe.inputs())}
    empty, one, tall, both = (inputs[counts, *more, 0, 0, 0] for counts, *more in ((0, 0), (1, 0), (6, 0), (6, 1)))
    laws = Laws.of(control.subject, control.universe.inputs())
    claim = {3.0: control.subject.cost.rdp(3.0)}

    def broken(first, second):
        p, q = laws.compare(np.array([first]), np.array([second]))
        return judge(p, q, delta=control.subject.cost.delta, rdp=claim, epsilons=np.array([0.0])).violations

    assert broken(tall, both)
    assert not broken(empty, one)
    assert not broken(one, empty)


def test_every_aggregator_is_checked_on_every_size_under_both_relations():
    for name in AGGREGATOR_NAMES:
        names = [check.name for check in ALL if check.mechanism == name and check.expected == "holds"]
        for adjacency, teachers, labels in product(Adjacency, (1, 2, 3, 4), (1, 2, 3)):
            assert any(f"; {adjacency}; {teachers} teachers, {labels} labels" in found for found in names)


@pytest.mark.parametrize(
    ("page", "pattern"),
    [
        ("README.md", r"(\d+) checks, ([\d,]+) ordered pairs, no violation, and (\d+) deliberately broken"),
        ("docs/proofs/verification.md", r"(\d+) checks over ([\d,]+) ordered pairs, (\d+) of them controls"),
    ],
)
def test_the_size_of_the_exhaustive_check_is_the_one_quoted(page, pattern):
    text = (ROOT / page).read_text(encoding="utf-8")
    quoted = re.search(pattern, " ".join(text.split()))
    assert quoted
    broken = sum(check.expected == "fails" for check in ALL)
    total = sum(check.universe.size for check in ALL)
    assert (len(ALL), total, broken) == tuple(int(n.replace(",", "")) for n in quoted.groups())
    assert len(ALL) >= 514  # the check may grow; it never shrinks
    assert total >= 11_159_442
    assert broken >= 58


def test_what_the_page_says_of_stable_top_k_is_so():
    """Its own choosers and tests come first; the noisy ones are counted in the sum of all."""
    quoted = re.search(r"(\d+) checks that must hold, ([\d,]+) ordered pairs, no violation", " ".join(PAGE.split()))
    assert quoted
    first = checks(["stable-top-k"])[: int(quoted[1])]
    assert {check.expected for check in first} == {"holds"}
    assert sum(check.universe.size for check in first) == int(quoted[2].replace(",", ""))
