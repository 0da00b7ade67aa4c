"""Medians of interleaved runs: what is compared is measured in turn, so that a busy machine slows all alike."""

import statistics
import time
from collections.abc import Callable


def interleave(runs: dict[str, Callable[[], object]], *, repeats: int) -> dict[str, float]:
    """Run each once to warm up, then all in turn, and return the median seconds."""
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for repeat in range(repeats + 1):
        for name, run in runs.items():
            started = time.perf_counter()
            run()
            if repeat:
                seconds[name].append(time.perf_counter() - started)
    return {name: statistics.median(times) for name, times in seconds.items()}
