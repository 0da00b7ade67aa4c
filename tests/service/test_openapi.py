"""The whole description of the REST interface, tried by schemathesis: no failure of ours, no answer that is not described."""

import re

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis.specs.openapi import checks as openapi_checks
from starlette.testclient import TestClient

from cutline.demo import write_checkins
from cutline.service.app import create_app, list_routes
from cutline.service.certificates import create_key
from cutline.service.config import Config
from cutline.service.office import Office
from cutline.service.web import rule_of

from .conftest import DATASET, NAMES, ORIGIN

CHECKS = (
    schemathesis.checks.not_a_server_error,
    openapi_checks.status_code_conformance,
    openapi_checks.content_type_conformance,
    openapi_checks.response_schema_conformance,
)
OPERATIONS = [
    (method, route.path) for route in list_routes() if route.include_in_schema for method in sorted(route.methods)
]


@pytest.fixture(scope="module")
def tried(tmp_path_factory):
    """A running service with a dataset, the description of its interface, and a header for each role."""
    folder = tmp_path_factory.mktemp("openapi")
    write_checkins(folder / "checkins.parquet", users=500)
    create_key(folder / "signing.key")
    office = Office(Config.parse({"tick": 0.01, "sources": {"checkins": {"path": "checkins.parquet"}}}, folder=folder))
    app = create_app(office)
    with TestClient(app, base_url=ORIGIN) as client:
        sessions = {}
        for role, name in NAMES.items():
            office.people.invite(name, role)
            session = office.people.open_session(name)
            sessions[role] = {"cookie": f"cutline_session={session}", "origin": ORIGIN}
        assert client.post("/api/v1/datasets", json=DATASET, headers=sessions["owner"]).status_code == 201
        for role in ("analyst", "reviewer"):
            given = {"person": NAMES[role], "role": role}
            client.post("/api/v1/datasets/check-ins/grants", json=given, headers=sessions["owner"])
        client.app.state.gate._pace._rate = 1e6  # here the pace is not the question
        yield schemathesis.openapi.from_asgi("/api/v1/openapi.json", app), client, sessions


@pytest.mark.parametrize(("method", "path"), OPERATIONS, ids=lambda part: part)
def test_every_answer_is_described_and_none_is_a_failure(tried, method, path):
    schema, client, sessions = tried
    rule = next(
        rule_of(route.endpoint) for route in list_routes() if (path, method) == (route.path, min(route.methods))
    )
    role = sorted(rule.roles)[-1]

    @settings(max_examples=6, deadline=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
    @given(case=schema[path][method].as_strategy(), real=st.booleans())
    def check(case, real):
        if real and "name" in (case.path_parameters or {}):
            case.path_parameters["name"] = "check-ins"
        if path in ("/api/v1/datasets/{name}/close", "/api/v1/people/{name}"):
            return  # ends what the others need; the matrix of roles calls them
        response = case.call(session=client, headers=sessions[role])
        assert response.status_code < 500, response.text
        case.validate_response(response, checks=CHECKS)

    check()


def test_the_description_names_every_route_of_the_interface(tried):
    schema, _, _ = tried
    described = set(schema.raw_schema["paths"])
    assert described == {path for _, path in OPERATIONS}
    assert all(re.match("/api/v1/", path) for path in described)
