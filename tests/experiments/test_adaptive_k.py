"""The study of adaptive k: its summaries are sums over the law, its variants spend one budget, its page is whole."""

import numpy as np
import pytest

from cutline.histogram import OpenHistogram
from experiments import adaptive_k
from experiments.adaptive_k import (
    DELTA,
    MAX_K,
    VARIANTS,
    Answer,
    run,
    smallest_epsilon,
    summary,
    variants,
)
from experiments.trials import Setting

STEPS = OpenHistogram.from_counts(np.array([300, 290, 240, 150, 149, 149, 60, 60, 12]), max_k=MAX_K)


@pytest.mark.slow
@pytest.mark.parametrize("variant", VARIANTS)
def test_a_summary_is_a_sum_over_the_law(variant):
    mechanism = variants(0.8)[variant]
    found = summary(mechanism, STEPS)
    sets = [(o.k, o.items, p) for o, p in mechanism.law(STEPS).items() if o.items is not None]
    assert found.release == pytest.approx(sum(p for _, _, p in sets), rel=1e-9)
    assert found.items == pytest.approx(sum(p * len(items) for _, items, p in sets), rel=1e-9)
    assert found.right == pytest.approx(sum(p for k, _, p in sets if k == 4 - 1), rel=1e-9)
    tied = sum(p for k, _, p in sets if k in (5, 7))
    assert found.wrong == pytest.approx(tied, rel=1e-9)
    assert found.wrong < DELTA
    assert found.low <= found.median <= found.high
    below = sum(p for k, _, p in sets if k < found.median)
    assert below < found.release / 2 <= below + sum(p for k, _, p in sets if k == found.median) + 1e-12


def test_draws_agree_with_the_summary():
    from cutline.sampling import SeededSource

    mechanism = variants(0.8)["larger k"]
    chosen, passed = mechanism.sample(STEPS, 4000, rng=SeededSource(1))
    found = summary(mechanism, STEPS)
    assert passed.mean() == pytest.approx(found.release, abs=0.03)
    assert (chosen * passed).mean() == pytest.approx(found.items, abs=0.25)


@pytest.mark.slow
def test_every_variant_spends_one_budget():
    for variant in VARIANTS:
        mechanism = variants(0.8)[variant]
        assert mechanism.budget.fits(mechanism.cost)
        spent = mechanism.cost.epsilon(DELTA)
        if variant == "paper":  # it fills the budget by zCDP; exact accounting finds that it costs less
            assert 0.5 <= spent < 0.7
        else:
            assert spent == pytest.approx(0.8, rel=1e-6)


def test_the_wish_for_a_larger_k_gets_more_items():
    long_tail = OpenHistogram.from_counts(np.cumsum(np.arange(1, 100) * 3)[::-1], max_k=MAX_K)
    plain, wished = (summary(variants(1.6)[variant], long_tail) for variant in ("EM + table", "larger k"))
    assert wished.items > plain.items
    assert wished.release > 0.95


def grid(*chances):
    blank = {"right": 0.0, "low": 1, "median": 1, "high": 1, "items": 0.0, "wrong": 0.0}
    return {
        epsilon: {
            ("x", variant): Answer(release=chance, **blank) for variant, chance in zip(VARIANTS, row, strict=True)
        }
        for epsilon, row in zip((0.1, 0.2, 0.4), chances, strict=True)
    }


def test_the_smallest_epsilon_that_releases():
    answers = grid((0.0, 0.0, 0.2, 0.0, 0.0), (0.5, 0.9, 0.95, 0.0, 0.1), (0.99, 1.0, 1.0, 0.3, 1.0))
    assert [smallest_epsilon(answers, "x", variant) for variant in VARIANTS] == [0.4, 0.2, 0.2, None, 0.4]


@pytest.mark.slow
def test_the_whole_report_on_generated_logs(tmp_path, monkeypatch):
    monkeypatch.setattr(adaptive_k, "DATA", ("foursquare_nyc",))
    monkeypatch.setattr(adaptive_k, "EPSILONS", (0.4, 0.8))
    report = run(Setting(jobs=1))
    page = report.write(tmp_path, "*A run.*")[0].read_text(encoding="utf-8")
    assert "(generated)" in page
    assert "tied with the next: " in page
    assert [table.name for table in report.tables] == ["needed", "chances", "cuts"]
    assert len(report.tables[1].rows) == 2
    assert all((tmp_path / f"adaptive-k-{figure.name}.svg").stat().st_size < 200_000 for figure in report.figures)
