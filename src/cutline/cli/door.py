r"""The last door before the screen: results and refusals are printed, everything else is kept in.

An exception that Cutline did not expect may quote a row, so neither its text nor its traceback is ever shown. Standard output
may be closed or full: whoever paid for an answer is then told where it is kept.
"""

from __future__ import annotations

import errno
import functools
import json
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, ParamSpec, TextIO

import typer

from cutline.errors import CutlineError
from cutline.errors import printable as printable  # every command prints through this door

P = ParamSpec("P")

NOT_AS_REQUIRED = 3  # exit code of an answer that is printed, but has not the status that --require asked for
UNEXPECTED = (
    "something failed that should not have; the details are withheld, they may quote rows",
    "",
    "Check the installation with `cutline demo`; if that works, report the command without its data.",
)


class OutputError(CutlineError):
    """Standard output did not take the result."""


class _Stream:
    """Standard output or error, which may be closed or full: that is an `OutputError` for results, and talk is just lost."""

    def __init__(self, stream: TextIO | None, *, talk: bool) -> None:
        self._stream, self._talk = stream, talk

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        self._try(lambda stream: stream.write(text))
        return len(text)

    def flush(self) -> None:
        self._try(lambda stream: stream.flush())

    def _try(self, do: Callable[[TextIO], object]) -> None:
        try:
            if self._stream is None:
                raise OSError(errno.EBADF, "closed")
            do(self._stream)
        except OSError as error:
            if not self._talk:
                reason = {errno.EPIPE: "a closed pipe", errno.ENOSPC: "a full disk", errno.EBADF: "a closed one"}
                value = reason.get(error.errno or 0, "one that cannot be written")
                raise OutputError("standard output must take what is printed", value) from None


@contextmanager
def checked_streams() -> Iterator[None]:
    """Notice in the body what standard output does not take; nothing is left to be flushed and to fail at the very end."""
    for number in range(3):  # a file that is opened must not become the standard output of a library
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    real = sys.stdout, sys.stderr
    checked: Any = (_Stream(sys.stdout, talk=False), _Stream(sys.stderr, talk=True))
    sys.stdout, sys.stderr = checked
    try:
        yield
    except OutputError as lost:
        typer.echo(f"cutline: {lost}", err=True)
        sys.exit(1)
    finally:
        sys.stdout, sys.stderr = real
        for stream in real:
            try:
                if stream is not None:
                    stream.flush()
            except OSError:
                with suppress(OSError):
                    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def guarded(command: Callable[P, None]) -> Callable[P, None]:
    """Turn every way a command can end into an exit code and a sentence."""

    @functools.wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        as_json = bool(kwargs.get("as_json"))
        try:
            command(*args, **kwargs)
            sys.stdout.flush()
        except typer.Exit:
            raise
        except KeyboardInterrupt:
            typer.echo("Interrupted. Nothing more was released.", err=True)
            raise typer.Exit(130) from None
        except OutputError as lost:
            if lost.way_out or lost.value != "a closed pipe":  # whoever reads the first lines only has lost nothing
                _say(lost)
            raise typer.Exit(1) from None
        except CutlineError as error:
            _refuse(_in_options(error, kwargs), as_json)
        except Exception:
            _refuse(CutlineError(*UNEXPECTED), as_json)

    return run


def deliver(
    plain: Mapping[str, Any],
    show: Callable[[], None],
    *,
    as_json: bool,
    plot: Path | None = None,
    draw: Callable[[Path], None] | None = None,
    unsettled: CutlineError | None = None,
    kept: str = "",
) -> None:
    """Print a result: one JSON object, which also tells whether the figure was written, or text, and talk on standard error.

    Parameters
    ----------
    plain, show
        The result as plain data, and what prints it as text.
    plot, draw
        Where a figure goes, and what draws it.
    unsettled
        What the books could not be told about a result that is paid for in full: it is printed first.
    kept
        What to tell if standard output does not take the result.
    """
    failures: list[CutlineError] = []
    figure: dict[str, Any] = {}
    if as_json and plot is not None and draw is not None:
        failures += _try_to_draw(draw, plot)
        figure = {"plot": {"file": str(plot), "error": failures[-1].to_dict() if failures else None}}
    try:
        if as_json:
            print_json({**plain, **figure})
        else:
            show()
        sys.stdout.flush()
    except OutputError as lost:
        raise OutputError(lost.rule, lost.value, kept) from None
    if not as_json and plot is not None and draw is not None:
        failures += _try_to_draw(draw, plot)
    failures += [] if unsettled is None else [unsettled]
    if failures:
        for failure in () if as_json else failures:
            _say(failure)
        raise typer.Exit(1)


def _try_to_draw(draw: Callable[[Path], None], path: Path) -> list[CutlineError]:
    """Draw a figure of what is public, and return why it could not be done, if so; it never comes instead of the result."""
    try:
        draw(path)
    except CutlineError as error:
        return [error]
    except Exception:
        return [CutlineError("a figure must go where it can be written", f"{str(path)!r}", "Choose another path.")]
    typer.echo(f"Figure written to {path}", err=True)
    return []


def _in_options(error: CutlineError, options: Mapping[str, object]) -> CutlineError:
    """Return a refusal in the words of the command line: ``max_k=0`` is ``--max-k 0`` there."""
    names = "|".join(sorted(options, key=len, reverse=True)) or "$"
    pattern = re.compile(rf"(?<![\w'\"-])({names})=('[^']*'|\S*[^\s.,;:)])")

    def option(match: re.Match[str]) -> str:
        value = match[2]
        bare = value[1:-1] if value[0] == "'" and len(value) > 2 and " " not in value else value
        return f"--{match[1].replace('_', '-')} {bare}"

    return CutlineError(*(pattern.sub(option, part) for part in (error.rule, error.value, error.way_out)))


def _refuse(error: CutlineError, as_json: bool) -> None:
    if as_json:
        with suppress(OutputError):
            print_json({"error": error.to_dict()})
            sys.stdout.flush()
            raise typer.Exit(1) from None
    _say(error)
    raise typer.Exit(1) from None


def _say(error: CutlineError) -> None:
    typer.echo(f"cutline: {printable(str(error))}", err=True)


def print_json(plain: Mapping[str, Any]) -> None:
    """Print one object in ASCII: control characters are escaped and no terminal can fail on it."""
    sys.stdout.write(json.dumps(plain, indent=2, allow_nan=False) + "\n")
