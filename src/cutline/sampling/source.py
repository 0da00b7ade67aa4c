r"""Where random bits come from.

A source hands out independent, uniform 64-bit words and says whether somebody could reproduce them. A release
made from a seeded source is a simulation: it says so, and the ledger refuses it.
"""

from __future__ import annotations

import os
from typing import Protocol, runtime_checkable

import numpy as np

from cutline.arrays import WordArray
from cutline.errors import ParameterError


@runtime_checkable
class Source(Protocol):
    """A stream of independent, uniform 64-bit words; ``seeded`` if anyone could reproduce them."""

    @property
    def seeded(self) -> bool:
        """Whether the words follow from a seed."""

    def words(self, n: int) -> WordArray:
        """Return the next ``n`` words of the stream; the array may be read-only."""


class SystemSource:
    """The operating system's cryptographic generator: the only source of a real release.

    Examples
    --------
    >>> SystemSource().words(3).shape, SystemSource()
    ((3,), SystemSource())
    """

    __slots__ = ()
    seeded = False

    def words(self, n: int) -> WordArray:
        """Return ``n`` fresh words."""
        return np.frombuffer(os.urandom(8 * n), dtype=np.uint64)

    def __repr__(self) -> str:
        return "SystemSource()"


class SeededSource:
    """Reproducible words for tests and simulations, the same for the same seed; never for a real release.

    Examples
    --------
    >>> bool((SeededSource(7).words(4) == SeededSource(7).words(4)).all()), SeededSource(7)
    (True, SeededSource())
    """

    __slots__ = ("_stream",)
    seeded = True

    def __init__(self, seed: int) -> None:
        if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
            raise ParameterError(
                "a seed must be a whole number of at least 0",
                type(seed).__name__,
                "Try SeededSource(0), or rng=None for the operating system's source.",
            )
        self._stream = np.random.PCG64(int(seed))

    def words(self, n: int) -> WordArray:
        """Return the next ``n`` words; asking twice for n/2 gives the same words as asking once for n."""
        return self._stream.random_raw(n)

    def __repr__(self) -> str:
        return "SeededSource()"


def resolve(rng: Source | None) -> Source:
    """Return the source to draw from, the operating system's for None; a numpy generator of floats is refused."""
    if rng is None:
        return SystemSource()
    # The two of this file first: whether a class follows a protocol takes Python as long as a small draw.
    if isinstance(rng, type) or not isinstance(rng, (SystemSource, SeededSource, Source)):
        raise ParameterError(
            "rng must be a source of random words",
            f"rng of type {type(rng).__name__}",
            "Pass None for the operating system's source, or SeededSource(seed) to simulate.",
        )
    return rng
