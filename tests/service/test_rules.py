"""Every route has a rule, and the rule is kept for every role: the table of routes itself says what to try."""

import re

import pytest

from cutline.service import api
from cutline.service.app import create_app, list_routes
from cutline.service.people import ROLES, SCOPES, Caller
from cutline.service.web import rule_of

VALUES = {"name": "check-ins", "number": "1", "person": "ann", "link": "none", "request_id": "none"}
REFUSED = (401, 403)


def routes():
    for route in list_routes():
        path = re.sub(r"{(\w+)}", lambda match: VALUES[match[1]], route.path)
        for method in route.methods:
            yield route, method, path


def call(client, method, path, headers):
    body = {} if method == "GET" or not path.startswith("/api/") else {"json": {}}
    form = {"data": {"nothing": ""}} if method == "POST" and not path.startswith("/api/") else {}
    return client.request(method, path, headers=headers, follow_redirects=False, **body, **form)


def is_sign_in(response):
    return response.status_code == 303 and response.headers["location"] == "/sign-in"


def test_every_role_meets_the_rule_of_every_route(client, sign_in, dataset):
    seen = set()
    for route, method, path in routes():
        rule = rule_of(route.endpoint)
        for role in ROLES:
            response = call(client, method, path, sign_in(role))
            if rule.public:
                assert response.status_code != 403, (method, path, role)
                continue
            allowed = role in rule.roles
            assert (response.status_code not in REFUSED) is allowed, (method, path, role, response.text[:200])
            seen.add((role, allowed))
        nobody = call(client, method, path, {"origin": "http://127.0.0.1:8765"})
        assert rule.public or nobody.status_code == 401 or is_sign_in(nobody), (method, path)
    assert seen == {(role, allowed) for role in ROLES for allowed in (True, False)}


def test_a_token_does_what_its_scopes_say_of_what_its_role_may(client, sign_in, office, dataset):
    for role in ROLES:
        sign_in(role)
    people = {person.role: person for person in office.people.listed()}
    tokens = {
        (role, scope): office.people.mint(Caller(person=people[role]), label="", scopes=[scope], days=1)[1]
        for role in ROLES
        for scope in SCOPES
    }
    tried = 0
    for route, method, path in routes():
        rule = rule_of(route.endpoint)
        for (role, scope), token in tokens.items():
            response = call(client, method, path, {"authorization": f"Bearer {token}"})
            allowed = role in rule.roles and scope == rule.scope
            if not rule.public:
                assert (response.status_code not in REFUSED) is allowed, (
                    method,
                    path,
                    role,
                    scope,
                    response.text[:200],
                )
            tried += 1
    assert tried > 400


def test_a_route_without_a_rule_does_not_start(office):
    @api.people.router.get("/open-by-mistake")
    def forgotten():
        return {}

    try:
        with pytest.raises(TypeError, match="has no rule"):
            create_app(office)
    finally:
        api.people.router.routes.pop()


def test_what_one_may_not_see_is_not_there(client, sign_in, office, dataset):
    """A dataset without a grant, one whose grant has ended, and one that does not exist are refused with the same words."""
    office.people.invite("bob", "analyst")
    bob = {"cookie": f"cutline_session={office.people.open_session('bob')}"}
    other = client.get("/api/v1/datasets/no-such", headers=bob)
    hidden = client.get("/api/v1/datasets/check-ins", headers=bob)
    assert (hidden.status_code, other.status_code) == (404, 404)
    assert hidden.text.replace("check-ins", "no-such") == other.text
    assert client.get("/api/v1/datasets", headers=bob).json()["datasets"] == []
    owner = sign_in("owner")
    given = {"person": "bob", "role": "analyst", "expires": "2026-11-17"}
    assert client.post("/api/v1/datasets/check-ins/grants", json=given, headers=owner).status_code == 201
    assert client.get("/api/v1/datasets/check-ins", headers=bob).status_code == 200
    office.store.clock.wait(hours=11, minutes=59)
    assert client.get("/api/v1/datasets/check-ins", headers=bob).status_code == 200
    office.store.clock.wait(minutes=1)
    bob = {"cookie": f"cutline_session={office.people.open_session('bob')}"}
    assert client.get("/api/v1/datasets/check-ins", headers=bob).status_code == 404
