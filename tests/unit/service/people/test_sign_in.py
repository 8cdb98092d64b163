"""Signing in: who guesses is slowed down, locked out and written down, and learns nothing of which names there are."""

from __future__ import annotations

import json
import threading

import pytest

from flashferry.core.values import replace
from flashferry.service.api.problems import status_of
from flashferry.service.errors import ServiceError
from flashferry.service.notices import NoticeKind
from flashferry.service.people.accounts import DISABLED, NewPerson, add_person
from flashferry.service.people.sign_in import (
    MOST_AT_ONCE,
    MOST_WAITING,
    DenialLog,
    LoginRateLimit,
    PasswordLogin,
    Passwords,
    SignIn,
)
from flashferry.service.settings import OidcSettings
from flashferry.store.service import people as rows
from tests.served import ADMIN, BEGIN, QUICK

LONG = "correct horse battery"
WRONG = "wrong horse battery"


@pytest.fixture
def door(served) -> PasswordLogin:
    made = PasswordLogin(served.service, DenialLog(served.service))
    add_person(served.service, ADMIN, NewPerson(name="ann", password=LONG), made.passwords)
    return made


def given(name: str = "ann", password: str = LONG, address: str = "192.0.2.7", before: str | None = None) -> SignIn:
    return SignIn(name=name, password=password, address=address, before=before)


def refusal(door: PasswordLogin, sign_in: SignIn) -> ServiceError:
    with pytest.raises(ServiceError) as refused:
        door.sign_in(sign_in)
    return refused.value


def told(problem: ServiceError) -> tuple[object, ...]:
    return status_of(problem), problem.sentence, problem.hint, *problem.more.items()


def test_the_right_password_begins_a_session(served, door):
    """Under a new id, whatever the browser came with; what it came with is over."""
    first = door.sign_in(given())
    second = door.sign_in(given(before=first.session_id))
    assert first.session_id != second.session_id
    assert served.audit()[-1].action == "login.ok"
    with served.service.database.reading() as database:
        assert database.execute("SELECT count(*) FROM sessions").fetchone()[0] == 1


def test_a_planted_session_is_never_taken_over(served, door):
    """An id that somebody else chose is not the one after the sign-in (fixation)."""
    made = door.sign_in(given(before="planted-by-somebody-else"))
    assert made.session_id != "planted-by-somebody-else"


def test_what_was_wrong_is_not_told(served, door):
    """Unknown, wrong, disabled, without a password: one answer, in the same words."""
    served.person("oda", source="oidc")
    with served.service.database.writing() as database:
        rows.insert_person(database, rows.Person(name="dis", source="local", created_at="x"), password=None)
        rows.set_state(database, "dis", DISABLED)
    answers = {
        told(refusal(door, given(name, WRONG, address)))
        for name, address in (("ann", "192.0.2.1"), ("nobody", "192.0.2.2"), ("oda", "192.0.2.3"), ("dis", "192.0.2.4"))
    }
    assert len(answers) == 1


def test_a_disabled_account_with_the_right_password_is_told_nothing_else(served, door):
    """The audit knows why."""
    with served.service.database.writing() as database:
        rows.set_state(database, "ann", DISABLED)
    assert told(refusal(door, given())) == told(refusal(door, given("nobody", address="192.0.2.8")))
    assert "disabled" in next(one for one in served.audit() if one.action == "login.failed").reason


def test_unknown_names_cost_the_same_work(served, door, monkeypatch):
    """As many hashes, as many changes and entries: that is what takes time."""
    hashed: list[str] = []
    real = Passwords.verdict
    monkeypatch.setattr(Passwords, "verdict", lambda *args: hashed.append("x") or real(*args))
    work = []
    for name, address in (("ann", "192.0.2.1"), ("nobody", "192.0.2.2")):
        hashed.clear()
        with served.service.database.reading() as database:
            before = database.execute("SELECT sum(failed_logins), (SELECT count(*) FROM audit) FROM people").fetchone()
        refusal(door, given(name, WRONG, address))
        with served.service.database.reading() as database:
            after = database.execute("SELECT sum(failed_logins), (SELECT count(*) FROM audit) FROM people").fetchone()
        work.append((len(hashed), *(one - other for one, other in zip(after, before, strict=True))))
    assert work == [(1, 1, 1), (1, 1, 1)]


@pytest.mark.parametrize("name", ["ann", "nobody"])
def test_a_name_is_locked_after_five_wrong_passwords(served, door, name):
    """Known or not, in the same words; then even the right one is not taken, until the lock is over."""
    answers = [refusal(door, given(name, WRONG)) for _ in range(5)]
    assert [status_of(one) for one in answers] == [401, 401, 401, 401, 429]
    assert told(answers[4])[1:3] == ("the name is locked after wrong passwords", "Try again in 15 min")
    served.clock.forward(14 * 60)
    assert told(refusal(door, given(name)))[2] == "Try again in 1 min"
    served.clock.forward(61)
    if name == "ann":
        assert door.sign_in(given()).session_id
    else:
        assert status_of(refusal(door, given(name))) == 401


def test_the_right_password_forgets_the_wrong_ones(served, door):
    """Four in the morning and four in the evening are no five in a row."""
    for _ in range(2):
        for _ in range(4):
            refusal(door, given(password=WRONG))
        door.sign_in(given())
        served.clock.forward(600)


def test_forty_guesses_at_once_are_five(served, door):
    """Those that were under way when the lock fell do not get in either."""
    door = PasswordLogin(
        replace(served.service, settings=replace(served.service.settings, people=replace(QUICK, most_tries=99))),
        DenialLog(served.service),
    )
    results: list[int] = []
    words = [WRONG] * 39 + [LONG]

    def guess(word: str) -> None:
        try:
            door.sign_in(given(password=word))
            results.append(200)
        except ServiceError as problem:
            results.append(status_of(problem))

    for _ in range(5):
        guess(WRONG)
    threads = [threading.Thread(target=guess, args=(word,)) for word in words]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert 200 not in results
    assert results.count(401) == 4


def test_an_address_signs_in_so_often(served, door):
    """Whatever names it takes; another address is not held back."""
    for number in range(20):
        refusal(door, given(f"name{number}", WRONG))
    answer = refusal(door, given())
    assert (status_of(answer), answer.more) == (429, {"retry_after_s": 300})
    assert door.sign_in(given(address="192.0.2.8"))
    served.clock.forward(301)
    assert door.sign_in(given())


def test_what_was_typed_for_a_name_is_not_written_down(served, door):
    """It may be the password, in the wrong field."""
    refusal(door, given(name=LONG, password="x"))
    refusal(door, given(password=WRONG))
    kept = repr(served.audit())
    assert LONG not in kept
    assert WRONG not in kept
    assert [one.object for one in served.audit() if one.action == "login.failed"] == ["user:anonymous", "user:ann"]
    assert LONG.encode() not in b"".join(path.read_bytes() for path in served.service.state.iterdir())


def test_a_hash_of_old_parameters_is_made_anew(served, door):
    """At the next sign-in, which is when the password is there."""
    with served.service.database.reading() as database:
        before = rows.password_hash(database, "ann")
    dearer = replace(served.service.settings, people=replace(QUICK, argon2_rounds=2))
    later = PasswordLogin(replace(served.service, settings=dearer), DenialLog(served.service))
    later.sign_in(given())
    with served.service.database.reading() as database:
        after = rows.password_hash(database, "ann")
    assert (before, after) != (after, before)
    assert after is not None
    assert "t=2" in after
    assert later.sign_in(given()).session_id


def test_a_broken_hash_lets_nobody_in(served, door):
    """And is no error either."""
    with served.service.database.writing() as database:
        rows.set_password_hash(database, "ann", "rubbish")
    assert status_of(refusal(door, given())) == 401


def test_spellings_of_one_password_are_one(passwords):
    """A letter with its accent, and the letter and its accent."""
    assert passwords.verdict(
        passwords.hash("caf\u00e9 caf\u00e9 caf\u00e9"), "cafe\u0301 cafe\u0301 cafe\u0301"
    ).is_right
    assert not passwords.verdict(passwords.hash("caf\u00e9"), "cafe").is_right
    assert not passwords.verdict(passwords.hash("x"), "\ud800").is_right


def test_a_flood_takes_neither_memory_nor_threads(passwords):
    """One hashes, some wait, and whoever comes then is turned away at once."""
    held = [passwords._places.acquire(blocking=False) for _ in range(MOST_AT_ONCE + MOST_WAITING)]
    assert all(held)
    with pytest.raises(ServiceError, match="at once"):
        passwords.verdict(None, "x")
    passwords._places.release()
    assert not passwords.verdict(None, "x").is_right


def test_a_customers_addresses_are_one():
    """An IPv6 network has more addresses than anybody counts."""
    tries = LoginRateLimit(replace(QUICK, most_tries=2))
    assert [tries.take(f"2001:db8::{n}", BEGIN) > 0 for n in range(3)] == [False, False, True]
    assert tries.take("2001:db8:0:1::1", BEGIN) == 0
    assert tries.take("::ffff:192.0.2.1", BEGIN) == 0
    assert tries.take("", BEGIN) == 0


def test_what_is_remembered_of_who_tries_is_bounded(monkeypatch):
    """A flood from everywhere takes no memory."""
    monkeypatch.setattr("flashferry.service.people.sign_in.MOST_TRACKED", 10)
    tries = LoginRateLimit(QUICK)
    for number in range(50):
        tries.take(f"192.0.2.{number}", BEGIN)
        tries.count_unknown(f"name{number}", BEGIN)
    assert len(tries._addresses) == len(tries._names) == 10
    assert "name49" not in repr(tries._names)


def test_a_local_sign_in_is_told_where_people_sign_in_elsewhere(served):
    """Break-glass: whoever uses it is heard of."""
    elsewhere = replace(served.service.settings, oidc=OidcSettings(issuer="https://id.example", client_id="c"))
    service = replace(served.service, settings=elsewhere)
    door = PasswordLogin(service, DenialLog(service))
    add_person(service, ADMIN, NewPerson(name="ann", password=LONG), door.passwords)
    with service.database.writing() as database:
        database.execute(
            "INSERT INTO hooks (hook_id, name, form, target, kinds) VALUES ('h', 'h', 'webhook', 'https://x', ?)",
            (json.dumps([NoticeKind.EMERGENCY_LOGIN.value]),),
        )
    door.sign_in(given())
    with service.database.reading() as database:
        bodies = [row["body"] for row in database.execute("SELECT body FROM outbox")]
    assert len(bodies) == 1
    assert "local password" in bodies[0]
