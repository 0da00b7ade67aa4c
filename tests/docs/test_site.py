"""The documentation site as `make docs` builds it: no warning, no broken link, nothing from elsewhere."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from html.parser import HTMLParser
from urllib.parse import unquote, urlsplit

import pytest

from tests.docs.pages import PAGES, ROOT

NAMED = re.compile(r"^[a-z]+:|^//")  # an address with a scheme or a host


class Links(HTMLParser):
    """What a page refers to, what of it a browser loads by itself, and which places it can be referred to at."""

    def __init__(self):
        super().__init__()
        self.links, self.loaded, self.anchors = [], [], set()

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.anchors |= {given[name] for name in ("id", "name") if given.get(name)}
        if tag == "a" and given.get("href"):
            self.links.append(given["href"])
        elif tag == "link" and given.get("href"):
            self.loaded.append(given["href"])
        elif given.get("src"):
            self.loaded.append(given["src"])


def read_links(text):
    parser = Links()
    parser.feed(text)
    return parser


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The folder of the site, built as the Makefile says, but elsewhere."""
    recipe = re.search(
        r"^docs:.*\n\t\$\(BIN\)/python (-m sphinx .*)$", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE
    )
    arguments = recipe[1].split()
    assert {"--fail-on-warning", "docs", "build/docs"} <= set(arguments)
    folder = tmp_path_factory.mktemp("site").resolve()
    arguments[arguments.index("build/docs")] = str(folder)
    built = subprocess.run([sys.executable, *arguments], cwd=ROOT, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    return folder


@pytest.fixture(scope="module")
def pages(site):
    """Every HTML page by its path in the site, with its links."""
    return {path.relative_to(site).as_posix(): read_links(path.read_text("utf-8")) for path in site.rglob("*.html")}


def find_broken(site, pages):
    """Yield the links to pages, files and places of the site that are not there."""
    for name, page in pages.items():
        for link in page.links + page.loaded:
            if NAMED.match(link):
                continue
            parts = urlsplit(link)
            target = (site / name).parent / unquote(parts.path) if parts.path else site / name
            target = target.resolve()
            place = unquote(parts.fragment) if target.suffix == ".html" else ""
            if not target.is_file() or (place and place not in pages[target.relative_to(site).as_posix()].anchors):
                yield name, link


def test_no_link_is_broken(site, pages):
    assert len(pages) > len(PAGES) - 5  # all but the README and CONTRIBUTING, and Sphinx's own
    assert list(find_broken(site, pages)) == []


def test_the_check_for_broken_links_can_fail(site):
    bad = {"index.html": read_links('<a href="nowhere.html">x</a><a href="#nowhere">y</a><img src="no.png">')}
    assert len(list(find_broken(site, bad))) == 3


def test_a_page_loads_nothing_from_elsewhere(site, pages):
    for name, page in pages.items():
        assert [each for each in page.loaded if NAMED.match(each) and not each.startswith("data:")] == [], name
    for style in site.rglob("*.css"):
        found = re.findall(r"url\(\s*[\"']?([^\"')]+)|@import\s+[\"']([^\"']+)", style.read_text("utf-8"))
        assert [each for pair in found for each in pair if NAMED.match(each) and not each.startswith("data:")] == [], (
            style
        )


def test_every_command_and_every_public_name_is_in_the_reference(pages):
    import cutline

    spec = importlib.util.spec_from_file_location("site_directives", ROOT / "docs/site_directives.py")
    directives = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(directives)
    commands = [name for name, _ in directives.list_commands()]
    assert {"cutline top", "cutline ledger init"} <= set(commands)
    assert {name.replace(" ", "-") for name in commands} <= pages["reference/command-line.html"].anchors
    names = {f"cutline.{name}" for name in cutline.__all__ if not name.startswith("__")}
    assert names <= pages["reference/python.html"].anchors


def test_what_the_build_writes_is_ignored_by_git():
    ignored = (ROOT / ".gitignore").read_text("utf-8").splitlines()
    assert "build/" in ignored
    assert not (ROOT / "docs/_build").exists()


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"])
def test_links_of_pages_outside_the_site_lead_somewhere(page):
    text = re.sub(r"```.*?```", "", (ROOT / page).read_text("utf-8"), flags=re.DOTALL)
    links = [link for link in re.findall(r"\]\(([^)\s]+)\)", text) if not NAMED.match(link)]
    assert links
    for link in links:
        path, _, place = link.partition("#")
        target = ROOT / path if path else ROOT / page
        assert target.exists(), link
        if place:
            headings = re.findall(r"^#+ (.*)$", target.read_text("utf-8"), flags=re.MULTILINE)
            assert place in {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}, link


def test_the_readme_is_read_on_a_screen_of_120_columns():
    lines = (ROOT / "README.md").read_text("utf-8").splitlines()
    assert [line for line in lines if len(line) >= 120] == []


def test_every_registered_mechanism_is_on_its_page():
    from cutline.mechanisms import MECHANISMS

    page = (ROOT / "docs/mechanisms.md").read_text("utf-8")
    listed = set(re.findall(r"`([a-z-]+)`", "".join(line for line in page.splitlines() if line.startswith("| `"))))
    assert {kind.name for kind in MECHANISMS} <= listed
