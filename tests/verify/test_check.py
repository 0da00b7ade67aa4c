"""A check refuses what it cannot decide."""

import dataclasses
from collections import Counter

import pytest

from cutline.errors import AdjacencyError, CutlineError
from cutline.outcome import Outcome
from cutline.privacy import Adjacency
from cutline.verify import checks
from cutline.verify.check import Laws, list_laws
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


@pytest.mark.parametrize(
    "name", ["test-first: k = 3 of 9; replace; closed 2 x 6", "subset-em: k=2, epsilon=1.5; add-remove; closed 3 x 6"]
)
def test_renamed_laws_are_the_laws(name):
    check = next(check for check in checks() if check.name == name)
    inputs = check.universe.inputs()
    listed = [dict(zip(*law, strict=True)) for law in list_laws(check.subject, inputs)]
    for renamed, law in zip(listed, map(check.subject.law, inputs), strict=True):
        assert renamed.keys() == law.keys()
        assert list(renamed.values()) == pytest.approx([law[outcome] for outcome in renamed], rel=1e-12)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Favouring(Altered):
    """A law that looks at a name: whoever is called b goes out alone."""

    def law(self, data, /):
        return {Outcome(items=frozenset(item for item in data.items if item == "b")): 1.0}


def test_a_law_that_looks_at_names_is_not_renamed():
    inputs = SMALL.universe.inputs()
    favouring = Favouring(subject=SMALL.subject)
    listed = [dict(zip(*law, strict=True)) for law in list_laws(favouring, inputs)]
    assert listed == [favouring.law(data) for data in inputs]


def test_pairs_with_the_same_chances_are_judged_once_and_all_are_counted():
    check = next(check for check in checks() if check.name == "subset-em: k=2, epsilon=1.5; add-remove; closed 3 x 6")
    inputs, (first, second) = check.universe.inputs(), check.universe.pairs()
    laws = Laws.of(check.subject, inputs)
    blocks = list(laws.blocks((first, second)))
    judged = [(tuple(p), tuple(q)) for ps, qs, _ in blocks for p, q in zip(ps.tolist(), qs.tolist(), strict=True)]
    times = [n for *_, block in blocks for n in block.tolist()]
    p, q = laws.compare(first, second)
    found = Counter(zip(map(tuple, p.tolist()), map(tuple, q.tolist()), strict=True))
    assert len(judged) == len(set(judged)) < len(first)
    assert dict(zip(judged, times, strict=True)) == found
