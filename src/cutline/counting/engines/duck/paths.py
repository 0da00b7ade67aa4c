r"""From a path or a glob to the files of one log.

A path that exists is taken literally, whatever characters it holds; otherwise ``*``, ``?``, ``[...]`` and ``**`` are
patterns. The format is told by the extension, never by the content.
"""

from __future__ import annotations

import glob
import os
from dataclasses import dataclass
from pathlib import Path

from cutline.errors import SourceError

_FORMATS = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".csv": "csv",
    ".tsv": "csv",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Files:
    """The files of one log, all of one format."""

    paths: tuple[str, ...]
    format: str
    suffix: str  # with the dot, without .gz
    gzip: bool


def find_files(source: str | os.PathLike[str]) -> Files:
    """Resolve a path or a glob, or refuse it."""
    name = os.fspath(source)
    if not isinstance(name, str) or not name or "\0" in name:
        raise SourceError(
            "a path must be a non-empty text", repr(name), "Pass the path of a parquet, CSV or JSON file."
        )
    if "://" in name:
        raise SourceError("the log must be a local file", repr(name), "Download it first, or pass a pyarrow table.")
    paths = _resolve(name)
    kinds = {_kind(path) for path in paths}
    if len(kinds) > 1:
        raise SourceError(
            "all files of one log must have one format", repr(name), "Use a narrower pattern, such as '*.parquet'."
        )
    suffix, zipped = kinds.pop()
    return Files(paths=paths, format=_FORMATS[suffix], suffix=suffix, gzip=zipped)


def _resolve(name: str) -> tuple[str, ...]:
    path = os.path.abspath(os.path.expanduser(name))
    if os.path.isfile(path):
        return (path,)
    if os.path.isdir(path):
        raise SourceError(
            "the log must be a file, not a directory", repr(name), f"Try {os.path.join(name, '*.parquet')!r}."
        )
    found = (
        sorted(match for match in glob.glob(path, recursive=True) if os.path.isfile(match))
        if glob.has_magic(path)
        else []
    )
    if not found:
        raise SourceError("the log must exist", repr(name), "Check the path; a pattern must match at least one file.")
    return tuple(found)


def _kind(path: str) -> tuple[str, bool]:
    suffixes = [suffix.lower() for suffix in Path(path).suffixes]
    zipped = suffixes[-1:] == [".gz"]
    suffix = (suffixes[-2:-1] if zipped else suffixes[-1:]) or [""]
    if suffix[0] not in _FORMATS or (zipped and _FORMATS[suffix[0]] == "parquet"):
        raise SourceError(
            "the extension must be .parquet, .csv, .tsv, .json, .jsonl or .ndjson (text formats also with .gz)",
            repr(path),
            "Rename the file, or read it into a pandas, polars or pyarrow table first.",
        )
    return suffix[0], zipped
