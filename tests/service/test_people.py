"""Who somebody is: links work once, secrets are kept as digests, and what has ended has ended."""

import pytest

from cutline.errors import ParameterError
from cutline.service.people import Caller
from cutline.service.store import Conflict, Forbidden, Unknown

PASSWORD = "a long sentence for tests"


@pytest.fixture
def ann(office):
    link = office.people.invite("ann", "analyst")
    return office.people.accept(link, PASSWORD)


def test_a_link_works_once_and_a_new_one_ends_the_old(office):
    old = office.people.invite("ann", "analyst")
    new = office.people.invite("ann", "analyst")
    with pytest.raises(Unknown):
        office.people.accept(old, PASSWORD)
    assert office.people.accept(new, PASSWORD).name == "ann"
    with pytest.raises(Unknown):
        office.people.accept(new, PASSWORD)


def test_a_link_ends_after_a_week(office):
    link = office.people.invite("ann", "analyst")
    office.store.clock.wait(days=7)
    with pytest.raises(Unknown):
        office.people.accept(link, PASSWORD)


def test_a_wrong_password_and_an_unknown_name_are_refused_alike(office, ann):
    refusals = []
    for name, password in (("ann", "a wrong sentence"), ("bob", PASSWORD), ("ann", ""), ("ANN", PASSWORD)):
        with pytest.raises(Unknown) as refused:
            office.people.sign_in(name, password)
        refusals.append(str(refused.value))
    assert len(set(refusals)) == 1
    assert office.people.of_session(office.people.sign_in("ann", PASSWORD)).name == "ann"


def test_a_session_ends_by_signing_out_by_time_and_by_a_new_password(office, ann):
    sessions = [office.people.sign_in("ann", PASSWORD) for _ in range(3)]
    office.people.sign_out(office.people.of_session(sessions[0]))
    assert office.people.of_session(sessions[0]) is None
    assert office.people.of_session(sessions[1]).name == "ann"
    office.people.accept(office.people.invite("ann", "analyst"), "another long sentence")
    assert office.people.of_session(sessions[1]) is None
    last = office.people.sign_in("ann", "another long sentence")
    office.store.clock.wait(hours=12)
    assert office.people.of_session(last) is None


def test_tokens_expire_are_revoked_and_mint_nothing(office, ann):
    session = office.people.of_session(office.people.open_session("ann"))
    number, secret = office.people.mint(session, label="cron", scopes=["ask", "read"], days=2)
    caller = office.people.of_token(secret)
    assert caller.scopes == {"ask", "read"}
    assert office.people.of_session(secret) is None
    assert office.people.of_token(office.people.open_session("ann")) is None
    with pytest.raises(Forbidden):
        office.people.mint(caller, label="more", scopes=["read"], days=1)
    office.people.revoke(session, number)
    assert office.people.of_token(secret) is None
    _, second = office.people.mint(session, label="", scopes=["read"], days=1)
    office.store.clock.wait(days=1)
    assert office.people.of_token(second) is None


def test_somebody_who_is_ended_is_out_at_once(office, ann):
    session = office.people.open_session("ann")
    _, token = office.people.mint(Caller(person=ann), label="", scopes=["read"], days=1)
    office.people.disable("ann")
    assert office.people.of_session(session) is None
    assert office.people.of_token(token) is None
    with pytest.raises(Unknown):
        office.people.sign_in("ann", PASSWORD)


def test_the_last_administrator_stays(office):
    for name in ("ada", "bea"):
        office.people.invite(name, "admin")
    office.people.disable("bea")
    with pytest.raises(Conflict, match="somebody must be left"):
        office.people.disable("ada")
    assert not office.people.find("ada").disabled


def test_no_secret_is_kept(office, ann, tmp_path):
    session = office.people.open_session("ann")
    _, token = office.people.mint(Caller(person=ann), label="", scopes=["read"], days=1)
    link = office.people.invite("bob", "owner")
    kept = (tmp_path / "service.db").read_bytes()
    assert b"argon2id" in kept
    for secret in (PASSWORD, session, token, link):
        assert secret.encode() not in kept
    assert (tmp_path / "service.db").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(
    ("name", "role"), [("", "owner"), ("a/b", "owner"), ("A", "owner"), ("a" * 65, "owner"), ("ann", "root")]
)
def test_names_and_roles_are_checked(office, name, role):
    with pytest.raises(ParameterError):
        office.people.invite(name, role)


def test_a_person_keeps_one_role(office, ann):
    with pytest.raises(Conflict):
        office.people.invite("ann", "owner")
    with pytest.raises(ParameterError):
        office.people.accept(office.people.invite("ann", "analyst"), "short")
