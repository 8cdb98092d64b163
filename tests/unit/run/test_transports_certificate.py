"""A certificate that will not do is told in one sentence, before any device is touched."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest

from flashferry.core.errors import ConfigInvalid
from flashferry.core.values import replace
from flashferry.lab.authority import Authority
from flashferry.model.policy import ServerPlace, StagePolicy
from flashferry.run.device.device_run import DeviceRun
from flashferry.run.device.transports import first_plan
from flashferry.run.host_check import check_host
from flashferry.run.request import RunOptions
from flashferry.run.server import transports_of, transports_to_reach
from tests.unit.run.device.scripted import Steps, context
from tests.unit.run.test_device_plan import HOST
from tests.unit.transports.some_transports import named

NOW = datetime.now(UTC)
ADDRESS = "192.0.2.9"


@pytest.fixture(scope="module")
def authority():
    return Authority()


@pytest.fixture
def issued(authority, tmp_path):
    def issue(**more):
        return authority.issue(tmp_path, (ADDRESS,), **more)

    return issue


def options(files, *, transport="https", address=None):
    return RunOptions(
        policy=StagePolicy(transport=transport),
        server=ServerPlace(address=address, certificate=files.certificate, key=files.key),
    )


def test_a_good_one_is_taken(issued):
    """For the address that is given, that the inventory has, or that nobody knows yet."""
    files = issued()
    for device in (HOST, replace(HOST, server_address=ADDRESS)):
        assert transports_of([device], options(files))["r1"][0].name == "https"
    assert transports_of([HOST], options(files, address=ADDRESS))


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        (
            {"begins": NOW - timedelta(days=9), "ends": NOW - timedelta(days=2)},
            "expected one that is good now.*expired",
        ),
        ({"begins": NOW + timedelta(days=2), "ends": NOW + timedelta(days=9)}, "expected one that is good now"),
    ],
    ids=["expired", "not good yet"],
)
@pytest.mark.parametrize("look", [transports_of, transports_to_reach])
def test_one_that_is_not_good_now_is_told(issued, look, more, sentence):
    """A run, a speed test and a look alike."""
    with pytest.raises(ConfigInvalid, match=sentence) as caught:
        look([HOST], options(issued(**more)))
    assert caught.value.hint


def test_one_for_another_name_is_told_with_the_device(issued):
    """Where the device's inventory or the operator says what it is told."""
    files, other = issued(), replace(HOST, server_address="192.0.2.77")
    with pytest.raises(ConfigInvalid, match=f"r1: certificate .* expected it to be for 192.0.2.77, .* found {ADDRESS}"):
        transports_of([other], options(files))
    with pytest.raises(ConfigInvalid, match=r"expected it to be for 192\.0\.2\.88"):
        transports_of([other], options(files, address="192.0.2.88"))


def test_a_key_that_others_can_read_is_told(issued):
    """Before anybody is served with it."""
    files = issued()
    files.key.chmod(0o644)
    with pytest.raises(ConfigInvalid, match="expected a file that others cannot read, found mode 0644"):
        transports_of([HOST], options(files))


def test_a_bad_one_does_not_stop_who_goes_another_way(issued):
    """Nobody would be shown it."""
    files = issued(begins=NOW - timedelta(days=9), ends=NOW - timedelta(days=2))
    assert transports_of([HOST], options(files, transport="scp"))["r1"][0].name == "scp"


def test_the_address_that_a_session_found_is_held_against_it(issued):
    """Nothing was sent by then: `auto` goes on to the next one, alone it is the device's end."""
    files = issued()
    given = replace(context(), transports=named("https"), certificate=(files.certificate, files.key))
    run = DeviceRun(Steps(), given)
    run.update(check=SimpleNamespace(server_address="192.0.2.77"))
    with pytest.raises(ConfigInvalid, match=r"expected it to be for 192\.0\.2\.77"):
        first_plan(run, None)


@pytest.mark.parametrize(
    ("given", "is_good", "words"),
    [
        ("both", True, "is good now"),
        ("none", True, "none given"),
        ("certificate", False, "--certificate: expected --key with it"),
        ("swapped", False, "expected"),
    ],
)
def test_the_doctor_looks_at_it(issued, given, is_good, words):
    """And at the ports of every transport, and at SSH's library."""
    files = issued()
    asked = {
        "both": {"certificate": files.certificate, "key": files.key},
        "none": {},
        "certificate": {"certificate": files.certificate},
        "swapped": {"certificate": files.key, "key": files.certificate},
    }[given]
    findings = {one.name: one for one in check_host(None, **asked)}
    assert (findings["certificate"].is_good, words in findings["certificate"].found) == (is_good, True)
    assert findings["certificate"].is_good or findings["certificate"].advice
    assert {"FTP port 21", "HTTP port 80", "SCP and SFTP port 22", "HTTPS port 443"} <= set(findings)
    assert findings["extra for SCP and SFTP"].is_good


def test_the_doctor_says_what_to_do_about_a_port_in_use(monkeypatch):
    """With the port that is taken instead."""
    monkeypatch.setattr("flashferry.run.host_check.may_bind", lambda port: "in use" if port == 22 else "")
    (ssh,) = [one for one in check_host(None) if one.name == "SCP and SFTP port 22"]
    assert (ssh.is_good, ssh.found) == (False, "in use")
    assert "2222 is used instead" in ssh.advice
    assert "--ssh-port" in ssh.advice
