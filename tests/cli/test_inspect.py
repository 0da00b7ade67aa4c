"""``cutline inspect`` talks to a terminal, and to nothing else."""

import os
import pty
import subprocess
import sys

import pytest

WARNING = (
    "PRIVATE, for the owner's eyes: a bound, k, epsilon, filter or candidate list chosen from this page is not covered by "
    "any guarantee."
)


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text("who,what\nann,tea\nann,Tea\nbob,tea\n,milk\nshort\n")
    return path


def test_a_terminal_is_shown_the_warning_first_and_then_the_log(log):
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "cutline.cli", "inspect", str(log), "--user", "who", "--item", "what"]
    process = subprocess.Popen(
        command, stdin=theirs, stdout=theirs, stderr=subprocess.PIPE, env=os.environ | {"COLUMNS": "90"}
    )
    os.close(theirs)
    shown = b""
    try:
        while piece := os.read(ours, 4096):
            shown += piece
    except OSError:  # how Linux says that the other side of a terminal is closed
        pass
    finally:
        os.close(ours)
    assert process.wait() == 0, process.stderr.read()
    process.stderr.close()
    text = shown.decode()
    first, _, rest = text.partition("\r\n")
    assert WARNING in first
    for words in (
        "4 could be read, 3 of them count",
        "1 without a user",
        "1 too few cells",
        "median 1",
        "2 items differ",
    ):
        assert words in " ".join(rest.split())
    assert "milk" not in rest


def test_anything_but_a_terminal_is_refused_before_the_log_is_opened(run, log):
    for path in (log, "no-such-log.csv"):
        result = run("inspect", path, "--user", "who", "--item", "what")
        assert result.exit_code == 1
        assert result.stdout == ""
        assert "what inspect shows is private, and goes to a terminal only" in result.stderr
    for option in ("--json", "--out", "--plot"):
        assert run("inspect", log, "--user", "who", "--item", "what", option).exit_code == 2
