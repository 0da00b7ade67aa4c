r"""The precision of ball arithmetic, for one thread at a time.

python-flint keeps one precision for the whole process. Two threads that each raise it and put it back leave the wrong one
behind, and compute with the other's in between. Balls stay enclosures at any precision, so no claim breaks by that; but one
number computed twice may then differ in its last bit, and a filter that was made from a budget is no longer found within it.
"""

from __future__ import annotations

import os
import threading

from flint import ctx

_guard = threading.RLock()


class working_precision:  # noqa: N801 - used like flint's own `ctx.workprec`
    """Compute with so many bits until the end of the block; other threads wait for their own."""

    __slots__ = ("_before", "_bits")

    def __init__(self, bits: int) -> None:
        self._bits = bits

    def __enter__(self) -> None:
        _guard.acquire()
        self._before = ctx.prec
        ctx.prec = self._bits

    def __exit__(self, *_: object) -> None:
        ctx.prec = self._before
        _guard.release()


def _start_anew() -> None:
    """Let a forked child compute, whatever thread of its parent was computing."""
    global _guard
    _guard = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_start_anew)
