r"""Processes that pay and settle on one ledger, killed at random: the books audit clean, nothing is lost, nothing is overspent.

A worker writes a line for every grant it was given, after the ledger returned. Whatever was acknowledged must be on the books.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from cutline.errors import BudgetError, LedgerUnavailable
from cutline.ledger import Ledger
from cutline.mechanisms import StableTopK
from cutline.privacy import Budget
from cutline.sampling import SystemSource
from fuzz.target import Case, Found

_BUDGET = Budget(epsilon=1.0, delta=1e-6, releases=30)
_PATIENCE = 60.0  # seconds until a worker must have begun


def kills(case: Case) -> None:
    """Start a few workers, kill each after a random time, let the last one finish, and look at the books."""
    path = case.directory / "books.db"
    with Ledger(path) as ledger:
        ledger.create("visits", budget=_BUDGET, owner="ann")
    acknowledged: set[str] = set()
    for turn in range(1 + case.size // 2):
        logs = [case.directory / f"log{turn}.{i}" for i in range(2)]
        workers = [_start(path, log) for log in logs]
        _wait_for(logs, workers)
        for worker in workers:
            time.sleep(case.random.uniform(0.0, 0.15))
            worker.send_signal(signal.SIGKILL)
            worker.wait()
        for log in logs:
            acknowledged |= {line for line in log.read_text().split("\n")[:-1] if line.isdecimal()}
    with Ledger(path) as ledger:
        audit = ledger.audit()
        account = ledger.show("visits")
        entries = {str(entry.id) for entry in ledger.history("visits", limit=10_000)}
    if audit.findings:
        raise Found(f"the books do not audit clean after kills: {audit.findings}")
    if not account.spent.within(account.limits):
        raise Found("more was granted than the budget holds")
    if not acknowledged <= entries:
        raise Found(f"{len(acknowledged - entries)} acknowledged grants are not on the books")


def _start(path: Path, log: Path) -> subprocess.Popen[bytes]:
    log.touch()
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.Popen([sys.executable, "-m", "fuzz.kills", str(path), str(log)], env=environment)


def _wait_for(logs: list[Path], workers: list[subprocess.Popen[bytes]]) -> None:
    ends = time.monotonic() + _PATIENCE
    while any(not log.stat().st_size and worker.poll() is None for log, worker in zip(logs, workers, strict=True)):
        if time.monotonic() > ends:
            for worker in workers:
                worker.kill()
            raise Found("a worker did not begin")
        time.sleep(0.01)


def work(path: Path, log: Path) -> None:
    """Reserve and settle until the budget is spent; write every grant down."""
    from cutline.histogram import OpenHistogram

    with Ledger(path) as ledger, log.open("a") as written:
        account = ledger.show("visits")
        mechanism = StableTopK.calibrate(account.budget, limits=account.filter, max_k=20)
        histogram = OpenHistogram.from_counts({"castle": 900, "kiosk": 3}, max_k=20)
        written.write("begun\n")
        written.flush()
        while True:
            try:
                reservation = ledger.reserve(mechanism.cost, dataset="visits", mechanism=mechanism.describe())
            except (BudgetError, LedgerUnavailable):
                return
            written.write(f"{reservation.id}\n")
            written.flush()
            ledger.settle(reservation, mechanism.release(histogram, rng=SystemSource()))


if __name__ == "__main__":
    work(Path(sys.argv[1]), Path(sys.argv[2]))
