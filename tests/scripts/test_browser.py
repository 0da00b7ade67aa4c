"""`make browser`: which Chromium is taken, and what is said if there is none."""

import importlib.util
from pathlib import Path

import pytest

SPEC = importlib.util.spec_from_file_location("browser", Path(__file__).parents[2] / "scripts/browser.py")
browser = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(browser)


def make_program(path):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n", encoding="utf-8")
    path.chmod(0o755)
    return path


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """A machine with nothing on it, whose user is not root."""
    monkeypatch.delenv("CHROMIUM", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("PLAYWRIGHT_BROWSERS_PATH", str(tmp_path / "playwright"))
    monkeypatch.setattr(browser.os, "geteuid", lambda: 1000)
    return tmp_path


def test_the_search_goes_from_what_was_said_to_what_is_there(machine, monkeypatch):
    old = make_program(machine / "playwright/chromium-999/chrome-linux/chrome")
    assert browser.find_browser() == old
    new = make_program(machine / "playwright/chromium-1200/chrome-linux/chrome")
    assert browser.find_browser() == new
    on_path = make_program(machine / "bin/google-chrome")
    assert browser.find_browser() == on_path
    named = make_program(machine / "elsewhere/mine")
    monkeypatch.setenv("CHROMIUM", str(named))
    assert browser.find_browser() == named


def test_a_wrong_name_is_told_and_not_replaced(machine, monkeypatch):
    make_program(machine / "bin/chromium")
    monkeypatch.setenv("CHROMIUM", "no-such-browser")
    with pytest.raises(SystemExit, match="no-such-browser"):
        browser.find_browser()


def test_root_on_debian_installs_the_package(machine, monkeypatch):
    make_program(machine / "bin/apt-get").write_text(
        f'#!/bin/sh\ncase "$*" in *install*) /bin/cp "$0" {machine}/bin/chromium;; esac\n', encoding="utf-8"
    )
    monkeypatch.setattr(browser.os, "geteuid", lambda: 0)
    assert browser.find_browser() == machine / "bin/chromium"


def test_without_any_the_way_out_is_told(machine):
    make_program(machine / "bin/apt-get")  # of no use without root
    with pytest.raises(SystemExit, match="apt-get install chromium"):
        browser.find_browser()
