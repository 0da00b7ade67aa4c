"""Owner, analyst and reviewer from their first link to a closed dataset, on a phone and a desktop, with and without scripts."""

import pytest

from tests.service.browser import journeys

SETTINGS = [
    pytest.param(True, "desktop", id="with-scripts-desktop"),
    pytest.param(True, "phone", id="with-scripts-phone", marks=pytest.mark.slow),
    pytest.param(False, "desktop", id="without-scripts-desktop", marks=pytest.mark.slow),
    pytest.param(False, "phone", id="without-scripts-phone"),
]


@pytest.mark.parametrize(("js", "size"), SETTINGS)
def test_owner_analyst_and_reviewer_go_all_the_way(visit, js, size):
    dataset = f"{'js' if js else 'plain'}-{size}"
    admin = visit("ada", js=js, size=size)
    owner, analyst, reviewer = (visit(js=js, size=size) for _ in range(3))
    journeys.accept(owner, journeys.invite(admin, f"olga-{dataset}", "owner"))
    planned = journeys.register(owner, dataset)
    ann = journeys.give_access(owner, f"ann-{dataset}", "analyst", share="1/2")
    rita = journeys.give_access(owner, f"rita-{dataset}", "reviewer")
    journeys.accept(analyst, ann)
    names = journeys.ask(analyst, dataset, js=js)
    journeys.take_home(analyst, names, js=js)
    journeys.ask_on(analyst, dataset, js=js)
    assert journeys.look_after(owner, dataset) == planned
    journeys.accept(reviewer, rita)
    journeys.review(reviewer, dataset)
    journeys.close(owner, dataset)
    analyst.goto(f"/datasets/{dataset}")
    journeys.says(analyst, "Closed by its owner")
    assert analyst.get_by_role("button", name="Ask, and pay").count() == 0


@pytest.mark.parametrize("name", ["ann", "olga", "rita"])
def test_names_that_are_markup_are_shown_and_not_obeyed(visit, name):
    journeys.show_hostile(visit(name))


def reach(page, description, *, most=60):
    """Press Tab until the element that the words describe has the focus, and can be seen to have it."""
    wanted = page.locator(description).first
    for _ in range(most):
        page.keyboard.press("Tab")
        if wanted.evaluate("element => element === document.activeElement"):
            outline = wanted.evaluate("element => getComputedStyle(element).outlineStyle")
            assert outline != "none", description
            return
    raise AssertionError(f"{description} is not reached by the keyboard")


def test_an_analyst_needs_no_mouse(visit, site):
    page = visit()
    page.goto(f"/welcome/{site.link}")
    reach(page, "#password")
    page.keyboard.type(journeys.PASSWORD)
    page.keyboard.press("Enter")
    journeys.says(page, "Nobody has given you access")
    page = visit("ann")
    page.goto("/")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")  # the first stop skips to the content
    assert page.url.endswith("#main")
    reach(page, "a:text('Check-ins of one city')")
    page.keyboard.press("Enter")
    reach(page, "#k")
    page.keyboard.type("7")
    reach(page, "#filter")
    page.keyboard.type("in March")
    reach(page, "input[name=counts]")
    page.keyboard.press("Space")
    reach(page, "#size")
    page.keyboard.type("90")
    journeys.expect(page.locator("#price")).to_contain_text("A gap of 90 users would be found")
    reach(page, "button[value=pay]")
    page.keyboard.press("Enter")
    journeys.says(page, "the top 7 of venue, in March, with counts")
    reach(page, "summary")
    page.keyboard.press("Enter")
    journeys.expect(page.locator("pre").first).to_be_visible()


def test_an_owner_needs_no_mouse(visit):
    page = visit("olga")
    page.goto("/")
    reach(page, "a:text('Register a log')")
    page.keyboard.press("Enter")
    reach(page, "#source")
    page.keyboard.type("checkins")
    reach(page, "button:text('Continue')")
    page.keyboard.press("Enter")
    fields = {
        "title": "By keyboard", "name": "keys", "user": "user_id", "items": "venue", "version": "1", "period": "2024",
        "questions": "10", "gap": "60",
    }  # fmt: skip
    for field, value in fields.items():
        reach(page, f"#{field}")
        page.keyboard.press("Control+a")
        page.keyboard.type(value)
    reach(page, "button[value=plan]")
    page.keyboard.press("Enter")
    journeys.says(page, "lets 10 questions each see a gap")
    reach(page, "button[value=register]")
    page.keyboard.press("Enter")
    journeys.says(page, "The log is registered")
    reach(page, "#person")
    page.keyboard.type("kim")
    reach(page, "button:text('Give access')")
    page.keyboard.press("Enter")
    journeys.says(page, "kim has access, and is new here")
    reach(page, "summary:text('Close this dataset')")
    page.keyboard.press("Enter")
    reach(page, "form[action$='/close'] input[type=checkbox]")
    page.keyboard.press("Space")
    reach(page, "button:text('Close it')")
    page.keyboard.press("Enter")
    journeys.says(page, "Closed. Every further question is refused")


def test_a_reviewer_needs_no_mouse(visit):
    page = visit("rita")
    page.goto("/")
    reach(page, "a:text('Check-ins of one city')")
    page.keyboard.press("Enter")
    journeys.says(page, "Every sum and the whole chain fit")
    last = "table.history tbody tr:last-child"
    reach(page, f"{last} a:has-text('certificate')")
    with page.expect_download() as saved:
        page.keyboard.press("Enter")
    assert b"signature" in saved.value.path().read_bytes()
    reach(page, f"{last} summary")
    page.keyboard.press("Enter")
    journeys.says(page, "-DP for one user joining or leaving", within=f"{last} details")
    page.goto("/datasets/city")
    reach(page, f"{last} a:has-text('Page')")
    page.keyboard.press("Enter")
    journeys.says(page, "What the guarantee means", within="body")


def test_a_price_that_is_refused_says_why(visit):
    page = visit("ann", refusals=True)
    page.goto("/datasets/city")
    journeys.expect(page.locator("#price")).to_contain_text("At most 1 question")
    page.get_by_label("How many?").fill("2000")
    journeys.expect(page.locator("#price")).to_contain_text("K must be from 1 to 1000")


def test_a_job_that_failed_says_so_without_being_asked_again(visit, site):
    page = visit("ann")
    page.goto(f"/datasets/slow/jobs/{site.job}")
    journeys.says(page, "Your question failed")
    page.goto("/datasets/slow")
    journeys.press(page, "Ask, and pay")  # waits, and loads itself again until it is there
    journeys.says(page, "Answer .*The top ends here")
