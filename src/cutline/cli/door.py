r"""The last door before the screen: refusals are printed, everything else is kept in.

An exception that Cutline did not expect may quote a row, so neither its text nor its traceback is ever shown.
"""

from __future__ import annotations

import functools
import json
import sys
from collections.abc import Callable, Mapping
from typing import Any, ParamSpec

import typer

from cutline.errors import CutlineError

P = ParamSpec("P")

UNEXPECTED = (
    "something failed that should not have; the details are withheld, they may quote rows",
    "",
    "Check the installation with `cutline demo`; if that works, report the command without its data.",
)


def guarded(command: Callable[P, None]) -> Callable[P, None]:
    """Turn every way a command can end into an exit code and a sentence."""

    @functools.wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        as_json = bool(kwargs.get("as_json"))
        try:
            command(*args, **kwargs)
        except (typer.Exit, BrokenPipeError):
            raise
        except KeyboardInterrupt:
            typer.echo("Interrupted. Nothing more was released.", err=True)
            raise typer.Exit(130) from None
        except CutlineError as error:
            _refuse(error, as_json)
        except Exception:
            _refuse(CutlineError(*UNEXPECTED), as_json)

    return run


def _refuse(error: CutlineError, as_json: bool) -> None:
    if as_json:
        print_json({"error": error.to_dict()})
    else:
        from cutline.cli.show import printable

        typer.echo(f"cutline: {printable(str(error))}", err=True)
    raise typer.Exit(1) from None


def print_json(plain: Mapping[str, Any]) -> None:
    """Print one object in ASCII: control characters are escaped and no terminal can fail on it."""
    sys.stdout.write(json.dumps(plain, indent=2, allow_nan=False) + "\n")
