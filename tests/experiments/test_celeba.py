"""A folder of faces ends in a student, though the run is killed in the middle of a ballot."""

import json
import os
import pickle
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from cutline.errors import SourceError
from experiments.celeba.__main__ import main
from experiments.celeba.ballots import begin, write_private
from experiments.celeba.folder import ATTRIBUTES, IDENTITIES, PICTURES, read_folder
from experiments.celeba.generated import write_faces

ROOT = Path(__file__).parents[2]
SETTINGS = [
    "--teachers",
    "20",
    "--queries",
    "40",
    "--size",
    "24",
    "--epochs",
    "10",
    "--epsilon",
    "40",
    "--noise-seed",
    "0",
]
# The 8th file is synced to disk when the plan and six ballots are written: the process dies with half a seventh.
KILLED = """
import os, signal, sys
from experiments.celeba.__main__ import main
sync, synced = os.fsync, []
def kill(file):
    synced.append(file)
    os.kill(os.getpid(), signal.SIGKILL) if len(synced) == 8 else sync(file)
os.fsync = kill
main(sys.argv[1:])
"""


@pytest.fixture(scope="module")
def faces(tmp_path_factory):
    folder = tmp_path_factory.mktemp("celeba") / "CelebA"
    write_faces(folder, train=300, validation=40, test=60)
    return folder


@pytest.fixture(autouse=True)
def _one_thread():
    """The student may use all threads: on a busy computer they wait for each other."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.mark.slow
def test_a_run_that_was_killed_goes_on_and_ends_in_a_student(faces, tmp_path, capsys):
    work = tmp_path / "run"
    command = ["--images", str(faces), "--work", str(work), *SETTINGS]
    paths = os.pathsep.join([str(ROOT), *sys.path])
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, *command],
        env=os.environ | {"PYTHONPATH": paths, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    before = {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in work.glob("ballot-*")}
    assert sorted(before) == [f"ballot-{teacher:04}.npz" for teacher in range(6)]
    assert len(list(work.glob(".*.part"))) == 1

    assert main(command) == 0
    result = json.loads(capsys.readouterr().out)
    assert {name: (work / name).read_bytes() for name in before} == {name: old for name, (old, _) in before.items()}
    assert {name: (work / name).stat().st_mtime_ns for name in before} == {
        name: old for name, (_, old) in before.items()
    }
    assert len(list(work.glob("ballot-*"))) == 20
    assert not list(work.glob(".*.part"))
    assert {path.stat().st_mode & 0o777 for path in work.iterdir()} == {0o600}
    assert work.stat().st_mode & 0o777 == 0o700
    assert (result["teachers"], result["queries"], result["protects"]) == (20, 40, "pictures")
    assert result["student"]["balanced accuracy"] > 0.6
    assert result["always no"]["balanced accuracy"] == 0.5
    student = pickle.loads((work / "student.pickle").read_bytes())
    assert student.predict(np.zeros((2, 3, 24, 24), dtype=np.uint8)).shape == (2, 6)

    labels = (work / "labels.npz").read_bytes()
    assert main(command) == 0
    assert json.loads(capsys.readouterr().out) == result
    assert main([*command, "--epsilon", "1"]) == 1  # drawn again, labels would be paid again
    assert "epsilon=1.0, begun with 40.0" in capsys.readouterr().err
    assert (work / "labels.npz").read_bytes() == labels


def test_what_another_computer_has_written_stays(tmp_path):
    """Two keys would split the records twice, and two draws of labels would be two releases; drafts of others are let alone."""
    other, stale = tmp_path / ".ballot-0001.npz.ab.part", tmp_path / ".labels.npz.cd.part"
    other.touch(), stale.touch()
    for text in (b"first", b"second"):
        write_private(tmp_path / "labels.npz", lambda file, text=text: file.write(text))
        assert (tmp_path / "labels.npz").read_bytes() == b"first"
    assert sorted(tmp_path.iterdir()) == [other, tmp_path / "labels.npz"]
    settings = {"folder": "f", "teachers": 2, "queries": 1, "size": 8, "epochs": 1, "seed": 0, "epsilon": 1.0}
    settings |= {"delta": 1e-6, "limit": None, "quorum": None}
    assert begin(tmp_path / "run", **settings).key == begin(tmp_path / "run", **settings).key


def test_a_part_waits_for_the_others(faces, tmp_path, capsys):
    command = [
        "--images",
        str(faces),
        "--work",
        str(tmp_path / "run"),
        "--teachers",
        "4",
        "--queries",
        "5",
        "--size",
        "8",
    ]
    assert main([*command, "--epochs", "1", "--part", "2/2"]) == 3
    assert sorted(path.name for path in (tmp_path / "run").glob("ballot-*")) == ["ballot-0001.npz", "ballot-0003.npz"]
    assert "other parts" in capsys.readouterr().err


def test_the_layout_is_read_line_by_line(tmp_path):
    folder = tmp_path / "CelebA"
    with pytest.raises(SourceError, match=PICTURES):
        read_folder(folder)
    write_faces(folder, train=4, validation=2, test=1)
    faces = read_folder(folder)
    assert (len(faces.names), faces.split.tolist(), faces.persons) == (7, [0, 0, 0, 0, 1, 1, 2], False)
    assert faces.attributes[0] == "Blond_Hair"
    (folder / PICTURES / "000002.jpg").write_bytes(b"no picture")
    pictures, kept = faces.read(faces.places("train"), size=16)
    assert (pictures.shape, pictures.dtype, kept.tolist()) == ((3, 3, 16, 16), np.uint8, [0, 2, 3])
    lines = (folder / ATTRIBUTES).read_text().splitlines()
    (folder / ATTRIBUTES).write_text("\n".join([*lines[:2], "000001.jpg 1 -1", *lines[3:], "../x.jpg 1 1 1 1 1 1"]))
    assert read_folder(folder).names == faces.names[1:]
    (folder / IDENTITIES).write_text("".join(f"{name} {number // 2}\n" for number, name in enumerate(faces.names)))
    assert read_folder(folder).ids == ("0", "1", "1", "2", "2", "3")
    (folder / ATTRIBUTES).unlink()
    with pytest.raises(SourceError, match=ATTRIBUTES):
        read_folder(folder)
