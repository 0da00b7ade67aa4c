"""What is expected at an epsilon, and the epsilon that is enough, hold by the exact law or over seeded releases."""

import json

import numpy as np
import pytest

from cutline.errors import CutlineError
from cutline.histogram import ClosedHistogram, OpenHistogram
from cutline.mechanisms import mechanism
from cutline.mechanisms.expectations import SHAPES, Trial, true_top
from cutline.mechanisms.planning import plan
from cutline.plan_figure import plot_plan
from cutline.privacy import Budget
from cutline.sampling import SeededSource

BUDGET = Budget(epsilon=1.0, delta=1e-6)
LOG = {f"song {rank}": 1_500 // rank for rank in range(1, 40)}
CLIFF = {f"top {i}": 300 - i for i in range(6)} | {f"low {i}": 120 - 3 * i for i in range(30)}
RELEASES = 4_000


def test_the_epsilon_for_nine_tenths_finds_nine_tenths_where_k_is_found():
    prior = OpenHistogram.from_counts(CLIFF, max_k=20)
    (found,) = plan(BUDGET, max_k=20, prior=prior, want=0.9, mechanism="joint-stable").wanted
    assert found.expected.exact
    assert 0.9 <= found.expected.recall < 0.92
    built = mechanism("joint-stable").calibrate(Budget(epsilon=found.epsilon, delta=1e-6), max_k=20)
    cuts, passed = built.sample(prior, RELEASES, rng=SeededSource(7))
    recalls = np.minimum(cuts, 6) / 6 * passed
    assert recalls.mean() == pytest.approx(found.expected.recall, abs=0.02)
    smaller = mechanism("joint-stable").calibrate(Budget(epsilon=0.97 * found.epsilon, delta=1e-6), max_k=20)
    assert Trial(smaller, prior, k=None).expect(error=0.01).recall < 0.9  # the smallest, to a few percent


def test_the_epsilon_for_nine_tenths_finds_nine_tenths_where_k_is_told():
    prior = OpenHistogram.from_counts(LOG, max_k=12)
    asked = {"k": 4, "max_k": 12, "prior": prior, "mechanism": "limited-domain"}
    (found,) = plan(Budget(epsilon=0.25, delta=1e-6), **asked, want=0.9).wanted
    assert not found.expected.exact  # the law is too long to list
    assert found.expected.recall == pytest.approx(0.9, abs=0.02)
    built = mechanism("limited-domain").calibrate(Budget(epsilon=found.epsilon, delta=1e-6), k=4, max_k=12)
    top = true_top(prior, k=4)
    lists = built.sample(prior, RELEASES, rng=SeededSource(8))
    recall = sum(len(top & {*items}) for items in lists) / (4 * RELEASES)
    assert recall == pytest.approx(found.expected.recall, abs=0.02)
    weaker = mechanism("limited-domain").calibrate(Budget(epsilon=0.8 * found.epsilon, delta=1e-6), k=4, max_k=12)
    lists = weaker.sample(prior, 1_000, rng=SeededSource(9))
    assert sum(len(top & {*items}) for items in lists) / 4_000 < 0.88  # a search that promised too much would be seen


def test_the_epsilon_for_nine_tenths_finds_nine_tenths_of_logs_drawn_from_the_prior():
    counts = {f"top {i}": 100 for i in range(3)} | {f"low {i}": 40 for i in range(5)}
    prior = OpenHistogram.from_counts(counts, max_k=7)
    asked = {"max_k": 7, "prior": prior, "want": 0.9, "mechanism": "joint-stable"}
    near = Budget(epsilon=0.51, delta=1e-6)  # where the search starts, to be short
    (found,) = plan(near, **asked, redraw=True).wanted
    assert not found.expected.exact
    assert found.expected.recall == pytest.approx(0.9, abs=0.02)
    built = mechanism("joint-stable").calibrate(Budget(epsilon=found.epsilon, delta=1e-6), max_k=7)
    random, rng, total = np.random.default_rng(5), SeededSource(5), 0.0
    for _ in range(RELEASES):
        log = OpenHistogram.from_counts(dict(zip(counts, random.poisson([*counts.values()]), strict=True)), max_k=7)
        top = true_top(log, k=None)
        total += len(top & (built.run(log, rng)[0].items or frozenset())) / len(top)
    assert total / RELEASES == pytest.approx(found.expected.recall, abs=0.02)
    (on_prior,) = plan(near, **asked).wanted
    assert on_prior.epsilon < 0.9 * found.epsilon  # a log that is only like the prior needs more


def test_draws_agree_with_the_law_within_their_error():
    listed = ClosedHistogram.from_counts({"a": 60, "b": 50, "c": 45, "d": 20, "e": 5})
    built = mechanism("peeling-em").calibrate(BUDGET, k=2)
    trial = Trial(built, listed, k=2)
    exact = trial.expect(error=0.01)
    trial._law.weight = 0.0  # as if it were too long to list
    drawn = trial.expect(error=0.01)
    assert exact.exact
    assert 0 < drawn.error <= 0.01
    assert drawn.recall == pytest.approx(exact.recall, abs=4 * drawn.error)
    assert exact.items == drawn.items == 2
    assert trial.expect(error=0.02) == drawn  # no more draws than the error takes


@pytest.fixture(scope="module")
def on_shapes():
    return plan(BUDGET, max_k=20, epsilons=(2.0, 0.05, 0.5), want=0.8, mechanism="joint-stable")


def test_without_a_prior_three_shapes_are_tried_and_named(on_shapes):
    assert [curve.log for curve in on_shapes.curves] == [*SHAPES] == [wanted.log for wanted in on_shapes.wanted]
    for curve in on_shapes.curves:
        assert [epsilon for epsilon, _ in curve.points] == [0.05, 0.5, 2.0]
        recalls = [found.recall for _, found in curve.points]
        assert recalls == sorted(recalls)
    cliff = on_shapes.curves[0].points[-1][1]
    assert (cliff.recall, cliff.items, cliff.k) == pytest.approx((1.0, 10.0, 10.0), abs=1e-3)
    for words in SHAPES.values():
        assert words[1:] in on_shapes.assumption
    plain = json.loads(json.dumps(on_shapes.to_dict()))
    assert plain["wanted"][0]["epsilon"] == on_shapes.wanted[0].epsilon
    assert plain["curves"][0]["points"][-1]["k"] == pytest.approx(10.0, abs=1e-3)


def test_epsilons_without_a_prior_are_for_items_that_nobody_has_listed():
    """Candidates that are listed need less epsilon, which is no help to whoever has none."""
    anybody = plan(BUDGET, k=1, max_k=4, epsilons=(1.0,))
    assert "peeling-em" in {option.mechanism for option in anybody.options}
    assert {"test-first", "peel-then-test"} <= {curve.mechanism for curve in anybody.curves}
    assert {"peeling-em", "permute-and-flip", "subset-em"}.isdisjoint(curve.mechanism for curve in anybody.curves)
    assert "three example shapes, of items that nobody has listed." in anybody.assumption
    listed = plan(BUDGET, k=1, max_k=4, epsilons=(1.0,), mechanism="peeling-em")
    assert {curve.mechanism for curve in listed.curves} == {"peeling-em"}


@pytest.mark.parametrize("suffix", ["png", "svg"])
def test_a_plan_can_be_drawn(on_shapes, tmp_path, suffix):
    plot_plan(on_shapes, tmp_path / f"plan.{suffix}")
    drawn = (tmp_path / f"plan.{suffix}").read_bytes()
    assert drawn[:4] in (b"\x89PNG", b"<?xm")
    if suffix == "svg":
        assert all(words in drawn.decode() for words in ("joint-stable", "long tail", "recall", "80 % at epsilon"))


def test_a_plan_without_epsilons_has_nothing_to_draw(tmp_path):
    with pytest.raises(CutlineError, match="several epsilons"):
        plot_plan(plan(BUDGET, max_k=4, mechanism="joint-stable"), tmp_path / "plan.png")


def test_what_no_epsilon_reaches_is_said():
    lone = OpenHistogram.from_counts({"a": 1}, max_k=4)  # a set that one user decides is never stable
    (found,) = plan(BUDGET, max_k=4, prior=lone, want=0.9, mechanism="joint-stable").wanted
    assert (found.epsilon, found.mechanism, found.expected) == (None, None, None)
    assert found.to_dict()["epsilon"] is None


@pytest.mark.parametrize("fields", [{"want": 1.0}, {"want": 0}, {"want": "much"}, {"want": True}, {"epsilons": (0.0,)}])
def test_wishes_that_make_no_sense_are_refused(fields):
    with pytest.raises(CutlineError):
        plan(BUDGET, max_k=4, **fields)
