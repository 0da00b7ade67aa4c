"""The command line with hostile arguments: our words, one JSON object, the exit codes of the manual, no traceback."""

from __future__ import annotations

import json
import random
from pathlib import Path

from typer.testing import CliRunner

from cutline.cli import app
from cutline.cli.door import UNEXPECTED
from fuzz.target import Case, Found

_TEXTS = (
    *(
        "",
        " ",
        "nan",
        "inf",
        "-inf",
        "-1",
        "0",
        "1e-400",
        "1e400",
        "3",
        "0.5",
        "9" * 400,
        "1_000",
        "--",
        "-",
        "x" * 5000,
    ),
    *("\x1b[31m", "caf\u00e9", "\U0001f600", "a\tb", "\u202eabc", "%s%n", "../..", "/dev/null/x", "nosuch", "1/3"),
    *("add-remove", "who", "what", "true", "'; drop table x; --"),
)
_BUDGET = "epsilon delta releases"
_OPTIONS = {
    "top": f"user item {_BUDGET} k max-k mechanism where candidates by groups dataset analyst adjacency target weight clip",
    "cost": f"{_BUDGET} k max-k mechanism adjacency choose test",
    "plan": f"{_BUDGET} k max-k adjacency domain",
    "mechanisms": "",
    "ledger show": "ledger dataset",
    "ledger init": f"ledger dataset owner unit order delta-share {_BUDGET}",
    "ledger history": "ledger dataset limit before",
    "ledger limit": "ledger dataset analyst share rdp delta",
    "ledger audit": "ledger head",
    "pate": "epsilon delta aggregator limit teachers",
    "nosuch": "",
}


def commands(case: Case) -> None:
    """Run a few commands in this process, sound but for one to three arguments."""
    log = case.directory / "log.csv"
    log.write_text("who,what\n" + "".join(f"u{i},{'castle' if i % 2 else 'harbour'}\n" for i in range(40)))
    for _ in range(case.size):
        check_command(random_command(case.random, case.directory))


def random_command(chance: random.Random, directory: Path) -> list[str]:
    """Return the words of a command; sound paths are inside ``directory``."""
    name = chance.choice(list(_OPTIONS))
    words, options = name.split(), _OPTIONS[name].split()
    sound = {"user": "who", "item": "what", "ledger": str(directory / "books.db"), "dataset": "visits", "owner": "ann"}
    if name in ("top", "pate"):
        words.append(chance.choice((str(directory / "log.csv"), str(directory / "missing.csv"), str(directory), "")))
        del sound["dataset"]
    given = {option: sound[option] for option in options if option in sound}
    for option in chance.sample(options, min(len(options), chance.randint(0, 3))):
        given[option] = chance.choice(_TEXTS)
    for option, value in given.items():
        words += [f"--{option}", value]
    return [*words, *(["--json"] if chance.random() < 0.6 else [])]


def check_command(words: list[str]) -> None:
    """Run a command and hold the manual's promises."""
    ran = CliRunner().invoke(app, words, prog_name="cutline")
    said = " ".join(word if len(word) < 60 else f"{word[:20]}... ({len(word)} characters)" for word in words)
    text = ran.stdout + ran.stderr
    if ran.exception is not None and not isinstance(ran.exception, SystemExit):
        raise Found(f"cutline {said}: raised {type(ran.exception).__name__}: {str(ran.exception)[:200]}")
    if ran.exit_code not in (0, 1, 2, 3):
        raise Found(f"cutline {said}: exit code {ran.exit_code}")
    if "Traceback" in text or UNEXPECTED[0] in text:
        raise Found(f"cutline {said}: an unexpected failure")
    if "--json" in words and ran.exit_code in (0, 1, 3) and "--help" not in words:
        try:
            plain = json.loads(ran.stdout)
        except ValueError:
            raise Found(f"cutline {said}: standard output is not one JSON object") from None
        if not isinstance(plain, dict):
            raise Found(f"cutline {said}: the JSON is no object")
