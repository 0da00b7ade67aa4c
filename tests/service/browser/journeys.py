"""What an owner, an analyst and a reviewer do from their first link on, as steps that every width and setting goes through."""

import csv
import datetime as dt
import io
import json
import math
import re

import pyarrow as pa
from playwright.sync_api import expect

from cutline.service.certificates import check
from tests.service.browser.conftest import HOSTILE

PASSWORD = "a long sentence for tests"
GAP = 60


def press(page, name, **options):
    """Press the one button, or open the one link, of this name."""
    page.get_by_role(options.get("role", "button"), name=name, exact=True).click()


def follow(page, name):
    press(page, name, role="link")


def says(page, words, *, within="main"):
    """Wait until the page, or a part of it, says this; a space stands for any space between words."""
    expect(page.locator(within)).to_contain_text(re.compile(words.replace(" ", r"\s+"), re.DOTALL))


def accept(page, link):
    """Choose a password by a one-time link."""
    page.goto(link)
    page.get_by_label("Password").fill(PASSWORD)
    press(page, "Set the password and sign in")


def invite(page, name, role):
    """Invite somebody as an administrator, and return their link."""
    page.goto("/people")
    page.get_by_label("Name").fill(name)
    page.get_by_label("Role").select_option(role)
    press(page, "Make a link")
    return page.locator(".notice code").inner_text()


def register(page, dataset):
    """Register a log as an owner whose budget is planned backwards."""
    says(page, "No log is registered yet")
    follow(page, "Register the first one.")
    page.get_by_label("Log").select_option("checkins")
    press(page, "Continue")
    says(page, "user_id, venue, day")
    fields = {
        "Title": f"City {dataset}",
        "Short name": dataset,
        "Who is protected": "user_id",
        "What is counted": "venue",
        "Version of the data": "2024-06",
        "First period": "2024",
        "Questions": "10",
        "Smallest gap": str(GAP),
    }
    page.get_by_text("More: filters").click()
    fields |= {"Filters that": "nobody = user_id < 0", "Groups that": "day = 2024-03-01, 2024-03-02"}
    for label, value in fields.items():
        page.get_by_label(re.compile(f"^{label}")).fill(value)
    press(page, "Plan the budget")
    says(page, "lets 10 questions each see a gap of [56]\\d users nine times in ten")
    planned = page.get_by_label("Epsilon").input_value()
    assert 0.5 < float(planned) < 5
    assert page.get_by_label("Title").input_value() == f"City {dataset}"
    press(page, "Register the log and fix its budget")
    says(page, "The log is registered")
    says(page, "10 of 10")
    return float(planned)


def give_access(page, name, role, share=""):
    """Give somebody new access to the dataset that is open, and return their link."""
    page.get_by_label("Name", exact=True).fill(name)
    page.get_by_label("As", exact=True).select_option(role)
    page.get_by_label("Share of the budget").fill(share)
    page.get_by_label("Until").fill((dt.date.today() + dt.timedelta(days=30)).isoformat())
    press(page, "Give access")
    says(page, f"{name} has access, and is new here")
    return page.locator(".notice code").inner_text()


def ask(page, dataset, *, js):
    """Ask as an analyst: see the price and the chance first, then pay, and read the answer."""
    says(page, "5 of 5 questions left")
    follow(page, f"City {dataset}")
    page.get_by_label("With counts").check()
    page.get_by_label("What for?").fill("a map of the city")
    page.get_by_label("Expected gap").fill(str(3 * GAP))
    if not js:
        press(page, "Check the price")
    price = page.locator("#price")
    says(page, "At most 1 question, 10 %.*4 of 5 are left after it", within="#price")
    expect(price).to_contain_text("nine times in ten")
    expect(price).to_contain_text("A gap of 180 users would be found more than 99 times in 100")
    says(page, r"within ± \d+ users", within="#price")
    expect(price.locator("svg.figure")).to_be_visible()
    page.get_by_label("Expected gap").fill("5")
    if not js:
        press(page, "Check the price")
    expect(price).to_contain_text("A gap of 5 users would be found less than once in 100")
    press(page, "Ask, and pay")
    says(page, "The top ends here, after 12")
    names = page.locator("table.answer th[scope=row]").all_inner_texts()
    assert len(names) == 12
    assert "City Library" in names
    assert page.locator("table.answer svg rect").count() == 12
    says(page, r"\d ± \d")
    says(page, "Even odds become right at most")
    says(page, "4 of 5 questions are left now")
    return names


def download(page, name):
    """Follow a link that saves a file, and return its bytes."""
    with page.expect_download() as saved:
        follow(page, name)
    return saved.value.path().read_bytes()


def take_home(page, names, *, js):
    """Save the answer in every form, and read how a program asks the same."""
    assert len(list(csv.DictReader(io.StringIO(download(page, "CSV").decode())))) == 12
    assert sorted(json.loads(download(page, "JSON"))["items"]) == sorted(names)
    assert pa.ipc.open_file(download(page, "Arrow")).read_all().num_rows == 12
    for language, line in (("Python", "service.top("), ("curl", '"counts": true')):
        page.get_by_text(f"Ask the same in {language}").click()
        box = page.locator("details", has_text=f"Ask the same in {language}")
        expect(box.locator("code")).to_contain_text(line)
        assert box.get_by_role("button", name="Copy").count() == js
    if js:
        page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        page.get_by_role("button", name="Copy").first.click()
        expect(page.get_by_role("button", name="Copied")).to_be_visible()
        assert "service.top(" in page.evaluate("navigator.clipboard.readText()")


def ask_on(page, dataset, *, js):
    """Ask the same again, free; ask what is withheld, and follow what is advised; practise; ask the owner for more."""
    page.goto(f"/datasets/{dataset}")
    page.get_by_label("With counts").check()
    if js:
        expect(page.locator("#price")).to_contain_text("Free. This was asked before")
    press(page, "Ask, and pay")
    says(page, "Free. This was asked before, so the answer comes from the books")
    says(page, "4 of 5 questions are left now")
    page.goto(f"/datasets/{dataset}")
    page.get_by_label("Which rows?").select_option("nobody")
    press(page, "Ask, and pay")
    says(page, "withheld.*Nothing is shown")
    follow(page, "Ask for the top 10")
    assert page.get_by_label("How many?").input_value() == "10"
    assert page.get_by_label("Which rows?").input_value() == "nobody"
    follow(page, "Practise first, free.")
    says(page, "Made-up data. Nothing here tells anything about")
    press(page, "Try it, free")
    says(page, "Made-up answer.*The top ends here")
    page.goto(f"/datasets/{dataset}")
    says(page, "3 of 5 questions left")
    page.get_by_text("Need more questions?").click()
    page.get_by_label("What do you need them for?").fill("another map")
    press(page, "Ask the owner for more")
    says(page, "The owner sees your request")


def look_after(page, dataset):
    """Approve what was asked for, declare a version, open a period, and see the sum of both."""
    page.goto(f"/datasets/{dataset}")
    says(page, "asks for no limit of their own: another map")
    page.get_by_role("button", name=re.compile("^Approve")).click()
    says(page, "The request is approved")
    page.get_by_label("New version").fill("2024-07")
    press(page, "Declare it")
    says(page, "2024-07 .declared .*; before: 2024-06")
    page.get_by_text("Open another period").click()
    page.get_by_label("Name of the period").fill("2025")
    page.get_by_label("Questions", exact=True).fill("10")
    page.get_by_label("Smallest gap").fill(str(GAP))
    press(page, "Plan the budget")
    planned = float(page.get_by_label("Epsilon").input_value())
    press(page, "Open the period and fix its budget")
    says(page, "The period is open")
    periods = page.get_by_role("region", name="Periods")
    *own, elsewhere = periods.locator("tbody td:nth-child(2)").all_inner_texts()
    assert own == [f"{planned:.4g}"] * 2
    says(page, "Other datasets over the same log", within="[aria-label=Periods] tbody tr:last-child")
    total = periods.locator("tfoot td").first.inner_text()
    assert math.isclose(float(total), 2 * planned + float(elsewhere), abs_tol=0.011)  # both are shown in four digits
    expect(page.get_by_role("img", name=re.compile("100% of the budget is left"))).to_be_visible()
    return planned


def review(page, dataset):
    """Read every question with purpose, answer and cost; see that the books fit; check a certificate with the key."""
    follow(page, f"City {dataset}")
    says(page, "Every sum and the whole chain fit")
    says(page, "For: a map of the city")
    rows = page.locator("table.history tbody tr")
    assert rows.count() == 2
    assert [row.locator(".badge").inner_text() for row in rows.all()] == ["withheld", "released"]
    says(page, r"ann-.*data of 2024-06, period 2024.*\d %", within="table.history tbody tr:last-child")
    assert page.locator("main form, main button:not(.copy)").count() == 0  # a reviewer reads
    rows.last.get_by_text("Guarantee").click()
    says(page, "-DP for one user joining or leaving", within="table.history tbody tr:last-child details")
    key = page.locator("dt:has-text('key of certificates') + dd").inner_text()
    with page.expect_download() as saved:
        rows.last.get_by_role("link", name=re.compile("^certificate")).click()
    facts = check(json.loads(saved.value.path().read_text()), public_key=key)
    assert facts["account"] == f"{dataset}:2024"
    rows.last.get_by_role("link", name=re.compile("^Page")).click()
    expect(page.locator("body")).to_contain_text("What the guarantee means")
    expect(page.locator("body")).to_contain_text("Purpose: a map of the city")


def close(page, dataset):
    """Close the dataset for ever."""
    page.goto(f"/datasets/{dataset}")
    page.get_by_text("Close this dataset").click()
    page.get_by_label("Yes, close it for ever").check()
    press(page, "Close it")
    says(page, "Closed. Every further question is refused")


def show_hostile(page):
    """Read an answer whose items are markup, and find all of it as words."""
    page.goto("/datasets/names")
    says(page, "Names <b onclick")
    page.locator("table.history a").first.click()
    names = page.locator("table.answer th[scope=row]").all_inner_texts()
    assert sorted(names) == sorted(name.replace("\u202e", "\N{REPLACEMENT CHARACTER}") for name in HOSTILE)
    says(page, "<b onclick")
    assert page.locator("main img, main script, main b").count() == 0
