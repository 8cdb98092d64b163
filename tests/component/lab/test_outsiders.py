"""Outsiders take the stand-in for a router: netmiko, NAPALM and the ntc-templates."""

import contextlib
import re
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import napalm
import netmiko
import ntc_templates.parse
import pytest
from netmiko.exceptions import ConfigInvalidException, NetmikoAuthenticationException
from paramiko.common import MSG_CHANNEL_DATA

from flashferry.lab.world import in_core
from tests.patience import PATIENCE_S, until

pytestmark = pytest.mark.lab


@pytest.fixture(scope="module")
def connection(device: Any, open_session: Callable[..., Any]) -> Iterator[Any]:
    """One session for all tests of the module, for logging in takes longer than most of them."""
    with open_session(device) as opened:
        yield opened


@pytest.fixture
def driver(world: Any, device: Any) -> Any:
    with in_core(world):
        opened = napalm.get_network_driver("ios")(
            device.address, device.username, device.password, optional_args={"secret": device.enable_secret}
        )
        opened.open()
        yield opened
        opened.close()


def test_a_user_of_privilege_1_has_to_enable(world: Any, open_session: Any) -> None:
    """A login without privilege stands at `>` until it gives the enable secret."""
    second = world.devices[1]
    with in_core(world):
        connection = netmiko.ConnectHandler(
            device_type="cisco_ios", host=second.address, username=second.username,
            password=second.password, secret=second.enable_secret,
        )  # fmt: skip
        assert connection.find_prompt() == "r2>"
        assert "Invalid input" in connection.send_command("show running-config")
        connection.enable()
        assert connection.find_prompt() == "r2#"
        connection.disconnect()


def test_a_wrong_enable_secret_gives_no_privilege(world: Any) -> None:
    """Three wrong secrets leave the session where it was."""
    second = world.devices[1]
    with in_core(world):
        connection = netmiko.ConnectHandler(
            device_type="cisco_ios", host=second.address, username=second.username,
            password=second.password, secret="wrong",
        )  # fmt: skip
        connection.write_channel("enable\nwrong\nwrong\nwrong\n")
        assert "% Bad secrets" in connection.read_until_pattern(r"r2>$")
        connection.disconnect()


def test_a_wrong_password_is_refused(world: Any, device: Any) -> None:
    """The login is checked against the running configuration."""
    with in_core(world), pytest.raises(NetmikoAuthenticationException):
        netmiko.ConnectHandler(device_type="cisco_xe", host=device.address, username=device.username, password="wrong")


def test_a_session_s_packets_are_its_output_alone(connection: Any) -> None:
    """IOS sends no SSH_MSG_IGNORE between them, which a client would have to read as well."""
    packetizer = connection.remote_conn.transport.packetizer
    kinds, read_message = set(), packetizer.read_message

    def noted() -> Any:
        kind, message = read_message()
        kinds.add(kind)
        return kind, message

    packetizer.read_message = noted
    connection.send_command("show clock")
    connection.send_command("show clock")
    assert kinds == {MSG_CHANNEL_DATA}


def test_config_set_changes_the_running_configuration(world: Any, connection: Any) -> None:
    """Lines set by netmiko are in the running configuration, seen behind SSH's back, and `no` takes them out."""
    before = world.running_config("r1")
    output = connection.send_config_set(["ip tcp window-size 65536", "interface Gi2", "description to nowhere"])
    assert "%" not in output
    after = world.running_config("r1")
    assert "\nip tcp window-size 65536\n" in after
    assert "\ninterface GigabitEthernet2\n description to nowhere\n" in after
    connection.send_config_set(["no ip tcp window-size 131072", "interface Gi2", "no description"])
    body = re.compile(r"^! Last configuration change.*\n", re.MULTILINE)
    assert body.sub("", world.running_config("r1")) == body.sub("", before)


def test_config_errors_are_seen_and_the_caret_points_at_the_value(connection: Any) -> None:
    """A value out of range is refused with the caret under it; netmiko's error pattern catches it."""
    with pytest.raises(ConfigInvalidException):
        connection.send_config_set(["ip tcp window-size 67"], error_pattern=r"% Invalid input")
    connection.exit_config_mode()
    connection.config_mode()
    connection.write_channel("ip tcp window-size 1073741824\n")
    shown = connection.read_until_pattern(r"marker\.\s+r1\(config\)#").replace("\r", "")
    connection.exit_config_mode()
    lines = shown.splitlines()
    column = lines[1].index("^")
    assert ("r1(config)#" + lines[0].strip())[column:] == "1073741824"
    assert lines[2] == "% Invalid input detected at '^' marker."


def test_save_config_copies_to_startup(world: Any, connection: Any) -> None:
    """`write mem` makes the startup configuration what the running one is, and stamps it."""
    connection.send_config_set(["ip tcp synwait-time 5"])
    assert "synwait-time" not in world.startup_config("r1")
    assert "[OK]" in connection.save_config()
    assert "ip tcp synwait-time 5" in world.startup_config("r1")
    assert re.search(r"^! NVRAM config last updated at .* by ferry$", world.running_config("r1"), re.MULTILINE)
    connection.send_config_set(["no ip tcp synwait-time"])


def test_the_change_stamp_names_the_user_and_the_byte_count_is_true(connection: Any) -> None:
    """The header of `show running-config` counts the bytes below it and says who changed it last."""
    connection.send_config_set(["default ip tcp timestamp"])
    shown = connection.send_command("show running-config").replace("\r", "")
    count, text = re.search(r"Current configuration : (\d+) bytes\n(.*\nend\n)", shown + "\n", re.DOTALL).groups()
    assert int(count) == len(text)
    assert re.search(r"^! Last configuration change at \S+ UTC .* by ferry$", text, re.MULTILINE)


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("sh run | i ^hostname", "hostname r1"),
        ("show running-config | count ^interface", "Number of lines which match regexp = 3"),
        ("sh run | sec ^line vty 5", "line vty 5 15\n login local\n transport preferred none\n transport input ssh"),
        ("sh run | e .", ""),
        ("sh ip int br | b t3", "GigabitEthernet3       unassigned      YES unset  administratively down down"),
        ("do show clock", "% Invalid input detected at '^' marker."),
        ("show", "% Incomplete command."),
        ("sh ru", None),
    ],
)  # fmt: skip
def test_abbreviations_filters_and_errors(connection: Any, command: str, expected: str | None) -> None:
    """Commands may be cut, outputs filtered, and refusals read as IOS prints them."""
    shown = connection.send_command(command).strip()
    if expected is None:
        assert shown.startswith("Building configuration...")
    else:
        assert shown.endswith(expected)
        assert bool(shown) == bool(expected)


def test_napalm_reads_facts_and_configurations(driver: Any, world: Any) -> None:
    """NAPALM's getters return what the device is."""
    facts = driver.get_facts()
    assert (facts["vendor"], facts["model"], facts["hostname"]) == ("Cisco", "CSR1000V", "r1")
    assert facts["fqdn"] == "r1.lab.example"
    assert facts["interface_list"] == ["GigabitEthernet1", "GigabitEthernet2", "GigabitEthernet3"]
    assert "Version 16.11.1a" in facts["os_version"]
    assert facts["uptime"] >= 0
    configurations = driver.get_config()
    own = world.running_config("r1").splitlines()
    assert configurations["running"].splitlines()[-40:] == own[-40:]
    assert "hostname r1" in configurations["startup"]


@pytest.mark.parametrize(
    ("command", "rows", "some"),
    [
        ("show version", 1, {"hardware": ["CSR1000V"], "version": "16.11.1a", "running_image": "packages.conf"}),
        ("dir", 3, {"file_system": "bootflash:/", "size": "446334108", "permissions": "-rw-"}),
        ("show ip interface brief", 3, {"interface": "GigabitEthernet1", "ip_address": "198.18.1.11"}),
        ("show inventory", 3, {"name": "Chassis", "pid": "CSR1000V", "sn": "9LABSTANDIN"}),
        ("show file systems", 16, {"prefixes": "system:", "type": "opaque"}),
        ("show archive", 1, {"state": "not enabled"}),
        ("show clock", 1, {"timezone": "UTC"}),
        ("show users", 1, {"user": "ferry", "location": "198.18.0.1"}),
    ],
)
def test_ntc_templates_parse(connection: Any, command: str, rows: int, some: dict[str, Any]) -> None:
    """The public templates find every row and the values that are there."""
    parsed = ntc_templates.parse.parse_output("cisco_ios", command, connection.send_command(command))
    assert len(parsed) == rows
    assert parsed[0].items() >= some.items()


def test_show_boot_has_the_lines_of_the_capture(connection: Any) -> None:
    """`show boot` has the shape of an IOS-XE router's (ASR1000 capture of genieparser, Apache-2.0).

    The template of ntc-templates refuses that capture as well, so it cannot be the judge here.
    """
    connection.send_config_set(["boot system bootflash:a.bin", "boot system bootflash:b.bin"])
    assert connection.send_command("show boot").startswith("BOOT variable does not exist"), "it follows what is saved"
    connection.save_config()
    lines = connection.send_command("show boot").splitlines()
    assert lines[0] == "BOOT variable = bootflash:a.bin,12;bootflash:b.bin,12;"
    assert [line.split("variable")[0] for line in lines[1:3]] == ["CONFIG_FILE ", "BOOTLDR "]
    assert lines[3] == "Configuration register is 0x2102"
    connection.send_config_set(["no boot system bootflash:a.bin", "no boot system bootflash:b.bin"])
    connection.save_config()
    assert connection.send_command("show bootvar").startswith("BOOT variable does not exist")


def test_with_all_vty_lines_in_use_the_next_connection_is_refused(world: Any) -> None:
    """The port closes with the last vty line and opens again when one is free."""
    device = world.devices[1]  # nobody keeps a session there
    with in_core(world):
        with contextlib.ExitStack() as stack:
            for _ in range(16):
                peer = stack.enter_context(socket.create_connection((device.address, 22), timeout=PATIENCE_S))
                assert peer.recv(8).startswith(b"SSH-")
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection((device.address, 22), timeout=PATIENCE_S)
        assert _opens_again(device.address)


def _opens_again(address: str) -> bool:
    """Connect until the port is open; return whether SSH answers there."""

    def answer() -> bytes:
        with contextlib.suppress(ConnectionRefusedError), socket.create_connection((address, 22), PATIENCE_S) as peer:
            return peer.recv(8)
        return b""

    return until(answer, "an open port").startswith(b"SSH-")


def test_scp_needs_its_configuration_line(world: Any, connection: Any, device: Any, tmp_path: Path) -> None:
    """Without `ip scp server enable` the transfer is refused and nothing is written."""
    source = tmp_path / "x.bin"
    source.write_bytes(b"x")
    with in_core(world), pytest.raises(Exception, match="Administratively disabled"):
        netmiko.file_transfer(connection, source_file=str(source), dest_file="x.bin", file_system="bootflash:")
    assert "x.bin" not in [file.name for file in world.files("r1")]
