"""Print the path of a Chromium, for looking at pages and for tests of them: found, or installed, or named in the refusal.

The environment variable CHROMIUM is believed if it is set. Then the PATH is searched, then the browser that playwright
downloaded for itself, then Debian's package is installed if this is Debian and root. Otherwise the last lines say what to do.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
# A browser that nobody is to be traced by: no sandbox, as root needs, no calls home, no first-run page.
OPTIONS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
ADVICE = """no Chromium was found, and none could be installed. Any one of these will do:
  apt-get install chromium                                         (Debian, as root)
  pip install -r requirements/browser.lock && playwright install chromium
  CHROMIUM=/path/to/chromium make browser                          (one that is there already)"""


def find_named() -> Iterator[Path]:
    """Yield the browser that CHROMIUM names; a name that leads nowhere is a mistake, not a reason to take another."""
    if named := os.environ.get("CHROMIUM"):
        found = shutil.which(named)
        if found is None:
            sys.exit(f"CHROMIUM is {named!r}, which is no program. Correct it, or unset it to have one looked for.")
        yield Path(found)


def find_on_path() -> Iterator[Path]:
    """Yield the browsers on the PATH, by their usual names."""
    yield from (Path(found) for name in NAMES if (found := shutil.which(name)))


def find_playwrights() -> Iterator[Path]:
    """Yield the browsers that playwright has downloaded, newest first."""
    cache = Path(os.environ.get("PLAYWRIGHT_BROWSERS_PATH") or Path.home() / ".cache" / "ms-playwright")
    numbered = sorted(
        cache.glob("chromium-*/chrome-linux*/chrome"), key=lambda path: (len(path.parts[-3]), path.parts[-3])
    )
    yield from (path for path in reversed(numbered) if os.access(path, os.X_OK))


def install_debians() -> Iterator[Path]:
    """Install Debian's package if this is root on such a system, and yield what it brought."""
    if os.geteuid() == 0 and shutil.which("apt-get"):
        print("Installing Debian's chromium", file=sys.stderr)
        for step in (["update"], ["install", "--yes", "--no-install-recommends", "chromium", "fonts-dejavu-core"]):
            # Its own talk goes to standard error: standard output is the path alone.
            quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
            done = subprocess.run(["apt-get", "--quiet", *step], stdout=sys.stderr, env=quiet)
            if done.returncode:
                return
        yield from find_on_path()


def find_browser() -> Path:
    """Return the first Chromium there is, installing one if that is possible; exit with advice if there is none."""
    for search in (find_named, find_on_path, find_playwrights, install_debians):
        for found in search():
            return found
    sys.exit(ADVICE)


if __name__ == "__main__":
    print(find_browser())
