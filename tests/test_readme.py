"""Numbers the README quotes about the exhaustive check."""

import csv
import re
from pathlib import Path

from cutline.verify.all_suites import checks


def test_the_size_of_the_exhaustive_check_is_the_one_quoted():
    text = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
    quoted = re.search(r"(\d+) checks, ([\d,]+) ordered pairs, no violation, and (\d+) deliberately broken", text)
    assert quoted
    listed = checks()
    pairs: dict = {}  # the size of a universe does not depend on how many counts are looked at
    total = 0
    for check in listed:
        wanted = {key: value for key, value in check.universe.keywords.items() if key != "max_k"}
        key = (check.universe.func, *sorted(wanted.items()))
        if key not in pairs:
            pairs[key] = len(check.universe().pairs[0])
        total += pairs[key]
    broken = sum(check.expected == "fails" for check in listed)
    assert (len(listed), total, broken) == tuple(int(n.replace(",", "")) for n in quoted.groups())


def quoted_and_measured(pattern, table):
    """The README's figures that a pattern captures, and the rows of the table they were taken from."""
    root = Path(__file__).parents[1]
    quoted = re.search(pattern, " ".join((root / "README.md").read_text(encoding="utf-8").split()))
    assert quoted
    with (root / "docs/reproduce" / table).open(encoding="utf-8") as file:
        return quoted, list(csv.DictReader(file))


def test_what_is_quoted_of_exp3_is_what_its_page_measured():
    pattern = r"a rigorous epsilon of ([\d.]+) \(([\d.]+) with ballots limited"
    quoted, rows = quoted_and_measured(pattern, "exp3-needed.csv")
    needed = {row["aggregator"]: row["CelebA attributes REPLACE"] for row in rows}
    assert quoted.groups() == (needed["OptimalVote"].split()[0], needed["OptimalVote, limited"].split()[0])


def test_what_is_quoted_of_exp1_is_what_its_page_measured():
    pattern = r"`test-first` finds up to ([\d.]+) more .* and nowhere loses more than ([\d.]+)\."
    quoted, rows = quoted_and_measured(pattern, "exp1-found.csv")
    ahead = [float(row["test-first"]) - max(float(row["Limited Domain"]), float(row["Top Stable"])) for row in rows]
    assert len(ahead) == 45
    assert f"{max(ahead):.2f}" == quoted[1]
    assert min(ahead) > -0.02
    assert quoted[2] == "0.02"
