import json
from dataclasses import dataclass

import pytest

import cutline.verify.all_suites


@dataclass
class Found:
    pairs: int
    violations: int
    worst: float
    seconds: float
    as_expected: bool


@dataclass
class Stub:
    name: str
    expected: str
    found: Found

    def run(self, progress=None):
        if progress:
            progress(self.found.pairs, self.found.pairs)
        return self.found


HOLDS = Stub("good [bold]", "holds", Found(1200, 0, 0.97, 0.1, True))
CAUGHT = Stub("control", "fails", Found(34, 5, float("inf"), 0.1, True))
BROKEN = Stub("bad", "holds", Found(10, 1, 1.5, 0.1, False))


@pytest.fixture
def stubs(monkeypatch):
    asked = []

    def install(*checks):
        monkeypatch.setattr(cutline.verify.all_suites, "checks", lambda names=None: asked.append(names) or list(checks))
        return asked

    return install


def test_all_as_expected(run, stubs):
    asked = stubs(HOLDS, CAUGHT)
    result = run("verify")
    assert (result.exit_code, result.stderr) == (0, "")
    assert "good [bold]" in result.stdout
    assert "1,234 ordered pairs of neighbours checked; every check came out as expected." in result.stdout
    assert asked == [None]


def test_json(run, stubs):
    stubs(HOLDS, CAUGHT)
    plain = json.loads(run("verify", "--json").stdout)
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
    result = run("verify")
    assert result.exit_code == 1
    assert "WRONG" in result.stdout
    assert "1 not as expected" in result.stdout
    failed = run("verify", "--json")
    assert (failed.exit_code, json.loads(failed.stdout)["ok"]) == (1, False)


def test_the_real_checks_follow_the_protocol_and_one_runs(run, monkeypatch):
    small = [check for check in cutline.verify.all_suites.checks(["stable-top-k"]) if "closed 2 x 6" in check.name][:1]
    assert small
    monkeypatch.setattr(cutline.verify.all_suites, "checks", lambda names=None: small)
    result = run("verify", "--mechanism", "stable-top-k", "--json")
    plain = json.loads(result.stdout)
    assert (result.exit_code, plain["ok"]) == (0, True)
    assert plain["pairs"] > 0


def test_an_unknown_mechanism_is_refused(run):
    result = run("verify", "--mechanism", "no-such")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "no-such" in result.stderr
