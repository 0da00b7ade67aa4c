"""Every page for every role: axe finds no fault in it, in light on a desktop and in dark on a phone, and none is too wide."""

import json
import re
import sys
from pathlib import Path

import pytest

from cutline.service import pages
from cutline.service.web import rule_of
from tests.service.browser.conftest import PEOPLE, ROOT, SIZES

AXE = Path(sys.prefix) / "node/node_modules/axe-core/axe.min.js"
# What an address that holds a name leads to; every route of a page is here, and a new one without an example fails.
EXAMPLES = {
    "/": ["/"],
    "/sign-in": ["/sign-in"],
    "/welcome/{link}": ["/welcome/{link}", "/welcome/used-already"],
    "/people": ["/people"],
    "/tokens": ["/tokens"],
    "/register": ["/register", "/register?source=checkins"],
    "/datasets/{name}": [
        "/datasets/city",
        "/datasets/city?counts=yes&size=90",
        "/datasets/names",
        "/datasets/city?done=access",
        "/datasets/city?k=0",
        "/datasets/nowhere",
    ],
    "/datasets/{name}/answers/{number}": [
        f"/datasets/city/answers/{number}" for number in ("1", "2", "3", "4", "1?free")
    ],
    "/datasets/{name}/answers/{number}/statement": ["/datasets/city/answers/1/statement"],
    "/datasets/{name}/practice": ["/datasets/city/practice"],
    "/datasets/{name}/jobs/{number}": ["/datasets/slow/jobs/{job}"],
}
NO_PAGES = {"/datasets/{name}/answers/{number}/certificate", "/sign-in/openid", "/sign-in/openid/back"}


def page_routes():
    routes = [route for router in pages.ROUTERS for route in router.routes]
    return {route.path: rule_of(route.endpoint) for route in routes if "GET" in route.methods}


def test_every_page_has_an_example():
    assert set(page_routes()) - NO_PAGES == set(EXAMPLES)


def visits(name):
    """Return the addresses of the pages that somebody may see; nobody sees what is public.

    Pages that look the same to several roles are looked at in all their variants by an analyst, and in one by the others.
    """
    role = PEOPLE.get(name)
    for path, rule in page_routes().items():
        if path in EXAMPLES and (rule.public if name is None else role in rule.roles and not rule.public):
            shared = "analyst" in rule.roles and role not in (None, "analyst")
            yield from EXAMPLES[path][: 1 if shared else None]


def find_faults(page):
    """Return what axe finds, of any weight, with the elements it is about."""
    found = page.evaluate("axe.run().then(found => found.violations)")
    return [(fault["id"], fault["impact"], [node["html"][:200] for node in fault["nodes"]]) for fault in found]


@pytest.mark.parametrize("name", [None, *PEOPLE])
def test_no_page_has_a_fault_in_light_or_dark_or_is_too_wide(visit, site, name):
    rules = AXE.read_text()
    page, faults = visit(name, refusals=True), {}
    for address in visits(name):
        page.goto(address.format(link=site.link, job=site.job))
        if "practice" in address:
            page.get_by_role("button", name="Try it, free").click()
        page.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")
        page.evaluate(rules)
        for scheme, (width, height) in zip(("light", "dark"), SIZES.values(), strict=True):
            page.emulate_media(color_scheme=scheme)
            page.set_viewport_size({"width": width, "height": height})
            if found := find_faults(page):
                faults[address, scheme] = found
            wide = page.evaluate("document.documentElement.scrollWidth")
            if wide > width:
                faults[address, "width"] = wide
    assert faults == {}, json.dumps([[*map(str, key), value] for key, value in faults.items()], indent=1)


def test_axe_finds_a_fault_where_there_is_one(visit):
    """The rules run under the service's own policy, and would tell."""
    page = visit()
    page.goto("/sign-in")
    page.evaluate("document.querySelector('label').remove()")
    page.evaluate(AXE.read_text())
    assert [fault for fault, *_ in find_faults(page)] == ["label"]


def test_scripts_are_short_and_nothing_is_inline_or_from_elsewhere():
    static, templates = (ROOT / "src/cutline/service" / name for name in ("static", "templates"))
    assert sum(len(file.read_text().splitlines()) for file in static.glob("*.js")) < 100
    for file in templates.glob("*.html"):
        text = file.read_text()
        for tag in re.findall(r"<(?:script|link|img)\b[^>]*>", text):
            assert re.search(r'(?:src|href)="/static/', tag), (file.name, tag)
        assert not re.search(r"<style|\sstyle=|\son[a-z]+=|javascript:", text), file.name
