"""Checks on several processes: the same reports in the same order, and nothing left behind however it ends."""

import dataclasses
import os
import signal
import subprocess
import sys

import pytest

from cutline.errors import AdjacencyError, EngineError, ParameterError
from cutline.privacy import Adjacency
from cutline.verify import checks, run_checks
from cutline.verify.run import available_cores, expected_duration, expected_seconds
from cutline.verify.suites.shared import Altered

SMALL = [check for check in checks(["gnmax", "stable-majority"]) if check.universe.size < 500]


def without_time(reports):
    return [dataclasses.replace(report, seconds=0.0) for report in reports]


def test_neither_reports_nor_their_order_depend_on_the_number_of_processes():
    ended = []
    alone = run_checks(SMALL, jobs=1, finished=ended.append)
    assert ended == SMALL
    assert [report.pairs for report in alone] == [check.universe.size for check in SMALL]
    ended.clear()
    assert without_time(run_checks(SMALL, jobs=2, finished=ended.append)) == without_time(alone)
    assert sorted(ended, key=SMALL.index) == SMALL
    assert without_time(run_checks(SMALL[:3])) == without_time(alone[:3])
    assert run_checks([], jobs=4) == []


def test_the_number_of_processes_is_at_least_one():
    with pytest.raises(ParameterError, match="jobs=0"):
        run_checks(SMALL, jobs=0)
    assert 1 <= available_cores() <= os.cpu_count()


def test_the_expected_time_follows_the_pairs_and_the_processes():
    assert expected_duration([], 2) == 0
    whole = sum(map(expected_seconds, SMALL))
    assert expected_duration(SMALL, 1) == pytest.approx(whole)
    assert expected_duration(SMALL, 2) == pytest.approx(whole / 2)
    assert expected_duration(SMALL, 10**6) == max(map(expected_seconds, SMALL))
    one, two = (check for check in checks(["joint-em"]) if "k=2, epsilon=0.8; " in check.name)
    assert expected_seconds(one) / one.universe.size == pytest.approx(expected_seconds(two) / two.universe.size)


def test_a_check_that_cannot_be_run_is_refused_in_the_words_of_the_check():
    other = {Adjacency.REPLACE: Adjacency.ADD_REMOVE, Adjacency.ADD_REMOVE: Adjacency.REPLACE}[
        SMALL[-1].universe.adjacency
    ]
    wrong = dataclasses.replace(SMALL[-1], universe=dataclasses.replace(SMALL[-1].universe, adjacency=other))
    with pytest.raises(AdjacencyError, match="its own adjacency relation"):
        run_checks([*SMALL, wrong], jobs=2)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Deadly(Altered):
    """Ends the process, as a system out of memory would."""

    def law(self, data, /):
        os._exit(9)


def test_a_process_that_is_ended_from_outside_is_reported():
    deadly = dataclasses.replace(SMALL[0], subject=Deadly(subject=SMALL[0].subject))
    with pytest.raises(EngineError, match="--jobs 1"):
        run_checks([deadly, *SMALL], jobs=2)


COMMAND = """
import os, signal, sys
import cutline.verify
from cutline.cli import main

run_checks = cutline.verify.run_checks

def end_after_the_first(checks, *, jobs, finished):
    return run_checks(checks, jobs=jobs, finished=lambda check: {how})

cutline.verify.run_checks = end_after_the_first
sys.argv = ["cutline", "verify", "--mechanism", "joint-em", "--jobs", "2"]
main()
"""


def end_in_the_middle(how):
    """Run the command in a process group of its own until it is ended; return its end once all its processes are gone."""
    process = subprocess.Popen(
        [sys.executable, "-c", COMMAND.format(how=how)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        out, err = process.communicate(timeout=300)  # every process has a copy of the pipes: they close with the last
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        raise
    return process.returncode, out, err


def test_an_interrupt_ends_all_processes_and_exits_130():
    code, out, err = end_in_the_middle("os.killpg(0, signal.SIGINT)")  # as a terminal does: to every process
    assert (code, out) == (130, "")
    lines = err.splitlines()
    assert "2 processes: " in lines[0]
    assert lines[1:] == ["Interrupted. Nothing more was released."]


def test_processes_end_with_the_one_that_started_them():
    code, out, _ = end_in_the_middle("os.kill(os.getpid(), signal.SIGKILL)")
    assert (code, out) == (-signal.SIGKILL, "")
