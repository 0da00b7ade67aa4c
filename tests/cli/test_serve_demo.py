"""`cutline serve demo`: the first link is the analyst's, it is told what to click, and it can be run again."""

import re

import pytest
from typer.testing import CliRunner

from cutline.cli import app
from cutline.service import run
from cutline.service.config import Config
from cutline.service.office import Office
from cutline.service.people import Caller
from tests.service.processes import find_free_port


@pytest.fixture
def serve_demo(tmp_path, monkeypatch):
    """Return what runs the command on a small log up to the point where it would serve."""
    served = []
    monkeypatch.setattr(run, "_DEMO_USERS", 300)
    monkeypatch.setattr(run, "serve", lambda config, **_: served.append(config))

    def demo(*options):
        ran = CliRunner().invoke(app, ["serve", "demo", "--folder", str(tmp_path / "demo"), *options])
        return ran, served

    return demo


def test_the_demo_prints_the_analyst_s_link_first_and_what_to_click(serve_demo, tmp_path):
    port = find_free_port()
    for _ in range(2):  # a second run keeps the log and the books, and prints new links
        ran, served = serve_demo("--port", str(port))
        assert ran.exit_code == 0, ran.output
        links = re.findall(rf"http://127.0.0.1:{port}/welcome/(\S+)", ran.output)
        assert len(links) == 4
        assert '"Check-ins of a made-up city"' in ran.output
        assert '"Ask, and pay"' in ran.output
        assert served[-1].port == port
    office = Office(Config.read(tmp_path / "demo/service.toml"))
    try:
        assert [office.people.of_link(link).role for link in links] == ["analyst", "owner", "reviewer", "admin"]
        (dataset,) = office.catalogue.listed(Caller(person=office.people.find("ann")))
        assert dataset.description.title == "Check-ins of a made-up city"
        assert office.columns("checkins") == ["user_id", "venue", "day", "month"]
    finally:
        office.close()


def test_a_demo_without_a_place_for_its_files_says_so(serve_demo, tmp_path):
    (tmp_path / "demo").write_text("a file, not a folder")
    ran, served = serve_demo()
    assert (ran.exit_code, served) == (1, [])
    assert "the demo writes its files into a folder" in " ".join(ran.output.split())
