"""A login goes to the controller that is meant and to nobody else, by what was given and by nothing else."""

from __future__ import annotations

import socket
import subprocess
import sys

import pytest

from flashferry.core.errors import ConfigInvalid
from flashferry.core.redaction import masked
from flashferry.lab.authority import Authority
from flashferry.nightly.cml.access import NOT_PROVEN
from flashferry.nightly.cml.controller import connect
from flashferry.nightly.night import Fault, NightFault
from tests.component.nightly.cml.standing import CLOCK, access
from tests.patience import PATIENCE_S

QUICK = {("bad_gateway", "system_information"), ("slow", "authenticate"), ("plain_text", "authentication")}


def connected(standin, **more):
    return connect(access(standin, **more), step="preflight", clock=CLOCK)


@pytest.mark.parametrize("version", ["2.8.0", "2.9.1+build.7", "2.10.0", "2.11.0+sso", "2.12.0"])
def test_known_and_newer_versions_are_taken(standin, version):
    """By the way of each to say who is logged in; newer ones with a note."""
    standin.faults.set(version=version)
    one = connected(standin)
    assert one.version.text == version
    assert bool(one.notes) == (version in {"2.11.0+sso", "2.12.0"})
    one.close()


@pytest.mark.parametrize(
    ("version", "told"),
    [
        ("2.7.2", "expected CML 2.8 or newer, found 2.7.2"),
        ("3.0.0", "expected CML 2.x, found 3.0.0"),
        ("2.9", "expected a version of CML, found '2.9'"),
    ],
)
def test_other_versions_are_refused_before_the_login_is_sent(standin, version, told):
    """In one sentence."""
    before = len(standin.exchanges)
    standin.faults.set(version=version)
    with pytest.raises(NightFault, match=told) as found:
        connected(standin)
    assert found.value.fault is Fault.LAB
    assert [one.path for one in standin.exchanges[before:]] == ["system_information"]


def test_a_login_is_tried_twice_at_least(standin):
    """One answer that is waited for as long as all tries may take ends no night."""
    standin.faults.set(reset={"path": "^system_information$", "count": 1})
    connect(access(standin), step="preflight", clock=CLOCK, connect_s=0.0).close()


def test_a_wrong_password_is_told_and_not_repeated(standin):
    """Nobody's account is locked by us."""
    before = len(standin.exchanges)
    with pytest.raises(NightFault, match="it refused the login") as found:
        connected(standin, password="not-the-password")
    assert "not-the-password" not in repr(found.value) + str(found.value)
    assert sum(one.path == "authenticate" for one in standin.exchanges[before:]) == 1


def test_a_certificate_of_somebody_else_is_not_trusted(standin, tmp_path):
    """The password is not sent."""
    other = tmp_path / "other.pem"
    other.write_text(Authority("Other").pem)
    with pytest.raises(NightFault, match="its certificate is not proven") as found:
        connected(standin, ca_file=other)
    assert "ca_file" in (found.value.hint or "")


def test_a_name_that_is_not_in_the_certificate_is_not_trusted(standin, monkeypatch):
    """Whoever signed it."""
    known = socket.getaddrinfo
    monkeypatch.setattr(socket, "getaddrinfo", lambda _name, *more, **given: known("127.0.0.1", *more, **given))
    with pytest.raises(NightFault, match="its certificate is not proven"):
        connected(standin, url=standin.url.replace("127.0.0.1", "cml.example.net"))


def test_without_proof_it_is_told(standin):
    """As a note of the night."""
    one = connected(standin, ca_file=None, is_verified=False)
    assert one.notes == (NOT_PROVEN,)
    one.close()


def test_nobody_there_is_told_in_one_sentence():
    """After a few tries: it may be starting."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    one = access_of(f"https://127.0.0.1:{port}")
    with pytest.raises(NightFault, match="could not log in to the controller: it cannot be reached"):
        connect(one, step="preflight", clock=CLOCK, connect_s=5)


def test_plain_http_is_told(standin):
    """Somebody gave the wrong port."""
    with pytest.raises(NightFault, match="it does not speak TLS there"):
        connected(standin, url=standin.control.replace("http://", "https://"))


def test_a_name_that_nobody_knows_is_told():
    """It is no trouble that passes."""
    with pytest.raises(NightFault, match=r"its name is not known|cannot be reached"):
        connect(access_of("https://cml.invalid"), step="preflight", clock=CLOCK, connect_s=2)


@pytest.mark.parametrize(
    ("variable", "more"),
    [("HTTPS_PROXY", {}), ("https_proxy", {"NO_PROXY": "example.net"}), ("ALL_PROXY", {"no_proxy": "example.net"})],
)
def test_proxies_do_not_count_for_a_controller(standin, monkeypatch, variable, more):
    """It is on a LAN; and the environment is afterwards what it was."""
    import os

    for name, value in {variable: "http://127.0.0.1:9", **more}.items():
        monkeypatch.setenv(name, value)
    before = dict(os.environ)
    connected(standin).close()
    assert dict(os.environ) == before


def test_proxies_count_where_they_are_wanted(standin, monkeypatch):
    """And what to do is told with the failure."""
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    with pytest.raises(NightFault, match="the proxy did not let us through") as found:
        connected(standin, is_proxy_used=True)
    assert "NO_PROXY" in (found.value.hint or "")


def test_neither_environment_nor_files_nor_terminal_are_asked(standin, monkeypatch, tmp_path):
    """A token or a file that lies about would send the login of somebody else, or to somebody else."""
    (tmp_path / ".virlrc").write_text('VIRL2_URL="https://127.0.0.1:9"\nVIRL2_USER="evil"\nVIRL2_PASS="evil"\n')
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("VIRL2_JWT", "VIRL2_URL", "VIRL_HOST", "VIRL2_USER", "VIRL2_PASS", "CA_BUNDLE", "CML_VERIFY_CERT"):
        monkeypatch.setenv(name, "evil")
    monkeypatch.setattr("builtins.input", lambda *_: pytest.fail("asked on the terminal"))
    connected(standin).close()


def test_a_token_is_masked_as_soon_as_it_is_dealt_out(standin):
    """Whatever quotes it later."""
    one = connected(standin)
    token = one.client.jwtoken
    assert len(token) > 20
    assert token not in masked(f"Authorization: Bearer {token}") + one.trace.text()
    one.close()


def test_a_page_in_place_of_the_login_is_waited_for(standin):
    """One 502 while the controller starts ends no night."""
    standin.faults.set(bad_gateway=[{"path": path, "count": 1} for path in ("system_info", "authenticate", "authent")])
    connected(standin).close()


@pytest.mark.parametrize(
    ("fault", "path"),
    [
        pytest.param(fault, path, marks=() if (fault, path) in QUICK else pytest.mark.soak)
        for fault in ("bad_gateway", "slow", "reset", "server_error", "plain_text")
        for path in ("system_information", "authenticate", "authentication")
    ],
)
def test_trouble_that_stays_is_the_labs_fault(standin, path, fault):
    """At each of the three questions of a login."""
    standin.faults.set(**{fault: {"path": f"^{path}$", "seconds": 60.0 if fault == "slow" else 0.0}})
    login = access(standin, timeout_s=0.15 if fault == "slow" else PATIENCE_S)
    with pytest.raises(NightFault, match="could not log in to the controller") as found:
        connect(login, step="preflight", clock=CLOCK, connect_s=3)
    assert found.value.fault is Fault.LAB
    assert found.value.hint


def test_without_the_extra_it_is_told_in_one_sentence():
    """Importing all else works: nights elsewhere do without it."""
    program = """
import sys
sys.modules["virl2_client"] = None
from flashferry.nightly.cml.access import ControllerAccess
from flashferry.nightly.cml.backend import CmlBackend
from flashferry.core.errors import ConfigInvalid
try:
    CmlBackend(ControllerAccess(url="https://x", username="u", password="p")).leftovers()
except ConfigInvalid as error:
    print(error)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=PATIENCE_S, check=True
    )
    assert done.stdout.startswith("nights on Cisco Modeling Labs need virl2-client, which is not installed. Install")


def test_certificates_that_cannot_be_read_are_the_operators(standin, tmp_path):
    """Not the lab's: exit code 2."""
    with pytest.raises(ConfigInvalid, match="cannot be read"):
        connected(standin, ca_file=tmp_path / "absent.pem")


def access_of(url: str):
    from flashferry.nightly.cml.access import ControllerAccess

    return ControllerAccess(url=url, username="u", password="a-password", timeout_s=PATIENCE_S)
