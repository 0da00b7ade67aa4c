"""A provider that lies: tokens, keys, descriptions and answers that are wrong in one way each, beside one that is right."""

import base64
import json
import threading
from contextlib import contextmanager
from urllib.parse import parse_qs, unquote_plus, urlsplit

import pytest
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from starlette.testclient import TestClient

from cutline.service import openid
from cutline.service.app import create_app
from cutline.service.certificates import create_key
from cutline.service.config import Config
from cutline.service.office import Office
from cutline.service.web import Pace

from .conftest import ORIGIN
from .lying_provider import Liar, compact, encode, make_ec, make_rsa, sign_ec, sign_rsa, sign_shared

BEGIN, BACK = "/sign-in/openid", "/sign-in/openid/back"
SENTENCE = "The provider must answer as OpenID Connect says."
SECRET = "marked-secret"


KEY, PUBLIC = make_rsa()
OTHER_KEY, OTHER_PUBLIC = make_rsa()
EC_KEY, EC_PUBLIC = make_ec()
PEM = KEY.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
HEADER = {"alg": "RS256", "kid": "first"}


@contextmanager
def serve(folder):
    """Yield a service that trusts a provider, and the provider."""
    liar = Liar([PUBLIC])
    create_key(folder / "signing.key")
    settings = {"issuer": liar.issuer, "client_id": "cutline", "client_secret": SECRET}
    office = Office(Config.parse({"openid": settings}, folder=folder))
    for name in ("ann@example.org", "ank@example.org"):
        office.people.invite(name, "analyst")
    with TestClient(create_app(office), base_url=ORIGIN) as client:
        client.app.state.gate._pace = Pace(per_minute=10**6)  # here the pace is not the question
        yield client, liar
    liar.close()


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    with serve(tmp_path_factory.mktemp("served")) as made:
        yield made


@pytest.fixture
def liar(served):
    served[1].be_honest([PUBLIC])
    return served[1]


@pytest.fixture
def client(served):
    """A new browser, before a service that has not yet met its provider."""
    client, _ = served
    client.cookies.clear()
    client.app.state.office.openid._known = None
    return client


def begin(client):
    """Return what the service asks the provider, as the browser carries it."""
    place = client.get(BEGIN, follow_redirects=False).headers["location"]
    return {name: values[0] for name, values in parse_qs(urlsplit(place).query).items()}


def come_back(client, asked, **more):
    return client.get(BACK, params={"code": "marked-code", "state": asked["state"], **more}, follow_redirects=False)


def sign_in(client, liar, make=None):
    """Sign in with a token that ``make`` returns of honest claims."""
    asked = begin(client)
    claims = liar.claims(asked["nonce"])
    token = compact(HEADER, claims, sign_rsa(KEY)) if make is None else make(claims)
    liar.answers.setdefault("/token", None)
    if liar.answers["/token"] is None:
        liar.say("/token", {"id_token": token, "access_token": "marked-access", "token_type": "Bearer"})
    return come_back(client, asked)


def is_signed_in(client):
    return client.get("/api/v1/me").status_code == 200


def assert_refused(client, response, caplog):
    """A constant sentence, no session, and nothing of what the provider said on the page or in the log."""
    assert response.status_code == 502
    assert SENTENCE in response.text
    assert not is_signed_in(client)
    assert "marked" not in response.text + caplog.text
    assert '"event": "openid"' in caplog.text


def honestly(claims, header=None, **changed):
    """Return a token with a true signature and these claims changed; None leaves one out."""
    told = {name: value for name, value in (claims | changed).items() if value is not None}
    return compact(HEADER | (header or {}), told, sign_rsa(KEY))


HONEST = {
    "as it should be": honestly,
    "a list of one audience": lambda c: honestly(c, aud=["cutline"]),
    "several audiences, issued to us": lambda c: honestly(c, aud=["cutline", "more"], azp="cutline"),
    "within the leeway": lambda c: honestly(c, exp=c["iat"] - 30, nbf=c["iat"] + 30),
    "no key named where there is one": lambda c: compact({"alg": "RS256"}, c, sign_rsa(KEY)),
    "more in the header": lambda c: honestly(c, {"typ": "JWT", "vendor": "marked"}),
}


@pytest.mark.parametrize("name", HONEST)
def test_honest_tokens_are_believed(client, liar, name):
    response = sign_in(client, liar, HONEST[name])
    assert (response.status_code, response.headers["location"]) == (303, "/")
    assert client.get("/api/v1/me").json()["name"] == "ann@example.org"


TOKENS = {
    "another nonce": lambda c: honestly(c, nonce="x" * 43),
    "no nonce": lambda c: honestly(c, nonce=None),
    "expired": lambda c: honestly(c, exp=c["iat"] - 120),
    "no end": lambda c: honestly(c, exp=None),
    "an end that is text": lambda c: honestly(c, exp=str(c["exp"])),
    "an end that is no number": lambda c: honestly(c, exp=float("nan")),
    "an end that is true": lambda c: honestly(c, exp=True),
    "issued in an hour": lambda c: honestly(c, iat=c["iat"] + 3600, exp=c["iat"] + 7200),
    "issued an hour ago": lambda c: honestly(c, iat=c["iat"] - 3600),
    "not issued": lambda c: honestly(c, iat=None),
    "not yet valid": lambda c: honestly(c, nbf=c["iat"] + 3600),
    "another issuer": lambda c: honestly(c, iss="https://evil.example"),
    "no issuer": lambda c: honestly(c, iss=None),
    "a list of issuers": lambda c: honestly(c, iss=[c["iss"]]),
    "another audience": lambda c: honestly(c, aud="another"),
    "no audience": lambda c: honestly(c, aud=None),
    "several audiences, issued to nobody": lambda c: honestly(c, aud=["cutline", "another"]),
    "issued to another": lambda c: honestly(c, azp="another"),
    "no subject": lambda c: honestly(c, sub=None),
    "a subject that is a number": lambda c: honestly(c, sub=5),
    "another key": lambda c: compact(HEADER, c, sign_rsa(OTHER_KEY)),
    "a key that is not listed": lambda c: honestly(c, {"kid": "third"}),
    "no signature": lambda c: compact({"alg": "none"}, c, lambda _: b""),
    "no signature, written otherwise": lambda c: compact({"alg": "nOnE", "kid": "first"}, c, lambda _: b""),
    "an empty signature": lambda c: compact(HEADER, c, lambda _: b""),
    "no algorithm": lambda c: compact({"kid": "first"}, c, sign_rsa(KEY)),
    "a list of algorithms": lambda c: compact({"alg": ["RS256"], "kid": "first"}, c, sign_rsa(KEY)),
    "the public key as a shared one": lambda c: compact(HEADER | {"alg": "HS256"}, c, sign_shared(PEM)),
    "the client secret as a key": lambda c: compact(HEADER | {"alg": "HS256"}, c, sign_shared(SECRET.encode())),
    "an algorithm that is not on the list": lambda c: compact(
        HEADER | {"alg": "RS512"}, c, sign_rsa(KEY, hashes.SHA512)
    ),
    "an algorithm of another kind of key": lambda c: compact(HEADER | {"alg": "ES256"}, c, sign_rsa(KEY)),
    "its own key in the header": lambda c: compact(HEADER | {"jwk": OTHER_PUBLIC}, c, sign_rsa(OTHER_KEY)),
    "an extension that must be understood": lambda c: honestly(c, {"crit": ["marked"], "marked": 1}),
    "other claims under the signature": lambda c: honestly(c).replace(
        encode(json.dumps(c).encode()), encode(json.dumps(c | {"email": "eve@example.org"}).encode())
    ),
    "claims that are a list": lambda c: compact(HEADER, [c], sign_rsa(KEY)),
    "a text": lambda _: "marked",
    "no text": lambda _: None,
    "a number": lambda _: 5,
    "five parts": lambda c: honestly(c) + ".marked.marked",
    "a very long one": lambda c: honestly(c, marked="m" * 200_000),
}


@pytest.mark.parametrize("name", TOKENS)
def test_a_token_that_is_wrong_in_one_way_signs_nobody_in(client, liar, caplog, name):
    assert_refused(client, sign_in(client, liar, TOKENS[name]), caplog)


def test_a_nonce_is_of_one_sign_in(client, liar, caplog):
    """A token that was good for one sign-in, shown at the end of another."""
    old = begin(client)["nonce"]
    assert_refused(client, sign_in(client, liar, lambda claims: honestly(claims, nonce=old)), caplog)


WEAK_KEY, WEAK_PUBLIC = make_rsa(1024)
P384_KEY, P384_PUBLIC = make_ec(ec.SECP384R1(), "P-384")
OCT = {"kty": "oct", "kid": "shared", "k": encode(b"marked, and known to everybody")}


@pytest.mark.filterwarnings("ignore::joserfc.errors.SecurityWarning")  # of a weak key: a warning would not keep it out
@pytest.mark.parametrize(
    ("keys", "header", "sign", "good"),
    [
        ([{"kty": "RSA", "kid": "marked"}, 5, OCT, PUBLIC], HEADER, sign_rsa(KEY), True),
        ([PUBLIC, EC_PUBLIC], {"alg": "ES256", "kid": "second"}, sign_ec(EC_KEY), True),
        ([PUBLIC, EC_PUBLIC], {"alg": "RS256"}, sign_rsa(KEY), False),  # which of the two?
        ([PUBLIC | {"use": "enc"}], HEADER, sign_rsa(KEY), False),
        ([PUBLIC | {"alg": "PS256"}], HEADER, sign_rsa(KEY), False),
        ([WEAK_PUBLIC], HEADER, sign_rsa(WEAK_KEY), False),
        ([P384_PUBLIC], {"alg": "ES256", "kid": "second"}, sign_ec(P384_KEY), False),
        ([OCT], {"alg": "HS256", "kid": "shared"}, sign_shared(b"marked, and known to everybody"), False),
        ([], HEADER, sign_rsa(KEY), False),
        ({"first": PUBLIC}, HEADER, sign_rsa(KEY), False),
    ],
)
def test_only_public_keys_for_signatures_are_taken_and_weak_ones_are_not(
    client, liar, caplog, keys, header, sign, good
):
    liar.keys = keys
    response = sign_in(client, liar, lambda claims: compact(header, claims, sign))
    if good:
        assert is_signed_in(client)
    else:
        assert_refused(client, response, caplog)


@pytest.mark.parametrize(
    "changed",
    [
        {"issuer": "https://evil.example"},
        {"issuer": None},
        {"authorization_endpoint": "https://evil.example/auth"},  # of another scheme than the issuer
        {"authorization_endpoint": "javascript:alert(1)"},
        {"authorization_endpoint": "http://evil.example/auth"},
        {"token_endpoint": "http://evil.example/token"},
        {"token_endpoint": "file:///etc/passwd"},
        {"token_endpoint": 5},
        {"jwks_uri": None},
        {"userinfo_endpoint": "http://[::1"},
        {"token_endpoint_auth_methods_supported": ["private_key_jwt"]},
        {"token_endpoint_auth_methods_supported": "marked"},
    ],
)
def test_a_description_that_is_wrong_in_one_way_leads_nowhere(client, liar, caplog, changed):
    liar.description |= changed
    assert_refused(client, client.get(BEGIN, follow_redirects=False), caplog)


ANSWERS = {
    "refused": ({"said": b"marked", "status": 500}, "a call was refused"),
    "sent elsewhere": ({"said": b"", "status": 307, "Location": "/elsewhere"}, "a call was refused"),
    "not JSON": ({"said": b"<b>marked</b>"}, "an answer was not JSON"),
    "not an object": ({"said": ["marked"]}, "an answer was not JSON"),
    "too deep": ({"said": b"[" * 100_000}, "an answer was not JSON"),
    "too long": ({"said": b" " * (1024 * 1024 + 1)}, "an answer was too long"),
    "not in the parts it says": ({"said": b"{}", "Transfer-Encoding": "chunked"}, "no answer"),
}


@pytest.mark.parametrize("path", ["/.well-known/openid-configuration", "/token", "/keys", "/me"])
@pytest.mark.parametrize("name", ANSWERS)
def test_an_answer_that_cannot_be_read_is_refused_at_every_call(client, liar, caplog, path, name):
    answer, reason = ANSWERS[name]
    liar.say(path, **answer)
    liar.say("/elsewhere", liar.description)
    if path.startswith("/.well-known"):
        response = client.get(BEGIN)
    else:
        response = sign_in(client, liar, lambda claims: honestly(claims, email=None))
    assert_refused(client, response, caplog)
    assert f'"refused": "{reason}"' in caplog.text
    called = {path for path, _, _ in liar.seen}
    assert path in called
    assert "/elsewhere" not in called


def test_a_provider_that_is_down_is_named_in_one_sentence(tmp_path, caplog):
    with serve(tmp_path) as (client, liar):
        asked = begin(client)
        liar.close()
        assert_refused(client, come_back(client, asked), caplog)
        client.app.state.office.openid._known = None
        response = client.get(BEGIN, follow_redirects=False)
        assert_refused(client, response, caplog)
        assert "set-cookie" not in response.headers


def test_a_provider_that_does_not_answer_is_not_waited_for(client, liar, caplog, monkeypatch):
    asked, silent = begin(client), threading.Event()
    monkeypatch.setattr(openid, "_CALL_SECONDS", 0.1)
    monkeypatch.setattr(liar, "answer", lambda _: silent.wait(60) and None)
    response = come_back(client, asked)
    silent.set()
    assert_refused(client, response, caplog)


def test_a_provider_that_answers_for_ever_is_not_waited_for(client, liar, caplog, monkeypatch):
    monkeypatch.setattr(openid, "_ANSWER_SECONDS", 0.0)
    assert_refused(client, client.get(BEGIN, follow_redirects=False), caplog)


@pytest.mark.parametrize(
    ("claims", "more", "status"),
    [
        ({"email": None}, {}, 303),
        ({"email_verified": None}, {}, 303),
        ({"email": None}, {"sub": "somebody else"}, 502),
        ({"email": None}, {"sub": None}, 502),
        ({"email": None}, {"email": None}, 502),
        ({"email": None}, {"email": 5}, 502),
        ({"email": None}, {"email_verified": False}, 403),
        ({"email": None}, {"email_verified": "true"}, 403),
        ({"email_verified": None, "email": "eve@example.org"}, {"email_verified": None}, 403),
        ({"email_verified": 1}, {}, 403),
        ({"email": "ANN@example.ORG"}, {}, 303),
        ({"email": "ann@example.org\n"}, {}, 403),
        ({"email": "an\u212a@example.org"}, {}, 403),  # its small letter is a k
    ],
)
def test_a_name_is_of_the_same_person_and_verified(client, liar, claims, more, status):
    liar.more |= more
    response = sign_in(client, liar, lambda told: honestly(told, **claims))
    assert response.status_code == status
    assert is_signed_in(client) is (status == 303)


def test_the_client_secret_is_shown_as_the_provider_wants_it(client, liar):
    sign_in(client, liar)
    headers, form = next(seen[1:] for seen in liar.seen if seen[0] == "/token")
    pair = base64.b64decode(headers["Authorization"].removeprefix("Basic ")).decode()
    assert [unquote_plus(part) for part in pair.split(":")] == ["cutline", SECRET]
    assert "client_secret" not in form
    liar.seen.clear()
    liar.description["token_endpoint_auth_methods_supported"] = ["client_secret_post"]
    client.app.state.office.openid._known = None
    sign_in(client, liar)
    headers, form = next(seen[1:] for seen in liar.seen if seen[0] == "/token")
    assert "Authorization" not in headers
    assert (form["client_id"], form["client_secret"]) == (["cutline"], [SECRET])


def test_what_the_browser_carries_is_fresh_and_binds_the_code(client, liar):
    first, second = begin(client), begin(client)
    for name in ("state", "nonce", "code_challenge"):
        assert first[name] != second[name]
        assert len(first[name]) == 43
    assert first["marked"] == "1"  # a query of the provider's own stays
    sign_in(client, liar)
    verifier = next(form for path, _, form in liar.seen if path == "/token")["code_verifier"][0]
    assert len(verifier) == 43
    assert verifier not in (client.cookies.get("cutline_openid"), first["state"], first["nonce"])
