"""Spilled rows never outlive the count, however it ends."""

from __future__ import annotations

import os
import pathlib
import signal
import stat
import subprocess
import sys
import tempfile
import threading

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cutline.counting import count
from cutline.counting.engines.duck.engine import spill_directory
from cutline.errors import CutlineError, EngineError, SourceError
from cutline.termination import clean_termination

# Holds a spill directory with something in it inside a running query, and says so.
CHILD = """
import sys
from cutline.counting.engines.duck.engine import Engine, spill_directory
from cutline.termination import clean_termination
with clean_termination(), spill_directory() as spill, Engine(spill=spill) as engine:
    (spill / "page").write_text("private")
    print(spill, flush=True)
    engine.rows("SELECT count(*) FROM range(10000000) a, range(10000000) b WHERE (a.range * b.range) % 7 = 3")
"""


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return tmp_path


def root_of(temporary):
    return temporary / f"cutline-{os.getuid()}"


def directories(temporary):
    return [path for path in root_of(temporary).glob("*") if path.is_dir()]


def start(temporary):
    child = subprocess.Popen([sys.executable, "-c", CHILD], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    return child, pathlib.Path(child.stdout.readline().strip())


def end(child, number):
    child.send_signal(number)
    _, errors = child.communicate(timeout=60)
    return child.returncode, errors


def test_the_directory_is_private_and_goes_away(temporary):
    with spill_directory() as path:
        for found in (path, path.parent):
            assert stat.S_IMODE(found.stat().st_mode) == 0o700
        (path / "page").write_text("private")
    assert not path.exists()
    with pytest.raises(KeyError), spill_directory() as path:
        raise KeyError
    assert not path.exists()


def test_two_counts_at_once_leave_each_other_alone(temporary):
    with spill_directory() as one:
        with spill_directory() as two:
            assert one.exists()
            assert two.exists()
        assert one.exists()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signals_clean_up_and_end_the_process_as_usual(number, temporary):
    child, spill = start(temporary)
    assert (spill / "page").exists()
    code, errors = end(child, number)
    assert directories(temporary) == []
    assert code == -number
    assert errors.splitlines()[-1:] == (["KeyboardInterrupt"] if number == signal.SIGINT else [])


def test_what_a_killed_process_leaves_is_removed_at_the_next_start(temporary):
    killed, left = start(temporary)
    running, kept = start(temporary)
    assert end(killed, signal.SIGKILL)[0] == -signal.SIGKILL
    assert (left / "page").exists()
    assert count(pa.table({"u": [1], "i": [1]}), user="u", item="i", max_k=1).counts.tolist() == [1, 0]
    assert not left.exists()
    assert (kept / "page").exists()
    assert end(running, signal.SIGTERM)[0] == -signal.SIGTERM
    assert directories(temporary) == []


def test_nothing_stays_after_a_count_or_a_refusal(temporary):
    table = pa.table({"u": [1], "i": [1]})
    count(table, user="u", item="i")
    histogram = count(table, user="u", item="i", candidates=[1, 2])
    with pytest.raises(SourceError):
        count(table, user="u", item="missing")
    assert directories(temporary) == []
    assert histogram.top(1) == (1,)


def test_a_root_of_somebody_else_is_refused(temporary):
    root_of(temporary).mkdir(mode=0o755)
    root_of(temporary).chmod(0o755)
    with pytest.raises(EngineError, match="this user alone"):
        count(pa.table({"u": [1], "i": [1]}), user="u", item="i")
    root_of(temporary).rmdir()
    root_of(temporary).symlink_to(temporary)
    with pytest.raises(EngineError, match="this user alone"):
        count(pa.table({"u": [1], "i": [1]}), user="u", item="i")


def test_handlers_are_restored_and_those_of_the_program_left_alone():
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    with clean_termination():
        assert signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL

    def own(number, frame):
        raise AssertionError

    signal.signal(signal.SIGTERM, own)
    try:
        with clean_termination():
            assert signal.getsignal(signal.SIGTERM) is own
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def test_counting_in_another_thread():
    found = []
    table = pa.table({"u": [1], "i": [1]})
    thread = threading.Thread(target=lambda: found.append(count(table, user="u", item="i", max_k=1).counts.tolist()))
    thread.start()
    thread.join()
    assert found == [[1, 0]]


def test_a_small_memory_limit_gives_the_same_counts(temporary):
    random = np.random.default_rng(0)
    table = pa.table({"u": random.integers(0, 400_000, 1_500_000), "i": random.integers(0, 50, 1_500_000)})
    pq.write_table(table, temporary / "log.parquet")
    small = count(temporary / "log.parquet", user="u", item="i", max_k=60, memory_limit="60MB")
    large = count(temporary / "log.parquet", user="u", item="i", max_k=60)
    assert small.items == large.items
    assert small.counts.tolist() == large.counts.tolist()
    assert directories(temporary) == []


def test_errors_keep_their_three_parts(temporary):
    with pytest.raises(CutlineError) as caught:
        count(pa.table({"u": [1], "i": [1]}), user="u", item="missing")
    assert set(caught.value.to_dict()) == {"rule", "value", "way_out"}
