"""The one-gap study: the numbers are minimal and repeat those of the first prototypes."""

import pytest

from cutline.histogram import OpenHistogram
from cutline.mechanisms.adaptive.stable_top_k import StableTopK
from cutline.privacy import Budget
from experiments import one_gap
from experiments.one_gap import FORMS, StudyCase, gaps_needed, run
from experiments.trials import Setting

# First prototypes on coarse grids: (releases, epsilon, max_k) and the gaps of the four forms.
PROTOTYPES = {
    (1, 1.0, 100): (57, 30, 32, 16),
    (10, 1.0, 100): (184, 118, 134, 67),
    (600, 3.66, 39): (424, 231, 206, 103),
}


@pytest.mark.slow
@pytest.mark.parametrize("setting", PROTOTYPES)
def test_the_numbers_of_the_first_prototypes(setting):
    releases, epsilon, max_k = setting
    found = gaps_needed(StudyCase(releases=releases, epsilon=epsilon, max_k=max_k), 0)
    assert tuple(found) == FORMS
    bare = [found[form] for form in FORMS if form != "EM + Gaussian"]
    for gap, before in zip(bare, PROTOTYPES[setting], strict=True):
        assert before - 3 <= gap <= before + 1
    assert found["EM + table"] < found["EM + Gaussian"] < found["paper"]


@pytest.mark.slow
def test_a_gap_is_enough_and_one_less_is_not():
    found = gaps_needed(StudyCase(releases=5, max_k=20), 0)
    mechanism = StableTopK.calibrate(Budget(epsilon=1.0, delta=1e-6, releases=5), max_k=20)
    chances = [
        mechanism.chance(OpenHistogram.from_counts(dict.fromkeys(range(10), gap), max_k=20), 10)
        for gap in (found["EM + table"] - 1, found["EM + table"])
    ]
    assert chances[0] < 0.9 <= chances[1]


def test_the_whole_report(tmp_path, monkeypatch):
    monkeypatch.setattr(one_gap, "RELEASES", (1, 5))
    monkeypatch.setattr(one_gap, "SETTINGS", ((1, 2.0, 10),))
    report = run(Setting(jobs=1))
    written = report.write(tmp_path, "*A run.*")
    page = written[0].read_text(encoding="utf-8")
    assert "| 1 | 57 | 39 | 31 | 31 | 16 | 1.84 |" in page
    assert [table.name for table in report.tables] == ["releases", "settings"]
    assert (tmp_path / "one-gap-releases.svg").stat().st_size < 200_000
