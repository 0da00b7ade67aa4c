"""What only a process of its own can show: what is loaded, which stream is written, how it ends."""

import json
import re
import subprocess
import sys

import pytest

import cutline

HEAVY = "{'numpy', 'duckdb', 'rich', 'matplotlib', 'scipy', 'flint', 'pyarrow'} & set(sys.modules)"


def python(code, **options):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, **options)


def command(*args, **options):
    return subprocess.run(
        [sys.executable, "-m", "cutline.cli", *map(str, args)], capture_output=True, check=False, **options
    )


@pytest.mark.parametrize("used", ["pass", "cutline.__version__", "dir(cutline)", "cutline.CutlineError"])
def test_importing_cutline_loads_nothing_heavy(used):
    assert python(f"import sys, cutline; {used}; print({HEAVY})").stdout == "set()\n"


@pytest.mark.parametrize("args", [["--help"], ["--version"], ["top", "--help"], ["top"]])
def test_help_loads_nothing_heavy(args):
    code = f"""
import sys
from cutline.cli import main
sys.argv = ["cutline", *{args}]
try:
    main()
except SystemExit as end:
    print(end.code, {HEAVY}, file=sys.stderr)
"""
    done = python(code)
    assert done.stderr.splitlines()[-1] == ("2 set()" if args == ["top"] else "0 set()")


def test_version():
    done = command("--version")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"cutline {cutline.__version__}\n".encode(), b"")


@pytest.mark.parametrize("name", ["demo", "top", "cost", "verify"])
def test_help_of_every_command_has_an_example(run, name):
    text = run(name, "--help").stdout
    assert f"Example:\n    cutline {name}" in text
    assert "--json" in text


def test_streams_and_exit_codes(checkins):
    options = ["--user", "user_id", "--item", "venue", "--test", "paper"]
    done = command("top", checkins, *options, "--json")
    assert (done.returncode, done.stderr) == (0, b"")
    assert json.loads(done.stdout)["k"] == 12
    refused = command("top", checkins, *options, "--max-k", 0)
    assert (refused.returncode, refused.stdout) == (1, b"")
    assert refused.stderr.startswith(b"cutline: max_k must be")
    assert command("top", checkins, "--no-such-option").returncode == 2
    wrong = command("top", checkins, "--no-such-option", "--json")
    assert (wrong.returncode, wrong.stderr[:7]) == (2, b"Usage: ")
    assert json.loads(wrong.stdout)["error"]["value"].startswith("No such option: --no-such-option")


def test_a_poor_terminal_loses_no_release(write_log):
    log = write_log([(i, "Caf\u00e9 東京") for i in range(400)])
    options = ["top", log, "--user", "user", "--item", "item", "--test", "paper"]
    done = command(*options, env={"PYTHONIOENCODING": "ascii", "PATH": ""})
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"Caf\\xe9 \\u6771\\u4eac" in done.stdout
    drawn = command(
        *options, "--choose", "em", "--counts", "--plot", "-", env={"PYTHONIOENCODING": "ascii", "PATH": ""}
    )
    assert (drawn.returncode, drawn.stderr) == (0, b"")
    assert re.search(rb"\n\S+ \S+ +\|#+-* [\d,]+ \+- \d+\n-+ the top ends here", drawn.stdout)


def test_a_closed_pipe_is_no_accident(checkins):
    options = ["top", checkins, "--user", "user_id", "--item", "venue", "--test", "paper"]
    process = subprocess.Popen(
        [sys.executable, "-m", "cutline.cli", *map(str, options)], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    process.stdout.close()
    stderr = process.stderr.read()
    process.stderr.close()
    process.wait()
    assert b"Traceback" not in stderr
