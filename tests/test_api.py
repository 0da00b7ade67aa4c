import numpy as np
import pytest

import cutline
from cutline.demo import LANDMARKS, checkins, write_checkins
from cutline.errors import DomainError, ParameterError, SourceError
from cutline.mechanisms import MECHANISMS, StableTopK
from cutline.mechanisms.base import Parameter
from cutline.mechanisms.registry import calibrate
from cutline.sampling import SeededSource

CLIFF = {"castle": 900, "harbour": 880, "museum": 870, "kiosk": 12, "garage": 11}


def test_every_public_name_is_there_and_listed():
    for name in cutline.__all__:
        assert getattr(cutline, name) is not None
        assert name in dir(cutline)
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        cutline.nonsense  # noqa: B018


def test_top_is_the_three_lines_in_one():
    release = cutline.top(CLIFF, max_k=20, rng=SeededSource(3))
    counts = cutline.count(CLIFF, max_k=20)
    budget = cutline.Budget(epsilon=1.0, delta=1e-6)
    assert release == cutline.StableTopK.calibrate(budget, max_k=20).release(counts, rng=SeededSource(3))
    assert release.items == {"castle", "harbour", "museum"}
    assert release.seeded


def test_a_real_release_is_not_seeded_and_states_its_guarantee():
    release = cutline.top(CLIFF, epsilon=2.0, delta=1e-5, releases=4, max_k=10, adjacency="replace")
    assert not release.seeded
    assert release.guarantee.startswith("(2, 1e-05)-DP for one voter's whole ballot changing; covers all 4 releases")
    assert release.budget.fits(release.cost)


@pytest.mark.parametrize("size", [3, 7, 50])
def test_a_closed_domain_of_any_size(size):
    candidates = ["castle", "harbour", "museum", *(f"c{i}" for i in range(size - 3))]
    release = cutline.top(CLIFF, candidates=candidates, max_k=7, test="paper")
    assert (release.items, release.k) == ({"castle", "harbour", "museum"}, 3)


def test_frames_and_files_give_the_same_answer(tmp_path):
    path = tmp_path / "checkins.parquet"
    write_checkins(path, users=1500, seed=2)
    columns = {"user": "user_id", "item": "venue", "max_k": 40, "test": "paper"}
    for source in (path, str(path), checkins(users=1500, seed=2)):
        release = cutline.top(source, **columns, rng=SeededSource(0))
        assert release.listed() == sorted(LANDMARKS)


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"epsilon": float("nan")}, "epsilon"),
        ({"delta": 1.0}, "delta"),
        ({"releases": 0}, "releases"),
        ({"max_k": 0}, "max_k"),
        ({"max_k": 2.5}, "max_k"),
        ({"min_k": 200}, "min_k"),
        ({"mechanism": "magic"}, "magic"),
        ({"adjacency": "near"}, "adjacency"),
        ({"colour": "red"}, "colour"),
        ({"choose": "lot"}, "choose"),
        ({"rng": np.random.default_rng(0)}, "rng"),
    ],
)
def test_public_mistakes_are_refused_before_the_source_is_touched(wrong, named):
    with pytest.raises(ParameterError, match=named):
        cutline.top("no-such-file.parquet", user="u", item="i", **wrong)


def test_a_missing_source_is_refused_once_all_else_is_right():
    with pytest.raises(SourceError, match="must exist"):
        cutline.top("no-such-file.parquet", user="u", item="i", test="paper")


class ClosedOnly(StableTopK):
    """A newcomer: another name, one domain, parameters of its own."""

    name = "closed-only"
    domains = ("closed",)
    parameters = (Parameter(name="width"),)

    @classmethod
    def calibrate(cls, budget, *, adjacency=cutline.Adjacency.ADD_REMOVE, limits=None, width=2):
        return StableTopK.calibrate(budget, adjacency=adjacency, max_k=width, test="paper")


def test_a_new_mechanism_needs_no_change_here(monkeypatch):
    monkeypatch.setattr("cutline.mechanisms.registry.MECHANISMS", (*MECHANISMS, ClosedOnly))
    release = cutline.top({"a": 900, "b": 1}, candidates=["a", "b"], mechanism="closed-only", width=2)
    assert (release.items, release.mechanism["max_k"]) == ({"a"}, 2)
    with pytest.raises(DomainError, match=r"closed; got a domain that is open\. List the candidates"):
        cutline.top({"a": 900}, mechanism="closed-only")
    with pytest.raises(ParameterError, match="width"):
        calibrate("closed-only", cutline.Budget(epsilon=1.0, delta=1e-6), min_k=2)


def test_checkins_look_like_a_log():
    log = checkins(seed=4)
    users, venues = log["user_id"], log["venue"]
    assert 0 < users.null_count < 0.03 * log.num_rows
    assert 0 < venues.null_count < 0.03 * log.num_rows
    assert 2500 < len(users.unique()) <= 3001
    assert log.select(["user_id", "venue"]).group_by(["user_id", "venue"]).aggregate([]).num_rows < 0.9 * log.num_rows
    counts = cutline.count(log, user="user_id", item="venue")
    assert int(counts.gaps(100).argmax()) == 11
    assert set(counts.top(12)) == set(LANDMARKS)
    with pytest.raises(ParameterError, match="users"):
        checkins(users=0)
