import io
import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest
from rich.console import Console

from experiments.__main__ import main
from experiments.exp2 import cliff
from experiments.registry import EXPERIMENTS
from experiments.report import Estimate, Table, show_cell
from experiments.terminal_tables import fit_table

ROOT = Path(__file__).parents[2]


class Result(NamedTuple):
    exit_code: int
    stdout: str
    stderr: str


@pytest.fixture
def run(capsys, monkeypatch):
    """Run the command in this process, without the data directory of whoever runs the tests."""
    monkeypatch.delenv("CUTLINE_DATA", raising=False)

    def call(*arguments):
        code = main([str(argument) for argument in arguments])
        return Result(code, *capsys.readouterr())

    return call


@pytest.fixture
def small(monkeypatch):
    """A smaller grid of the same experiment."""
    monkeypatch.setattr(cliff, "_KS", (10, 100))
    monkeypatch.setattr(cliff, "_MIDDLE", 100)
    monkeypatch.setattr(cliff, "_HEIGHTS", (300,))


@pytest.fixture
def replace_run(monkeypatch):
    """Let an experiment do something else when it is run."""

    def change(name, run):
        monkeypatch.setitem(EXPERIMENTS, name, replace(EXPERIMENTS[name], run=run))

    return change


def test_one_command_writes_page_tables_and_figures_and_repeats_exactly(run, small, tmp_path):
    arguments = ("exp2-synthetic", "--trials", 2, "--jobs", 1)
    result = run(*arguments, "--out", tmp_path / "a")
    assert result.exit_code == 0, result.stderr
    assert result.stderr == ""  # nobody is watching
    assert result.stdout.startswith("EXP2b: one cliff among 15,000 bins\n")
    names = {path.name for path in (tmp_path / "a").iterdir()}
    parts = {f"exp2-synthetic-{part}" for part in ("recall", "height")}
    assert names == {"exp2-synthetic.md"} | {f"{part}.{kind}" for part in parts for kind in ("csv", "png", "svg")}

    plain = json.loads(run(*arguments, "--out", tmp_path / "b", "--json").stdout)
    assert {(tmp_path / "b" / name).read_bytes() for name in names} == {
        (tmp_path / "a" / name).read_bytes() for name in names
    }
    assert {path.rsplit("/", 1)[-1] for path in plain["files"]} == names
    recall = plain["tables"]["recall"]
    ours = recall["columns"].index("StableTopK (adaptive)")
    assert [row[0] for row in recall["rows"]] == [10, 100]
    assert [row[ours][0] for row in recall["rows"]] == [1.0, 1.0]


def test_one_trial_shows_no_error(run, small, tmp_path):
    arguments = ("exp2-synthetic", "--trials", 1, "--jobs", 1, "--out", tmp_path)
    plain = json.loads(run(*arguments, "--json").stdout)
    assert {cell[1] for row in plain["tables"]["recall"]["rows"] for cell in row[1:]} == {None}
    page = (tmp_path / "exp2-synthetic.md").read_text(encoding="utf-8")
    assert "\n*No data are read; 1 trial a cell, seed 0.*\n" in page
    assert "1.000 ± –" in page
    assert "one trial" in (tmp_path / "exp2-synthetic-recall.svg").read_text(encoding="utf-8")
    header = (tmp_path / "exp2-synthetic-recall.csv").read_text(encoding="utf-8").splitlines()[0]
    assert "test-first (standard deviation)" in header


@pytest.mark.parametrize("width", [40, 80, 200])
def test_a_wide_table_shows_every_number_whole(width):
    numbers = [Estimate(0.001 * i, 0.0005) for i in range(8)]
    table = Table(
        name="t",
        title="t",
        columns=("where it was", "k", *(f"method number{i}" for i in range(8))),
        rows=(
            ("Foursquare Kuala Lumpur", 50, *numbers),
            ("Foursquare Kuala Lumpur", 3, *numbers),  # named once, in the row above
            ("Tokyo", 3, *numbers),
        ),
        keys=2,
    )
    console = Console(width=width, file=io.StringIO())
    console.print(fit_table(table, width))
    lines = console.file.getvalue().splitlines()
    assert max(map(len, lines)) <= width
    assert "…" not in console.file.getvalue()
    for number in numbers:
        assert sum(line.count(show_cell(number)) for line in lines) == 3
    parts = sum("Foursquare" in line for line in lines)
    assert parts == {40: 8, 80: 2, 200: 1}[width]


def test_a_header_is_folded_before_a_cell():
    table = Table(
        name="t", title="t", columns=("where", "a very long header of many words"), rows=(("Mar 12-21", 0.5),)
    )
    console = Console(width=20, file=io.StringIO())
    console.print(fit_table(table, 20))
    assert "Mar 12-21" in console.file.getvalue()


def test_a_directory_that_cannot_be_written_is_refused_before_the_work(run, tmp_path, replace_run):
    replace_run("exp2-synthetic", pytest.fail)
    (tmp_path / "file").write_text("")
    result = run("exp2-synthetic", "--out", tmp_path / "file")
    assert result.exit_code == 1
    assert "a directory that can be written" in result.stderr


def test_an_interrupted_simulation_says_that_nothing_was_written(run, tmp_path, replace_run):
    def interrupted(setting):
        raise KeyboardInterrupt

    replace_run("exp2-synthetic", interrupted)
    result = run("exp2-synthetic", "--out", tmp_path / "out")
    assert result.exit_code == 130
    assert result.stderr == "Interrupted. Nothing was written.\n"
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "another",
    [("--data", "{data}", "--trials", 7), ("--data", "{data}", "--seed", 1), (), ("--data", "{partial}")],
    ids=["other trials", "another seed", "generated data", "other files"],
)
def test_a_hand_written_page_is_never_filled_by_another_run(run, tmp_path, replace_run, another):
    replace_run("exp1", lambda setting: pytest.fail("the experiment was run"))
    page = (ROOT / "docs" / "reproduce" / "exp1.md").read_bytes()
    folders = {name: tmp_path / name for name in ("data", "partial", "out")}
    for folder in folders.values():
        folder.mkdir()
    (folders["out"] / "exp1.md").write_bytes(page)
    for file in re.search(r"\*Read: (.*?);", page.decode())[1].split(", "):
        (folders["data"] / file).touch()
    (folders["partial"] / "gowalla_10core.parquet").touch()
    result = run("exp1", "--out", folders["out"], *(str(word).format(**folders) for word in another))
    assert result.exit_code == 1
    assert "must be of the run that the page speaks of" in result.stderr
    assert [path.name for path in folders["out"].iterdir()] == ["exp1.md"]
    assert (folders["out"] / "exp1.md").read_bytes() == page


def test_an_unknown_experiment_is_refused_with_the_known_ones(run):
    result = run("exp99", "--json")
    assert result.exit_code == 1
    assert "exp2-synthetic" in json.loads(result.stdout)["error"]["way_out"]


def test_without_a_name_the_experiments_are_listed(run):
    result = run()
    assert result.exit_code == 0
    assert [line.split()[0] for line in result.stdout.splitlines()] == list(EXPERIMENTS)


def test_a_misspelled_option_is_wrong_usage(run, capsys):
    with pytest.raises(SystemExit) as ended:
        run("exp1", "--trails", 3)
    assert ended.value.code == 2
    assert "--trails" in capsys.readouterr().err


def test_it_runs_as_a_module():
    listed = subprocess.run(
        [sys.executable, "-m", "experiments"],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "exp2-covid-cumulative" in listed.stdout


def test_a_given_directory_without_the_file_is_refused(run, tmp_path):
    result = run("exp2-covid", "--data", tmp_path, "--out", tmp_path / "out")
    assert result.exit_code == 1
    assert "us-states.csv" in result.stderr
    assert "The New York Times" in result.stderr
    assert not (tmp_path / "out").exists()


def test_the_directory_may_come_from_the_environment(run, tmp_path, monkeypatch):
    monkeypatch.setenv("CUTLINE_DATA", str(tmp_path / "none"))
    result = run("exp2-covid", "--out", tmp_path / "out")
    assert result.exit_code == 1
    assert "must be a directory" in result.stderr


def test_trials_must_be_a_positive_number(run, tmp_path):
    result = run("exp2-synthetic", "--trials", 0, "--out", tmp_path / "out")
    assert result.exit_code == 1
    assert "trials must be a whole number of at least 1" in result.stderr
