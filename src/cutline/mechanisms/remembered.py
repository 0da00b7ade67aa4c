r"""Calibrations that took long, remembered on disk by their public parameters.

A file holds public numbers only: what was asked, and what the search found. It is never trusted: the parts are built again
from the numbers and held against the budget by the rule itself, as if someone else had proposed them. A file that is damaged,
foreign or written by another version can so waste a budget or time, and never break a promise.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TypeAlias, TypeVar

from cutline.errors import CutlineError

_VERSION = 1  # of the search: a better one does not take the answers of a worse one
_LONGEST = 4096  # bytes

_T = TypeVar("_T")

Public: TypeAlias = Mapping[str, str | int | float]


def remember(
    asked: Public,
    *,
    search: Callable[[], Mapping[str, float]],
    build: Callable[[Mapping[str, float]], _T],
    fits: Callable[[_T], bool],
) -> _T:
    """Return what is built from remembered numbers if it fits, and else from those that a search finds, which are kept.

    ``search`` takes long and returns numbers, ``build`` makes the parts of them, ``fits`` says whether those keep the promise.
    """
    path = directory() / f"{_digest(asked)}.json"
    kept = _read(path, asked)
    if kept is not None:
        # Numbers from a file can be anything, so building may fail in any of our ways, or on a name that is missing.
        with suppress(CutlineError, KeyError, ValueError, OverflowError):
            built = build(kept)
            if fits(built):
                return built
    found = search()
    _write(path, asked, found)
    return build(found)


def directory() -> Path:
    """Return where calibrations are kept: in the user's cache directory."""
    home = os.environ.get("XDG_CACHE_HOME", "")
    base = Path(home) if os.path.isabs(home) else Path.home() / ".cache"
    return base / "cutline" / "calibrations"


def _digest(asked: Public) -> str:
    text = json.dumps({"version": _VERSION, **asked}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _read(path: Path, asked: Public) -> dict[str, float] | None:
    """Return the numbers of a file, or None if it is not there, not ours, or not about what is asked."""
    try:
        with path.open("rb") as file:
            plain = json.loads(file.read(_LONGEST))
    except (OSError, ValueError, RecursionError):
        return None
    if not isinstance(plain, dict) or plain.get("version") != _VERSION or plain.get("asked") != dict(asked):
        return None
    found = plain.get("found")
    if not isinstance(found, dict):
        return None
    numbers = {str(name): float(v) for name, v in found.items() if isinstance(v, int | float)}
    return numbers if all(math.isfinite(v) for v in numbers.values()) else None


def _write(path: Path, asked: Public, found: Mapping[str, float]) -> None:
    """Keep the numbers, for this user alone; where that is not possible they are searched again another time."""
    with suppress(OSError):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        text = json.dumps({"version": _VERSION, "asked": dict(asked), "found": dict(found)})
        # A temporary file of mode 0600 beside it, then renamed: a reader never sees half a file.
        handle, name = tempfile.mkstemp(dir=path.parent, suffix=".part")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text)
            os.replace(name, path)
        except OSError:
            os.unlink(name)
            raise
