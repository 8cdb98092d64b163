"""People are entered, disabled and given roles, never deleted; somebody is always left who may do that."""

from __future__ import annotations

import threading

import pytest

from flashferry.core.values import replace
from flashferry.service.api.problems import status_of
from flashferry.service.errors import ServiceError
from flashferry.service.people import accounts
from flashferry.service.people.accounts import NewPerson, add_person, give_grants, set_active, set_grants, take_grants
from flashferry.service.people.provisioning import MappedPerson, enter
from flashferry.service.principal import Grant, Role
from flashferry.store.service import people as rows
from tests.served import ADMIN

LONG = "correct horse battery"
OPERATOR = Grant(role=Role.OPERATOR, site="AMS")
VIEWER = Grant(role=Role.VIEWER)


def has(served, name: str) -> list[str]:
    with served.service.database.reading() as database:
        return [f"{one.role}@{one.site}" for one in rows.grants_of(database, name)]


def test_who_is_entered_has_what_he_was_given(served, passwords):
    """And the audit has who gave it; the password is nowhere."""
    add_person(served.service, ADMIN, NewPerson(name="ann", password=LONG, grants=(OPERATOR, VIEWER)), passwords)
    assert has(served, "ann") == ["operator@AMS", "viewer@*"]
    entry = served.audit()[-1]
    assert (entry.actor, entry.action, entry.object) == ("root", "user.made", "user:ann")
    assert "operator@AMS" in entry.after
    assert LONG not in repr(served.audit())
    with served.service.database.reading() as database:
        hash_ = rows.password_hash(database, "ann")
    assert hash_ is not None
    assert hash_.startswith("$argon2id$")
    assert passwords.verdict(hash_, LONG).is_right


@pytest.mark.parametrize(
    ("new", "status"),
    [
        (NewPerson(name="root"), 409),
        (NewPerson(name="system"), 422),
        (NewPerson(name="anonymous"), 422),
        (NewPerson(name="oidc"), 422),
        (NewPerson(name="Ann"), 422),
        (NewPerson(name="a b"), 422),
        (NewPerson(name="../x"), 422),
        (NewPerson(name=""), 422),
        (NewPerson(name="x" * 65), 422),
        (NewPerson(name="ann\n"), 422),
        (NewPerson(name="ann", display="x" * 201), 422),
        (NewPerson(name="ann", password="short"), 422),
        (NewPerson(name="ann", password="aaaaaaaaaaaaaaaa"), 422),
        (NewPerson(name="ann", password="my name is ann ok"), 422),
        (NewPerson(name="ann", password="x1y2z" * 60), 422),
        (NewPerson(name="ann", grants=(Grant(role=Role.ADMIN, site="AMS"),)), 422),
        (NewPerson(name="ann", grants=(Grant(role=Role.VIEWER, site="a b"),)), 422),
    ],
)
def test_what_will_not_do_is_refused_with_what_to_do(served, passwords, new, status):
    """Nothing of it is kept."""
    with pytest.raises(ServiceError) as refused:
        add_person(served.service, ADMIN, new, passwords)
    assert status_of(refused.value) == status
    assert refused.value.hint
    with served.service.database.reading() as database:
        assert [one.name for one in rows.people(database)] == ["root"]
    assert new.password is None or new.password not in f"{refused.value} {served.audit()}"


@pytest.mark.parametrize(
    "demote",
    [
        lambda service: set_active(service, ADMIN, "root", is_active=False),
        lambda service: take_grants(service, ADMIN, "root", [Grant(role=Role.ADMIN)]),
        lambda service: set_grants(service, ADMIN, "root", [VIEWER]),
    ],
)
def test_the_last_admin_stays(served, demote):
    """Nobody else could make another; somebody disabled is no other, and the refusal is in the audit."""
    served.person("eve", "admin", state="disabled")
    with pytest.raises(ServiceError) as refused:
        demote(served.service)
    assert status_of(refused.value) == 409
    assert has(served, "root") == ["admin@*"]
    assert served.audit()[-1].outcome == "refused"
    set_active(served.service, ADMIN, "eve", is_active=True)
    demote(served.service)


def test_two_admins_do_not_demote_each_other_at_once(served):
    """One of them is left, whoever was first."""
    served.person("eve", "admin")
    begin = threading.Barrier(2)

    def demote(name: str) -> None:
        begin.wait()
        try:
            take_grants(served.service, ADMIN, name, [Grant(role=Role.ADMIN)])
        except ServiceError:
            done.append(name)

    done: list[str] = []
    threads = [threading.Thread(target=demote, args=(name,)) for name in ("root", "eve")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(done) == 1
    assert has(served, done[0]) == ["admin@*"]


def test_grants_are_set_as_a_whole_or_one_by_one(served):
    """And written down before and after."""
    served.person("ann", "viewer")
    give_grants(served.service, ADMIN, "ann", [OPERATOR])
    assert has(served, "ann") == ["operator@AMS", "viewer@*"]
    set_grants(served.service, ADMIN, "ann", [OPERATOR])
    assert has(served, "ann") == ["operator@AMS"]
    entry = served.audit()[-1]
    assert (entry.before, entry.after) == ('["operator@AMS","viewer@*"]', '["operator@AMS"]')
    set_grants(served.service, ADMIN, "ann", [OPERATOR])
    assert len([one for one in served.audit() if one.action == "user.granted"]) == 2


def test_what_follows_from_groups_is_not_taken_by_hand(served, passwords):
    """It would come back with the next sign-in; what was given here besides stays with him."""
    told = MappedPerson(source="oidc", subject="s1", name="ann", grants=frozenset({VIEWER}))
    with served.service.database.writing() as database:
        enter(served.service, database, told)
    give_grants(served.service, ADMIN, "ann", [OPERATOR])
    with pytest.raises(ServiceError, match="follows from the groups"):
        take_grants(served.service, ADMIN, "ann", [VIEWER])
    set_grants(served.service, ADMIN, "ann", [])
    assert has(served, "ann") == ["viewer@*"]
    with pytest.raises(ServiceError, match="signs in elsewhere"):
        accounts.set_password(served.service, ADMIN, "ann", LONG, passwords)


def test_groups_lead_and_grants_follow(served):
    """What is no longer said is taken away, and what was given here is not."""
    with served.service.database.writing() as database:
        enter(
            served.service, database, MappedPerson(source="oidc", subject="1", name="ann", grants=frozenset({VIEWER}))
        )
    give_grants(served.service, ADMIN, "ann", [OPERATOR])
    with served.service.database.writing() as database:
        enter(
            served.service,
            database,
            MappedPerson(
                source="oidc", subject="1", name="ann", grants=frozenset({OPERATOR, Grant(role=Role.APPROVER)})
            ),
        )
    assert has(served, "ann") == ["approver@*", "operator@AMS"]
    written = len(served.audit())
    with served.service.database.writing() as database:
        enter(
            served.service,
            database,
            MappedPerson(source="oidc", subject="1", name="x", grants=frozenset({OPERATOR, Grant(role=Role.APPROVER)})),
        )
    assert len(served.audit()) == written


def test_nobody_and_the_system_are_no_accounts(served, passwords):
    """The system's row is there for what it does, and nobody gives it anything."""
    for name in ("nobody", "system"):
        with pytest.raises(ServiceError) as refused:
            give_grants(served.service, ADMIN, name, [VIEWER])
        assert status_of(refused.value) == 404
        with pytest.raises(ServiceError):
            accounts.set_password(served.service, ADMIN, name, LONG, passwords)


def test_another_password_ends_the_sessions(served, passwords):
    """Whoever has the old one is out; so is a lock."""
    served.person("ann", "viewer")
    browser = served.browser("ann")
    with served.service.database.writing() as database:
        rows.lock(database, "ann", "2026-11-24T00:00:00.000Z")
    accounts.set_password(served.service, ADMIN, "ann", LONG, passwords)
    assert served.call("GET", "/tonight", browser).status_code == 401
    with served.service.database.reading() as database:
        found = rows.person(database, "ann")
    assert found is not None
    assert found.locked_until is None


def test_a_role_at_a_site_that_the_inventory_does_not_have(served, passwords, tmp_path):
    """It would be worth nothing: refused with what may have been meant; a site that was given up stays where it is."""
    (tmp_path / "hosts.yaml").write_text("r1: {hostname: 192.0.2.1, platform: ios, data: {site: AMS}}")
    service = served.service
    give_grants(service, ADMIN, served.person("bob"), [Grant(role=Role.OPERATOR, site="GONE")])
    runs = replace(service.settings.runs, inventory=str(tmp_path))
    object.__setattr__(service, "settings", replace(service.settings, runs=runs))
    wrong = Grant(role=Role.OPERATOR, site="AMSS")
    for give in (
        lambda: add_person(service, ADMIN, NewPerson(name="ann", grants=(wrong,)), passwords),
        lambda: give_grants(service, ADMIN, "bob", [wrong]),
        lambda: set_grants(service, ADMIN, "bob", [wrong]),
    ):
        with pytest.raises(ServiceError, match="site=AMSS: no device has that site"):
            give()
    assert has(served, "bob") == ["operator@GONE"]
    set_grants(service, ADMIN, "bob", [OPERATOR, Grant(role=Role.OPERATOR, site="GONE"), VIEWER])
    assert has(served, "bob") == ["operator@AMS", "operator@GONE", "viewer@*"]
