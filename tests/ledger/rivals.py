"""Real processes at one ledger: a crowd that competes, and one that is killed at a chosen point.

Run as a script, so that nothing of the test run is inherited. It forks after its imports: every child is a process of its own
with a connection of its own, and the crowd starts together when the gate opens.
"""

import json
import os
import signal
import sys
from types import SimpleNamespace

import psycopg  # noqa: F401 - once, before the crowd forks
import sqlalchemy.dialects.postgresql.psycopg  # noqa: F401 - once, before the crowd forks

from cutline.errors import BudgetError
from cutline.ledger import Ledger
from cutline.privacy import Cost

GRANTED, REFUSED, FAILED = 0, 3, 4


def compete(url: str, dataset: str, cost: Cost, processes: int) -> dict[str, int]:
    """Let that many processes reserve and settle once, at the same time."""
    gate, opener = os.pipe()
    children = []
    for _ in range(processes):
        child = os.fork()
        if child == 0:
            os.close(opener)
            os.read(gate, 1)  # returns when the last writer of the pipe is gone
            os._exit(attempt(url, dataset, cost))
        children.append(child)
    os.close(opener)
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    os.close(gate)
    return {"granted": codes.count(GRANTED), "refused": codes.count(REFUSED), "all": len(codes)}


def attempt(url: str, dataset: str, cost: Cost) -> int:
    try:
        with Ledger(url) as ledger:
            reservation = ledger.reserve(cost, dataset=dataset, mechanism={"name": "rival"})
            ledger.settle(reservation, SimpleNamespace(cost=cost, seeded=False))
    except BudgetError:
        return REFUSED
    except BaseException:
        return FAILED
    return GRANTED


class Doomed(Ledger):
    """A ledger whose process dies between the run and the settling."""

    def settle(self, reservation, release):
        die()


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def killed(url: str, dataset: str, cost: Cost, point: str) -> int:
    """Kill a process after the reserve, during the run, or after the run; return how it ended."""
    child = os.fork()
    if child == 0:
        kind = Doomed if point == "settle" else Ledger

        def run(_histogram):
            if point == "run":
                die()
            return SimpleNamespace(cost=cost, seeded=False)

        mechanism = SimpleNamespace(cost=cost, describe=lambda: {"name": point}, release=run)
        kind(url).release(mechanism, die if point == "reserve" else dict, dataset=dataset)
        os._exit(GRANTED)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def main() -> None:
    order = json.load(sys.stdin)
    cost = Cost.from_dict(order["cost"])
    if "processes" in order:
        answer = [compete(order["url"], name, cost, order["processes"]) for name in order["datasets"]]
    else:
        answer = [killed(order["url"], order["dataset"], cost, point) for point in order["points"]]
    json.dump(answer, sys.stdout)


if __name__ == "__main__":
    main()
