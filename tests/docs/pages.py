"""The pages of the documentation and the blocks of code in them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")])


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A fenced block: its language, its lines, and where it begins."""

    language: str
    lines: tuple[str, ...]
    line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A command of a console block, and the output that stands below it."""

    text: str
    output: str
    line: int


def name_page(page: Path) -> str:
    """Return the path of a page as a test's name."""
    return page.relative_to(ROOT).as_posix()


def find_blocks(text: str) -> Iterator[Block]:
    """Yield the fenced blocks of a page; what stands in a longer fence belongs to that fence."""
    fence, language, lines, start = "", "", [], 0
    for number, line in enumerate(text.splitlines(), start=1):
        mark = re.match(r"\s*(`{3,})\s*(\S*)\s*", line)
        if not fence and mark:
            fence, language, lines, start = mark[1], mark[2], [], number
        elif fence and mark and mark[1].startswith(fence) and not mark[2]:
            yield Block(language=language, lines=tuple(lines), line=start)
            fence = ""
        elif fence:
            lines.append(line)
    assert not fence, f"the fence of line {start} is never closed"


def find_commands(block: Block) -> Iterator[Command]:
    r"""Yield the commands of a console block: lines after ``$``, with those that a backslash goes on to."""
    text, output, start = "", [], 0
    for number, line in enumerate(block.lines, start=block.line + 1):
        if line.startswith("$ "):
            if text:
                yield Command(text=text, output="\n".join(output), line=start)
            text, output, start = line.removeprefix("$ "), [], number
        elif text.endswith("\\") and not output:
            text = text.removesuffix("\\") + line.strip()
        else:
            output.append(line)
    assert text, f"the block of line {block.line} has no command"
    yield Command(text=text, output="\n".join(output), line=start)
