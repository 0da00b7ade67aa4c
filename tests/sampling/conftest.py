from collections.abc import Callable, Iterable

import numpy as np
import pytest


class Script:
    """A source that hands out given words, counts them, and fails when asked for more."""

    seeded = True

    def __init__(self, words: Iterable[int]) -> None:
        self._words = [int(word) for word in words]
        self.used = 0

    def words(self, n: int) -> np.ndarray:
        assert self.used + n <= len(self._words), "more words drawn than scripted"
        taken = self._words[self.used : self.used + n]
        self.used += n
        return np.array(taken, dtype=np.uint64)


@pytest.fixture(scope="session")  # a class without state: property tests may share it
def script() -> Callable[[Iterable[int]], Script]:
    return Script
