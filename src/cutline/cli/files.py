r"""The caller's own files: candidates to read and figures to write, checked before a row is read."""

from __future__ import annotations

import json
import os
from pathlib import Path

from cutline.errors import ParameterError, SourceError
from cutline.histogram import Item

_FIGURES = (".png", ".svg")


def check_plot(path: Path | None) -> None:
    """Refuse a figure that could not be written; after the release it would be too late."""
    if path is None:
        return
    if path.suffix.lower() not in _FIGURES:
        raise ParameterError("a figure must end in .png or .svg", f"{str(path)!r}", "Try --plot release.png.")
    if path.is_dir() or not os.access(path if path.exists() else path.absolute().parent, os.W_OK):
        raise ParameterError("a figure must go where it can be written", f"{str(path)!r}", "Choose another path.")


def read_candidates(path: Path) -> list[Item]:
    """Read one candidate per line, or a JSON list of text and whole numbers."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError:
        raise SourceError("the candidates must be a readable file", f"{str(path)!r}", "Check the path.") from None
    except UnicodeDecodeError:
        raise SourceError("the candidates must be UTF-8 text", f"{str(path)!r}", "Save the file as UTF-8.") from None
    if path.suffix.lower() != ".json":
        return [line for line in text.split("\n") if line]
    try:
        listed = json.loads(text)
    except ValueError:
        listed = None
    if not isinstance(listed, list) or not all(isinstance(item, str | int) for item in listed):
        raise SourceError(
            "candidates in JSON must be one list of text or whole numbers",
            f"{str(path)!r}",
            'Write it like ["castle", "harbour"].',
        )
    return listed
