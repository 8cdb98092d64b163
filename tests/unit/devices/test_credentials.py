"""Where credentials come from, in which order, and that none of them shows."""

from __future__ import annotations

import contextlib
import os
import sys
import types
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from flashferry.core.errors import ConfigInvalid
from flashferry.core.redaction import masked
from flashferry.devices import credentials
from flashferry.devices.credentials import (
    CommandSource,
    Credentials,
    Environment,
    KeyringSource,
    apply_credentials,
)
from inventory.nornir_loader import open_inventory
from tests.patience import PATIENCE_S, until

NOTHING = Credentials()


@pytest.fixture(autouse=True)
def no_environment(monkeypatch):
    for name in ("FLASHFERRY_USERNAME", "FLASHFERRY_PASSWORD", "FLASHFERRY_ENABLE_SECRET"):
        monkeypatch.delenv(name, raising=False)


def opened(folder, hosts, defaults="{}"):
    (folder / "hosts.yaml").write_text(hosts)
    (folder / "defaults.yaml").write_text(defaults)
    return open_inventory(folder)


def login(host):
    return host.username, host.password, host.get("enable_secret")


class Fixed:
    """A source that always says the same, and keeps whom it was asked about."""

    workers = 1

    def __init__(self, **values):
        self.says, self.asked = Credentials(**values), []

    def lookup(self, name, known):
        self.asked.append(name)
        return self.says


def test_each_source_fills_in_what_is_left(tmp_path):
    """What an earlier source said stays; a device that lacks nothing is not asked about."""
    nornir = opened(
        tmp_path,
        "r1: {hostname: h, username: ann}\nr2: {hostname: h, username: bob, password: b, data: {enable_secret: e}}",
    )
    first, second = Fixed(password="one"), Fixed(username="ann", password="two", enable_secret="three")
    apply_credentials(nornir, [first, second])
    assert login(nornir.inventory.hosts["r1"]) == ("ann", "one", "three")
    assert login(nornir.inventory.hosts["r2"]) == ("bob", "b", "e")
    assert (first.asked, second.asked) == (["r1"], ["r1"])


def test_a_password_counts_for_its_own_user_only(tmp_path):
    """A source that names another user gives that device nothing: no wrong password is tried in somebody's name."""
    nornir = opened(tmp_path, "r1: {hostname: h, username: ann}")
    apply_credentials(nornir, [Fixed(username="eve", password="hers", enable_secret="hers")])
    assert login(nornir.inventory.hosts["r1"]) == ("ann", None, None)


def test_the_inventory_goes_before_the_environment(tmp_path, monkeypatch):
    """A device's own login stays; one without gets the environment's, and so do the defaults, for recover."""
    monkeypatch.setenv("FLASHFERRY_USERNAME", "fleet")
    monkeypatch.setenv("FLASHFERRY_PASSWORD", "fleet-password")
    nornir = apply_credentials(
        opened(tmp_path, "r1: {hostname: h, username: ann, password: a}\nr2: {hostname: h}"), [Environment()]
    )
    assert login(nornir.inventory.hosts["r1"])[:2] == ("ann", "a")
    assert login(nornir.inventory.hosts["r2"])[:2] == ("fleet", "fleet-password")
    assert nornir.inventory.defaults.password == "fleet-password"


def test_options_of_napalm_count_as_inventory(tmp_path):
    """A user's inventory may state login and secret under NAPALM's name; they are not asked for again."""
    nornir = opened(
        tmp_path,
        "r1: {hostname: h, connection_options: {napalm: {username: ann, password: a, "
        "extras: {optional_args: {secret: s}}}}}",
    )
    source = Fixed(password="other")
    apply_credentials(nornir, [source])
    assert source.asked == []


def test_nothing_shows_in_a_representation():
    """Passwords and secrets are not in what a log or a traceback would print."""
    assert repr(Credentials(username="ann", password="p-word", enable_secret="e-word")) == "Credentials(username='ann')"


def program(folder, body):
    path = folder / "secrets"
    path.write_text(f"#!{sys.executable}\nimport json, os, sys, time\n{body}\n")
    path.chmod(0o700)
    return CommandSource(f"'{path}' --for")


def test_a_secrets_command(tmp_path):
    """It gets the device's name as its last argument, through no shell, and its answer is taken as it is."""
    source = program(tmp_path, "print(json.dumps({'username': 'ann', 'password': '|'.join(sys.argv[1:])}))")
    assert source.lookup("r1; $(id)", NOTHING) == Credentials(username="ann", password="--for|r1; $(id)")


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ("print('WORD'); sys.exit(7)", "ended with exit code 7"),
        ("print('WORD')", "expected one JSON object"),
        ("print('[\"WORD\"]')", "expected a JSON object of texts"),
        ("print(json.dumps({'password': ['WORD']}))", "expected a JSON object of texts"),
        ("print(json.dumps({'pasword': 'WORD'}))", "expected the keys enable_secret, password, username"),
        ("os.write(1, b'\\xff WORD')", "expected one JSON object"),
        ("os.write(1, b'WORD' * 50000)", "expected at most 65536 bytes"),
    ],
)
def test_a_secrets_command_that_fails(tmp_path, body, sentence):
    """The device, the program and what was wrong are told; what it printed is not."""
    with pytest.raises(ConfigInvalid, match=sentence) as caught:
        program(tmp_path, body).lookup("r1", NOTHING)
    assert str(caught.value).startswith(f"r1: secrets command '{tmp_path / 'secrets'}': ")
    assert "WORD" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


def test_a_secrets_command_that_hangs(tmp_path, monkeypatch):
    """It is ended with everything that it started, and the limit is told."""
    path = tmp_path / "secrets"
    # A shell starts sooner than Python does.
    path.write_text(f"#!/bin/sh\nsleep {2 * PATIENCE_S:.0f} &\necho $! > '{tmp_path}/pid'\nwait\n")
    path.chmod(0o700)
    monkeypatch.setattr(credentials, "COMMAND_LIMIT_S", 2.5)
    with ThreadPoolExecutor(1) as pool, pytest.raises(ConfigInvalid, match=r"no answer within 2\.5 s"):
        # Where its end is waited for instead, this limit comes first.
        pool.submit(CommandSource(str(path)).lookup, "r1", NOTHING).result(PATIENCE_S)
    stat = Path("/proc", (tmp_path / "pid").read_text().strip(), "stat")
    # A process that is killed ends when it is next run, not at once.
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # gone, or dead and not collected yet
        until(lambda: stat.read_text().rpartition(")")[2].split()[0] == "Z", "the end of what it started")


@pytest.mark.parametrize(
    ("command", "sentence"),
    [("", "found nothing"), ("a 'b", "No closing quotation"), ("/nowhere/x", "cannot be run: No such file")],
)
def test_a_secrets_command_that_is_none(command, sentence):
    """An empty, wrongly quoted or missing program is the operator's to mend."""
    with pytest.raises(ConfigInvalid, match=sentence):
        CommandSource(command).lookup("r1", NOTHING)


def fake_keyring(monkeypatch, entries):
    asked = []

    def get_password(service, username):
        asked.append((service, username))
        if isinstance(entries, Exception):
            raise entries
        return entries.get((service, username))

    monkeypatch.setitem(sys.modules, "keyring", types.SimpleNamespace(get_password=get_password))
    return asked


def test_the_keyring(monkeypatch):
    """A device's own entry goes before the shared one, and each entry is asked for once."""
    asked = fake_keyring(
        monkeypatch,
        {("flashferry", "ann"): "shared", ("flashferry/r2", "ann"): "own", ("flashferry", "enable"): "secret"},
    )
    source, ann = KeyringSource(), Credentials(username="ann")
    assert source.lookup("r1", ann) == Credentials(username="ann", password="shared", enable_secret="secret")
    assert source.lookup("r2", ann) == Credentials(username="ann", password="own", enable_secret="secret")
    assert source.lookup("r1", NOTHING) == Credentials(enable_secret="secret")
    assert len(asked) == len(set(asked) - {("flashferry", "enable"), ("flashferry/r1", "enable")}) + 4


def test_a_keyring_that_fails(monkeypatch):
    """Its error is told by kind only: its text may be anything."""
    fake_keyring(monkeypatch, RuntimeError("p-word"))
    with pytest.raises(ConfigInvalid, match="RuntimeError") as caught:
        KeyringSource().lookup("r1", Credentials(username="ann"))
    assert "p-word" not in str(caught.value)


def test_no_keyring_installed(monkeypatch):
    """Asked for and absent: what to install is told."""
    monkeypatch.setitem(sys.modules, "keyring", None)
    with pytest.raises(ConfigInvalid, match=r"not installed.*extra"):
        KeyringSource()


HOSTILE = ["\n", "\r\n", "x\nreload\n", "\x00", "\x1b[2J", "\x7f", "\x85", "\u2028"]


@pytest.mark.parametrize("end", HOSTILE)
@pytest.mark.parametrize("field", ["username", "password", "enable_secret"])
def test_what_no_line_can_hold_is_refused_from_every_source(tmp_path, monkeypatch, field, end):
    """It would be typed, and what stands behind a line break with it; the sentence says which and never shows it."""
    value = f"Word-{field}{end}"
    nornir = opened(tmp_path, "r1: {hostname: h}")
    with pytest.raises(ConfigInvalid, match=r"^r1: .*expected one line of text, found a .* in it") as caught:
        apply_credentials(nornir, [Fixed(**{field: value})])
    assert "Word" not in str(caught.value)
    (tmp_path / "hosts.yaml").write_text("r1: {hostname: h}")
    nornir = open_inventory(tmp_path)
    host = nornir.inventory.hosts["r1"]
    if field == "enable_secret":
        host.data[field] = value
    else:
        setattr(host, field, value)
    with pytest.raises(ConfigInvalid, match="expected one line of text") as caught:
        apply_credentials(nornir, [])
    assert "Word" not in str(caught.value)


@pytest.mark.parametrize("name", ["FLASHFERRY_USERNAME", "FLASHFERRY_PASSWORD", "FLASHFERRY_ENABLE_SECRET"])
def test_a_variable_with_a_line_end_is_named(tmp_path, monkeypatch, name):
    """A file that was read into it with its last line break is the commonest case."""
    monkeypatch.setenv(name, "Word-in-it\n")
    with pytest.raises(ConfigInvalid, match=rf"{name}: expected one line of text, found a line break") as caught:
        apply_credentials(opened(tmp_path, "r1: {hostname: h}"))
    assert "Word" not in str(caught.value)


def test_a_recovery_goes_on_without_the_one_device(tmp_path):
    """Who takes failures gets it with its device; all others keep their logins."""
    nornir = opened(tmp_path, "r1: {hostname: h}\nr2: {hostname: h, username: ann, password: p-word}")
    nornir.inventory.hosts["r1"].password = "bad\nword"
    refused = {}
    apply_credentials(nornir, [], failed=refused.__setitem__)
    assert list(refused) == ["r1"]
    assert [login(nornir.inventory.hosts[name])[0] for name in ("r1", "r2")] == [None, "ann"]


def test_secrets_of_all_sources_are_masked_from_then_on(tmp_path):
    """Whoever quotes one, a device or a library: the value is known."""
    nornir = opened(tmp_path, "r1: {hostname: h, username: ann}\nr2: {hostname: h, username: bob, password: hosts-own}")
    apply_credentials(nornir, [Fixed(username="ann", password="from-a-source", enable_secret="for-enabling")])
    assert masked("hosts-own from-a-source for-enabling") == "*** *** ***"


def test_a_secrets_command_may_have_an_environment_of_its_own(tmp_path):
    """Ours loses what we took out of it; the operator's own program gets what the operator gave."""
    path = tmp_path / "secrets"
    path.write_text(f"#!{sys.executable}\nimport json, os\nprint(json.dumps({{'password': os.environ['VAULT']}}))\n")
    path.chmod(0o700)
    source = CommandSource(str(path), {"VAULT": "opened", "PATH": os.environ["PATH"]})
    assert source.lookup("r1", NOTHING) == Credentials(password="opened")
