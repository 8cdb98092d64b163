"""`flashferry service init|user|audit`: people entered, passwords shown once, the audit looked at and exported."""

from __future__ import annotations

import json
import sqlite3
import sys
from contextlib import closing
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec

import pytest

from flashferry.cli.main import main
from flashferry.service.people.sign_in import Passwords
from flashferry.service.settings import PeopleSettings
from flashferry.store.service.audit import entries
from flashferry.store.service.database import ServiceDatabase
from flashferry.store.service.people import grants_of, password_hash, person

CHEAP = "[people]\nargon2_rounds = 1\nargon2_memory_mib = 8\nargon2_lanes = 1\n"
"""Hashing that takes no time."""
GIVEN = "correct horse battery"


@dataclass
class Said:
    code: object
    out: str
    err: str


@pytest.fixture
def service(tmp_path, monkeypatch, capsys):
    """Return what runs `flashferry service ...` over a state folder with a configuration."""
    state = tmp_path / "state"
    state.mkdir(mode=0o700)
    (state / "service.toml").write_text(CHEAP)
    monkeypatch.setenv("FLASHFERRY_STATE_DIR", str(state))
    monkeypatch.setattr(sys.stdin, "isatty", lambda: False)

    def run(*words):
        monkeypatch.setattr(sys, "argv", ["flashferry", "service", *map(str, words)])
        with pytest.raises(SystemExit) as left:
            main()
        return Said(left.value.code, *capsys.readouterr())

    run.state = state
    return run


def reading(service):
    return ServiceDatabase(service.state).reading()


def is_password(service, name, password):
    with reading(service) as database:
        hash_ = password_hash(database, name)
    settings = PeopleSettings(argon2_rounds=1, argon2_memory_kib=8192, argon2_lanes=1)
    return Passwords(settings).verdict(hash_, password).is_right


def test_the_first_admin_is_made(service):
    """With a password that is shown once, and what to do next; the audit names who did it."""
    said = service("init", "anna")
    assert said.code == 0
    password = said.out.split("shown this once: ")[1].split()[0]
    assert is_password(service, "anna", password)
    assert "Sign in at http://127.0.0.1:8020/login" in said.out
    with reading(service) as database:
        assert [(one.role, one.site) for one in grants_of(database, "anna")] == [("admin", "*")]
        (entry,) = [one.entry for one in entries(database)]
    assert (entry.action, entry.object, entry.via) == ("user.made", "user:anna", "command-line")
    assert password not in str(entry)


def test_a_password_from_the_environment(service, monkeypatch):
    """Is taken and shown nowhere."""
    monkeypatch.setenv("FLASHFERRY_USER_PASSWORD", GIVEN)
    said = service("init", "--json")
    assert json.loads(said.out)["password"] is None
    assert is_password(service, "admin", GIVEN)


def test_a_password_that_is_typed(service, monkeypatch):
    """Twice alike, or nothing is changed."""
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True)
    typed = iter([GIVEN, "another", GIVEN, GIVEN])
    monkeypatch.setattr("getpass.getpass", lambda prompt: next(typed))
    assert "expected the same password twice" in service("init", "anna").err
    assert service("init", "anna").code == 0
    assert is_password(service, "anna", GIVEN)


def test_there_is_one_beginning(service):
    """A service that has an admin is left alone, and the way out is told."""
    service("init", "anna")
    said = service("init", "bert")
    assert said.code == 2
    assert "expected a service without an admin, found anna" in said.err
    with reading(service) as database:
        assert person(database, "bert") is None


def test_a_template_is_written_where_there_is_none(service):
    """And named; one that is there stays."""
    (service.state / "service.toml").unlink()
    assert "service.toml is written" in service("init").out
    assert "[listen]" in (service.state / "service.toml").read_text()


def test_a_template_is_written_where_it_is_to_be(service, tmp_path):
    """A configuration that is named and not there yet is begun, and named in what is to be done next."""
    config = tmp_path / "etc.toml"
    said = service("init", "--config", config)
    assert said.code == 0
    assert "[listen]" in config.read_text()
    assert f"flashferry service --config {config}" in said.out


def test_no_admin_is_made_where_the_configuration_cannot_be(service, tmp_path):
    """Else his password would be made up, and told to nobody."""
    said = service("init", "anna", "--config", tmp_path / "nowhere" / "etc.toml")
    assert said.code == 2
    assert "etc.toml: cannot be written" in said.err
    with reading(service) as database:
        assert person(database, "anna") is None


def test_people_are_entered_and_given_roles(service):
    """Of a site or of all; taken back; told as they are then."""
    service("init", "anna")
    said = json.loads(service("user", "add", "bert", "--role", "operator@AMS", "--json").out)
    assert said["schema"] == "flashferry.service-user/1"
    assert said["person"]["roles"] == ["operator@AMS"]
    assert is_password(service, "bert", said["person"]["password"])
    assert "approver@* operator@AMS" in service("user", "grant", "bert", "approver").out
    assert "active, approver@*" in service("user", "grant", "bert", "operator@AMS", "--take").out
    assert "approver@* viewer@*" in service("user", "grant", "bert", "--role", "viewer").out
    listed = json.loads(service("user", "list", "--json").out)["people"]
    assert [one["name"] for one in listed] == ["anna", "bert"]


@pytest.mark.parametrize("words", [("audit", "verify"), ("audit", "export"), ("user", "list"), ("user", "add", "eve")])
def test_nothing_is_made_where_no_service_is(service, tmp_path, words):
    """A folder of another name is no audit that is whole: refused, and not made."""
    said = service(*words, "--state-dir", tmp_path / "nowhere")
    assert (said.code, said.out) == (2, "")
    assert "nowhere: expected the service's database, found none. 'flashferry service init' sets up" in said.err
    assert not (tmp_path / "nowhere").exists()


def test_people_are_disabled_and_enabled(service):
    """The last admin is not; the refusal is in the audit."""
    service("init", "anna")
    assert "the last one" in service("user", "disable", "anna").err
    service("user", "add", "bert")
    assert "bert is disabled: disabled" in service("user", "disable", "bert", "--reason", "left").out
    assert "bert is enabled: active" in service("user", "enable", "bert").out
    with reading(service) as database:
        outcomes = [(one.entry.action, one.entry.outcome, one.entry.reason) for one in entries(database)]
    assert outcomes[1][:2] == ("user.disabled", "refused")
    assert ("user.disabled", "done", "left") in outcomes


def test_a_lost_password_is_given_anew(service, monkeypatch):
    """Made up, or given."""
    service("init", "anna")
    monkeypatch.setenv("FLASHFERRY_USER_PASSWORD", GIVEN)
    assert "shown this once" not in service("user", "password", "anna").out
    assert is_password(service, "anna", GIVEN)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("user", "add", "A B"), "expected a name of small letters"),
        (("user", "add", "bert", "--role", "king"), "expected a role, found 'king'"),
        (("user", "add", "bert", "--role", "operator@"), "expected a site after 'operator@', found none"),
        (("user", "grant", "anna"), "expected a role, found none"),
        (("user", "grant", "nobody", "viewer"), "there is no user of the name 'nobody'"),
        (("audit", "verify", "--head", "1"), "expected NUMBER:HASH"),
        (("audit", "export", "--format", "xml"), "--format: expected jsonl or csv, found 'xml'"),
        (("audit", "export", "--since", "never"), "since: expected a time"),
        (("--listen", "1", "init"), "--listen: expected after 'service init', found before it"),
        (("--config", "none.toml"), "none.toml: expected the service's configuration, found no file"),
    ],
)
def test_what_is_wrong_is_told(service, words, sentence):
    """In one sentence, with exit code 2."""
    service("init", "anna")
    said = service(*words)
    assert (said.code, said.out) == (2, "")
    assert sentence in said.err
    assert said.err.count("\n") == 1


def test_without_the_extra_one_sentence_is_told(service, monkeypatch):
    """What is missing, and how to have it."""
    serve = import_module("flashferry.cli.service.serve")
    monkeypatch.setattr(serve, "find_spec", lambda name: None if name == "uvicorn" else find_spec(name))
    said = service("init")
    assert said.code == 2
    assert "found no uvicorn. Install the extra 'service': " in said.err


def test_the_audit_is_looked_at(service):
    """Whole with 0 and its head, which can be given again; not whole with 3 and what is wrong."""
    service("init", "anna")
    said = json.loads(service("audit", "verify", "--json").out)
    assert (said["is_whole"], said["entries"], said["meaning"]) == (True, 1, "the audit is whole")
    assert service("audit", "verify", "--head", said["head"]).code == 0
    other = service("audit", "verify", "--head", "2:" + "0" * 64)
    assert other.code == 3
    assert "THE AUDIT IS NOT WHOLE" in other.out
    assert "entry 2: expected one, as a head that was kept says, found none" in other.out


@pytest.mark.parametrize(
    ("statement", "fault"),
    [
        ("UPDATE audit SET actor = x'ff'", "entry 1: expected text in each column, found that actor is blob"),
        ("DROP TABLE audit", "the definition of table audit is not the schema's: it is missing"),
        ("DELETE FROM audit", "there is no entry, although each change has one, and there are rows: 1 in people"),
    ],
)
def test_an_audit_that_cannot_be_read_is_not_whole(service, statement, fault):
    """Exit code 3 and a sentence, whatever stands in the place of an entry."""
    service("init", "anna")
    with closing(sqlite3.connect(service.state / "service.sqlite3", isolation_level=None)) as database:
        database.execute("DROP TRIGGER audit_is_never_changed")
        database.execute("DROP TRIGGER audit_is_never_deleted")
        database.execute(statement)
    verified = service("audit", "verify")
    assert verified.code == 3
    assert fault in verified.out


def test_the_audit_is_exported(service, tmp_path):
    """To standard output or into a new file that is its owner's alone."""
    service("init", "anna")
    line = json.loads(service("audit", "export").out)
    assert (line["seq"], line["action"]) == (1, "user.made")
    file = tmp_path / "audit.csv"
    assert not service("audit", "export", "--format", "csv", "-o", file, "--action", "user").code
    assert file.read_text().splitlines()[0].startswith("seq,at,actor")
    assert file.stat().st_mode & 0o777 == 0o600
    assert "expected no file, found one" in service("audit", "export", "-o", file).err
