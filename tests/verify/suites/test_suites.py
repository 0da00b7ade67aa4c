"""The exhaustive checks of every mechanism and aggregator, and the controls that prove that the checker can fail."""

import pytest

from cutline.verify import checks
from cutline.verify.run import expected_seconds


def cases():
    """Give the checks that take long their marker."""
    for check in checks():
        yield pytest.param(check, id=check.name, marks=[pytest.mark.slow] if expected_seconds(check) > 0.1 else [])


@pytest.mark.parametrize("check", cases())
def test_exhaustive(check):
    report = check.run()
    assert report.pairs == check.universe.size > 0
    assert report.as_expected, f"{check.name}: {report.violations} violations in {report.pairs} pairs"
    assert (report.violations == 0) == (check.expected == "holds")
