r"""``python -m fuzz [--minutes 20] [--seed S] [TARGET ...]``, or ``--replay TARGET:SEED[:SIZE]``.

Targets take turns until the time is up. Progress goes to standard error, findings to standard output, each with the
command that shows it again; the exit code is 1 if there is one.
"""

from __future__ import annotations

import argparse
import secrets
import sys
import time
from collections import Counter
from collections.abc import Sequence

from fuzz.registry import TARGETS
from fuzz.target import LARGEST_SIZE, Finding, run_case, shrink

_TURN = 5.0  # seconds before the next target takes its turn
_MOST_FINDINGS = 5  # of one target; the others would be the same again


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, print what was found, and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m fuzz", description=__doc__.split("\n\n")[1])
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=f"of {', '.join(TARGETS)}; all by default")
    parser.add_argument("--minutes", type=float, default=20.0, help="how long, 20 by default")
    parser.add_argument(
        "--seed", type=int, default=None, help="of the first case; by default a random one, which is printed"
    )
    parser.add_argument("--replay", metavar="TARGET:SEED[:SIZE]", help="show one case again")
    asked = parser.parse_args(arguments)
    unknown = [name for name in asked.targets if name not in TARGETS]
    if unknown:
        parser.error(f"no target is called {unknown[0]}; there are {', '.join(TARGETS)}")
    if asked.replay:
        return replay(parser, asked.replay)
    seed = secrets.randbelow(2**32) if asked.seed is None else asked.seed
    print(f"seed {seed}", file=sys.stderr)
    findings = run(asked.targets or list(TARGETS), seed=seed, seconds=60 * asked.minutes)
    for finding in findings:
        print(f"{finding.target}: {finding.what}\n    {finding.command}")
    print(f"{len(findings)} findings" if len(findings) != 1 else "1 finding", file=sys.stderr)
    return 1 if findings else 0


def run(names: Sequence[str], *, seed: int, seconds: float, turn: float = _TURN) -> list[Finding]:
    """Let the targets take turns for that long, and return the findings, reduced."""
    ends, cases, found = time.monotonic() + seconds, Counter[str](), Counter[str]()
    findings: list[Finding] = []
    while time.monotonic() < ends and any(found[name] < _MOST_FINDINGS for name in names):
        for name in names:
            stop = min(time.monotonic() + turn, ends)
            while found[name] < _MOST_FINDINGS:
                number = cases[name]
                cases[name] += 1
                finding = run_case(name, TARGETS[name], seed + number, 1 + number % LARGEST_SIZE)
                if finding is not None:
                    found[name] += 1
                    findings.append(shrink(TARGETS[name], finding))
                    print(f"found by {name}: {findings[-1].command}", file=sys.stderr)
                if time.monotonic() >= stop:
                    break
        done = ", ".join(f"{name} {cases[name]}" for name in names)
        print(
            f"{max(0.0, ends - time.monotonic()):6.0f} s left; cases: {done}; findings: {len(findings)}",
            file=sys.stderr,
        )
    return findings


def replay(parser: argparse.ArgumentParser, words: str) -> int:
    """Run one case again."""
    name, *numbers = words.split(":")
    if name not in TARGETS or not numbers or not all(number.isdecimal() for number in numbers[:2]):
        parser.error(f"--replay takes TARGET:SEED[:SIZE]; got {words!r}")
    sizes = [int(numbers[1])] if len(numbers) > 1 else range(1, LARGEST_SIZE + 1)
    for size in sizes:
        finding = run_case(name, TARGETS[name], int(numbers[0]), size)
        if finding is not None:
            print(f"{finding.target}: {finding.what}\n    {finding.command}")
            return 1
    print("nothing was found", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
