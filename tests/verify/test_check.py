"""A check refuses what it cannot decide."""

import dataclasses

import pytest

from cutline.errors import AdjacencyError, CutlineError
from cutline.privacy import Adjacency
from cutline.verify import checks
from cutline.verify.suites.shared import Altered

SMALL = next(check for check in checks(["stable-top-k"]) if "closed 2 x 6" in check.name)


def test_a_report_says_what_was_found():
    report = SMALL.run()
    assert (report.pairs, report.violations, report.as_expected) == (SMALL.universe.size, 0, True)
    assert 0 < report.worst <= 1
    assert not dataclasses.replace(SMALL, expected="fails").run().as_expected


def test_a_claim_under_another_adjacency_is_refused():
    universe = dataclasses.replace(SMALL.universe, adjacency=Adjacency.REPLACE)
    with pytest.raises(AdjacencyError):
        dataclasses.replace(SMALL, universe=universe).run()


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Leaking(Altered):
    """A law that loses a little mass."""

    def law(self, data, /):
        return {outcome: 0.999 * chance for outcome, chance in self.subject.law(data).items()}


def test_a_law_that_does_not_sum_to_one_is_refused():
    with pytest.raises(CutlineError, match="sum to 1"):
        dataclasses.replace(SMALL, subject=Leaking(subject=SMALL.subject)).run()
