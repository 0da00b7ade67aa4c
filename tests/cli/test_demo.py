import json
import tempfile

import pytest

from cutline.demo import LANDMARKS


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def left_in(folder):
    """All but the empty, per-user root that the engine keeps for spilled rows."""
    return [path for path in folder.rglob("*") if path.is_file() and path.stat().st_size]


def test_the_demo_finds_the_cliff_and_leaves_nothing(run, temporary, tmp_path):
    figure = tmp_path / "demo.png"
    result = run("demo", "--plot", figure)
    assert result.exit_code == 0
    assert "exactly the true top 12" in result.stdout
    assert "k = 12, where the largest gap is" in result.stdout
    assert "(1, 1e-06)-DP" in result.stdout
    assert "simulation" not in result.stdout
    assert result.stderr == f"Figure written to {figure}\n"
    assert figure.read_bytes().startswith(b"\x89PNG")
    assert left_in(temporary) == []


def test_json(run, temporary):
    plain = json.loads(run("demo", "--json").stdout)
    assert plain["items"] == plain["true_items"] == list(LANDMARKS)
    assert (plain["k"], plain["true_k"], plain["seeded"]) == (12, 12, False)
    assert plain["one_gap"] < plain["one_gap_paper"] == 57
    assert left_in(temporary) == []


def test_a_seed_repeats_and_says_so(run, temporary):
    first, second = (run("demo", "--seed", 5).stdout for _ in range(2))
    assert first == second
    assert "a simulation, not a release" in " ".join(first.split())


def test_a_figure_that_cannot_be_written_is_refused_first(run, temporary):
    result = run("demo", "--plot", "demo.gif")
    assert (result.exit_code, result.stdout) == (1, "")
    assert left_in(temporary) == []
