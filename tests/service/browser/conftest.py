"""A service in a process of its own, and a Chromium that visits it; what it complains about fails the test."""

import importlib.util
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from playwright.sync_api import expect, sync_playwright

from cutline.demo import checkins
from cutline.privacy import Budget
from cutline.service.asking import Asked
from cutline.service.catalogue import Description, Groups
from cutline.service.certificates import create_key
from cutline.service.config import Config
from cutline.service.office import Office
from cutline.service.people import Caller
from tests.service.processes import serving, write_settings

ROOT = Path(__file__).parents[3]
SIZES = {"desktop": (1280, 900), "phone": (390, 844)}
PEOPLE = {"ada": "admin", "olga": "owner", "ann": "analyst", "rita": "reviewer"}
HOSTILE = ("<img src=x onerror=alert(1)>", "</title><script>alert(2)</script>", "{{ 7 * 7 }}", "\u202etxt.exe")
PATIENCE = 300_000  # milliseconds: machines are busy, and nothing is measured here
MARKUP = "<b onclick=alert(3)>bold</b>"


def load_browser():
    """Return the script that `make browser` runs, as a module."""
    spec = importlib.util.spec_from_file_location("browser", ROOT / "scripts/browser.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """Where the service is, what opens its pages to everybody, and links and jobs to look at."""

    origin: str
    sessions: dict[str, str]
    link: str
    job: str


@pytest.fixture(scope="module")
def chromium():
    """One browser for a file of tests, and ended with it: its loop would run in this process under all others."""
    found = load_browser()
    expect.set_options(timeout=PATIENCE)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(found.find_browser()), args=list(found.OPTIONS))
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    settings, port = write_settings(folder)
    pq.write_table(checkins(users=2000), folder / "checkins.parquet")
    users, items = zip(*((f"u{i}", name) for name in HOSTILE for i in range(4000)), strict=True)
    pq.write_table(pa.table({"user": users, "item": items}), folder / "names.parquet")
    with settings.open("a") as file:
        file.write('[sources.names]\npath = "names.parquet"\n')
    create_key(folder / "signing.key")
    office = Office(Config.read(settings))
    try:
        prepared = prepare(office, f"http://127.0.0.1:{port}")
    finally:
        office.close()
    with serving(settings, port):
        yield prepared


def prepare(office, origin):
    """Register logs and ask about them, so that there is a page of every kind to look at."""
    for name, role in PEOPLE.items():
        office.people.invite(name, role)
    owner, analyst = (Caller(person=office.people.find(name)) for name in ("olga", "ann"))
    budget = Budget(epsilon=4.0, delta=1e-6, releases=20)
    city = Description(
        title="Check-ins of one city",
        source="checkins",
        user="user_id",
        items=("venue",),
        filters={"in March": "day < DATE '2024-04-01'", "nobody": "user_id < 0"},
        groups={"day": Groups(values=("2024-03-01", "2024-03-02"), max_groups_per_user=1)},
    )
    city = office.register(owner, "city", city, version="2024-06", period="2024", budget=budget)
    names = Description(title=f"Names {MARKUP}", source="names", user="user", items=("item",), practice_names=HOSTILE)
    names = office.register(owner, "names", names, version="1", period="1", budget=budget)
    slow = Description(title="Slow", source="checkins", user="user_id", items=("venue",), answers="later")
    slow = office.register(owner, "slow", slow, version="1", period="1", budget=budget)
    for dataset in (city, names, slow):
        office.catalogue.grant(dataset, "ann", role="analyst")
        office.catalogue.grant(dataset, "rita", role="reviewer")
    for asked in (
        Asked(item="venue", counts=True, purpose=f"a map {MARKUP}"),
        Asked(item="venue", filter="nobody"),
        Asked(item="venue", by="day", counts=True),
        Asked(item="venue", k=60, filter="nobody"),
    ):
        office.desk.answer(city, asked, analyst)
    office.desk.answer(names, Asked(item="item", k=4, counts=True, purpose=MARKUP), analyst)
    office.catalogue.ask_for_more(city, analyst, wish=f"more {MARKUP}", share="1/2")
    job = office.jobs.submit(slow.as_of(account="gone", version="1"), Asked(item="venue"), analyst)  # will fail
    sessions = {name: office.people.open_session(name) for name in PEOPLE}
    return Site(origin=origin, sessions=sessions, link=office.people.invite("new", "analyst"), job=job)


@pytest.fixture
def visit(chromium, site):
    """Return what opens a page as somebody, or nobody; at the end nothing may have been complained about."""
    contexts, troubles = [], []

    def open_page(name=None, *, js=True, size="desktop", refusals=False):
        width, height = SIZES[size]
        context = chromium.new_context(
            base_url=site.origin, viewport={"width": width, "height": height}, java_script_enabled=js
        )
        contexts.append(context)
        if name is not None:
            context.add_cookies([{"name": "cutline_session", "value": site.sessions[name], "url": site.origin}])

        def hear(message):
            told = refusals and message.text.startswith("Failed to load resource")
            if message.type in ("error", "warning") and not told:
                troubles.append(f"{message.type} on {message.location.get('url')}: {message.text}")

        context.on("console", hear)
        context.on("weberror", lambda error: troubles.append(f"script: {error.error}"))
        context.on("dialog", lambda dialog: (troubles.append(f"dialog: {dialog.message}"), dialog.dismiss()))
        context.on(
            "request", lambda request: request.url.startswith(site.origin + "/") or troubles.append(f"to {request.url}")
        )
        page = context.new_page()
        page.set_default_timeout(PATIENCE)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert troubles == []
