"""SIGKILL in the middle, again and again: its supervisor starts the service anew, nothing is hidden and nothing is lost."""

import os
import random
import signal
import subprocess
import sys
import threading
import time

import pytest

from cutline.ledger import Ledger
from cutline.privacy import Budget

from .processes import call, prepare, wait_for, write_settings

KILLS = 50
# Starts the service in a child, writes the child's number to a file, and starts another when it dies: what systemd would do.
SUPERVISOR = """
import os, sys
from cutline.service.config import Config
from cutline.service.run import serve

while True:
    child = os.fork()
    if child == 0:
        serve(Config.read(sys.argv[1]))
        os._exit(0)
    with open(sys.argv[2] + ".new", "w") as file:
        file.write(str(child))
    os.replace(sys.argv[2] + ".new", sys.argv[2])
    os.waitpid(child, 0)
"""


@pytest.fixture
def service(tmp_path):
    """Prepare a service with a generous budget; return its folder, its port and an analyst's token."""
    settings, port = write_settings(tmp_path)
    return tmp_path, port, prepare(settings, budget=Budget(epsilon=50.0, delta=1e-6, releases=2000))


@pytest.mark.slow
def test_kills_hide_no_charge_and_lose_no_answer(service):
    folder, port, token = service
    pid_file = folder / "pid"
    answered, done = {}, threading.Event()

    def ask():
        number = 0
        while not done.is_set():
            number += 1
            asked = {
                "item": "venue",
                "purpose": f"question {number}",
                "k": 1 + number % 90,
                "share": f"1/{2000 + number}",
            }
            told = call(port, token, "POST", "/datasets/d/releases", asked)
            if told is not None:
                answered[told["entry"]] = told["items"]

    supervisor = subprocess.Popen([sys.executable, "-c", SUPERVISOR, str(folder / "service.toml"), str(pid_file)])
    client = threading.Thread(target=ask)
    chance = random.Random(0)
    try:
        client.start()
        killed = 0
        for _ in range(KILLS):
            wait_for(lambda: call(port, token, "GET", "/healthz"))
            time.sleep(chance.uniform(0.0, 0.12))
            os.kill(int(pid_file.read_text()), signal.SIGKILL)
            killed += 1
        wait_for(lambda: call(port, token, "GET", "/healthz"))
        seen = len(answered)
        wait_for(lambda: len(answered) > seen)  # it answers still
    finally:
        done.set()
        client.join()
        supervisor.kill()
        os.kill(int(pid_file.read_text()), signal.SIGKILL)
        supervisor.wait()
    assert killed == KILLS
    with Ledger(folder / "books.db") as books:
        assert books.audit().passed
        account = books.show("d:1")
        entries = books.history("d:1", limit=10_000)
        assert account.entries == len(entries) >= len(answered) > 0
        assert sum(entry.charged.rdp for entry in entries) == account.spent.rdp
        for number, items in answered.items():
            kept = books.answer(number).answer
            assert kept is not None
            assert kept["items"] == items
