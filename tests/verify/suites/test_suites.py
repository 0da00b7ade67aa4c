"""The exhaustive checks of every mechanism and aggregator, and the controls that prove that the checker can fail."""

import re
from pathlib import Path

import pytest

from cutline.verify import checks
from cutline.verify.run import expected_seconds

PAGE = (Path(__file__).parents[3] / "docs/proofs/verification.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| ([^|]+) \| ([\d,]+) \| ([\d,]+) \|$", PAGE, re.MULTILINE)
QUOTED = {f"control: {words}".lower(): (pairs, broken) for words, pairs, broken in ROWS}


# The checks that take long carry their marker.
CASES = [
    pytest.param(check, id=check.name, marks=[pytest.mark.slow] if expected_seconds(check) > 0.1 else [])
    for check in checks()
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
