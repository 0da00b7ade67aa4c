"""A service in a process of its own, and calls to it."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPException

from cutline.demo import write_checkins
from cutline.privacy import Budget
from cutline.service.catalogue import Description
from cutline.service.certificates import create_key
from cutline.service.config import Config
from cutline.service.office import Office
from cutline.service.people import Caller

SERVE = """
import sys
from cutline.service.config import Config
from cutline.service.run import serve

serve(Config.read(sys.argv[1]))
"""


def find_free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def write_settings(folder, *, name="service.toml", tick=0.01, books="books.db", store="service.db"):
    """Write settings for a port of its own; return file and port."""
    port = find_free_port()
    lines = [f"port = {port}", f"tick = {tick}", f'books = "{books}"', f'store = "{store}"']
    (folder / name).write_text("\n".join([*lines, "[sources.checkins]", 'path = "checkins.parquet"', ""]))
    return folder / name, port


def prepare(settings, *, budget, filters=(), answers="now"):
    """Register a small log as ``d`` with settings that were written; return an analyst's token."""
    folder = settings.parent
    write_checkins(folder / "checkins.parquet", users=300)
    create_key(folder / "signing.key")
    office = Office(Config.read(settings))
    office.people.invite("olga", "owner")
    office.people.invite("ann", "analyst")
    listed = {f"without {n}": f"user_id % 100 <> {n}" for n in filters}
    description = Description(
        title="t", source="checkins", user="user_id", items=("venue",), filters=listed, answers=answers
    )
    owner = Caller(person=office.people.find("olga"))
    dataset = office.register(owner, "d", description, version="1", period="1", budget=budget)
    office.catalogue.grant(dataset, "ann", role="analyst")
    ann = Caller(person=office.people.find("ann"))
    _, token = office.people.mint(ann, label="", scopes=["ask", "read"], days=1)
    office.close()
    return token


BUDGET_OF_TEN = Budget(epsilon=4.0, delta=1e-6, releases=10)


@contextmanager
def serving(settings, port):
    """Serve in a process; it is killed at the end if it runs still."""
    process = subprocess.Popen([sys.executable, "-c", SERVE, str(settings)])
    try:
        wait_for(lambda: call(port, "", "GET", "/healthz"))
        yield process
    finally:
        if process.poll() is None:
            os.kill(process.pid, signal.SIGKILL)
        process.wait()


def send(port, token, method, path, body=None):
    """Return status and answer of a call."""
    connection = HTTPConnection("127.0.0.1", port, timeout=60)
    headers = {"content-type": "application/json"} | ({"authorization": f"Bearer {token}"} if token else {})
    try:
        connection.request(method, f"/api/v1{path}", None if body is None else json.dumps(body), headers)
        response = connection.getresponse()
        return response.status, json.loads(response.read())
    finally:
        connection.close()


def call(port, token, method, path, body=None):
    """Return the answer to a call, or None if nobody answered or it was refused."""
    try:
        status, told = send(port, token, method, path, body)
    except (OSError, HTTPException, ValueError):
        return None
    return told if status == 200 else None


def wait_for(found, seconds=60):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        value = found()
        if value:
            return value
        time.sleep(0.005)
    raise AssertionError("it did not come back")
