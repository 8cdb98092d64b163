"""Line shapes: every line that a stand-in prints has its like in a capture of the same command.

A shape keeps words and punctuation and drops what is a device's own: numbers, names with digits, lengths of blanks.
Differences that are known and wanted stand in the table, as expressions.
"""

import re
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ntc_templates.parse
import pytest

from lab.datafile import data_names
from lab.standin.platform import load_platform

CAPTURES = Path(__file__).parents[3] / "captures"
ALL = (
    "asr1006-16.3", "c2811-15.1", "c8000v-17.15", "c8000v-sdwan-17.15", "c9300-17.6", "csr1000v-16.11", "iol-17.15",
    "iosv-15.8", "isr4321-16.6",
)  # fmt: skip


def shape(line: str) -> str:
    """Return a line without what differs from device to device."""
    line = re.sub(r"\b(Mon|Tue|Wed|Thu|Fri|Sat|Sun|Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)\b", "@", line)
    line = re.sub(r"\S*\d\S*", "#", line)
    return re.sub(r"(#[ ,]*)+", "# ", re.sub(r"\s+", " ", line)).strip()


def strangers(output: str, capture: str, known: tuple[str, ...]) -> list[str]:
    """Return the lines of an output that have no like in the capture."""
    shapes = {shape(line) for line in capture.splitlines()}
    lines = [line for line in output.splitlines() if shape(line) not in shapes]
    return [line for line in lines if not any(re.search(pattern, line) for pattern in known)]


UPTIME = r"(uptime|^Uptime for this control processor) is 0 minutes$"
RETURNED = r"^(System returned to ROM by|System image file is|Last reload reason:) ?"
CASES = (
    ("iosv-15.8", "show version", "lab/show_version_iosv.txt", (UPTIME,)),
    ("c8000v-17.15", "show version", "lab/show_version_c8000v.txt", (UPTIME, RETURNED, "^Cisco IOS", "^Technical")),
    ("isr4321-16.6", "show version", "lab/show_version_isr4k.txt", (UPTIME, RETURNED)),
    ("asr1006-16.3", "show version", "lab/show_version_asr1k.txt",
     (UPTIME, RETURNED, "^Cisco IOS", "^Technical", "^Configuration register")),
    ("c9300-17.6", "show version", "lab/show_version_c9300.txt",
     (UPTIME, RETURNED, "^Cisco IOS", "^Technical", "INSTALL$", "^Smart Licensing Status")),
    ("c2811-15.1", "show version", "show_version/2811.txt", (UPTIME, RETURNED)),
    ("iosv-15.8", "dir", "dir/iosv.txt", ()),
    ("asr1006-16.3", "dir", "dir/asr1k.txt", (r"-rw- .* asr1000rpx\.bin$",)),
    ("c9300-17.6", "show file systems", "show_file_systems/iosxe.txt", ()),
    ("asr1006-16.3", "show boot", "lab/show_boot_asr1k.txt", ("does not exist$",)),
    ("c9300-17.6", "show boot", "lab/show_boot_cat9300.txt", ()),
    ("csr1000v-16.11", "show users", "lab/show_users.txt", ("ferry",)),
    ("csr1000v-16.11", "show processes cpu", "lab/show_processes_cpu.txt", ()),
    ("c9300-17.6", "show switch", "lab/show_switch.txt", ("Member", "^$")),
    ("c8000v-17.15", "show ip ssh", "lab/show_ip_ssh.txt", ("^(Hostkey|Encryption|MAC|KEX) Algorithms:",)),
)  # fmt: skip


@pytest.mark.parametrize(("platform", "command", "capture", "known"), CASES)
def test_outputs_have_the_line_shapes_of_captures(
    make_console: Callable[..., Any], platform: str, command: str, capture: str, known: tuple[str, ...]
) -> None:
    """No line stands in the output that has no like in the capture, but for the known ones."""
    output = make_console(platform).show(command)
    assert len(output.splitlines()) > 3
    assert strangers(output, (CAPTURES / capture).read_text(encoding="utf-8"), known) == []


def test_strangers_are_found() -> None:
    """The comparison itself: a number may differ, a word may not."""
    capture = "4096 bytes total (17 bytes free)\n"
    assert strangers("1 bytes total (2 bytes free)\n", capture, ()) == []
    assert strangers("1 bytes total (2 bytes left)\n", capture, ()) == ["1 bytes total (2 bytes left)"]


class _Kernel:
    """A socket of which the kernel says: SACK and scaling by 7 and 6 bits, 40 ms, 300,000 bytes in 210 segments."""

    def getsockopt(self, _level: int, _option: int, length: int, /) -> bytes:
        raw = bytearray(length)
        raw[0], raw[5], raw[6] = 1, 2 | 4, 7 | 6 << 4
        for offset, value in ((16, 1448), (68, 40_000), (128, 300_000), (140, 215), (152, 210), (232, 2_400_000)):
            struct.pack_into("=I", raw, offset, value)
        return bytes(raw)


def test_a_connection_has_the_lines_of_a_tcb(console: Any) -> None:
    """`show tcp` prints the block that BGP captures hold: the window it opened with, the rest as the kernel says."""
    device = console.device
    tcb = device.connections.add(("198.18.1.11", 40000), ("198.18.0.1", 21), window_bytes=2_500_000, live=_Kernel())
    console.type("configure terminal", "ip tcp window-size 65536")
    block = console.show(f"show tcp tcb {tcb}")
    capture = (CAPTURES / "lab/show_tcp_tcb.txt").read_text(encoding="utf-8")
    assert strangers(block, capture, ("^Option Flags", "^ Packets received in fast path")) == []
    assert "scale:      7  maxrcvwnd: 2500000\nrcvwnd: 2400000  scale:      6  delrcvwnd: 100000\n" in block
    assert "Option Flags: nagle, SACK option permitted, win-scale\n" in block
    assert "SRTT: 40 ms" in block
    assert (
        "(max data segment is 1448 bytes):\nRcvd: 215 (out of order: 0), with data: 210, total data bytes: 300000"
        in (block)
    )
    irs, rcvnxt = map(int, re.search(r"irs: +(\d+)  rcvnxt: +(\d+)", block).groups())
    assert (rcvnxt - irs) % 2**32 == 300_001
    assert f"TCB {tcb}\n" in console.show("show tcp")
    assert console.show("show tcp tcb 123") == "%TCB 123 is not valid\n"
    device.connections.remove(tcb)
    totals = console.show("show tcp statistics")
    assert "Rcvd: 215 Total" in totals
    assert "1 Connections initiated" in totals


def test_an_archive_has_the_lines_of_the_capture(console: Any) -> None:
    """`show archive` with one file in it."""
    console.type("configure terminal", "archive", "path bootflash:cfg", "end", "archive config")
    output = console.show("show archive")
    capture = (CAPTURES / "lab/show_archive.txt").read_text(encoding="utf-8")
    assert strangers(output, capture, ()) == []


def _parsed(console: Any, command: str) -> list[dict[str, Any]]:
    return ntc_templates.parse.parse_output("cisco_ios", command, console.show(command))


@pytest.mark.parametrize("platform", ALL)
def test_the_public_templates_read_every_platform(make_console: Callable[..., Any], platform: str) -> None:
    """The templates of ntc-templates refuse lines they do not know, so each output is read without a residue."""
    console = make_console(platform)
    console.type("configure terminal", "archive", "path flash:cfg", "end", "archive config")
    version = _parsed(console, "show version")[0]
    assert version["hostname"] == "r1"
    assert version["uptime_minutes"] == "0"
    assert version["running_image"].strip("/") in load_platform(platform).image
    for command in ("dir", "show ip interface brief", "show inventory", "show file systems", "show clock", "show users",
                    "show archive", "show processes cpu", "show interfaces"):  # fmt: skip
        assert _parsed(console, command), command


def test_every_platform_names_its_sources_and_boots(make_console: Callable[..., Any]) -> None:
    """The list above is complete, each has sources, and the configuration that it boots with is the one it had."""
    assert data_names("lab.standin.platforms") == ALL
    for name in ALL:
        device = make_console(name).device
        assert len(device.platform.sources) >= 2
        before = device.running.render()
        device.boot()
        assert device.running.render() == before
