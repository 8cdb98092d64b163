"""The protocols from the side of the device: URL, command, lines, and where our server listens for them."""

from __future__ import annotations

from pathlib import Path

import pytest

from flashferry.core.errors import ConfigInvalid
from flashferry.core.values import replace
from flashferry.devices.platforms.ios import IOS_XE
from flashferry.fileserver import ListenerSettings
from flashferry.transports import TRANSPORTS, WAYS, listeners, transport_named
from flashferry.transports.scp import SCP
from flashferry.transports.transport import ListenOptions, Offer, copy_command, return_path_refusal, shown_command

ANYWHERE = ListenOptions(address="192.0.2.1")


def offer(name: str, **changes: object) -> Offer:
    transport = transport_named(name)
    first = Offer(
        transport=transport,
        server="192.0.2.10",
        port=transport.ports.well_known,
        image="x.bin",
        username="u",
        password="p9",
    )
    return replace(first, **changes)


def test_the_order_is_the_policy_where_nobody_states_one():
    """Clear text first, for it is the fastest; whoever forbids it takes the first that is not."""
    assert [one.name for one in TRANSPORTS] == ["ftp", "http", "scp", "https", "sftp"]
    assert [one.name for one in TRANSPORTS if not one.is_clear_text] == ["scp", "https", "sftp"]


@pytest.mark.parametrize(
    ("name", "port", "command"),
    [
        ("http", 80, "copy http://u:p9@192.0.2.10/x.bin flash:x"),
        ("http", 8080, "copy http://u:p9@192.0.2.10:8080/x.bin flash:x"),
        ("https", 443, "copy https://u:p9@192.0.2.10/x.bin flash:x"),
        ("https", 8443, "copy https://u:p9@192.0.2.10:8443/x.bin flash:x"),
        ("scp", 22, "copy scp://u@192.0.2.10/x.bin flash:x"),
        ("scp", 2222, "copy scp://u@192.0.2.10:2222/x.bin flash:x"),
        ("sftp", 22, "copy sftp://u@192.0.2.10/x.bin flash:x"),
    ],
)
def test_the_command_as_ios_takes_it(name, port, command):
    """The well-known port is left out; by SSH the password is in no command line and in no command accounting."""
    assert copy_command(offer(name, port=port), "flash:x", IOS_XE) == command
    shown = shown_command(offer(name, port=port), "flash:x", IOS_XE)
    assert shown == command.replace("u:p9@", "<user>:<password>@").replace("u@", "<user>@")


@pytest.mark.parametrize(("name", "ends"), [("scp", " vrf Mgmt"), ("sftp", " vrf Mgmt"), ("http", ""), ("https", "")])
def test_the_vrf_stands_at_the_end_or_nowhere(name, ends):
    """HTTP's client takes none with the command: its source interface decides."""
    assert copy_command(offer(name, vrf="Mgmt"), "null:", IOS_XE).endswith(f" null:{ends}")


@pytest.mark.parametrize("transport", TRANSPORTS, ids=lambda one: one.name)
def test_a_vrf_without_a_source_interface_is_refused_where_nothing_else_decides(transport):
    """Before anything is touched, and by the name of the key to set."""
    told = return_path_refusal(transport, vrf="Mgmt", source_interface=None)
    assert (told is None) is transport.takes_vrf
    assert told is None or "'source_interface' in the inventory" in told
    assert return_path_refusal(transport, vrf="Mgmt", source_interface="Gi0") is None
    assert return_path_refusal(transport, vrf=None, source_interface=None) is None


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("http", "ip http client source-interface Gi0"),
        ("https", "ip http client source-interface Gi0"),
        ("scp", "ip ssh source-interface Gi0"),
        ("sftp", "ip ssh source-interface Gi0"),
    ],
)
def test_each_has_its_line_for_the_source(name, line):
    """And only where the inventory names one; it changes no speed."""
    transport = transport_named(name)
    assert list(transport.needed_settings(source_interface=None)) == []
    ((setting, value),) = transport.needed_settings(source_interface="Gi0")
    assert setting.line(value) == line
    assert not setting.is_tuning
    assert transport.data_mode(("GET /x.bin", "PASV")) is None


def test_a_certificate_needs_its_key_and_ssh_its_folder():
    """One sentence each, with what to do, before any server is imported."""
    for name, options, words in (
        ("https", ANYWHERE, "expected a certificate and its key, found no certificate"),
        ("https", replace(ANYWHERE, certificate=Path("a.pem")), "found a certificate without its key"),
        ("https", replace(ANYWHERE, key=Path("a.key")), "found no certificate"),
        ("scp", ANYWHERE, "expected a folder for the SSH host keys"),
    ):
        with pytest.raises(ConfigInvalid, match=words) as caught:
            transport_named(name).listener(options)
        assert caught.value.hint


@pytest.mark.parametrize(("name", "usual", "others"), [("http", 80, 8080), ("https", 443, 8443), ("scp", 22, 2222)])
def test_ports(monkeypatch, name, usual, others):
    """The well-known one where it is to be had, else the first of ten others."""
    transport = transport_named(name)
    monkeypatch.setattr(listeners, "may_bind", lambda one: "in use" if one == usual else "")
    assert listeners.free_port(transport) == others
    assert len(transport.ports.others) == 10
    assert str(listeners.port_notice(others, transport)).startswith(f"port {usual} is not to be had")


class Recorded:
    """A transport that keeps what it was asked to listen with."""

    def __init__(self, name: str, kept: list[tuple[str, int]]) -> None:
        self.listener_name, self.ports, self._kept = name, transport_named("scp").ports, kept

    def listener(self, options: ListenOptions) -> ListenerSettings:
        self._kept.append((self.listener_name, options.port))
        return ListenerSettings(protocol="nobody:LISTENS", port=options.port)


def test_protocols_that_share_a_listener_have_one():
    """In the order of their first mention; a port that is given is taken, 0 as well, and else the first to be had."""
    kept: list[tuple[str, int]] = []
    named = [Recorded(name, kept) for name in ("ssh", "http", "ssh", "ftp")]
    found = listeners.listeners_at(named, ANYWHERE, ports={"http": 8080, "ftp": 0})
    assert kept == [("ssh", 22), ("http", 8080), ("ftp", 0)]
    assert [(one.port, one.other_ports) for one in found] == [(22, (*range(2222, 2232), 0)), (8080, ()), (0, ())]
    assert transport_named("sftp").listener_name == transport_named("scp").listener_name


def test_only_ssh_has_keys_that_devices_ask_about(tmp_path):
    """Those that our server shows, made once: each in the ways in which devices print it."""
    found = {one.name: one.fingerprints(tmp_path / "keys") for one in WAYS}
    assert found.pop("scp") == found.pop("sftp") == SCP.fingerprints(tmp_path / "keys")
    assert set(found.values()) == {()}
    sha = [one for one in SCP.fingerprints(tmp_path / "keys") if one.startswith("SHA256:")]
    assert len(sha) == len(set(sha)) >= 2
