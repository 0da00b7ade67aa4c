"""Answers in notebooks and tables: HTML that is escaped, three lines of text, Arrow, pandas and a picture."""

import html.parser
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

import cutline
from cutline.grouped import GroupedRelease
from cutline.ledger import Ledger
from cutline.privacy import Budget
from cutline.sampling import SeededSource

ODD = "<b>castle</b> & \x1b[31m"
VISITS = {ODD: 900, "harbour": 880, "museum": 870, "kiosk": 12}


class Checked(html.parser.HTMLParser):
    """Refuses tags that are not closed in order, and any that is not one of a table's."""

    def __init__(self, text):
        super().__init__()
        self.open, self.seen = [], []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        assert tag in {"h4", "p", "table", "thead", "tbody", "tr", "th", "td"}
        self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.seen.append(data)


@pytest.fixture(scope="module")
def release():
    return cutline.top(VISITS, max_k=10, counts=True, choose="em", test="gaussian", rng=SeededSource(0))


@pytest.fixture(scope="module")
def table():
    rows = [(n, day, item) for n in range(500) for day in ("mon", "tue") for item in ("castle", ODD)]
    log = pa.table(dict(zip("udi", zip(*rows, strict=True), strict=True)))
    columns = {"user": "u", "item": "i", "by": "d", "groups": ["mon", "tue", "fri"]}
    return cutline.top_by(log, **columns, max_k=5, epsilon=4.0, rng=SeededSource(0))


def test_a_release_is_a_small_table_with_everything_escaped(release):
    seen = Checked(release._repr_html_()).seen
    assert "<b>castle</b> & \\x1b[31m" in seen
    assert f"{release.counts['harbour']:,} ± {release.count_error.half_width}" in seen
    assert release.guarantee in seen
    assert "released" in seen


def test_a_count_below_zero_says_what_it_means_wherever_it_is_shown(release):
    below = replace(release, counts=dict.fromkeys(release.counts, -7))
    width = release.count_error.half_width
    words = f"at most {width - 7} (-7 ± {width})"
    assert Checked(below._repr_html_()).seen.count(words) == len(release.counts)
    assert words in str(below)
    table = GroupedRelease(
        by="day", releases={"mon": below}, groups_per_user=1, budget=release.budget, reserved=release.cost
    )
    assert any(f"harbour ({words})" in cell for cell in Checked(table._repr_html_()).seen)


def test_a_table_of_groups_quotes_plans_accounts_and_labels_show_themselves(table, tmp_path):
    assert {"mon", "tue", "fri", "withheld"} <= set(Checked(table._repr_html_()).seen)
    asked = cutline.quote(k=3, max_k=20)
    assert asked.guarantee in Checked(asked._repr_html_()).seen
    plan = cutline.plan(Budget(epsilon=1.0, delta=1e-6), max_k=5, domain="closed", k=1)
    assert plan.recommended.mechanism in Checked(plan._repr_html_()).seen
    tried = cutline.plan(
        Budget(epsilon=1.0, delta=1e-6), max_k=5, prior=VISITS, mechanism="joint-stable", epsilons=(0.01, 1.0)
    )
    seen = Checked(tried._repr_html_()).seen
    assert seen[seen.index("0.01") :][:5] == ["0.01", "1", "prior", "joint-stable", "0.00 (0.0)"]
    assert seen[seen.index("0.00 (0.0)") + 1] == "1.00 (3.0)"
    with Ledger(tmp_path / "books.db") as books:
        books.create("<i>visits</i>", budget=Budget(epsilon=1.0, delta=1e-6, releases=4), owner="ann")
        account = books.show("<i>visits</i>")
    assert {"<i>visits</i>", "ann", account.guarantee} <= set(Checked(account._repr_html_()).seen)
    labels = cutline.label(np.tile(np.int8([1, 0]), (60, 2, 1)), epsilon=8.0, rng=SeededSource(0))
    assert labels.guarantee in Checked(labels._repr_html_()).seen


def test_print_is_three_lines(release, table):
    for answer in (release, table, cutline.top({}, max_k=5, rng=SeededSource(0))):
        names, status, guarantee = str(answer).split("\n")
        assert len(names) <= 100
        assert status.startswith(str(answer.status))
        assert guarantee == answer.guarantee
    assert "\x1b" not in str(release)
    listed = [f"{name} ({release.count_error.in_words(n)})" for name, n in release.counts.items() if name != ODD]
    assert str(release).startswith("<b>castle</b> & \\x1b[31m (")
    assert listed[0] in str(release)
    assert "to find more: --k 10" in str(cutline.top({}, rng=SeededSource(0)))


def test_arrow_and_pandas_have_one_row_an_item(release, table):
    counted = release.to_arrow()
    assert counted.column_names == ["item", "count", "low", "high"]
    assert counted.column("item").to_pylist() == release.listed()
    low, high = counted.column("low")[1].as_py(), counted.column("high")[1].as_py()
    assert (low, high) == release.count_error.interval(release.counts["harbour"])
    frame = table.to_pandas()
    assert list(frame.columns) == ["d", "status", "item"]
    assert frame[frame["d"] == "fri"]["status"].tolist() == ["withheld"]
    assert frame["item"].isna().sum() == 1
    assert len(frame) == 5
    assert cutline.top({}, max_k=5, rng=SeededSource(0)).to_arrow().num_rows == 0
    mixed = cutline.top({1: 900, "a": 900}, max_k=5, rng=SeededSource(0))
    assert mixed.to_arrow().column("item").to_pylist() == ["1", "a"]


def test_a_picture_is_shown_and_saved(release, table, tmp_path):
    for answer in (release, table):
        picture = answer.plot()
        assert picture._repr_png_().startswith(b"\x89PNG")
        picture.save(tmp_path / "picture.png")
        assert (tmp_path / "picture.png").read_bytes() == picture.png
        assert len(repr(picture)) < 100
