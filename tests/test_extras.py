"""What the core does without its extras: all but figures, the estimator and the service, which say what to install."""

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest

from cutline.demo import write_checkins

ROOT = Path(__file__).parents[1]

# Read by every Python that starts with this file's folder in its path, worker processes included.
REFUSE_EXTRAS = """
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {
            "matplotlib", "sklearn", "joblib", "threadpoolctl", "opendp", "psycopg", "fastapi", "starlette", "uvicorn",
            "jinja2", "argon2", "cryptography", "joserfc", "prometheus_client", "python_multipart",
        }:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Absent())
"""

IMPORT_ALL = """
import pkgutil, cutline
for module in pkgutil.walk_packages(cutline.__path__, "cutline."):
    needs_more = (
        "cutline.pate.classifier", "cutline.pate.surest", "cutline.interop.torch_classifier", "cutline.cli.__main__"
    )
    if module.name not in needs_more and not module.name.startswith("cutline.service."):
        __import__(module.name)
"""

# Runs every command by the program's own door, one after another, and says how each ended and how much it printed.
RUN_ALL = """
import contextlib, io, json, sys
from cutline.cli import main

ends = []
for command in json.loads(sys.argv[1]):
    sys.argv[1:] = command
    with contextlib.redirect_stdout(io.StringIO()) as told:
        try:
            main()
            code = 0
        except SystemExit as ended:
            code = ended.code or 0
    ends.append((code, len(told.getvalue())))
print(json.dumps(ends))
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("core")
    (path / "sitecustomize.py").write_text(REFUSE_EXTRAS)
    write_checkins(path / "checkins.parquet")
    votes = np.tile([[98, 3], [2, 97]], (5, 1))
    np.savez(path / "ballots.npz", ballots=(np.arange(100)[:, None, None] < votes).astype(np.int8))
    return path


@pytest.fixture
def python(folder):
    """Run Python in the folder, where no extra can be imported."""
    path = os.pathsep.join([str(folder), *filter(None, sys.path)])

    def run(*args):
        return subprocess.run(
            [sys.executable, *args],
            capture_output=True,
            text=True,
            check=False,
            cwd=folder,
            env=os.environ | {"PYTHONPATH": path},
        )

    return run


TOP = ["top", "checkins.parquet", "--user", "user_id", "--item", "venue"]
BOOKS = ["--ledger", "books.db", "--dataset", "visits"]
INIT = ["ledger", "init", *BOOKS, "--epsilon", "10", "--releases", "10", "--owner", "ann"]


def test_every_command_works_without_extras(python, folder):
    commands = [
        ["demo"],
        TOP,
        ["plan", "--max-k", "50"],
        ["cost"],
        ["mechanisms"],
        INIT,
        [*TOP, *BOOKS],
        ["ledger", "show", *BOOKS],
        ["label", "ballots.npz", "--epsilon", "40", "--out", "labels.npz"],
        ["plan-labels", "--records", "900", "--labels", "2", "--teachers", "20"],
        ["verify", "--mechanism", "top-stable"],
    ]
    done = python("-c", RUN_ALL, json.dumps(commands))
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    assert [code for code, _ in told] == [0] * len(commands), (told, done.stderr)
    assert all(length > 0 for _, length in told)
    (folder / "books.db").unlink()


def test_every_module_but_the_estimators_and_the_service_is_imported_without_extras(python):
    done = python("-c", IMPORT_ALL)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_figure_is_refused_before_anything_is_counted_or_paid(python, folder):
    assert python("-m", "cutline.cli", *INIT).returncode == 0
    for command in (["demo"], [*TOP, *BOOKS], ["ledger", "show", *BOOKS]):
        done = python("-m", "cutline.cli", *command, "--plot", "figure.png")
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr == (
            "cutline: a figure needs a package that is not installed; got no module matplotlib. "
            "Install it with pip install 'cutline[plots]'.\n"
        )
        assert not (folder / "figure.png").exists()
    history = python("-m", "cutline.cli", "ledger", "history", *BOOKS, "--json")
    assert json.loads(history.stdout)["entries"] == []
    (folder / "books.db").unlink()


@pytest.mark.parametrize(
    ("code", "extra"),
    [
        ("import cutline; cutline.PATEClassifier", "pate"),
        ("from cutline.pate.classifier import PATEClassifier", "pate"),
        ("from cutline.interop.torch_classifier import TorchClassifier", "pate"),
        ("from cutline.pate.surest import SurestLabels", "pate"),
        ("import cutline; cutline.plan_labels(records=900, labels=1, examples=([[0.0]] * 40, [0] * 40))", "pate"),
        (
            "import pathlib; from cutline.service.certificates import create_key; create_key(pathlib.Path('key'))",
            "service",
        ),
        ("from cutline import Ledger; Ledger('postgresql://localhost/books').show('visits')", "postgresql"),
        (
            "from cutline.interop import opendp_measurement as o; o.stable_top_k_measurement(None, candidates=3)",
            "opendp",
        ),
    ],
)
def test_a_use_that_needs_an_extra_names_it(python, code, extra):
    done = python("-c", code)
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert last.startswith("cutline.errors.MissingExtraError: ")
    assert last.endswith(f"Install it with pip install 'cutline[{extra}]'.")
    assert "During handling" not in done.stderr


def read_lock(name):
    lines = (ROOT / "requirements" / f"{name}.lock").read_text().splitlines()
    pins = [line for line in lines if not line.startswith("#")]
    assert all(re.fullmatch(r"[A-Za-z0-9_.-]+==[0-9.a-z]+", pin) for pin in pins)
    return {pin.partition("==")[0].lower().replace("_", "-") for pin in pins}


def test_the_locks_follow_the_extras():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    core, extras, development = map(read_lock, ("core", "extras", "dev"))
    assert {re.match(r"[\w-]+", requirement)[0] for requirement in project["dependencies"]} <= core
    assert {"matplotlib", "scikit-learn"} <= extras
    assert len(core | extras | development) == len(core) + len(extras) + len(development)
    optional = project["optional-dependencies"]
    assert optional["all"] == [f"cutline[{','.join(sorted(optional.keys() - {'all'}))}]"]
