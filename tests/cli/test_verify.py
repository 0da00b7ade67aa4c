import json
from dataclasses import dataclass

import pytest

import cutline.verify
from cutline.cli.verify import remaining_seconds


@dataclass
class Found:
    pairs: int
    violations: int
    worst: float
    seconds: float
    as_expected: bool


@dataclass
class Sized:
    size: int


@dataclass
class Stub:
    name: str
    expected: str
    found: Found
    mechanism: str = "stub"

    @property
    def universe(self):
        return Sized(self.found.pairs)

    def run(self):
        return self.found


HOLDS = Stub("good [bold]", "holds", Found(1200, 0, 0.97, 0.1, True))
CAUGHT = Stub("control", "fails", Found(34, 5, float("inf"), 0.1, True))
BROKEN = Stub("bad", "holds", Found(10, 1, 1.5, 0.1, False))


@pytest.fixture
def stubs(monkeypatch):
    asked = []

    def install(*checks):
        monkeypatch.setattr(cutline.verify, "checks", lambda names=None: asked.append(names) or list(checks))
        return asked

    return install


def test_all_as_expected(run, stubs):
    asked = stubs(HOLDS, CAUGHT)
    result = run("verify", "--jobs", 1)
    assert result.exit_code == 0
    assert result.stderr == "2 checks, 1,234 pairs of neighbours, 1 process: a few seconds.\n"
    assert "good [bold]" in result.stdout
    assert "1,234 ordered pairs of neighbours checked; every check came out as expected." in result.stdout
    assert asked == [None]


def test_json(run, stubs):
    stubs(HOLDS, CAUGHT)
    plain = json.loads(run("verify", "--jobs", 1, "--json").stdout)
    assert (plain["pairs"], plain["ok"]) == (1234, True)
    assert plain["checks"][0] == {
        "name": "good [bold]",
        "expected": "holds",
        "pairs": 1200,
        "violations": 0,
        "worst": 0.97,
        "seconds": 0.1,
        "as_expected": True,
    }
    assert plain["checks"][1]["worst"] is None


def test_a_surprise_exits_1(run, stubs):
    stubs(HOLDS, BROKEN)
    result = run("verify", "--jobs", 1)
    assert result.exit_code == 1
    assert "WRONG" in result.stdout
    assert "1 not as expected" in result.stdout
    failed = run("verify", "--jobs", 1, "--json")
    assert (failed.exit_code, json.loads(failed.stdout)["ok"]) == (1, False)


def test_the_real_checks_follow_the_protocol_and_one_runs(run, monkeypatch):
    small = [check for check in cutline.verify.checks(["stable-top-k"]) if "closed 2 x 6" in check.name][:1]
    assert small
    monkeypatch.setattr(cutline.verify, "checks", lambda names=None: small)
    result = run("verify", "--mechanism", "stable-top-k", "--json")
    plain = json.loads(result.stdout)
    assert (result.exit_code, plain["ok"]) == (0, True)
    assert plain["pairs"] > 0


def test_every_number_of_processes_prints_the_same(run):
    alone, two = (run("verify", "--mechanism", "pate-tau", "--jobs", jobs, "--json") for jobs in (1, 2))
    assert (alone.exit_code, two.exit_code) == (0, 0)
    plain = [json.loads(result.stdout) for result in (alone, two)]
    for found in plain:
        assert all(check.pop("seconds") >= 0 for check in found["checks"])
    assert plain[0] == plain[1]
    assert "2 processes" in two.stderr
    assert run("verify", "--jobs", 0).exit_code == 2


def test_what_is_left_is_corrected_by_what_was_needed():
    assert remaining_seconds(100, elapsed=0, share=0) == pytest.approx(100)
    slow = [remaining_seconds(100, elapsed=400 * share, share=share) for share in (0.1, 0.5, 0.9, 1.0)]
    assert slow == sorted(slow, reverse=True)
    assert slow[0] > 250
    assert slow[1] == pytest.approx(200, rel=0.1)
    assert slow[-1] == 0


def test_an_unknown_mechanism_is_refused(run):
    result = run("verify", "--mechanism", "no-such")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "no-such" in result.stderr
