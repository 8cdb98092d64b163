"""Questions, modes and faults of `copy ftp:`, reload, other users and SSH itself, over real connections."""

import contextlib
import re
from collections.abc import Callable, Iterator
from typing import Any

import netmiko
import paramiko
import pytest

from flashferry.lab.world import DeviceSpec, World, WorldSpec, in_core, start_world
from tests.patience import PATIENCE_S, until

pytestmark = [pytest.mark.lab, pytest.mark.soak]

QUIET = {
    "silent_start_s": 0.0, "drop_ssh_after_bytes": None, "reboot_after_bytes": None, "dead_control": False,
    "disk_full_after_bytes": None, "image_not_executable": False, "ineffective_config_pattern": None,
    "prompt_delay_s": 0.0, "boot_s": None,
}  # fmt: skip
DEVICES = (
    DeviceSpec(name="r1"),
    DeviceSpec(name="old", platform="c2811-15.1", config_lines=("no ip ftp passive",)),
    DeviceSpec(name="iosv", platform="iosv-15.8"),
    DeviceSpec(name="new", platform="c8000v-17.15"),
    DeviceSpec(name="asr", platform="asr1006-16.3"),
)


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with start_world(WorldSpec(profile="lan", devices=DEVICES)) as started:
        yield started


@pytest.fixture
def on(world: World, open_session: Callable[..., Any]) -> Iterator[Callable[..., Any]]:
    """Return what opens a session on a device by name and, for the test, switches its faults."""
    with contextlib.ExitStack() as stack:

        def enter(name: str, **faults: Any) -> Any:
            device = next(each for each in world.devices if each.name == name)
            opened = stack.enter_context(open_session(device))
            if faults:
                world.fault(name, **faults)
                stack.callback(world.fault, name, **QUIET)
            return opened

        yield enter


def _names(world: World, device: str) -> list[str]:
    return [file.name for file in world.files(device)]


def test_class_b_flash_asks_and_no_keeps_the_files(world: World, on: Any, ftp: Any, copy: Any, wire: Any) -> None:
    """The question comes behind `Accessing`; `n` keeps what is there. The copy runs by PORT with no options."""
    ftp.add("a.bin", 300_000)
    old = on("old")
    wire.syns()
    shown = copy(old, f"copy {ftp.url('a.bin')} flash:", (r"\[a\.bin\]\? ", "\n"), (r"Erase flash: .*\[confirm\]", "n"))
    assert re.search(
        r"Accessing ftp://\S+\.\.\.\s+Erase flash: before copying\? \[confirm\]n\s+Loading a.bin !!\s", shown
    )
    assert "Verifying checksum...  OK (0x266E)" in shown
    assert "300000 bytes copied in" in shown
    assert len(_names(world, "old")) == 2
    assert len(wire.syns()) == 1  # the control connection; the server opened the other


def test_class_b_flash_is_erased_when_told(world: World, on: Any, ftp: Any, copy: Any) -> None:
    """Two confirmations by Enter remove every file."""
    ftp.add("b.bin", 1000)
    shown = copy(
        on("old"), f"copy {ftp.url('b.bin')} flash:", (r"\[b\.bin\]\? ", "\n"), (r"Erase flash: .*\[confirm\]", "\n"),
        (r"Continue\? \[confirm\]", "\n"),
    )  # fmt: skip
    assert "Erasing device... eeee" in shown
    assert "Erase of flash: complete" in shown
    assert _names(world, "old") == ["b.bin"]


def test_a_file_that_is_no_image_may_be_refused(world: World, on: Any, ftp: Any, copy: Any) -> None:
    """Enter aborts without a word and without a file; `n` goes on."""
    ftp.add("c.bin", 1000)
    session = on("r1", image_not_executable=True)
    line, name = f"copy {ftp.url('c.bin')} flash:", (r"\[c\.bin\]\? ", "\n")
    shown = copy(session, line, name, (r"Abort Copy\? \[confirm\]", "\n"))
    assert "%Warning: File not a valid executable for this system" in shown
    assert "bytes copied" not in shown
    assert "c.bin" not in _names(world, "r1")
    assert "1000 bytes copied" in copy(session, line, name, (r"Abort Copy\? \[confirm\]", "n"))


def test_bare_copy_asks_for_everything(on: Any, ftp: Any, copy: Any) -> None:
    """Host, source and destination, in this order; the credentials are those of the configuration."""
    ftp.add("d.bin", 1000)
    session = on("asr")
    session.send_config_set(["ip ftp username tester", "ip ftp password lab9word"])
    shown = copy(
        session, f"copy ftp://{ftp.address}:{ftp.port} bootflash:",
        (r"Source filename \[\]\? ", "d.bin\n"), (r"Destination filename \[d\.bin\]\? ", "\n"),
    )  # fmt: skip
    assert re.search(r"Accessing ftp://[\d.]+:\d+/d\.bin\.\.\.!\s+\[OK - 1000/4096 bytes\]\s+1000 bytes copied", shown)
    shown = copy(session, "copy ftp: flash:", (r"Address or name of remote host \[\]\? ", "\n"))
    refused = "?Host name or address not specified\n%Error parsing filename (Bad address)\n"
    assert refused in shown.replace("\r", "")


def test_an_unknown_vrf_is_refused(on: Any, ftp: Any) -> None:
    """The keyword behind the destination takes a VRF that is configured; nothing leaves by one without an address."""
    session = on("asr")
    assert session.send_command(f"copy {ftp.url('d.bin')} null: vrf none") == "% VRF none does not exist"
    assert "(Timed out)" in session.send_command(f"copy {ftp.url('none.bin')} null: vrf Mgmt-intf")


def test_platforms_offer_what_they_offer_unconfigured(on: Any, ftp: Any, copy: Any, wire: Any) -> None:
    """C8000V 17.x offers scale and SACK without a line, IOSv does not; no timestamps on either."""
    ftp.add("e.bin", 5000)
    for name, options in (("new", {2, 3, 4}), ("iosv", {2})):
        session = on(name)
        wire.syns()
        copy(session, f"copy {ftp.url('e.bin')} null:")
        syns = wire.syns()
        assert len(syns) == 2
        assert {frozenset(syn.options) for syn in syns} == {frozenset(options)}


def test_a_line_that_does_not_take(world: World, on: Any, ftp: Any, copy: Any, wire: Any) -> None:
    """It is shown in the configuration, but the SYN does not carry it."""
    ftp.add("e.bin", 5000)
    session = on("r1", ineffective_config_pattern="window-size")
    session.send_config_set(["ip tcp window-size 1000000", "ip tcp selective-ack"])
    wire.syns()
    copy(session, f"copy {ftp.url('e.bin')} null:")
    assert {frozenset(syn.options) for syn in wire.syns()} == {frozenset({2, 4})}
    assert "ip tcp window-size 1000000" in world.running_config("r1")
    session.send_config_set(["no ip tcp window-size", "no ip tcp selective-ack"])


def test_a_disk_that_fills_up_in_mid_copy(world: World, on: Any, ftp: Any, copy: Any) -> None:
    """Marks were shown already when the error comes, and the partial file goes."""
    ftp.add("f.bin", 2_000_000)
    session = on("r1", disk_full_after_bytes=1_000_000)
    shown = copy(session, f"copy {ftp.url('f.bin')} flash:", (r"\[f\.bin\]\? ", "\n"))
    assert re.search(r"Loading f\.bin !+\s+%Error copying ftp://\S+/f\.bin \(Not enough space on device\)", shown)
    assert "f.bin" not in _names(world, "r1")


def test_a_dead_control_connection(on: Any, ftp: Any) -> None:
    """All data came, but the final reply never does: the device waits and can be stopped by its escape key."""
    ftp.add("g.bin", 300_000)
    session = on("r1", dead_control=True)
    session.write_channel(f"copy {ftp.url('g.bin')} null:\n")
    shown = session.read_until_pattern(r"Loading g\.bin !", read_timeout=PATIENCE_S)
    session.write_channel("\x1e")
    shown += session.read_until_pattern(r"\nr1#", read_timeout=PATIENCE_S)
    assert "bytes copied" not in shown
    assert "(Aborted)" in shown


def test_silence_before_the_first_mark(on: Any, ftp: Any, copy: Any) -> None:
    """The seconds of silence are part of the copy's time."""
    ftp.add("h.bin", 1000)
    shown = copy(on("r1", silent_start_s=0.7), f"copy {ftp.url('h.bin')} null:")
    assert float(re.search(r"copied in ([\d.]+) secs", shown)[1]) >= 0.7


def test_a_reboot_in_mid_copy(world: World, on: Any, ftp: Any) -> None:
    """The session dies, unsaved lines are gone when the device is back, and SSH answers again."""
    ftp.add("i.bin", 3_000_000)
    session = on("asr", reboot_after_bytes=1_000_000, boot_s=0.3)
    session.send_config_set(["ip tcp synwait-time 77"])
    assert "ip tcp synwait-time 77\n" in world.running_config("asr")
    session.write_channel(f"copy {ftp.url('i.bin')} null:\n")
    _wait_until_cut(session)
    device = next(each for each in world.devices if each.name == "asr")
    _answers_again(world, device)
    assert "synwait-time" not in world.running_config("asr")


def _wait_until_cut(session: Any) -> None:
    until(lambda: session.remote_conn.closed, "a session that is cut")


def _answers_again(world: World, device: Any) -> None:
    def is_logged_in() -> bool:
        with contextlib.suppress(OSError, netmiko.exceptions.NetmikoTimeoutException), in_core(world):
            netmiko.ConnectHandler(
                device_type="cisco_xe", host=device.address, username=device.username, password=device.password
            ).disconnect()
            return True
        return False

    until(is_logged_in, "a login")


def test_reload_and_a_changed_host_key(world: World, on: Any) -> None:
    """A reload asks, drops the session and keeps the host key; the fault changes the key for new connections."""
    device = next(each for each in world.devices if each.name == "new")
    first = _host_key(world, device)
    session = on("new", boot_s=0.3)
    session.send_config_set(["ip tcp synwait-time 9"])
    session.write_channel("reload\n")
    session.read_until_pattern(r"Save\? \[yes/no\]: ")
    session.write_channel("yes\n")
    session.read_until_pattern(r"Proceed with reload\? \[confirm\]")
    session.write_channel("\n")
    _wait_until_cut(session)
    _answers_again(world, device)
    assert "ip tcp synwait-time 9" in world.running_config("new")
    assert _host_key(world, device) == first
    world.fault("new", new_host_key=True)
    _answers_again(world, device)
    assert _host_key(world, device) != first


def _host_key(world: World, device: Any) -> bytes:
    with in_core(world), contextlib.closing(paramiko.Transport((device.address, 22))) as transport:
        transport.start_client(timeout=PATIENCE_S)
        return transport.get_remote_server_key().asbytes()


def test_another_user_changes_lines_and_saves(world: World, on: Any) -> None:
    """The stamp names the other user, and what is unsaved of ours is saved with theirs."""
    session = on("r1")
    session.send_config_set(["ip tcp window-size 70000"])
    world.fault("r1", other_user_configures=["ip tcp window-size 80000"], other_user_saves=True)
    running = world.running_config("r1")
    assert "ip tcp window-size 80000" in running
    assert re.search(r"^! Last configuration change at .* by colleague$", running, re.MULTILINE)
    assert "ip tcp window-size 80000" in world.startup_config("r1")
    session.send_config_set(["no ip tcp window-size"])


def test_a_delayed_prompt_is_waited_for(on: Any) -> None:
    """Commands work, only later."""
    session = on("r1", prompt_delay_s=0.3)
    assert session.send_command("show privilege") == "Current privilege level is 15"


def test_legacy_ssh_has_sha1_only(world: World) -> None:
    """A client without SHA-1 key exchange cannot connect, one with it can and sees an ssh-rsa signature."""
    device = next(each for each in world.devices if each.name == "iosv")
    with in_core(world), contextlib.closing(paramiko.Transport((device.address, 22))) as transport:
        transport.get_security_options().kex = ("ecdh-sha2-nistp256", "diffie-hellman-group14-sha256")
        with pytest.raises(paramiko.SSHException):
            transport.start_client(timeout=PATIENCE_S)
    with in_core(world), contextlib.closing(paramiko.Transport((device.address, 22))) as transport:
        transport.start_client(timeout=PATIENCE_S)
        assert transport.host_key_type == "ssh-rsa"


def test_an_idle_user_loses_the_change(world: World, on: Any) -> None:
    """`revert idle` waits for the user to fall silent, then takes the configuration back by itself."""
    session = on("r1")
    session.send_config_set(["archive", "path bootflash:archive"])
    world.fault("r1", seconds_per_minute=1.0)
    try:
        session.write_channel("configure terminal revert idle 1\nip tcp synwait-time 21\n")
        session.read_until_pattern(r"synwait-time 21\s+r1\(config\)#")
        until(lambda: "synwait-time 21" not in world.running_config("r1"), "the end of the device's timer")
        assert "hostname r1" in world.running_config("r1")
    finally:
        world.fault("r1", seconds_per_minute=60.0)
    session.send_config_set(["no archive"])


def test_a_reload_runs_what_boot_system_names(world: World, on: Any, ftp: Any, copy: Any) -> None:
    """The image of a saved `boot system` line runs after a restart; a file that is not there is passed over."""
    ftp.add("next.bin", 1000)
    session = on("asr")
    copy(session, f"copy {ftp.url('next.bin')} bootflash:", (r"\]\? ", "\n"))
    session.send_config_set(["boot system bootflash:absent.bin", "boot system bootflash:next.bin"])
    session.save_config()
    device = next(each for each in world.devices if each.name == "asr")
    world.fault("asr", reboot=0.3)
    _wait_until_cut(session)
    _answers_again(world, device)
    assert 'System image file is "bootflash:next.bin"' in on("asr").send_command("show version")


def test_syslog_lines_come_where_they_are_monitored(world: World, on: Any) -> None:
    """`terminal monitor` shows them behind the prompt, `terminal no monitor` ends that."""
    session = on("r1")
    session.send_command("terminal monitor")
    world.fault("r1", syslog="%TEST-5-ONE: first")
    session.read_until_pattern(r"\*\w+ +\d+ [\d:.]+: %TEST-5-ONE: first")
    session.send_command("terminal no monitor")
    world.fault("r1", syslog="%TEST-5-TWO: second")
    shown = session.send_command("show privilege")
    assert "Current privilege level is 15" in shown
    assert "TWO" not in shown
