"""Numbers the README quotes from the pages of the experiments; tests/verify holds those of the exhaustive check."""

import csv
import re
from pathlib import Path


def quoted_and_measured(pattern, table):
    """The README's figures that a pattern captures, and the rows of the table they were taken from."""
    root = Path(__file__).parents[1]
    quoted = re.search(pattern, " ".join((root / "README.md").read_text(encoding="utf-8").split()))
    assert quoted
    with (root / "docs/reproduce" / table).open(encoding="utf-8") as file:
        return quoted, list(csv.DictReader(file))


def test_what_is_quoted_of_exp3_is_what_its_page_measured():
    pattern = r"a rigorous epsilon of ([\d.]+) \(([\d.]+) with `accounting=\"adaptive\"`, ([\d.]+) with ballots limited"
    quoted, rows = quoted_and_measured(pattern, "exp3-needed.csv")
    needed = {row["aggregator"]: row["CelebA attributes REPLACE"] for row in rows}
    assert (quoted[1], quoted[3]) == (needed["OptimalVote"].split()[0], needed["OptimalVote, limited"].split()[0])
    _, plans = quoted_and_measured(pattern, "exp3-planned.csv")
    [planned] = [float(row["epsilon"]) for row in plans if row["accounting"] == "adaptive"]
    assert quoted[2] == f"{planned:.2f}"
    assert planned <= 2.9


def test_what_is_quoted_of_long_tails_is_what_its_page_measured():
    pattern = r"the default stays within ([\d.]+) of the best mechanism in the mean over five logs, and above Gaussian"
    quoted, rows = quoted_and_measured(pattern, "long-tail-behind.csv")
    farthest = max(float(row["behind"]) for row in rows)
    assert float(quoted[1]) - 0.001 < farthest <= float(quoted[1])
    thresholds = [row for row in rows if row["best threshold"]]
    assert len(thresholds) == 12
    assert all(float(row["default's share"]) > float(row["best threshold"]) for row in thresholds)


def test_what_is_quoted_of_exp2_is_what_its_page_measured():
    pattern = r"cumulative cases\]\(docs/reproduce/exp2-covid-cumulative.md\) it stays within ([\d.]+) of the best"
    quoted, rows = quoted_and_measured(pattern, "exp2-covid-cumulative-plan.csv")
    assert max(float(row["below the best"]) for row in rows) <= float(quoted[1])
    _, plain = quoted_and_measured(pattern, "exp2-covid-plan.csv")
    assert {row["choice"] for row in plain} == {row["best"] for row in plain} == {"peeling EM"}


def test_what_is_quoted_of_exp1_is_what_its_page_measured():
    pattern = r"`test-first` finds up to ([\d.]+) more .* and nowhere loses more than ([\d.]+)\."
    quoted, rows = quoted_and_measured(pattern, "exp1-found.csv")
    ahead = [float(row["test-first"]) - max(float(row["Limited Domain"]), float(row["Top Stable"])) for row in rows]
    assert len(ahead) == 45
    assert f"{max(ahead):.2f}" == quoted[1]
    assert min(ahead) > -0.02
    assert quoted[2] == "0.02"
