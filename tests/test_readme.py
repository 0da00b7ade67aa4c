"""Numbers the README quotes about the exhaustive check."""

import re
from pathlib import Path

from cutline.checks import checks


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
