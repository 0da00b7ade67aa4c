r"""How long ``cutline --help`` takes beside ``python -c "import numpy"``; the promise is at most twice as long.

Run it with the Python of the environment: ``python benchmarks/startup.py``. Runs are interleaved, so that a busy machine
slows both.
"""

from __future__ import annotations

import shutil
import statistics
import subprocess
import sys
import sysconfig
import time

ROUNDS = 15
LIMIT = 2.0


def main() -> None:
    script = shutil.which("cutline", path=sysconfig.get_path("scripts"))
    if script is None:
        sys.exit("cutline is not installed in this environment: pip install -e .")
    commands = {
        "python -c 'import numpy'": [sys.executable, "-c", "import numpy"],
        "cutline --help": [script, "--help"],
    }
    seconds: dict[str, list[float]] = {name: [] for name in commands}
    for round_ in range(ROUNDS + 1):
        for name, command in commands.items():
            started = time.perf_counter()
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            if round_:  # the first round only warms the disk cache
                seconds[name].append(time.perf_counter() - started)
    medians = {name: statistics.median(times) for name, times in seconds.items()}
    for name, median in medians.items():
        print(f"{name:26} {1000 * median:6.0f} ms (median of {ROUNDS})")
    numpy, cutline = medians.values()
    print(f"{'ratio':26} {cutline / numpy:6.2f} (limit {LIMIT:g})")


if __name__ == "__main__":
    main()
