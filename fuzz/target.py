r"""What a target is, and how a finding is made: one integer decides a case, whatever is found is replayed from it.

A case is drawn from a `random.Random` of its seed and of a *size*. Shrinking replays the same seed at smaller sizes (fewer
items, shorter lists, smaller files) and keeps the smallest at which something is still found.
"""

from __future__ import annotations

import random
import signal
import tempfile
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from cutline.errors import CutlineError

LARGEST_SIZE = 6


class Found(AssertionError):  # noqa: N818 - what a target looks for
    """A broken promise, in one sentence."""


class TooLongError(Exception):
    """A call used more processor time than any case may."""


@dataclass(frozen=True)
class Case:
    """What a target gets: its random numbers, how large it may grow, and a directory of its own."""

    random: random.Random
    size: int
    directory: Path


Target = Callable[[Case], None]


@dataclass(frozen=True)
class Finding:
    """A case that broke a promise, at the smallest size at which it still does."""

    target: str
    seed: int
    size: int
    what: str

    @property
    def command(self) -> str:
        """The command that shows it again."""
        return f"python -m fuzz --replay {self.target}:{self.seed}:{self.size}"


def run_case(name: str, target: Target, seed: int, size: int, *, seconds: float = 60.0) -> Finding | None:
    """Run one case; whatever it raises is a finding, and so is a case that takes too much processor time."""
    with tempfile.TemporaryDirectory(prefix="cutline-fuzz-") as directory:
        case = Case(random=random.Random(f"{name}:{seed}"), size=size, directory=Path(directory))
        try:
            with processor_time(seconds):
                target(case)
        except Found as found:
            return Finding(name, seed, size, str(found))
        except TooLongError:
            return Finding(name, seed, size, f"more than {seconds:g} s of processor time")
        except Exception:
            return Finding(name, seed, size, f"the target itself failed:\n{traceback.format_exc(limit=-4)}")
    return None


def shrink(target: Target, finding: Finding) -> Finding:
    """Return the finding at the smallest size at which the same seed still finds something."""
    for size in range(1, finding.size):
        smaller = run_case(finding.target, target, finding.seed, size)
        if smaller is not None:
            return smaller
    return finding


@contextmanager
def processor_time(seconds: float) -> Iterator[None]:
    """Interrupt what takes more than this much processor time, which does not depend on who else is at work."""

    def stop(_signal: int, _frame: FrameType | None) -> None:
        raise TooLongError

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def expect_our_words(call: Callable[[], object], what: str) -> object | None:
    """Run a call: return its result, or None if it refused in our words; anything else is found."""
    try:
        return call()
    except CutlineError as error:
        if not error.rule or not (error.value or error.way_out):
            raise Found(f"{what}: a refusal without a value and a way out: {error}") from None
        if len(str(error)) > 2_000 or (not str(error).isascii() and "\ufffd" in str(error)):
            raise Found(f"{what}: an unreadable refusal of {len(str(error))} characters") from None
        return None
    except (Found, TooLongError):
        raise
    except BaseException as error:
        raised = f"{type(error).__name__}: {str(error)[:200]}"
        where = traceback.extract_tb(error.__traceback__)[-1]
        raise Found(f"{what}: {raised} (at {Path(where.filename).name}:{where.lineno})") from None
