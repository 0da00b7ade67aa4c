r"""The command line: parses, calls the library, prints. It holds no logic of its own.

Results go to standard output, talk and progress to standard error. Exit 0: done (a withheld release is done); 1: refused or
failed; 2: wrong usage; 3: done, but not what --require asked; 130: interrupted.
"""

from __future__ import annotations

import codecs
import sys
from typing import Annotated

import typer

from cutline import __version__
from cutline.cli.answers import answer, history
from cutline.cli.cost import cost
from cutline.cli.custody import audit, backup, restore, upgrade
from cutline.cli.demo import demo
from cutline.cli.door import checked_streams, print_json
from cutline.cli.explain import explain
from cutline.cli.inspect import inspect
from cutline.cli.label import label
from cutline.cli.ledger import ledger
from cutline.cli.mechanisms import mechanisms
from cutline.cli.plan import plan
from cutline.cli.plan_labels import plan_labels
from cutline.cli.serve import serve, verify_release
from cutline.cli.top import TopCommand, top
from cutline.cli.verify import verify
from cutline.errors import CutlineError

__all__ = ["app", "main"]

# How the signs that answers and figures are made of are typed where a terminal has no others.
_TYPED = {"±": "+-", "…": "...", "•": "*", "│": "|", "─": "-", "░": "-"} | dict(
    zip("▁▂▃▄▅▆▇█", "_.:-=+*#", strict=True)
)

app = typer.Typer(
    name="cutline",
    help="Which items are at the top of a sensitive log, and where does the top end?\n\n"
    "The answer is released under differential privacy, or withheld.\n\n"
    "\b\nExample:\n  cutline demo\n  cutline top checkins.parquet --user user_id --item venue",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,  # plain help: loading rich would double the start-up time
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in (demo, top, cost, plan, explain, inspect, mechanisms, label, plan_labels, verify):
    app.command(cls=TopCommand if command is top else None)(command)
app.command("pate", hidden=True)(label)  # what it was called in 0.1; for one version more
for owners_command in (audit, backup, restore, upgrade):
    ledger.command()(owners_command)
ledger.command()(history)
ledger.command()(answer)
app.command("verify-release")(verify_release)
app.add_typer(ledger)
app.add_typer(serve)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"cutline {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version and exit."),
    ] = False,
) -> None:
    pass


def _spell(error: UnicodeError) -> tuple[str | bytes, int]:
    """Return what a poor terminal shows of what it cannot: signs of ours as they were typed before, else the number."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    first, end = error.object[error.start], error.start + 1
    return _TYPED.get(first) or first.encode("ascii", "backslashreplace").decode(), end


def main() -> None:
    """Run the command line."""
    codecs.register_error("cutline-spell", _spell)
    for stream in (sys.stdout, sys.stderr):
        # The release is not lost over a character that a terminal cannot show.
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="cutline-spell")
    with checked_streams():
        try:
            app(prog_name="cutline")
        except KeyboardInterrupt:
            sys.exit(130)
        except SystemExit as end:
            # The parser tells people on standard error what is wrong with their options; programs read it here.
            told = getattr(end.__context__, "format_message", None)
            if told is not None and "--json" in sys.argv[1:]:
                rule, way_out = "a command must be called as its help says", "Try it with -h."
                print_json({"error": CutlineError(rule, told(), way_out).to_dict()})
            raise
