"""The fuzzer: a short run finds nothing, and what is broken is found, reduced and shown again by its command."""

import dataclasses
import itertools
import json
from pathlib import Path

import pytest

import cutline
from cutline.errors import ParameterError
from cutline.histogram import OpenHistogram
from cutline.mechanisms import StableTopK
from cutline.privacy import Adjacency, Budget, Cost, Gaussian, Pure
from cutline.privacy.rules.registry import RULES
from fuzz import __main__ as command
from fuzz.claims import check_claim, check_price
from fuzz.command_line import check_command
from fuzz.files import check_kept_in
from fuzz.oracle import delta_at
from fuzz.registry import TARGETS
from fuzz.target import Found, TooLongError, expect_our_words, processor_time, run_case, shrink


@pytest.mark.slow
@pytest.mark.parametrize("name", TARGETS)
def test_a_short_run_finds_nothing(name):
    cases = {"kills": 1, "rules": 3, "mechanisms": 4, "aggregators": 4}.get(name, 6)
    found = [run_case(name, TARGETS[name], seed, 1 + seed % 3) for seed in range(cases)]
    assert [finding.what for finding in found if finding is not None] == []


def broken_from_two_up(case):
    if case.size >= 2 and case.random.random() < 0.9:
        raise Found(f"a promise, at size {case.size}")


def test_a_finding_is_reduced_and_its_command_shows_it_again(monkeypatch, capsys):
    monkeypatch.setitem(TARGETS, "broken", broken_from_two_up)
    assert command.main(["broken", "--minutes", "0.001", "--seed", "1"]) == 1
    first = capsys.readouterr().out.split("\n")
    assert first[0] == "broken: a promise, at size 2"
    *_, replay = first[1].split("python -m fuzz ")
    assert command.main(replay.split()) == 1
    assert capsys.readouterr().out.split("\n")[0] == first[0]
    assert command.main(["--replay", replay.split()[1].removesuffix(":2") + ":1"]) == 0


def test_what_a_target_itself_raises_is_a_finding_too():
    finding = run_case("broken", lambda case: case.nosuch, 3, 4)
    assert "AttributeError" in finding.what
    assert shrink(lambda case: case.nosuch, finding).size == 1


def test_wrong_usage_is_refused(capsys):
    for words in (["nosuch"], ["--replay", "api"], ["--replay", "api:x"], ["--replay", "nosuch:1"]):
        with pytest.raises(SystemExit, match="2"):
            command.main(words)
    assert "Traceback" not in capsys.readouterr().err


def test_only_refusals_in_our_words_pass():
    assert expect_our_words(lambda: 3, "a call") == 3
    assert expect_our_words(lambda: Budget(epsilon="x", delta=1e-6), "a call") is None
    with pytest.raises(Found, match="ZeroDivisionError"):
        expect_our_words(lambda: 1 // 0, "a call")
    with pytest.raises(Found, match="way out"):
        expect_our_words(lambda: (_ for _ in ()).throw(ParameterError("a rule alone")), "a call")


def test_an_endless_call_is_interrupted():
    with pytest.raises(TooLongError), processor_time(0.05):
        for _ in itertools.repeat(None):
            pass


@dataclasses.dataclass(frozen=True)
class Cheaper:
    """A mechanism that claims a tenth of what it costs."""

    mechanism: StableTopK

    @property
    def cost(self):
        return Cost.of(Pure(epsilon=1e-3), adjacency=Adjacency.ADD_REMOVE)

    def law(self, histogram):
        return self.mechanism.law(histogram)


def test_a_claim_that_is_too_small_is_convicted():
    budget = Budget(epsilon=1.0, delta=1e-3)
    mechanism = StableTopK.calibrate(budget, max_k=3)
    counts = ({"a": 9, "b": 4, "c": 1}, {"a": 10, "b": 4, "c": 2})
    pair = tuple(OpenHistogram.from_counts(one, max_k=3) for one in counts)
    check_claim(mechanism, pair, "as calibrated")
    with pytest.raises(Found, match="broken"):
        check_claim(Cheaper(mechanism), pair, "at a tenth")
    check_price(mechanism.cost, budget, None, "as calibrated")
    with pytest.raises(Found, match="dearer"):
        check_price(2 * mechanism.cost, budget, None, "twice")


def test_the_oracle_convicts_an_epsilon_a_hair_too_small():
    total = 50 * Cost.of(Gaussian(sigma=30.0), adjacency=Adjacency.ADD_REMOVE)
    epsilon = RULES["gdp"](total, 1e-6)
    assert delta_at(total, epsilon) <= 1e-6 < delta_at(total, epsilon * (1 - 1e-9))


def test_a_leaked_cell_is_found(tmp_path, monkeypatch):
    path = tmp_path / "log.csv"
    path.write_text("who,what\ncanary1,castle\n")
    check_kept_in(path, "canary1", "csv")

    def leak(*_, **__):
        raise ParameterError("a row cannot be read", Path(path).read_text(), "Look at it.")

    monkeypatch.setattr(cutline, "top", leak)
    with pytest.raises(Found, match="refusal"):
        check_kept_in(path, "canary1", "csv")


def test_a_command_that_prints_no_object_is_found(monkeypatch):
    check_command(["mechanisms", "--json"])
    monkeypatch.setattr(json, "loads", lambda _text: [])
    with pytest.raises(Found, match="no object"):
        check_command(["mechanisms", "--json"])
