"""The device as an SCP server: OpenSSH, netmiko's file transfer and scp.py push to it; what it refuses."""

import contextlib
import os
import random
import shutil
import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import netmiko
import pytest
import scp

from flashferry.lab.world import DeviceAccess, DeviceSpec, World, WorldSpec, in_core, start_world
from tests.component.lab.pushing import paramiko_session
from tests.patience import PATIENCE_S

pytestmark = [pytest.mark.lab, pytest.mark.soak]

SIZE_BYTES = 1_000_000
SERVING = ("ip scp server enable",)
DEVICES = (
    DeviceSpec(name="r1", platform="c8000v-17.15", config_lines=SERVING),
    DeviceSpec(name="low", privilege=1, config_lines=SERVING),
    DeviceSpec(name="aaa", config_lines=(*SERVING, "aaa new-model")),
    DeviceSpec(name="small", config_lines=SERVING, flash_free_bytes=300_000),
    DeviceSpec(name="off"),
)


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with start_world(WorldSpec(profile="lan", devices=DEVICES)) as started:
        yield started


@pytest.fixture
def image(tmp_path: Path) -> Path:
    path = tmp_path / "image.bin"
    path.write_bytes(random.Random(1).randbytes(SIZE_BYTES))
    return path


@pytest.fixture
def openssh(world: World, tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Return what runs OpenSSH's scp in the core; the password comes from a script, as nobody sits there."""
    if shutil.which("scp") is None:
        pytest.skip("needs OpenSSH's scp: apt-get install openssh-client")

    def run(device: DeviceAccess, source: Path, target: str, *options: str) -> subprocess.CompletedProcess[str]:
        asks = tmp_path / "asks"
        asks.write_text(f"#!/bin/sh\necho {device.password}\n")
        asks.chmod(0o700)
        command = [
            "scp", *options, "-F", "none", "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null",
            "-o", "PreferredAuthentications=password,keyboard-interactive", "-P", str(device.port), str(source),
            f"{device.username}@{device.address}:{target}",
        ]  # fmt: skip
        own = {**os.environ, "SSH_ASKPASS": str(asks), "SSH_ASKPASS_REQUIRE": "force", "DISPLAY": ":0"}
        with in_core(world):
            return subprocess.run(command, env=own, capture_output=True, text=True, timeout=PATIENCE_S, check=False)

    return run


def named(world: World, name: str) -> DeviceAccess:
    return next(device for device in world.devices if device.name == name)


def kept(world: World, device: str, name: str = "image.bin") -> bytes | None:
    found = [file.path for file in world.files(device) if file.name == name]
    return found[0].read_bytes() if found else None


def test_openssh_pushes_by_the_old_protocol_only(world: World, openssh: Any, image: Path) -> None:
    """`scp -O` brings the very bytes; without it OpenSSH 9 asks for SFTP, which the device does not have."""
    modern = openssh(named(world, "r1"), image, "flash:image.bin", "-s")
    assert modern.returncode != 0
    assert kept(world, "r1") is None
    pushed = openssh(named(world, "r1"), image, "flash:image.bin", "-O")
    assert pushed.returncode == 0, pushed.stderr
    assert kept(world, "r1") == image.read_bytes()


def test_netmiko_pushes_and_verifies(world: World, image: Path, open_session: Any) -> None:
    """Its file transfer: space, SCP, MD5 on the device."""
    with open_session(named(world, "r1")) as session, in_core(world):
        session.send_command("delete /force flash:pushed.bin")
        reported = netmiko.file_transfer(
            session, source_file=str(image), dest_file="pushed.bin", file_system="bootflash:", overwrite_file=True
        )  # fmt: skip
    assert reported == {"file_exists": True, "file_transferred": True, "file_verified": True}
    assert kept(world, "r1", "pushed.bin") == image.read_bytes()


def test_scp_py_pushes_with_progress(world: World, image: Path) -> None:
    """The library that netmiko uses, by itself; progress ends at the size."""
    seen: list[tuple[int, int]] = []
    with paramiko_session(world, named(world, "r1")) as client:
        transport = client.get_transport()
        with scp.SCPClient(transport, progress=lambda _name, size, sent: seen.append((size, sent))) as pusher:
            pusher.put(str(image), "bootflash:/by-scp.bin")
    assert seen[-1] == (SIZE_BYTES, SIZE_BYTES)
    assert kept(world, "r1", "by-scp.bin") == image.read_bytes()


@pytest.mark.parametrize(
    ("device", "said"),
    [
        ("off", "Administratively disabled."), ("low", "Privilege denied."), ("aaa", "Privilege denied."),
        ("small", "No space left on device"),
    ],
)  # fmt: skip
def test_what_the_device_refuses_is_told_and_not_kept(
    world: World, openssh: Any, image: Path, device: str, said: str
) -> None:
    """The server that is off, a user without privilege 15, AAA without exec authorization, a flash without room."""
    pushed = openssh(named(world, device), image, "flash:image.bin", "-O")
    assert pushed.returncode != 0
    assert said in pushed.stderr
    assert kept(world, device) is None


def test_aaa_with_exec_authorization_lets_in(
    world: World, openssh: Any, image: Path, open_session: Any
) -> None:  # fmt: skip
    """The line that Cisco's guide asks for."""
    with open_session(named(world, "aaa")) as session:
        session.send_config_set(["aaa authorization exec default local"])
        assert openssh(named(world, "aaa"), image, "flash:image.bin", "-O").returncode == 0
        session.send_config_set(["no aaa authorization exec default local"])
    assert kept(world, "aaa") == image.read_bytes()


def test_a_flash_that_fills_up_is_the_sinks_last_word(world: World, openssh: Any, image: Path) -> None:
    """There was room, and then there is none: the pusher learns it when all is sent."""
    world.fault("r1", disk_full_after_bytes=500_000)
    try:
        pushed = openssh(named(world, "r1"), image, "flash:full.bin", "-O")
    finally:
        world.fault("r1", disk_full_after_bytes=None)
    assert pushed.returncode != 0
    assert "No space left on device" in pushed.stderr
    assert kept(world, "r1", "full.bin") is None


def _offered_scale(world: World, device: DeviceAccess) -> int:
    """Return the window scale that the device's SSH server offers to a new connection."""
    with in_core(world), contextlib.closing(socket.create_connection((device.address, device.port))) as connection:
        reported = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104)
    return reported[6] & 0x0F  # tcpi_snd_wscale


def test_the_window_scale_of_new_connections_follows_the_configuration(world: World, open_session: Any) -> None:
    """Set and taken back in a session that stays open: no other connection has to be there for it."""
    device = named(world, "r1")
    assert _offered_scale(world, device) == 0
    with open_session(device) as session:
        session.send_config_set(["ip tcp window-size 4000000"])
        assert 4_000_000 >> _offered_scale(world, device) <= 65535
        session.send_config_set(["no ip tcp window-size"])
        assert _offered_scale(world, device) == 0
