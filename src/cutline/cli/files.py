r"""The caller's own files: candidates to read and figures to write, checked before a row is read."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from cutline.errors import ParameterError, SourceError
from cutline.histogram import Item

_FIGURES = (".png", ".svg")


def check_plot(path: Path) -> None:
    """Refuse a figure that could not be written; after the release it would be too late."""
    if path.suffix.lower() not in _FIGURES:
        raise ParameterError("a figure must end in .png or .svg", f"{str(path)!r}", "Try --plot release.png.")
    try:
        writable = not path.is_dir() and os.access(path if path.exists() else path.absolute().parent, os.W_OK)
    except (OSError, ValueError):  # a name that is too long
        writable = False
    if not writable:
        raise ParameterError("a figure must go where it can be written", f"{str(path)!r}", "Choose another path.")
    from cutline.plots import load_matplotlib

    load_matplotlib()


def read_list(path: Path, what: str) -> list[Item]:
    """Read one item per line, or a JSON list of text and whole numbers; ``what`` names them, like "the candidates"."""
    text = _read_text(path, what)
    if path.suffix.lower() != ".json":
        return [line for line in text.split("\n") if line]
    listed = _read_json(text)
    if not isinstance(listed, list) or not all(isinstance(item, str | int) for item in listed):
        raise SourceError(
            f"{what} in JSON must be one list of text or whole numbers",
            f"{str(path)!r}",
            'Write it like ["castle", "harbour"].',
        )
    return listed


def _read_text(path: Path, what: str) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except OSError:
        raise SourceError(f"{what} must be a readable file", f"{str(path)!r}", "Check the path.") from None
    except UnicodeDecodeError:
        raise SourceError(f"{what} must be UTF-8 text", f"{str(path)!r}", "Save the file as UTF-8.") from None


def _read_json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None
