"""Uploads, configurations by FTP, EPSV, VRFs, source addresses, verified copies and live counters."""

import contextlib
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from flashferry.lab.standin.files import sign
from flashferry.lab.world import DeviceSpec, World, WorldSpec, start_world
from tests.patience import until

pytestmark = [pytest.mark.lab, pytest.mark.soak]

HOST = (r"remote host \[[\d.]+\]\? ", "\n")
SECOND_ADDRESS = "198.18.1.200"
DEVICES = (
    DeviceSpec(name="r1", config_lines=("interface Loopback0", f" ip address {SECOND_ADDRESS} 255.255.255.255")),
    DeviceSpec(name="e1", extended_passive=True),
    DeviceSpec(name="sw", platform="c9300-17.6"),
    DeviceSpec(name="old", platform="c2811-15.1"),
)


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with start_world(WorldSpec(profile="lan", devices=DEVICES)) as started:
        yield started


@pytest.fixture
def on(world: World, open_session: Callable[..., Any]) -> Iterator[Callable[..., Any]]:
    """Return what opens a session on a device by name."""
    with contextlib.ExitStack() as stack:
        yield lambda name: stack.enter_context(open_session(next(d for d in world.devices if d.name == name)))


def test_a_file_is_uploaded(on: Any, ftp: Any, copy: Any, world: World) -> None:
    """Host and name are asked for, marks and result come, and the server has the very bytes."""
    content = ftp.add("up.bin", 700_000)
    session = on("r1")
    copy(session, f"copy {ftp.url('up.bin')} flash:", (r"\]\? ", "\n"))
    (ftp.root / "up.bin").unlink()
    shown = copy(session, f"copy flash:up.bin {ftp.url('back.bin')}", HOST, (r"filename \[back\.bin\]\? ", "\n"))
    assert re.search(r"Writing back\.bin !!!\s+700000 bytes copied in [\d.]+ secs", shown)
    assert (ftp.root / "back.bin").read_bytes() == content


def test_the_running_configuration_goes_up_and_comes_back(on: Any, ftp: Any, copy: Any, world: World) -> None:
    """Its default name is the host's with -confg; what comes down is merged, with refused lines printed."""
    session = on("r1")
    login = f"ftp://tester:lab9word@{ftp.address}:{ftp.port}"
    shown = copy(session, f"copy running-config {login}", HOST, (r"filename \[r1-confg\]\? ", "\n"))
    assert "Writing r1-confg !" in shown
    assert "\nhostname r1\n" in (ftp.root / "r1-confg").read_text()
    (ftp.root / "lines.cfg").write_text("ip tcp synwait-time 17\nip tcp nonsense\nend\n")
    shown = copy(session, f"copy {ftp.url('lines.cfg')} running-config", (r"\[running-config\]\? ", "\n"))
    assert re.search(r"\[OK - 43/4096 bytes\]\s+ip tcp nonsense\s+\^\s+% Invalid input.*\s+43 bytes copied", shown)
    assert "ip tcp synwait-time 17" in world.running_config("r1")
    shown = copy(session, f"copy {ftp.url('r1-confg')} startup-config", (r"\[startup-config\]\? ", "\n"))
    assert re.search(r"\[OK\]\s+\d+ bytes copied", shown)
    assert world.startup_config("r1") == (ftp.root / "r1-confg").read_text()
    session.send_config_set(["no ip tcp synwait-time"])


@pytest.mark.parametrize(
    ("file", "reason"), [("sub/up.bin", "%Error writing .* \\(Permission denied\\)"), ("", "No such file or directory")]
)
def test_uploads_that_fail(on: Any, ftp: Any, copy: Any, file: str, reason: str) -> None:
    """A server that takes no file there, and a file that is not on the device."""
    source = "packages.conf" if file else "absent.bin"
    questions = (HOST, (r"filename \[.*\]\? ", "\n")) if file else ()
    shown = copy(on("r1"), f"copy flash:{source} {ftp.url(file or 'x.bin')}", *questions)
    assert re.search(reason, shown)
    assert "bytes copied" not in shown


def test_epsv_comes_before_pasv_where_it_is_set(on: Any, ftp: Any, copy: Any) -> None:
    """A device of the world that offers EPSV copies by it (RFC 2428)."""
    ftp.add("k.bin", 1000)
    ftp.commands.clear()
    assert "1000 bytes copied" in copy(on("e1"), f"copy {ftp.url('k.bin')} null:")
    # The device is back at its prompt before its farewell has come.
    until(lambda: ftp.commands[-1] == "QUIT", "the farewell")
    assert ftp.commands == ["USER", "PASS", "TYPE", "EPSV", "RETR", "QUIT"]


def test_a_vrf_without_a_way_brings_nothing_out(on: Any, ftp: Any, copy: Any) -> None:
    """The management VRF has no address, so a copy through it times out; an unknown VRF is refused at once."""
    ftp.add("k.bin", 1000)
    session = on("sw")
    line = f"copy {ftp.url('k.bin')} flash:"
    shown = copy(session, f"{line} vrf Mgmt-vrf", (r"\]\? ", "\n"))
    assert re.search(r"%Error opening ftp://\*:\*@\S+/k\.bin \(Timed out\)", shown)
    assert "% VRF Nowhere does not exist" in session.send_command(f"{line} vrf Nowhere")
    assert "1000 bytes copied" in copy(session, line, (r"\]\? ", "\n"))


def test_a_copy_follows_its_interface_into_a_vrf(on: Any, ftp: Any, copy: Any) -> None:
    """`ip ftp source-interface` takes the VRF of its interface: no route there fails, a route brings the file."""
    ftp.add("k.bin", 1000)
    session, line = on("r1"), f"copy {ftp.url('k.bin')} null:"
    session.send_config_set(
        ["vrf definition Blue", "interface Loopback7", "vrf forwarding Blue",
         f"ip address {SECOND_ADDRESS} 255.255.255.255", "ip ftp source-interface Loopback7"],
    )  # fmt: skip
    assert "(Timed out)" in copy(session, line)
    session.send_config_set([f"ip route vrf Blue {ftp.address} 255.255.255.255 Loopback7"])
    assert "1000 bytes copied" in copy(session, line)
    session.send_config_set(
        ["no ip ftp source-interface", f"no ip route vrf Blue {ftp.address} 255.255.255.255 Loopback7",
         "no interface Loopback7", "no vrf definition Blue"],
    )  # fmt: skip


def test_the_source_interface_decides_the_address(on: Any, ftp: Any, copy: Any, wire: Any) -> None:
    """The server sees the address of the loopback, and that of the WAN interface without the line."""
    ftp.add("k.bin", 1000)
    session, line = on("r1"), f"copy {ftp.url('k.bin')} null:"
    session.send_config_set(["ip ftp source-interface Loopback0"])
    wire.syns()
    assert "1000 bytes copied" in copy(session, line)
    assert {syn.source for syn in wire.syns()} == {SECOND_ADDRESS}
    session.send_config_set(["no ip ftp source-interface"])
    assert "1000 bytes copied" in copy(session, line)
    assert {syn.source for syn in wire.syns()} == {"198.18.1.11"}


def test_a_verified_copy_keeps_images_only(on: Any, ftp: Any, copy: Any, world: World) -> None:
    """`/verify` and `file verify auto` check the signature; a file without one is deleted; `/noverify` keeps it."""
    (ftp.root / "image.bin").write_bytes(sign(bytes(20_000)))
    ftp.add("junk.bin", 20_000)
    session = on("r1")
    shown = copy(session, f"copy /verify {ftp.url('image.bin')} flash:", (r"\]\? ", "\n"))
    assert re.search(
        r"bytes/sec\)\s+Verifying file integrity of bootflash:/image\.bin\.+\s+Embedded Hash   SHA1", shown
    )
    assert "Digital signature successfully verified in file bootflash:/image.bin" in shown
    session.send_config_set(["file verify auto"])
    shown = copy(session, f"copy {ftp.url('junk.bin')} flash:", (r"\]\? ", "\n"))
    ending = "%ERROR: Not able to process Signature in bootflash:/junk.bin.\n%ERROR: Aborting copy.\n"
    assert ending in shown.replace("\r", "")
    names = [file.name for file in world.files("r1")]
    assert "image.bin" in names
    assert "junk.bin" not in names
    shown = copy(session, f"copy /noverify {ftp.url('junk.bin')} flash:", (r"\]\? ", "\n"))
    assert "Verifying" not in shown
    session.send_config_set(["no file verify auto"])


def test_ios_verifies_in_its_own_words(on: Any, ftp: Any, copy: Any) -> None:
    """IOS prints MD5 hashes; the class-B questions come before."""
    (ftp.root / "image.bin").write_bytes(sign(bytes(20_000)))
    shown = copy(on("old"), f"copy /verify {ftp.url('image.bin')} flash:", (r"\]\? ", "\n"), (r"Erase flash.*\]", "n"))
    assert "Embedded hash verification successful." in shown


def test_counters_are_those_of_the_live_copy(on: Any, ftp: Any, world: World) -> None:
    """While one session copies, `show tcp` of another shows window, options and bytes of the data connection."""
    ftp.add("long.bin", 6_000_000)
    first, second = on("r1"), on("r1")
    first.send_config_set(["ip tcp window-size 131072", "ip tcp selective-ack"])
    world.fault("r1", hold_copy_at_bytes=800_000)
    try:
        first.write_channel(f"copy {ftp.url('long.bin')} flash:\n")
        first.read_until_pattern(r"\]\? ")
        first.write_channel("\n")
        first.read_until_pattern(r"!!")
        blocks = second.send_command("show tcp").split("\nTCB ")[1:]
        data = next(b for b in blocks if int(re.search(r"total data bytes: (\d+)", b)[1]) > 256_000)
        first.write_channel("\x1e")
        first.read_until_pattern(r"Aborted\)\s+r1#")
    finally:
        world.fault("r1", hold_copy_at_bytes=None)
        first.send_config_set(["no ip tcp window-size", "no ip tcp selective-ack"])
    assert "maxrcvwnd: 131072" in data
    assert re.search(r"rcvwnd: +\d+  scale:      [12]  delrcvwnd", data)
    assert "SACK option permitted, win-scale" in data
    assert "Status Flags: active open" in data


CAPTURES = Path(__file__).parents[2] / "captures" / "copy_ftp"
NAME = "image-universalk9.SPA.bin"


@pytest.mark.parametrize(
    ("capture", "device", "size", "answers"),
    [
        ("ok_iosxe_isr4k", "r1", 2_646_988, ()),
        ("ok_overwrite_prompt", "r1", 4, ((r"\[confirm\]", "\n"),)),
        ("ok_class_b_flash_erase_prompt", "old", 2_400_000, ((r"Erase flash.*\[confirm\]", "n"),)),
        ("err_no_such_file", "e1", None, ()),
    ],
)
def test_a_dialogue_reads_like_its_capture(
    on: Any, ftp: Any, copy: Any, capture: str, device: str, size: int | None, answers: tuple[tuple[str, str], ...]
) -> None:
    """Line by line the same words, numbers, addresses and marks aside (an ASR903 prints no mark for 4 bytes)."""
    if size is not None:
        ftp.add(NAME, size)
    else:
        (ftp.root / NAME).unlink(missing_ok=True)
    command, name_it = f"copy {ftp.url(NAME)} flash:", (r"filename \[.*\]\? ", "\n")
    if device == "r1":
        on(device).send_command(f"delete /force flash:{NAME}")
    if capture == "ok_overwrite_prompt":
        copy(on(device), command, name_it)
    shown = copy(on(device), command, name_it, *answers)
    lines = shown.replace("\r", "").split("\n")[1:-1]
    assert _shapes(lines) == _shapes((CAPTURES / f"{capture}.txt").read_text(encoding="utf-8").split("\n"))


def _shapes(lines: list[str]) -> list[str]:
    bare = [re.sub(r"!+", "", re.sub(r"[\d.]+(:\d+)?", "#", line)).strip() for line in lines]
    return [line for line in bare if line]
