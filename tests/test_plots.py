import io
import subprocess
import sys
import xml.etree.ElementTree as ET
from dataclasses import replace

import pyarrow as pa
import pytest
from rich.console import Console

import cutline
from cutline.cli.text_figure import print_figure
from cutline.fonts import families, lacks_letters, legible
from cutline.gap_curve import gap_chance
from cutline.mechanisms.one_gap import one_gap
from cutline.outcome import Outcome
from cutline.plots import plot_demo, plot_release, plot_table, spells_letters
from cutline.sampling import SeededSource

CLIFF = {"castle": 900, "harbour $5$": 880, "museum\x1b": 870, "kiosk": 12, "garage": 11}


def release_of(visits, **options):
    return cutline.top(visits, max_k=20, rng=SeededSource(0), **options)


def texts(path):
    return "\n".join(element.text or "" for element in ET.parse(path).iter() if element.tag.endswith("text"))


def test_a_release_shows_the_set_its_cut_and_its_public_curve(tmp_path):
    path = tmp_path / "release.svg"
    plot_release(release_of(CLIFF), path)
    drawn = texts(path)
    for name in ("castle", "harbour $5$", "museum?", "The top 3", "-DP for one user joining or leaving"):
        assert name in drawn
    for private in ("kiosk", "garage", "900", "880", "870"):
        assert private not in drawn
    assert drawn.count("90 % at a gap of") == 1
    assert "the top ends here: k = 3 was found" in drawn
    assert "paper" not in drawn


@pytest.mark.parametrize("options", [{"test": "gaussian"}, {"choose": "argmax"}, {"target": 3, "weight": 1.0}])
def test_the_curve_is_that_of_the_mechanism_that_ran(options):
    release = release_of(CLIFF, **options)
    ready = cutline.quote(max_k=20, **options).work.mechanism
    cut = options.get("target", 1)
    assert gap_chance(release).needed == one_gap(ready.chance, max_k=20, k=cut)


def test_what_the_budget_alone_did_not_build_has_no_curve():
    release = release_of(CLIFF, choose="em")
    assert gap_chance(release) is not None
    assert gap_chance(replace(release, cost=2 * release.cost)) is None
    hinted = {**release.mechanism, "name": "hinted-top-k", "hint": 3, "hint_from": "ledger"}
    assert gap_chance(replace(release, mechanism=hinted)) is None


def test_a_withheld_release_says_so(tmp_path):
    path = tmp_path / "withheld.svg"
    release = release_of({f"item {i}": 500 for i in range(60)}, test="paper", adjacency="replace")
    assert not release.released
    plot_release(release, path)
    drawn = texts(path)
    assert f"Withheld at k = {release.k}" in drawn
    assert "No item is shown" in " ".join(drawn.split())
    assert "item 1" not in drawn


def test_without_a_budget_there_are_no_curves(tmp_path):
    path = tmp_path / "release.svg"
    plot_release(replace(release_of(CLIFF, test="paper"), budget=None), path)
    assert "castle" in texts(path)
    assert "90 %" not in texts(path)


def test_long_sets_are_cut_and_noisy_counts_are_shown(tmp_path):
    path = tmp_path / "release.svg"
    items = frozenset(f"item {i:03}" for i in range(100))
    release = replace(
        release_of(CLIFF, test="paper"),
        outcome=Outcome(items=items, k=100),
        counts=dict.fromkeys(items, 4321),
    )
    plot_release(release, path)
    assert "item 000" in texts(path)
    assert "item 040" not in texts(path)
    assert "… and 60 more" in texts(path)


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
    assert gap_chance(release).chances[-1] > 0.9


SCRIPTS = ["castle", "東京タワー", "寿司 🍣", "नमस्ते", "שלום", "Ærø", "👨‍👩‍👧", "$5$"]


@pytest.mark.parametrize("counts", [True, False])
def test_names_of_any_script_are_drawn_without_boxes_or_warnings(tmp_path, counts):
    """All warnings are errors here. A PNG file spells out what no installed font has; an SVG file holds the names as text."""
    options = (
        {"counts": counts, "test": "paper"} if not counts else {"counts": True, "choose": "em", "test": "gaussian"}
    )
    release = release_of(dict.fromkeys(SCRIPTS, 900), **options)
    assert release.released
    plot_release(release, tmp_path / "scripts.png")
    plot_release(release, tmp_path / "scripts.svg")
    drawn = texts(tmp_path / "scripts.svg")
    assert all(name in drawn for name in SCRIPTS if name.isprintable())


def test_letters_that_no_font_has_are_spelled_out():
    fonts = families(SCRIPTS)
    assert fonts[0] == "DejaVu Sans"
    assert not any(name.startswith("Last Resort") for name in fonts)  # it has a box for every letter
    written = legible("".join(SCRIPTS) + "\U0010fffd", fonts)
    assert written.endswith("\\U0010fffd")
    assert legible(written, fonts) == written


def test_letters_are_those_of_the_font_that_draws_and_nothing_is_told_of_fonts(tmp_path, monkeypatch, caplog):
    """A family has other files with fewer letters, and many have no bold ones, which matplotlib tells on standard error."""
    for name in ("مقهى", "می\u200cروم"):
        assert legible(name, families([name])) == name
    assert not lacks_letters(["castle", "مقهى"])
    monkeypatch.setattr("cutline.plots.families", lambda _: ["DejaVu Sans", "cmr10"])  # which has no bold letters
    release = release_of(CLIFF)
    plot_release(release, tmp_path / "figure.png")
    assert [record.getMessage() for record in caplog.records] == []
    assert not spells_letters(release)
    monkeypatch.setattr("cutline.fonts._installed", lambda: ())
    assert spells_letters(replace(release, outcome=Outcome(items=frozenset({"東京"}), k=1)))


def test_bars_show_the_error_of_counts(tmp_path):
    path = tmp_path / "counts.svg"
    plot_release(release_of(CLIFF, counts=True, choose="em", test="gaussian"), path)
    drawn = texts(path)
    for name in ("castle", "users, noisy; the lines cover the true count 95 times in 100", "k = 3 was found"):
        assert name in drawn
    assert "900" not in drawn.split("\n")


def table_of(**options):
    rows = [(n, day, item) for n in range(500) for day in ("mon", "水") for item in ("castle", "東京")]
    log = pa.table(dict(zip("udi", zip(*rows, strict=True), strict=True)))
    columns = {"user": "u", "item": "i", "by": "d", "groups": ["mon", "水", "fri"]}
    return cutline.top_by(log, **columns, max_k=5, epsilon=4.0, rng=SeededSource(0), **options)


@pytest.mark.parametrize("counts", [True, False])
def test_a_table_is_a_grid(tmp_path, counts):
    table = table_of(counts=counts)
    plot_table(table, tmp_path / "grid.png")
    plot_table(table, tmp_path / "grid.svg")
    drawn = texts(tmp_path / "grid.svg")
    assert "The top by d: 2 of 3 groups released" in drawn
    assert ("users, noisy; the lines cover the true count 95 times in 100" in drawn) == counts
    assert all(name in drawn for name in ("mon", "水", "fri", "withheld", "castle", "東京"))


def test_the_same_figure_in_a_terminal():
    def shown(answer):
        console = Console(file=io.StringIO(), width=80, markup=False, emoji=False, highlight=False)
        print_figure(console, answer)
        return console.file.getvalue()

    counted = shown(release_of(CLIFF, counts=True, choose="em", test="gaussian"))
    bars = [line for line in counted.splitlines() if "│█" in line]
    assert len(bars) == 3
    assert all("░" in bar and " ± " in bar and len(bar) <= 80 for bar in bars)
    assert "the top ends here: k = 3 was found" in counted
    plain = shown(release_of(CLIFF))
    assert "• castle" in plain
    assert "90 % at a gap of" in plain
    assert max(map(len, plain.splitlines())) <= 80
    assert "museum\\x1b" in plain  # shown, not obeyed
    table = shown(table_of())
    assert next(line for line in table.splitlines() if not line.startswith(" ")) == "mon"
    assert "(withheld)" in table
