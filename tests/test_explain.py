"""The page for reviewers: plain words that follow from the guarantee, one sheet, and nothing that a name could do."""

import json
import math
from html.parser import HTMLParser

import pytest

import cutline
from cutline.errors import CutlineError
from cutline.explain import explain, right_at_most
from cutline.mechanisms import mechanism
from cutline.privacy import Adjacency, Budget
from cutline.sampling import SeededSource

COUNTS = {"castle": 340, "harbour": 333, "museum": 329, "kiosk": 12}
HEADINGS = (
    "What was asked",
    "What went out",
    "What the guarantee means",
    "Who is protected, and who is not",
    "What could still be learned",
    "Who answers for the budget",
    "What has been spent",
    "How to check it",
)


@pytest.fixture(scope="module")
def release():
    return cutline.top(COUNTS, max_k=20)


def paragraphs(page, title):
    return " ".join(next(section.paragraphs for section in page.sections if section.title == title))


def test_the_bound_on_a_guess_is_the_one_of_the_definition():
    for epsilon, delta in ((0.0, 0.0), (0.1, 1e-6), (1.0, 0.01), (3.0, 0.0)):
        assert right_at_most(epsilon, delta) == pytest.approx((math.exp(epsilon) + delta) / (1 + math.exp(epsilon)))
    assert right_at_most(1e6, 1e-6) == 1.0
    # Randomized response meets it: told the truth with probability e^eps / (1 + e^eps), a guesser is right as often.
    assert right_at_most(math.log(3), 0.0) == pytest.approx(0.75)


def test_a_page_has_its_headed_sections_and_says_what_the_guarantee_means(release):
    page = release.explain()
    assert tuple(section.title for section in page.sections) == HEADINGS
    assert page.lead == release.guarantee
    meaning = paragraphs(page, "What the guarantee means")
    assert "Even odds become right at most 73.2 % of the time" in meaning  # never printed stronger than it is
    assert "whether a certain user is in the data" in meaning
    assert "epsilon 1 73 %" in meaning
    assert "castle; harbour; museum" in paragraphs(page, "What went out")
    protected = paragraphs(page, "Who is protected, and who is not")
    assert "rows under several ids" in protected
    assert "about two people together, even odds can become right 88.1 %" in protected
    assert "known anyway" in paragraphs(page, "What could still be learned")
    assert "without a ledger" in paragraphs(page, "Who answers for the budget")
    assert "epsilons add up" in paragraphs(page, "What has been spent")
    assert f"Cutline {cutline.__version__}" in paragraphs(page, "How to check it")
    for title in HEADINGS:
        assert title.upper() in page.text
        assert title in page.to_html()
    assert json.loads(json.dumps(page.to_dict()))["sections"].keys() == {*HEADINGS}
    assert max(map(len, page.text.splitlines())) <= 80


def test_of_several_releases_one_alone_is_told_apart(release):
    several = cutline.top(COUNTS, max_k=20, releases=50)
    meaning = paragraphs(several.explain(), "What the guarantee means")
    assert "all 50 releases of this kind together" in meaning
    epsilon, delta = several.alone
    assert epsilon == several.cost.epsilon(delta) < 0.5
    assert "This answer alone: 5" in meaning
    assert "This answer alone" not in paragraphs(release.explain(), "What the guarantee means")


def test_under_replace_a_page_speaks_of_contents_and_not_of_presence():
    page = cutline.top(COUNTS, max_k=20, adjacency="replace").explain()
    meaning, protected = (paragraphs(page, title) for title in HEADINGS[2:4])
    assert "which of two contents one certain record has" in meaning
    assert "in the data" not in meaning
    assert "That it exists is not hidden" in protected


def test_withheld_empty_and_simulated_answers_say_so():
    withheld = cutline.top({"a": 1}, max_k=20, rng=SeededSource(0)).explain()
    assert "Nothing: the set was withheld" in paragraphs(withheld, "What went out")
    assert withheld.lead.startswith("A SIMULATION, NOT A RELEASE.")
    assert 'class="mark"' in withheld.to_html()
    built = mechanism("limited-domain")(k=2, max_k=4, epsilon=0.5, delta=1e-7, adjacency=Adjacency.ADD_REMOVE)
    bare = built.release(cutline.OpenHistogram.from_counts({"a": 1}, max_k=4))  # no budget: the cost speaks
    assert "Even odds become right at most" in paragraphs(bare.explain(), "What the guarantee means")
    assert "An empty list" in paragraphs(bare.explain(), "What went out")


def test_what_went_out_is_named_with_its_counts_and_how_short_it_is(release):
    plain = release.to_dict()
    counted = plain | {"items": ["tea", "milk"], "counts": [1320, -7], "count_error": {"plus_minus": 30}}
    words = paragraphs(explain(counted), "What went out")
    assert words.startswith("2 items, without their order: tea (1,320); milk (below 0, by its noise).")
    assert "within 30 of the truth in 95 cases of 100" in words
    short = explain(plain | {"items": ["tea"], "k": 10, "status": "partial"})
    assert paragraphs(short, "What went out") == "1 item of the 10 that were asked for: tea."
    long = ["W" * 39 + str(n) for n in range(60)]
    names = paragraphs(explain(counted | {"items": long, "counts": [123_456] * 60}), "What went out")
    assert len(names) < 700
    assert "; and 51 more." in names
    groups = {f"{'G' * 39}{n}": {"items": long, "status": "released"} for n in range(30)}
    assert len(paragraphs(explain(plain | {"groups": groups, "by": "day"}), "What went out")) < 900


def test_tables_and_labels_have_a_page_too():
    import numpy as np
    import pyarrow

    log = pyarrow.table({"who": [*range(300)] * 2, "day": ["mon", "tue"] * 300, "what": ["tea"] * 600})
    table = cutline.top_by(log, user="who", item="what", by="day", groups=["mon", "sun"], max_k=5)
    assert "in each of 2 groups by day" in paragraphs(table.explain(), "What was asked")
    assert "1 of 2 hold items" in paragraphs(table.explain(), "What went out")
    assert "mon: tea. sun: withheld." in paragraphs(table.explain(), "What went out")
    labels = cutline.label(np.ones((40, 3, 2), dtype=int), epsilon=5.0, rng=SeededSource(0))
    page = labels.explain()
    assert "Labels for 3 queries" in paragraphs(page, "What was asked")
    assert "one certain record" in paragraphs(page, "What the guarantee means")


class Tags(HTMLParser):
    def __init__(self):
        super().__init__()
        self.seen, self.attributes, self.data = set(), set(), []

    def handle_starttag(self, tag, attrs):
        self.seen.add(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_data(self, data):
        self.data.append(data)


def test_names_out_of_the_data_are_shown_and_never_obeyed(release):
    evil = '"><script>alert(1)</script><img src=x onerror=alert(2)>`</p>'
    plain = release.to_dict() | {"items": [evil, "\x1b[31mred", "\u202egnp", "x" * 500, None, 7, *map(str, range(200))]}
    plain["ledger"] = {"dataset": evil, "owner": evil, "unit": evil, "budget": {"epsilon": 2.0, "delta": 1e-6}}
    plain["mechanism"] = plain["mechanism"] | {evil: evil}
    plain["version"] = evil
    page = explain(plain, entry={"question": {"item": evil, "where": evil}, "purpose": evil, "analyst": evil})
    tags = Tags()
    tags.feed(page.to_html())
    assert tags.seen == {
        *("html", "head", "meta", "title", "body", "main", "style", "article"),
        *("h1", "h2", "p", "span", "section", "code"),
    }
    assert tags.attributes == {"lang", "charset", "http-equiv", "content", "name", "class"}
    assert "<script>alert(1)</script>" in "".join(tags.data)
    for text in (page.text, page.to_html()):
        assert "\x1b" not in text
        assert "\u202e" not in text
        assert "http:" not in text
        assert "https:" not in text
    assert len(page.text) < 9_000  # one sheet, whatever the names
    assert "and 182 more" in page.text.replace("\n", " ")


@pytest.mark.parametrize("answer", [None, [], {}, {"guarantee": 3, "mechanism": {}}, "text"])
def test_what_is_no_answer_is_refused(answer):
    with pytest.raises(CutlineError, match="only an answer that Cutline wrote"):
        explain(answer)


@pytest.mark.parametrize(
    "change",
    [
        {"ledger": {"budget": {}}},
        {"ledger": {"budget": {"epsilon": "much", "delta": 0}}},
        {"ledger": {"used_percent": [1]}},
        {"groups": 3},
        {"count_error": "some"},
    ],
)
def test_an_answer_with_a_part_of_another_shape_is_refused(release, change):
    with pytest.raises(CutlineError, match="only an answer that Cutline wrote"):
        explain(release.to_dict() | change)


def test_a_guarantee_without_a_finite_epsilon_promises_nothing(release):
    page = explain(release.to_dict() | {"guarantee": "no finite epsilon"})
    assert "nothing is promised" in paragraphs(page, "What the guarantee means")


def test_the_account_as_the_answer_tells_it_is_marked_as_such(tmp_path):
    books = cutline.Ledger(tmp_path / "books.db")
    books.create("visits", budget=Budget(epsilon=2.0, delta=1e-6, releases=10), owner="ann", unit="user_id")
    page = cutline.top(COUNTS, max_k=20, ledger=books, dataset="visits").explain()
    spent = paragraphs(page, "What has been spent")
    assert "10.0 % of the account's budget" in spent
    assert "9 of 10 questions of the usual size are left" in spent
    assert "the books were not opened for this page" in spent
    assert "ann, the owner of the account visits" in paragraphs(page, "Who answers for the budget")
    assert "The account's total" in paragraphs(page, "What the guarantee means")
    assert "(epsilon 2, delta 1e-06)" in paragraphs(page, "What the guarantee means")
    assert "the column user_id" in paragraphs(page, "Who is protected, and who is not")
