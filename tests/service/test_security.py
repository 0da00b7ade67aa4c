"""Bad input gets a clear refusal, is shown and not obeyed, and nothing about rows is told."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from starlette.testclient import TestClient

from cutline.service.app import create_app
from cutline.service.certificates import CertificateError, check, create_key
from cutline.service.config import Config
from cutline.service.office import Office
from cutline.service.web import Pace

from .conftest import DATASET, ORIGIN

ASK = "/api/v1/datasets/check-ins/releases"


def test_a_body_that_is_too_large_is_refused_before_it_is_read(client, sign_in, dataset):
    response = client.post(ASK, content=b"x" * 300_000, headers=sign_in("analyst"))
    assert response.status_code == 413
    assert response.json()["rule"] == "a body has at most 256 KiB"


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"item": 5},
        {"item": "venue", "k": "5"},
        {"item": "venue", "k": 0},
        {"item": "venue", "k": 10**9},
        {"item": "user_id"},
        {"item": "venue", "filter": "1 = 1"},
        {"item": "venue", "by": "venue"},
        {"item": "venue", "where": "true"},
        {"item": "venue", "epsilon": 100},
        {"item": "venue", "share": "2"},
        [],
        "text",
    ],
)
def test_what_the_owner_did_not_list_is_refused_and_costs_nothing(client, sign_in, office, dataset, body):
    response = client.post(ASK, json=body, headers=sign_in("analyst"))
    assert response.status_code == 422
    assert response.headers["content-type"] == "application/problem+json"
    assert set(response.json()) == {"type", "title", "status", "detail", "rule", "value", "way_out"}
    assert office.books.show("check-ins:2024").entries == 0


@pytest.mark.parametrize("name", ["..", "%2e%2e", "..%2fbooks.db", "check-ins%00", "CHECK-INS", "check-ins'--", "%ff"])
def test_tricks_in_a_dataset_s_name_find_nothing(client, sign_in, dataset, name):
    response = client.get(f"/api/v1/datasets/{name}/releases", headers=sign_in("analyst"))
    assert response.status_code == 404


@pytest.mark.parametrize(
    "headers",
    [{"origin": "https://evil.example"}, {"origin": "null"}, {"sec-fetch-site": "cross-site"}, {}],
)
def test_a_browser_is_believed_from_pages_of_the_service_only(client, sign_in, office, dataset, headers):
    cookie = {"cookie": sign_in("analyst")["cookie"]}
    response = client.post(ASK, json={"item": "venue"}, headers=cookie | headers)
    assert response.status_code == 403
    response = client.post("/datasets/check-ins", data={"do": "pay"}, headers=cookie | headers)
    assert response.status_code == 403
    assert office.books.show("check-ins:2024").entries == 0


def test_a_json_route_takes_no_form(client, sign_in, dataset):
    response = client.post(ASK, data={"item": "venue"}, headers=sign_in("analyst"))
    assert response.status_code == 422


def test_tokens_that_are_stolen_wrong_or_ended_are_refused(client, office, sign_in, dataset):
    sign_in("analyst")
    session = office.people.of_session(office.people.open_session("ann"))
    number, token = office.people.mint(session, label="", scopes=["read"], days=1)
    headers = {"authorization": f"Bearer {token}"}
    assert client.get("/api/v1/me", headers=headers).json()["name"] == "ann"
    assert client.get("/api/v1/me", headers={"authorization": f"Basic {token}"}).status_code == 401
    assert client.get("/api/v1/me", headers={"authorization": f"Bearer {token}x"}).status_code == 401
    office.people.revoke(session, number)
    refused = client.get("/api/v1/me", headers=headers)
    assert refused.status_code == 401
    assert token not in refused.text


def test_every_answer_carries_the_headers_that_keep_a_browser_safe(client, sign_in, dataset):
    for path in ("/sign-in", "/api/v1/healthz", "/static/style.css", "/nowhere", "/api/v1/nowhere"):
        headers = client.get(path).headers
        assert "script-src 'self'" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cache-control"] == "no-store"


def test_guessing_passwords_is_slowed_down(client):
    client.app.state.gate.sign_in_pace = Pace(per_minute=2)
    codes = [
        client.post("/sign-in", data={"name": name, "password": "guess"}, headers={"origin": ORIGIN}).status_code
        for name in ("ann", "ann", "ann", "bob")
    ]
    assert codes == [401, 401, 429, 401]


@pytest.fixture
def hostile(tmp_path):
    """A service over a log whose items are markup and formulas."""
    names = ["<script>alert(1)</script>", "=HYPERLINK(1)", 'a"onload="x', "\u202etxt", "\n=1+1", "\uff1d1+1"]
    rows = [(f"u{i}", name) for name in names for i in range(4000)]
    pq.write_table(pa.table({"user": [u for u, _ in rows], "item": [i for _, i in rows]}), tmp_path / "log.parquet")
    create_key(tmp_path / "signing.key")
    office = Office(Config.parse({"tick": 0.01, "sources": {"log": {"path": "log.parquet"}}}, folder=tmp_path))
    with TestClient(create_app(office), base_url=ORIGIN) as client:
        yield client, office


def test_item_names_with_markup_are_shown_and_not_obeyed(hostile):
    client, office = hostile
    office.people.invite("olga", "owner")
    office.people.invite("ann", "analyst")
    owner = {"cookie": f"cutline_session={office.people.open_session('olga')}", "origin": ORIGIN}
    analyst = {"cookie": f"cutline_session={office.people.open_session('ann')}", "origin": ORIGIN}
    plain = {name: DATASET[name] for name in ("version", "period", "budget")}
    plain |= {"name": "names", "title": "<b>Names</b>", "source": "log", "user": "user", "items": ["item"]}
    assert client.post("/api/v1/datasets", json=plain, headers=owner).status_code == 201
    client.post("/api/v1/datasets/names/grants", json={"person": "ann", "role": "analyst"}, headers=owner)
    told = client.post(
        "/api/v1/datasets/names/releases", json={"item": "item", "k": 6, "counts": True}, headers=analyst
    )
    assert len(told.json()["items"]) == 6
    page = client.get("/datasets/names/answers/1", headers=analyst).text
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert" in page
    assert "<b>Names" not in page
    assert 'a"onload' not in page
    table = client.get("/datasets/names/answers/1.csv", headers=analyst).text
    for formula in ("=HYPERLINK(1)", "\n=1+1", "\uff1d1+1"):
        assert f"'{formula}" in table


def test_a_certificate_fits_its_key_and_nothing_else(client, sign_in, office, dataset):
    client.post(ASK, json={"item": "venue", "k": 3}, headers=sign_in("analyst"))
    made = client.get(f"{ASK}/1/certificate", headers=sign_in("reviewer")).json()
    key = client.get("/api/v1/healthz").json()["public_key"]
    assert check(made, public_key=key)["entry"] == 1
    changed = json.loads(json.dumps(made).replace('"entry": 1', '"entry": 2'))
    with pytest.raises(CertificateError):
        check(changed, public_key=key)
    with pytest.raises(CertificateError):
        check(made, public_key="A" * 43 + "=")
    with pytest.raises(CertificateError):
        check({}, public_key=key)


def test_responses_and_logs_hold_nothing_of_the_rows_and_no_path(
    client, sign_in, office, dataset, caplog, tmp_path, log
):
    caplog.set_level("INFO", logger="cutline.service")
    analyst = sign_in("analyst")
    texts = [
        client.post("/api/v1/datasets/check-ins/quotes", json={"item": "venue"}, headers=analyst).text,
        client.get("/api/v1/datasets/check-ins", headers=analyst).text,
        client.get("/datasets/check-ins", headers=analyst).text,
        client.get("/api/v1/metrics", headers=sign_in("admin")).text,
    ]
    log.rename(log.with_suffix(".gone"))
    try:
        failed = client.post(ASK, json={"item": "venue", "k": 7}, headers=analyst)
    finally:
        log.with_suffix(".gone").rename(log)
    assert failed.status_code == 500
    for told in [*texts, failed.text, caplog.text]:
        assert str(tmp_path) not in told
        assert "checkins.parquet" not in told
        assert "seconds" not in told
    assert "process_" not in texts[-1]
