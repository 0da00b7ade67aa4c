"""What a hostile reviewer got through with, once: each of these doors stood open, and stays shut."""

import asyncio
import dataclasses
import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from sqlalchemy import insert
from starlette.testclient import TestClient

from cutline.client import Client, ServiceError
from cutline.errors import EngineError, LedgerUnavailable, ParameterError
from cutline.privacy import Budget
from cutline.quote import TopWork
from cutline.service import people, tables, web
from cutline.service.app import create_app
from cutline.service.asking import Asked, OnTick
from cutline.service.certificates import create_key
from cutline.service.config import Config
from cutline.service.jobs import _MOST_WAITING
from cutline.service.office import Office
from cutline.service.people import Caller
from cutline.service.store import Conflict, TooMany, Unknown
from cutline.service.web import Pace

from .conftest import DATASET, ORIGIN, PASSWORD

ASK = "/api/v1/datasets/check-ins/releases"


def test_a_question_is_on_the_books_before_it_waits_for_others_to_be_counted(office, at_desk, monkeypatch):
    """Otherwise the time of its entry says, to the microsecond, when somebody else's rows were counted."""
    desk, _, ann, found = at_desk
    reserved, reserve = threading.Event(), office.books.reserve

    def reserve_now(*given, **named):
        reservation = reserve(*given, **named)
        reserved.set()
        return reservation

    monkeypatch.setattr(office.books, "reserve", reserve_now)
    places = [desk._counting.acquire(timeout=1) for _ in range(2)]  # others are counted, and go on for long
    asked = threading.Thread(target=desk.answer, args=(found, Asked(item="venue", k=3), ann))
    asked.start()
    try:
        assert reserved.wait(30)
    finally:
        for _ in places:
            desk._counting.release()
        asked.join()


@pytest.mark.parametrize("error", [EngineError("an engine failed"), RuntimeError("a bug that quotes a row")])
def test_what_fails_after_the_charge_waits_for_its_tick_within_its_turn(at_desk, monkeypatch, error):
    """An equal question that waits runs as soon as the turn ends; its entry must not say when the first one failed."""
    desk, clock, ann, found = at_desk
    taken = []

    def fail(*_):
        clock.now += 0.5
        raise error

    take = desk._turns.take

    def take_turn(key):
        turn = take(key)
        taken.append(turn)
        return turn

    monkeypatch.setattr(TopWork, "draw", fail)
    monkeypatch.setattr(desk._turns, "take", take_turn)
    with pytest.raises((OnTick, RuntimeError)) as held:
        desk.answer(found, Asked(item="venue", k=3), ann)
    assert (clock.slept, clock.now, len(taken)) == ([4.25], 105.0, 1)
    if isinstance(error, EngineError):
        assert held.value.visible_from == 105.0


def test_one_question_in_other_words_takes_the_same_turn(at_desk, monkeypatch):
    desk, _, ann, found = at_desk
    keys, take = [], desk._turns.take
    monkeypatch.setattr(desk._turns, "take", lambda key: keys.append(key) or take(key))
    for share in (None, "1/10", "10%", "0.1"):
        desk.answer(found, Asked(item="venue", k=3, share=share), ann)
    assert len(keys) == 4
    assert len(set(keys)) == 1


def test_an_answer_does_not_tell_analysts_who_else_asks(client, sign_in, office, dataset):
    told = [client.post(ASK, json={"item": "venue", "k": 3}, headers=sign_in("analyst")).text]
    owner = sign_in("owner")
    office.people.invite("bob", "analyst")
    client.post("/api/v1/datasets/check-ins/grants", json={"person": "bob", "role": "analyst"}, headers=owner)
    bob = {**owner, "cookie": f"cutline_session={office.people.open_session('bob')}"}
    told += [client.post(ASK, json={"item": "venue", "k": 3}, headers=bob).text]
    places = (f"{ASK}/1", f"{ASK}/1?form=record", f"{ASK}/1/certificate", "/datasets/check-ins/answers/1.json")
    told += [client.get(place, headers=bob).text for place in places]
    assert all(len(text) > 500 and '"ann"' not in text for text in told)


@pytest.fixture
def cut_off(office, dataset):
    """A job that a crash cut off; what it asked can be asked no more."""
    asked = Asked(item="venue", k=3, filter="an old filter").to_dict()
    row = {"id": "1", "dataset": "check-ins", "account": "check-ins:2024", "version": "2024-06", "person": "ann"}
    row |= {"question": json.dumps(asked), "state": "running", "created": office.store.now()}
    with office.store.writing() as connection:
        connection.execute(insert(tables.jobs).values(**row))
    return Caller(person=office.people.find("ann"))


def test_a_job_that_can_be_looked_up_no_more_does_not_keep_the_service_from_starting(office, cut_off):
    office.jobs.resume()
    with office.store.reading() as connection:
        assert connection.execute(tables.jobs.select()).one().state == "failed"


def test_a_log_that_the_settings_name_no_more_is_a_refusal(client, sign_in, office, dataset, monkeypatch):
    monkeypatch.setattr(office.desk, "_config", dataclasses.replace(office.config, sources={}))
    answers = [client.post(ASK, json={"item": "venue"}, headers=sign_in("analyst"))]
    answers += [client.post("/datasets/check-ins/price", data={"k": "3"}, headers=sign_in("analyst"))]
    assert [answer.status_code for answer in answers] == [409, 409]


def test_one_person_does_not_fill_the_queue(client, sign_in, office, monkeypatch):
    monkeypatch.setattr(office.jobs, "_run", lambda number: None)
    client.post("/api/v1/datasets", json=DATASET | {"answers": "later"}, headers=sign_in("owner"))
    sign_in("analyst")
    ann = Caller(person=office.people.find("ann"))
    found = office.catalogue.find(Caller(person=office.people.find("olga")), "check-ins")
    for _ in range(_MOST_WAITING):
        office.jobs.submit(found, Asked(item="venue"), ann)
    with pytest.raises(Conflict, match="at most 100 questions"):
        office.jobs.submit(found, Asked(item="venue"), ann)


PERIOD = {"period": "2027", "budget": {"epsilon": 1.0, "questions": 10}}


def test_nobody_opens_an_account_under_the_name_of_somebody_else_s_dataset(client, sign_in, office, dataset):
    office.people.invite("otto", "owner")
    otto = {**sign_in("owner"), "cookie": f"cutline_session={office.people.open_session('otto')}"}
    assert client.post("/api/v1/datasets", json=DATASET | PERIOD, headers=otto).status_code == 409
    assert office.books.datasets() == ["check-ins:2024"]
    opened = client.post("/api/v1/datasets/check-ins/periods", json=PERIOD, headers=sign_in("owner"))
    assert opened.status_code == 201


@pytest.mark.parametrize("different", [{}, {"epsilon": 2.0}])
def test_what_a_crash_left_of_a_registration_is_taken_up_if_it_is_the_same(client, sign_in, office, different):
    owner = sign_in("owner")
    budget = Budget(epsilon=4.0, delta=1e-6, releases=10)
    office.books.create("check-ins:2024", budget=budget, owner="olga", unit="user_id", analysts=["olga"])
    body = DATASET | {"budget": DATASET["budget"] | different}
    assert client.post("/api/v1/datasets", json=body, headers=owner).status_code == (409 if different else 201)


def test_an_account_that_is_somebody_s_is_not_taken_up(client, sign_in, office, dataset):
    period = {"period": "2024", "budget": DATASET["budget"]}
    assert client.post("/api/v1/datasets/check-ins/periods", json=period, headers=sign_in("owner")).status_code == 409


def test_a_period_pays_when_those_who_may_ask_can_ask(client, sign_in, office, dataset, monkeypatch):
    def crash(*_):
        raise MemoryError

    monkeypatch.setattr(office.books, "allow", crash)
    client.post("/api/v1/datasets/check-ins/periods", json=PERIOD, headers=sign_in("owner"))
    assert client.get("/api/v1/datasets/check-ins", headers=sign_in("owner")).json()["period"] == "2024"
    monkeypatch.undo()
    client.post("/api/v1/datasets/check-ins/periods", json=PERIOD, headers=sign_in("owner"))
    asked = client.post(ASK, json={"item": "venue", "k": 3}, headers=sign_in("analyst"))
    assert (asked.status_code, asked.json()["ledger"]["dataset"]) == (200, "check-ins:2027")


def test_what_is_closed_stays_closed(client, sign_in, office, dataset):
    owner, stale = sign_in("owner"), office.catalogue.find(Caller(person=office.people.find("olga")), "check-ins")
    assert client.post("/api/v1/datasets/check-ins/periods", json=PERIOD, headers=owner).status_code == 201
    office.catalogue.close(stale)  # was read before the second period
    assert [office.books.show(f"check-ins:{period}").state for period in ("2024", "2027")] == ["closed", "closed"]
    again = client.post("/api/v1/datasets/check-ins/periods", json=PERIOD | {"period": "2028"}, headers=owner)
    assert again.status_code == 409


def give(client, owner, **grant):
    given = {"person": "ann", "role": "analyst"} | grant
    return client.post("/api/v1/datasets/check-ins/grants", json=given, headers=owner)


def left(client, analyst):
    return client.get("/api/v1/datasets/check-ins", headers=analyst).json()["questions_left"]


def wish(client, analyst, **wished):
    made = client.post("/api/v1/datasets/check-ins/requests", json={"wish": "more"} | wished, headers=analyst)
    return f"/api/v1/datasets/check-ins/requests/{made.json()['id']}"


def test_a_share_is_what_the_last_grant_says_in_this_period_and_the_next(client, sign_in, office, dataset):
    owner, analyst = sign_in("owner"), sign_in("analyst")
    give(client, owner, share="1/5")
    assert left(client, analyst) == {"left": 2, "of": 2}
    assert client.post(wish(client, analyst), json={"approve": True}, headers=owner).status_code == 200
    assert left(client, analyst) == {"left": 2, "of": 2}  # no share was asked for, and none is lifted
    client.post("/api/v1/datasets/check-ins/periods", json=PERIOD, headers=owner)
    assert left(client, analyst) == {"left": 2, "of": 2}
    give(client, owner)
    assert left(client, analyst) == {"left": 10, "of": 10}


def test_approving_gives_no_access_back_that_was_taken_away(client, sign_in, office, dataset):
    owner, analyst = sign_in("owner"), sign_in("analyst")
    wished = wish(client, analyst, share="1/2")
    client.delete("/api/v1/datasets/check-ins/grants/ann", headers=owner)
    assert client.post(wished, json={"approve": True}, headers=owner).status_code == 409
    assert client.get("/api/v1/datasets/check-ins", headers=analyst).status_code == 404
    assert client.post(wished, json={"approve": False}, headers=owner).status_code == 200


def test_a_request_is_decided_once_and_only_if_the_books_were_told(client, sign_in, office, dataset, monkeypatch):
    owner, wished = sign_in("owner"), wish(client, sign_in("analyst"), share="1/2")

    def fail(*_, **__):
        raise LedgerUnavailable("the books must answer")

    monkeypatch.setattr(office.books, "allow", fail)
    assert client.post(wished, json={"approve": True}, headers=owner).status_code == 503
    monkeypatch.undo()
    codes = [client.post(wished, json={"approve": answer}, headers=owner).status_code for answer in (True, False)]
    assert codes == [200, 409]


def test_a_column_that_is_not_there_is_the_owner_s_mistake_and_no_failure(client, sign_in):
    refused = client.post("/api/v1/datasets", json=DATASET | {"user": "nobody"}, headers=sign_in("owner"))
    assert refused.status_code == 422
    assert "column" in refused.json()["rule"]


def test_a_refusal_of_the_databases_does_not_say_where_they_are(client, sign_in, office, dataset, tmp_path):
    analyst = sign_in("analyst")
    (tmp_path / "books.db").rename(tmp_path / "moved.db")
    told = [
        client.get("/api/v1/datasets/check-ins", headers=analyst),
        client.get("/datasets/check-ins", headers=analyst),
        client.post("/datasets/check-ins/price", data={"k": "3"}, headers=analyst),
        client.post(ASK, json={"item": "venue"}, headers=analyst),
    ]
    (tmp_path / "moved.db").rename(tmp_path / "books.db")
    assert [response.status_code for response in told] == [503, 503, 503, 503]
    assert all("books.db" not in response.text and str(tmp_path) not in response.text for response in told)
    assert "service.db" not in repr(office.store._database.printable_address)


def test_strangers_are_slowed_down_whatever_they_show(client):
    client.app.state.gate._pace = Pace(per_minute=2)
    codes = [
        client.get("/api/v1/me", headers={"authorization": f"Bearer guess-{number}"}).status_code for number in range(3)
    ]
    assert codes == [401, 401, 429]


def test_forms_for_everybody_are_slowed_down_by_address(client):
    client.app.state.gate._door = Pace(per_minute=2)
    codes = [
        client.post(
            "/sign-in", data={"name": f"n{number}", "password": "guess"}, headers={"origin": ORIGIN}
        ).status_code
        for number in range(3)
    ]
    codes += [client.post("/welcome/x", data={"password": "a long sentence"}, headers={"origin": ORIGIN}).status_code]
    assert codes == [401, 401, 429, 429]


def test_what_strangers_write_is_not_remembered_at_length(client, sign_in):
    pace = Pace(per_minute=10)
    pace.count("n" * 250_000)
    assert max(map(len, pace._left)) <= 100
    for number in range(20):
        client.request(f"X{number}", "/api/v1/healthz")
    counted = client.get("/api/v1/metrics", headers=sign_in("admin")).text
    assert counted.count('route="/api/v1/healthz"') <= 2  # a line for the sum, and one for when it began
    assert 'method="another"' in counted


def test_a_password_is_hashed_only_for_whoever_has_a_link(office, monkeypatch):
    monkeypatch.setattr(people, "_HASHER", None)  # hashing would fail
    with pytest.raises(Unknown, match="a link works once"):
        office.people.accept("cutline_link_guess", PASSWORD)


def test_those_who_wait_to_sign_in_leave_threads_for_everybody_else(office, monkeypatch):
    monkeypatch.setattr(people, "_IN_LINE", threading.BoundedSemaphore(1))
    with people._hashing(), pytest.raises(TooMany):
        office.people.sign_in("ann", PASSWORD)


def test_an_old_password_opens_no_session_if_it_was_changed_while_it_was_checked(office, monkeypatch):
    office.people.accept(office.people.invite("ann", "analyst"), PASSWORD)
    link, verify = office.people.invite("ann", "analyst"), people._HASHER.verify

    class Slow:
        @staticmethod
        def verify(*given):
            found = verify(*given)
            monkeypatch.undo()
            office.people.accept(link, "another long sentence")
            return found

    monkeypatch.setattr(people, "_HASHER", Slow)
    with pytest.raises(Unknown, match="belong together"):
        office.people.sign_in("ann", PASSWORD)
    with office.store.reading() as connection:
        assert connection.execute(tables.secrets.select()).all() == []


def test_a_wrong_method_and_a_slash_too_many_are_refused_as_such(client):
    refused = client.put("/sign-in", headers={"origin": ORIGIN})
    assert (refused.status_code, refused.headers["allow"]) == (405, "GET")
    answer = client.get("/sign-in/", headers={"host": "evil.example"}, follow_redirects=False)
    assert answer.status_code == 404


def test_no_page_is_shown_within_another_site(client, sign_in, dataset):
    client.post(ASK, json={"item": "venue", "k": 3}, headers=sign_in("analyst"))
    page = client.get("/datasets/check-ins/answers/1/statement", headers=sign_in("analyst"))
    assert (page.status_code, page.headers["x-frame-options"]) == (200, "DENY")


def test_a_body_that_never_ends_is_given_up(client, monkeypatch):
    monkeypatch.setattr(web, "SLOWEST_BODY", 0.0)
    sent = []

    async def receive():
        await asyncio.Event().wait()

    async def send(message):
        sent.append(message)

    scope = {"type": "http", "method": "POST", "path": "/sign-in", "headers": []}
    asyncio.run(web.Envelope(None, secure=False, count=lambda *_: None)(scope, receive, send))
    assert sent[0]["status"] == 408


@pytest.mark.parametrize(
    "settings",
    [
        {"address": "0.0.0.0", "behind_proxy": True},
        {"address": "0.0.0.0", "behind_proxy": True, "origin": "http://cutline.example.org"},
        {"behind_proxy": True},
    ],
)
def test_a_proxy_without_tls_is_refused_since_cookies_would_travel_in_the_open(tmp_path, settings):
    with pytest.raises(ParameterError, match="https"):
        Config.parse(settings, folder=tmp_path)
    assert Config.parse(settings | {"origin": "https://cutline.example.org"}, folder=tmp_path).secure


def test_a_token_follows_no_redirect_and_no_proxy(monkeypatch):
    asked = []

    class Elsewhere(BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append((self.path, self.headers["authorization"]))
            self.send_response(302)
            self.send_header("location", "/elsewhere")
            self.end_headers()

        def log_message(self, *_):
            pass

    with HTTPServer(("127.0.0.1", 0), Elsewhere) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
            with pytest.raises(ServiceError) as refused:
                Client(f"http://127.0.0.1:{server.server_port}", token="secret").datasets()
        finally:
            server.shutdown()
            thread.join()
    assert refused.value.status == 302
    assert asked == [("/api/v1/datasets?limit=200&after=", "Bearer secret")]


def test_a_character_that_a_server_does_not_take_is_no_failure(tmp_path, log, new_database):
    create_key(tmp_path / "signing.key")
    address = new_database()
    sources = {"checkins": {"path": str(log)}}
    office = Office(Config.parse({"books": address, "store": address, "sources": sources}, folder=tmp_path))
    office.people.invite("ada", "admin")
    admin = {"cookie": f"cutline_session={office.people.open_session('ada')}", "origin": ORIGIN}
    with TestClient(create_app(office), base_url=ORIGIN) as client:
        codes = [
            client.post("/sign-in", data={"name": "\0", "password": "guess"}, headers={"origin": ORIGIN}).status_code,
            client.post("/api/v1/tokens", json={"label": "\0", "scopes": ["read"]}, headers=admin).status_code,
            client.delete("/api/v1/people/%00", headers=admin).status_code,
            client.delete("/api/v1/tokens/%00", headers=admin).status_code,
        ]
    assert codes == [401, 201, 404, 404]


@pytest.fixture
def files(tmp_path, log):
    """A log of two files that a pattern names, and a warehouse that is not there."""
    create_key(tmp_path / "signing.key")
    for name in ("private-1", "private-2"):
        (tmp_path / f"{name}.parquet").write_bytes(log.read_bytes())
    sources = {"checkins": {"path": "*.parquet"}, "orders": {"ibis": "duckdb:///private-place/x.db", "table": "t"}}
    office = Office(Config.parse({"tick": 0.01, "sources": sources}, folder=tmp_path))
    with TestClient(create_app(office), base_url=ORIGIN) as client:
        yield office, client


def test_no_refusal_names_one_of_a_log_s_files_or_a_warehouse_s_address(files, tmp_path):
    office, client = files
    office.people.invite("olga", "owner")
    office.people.invite("ann", "analyst")
    owner, analyst = (
        {"cookie": f"cutline_session={office.people.open_session(name)}", "origin": ORIGIN} for name in ("olga", "ann")
    )
    assert client.post("/api/v1/datasets", json=DATASET, headers=owner).status_code == 201
    give(client, owner)
    (tmp_path / "private-2.parquet").write_bytes(b"PAR1 and nothing else")
    told = [
        client.post(ASK, json={"item": "venue", "k": 3}, headers=analyst),
        client.post("/api/v1/datasets", json=DATASET | {"name": "again"}, headers=owner),
        client.post("/api/v1/datasets", json=DATASET | {"name": "again", "source": "orders"}, headers=owner),
    ]
    assert [response.status_code for response in told] == [500, 422, 422]
    assert "a file of 'checkins'" in told[0].text
    assert all("private" not in response.text and str(tmp_path) not in response.text for response in told)
