"""A service over generated check-ins, with one person of each role."""

import dataclasses
import datetime as dt

import pytest
from starlette.testclient import TestClient

from cutline.demo import write_checkins
from cutline.service.app import create_app
from cutline.service.asking import Desk
from cutline.service.certificates import create_key
from cutline.service.config import Config
from cutline.service.office import Office
from cutline.service.people import Caller

ORIGIN = "http://127.0.0.1:8765"
PASSWORD = "a long sentence for tests"
NAMES = {"admin": "ada", "owner": "olga", "analyst": "ann", "reviewer": "rita"}
DATASET = {
    "name": "check-ins",
    "title": "Check-ins of one city",
    "source": "checkins",
    "user": "user_id",
    "items": ["venue"],
    "filters": {"in March": "day < DATE '2024-04-01'"},
    "groups": {"day": {"values": ["2024-03-01", "2024-03-02"], "max_groups_per_user": 1}},
    "version": "2024-06",
    "period": "2024",
    "budget": {"epsilon": 4.0, "delta": 1e-6, "questions": 10},
}


class Clock:
    """A clock that tests move."""

    def __init__(self):
        self.now = dt.datetime(2026, 11, 16, 12, tzinfo=dt.UTC)

    def __call__(self):
        return self.now

    def wait(self, **parts):
        self.now += dt.timedelta(**parts)


@pytest.fixture(scope="session")
def log(tmp_path_factory):
    path = tmp_path_factory.mktemp("log") / "checkins.parquet"
    write_checkins(path, users=2000)
    return path


@pytest.fixture
def office(tmp_path, log):
    create_key(tmp_path / "signing.key")
    plain = {"tick": 0.01, "sources": {"checkins": {"path": str(log)}}}
    office = Office(Config.parse(plain, folder=tmp_path), clock=Clock())
    yield office
    office.close()


@pytest.fixture
def client(office):
    with TestClient(create_app(office), base_url=ORIGIN) as client:
        yield client


@pytest.fixture
def sign_in(office, client):
    """Return what makes the headers of a person of this role, who is signed in."""

    def headers(role):
        name = NAMES[role]
        if office.people.find(name) is None:
            office.people.invite(name, role)
        session = office.people.open_session(name)
        return {"cookie": f"cutline_session={session}", "origin": ORIGIN}

    return headers


@pytest.fixture
def dataset(client, sign_in):
    """Register the check-ins, and let the analyst ask and the reviewer review."""
    owner = sign_in("owner")
    made = client.post("/api/v1/datasets", json=DATASET, headers=owner)
    assert made.status_code == 201, made.text
    for role in ("analyst", "reviewer"):
        sign_in(role)
        given = client.post(
            "/api/v1/datasets/check-ins/grants", json={"person": NAMES[role], "role": role}, headers=owner
        )
        assert given.status_code == 201, given.text
    return made.json()


class Ticking:
    """A clock of seconds that only sleeping moves."""

    def __init__(self, now):
        self.now, self.slept = now, []

    def __call__(self):
        return self.now

    def sleep(self, seconds):
        self.slept.append(seconds)
        self.now += seconds


@pytest.fixture
def at_desk(office, client, dataset):
    """A desk whose clock stands at 100.25 seconds, with ticks of seven, and what `answer` needs."""
    clock = Ticking(100.25)
    desk = Desk(dataclasses.replace(office.config, tick=7.0), office.books, now=clock, sleep=clock.sleep)
    ann = Caller(person=office.people.find("ann"))
    return desk, clock, ann, office.catalogue.find(ann, "check-ins")
