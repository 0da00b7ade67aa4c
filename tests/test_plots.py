import subprocess
import sys
import xml.etree.ElementTree as ET

import pytest

import cutline
from cutline import plots
from cutline.outcome import Outcome
from cutline.plots import plot_demo, plot_release
from cutline.sampling import SeededSource

CLIFF = {"castle": 900, "harbour $5$": 880, "museum\x1b": 870, "kiosk": 12, "garage": 11}


def release_of(counts, **options):
    return cutline.top(counts, max_k=20, rng=SeededSource(0), **options)


def texts(path):
    return "\n".join(element.text or "" for element in ET.parse(path).iter() if element.tag.endswith("text"))


def test_a_release_shows_the_set_and_both_public_curves(tmp_path):
    path = tmp_path / "release.svg"
    plot_release(release_of(CLIFF), path)
    drawn = texts(path)
    for name in ("castle", "harbour $5$", "museum?", "The top 3", "-DP for one user joining or leaving"):
        assert name in drawn
    for private in ("kiosk", "garage", "900", "880", "870"):
        assert private not in drawn
    assert drawn.count("90 % at a gap of") == 2


@pytest.mark.parametrize(
    ("options", "curves"),
    [({"test": "paper"}, 1), ({"test": "gaussian"}, 2), ({"choose": "argmax"}, 2), ({"target": 3, "weight": 1.0}, 2)],
)
def test_curves_are_those_of_the_mechanism_that_ran(tmp_path, options, curves):
    path = tmp_path / "release.svg"
    plot_release(release_of(CLIFF, **options), path)
    assert texts(path).count("90 % at a gap of") == curves


def test_a_withheld_release_says_so(tmp_path):
    path = tmp_path / "withheld.svg"
    release = release_of({f"item {i}": 500 for i in range(60)}, test="paper", adjacency="replace")
    assert not release.released
    plot_release(release, path)
    drawn = texts(path)
    assert f"Withheld at k = {release.k}" in drawn
    assert "no item is shown" in drawn
    assert "item 1" not in drawn


def test_without_a_budget_there_are_no_curves(tmp_path):
    from dataclasses import replace

    path = tmp_path / "release.svg"
    plot_release(replace(release_of(CLIFF, test="paper"), budget=None), path)
    assert "castle" in texts(path)
    assert "90 %" not in texts(path)


def test_long_sets_are_cut_and_noisy_counts_are_shown(tmp_path):
    from dataclasses import replace

    path = tmp_path / "release.svg"
    items = frozenset(f"item {i:03}" for i in range(100))
    release = replace(
        release_of(CLIFF, test="paper"),
        outcome=Outcome(items=items, k=100),
        counts=dict.fromkeys(items, 4321),
    )
    plot_release(release, path)
    assert "item 000: 4,321" in texts(path)
    assert "… and 61 more" in texts(path)


@pytest.mark.parametrize(("name", "magic"), [("demo.png", b"\x89PNG"), ("demo.svg", b"<?xml"), ("D.PNG", b"\x89PNG")])
def test_the_demo_figure_in_both_formats(tmp_path, name, magic):
    plot_demo(cutline.count(CLIFF, max_k=20), release_of(CLIFF, test="paper"), tmp_path / name)
    assert (tmp_path / name).read_bytes().startswith(magic)


def test_the_demo_figure_marks_the_gap(tmp_path):
    path = tmp_path / "demo.svg"
    plot_demo(cutline.count(CLIFF, max_k=20), release_of(CLIFF, test="paper"), path)
    assert "gap at k = 3: 858 users" in texts(path)


def test_other_formats_are_refused(tmp_path):
    with pytest.raises(cutline.CutlineError, match=r"\.png or \.svg"):
        plot_release(release_of(CLIFF, test="paper"), tmp_path / "release.pdf")


def test_plotting_leaves_pyplot_alone(tmp_path):
    code = f"""
import sys, cutline
from cutline.plots import plot_release
assert "matplotlib" not in sys.modules
plot_release(cutline.top({{"a": 900, "b": 1}}, max_k=5, test="paper"), {str(tmp_path / "r.png")!r})
assert "matplotlib" in sys.modules and "matplotlib.pyplot" not in sys.modules
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize(("name", "k"), [("limited-domain", 3), ("test-first", 3), ("top-stable", 3)])
def test_mechanisms_that_are_told_k_have_their_curve_too(name, k):
    from cutline.mechanisms import mechanism

    ready = mechanism(name).calibrate(cutline.Budget(epsilon=1.0, delta=1e-6), k=k, max_k=20)
    release = ready.release(cutline.OpenHistogram.from_counts({"a": 900, "b": 800, "c": 700}, max_k=20))
    own, paper = plots._gap_chances(release)
    assert own.chances[-1] > 0.9
    assert paper.name == "the paper's mechanism"
