"""Outsiders change and replace configurations and move files: netmiko's file_transfer, NAPALM's candidates."""

import hashlib
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import napalm
import netmiko
import pytest
from napalm.base.exceptions import MergeConfigException, ReplaceConfigException

from flashferry.lab.standin.device_tcp import read_kernel_tcp
from flashferry.lab.standin.platform import load_platform
from flashferry.lab.world import World, in_core
from tests.patience import PATIENCE_S, until

pytestmark = pytest.mark.lab

ARCHIVE = ["ip scp server enable", "archive", "path bootflash:archive", "maximum 3", "exit"]


@pytest.fixture(scope="module")
def prepared(device: Any, open_session: Callable[..., Any]) -> Iterator[Any]:
    """A device with SCP and an archive, as NAPALM wants it."""
    with open_session(device) as connection:
        connection.send_config_set(ARCHIVE)
        yield connection


@pytest.fixture(scope="module")
def driver(world: World, device: Any, prepared: Any) -> Iterator[Any]:
    with in_core(world):
        opened = napalm.get_network_driver("ios")(
            device.address, device.username, device.password, optional_args={"secret": device.enable_secret}
        )
        opened.open()
        yield opened
        opened.close()


def _body(text: str) -> list[str]:
    """Return the lines that count; NAPALM leaves `file prompt quiet` behind."""
    return [line for line in text.splitlines() if not line.startswith("!") and line != "file prompt quiet"]


@pytest.mark.soak
def test_netmiko_types_a_file_into_tclsh(world: World, prepared: Any) -> None:
    """`InLineTransfer` opens the shell, pastes, leaves, and finds the MD5 that it expects."""
    text = "hostname r1\ninterface Loopback9\n description by hand"
    with in_core(world), netmiko.cisco.cisco_ios.InLineTransfer(
        prepared, source_config=text, dest_file="inline.cfg", file_system="bootflash:"
    ) as transfer:  # fmt: skip
        transfer.put_file()
    assert f"{text}\n" in prepared.send_command("more bootflash:inline.cfg") + "\n"
    assert hashlib.md5(f"{text}\n".encode(), usedforsecurity=False).hexdigest() in prepared.send_command(
        "verify /md5 bootflash:inline.cfg", read_timeout=PATIENCE_S
    )


def test_netmiko_moves_files_by_scp(world: World, prepared: Any, tmp_path: Path) -> None:
    """`file_transfer` puts, checks by MD5, finds it there the second time, and gets it back."""
    content = hashlib.sha512(b"scp").digest() * 4000
    source, back = tmp_path / "image.bin", tmp_path / "back.bin"
    source.write_bytes(content)
    with in_core(world):
        first = netmiko.file_transfer(
            prepared, source_file=str(source), dest_file="image.bin", file_system="bootflash:"
        )
        again = netmiko.file_transfer(
            prepared, source_file=str(source), dest_file="image.bin", file_system="bootflash:"
        )
        netmiko.file_transfer(
            prepared, source_file="image.bin", dest_file=str(back), file_system="bootflash:", direction="get"
        )
    assert first == {"file_exists": True, "file_transferred": True, "file_verified": True}
    assert again == {"file_exists": True, "file_transferred": False, "file_verified": True}
    assert back.read_bytes() == content
    assert [f.path.read_bytes() for f in world.files("r1") if f.name == "image.bin"] == [content]
    prepared.send_command("delete /force bootflash:image.bin")


def test_ssh_has_the_windows_of_the_platform(world: World, device: Any) -> None:
    """A push by SCP is held to the device's receive window, not to that of Linux."""
    with in_core(world), socket.create_connection((device.address, device.port), timeout=PATIENCE_S) as connection:
        assert connection.recv(4) == b"SSH-"
        seen = read_kernel_tcp(connection)
    assert seen is not None
    window_bytes = load_platform(device.platform).tcp.default_window_bytes
    assert window_bytes / 2 < seen.send_window_bytes <= window_bytes


def test_napalm_merges_compares_and_rolls_back(world: World, driver: Any) -> None:
    """A merge candidate is compared before, in force after the commit, and gone after the rollback."""
    before = _body(world.running_config("r1"))
    driver.load_merge_candidate(config="interface GigabitEthernet2\n description merged\nip tcp window-size 65536\n")
    assert driver.compare_config() == "+interface GigabitEthernet2\n+ description merged\n+ip tcp window-size 65536"
    driver.commit_config()
    assert " description merged" in world.running_config("r1")
    assert "ip tcp window-size 65536" in world.startup_config("r1")
    driver.rollback()
    assert _body(world.running_config("r1")) == before


def test_napalm_sees_a_merge_that_fails(world: World, driver: Any) -> None:
    """A line that the device does not know ends the merge, and what went before is taken back."""
    driver.load_merge_candidate(config="ip tcp synwait-time 7\nip tcp nonsense 1\n")
    with pytest.raises(MergeConfigException):
        driver.commit_config()
    assert "synwait-time" not in world.running_config("r1")


def test_napalm_replaces_the_configuration(world: World, driver: Any) -> None:
    """A whole configuration as candidate: the difference is shown, then in force, then discarded."""
    target = world.running_config("r1").replace(
        "interface GigabitEthernet3\n", "interface GigabitEthernet3\n description new\n"
    )
    driver.load_replace_candidate(config=target)
    assert driver.compare_config() == "interface GigabitEthernet3\n +description new"
    driver.commit_config()
    assert " description new" in world.running_config("r1")
    driver.rollback()
    assert " description new" not in world.running_config("r1")
    driver.load_replace_candidate(config=target)
    driver.discard_config()
    assert driver.compare_config() == ""


def test_napalm_sees_a_replace_that_fails(world: World, driver: Any) -> None:
    """Lines that cannot be applied abort the replace and the original comes back."""
    target = world.running_config("r1").replace("\nip forward-protocol nd\n", "\nlicence nonsense\n")
    driver.load_replace_candidate(config=target)
    with pytest.raises(ReplaceConfigException, match="Rollback aborted"):
        driver.commit_config()
    assert "ip forward-protocol nd" in world.running_config("r1")


@pytest.mark.soak
def test_napalm_confirms_or_loses_a_commit(world: World, driver: Any) -> None:
    """A commit with revert_in stays only when it is confirmed; a rollback takes it back at once."""
    for confirmed in (True, False):
        driver.load_merge_candidate(config=f"ip tcp synwait-time {7 + confirmed}\n")
        driver.commit_config(revert_in=120)
        assert driver.has_pending_commit()
        if confirmed:
            driver.confirm_commit()
            assert "ip tcp synwait-time 8" in world.startup_config("r1")
        else:
            assert "ip tcp synwait-time 7" in world.running_config("r1")
            driver.rollback()
            assert "ip tcp synwait-time 8" in world.running_config("r1")
        assert not driver.has_pending_commit()


@pytest.mark.soak
def test_an_unconfirmed_commit_reverts_by_itself(world: World, driver: Any) -> None:
    """When the time is up the configuration is as it was; a minute is shortened for the rehearsal."""
    before = _body(world.running_config("r1"))
    # No shorter: the lines are typed behind the timer, and a busy machine takes a second for them.
    world.fault("r1", seconds_per_minute=5.0)
    try:
        driver.load_merge_candidate(config="ip tcp queuemax 77\n")
        driver.commit_config(revert_in=60)
        until(lambda: not driver.has_pending_commit(), "the end of the device's timer")
        assert _body(world.running_config("r1")) == before
    finally:
        world.fault("r1", seconds_per_minute=60.0)


def test_napalm_reads_interfaces(driver: Any) -> None:
    """The getter returns name, state and description of every interface."""
    interfaces = driver.get_interfaces()
    assert list(interfaces) == ["GigabitEthernet1", "GigabitEthernet2", "GigabitEthernet3"]
    assert interfaces["GigabitEthernet1"]["is_up"]
    assert interfaces["GigabitEthernet1"]["description"] == "WAN"
    assert not interfaces["GigabitEthernet3"]["is_enabled"]
