import ast
import multiprocessing
import os
from pathlib import Path

import pytest

from cutline.errors import EngineError, ParameterError
from cutline.sampling import SeededSource
from experiments.registry import EXPERIMENTS, find_experiment
from experiments.trials import Setting, run_cells


def draws(cell, seed):
    return [cell, os.getpid(), *SeededSource(seed).words(3).tolist()]


def dies(cell, seed):
    os._exit(1)


def waits(cell, seed):
    if cell is not None:  # the first ends and is reported; the others go on
        multiprocessing.Event().wait(20)
        cell.touch()


CELLS = {f"cell {i}": i for i in range(5)}


def test_results_do_not_depend_on_the_number_of_processes():
    seen = []
    alone = run_cells(draws, CELLS, experiment="e", setting=Setting(jobs=1, progress=lambda *told: seen.append(told)))
    together = run_cells(draws, CELLS, experiment="e", setting=Setting(jobs=2))
    assert list(alone) == list(together) == list(CELLS)
    assert [[r[0], *r[2:]] for r in alone.values()] == [[r[0], *r[2:]] for r in together.values()]
    assert {r[1] for r in alone.values()} == {os.getpid()}
    assert os.getpid() not in {r[1] for r in together.values()}
    assert seen == [(n, 5) for n in range(6)]


def test_every_cell_has_a_seed_of_its_own():
    def words(**changed):
        name = changed.pop("experiment", "e")
        found = run_cells(draws, CELLS, experiment=name, setting=Setting(jobs=1, **changed))
        return {tuple(r[2:]) for r in found.values()}

    first = words()
    assert len(first) == len(CELLS)
    assert first == words()
    assert not first & words(seed=1)
    assert not first & words(experiment="another")


def test_a_process_that_dies_is_reported():
    with pytest.raises(EngineError, match="ended before its work was done"):
        run_cells(dies, {"a": 1, "b": 2}, experiment="e", setting=Setting(jobs=2))


def test_an_interrupt_ends_the_cells_under_way(tmp_path):
    def interrupt(done, total):
        if done:
            raise KeyboardInterrupt

    others = set(multiprocessing.active_children())  # of tests before this one, on their way out
    cells = {"first": None, "second": tmp_path / "second", "third": tmp_path / "third"}
    with pytest.raises(KeyboardInterrupt):
        run_cells(waits, cells, experiment="e", setting=Setting(jobs=2, progress=interrupt))
    assert set(multiprocessing.active_children()) <= others
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("wrong", [{"trials": 0}, {"seed": -1}, {"jobs": 0}, {"trials": 1.5}, {"jobs": True}])
def test_settings_that_make_no_sense_are_refused(wrong):
    with pytest.raises(ParameterError, match="whole number"):
        Setting(**wrong)


def test_experiments_are_found_by_name():
    assert all(find_experiment(name).name == name and known.summary for name, known in EXPERIMENTS.items())
    with pytest.raises(ParameterError, match="known one"):
        find_experiment("exp99")


def test_a_run_is_described_before_it_is_made(tmp_path):
    exp1 = EXPERIMENTS["exp1"]
    assert exp1.describe_run(Setting()) == "*The data are generated; 500 trials a cell, seed 0.*"
    assert EXPERIMENTS["one-gap"].describe_run(Setting()) == "*No data are read; nothing is drawn.*"
    (tmp_path / "gowalla_10core.parquet").touch()
    (tmp_path / "foursquare_nyc.parquet").touch()
    described = exp1.describe_run(Setting(data=tmp_path, trials=1, seed=3))
    assert described == "*Read: foursquare_nyc.parquet, gowalla_10core.parquet; 1 trial a cell, seed 3.*"
    (tmp_path / "dataset_TSMC2014_NYC.txt").touch()  # the publisher's file comes first
    assert "dataset_TSMC2014_NYC.txt, gowalla" in exp1.describe_run(Setting(data=tmp_path))


def test_experiments_use_the_public_face_alone():
    """No underscore name of the package is imported, and none is read from an object that is not the reader's own."""
    for path in (Path(__file__).parents[2] / "experiments").rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("cutline"):
                parts = [*node.module.split("."), *(alias.name for alias in node.names)]
                assert not any(part.startswith("_") for part in parts), (path.name, parts)
                assert parts[1:2] not in (["cli"], ["verify"], ["ledger"]), (path.name, parts)
            if isinstance(node, ast.Attribute) and node.attr.startswith("_") and not node.attr.startswith("__"):
                assert isinstance(node.value, ast.Name), (path.name, node.attr)
                assert node.value.id in ("self", "cls"), (path.name, node.attr)
