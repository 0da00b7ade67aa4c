"""Write the pictures of docs/service.md: a browser asks the service of `make serve`, and what it sees is saved.

Run as ``make screenshots``; the one argument is the folder. All people in them are made up. The pictures differ a little from
run to run, since answers are drawn anew.
"""

from __future__ import annotations

import re
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from browser import OPTIONS, find_browser
from PIL import Image
from playwright.sync_api import Browser, Page, expect, sync_playwright

PASSWORD = secrets.token_urlsafe(12)
LARGEST = 150_000  # bytes of one picture
NAMES = ("ann", "olga", "rita", "ada")  # in the order in which the demo prints their links


@contextmanager
def serving() -> Iterator[dict[str, str]]:
    """Serve the demo in a folder of its own, and yield everybody's links."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    cutline = Path(sys.executable).with_name("cutline")
    with tempfile.TemporaryDirectory() as folder:
        command = [str(cutline), "serve", "demo", "--folder", f"{folder}/demo", "--port", port]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            try:
                links = []
                while len(links) < len(NAMES):
                    line = process.stdout.readline() if process.stdout else ""
                    if not line:
                        sys.exit("the demo ended before it printed its links")
                    links += re.findall(r"http\S+/welcome/\S+", line)
                yield dict(zip(NAMES, links, strict=True))
            finally:
                process.send_signal(signal.SIGTERM)


def sign_in(browser: Browser, link: str, *, width: int = 1040, height: int = 900) -> Page:
    """Return a page of somebody who has just chosen a password; the server may still be starting."""
    page = browser.new_context(viewport={"width": width, "height": height}).new_page()
    page.set_default_timeout(60_000)
    for _ in range(100):
        try:
            page.goto(link)
            break
        except Exception:  # nobody listens yet
            page.wait_for_timeout(200)
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Set the password and sign in").click()
    page.get_by_role("link", name="Check-ins of a made-up city").click()
    return page


def ask(page: Page, **fields: str) -> None:
    """Ask one question, and wait for its answer."""
    page.goto(page.url.partition("/answers")[0])
    for name, value in fields.items():
        field = page.locator(f"[name={name}]")
        if name == "counts":
            field.check()
        elif name in ("filter", "by"):
            field.select_option(value)
        else:
            field.fill(value)
    page.get_by_role("button", name="Ask, and pay").click()
    expect(page.locator("h1")).to_contain_text("Answer")


def save(page: Page, path: Path, *, height: int | None = None) -> None:
    """Save the page from its top, with few colours: text stays sharp, and the file small."""
    width = page.viewport_size["width"] if page.viewport_size else 0
    clip = None if height is None else {"x": 0, "y": 0, "width": width, "height": height}
    page.screenshot(path=path, full_page=True, clip=clip)
    picture = Image.open(path).convert("RGB").quantize(256, method=Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE)
    picture.save(path, optimize=True)
    if path.stat().st_size > LARGEST:
        sys.exit(f"{path.name} has {path.stat().st_size:,} bytes; the site should stay small")
    print(path, f"{path.stat().st_size:,} bytes")


def main(folder: Path) -> None:
    """Go the way of docs/service.md, and save what it shows."""
    folder.mkdir(parents=True, exist_ok=True)
    expect.set_options(timeout=60_000)
    with serving() as links, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(find_browser()), args=list(OPTIONS))
        ann = sign_in(browser, links["ann"])
        ask(ann, counts="yes", purpose="A map of where the city meets")
        save(ann, folder / "service-answer.png")
        ask(ann, filter="on the first of May")
        save(ann, folder / "service-withheld.png", height=520)
        ask(ann, by="month", purpose="Which places are for one season?")
        ask(ann, k="5")
        ann.goto(ann.url.partition("/answers")[0])
        ann.get_by_label("With counts").check()
        ann.get_by_label("How many?").fill("8")
        ann.get_by_label("Expected gap").fill("500")
        expect(ann.locator("#price")).to_contain_text("A gap of 500 users")
        save(ann, folder / "service-ask.png", height=1080)
        olga = sign_in(browser, links["olga"])
        save(olga, folder / "service-owner.png", height=1560)
        olga.goto(olga.url.partition("/datasets")[0] + "/register")
        fields = {"Title": "Check-ins of one spring", "Short name": "spring", "Who is protected": "user_id"}
        fields |= {"What is counted": "venue", "Version of the data": "2024-06", "First period": "2024"}
        for label, value in (fields | {"Questions": "20", "Smallest gap": "400"}).items():
            olga.get_by_label(re.compile(f"^{label}")).fill(value)
        olga.get_by_role("button", name="Plan the budget").click()
        expect(olga.locator("#planned")).to_contain_text("lets 20 questions")
        save(olga, folder / "service-register.png", height=1060)
        rita = sign_in(browser, links["rita"])
        save(rita, folder / "service-review.png", height=1480)
        browser.close()


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "docs/images"))
