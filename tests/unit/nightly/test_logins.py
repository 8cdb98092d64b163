"""Logins of a night come from where its description says, never from each other's place, and are masked."""

from __future__ import annotations

import json
import re
import sys
from types import SimpleNamespace

import pytest

from flashferry.core.errors import ConfigInvalid
from flashferry.core.redaction import forget_secrets, masked
from flashferry.nightly.description.logins import controller_access, node_login
from flashferry.nightly.description.values import LoginFrom
from tests.unit.nightly.describing import described

BOTH = {
    "FLASHFERRY_CML_USERNAME": "ops",
    "FLASHFERRY_CML_PASSWORD": "controller-word",
    "FLASHFERRY_USERNAME": "ann",
    "FLASHFERRY_PASSWORD": "router-word",
    "FLASHFERRY_ENABLE_SECRET": "enable-word",
}


@pytest.fixture(autouse=True)
def _forget():
    yield
    forget_secrets()


def test_each_has_variables_of_its_own(tmp_path):
    """A router's password is never sent to a controller."""
    description = described(tmp_path, {"devices": {"login": "environment"}})
    login, nodes = controller_access(description.controller, BOTH), node_login(description, BOTH)
    assert (login.username, login.password) == ("ops", "controller-word")
    assert (nodes.username, nodes.password, nodes.secret) == ("ann", "router-word", "enable-word")
    assert "word" not in repr(login) + repr(nodes)
    assert masked("controller-word router-word") == "*** ***"


@pytest.mark.parametrize("missing", ["USERNAME", "PASSWORD"])
def test_what_is_missing_is_said(tmp_path, missing):
    """With the variable's name."""
    description = described(tmp_path)
    environment = {name: value for name, value in BOTH.items() if name != f"FLASHFERRY_CML_{missing}"}
    with pytest.raises(
        ConfigInvalid, match=f"controller.login: expected .* from the variable FLASHFERRY_CML_{missing}"
    ) as wrong:
        controller_access(description.controller, environment)
    assert "word" not in str(wrong.value).replace("password", "")


def test_two_users_contradict_each_other(tmp_path):
    """The password is the other one's: it is not tried with this name."""
    description = described(tmp_path, {"controller.username": "nightly"})
    with pytest.raises(ConfigInvalid, match=r"controller.username: expected the user of the variable .* found another"):
        controller_access(description.controller, BOTH)


def test_a_password_that_ends_its_line_is_refused(tmp_path):
    """As those of devices are."""
    with pytest.raises(ConfigInvalid, match="FLASHFERRY_CML_PASSWORD: expected one line of text"):
        controller_access(described(tmp_path).controller, BOTH | {"FLASHFERRY_CML_PASSWORD": "a\nb"})


def test_a_command_is_given_the_controllers_name(tmp_path):
    """And prints JSON; where it says no password, the sentence names it."""
    script = tmp_path / "secrets.py"
    script.write_text("import json, sys\nprint(json.dumps({'username': 'ops', 'password': sys.argv[1] + '-word'}))")
    command = f"{sys.executable} {script}"
    changes = {"controller": {"url": "https://cml:8443", "login": "command", "login_command": command}}
    assert controller_access(described(tmp_path, changes).controller).password == "cml-word"
    script.write_text("print('{}')")
    with pytest.raises(
        ConfigInvalid, match=r"controller.login: expected a user from login_command for 'cml', found none"
    ):
        controller_access(described(tmp_path, changes).controller)
    script.write_text("raise SystemExit(3)")
    with pytest.raises(ConfigInvalid, match="ended with exit code 3"):
        controller_access(described(tmp_path, changes).controller)


def test_a_keyring_is_asked_for_the_controllers_own_entry(tmp_path, monkeypatch):
    """The entry that all devices share is not the controller's; for the lab's routers it counts."""
    entries = {("flashferry", "nightly"): "shared-word"}
    fake = SimpleNamespace(get_password=lambda service, user: entries.get((service, user)))
    monkeypatch.setitem(sys.modules, "keyring", fake)
    login = {"login": "keyring", "username": "nightly"}
    description = described(tmp_path, {"controller": {"url": "https://cml.example.net", **login}, "devices": login})
    assert node_login(description).password == "shared-word"
    with pytest.raises(ConfigInvalid, match="expected a password from the keyring, found none") as wrong:
        controller_access(description.controller)
    assert wrong.value.hint == "Store it with: keyring set flashferry/cml.example.net nightly"
    entries["flashferry/cml.example.net", "nightly"] = "own-word"
    assert controller_access(description.controller).password == "own-word"


def test_a_generated_login_is_made_for_each_night(tmp_path):
    """20 letters and digits, another each time; the user is the description's, or ours."""
    description = described(tmp_path)
    assert description.devices.source is LoginFrom.GENERATED
    first, second = node_login(description, {}), node_login(description, {})
    assert re.fullmatch(r"[A-Za-z][A-Za-z0-9]{19}", first.password)
    assert first.password != second.password
    assert (first.username, first.secret) == ("flashferry", None)
    assert node_login(described(tmp_path, {"devices.username": "lab"}), {}).username == "lab"
    assert json.dumps(first.password) not in masked(json.dumps(first.password))
