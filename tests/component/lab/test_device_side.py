"""The device's side of each transport against the stand-ins: tuned lines, dialogue, and everything as it was."""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import asyncssh
import pytest

from flashferry.devices.errors import CopyFailed, DeviceOverloaded, DeviceRefused, OutputNotUnderstood
from flashferry.devices.host_keys import HostKeys
from flashferry.devices.login import Login
from flashferry.devices.session import DeviceSession
from flashferry.lab.web import Web, running_web
from flashferry.lab.world import DeviceSpec, World, WorldSpec, in_core, start_world
from flashferry.transports import transport_named
from flashferry.transports.transport import Offer, ServerView
from inventory.host_key_rules import HostKeyPolicy
from tasks.copy import copy_image, copy_limits
from tasks.read_config import read_running
from tasks.restore import restore_device
from tasks.snapshot import take_snapshot
from tasks.tcp_config import Change, plan_tune
from tasks.tune import apply_plan, without_scaling
from tests.component.lab.plain_ssh import LEGACY, SSH_USER, SSH_WORD, PlainSsh, plain_ssh

pytestmark = [
    pytest.mark.lab,
    pytest.mark.soak,
    pytest.mark.filterwarnings("ignore:.*:cryptography.utils.CryptographyDeprecationWarning"),
]

SIZE_BYTES = 700_000
DEVICES = (
    DeviceSpec(name="r16"),
    DeviceSpec(name="r17", platform="c8000v-17.15"),
    DeviceSpec(name="off", platform="c8000v-17.15", config_lines=("no ip ssh bulk-mode",)),
    DeviceSpec(name="own", platform="c8000v-17.15", config_lines=("ip ssh bulk-mode 262144",)),
    DeviceSpec(name="old", platform="c2811-15.1"),
    DeviceSpec(name="sw", platform="c9300-17.6", config_lines=("ip ssh window-size 65536",)),
)


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with start_world(WorldSpec(profile="lan", devices=DEVICES)) as started:
        yield started


@pytest.fixture(scope="module")
def server(world: World, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PlainSsh]:
    with plain_ssh(world, tmp_path_factory.mktemp("ssh"), **LEGACY) as started:
        started.add("x.bin", SIZE_BYTES)
        yield started


@pytest.fixture(scope="module")
def web(world: World) -> Iterator[Web]:
    with in_core(world), running_web(world.server_address, {"x.bin": bytes(SIZE_BYTES)}) as running:
        yield running


@pytest.fixture
def on(world: World, tmp_path: Path) -> Iterator[Callable[[str], DeviceSession]]:
    """Return what opens a session of ours on a device by name."""
    with contextlib.ExitStack() as stack:

        def opened(name: str) -> DeviceSession:
            device = next(one for one in world.devices if one.name == name)
            login = Login(
                name=name,
                address=device.address,
                port=device.port,
                username=device.username,
                password=device.password,
                enable_secret=device.enable_secret,
                host_keys=HostKeys(path=tmp_path / "known", policy=HostKeyPolicy.ACCEPT_NEW, device=name),
            )
            with in_core(world):
                session = DeviceSession(login)
            stack.callback(session.close)
            return session

        yield opened


def offer(world: World, name: str, port: int, *, user: str = SSH_USER, password: str = SSH_WORD, **more: Any) -> Offer:
    return Offer(
        transport=transport_named(name),
        server=world.server_address,
        port=port,
        image="x.bin",
        username=user,
        password=password,
        **more,
    )


def copied(session: DeviceSession, what: Offer, target: str = "null:") -> Any:
    return copy_image(
        session,
        offer=what,
        target=target,
        size_bytes=SIZE_BYTES,
        limits=copy_limits(size_bytes=SIZE_BYTES, expected_bytes_per_s=1e5),
        witness=lambda: ServerView(client_seen=True),
    )


def tuned(session: DeviceSession, held: list[tuple[Change, ...]], name: str = "scp") -> Any:
    """Set the lines as a run does; what is in force at each moment is kept."""
    before = take_snapshot(session)
    plan = plan_tune(
        before.running,
        platform=session.platform,
        transport=transport_named(name),
        window_bytes=1_250_000,
        may_back_off=True,
    )
    held.append(plan.changes)
    return before, apply_plan(session, plan, before=before, remember=held.append)


def ssh_lines(session: DeviceSession) -> list[str]:
    return [line for line in read_running(session).tcp.lines if "ssh" in line]


def without_stamps(session: DeviceSession) -> list[str]:
    return [line for line in session.running_config().splitlines() if not line.startswith(("!", "Current"))]


@pytest.mark.parametrize(
    ("name", "before", "while_tuned", "window_bytes"),
    [
        ("r16", [], ["ip ssh window-size 131072"], 131_072),
        ("r17", ["ip ssh bulk-mode 131072"], ["ip ssh bulk-mode 1250000"], 1_250_000),
        ("off", [], ["ip ssh bulk-mode 1250000"], 1_250_000),
        ("own", ["ip ssh bulk-mode 262144"], ["ip ssh bulk-mode 1250000"], 1_250_000),
        ("old", [], [], 8192),
        (
            "sw",
            ["ip ssh window-size 65536"],
            ["ip ssh window-size 65536", "ip ssh bulk-mode 1250000"],
            1_250_000,
        ),
    ],
)
def test_the_channel_is_as_wide_as_the_release_can_and_then_as_before(
    on: Any, world: World, server: PlainSsh, name: str, before: list[str], while_tuned: list[str], window_bytes: int
) -> None:
    """Our server sees the very window in the channel that the device opens; the configuration is what it was."""
    session, held = on(name), []
    text = without_stamps(session)
    assert ssh_lines(session) == before
    snapshot, report = tuned(session, held)
    assert sorted(ssh_lines(session)) == sorted(while_tuned)
    server.windows.clear()
    assert copied(session, offer(world, "scp", server.port)).device.size_bytes == SIZE_BYTES
    assert server.windows[0][0] == window_bytes
    restored = restore_device(session, before=snapshot, changes=held[-1])
    assert restored.is_proven, restored
    assert ssh_lines(session) == before
    assert report.is_marked is False
    assert without_stamps(session) == text


def test_a_device_that_failed_has_its_own_channel_again(on: Any) -> None:
    """The smaller window of TCP is in force, the default's own line of the channel too; then all is put back."""
    session, held = on("r17"), []
    snapshot, _ = tuned(session, held)
    without_scaling(session, held[-1], remember=held.append)
    assert ssh_lines(session) == ["ip ssh bulk-mode 131072"]
    assert read_running(session).tcp.window_bytes == 65_535
    assert restore_device(session, before=snapshot, changes=held[-1]).is_proven


@pytest.mark.parametrize("name", ["scp", "sftp"])
def test_the_password_goes_into_the_prompt(on: Any, world: World, server: PlainSsh, name: str) -> None:
    """It is neither in the command line nor in what the device showed; the file is there whole."""
    session = on("r17")
    report = copied(session, offer(world, name, server.port), target=f"bootflash:{name}.bin")
    assert SSH_WORD not in report.transcript
    assert SSH_USER not in report.transcript
    assert f"Sending file modes: C0644 {SIZE_BYTES} x.bin" in report.transcript
    found = next(file for file in world.files("r17") if file.name == f"{name}.bin")
    assert found.path.read_bytes() == (server.root / "x.bin").read_bytes()


def test_a_ticket_that_is_refused_is_typed_once(on: Any, world: World, server: PlainSsh) -> None:
    """The device asks again, and the copy ends with that: hung up if no prompt comes back, and good for more."""
    with pytest.raises(CopyFailed, match="asks for the password again"):
        copied(on("r17"), offer(world, "scp", server.port, password="Gf4tR9bLs0Vn8cJd"))
    assert copied(on("r17"), offer(world, "scp", server.port)).device.size_bytes == SIZE_BYTES


def test_a_key_that_is_asked_about(on: Any, world: World, tmp_path: Path) -> None:
    """Confirmed where the device shows our fingerprint; another's, or one that nobody knows, gets neither word."""
    key = asyncssh.generate_private_key("ssh-rsa", key_size=2048)
    with plain_ssh(world, tmp_path, server_host_keys=[key], **LEGACY) as ours:
        ours.add("x.bin", SIZE_BYTES)
        world.fault("r16", ssh_asks_host_key=True)
        try:
            with pytest.raises(OutputNotUnderstood, match="the fingerprint of a key of our server"):
                copied(on("r16"), offer(world, "scp", ours.port))
            shown = (key.get_fingerprint(),)
            report = copied(on("r16"), offer(world, "scp", ours.port, fingerprints=shown))
        finally:
            world.fault("r16", ssh_asks_host_key=False)
    assert "continue connecting" in report.transcript
    assert report.device.size_bytes == SIZE_BYTES


def test_no_algorithm_in_common(on: Any, world: World, tmp_path: Path) -> None:
    """An old release against a server of today: the copy fails before a byte came, and says what it can."""
    with plain_ssh(world, tmp_path, kex_algs=["curve25519-sha256"]) as modern:
        modern.add("x.bin", SIZE_BYTES)
        with pytest.raises(CopyFailed) as caught:
            copied(on("old"), offer(world, "scp", modern.port))
    assert not isinstance(caught.value, DeviceOverloaded)
    assert caught.value.hint


def test_no_sftp_on_old_releases(on: Any, world: World, server: PlainSsh) -> None:
    """The command is refused, and that is what is told."""
    with pytest.raises(DeviceRefused, match="does not take the copy command"):
        copied(on("old"), offer(world, "sftp", server.port))


@pytest.mark.parametrize("target", ["null:", "bootflash:web.bin"])
def test_by_http(on: Any, world: World, web: Web, target: str) -> None:
    """Credentials in the URL, masked in what the device shows; the line that counts the bytes is success."""
    session = on("r17")
    report = copied(session, offer(world, "http", web.port), target=target)
    assert report.device.size_bytes == SIZE_BYTES
    assert SSH_WORD not in report.transcript


def test_http_says_little(on: Any, world: World, web: Web) -> None:
    """`(I/O error)` before a byte came is no want of memory: no window is made smaller for it."""
    missing = offer(world, "http", 9)
    with pytest.raises(CopyFailed) as caught:
        copied(on("r17"), missing)
    assert not isinstance(caught.value, DeviceOverloaded)
    assert web.port != 9
