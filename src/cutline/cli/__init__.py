r"""The command line: parses, calls the library, prints. It holds no logic of its own.

Results go to standard output, talk and progress to standard error. Exit 0: done (a withheld release is done); 1: refused or
failed; 2: wrong usage; 130: interrupted.
"""

from __future__ import annotations

import sys

__all__ = ["main"]


def main() -> None:
    """Run the command line."""
    for stream in (sys.stdout, sys.stderr):
        # A terminal that cannot show a character shows its number; the release is not lost over it.
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    try:
        from cutline.cli.app import app

        app(prog_name="cutline")
    except KeyboardInterrupt:
        sys.exit(130)
