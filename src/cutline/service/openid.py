r"""Sign-in through a provider of OpenID Connect: it says who somebody is, and never what they may do.

The authorization code flow with PKCE. A browser that begins gets one random ticket in a cookie. State, nonce and verifier of
PKCE are derived from it, and the store keeps its digest for ten minutes, until it is used once. So an answer of the provider
counts in the browser that asked for it, once, and a copy of the store signs nobody in. What a provider answers is material to
check: every refusal has a constant text, and neither pages nor logs quote it.

Tokens are checked by joserfc, which Authlib also uses and recommends in place of its own module; the rest of Authlib needs a
client of HTTP that the service has no other use for, and the three calls below are all that is called.
"""

from __future__ import annotations

import base64
import datetime as dt
import hashlib
import hmac
import json
import logging
import secrets
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from http.client import HTTPException
from typing import Any
from urllib.parse import quote_plus, urlencode, urlsplit
from urllib.request import HTTPHandler, HTTPSHandler, OpenerDirector, ProxyHandler, Request

from anyio import CapacityLimiter
from joserfc import jwt
from joserfc.jwk import Key, KeySet, import_key
from joserfc.jws import JWSRegistry
from sqlalchemy import delete, insert

from cutline.service import tables
from cutline.service.config import OpenIdSettings, is_safe_address
from cutline.service.people import digest
from cutline.service.store import Forbidden, Store, Unavailable

BACK = "/sign-in/openid/back"
_AT_ONCE = 8  # sign-ins that wait for the provider; while it is slow, others wait for these, and questions for none
_TICKET_LIFE = dt.timedelta(minutes=10)
_DISCOVERY_SECONDS = 600.0
_CALL_SECONDS = 5.0
_ANSWER_SECONDS = 10.0
_LARGEST_ANSWER = 1024 * 1024
_LEEWAY_SECONDS = 60
_SMALLEST_RSA_BITS = 2048
_KEY_FIELDS = ("kty", "kid", "crv", "e", "n", "x", "y")  # of a public key; nothing else of a provider's key is used
# Which claims say the name, and the scope of OpenID Connect that asks for them.
_CLAIMS = {
    "email": (("email", "email_verified"), "openid email"),
    "preferred_username": (("preferred_username",), "openid profile"),
    "sub": (("sub",), "openid"),
}
_log = logging.getLogger("cutline.service")


class _Signatures(JWSRegistry):
    """Signatures by a public key, and no others: here `none` and shared keys are not refused, they do not exist."""

    algorithms = {  # noqa: RUF012 - as the class above has it
        "RS256": JWSRegistry.algorithms["RS256"],
        "ES256": JWSRegistry.algorithms["ES256"],
        "Ed25519": JWSRegistry.algorithms["Ed25519"],
        "EdDSA": JWSRegistry.algorithms["Ed25519"],  # the older name, which providers use; other curves are refused
    }


_ALGORITHMS = tuple(_Signatures.algorithms)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Provider:
    """What a provider says of itself."""

    authorization: str
    token: str
    keys: str
    userinfo: str | None
    secret_in_body: bool
    names_itself: bool  # in every answer [RFC 9207]


class OpenId:
    """Sends browsers to the provider, and finds out who came back."""

    def __init__(self, settings: OpenIdSettings, *, secret: str, origin: str, store: Store) -> None:
        self.label = settings.label
        self.turns = CapacityLimiter(_AT_ONCE)
        self._settings, self._secret, self._store = settings, secret, store
        self._redirect = origin + BACK
        self._names, self._scope = _CLAIMS[settings.claim]
        self._opener = _build_opener(direct=urlsplit(settings.issuer).scheme == "http")
        self._known: tuple[float, _Provider] | None = None
        self._guard = threading.Lock()

    def begin(self) -> tuple[str, str]:
        """Return a new ticket for this browser, and the provider's address to send it to."""
        provider = self._discover()
        ticket = f"cutline_openid_{secrets.token_urlsafe(32)}"
        challenge = _encode(hashlib.sha256(_derive(ticket, "verifier").encode()).digest())
        asked = {
            "response_type": "code",
            "client_id": self._settings.client_id,
            "redirect_uri": self._redirect,
            "scope": self._scope,
            "state": _derive(ticket, "state"),
            "nonce": _derive(ticket, "nonce"),
            "code_challenge": challenge,
            "code_challenge_method": "S256",
        }
        self._keep(ticket)
        joint = "&" if urlsplit(provider.authorization).query else "?"
        return ticket, f"{provider.authorization}{joint}{urlencode(asked)}"

    def finish(self, ticket: str | None, answer: Mapping[str, str]) -> str:
        """Return the name that the provider vouches for, or raise; a ticket is good for one answer."""
        state = answer.get("state", "").encode("utf-8", "surrogatepass")
        if ticket is None or not hmac.compare_digest(state, _derive(ticket, "state").encode()) or not self._use(ticket):
            raise Forbidden("a sign-in ends in the browser that began it, once, within ten minutes", "", "Begin again.")
        provider = self._discover()
        if answer.get("iss", None if provider.names_itself else self._settings.issuer) != self._settings.issuer:
            raise _refuse("the answer names another issuer")
        if "error" in answer or not answer.get("code"):
            raise Forbidden("the provider must let you sign in", "a refusal of the provider", "Begin again.")
        tokens = self._redeem(provider, answer["code"], _derive(ticket, "verifier"))
        claims = self._check(tokens.get("id_token"), self._read_keys(provider), nonce=_derive(ticket, "nonce"))
        if any(name not in claims for name in self._names):
            claims = self._ask_more(provider, tokens.get("access_token"), subject=claims["sub"])
        return self._name(claims)

    def _keep(self, ticket: str) -> None:
        row = {
            "digest": digest(ticket),
            "id": digest(ticket)[:16],
            "kind": "openid",
            "person": "",
            "label": "",
            "scopes": "",
            "created": self._store.now(),
            "expires": self._store.now(plus=_TICKET_LIFE),
        }
        with self._store.writing() as connection:
            connection.execute(delete(tables.secrets).where(tables.secrets.c.expires <= self._store.now()))
            connection.execute(insert(tables.secrets).values(**row))

    def _use(self, ticket: str) -> bool:
        known = delete(tables.secrets).where(
            tables.secrets.c.digest == digest(ticket),
            tables.secrets.c.kind == "openid",
            tables.secrets.c.expires > self._store.now(),
        )
        with self._store.writing() as connection:
            return connection.execute(known).rowcount == 1

    def _discover(self) -> _Provider:
        with self._guard:
            known = self._known
        if known is not None and time.monotonic() < known[0]:
            return known[1]
        issuer = self._settings.issuer
        _, said = self._call(issuer.rstrip("/") + "/.well-known/openid-configuration")
        if said.get("issuer") != issuer:
            raise _refuse("the description is of another issuer")
        methods = said.get("token_endpoint_auth_methods_supported", ["client_secret_basic"])
        if not isinstance(methods, list) or not {"client_secret_basic", "client_secret_post"} & set(map(str, methods)):
            raise _refuse("the description lists no way to show a client secret")
        found = _Provider(
            authorization=self._address(said.get("authorization_endpoint")),
            token=self._address(said.get("token_endpoint")),
            keys=self._address(said.get("jwks_uri")),
            userinfo=None if "userinfo_endpoint" not in said else self._address(said["userinfo_endpoint"]),
            secret_in_body="client_secret_basic" not in methods,
            names_itself=said.get("authorization_response_iss_parameter_supported") is True,
        )
        with self._guard:
            self._known = (time.monotonic() + _DISCOVERY_SECONDS, found)
        return found

    def _address(self, address: object) -> str:
        """Return an address of the provider; like its issuer, it is reached by TLS or on this machine."""
        if not isinstance(address, str) or not is_safe_address(address):
            raise _refuse("the description has an address that is not https")
        if urlsplit(address).scheme != urlsplit(self._settings.issuer).scheme:
            raise _refuse("the description has an address that is not https")
        return address

    def _redeem(self, provider: _Provider, code: str, verifier: str) -> dict[str, Any]:
        client = self._settings.client_id
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": self._redirect,
            "code_verifier": verifier,
        }
        headers = {}
        if provider.secret_in_body:
            form |= {"client_id": client, "client_secret": self._secret}
        else:
            # RFC 6749, section 2.3.1: both halves are encoded as in a form before they are joined.
            pair = f"{quote_plus(client)}:{quote_plus(self._secret)}".encode()
            headers["authorization"] = f"Basic {base64.b64encode(pair).decode()}"
        status, tokens = self._call(provider.token, form=form, headers=headers, accepted=(200, 400))
        if status != 200:
            raise Forbidden("the provider must know the code of a sign-in", "another", "Begin again.")
        return tokens

    def _read_keys(self, provider: _Provider) -> KeySet:
        _, said = self._call(provider.keys)
        listed = said.get("keys")
        keys = [_read_key(each) for each in listed] if isinstance(listed, list) else []
        return KeySet([key for key in keys if key is not None])

    def _check(self, token: object, keys: KeySet, *, nonce: str) -> dict[str, Any]:
        """Return a token's claims if it is signed by the provider, for us, now, and for this very sign-in."""
        client, now = self._settings.client_id, int(self._store.clock().timestamp())
        wanted = jwt.JWTClaimsRegistry(
            now=now,
            leeway=_LEEWAY_SECONDS,
            iss={"essential": True, "value": self._settings.issuer},
            aud={"essential": True, "value": client},
            exp={"essential": True},
            iat={"essential": True},
            sub={"essential": True},
            nonce={"essential": True, "value": nonce},
        )
        try:
            read = jwt.decode(str(token), keys, registry=_Signatures(algorithms=_ALGORITHMS, strict_check_header=False))
            claims = read.claims
            wanted.validate(claims)
            several = isinstance(claims["aud"], list) and len(claims["aud"]) > 1
            fits = claims.get("azp", None if several else client) == client
            fresh = claims["iat"] > now - _TICKET_LIFE.total_seconds() - _LEEWAY_SECONDS
        except Exception:  # whatever a token makes a library say, it may quote the token
            raise _refuse("the token is not signed, or not for this sign-in") from None
        if not fits or not fresh:
            raise _refuse("the token is not signed, or not for this sign-in")
        return claims

    def _ask_more(self, provider: _Provider, token: object, *, subject: str) -> dict[str, Any]:
        """Return the claims that a provider keeps out of its tokens; they must be about the same person."""
        if provider.userinfo is None or not isinstance(token, str) or not token.isascii() or not token.isprintable():
            raise _refuse("the claim that names people is missing")
        _, said = self._call(provider.userinfo, headers={"authorization": f"Bearer {token}"})
        if said.get("sub") != subject:
            raise _refuse("the claims are about somebody else")
        return said

    def _name(self, claims: Mapping[str, Any]) -> str:
        name = claims.get(self._names[0])
        if not isinstance(name, str):
            raise _refuse("the claim that names people is missing")
        if self._names[0] == "email" and claims.get("email_verified") is not True:
            raise Forbidden("the provider must have verified your e-mail address", "", "Verify it there, and return.")
        # Letters beyond ASCII could become another person's when they are made small, and no name here has any.
        return name.lower() if name.isascii() and self._names[0] != "sub" else name

    def _call(
        self,
        address: str,
        *,
        form: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        accepted: tuple[int, ...] = (200,),
    ) -> tuple[int, dict[str, Any]]:
        """Return status and JSON of one call, within limits of time and size; redirects are not followed."""
        body = None if form is None else urlencode(form).encode()
        request = Request(address, data=body, headers={"accept": "application/json", **(headers or {})})  # noqa: S310
        latest = time.monotonic() + _ANSWER_SECONDS
        try:
            with self._opener.open(request, timeout=_CALL_SECONDS) as response:
                status, text = int(response.status), b""
                while part := response.read1(65536):
                    text += part
                    if len(text) > _LARGEST_ANSWER or time.monotonic() > latest:
                        raise _refuse("an answer was too long")
        except (OSError, HTTPException, ValueError):
            raise _refuse("no answer") from None
        if status not in accepted:
            raise _refuse("a call was refused")
        try:
            said = json.loads(text)
        except (ValueError, RecursionError):
            said = None
        if not isinstance(said, dict):
            raise _refuse("an answer was not JSON")
        return status, said


def _build_opener(*, direct: bool) -> OpenerDirector:
    """Return what calls HTTP and HTTPS and nothing else, through the proxy of the environment if there is one."""
    opener = OpenerDirector()
    for handler in (ProxyHandler({} if direct else None), HTTPHandler(), HTTPSHandler()):
        opener.add_handler(handler)
    return opener


def _read_key(plain: object) -> Key | None:
    """Return a provider's public key for signatures, or None for one that is of another use or kind, or broken."""
    if not isinstance(plain, dict) or plain.get("kty") not in ("RSA", "EC", "OKP"):
        return None
    if plain.get("use", "sig") != "sig" or plain.get("alg", "RS256") not in _ALGORITHMS:
        return None
    try:
        if plain["kty"] == "RSA" and _bits(plain["n"]) < _SMALLEST_RSA_BITS:
            return None
        return import_key({name: plain[name] for name in _KEY_FIELDS if name in plain})
    except Exception:  # one broken key must not hide the others
        return None


def _bits(number: str) -> int:
    return int.from_bytes(base64.urlsafe_b64decode(number + "=" * (-len(number) % 4)), "big").bit_length()


def _derive(ticket: str, purpose: str) -> str:
    """Return what a ticket stands for at one place; none tells the ticket or another."""
    return _encode(hmac.digest(ticket.encode("utf-8", "surrogatepass"), purpose.encode(), "sha256"))


def _encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _refuse(reason: str) -> Unavailable:
    """Return the refusal of a provider's answer, and log which it was; the reasons are the constants above."""
    _log.warning(json.dumps({"event": "openid", "refused": reason}))
    return Unavailable("the provider must answer as OpenID Connect says", reason, "Try again, or tell the operator.")
