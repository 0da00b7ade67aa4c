"""Every example of the documentation runs.

Python examples are doctests, which pytest collects from the pages themselves. Commands run here, page by page, in a folder
that holds the files they speak of; what a page shows below a command is what the command prints (``...`` stands for anything).
"""

from __future__ import annotations

import io
import os
import re
import runpy
import shlex
import shutil
import subprocess
import sys
import tomllib
from contextlib import redirect_stdout
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from cutline.cli import app
from cutline.demo import write_checkins
from tests.docs.pages import PAGES, ROOT, find_blocks, find_commands, name_page

TARGETS = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE))
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
LANGUAGES = {
    "python", "console", "text", "sql", "sql+jinja", "yaml", "json",  # what a reader sees
    "{toctree}", "{eval-rst}", "{cutline-names}", "{cutline-help}", "{cutline-schema}", "{include}",  # the site's own
}  # fmt: skip


def blocks_of(page):
    return list(find_blocks(page.read_text(encoding="utf-8")))


WITH_COMMANDS = [page for page in PAGES if any(block.language == "console" for block in blocks_of(page))]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """The files that commands of the pages speak of, all of them made up."""
    folder = tmp_path_factory.mktemp("examples")
    write_checkins(folder / "checkins.parquet")
    rows = [(f"u{i}", place) for i in range(900) for place in ("castle", "harbour")] + [("u7", "kiosk")]
    who, where = (list(column) for column in zip(*rows, strict=True))
    pq.write_table(pa.table({"user_id": who, "venue": where}), folder / "visits.parquet")
    (folder / "days.txt").write_text("2024-03-01\n2024-03-02\n", encoding="utf-8")
    published = {f"hit {n}": 300 - n for n in range(6)} | {f"song {n}": 120 - 3 * n for n in range(30)}
    lines = ["item,count", *(f"{item},{count}" for item, count in published.items())]
    (folder / "published-2025.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    random = np.random.default_rng(0)
    ballots = (random.random((250, 4, 20)) < np.where(np.arange(20) < 3, 0.95, 0.03)).astype(np.int64)
    np.savez(folder / "votes.npz", votes=ballots.sum(axis=0))
    np.savez(folder / "ballots.npz", ballots=ballots, scores=ballots + random.random(ballots.shape))
    return folder


class Shell:
    """As much of a shell as the pages use: ``cutline`` and ``python`` in this process, ``> file`` and ``echo $?``.

    A head that a page writes as ``5d0f...`` is the last one that was printed.
    """

    def __init__(self):
        self.code = 0
        self.head = ""

    def run(self, text):
        """Run a command and return what it prints, errors included; None if it is one that is not run."""
        words = [
            self.head if re.fullmatch(r"[0-9a-f]{4}\.\.\.", word) else word for word in shlex.split(text, comments=True)
        ]
        if words == ["echo", "$?"]:
            code, self.code = self.code, 0
            return f"{code}\n"
        into = words[words.index(">") + 1] if ">" in words else None
        words = words[: words.index(">")] if ">" in words else words
        program, arguments = words[0], words[1:]
        if into == "/dev/full":
            return self.cutline_on_a_full_disk(arguments)
        if program not in ("cutline", "python", "cat") and (program, *arguments[:1]) != ("make", "demo"):
            check_elsewhere(words)
            return None
        printed = {"cutline": self.cutline, "python": self.python, "cat": self.cat, "make": self.cutline}[program](
            arguments
        )
        if into is not None:
            Path(into).write_text(printed, encoding="utf-8")
            return ""
        return printed

    def cutline(self, arguments):
        ran = CliRunner().invoke(app, arguments, prog_name="cutline")
        self.code = ran.exit_code
        assert ran.exception is None or isinstance(ran.exception, SystemExit), ran.exception
        self.head = (re.findall(r"^head +([0-9a-f]{64})", ran.output, flags=re.MULTILINE) or [self.head])[-1]
        return ran.output

    def cutline_on_a_full_disk(self, arguments):
        with open("/dev/full", "wb") as full:
            ran = subprocess.run(
                [sys.executable, "-m", "cutline.cli", *arguments], stdout=full, stderr=subprocess.PIPE, text=True
            )
        self.code = ran.returncode
        return ran.stderr

    def python(self, arguments):
        printed, before = io.StringIO(), sys.argv
        with redirect_stdout(printed):
            if arguments[0] == "-c":
                exec(arguments[1], {"__name__": "__main__"})
            else:
                sys.argv = arguments
                try:
                    runpy.run_path(arguments[0], run_name="__main__")
                finally:
                    sys.argv = before
        self.code = 0
        return printed.getvalue()

    def cat(self, arguments):
        return "".join(Path(name).read_text(encoding="utf-8") for name in arguments)


def is_shown(expected, printed):
    """Tell whether a page shows what was printed; ``...`` stands for anything, and all white space is alike."""
    parts = (re.escape(" ".join(part.split())) for part in expected.split("..."))
    return re.fullmatch(r"\s*" + r".*?".join(parts) + r"\s*", " ".join(printed.split()), flags=re.DOTALL) is not None


def check_elsewhere(words):
    """Check what can be checked of a command that is not run: that the target or the extra it names is there."""
    if words[0] == "make":
        assert words[1] in TARGETS, words
    elif words[:2] == ["pip", "install"]:
        for named in words[2:]:
            assert re.fullmatch(r"cutline(\[(\w+)\])?|[\w-]+", named), words
            extra = re.search(r"\[(\w+)\]", named)
            assert extra is None or extra[1] in EXTRAS, words
    else:
        assert words[0] in ("source", "git", "dbt", "spark-submit", "pg_dump"), f"{words[0]}: nothing here runs it"


@pytest.mark.parametrize("page", WITH_COMMANDS, ids=name_page)
def test_every_command_runs_and_prints_what_its_page_shows(page, files, tmp_path, monkeypatch):
    shutil.copytree(files, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    shell, commands = Shell(), [c for b in blocks_of(page) if b.language == "console" for c in find_commands(b)]
    for place, command in enumerate(commands):
        where = f"{name_page(page)}:{command.line}: {command.text}"
        printed = shell.run(command.text)
        if printed is None:
            continue
        asks = place + 1 < len(commands) and commands[place + 1].text == "echo $?"  # the next line shows the exit code
        assert asks or shell.code == 0, f"{where}\n{printed}"
        if command.output.strip():
            assert is_shown(command.output, printed), f"{where}\nprinted:\n{printed}"


@pytest.mark.parametrize("page", PAGES, ids=name_page)
def test_every_block_is_one_that_runs_or_says_what_it_is(page):
    for block in blocks_of(page):
        where = f"{name_page(page)}:{block.line}"
        assert block.language in LANGUAGES, f"{where}: say what the block is: console, python, text, ..."
        if block.language == "python":
            first = next(line for line in block.lines if line.strip())
            assert first.lstrip().startswith(">>> "), f"{where}: only examples with >>> are run"
        if block.language == "text":
            assert not any(re.match(r"\$ |cutline \w", line) for line in block.lines), f"{where}: make it console"


def test_the_model_of_the_dbt_page_is_the_one_that_its_example_runs():
    blocks = blocks_of(ROOT / "docs/howto/dbt.md")
    (model,) = [block for block in blocks if block.language == "sql+jinja"]
    query = " ".join(" ".join(line for line in model.lines if not line.startswith("{{")).split())
    assert query.startswith("select distinct")
    assert any(f'>>> model = "{query}"' in block.lines for block in blocks if block.language == "python")


def test_the_shell_of_these_tests_sees_what_is_wrong(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shell = Shell()
    assert "no such option" in shell.run("cutline cost --epsilom 1").lower()
    assert shell.run("echo $?") == "2\n"
    with pytest.raises(AssertionError, match="nothing here runs it"):
        shell.run("curl somewhere")
    with pytest.raises(AssertionError):
        shell.run("pip install 'cutline[unheard]'")
    with pytest.raises(AssertionError):
        shell.run("make unheard")
    assert os.listdir(tmp_path) == []
    assert is_shown("a ... c\n", "a  b\nc")
    assert is_shown("a\n...\nc", "a\nc")
    assert not is_shown("a", "a b")
    assert not is_shown("... b", "a b c")
