"""Logging in: host keys, credentials, and which devices a command is about, on the lab."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from ruamel.yaml import YAML

pytestmark = pytest.mark.lab
DEVICE = "xe1"


def failure_of(done) -> dict:
    (device,) = done.json["devices"]
    return device["failure"]


def without_credentials(rig) -> None:
    """Take all credentials out of the rig's inventory."""
    path = rig.inventory / "hosts.yaml"
    hosts = YAML(typ="safe").load(path)
    for host in hosts.values():
        del host["username"], host["password"], host["data"]["enable_secret"]
    YAML().dump(hosts, path)


@pytest.mark.soak
def test_host_keys(rig):
    """A new key is refused under strict, else remembered; a changed one is refused until its line is removed."""
    strict = rig.verb("check", "--host-keys", "strict")
    assert (strict.code, failure_of(strict)["kind"]) == (3, "HostKeyRefused")
    assert "expected a host key of 198.18.1.11" in failure_of(strict)["reason"]
    assert not (rig.state / "known_hosts").exists()
    assert rig.verb("check").code == 0
    assert rig.verb("check", "--host-keys", "strict").code == 0

    rig.world.fault(DEVICE, new_host_key=True)
    changed = rig.verb("check")
    assert (changed.code, failure_of(changed)["kind"]) == (3, "HostKeyRefused")
    assert "the host key of 198.18.1.11 has changed: expected SHA256:" in failure_of(changed)["reason"]
    known = rig.state / "known_hosts"
    assert f"ssh-keygen -R '198.18.1.11' -f '{known}'" in failure_of(changed)["hint"]

    subprocess.run(["ssh-keygen", "-R", "198.18.1.11", "-f", known], check=True, capture_output=True)
    assert rig.verb("check").code == 0


def test_no_password_goes_to_a_device_with_a_changed_key(rig):
    """The key is judged before anybody logs in: a wrong password makes no difference to what is said."""
    assert rig.verb("check").code == 0
    rig.world.fault(DEVICE, new_host_key=True)
    rig.write_inventory(password="not-the-password")
    assert failure_of(rig.verb("check"))["kind"] == "HostKeyRefused"


def test_a_secrets_command_is_enough(rig):
    """Credentials that are nowhere else come from a program; its answer is in no output."""
    access = rig.world.devices[0]
    without_credentials(rig)
    nobody = rig.verb("check")
    assert (nobody.code, failure_of(nobody)["reason"]) == (3, "no username or no password")
    script = rig.folder / "secrets.py"
    answer = {"username": access.username, "password": access.password, "enable_secret": access.enable_secret}
    script.write_text(f"import sys\nassert sys.argv[1:] == ['xe1']\nprint({json.dumps(answer)!r})\n")
    done = rig.verb("check", "--secrets-command", f"{sys.executable} {script}", "--filter", "platform=ios")
    assert done.code == 0, done.err
    assert access.password not in done.out + done.err
    assert access.enable_secret not in done.out + done.err


def test_an_unprivileged_login_enables(new_rig):
    """A user without privileges gets them by the enable secret."""
    with new_rig(privilege=1) as rig:
        done = rig.verb("check")
        assert done.code == 0, done.err


@pytest.mark.soak
def test_a_wrong_enable_secret(new_rig):
    """It is told as that, not as an unreachable device, and not by quoting it."""
    with new_rig(privilege=1) as rig:
        rig.write_inventory(data={"enable_secret": "not-the-secret"})
        refused = rig.verb("check")
        assert failure_of(refused)["kind"] == "LoginRefused"
        assert "the enable secret was refused or is missing" in failure_of(refused)["reason"]
        assert "not-the-secret" not in refused.out + refused.err


@pytest.mark.soak
def test_a_device_that_answers_late_and_noisily(rig):
    """Late prompts, a load header before each output and syslog on the line: the same check, the same restore."""
    rig.world.fault(DEVICE, prompt_delay_s=0.3, load_header=True, syslog="%SYS-5-CONFIG_I: Configured from console")
    before = rig.configurations()
    done = rig.verb("stage", "--image", rig.image(300_000))
    assert done.code == 0, done.err
    assert rig.configurations() == before


@pytest.mark.parametrize("text", ["%h-STP-1234%p", "%h %p", "[%h] vty%s%n>"])
def test_a_prompt_line_in_the_configuration(new_rig, text):
    """Configuration mode has the bare host name, EXEC mode another prompt: staged, and restored to the letter."""
    with new_rig(config_lines=(f"prompt {text}",)) as rig:
        done = rig.verb("stage", "--image", rig.image(300_000), "--window-bytes", "131072")
        assert done.code == 0, done.err
        (device,) = done.json["run"]["devices"]
        assert (device["outcome"], device["restored"]) == ("done", "restored")


def test_a_banner_glued_to_the_prompt(new_rig):
    """Its last line has no end: the session finds the prompt all the same."""
    with new_rig(config_lines=("banner motd ^CNO LOGIN WITHOUT A PERMIT!!**^C",)) as rig:
        rig.world.fault(DEVICE, glued_banner=True)
        done = rig.verb("check")
        assert done.code == 0, done.err


def test_a_privilege_level_between(new_rig):
    """`#` at level 7: enabled where the secret is given, else refused with the level in the sentence."""
    with new_rig(privilege=7) as rig:
        assert rig.verb("check").code == 0
        without_credentials(rig)
        access = rig.world.devices[0]
        rig.write_inventory(username=access.username, password=access.password, data={})
        refused = rig.verb("check")
        assert "at privilege level 7" in failure_of(refused)["reason"]
        assert "enable secret" in failure_of(refused)["hint"]
