"""The service against a bare FastAPI route in the same run, against the library's own loop, and its memory over many requests.

Usage: python benchmarks/service.py [--rows 1000000] [--requests 10000]
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import multiprocessing
import os
import socket
import statistics
import tempfile
import threading
import time
from collections.abc import Sequence
from http.client import HTTPConnection
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import uvicorn
from fastapi import FastAPI

import cutline
from cutline.ledger import Ledger
from cutline.privacy import Budget
from cutline.service.catalogue import Description
from cutline.service.certificates import create_key
from cutline.service.config import Config
from cutline.service.office import Office
from cutline.service.people import Caller
from cutline.service.run import serve
from cutline.service.web import Pace

CLIENTS = 4
QUESTIONS = 12
WAITING = 8  # clients that ask at once, with the tick that is the default


def serve_bare(port: int) -> None:
    """Serve one route that returns a constant: the floor for any service of this kind."""
    app = FastAPI()

    @app.post("/bare")
    def bare(body: dict[str, object]) -> dict[str, object]:
        return {"asked": body}

    uvicorn.run(app, host="127.0.0.1", port=port, log_level="warning", access_log=False)


def serve_service(path: Path, tick: float) -> None:
    """Serve without a limit on the pace, which is not what is measured."""
    Pace.count = lambda *_: None  # type: ignore[method-assign]
    serve(dataclasses.replace(Config.read(path), tick=tick))


def prepare(folder: Path, port: int, rows: int) -> str:
    """Write a log of so many rows and a service over it; return an analyst's token."""
    random = np.random.default_rng(0)
    users = random.integers(0, rows // 10, rows)
    items = np.minimum(random.zipf(1.3, rows), 50_000)
    pq.write_table(pa.table({"user": users, "item": items}), folder / "log.parquet")
    create_key(folder / "signing.key")
    settings = f'port = {port}\n[sources.log]\npath = "log.parquet"\n'
    (folder / "service.toml").write_text(settings)
    office = Office(Config.read(folder / "service.toml"))
    office.people.invite("olga", "owner")
    office.people.invite("ann", "analyst")
    owner, ann = (Caller(person=person) for person in (office.people.find("olga"), office.people.find("ann")) if person)
    description = Description(title="t", source="log", user="user", items=("item",))
    budget = Budget(epsilon=50.0, delta=1e-6, releases=1000)
    dataset = office.register(owner, "d", description, version="1", period="1", budget=budget)
    office.catalogue.grant(dataset, "ann", role="analyst")
    _, token = office.people.mint(ann, label="", scopes=["ask", "read"], days=1)
    office.close()
    return token


class Connection:
    """One connection that posts and measures."""

    def __init__(self, port: int, path: str, token: str = "") -> None:
        self.connection = HTTPConnection("127.0.0.1", port, timeout=600)
        self.path, self.headers = path, {"content-type": "application/json", "authorization": f"Bearer {token}"}

    def post(self, body: dict[str, object]) -> float:
        begun = time.perf_counter()
        self.connection.request("POST", self.path, json.dumps(body), self.headers)
        response = self.connection.getresponse()
        response.read()
        if response.status != 200:
            raise RuntimeError(f"status {response.status}")
        return time.perf_counter() - begun


def load(port: int, path: str, token: str, body: dict[str, object], requests: int) -> list[float]:
    """Post from several clients at once; return how long each request took."""
    times: list[float] = []

    def work() -> None:
        caller = Connection(port, path, token)
        times.extend([caller.post(body) for _ in range(requests // CLIENTS)])

    threads = [threading.Thread(target=work) for _ in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return times


def p95(times: list[float]) -> float:
    return statistics.quantiles(times, n=20)[-1]


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


def wait_for(port: int) -> None:
    for _ in range(600):
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    raise RuntimeError("nobody listens")


def memory(pid: int) -> float:
    """Return the resident memory of a process in megabytes."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGESIZE") / 1e6


def library_loop(folder: Path) -> float:
    """Return releases a minute of `cutline.top` with a ledger, in one process."""
    with Ledger(folder / "own.db") as books:
        books.create("d", budget=Budget(epsilon=50.0, delta=1e-6, releases=1000), owner="olga", unit="user")
        ask = {"user": "user", "item": "item", "k": 10, "ledger": books, "dataset": "d", "data_version": "1"}
        cutline.top(str(folder / "log.parquet"), **ask, share="1/999")
        begun = time.perf_counter()
        for number in range(QUESTIONS):
            cutline.top(str(folder / "log.parquet"), **ask, share=f"1/{1000 + number}")
        return 60 * QUESTIONS / (time.perf_counter() - begun)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--requests", type=int, default=10_000)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder, bare_port, port = Path(name), free_port(), free_port()
        token = prepare(folder, port, given.rows)
        spawn = multiprocessing.get_context("spawn")
        bare = spawn.Process(target=serve_bare, args=(bare_port,))
        service = spawn.Process(target=serve_service, args=(folder / "service.toml", 0.01))
        bare.start()
        service.start()
        asked: dict[str, object] = {"item": "item", "k": 10}
        try:
            wait_for(bare_port)
            wait_for(port)
            quotes = "/api/v1/datasets/d/quotes"
            load(port, quotes, token, asked, 40)  # the first one works the price out
            rounds = []
            for _ in range(3):
                floor = p95(load(bare_port, "/bare", "", asked, 1000))
                rounds.append((p95(load(port, quotes, token, asked, 1000)), floor))
            ratio = statistics.median(quote / floor for quote, floor in rounds)
            print(f"quote p95 {rounds[1][0] * 1e3:.1f} ms, bare route {rounds[1][1] * 1e3:.1f} ms: {ratio:.2f}x")
            before = memory(service.pid or 0)
            load(port, quotes, token, asked, given.requests)
            after = memory(service.pid or 0)
            print(f"memory {before:.0f} MB, after {given.requests:,} requests {after:.0f} MB")
            own = library_loop(folder)
            ask_many(port, token, asked, numbers=[-1])
            theirs = ask_many(port, token, asked, numbers=range(QUESTIONS))
            print(f"releases a minute, one at a time: service {theirs:.0f}, library {own:.0f}: {own / theirs:.2f}x")
        finally:
            bare.kill()
            service.kill()
            service.join()
        ticking = spawn.Process(target=serve_service, args=(folder / "service.toml", 1.0))
        ticking.start()
        try:
            wait_for(port)
            ask_many(port, token, asked, numbers=[100])
            theirs = ask_many(port, token, asked, numbers=range(101, 101 + 4 * WAITING), clients=WAITING)
            print(f"releases a minute, {WAITING} clients, a tick of 1 s: service {theirs:.0f}: {own / theirs:.2f}x")
        finally:
            ticking.kill()


def ask_many(port: int, token: str, asked: dict[str, object], *, numbers: Sequence[int], clients: int = 1) -> float:
    """Ask different questions from so many clients at once; return releases a minute."""

    def ask(mine: Sequence[int]) -> None:
        caller = Connection(port, "/api/v1/datasets/d/releases", token)
        for number in mine:
            caller.post(asked | {"share": f"1/{1000 + number}"})

    threads = [threading.Thread(target=ask, args=(numbers[first::clients],)) for first in range(clients)]
    begun = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return 60 * len(numbers) / (time.perf_counter() - begun)


if __name__ == "__main__":
    main()
