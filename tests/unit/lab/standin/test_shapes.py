"""Line shapes: every line that a stand-in prints has its like in a capture of the same command.

What a shape is, the fixture `strangers` says. Differences that are known and wanted stand in the table, as expressions.
"""

import hashlib
import re
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ntc_templates.parse
import pytest

from flashferry.lab.errors import data_names
from flashferry.lab.standin.commands import build_trees
from flashferry.lab.standin.files import sign
from flashferry.lab.standin.grammar import Node
from flashferry.lab.standin.platform import load_platform

CAPTURES = Path(__file__).parents[3] / "captures"
ALL = (
    "asr1006-16.3", "asr1006-dual-16.3", "c2811-15.1", "c8000v-17.15", "c8000v-sdwan-17.15", "c9300-17.6",
    "c9300-alone-bundle-17.6", "c9300-bundle-17.6", "c9300-eight-17.6", "c9300-eight-bundle-17.6", "csr1000v-16.11",
    "iol-17.15",
    "iosv-15.8", "isr4321-16.6",
)  # fmt: skip


Strangers = Callable[[str, str, tuple[str, ...]], list[str]]
UPTIME = r"(uptime|^Uptime for this control processor) is 0 minutes$"
RETURNED = r"^(System returned to ROM by|System image file is|Last reload reason:) ?"
CASES = (
    ("iosv-15.8", "show version", "lab/show_version_iosv.txt", (UPTIME,)),
    ("c8000v-17.15", "show version", "show_version/c8000v.txt", (UPTIME, RETURNED, "^Cisco IOS", "^Technical")),
    ("isr4321-16.6", "show version", "lab/show_version_isr4k.txt", (UPTIME, RETURNED)),
    ("asr1006-16.3", "show version", "lab/show_version_asr1k.txt",
     (UPTIME, RETURNED, "^Cisco IOS", "^Technical", "^Configuration register")),
    ("c9300-17.6", "show version", "lab/show_version_c9300.txt",
     (UPTIME, RETURNED, "^Cisco IOS", "^Technical", "INSTALL$", "^Smart Licensing Status",
      r"^Switch 0[23]$", "^-+$", "^Switch uptime", r" at (crashinfo|flash)-[23]:\.$")),
    ("c2811-15.1", "show version", "show_version/2811.txt", (UPTIME, RETURNED)),
    ("iosv-15.8", "dir", "dir/iosv.txt", ()),
    ("asr1006-16.3", "dir", "dir/asr1k.txt", (r"-rw- .* asr1000rpx\.bin$",)),
    ("c9300-17.6", "show file systems", "show_file_systems/iosxe.txt", ()),
    ("asr1006-16.3", "show boot", "show_boot/asr1k.txt", ("does not exist$", "^Standby not ready")),
    ("c9300-17.6", "show boot", "lab/show_boot_cat9300.txt", ()),
    ("csr1000v-16.11", "show users", "lab/show_users.txt", ("ferry",)),
    ("csr1000v-16.11", "show processes cpu", "lab/show_processes_cpu.txt", ()),
    ("c9300-17.6", "show switch", "show_switch/active_standby.txt", ("Member", "^$")),
    ("asr1006-16.3", "show bootvar", "show_boot/asr1k_no_standby.txt", ("does not exist$", "^Standby ")),
    ("c9300-17.6", "show bootvar", "lab/show_bootvar_cat9400.txt", ("= flash:packages",)),
    ("c2811-15.1", "show hosts", "lab/show_hosts.txt", ("^Default domain",)),
    ("c9300-17.6", "show ip interface brief", "show_ip_interface_brief/c2960.txt", ()),
    ("csr1000v-16.11", "show running-config interface GigabitEthernet1", "lab/show_running-config_interface.txt",
     ("description", "negotiation auto", "^end$")),
    ("c8000v-17.15", "show ip ssh", "lab/show_ip_ssh.txt", ("^(Hostkey|Encryption|MAC|KEX) Algorithms:",)),
)  # fmt: skip


@pytest.mark.parametrize(("platform", "command", "capture", "known"), CASES)
def test_outputs_have_the_line_shapes_of_captures(
    strangers: Strangers,
    make_console: Callable[..., Any],
    platform: str,
    command: str,
    capture: str,
    known: tuple[str, ...],
) -> None:
    """No line stands in the output that has no like in the capture, but for the known ones."""
    output = make_console(platform).show(command)
    assert len(output.splitlines()) > 3
    assert strangers(output, (CAPTURES / capture).read_text(encoding="utf-8"), known) == []


def test_strangers_are_found(strangers: Strangers) -> None:
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


def test_a_connection_has_the_lines_of_a_tcb(strangers: Strangers, console: Any) -> None:
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


def test_a_list_of_connections_has_the_lines_of_the_capture(strangers: Strangers, console: Any) -> None:
    """`show tcp brief numeric` names state and ends of each connection."""
    console.device.connections.add(("198.18.1.11", 22), ("198.18.0.1", 40000))
    output = console.show("show tcp brief numeric")
    capture = (CAPTURES / "lab/show_tcp_brief_numeric.txt").read_text(encoding="utf-8")
    assert "198.18.1.11.22 " in output
    assert strangers(output, capture, ()) == []


@pytest.mark.parametrize(
    ("command", "capture", "known"),
    [
        ("show archive config differences", "lab/show_archive_differences.txt",
         (r"^\+ip tcp", r"^ \+desc", "^interface", "^$")),
        ("show archive config incremental-diffs flash:new.cfg", "lab/show_archive_incremental.txt",
         ("^ip tcp", "^ desc", "^interface", "^end$")),
    ],
)  # fmt: skip
def test_differences_have_the_lines_of_captures(
    strangers: Strangers, console: Any, command: str, capture: str, known: tuple[str, ...]
) -> None:
    """Headers as in the captures, then the lines that differ below their sections."""
    changes = "ip tcp synwait-time 9\ninterface GigabitEthernet2\n description new\n"
    console.device.flash.write("new.cfg", changes.encode())
    if "incremental" not in command:
        console.type("configure terminal", *changes.splitlines())
    output = console.show(command)
    assert len(output.splitlines()) > 3
    assert strangers(output, (CAPTURES / capture).read_text(encoding="utf-8"), known) == []


DIGEST = hashlib.md5(bytes(2_814_938)).hexdigest()


@pytest.mark.parametrize(
    ("command", "capture"),
    [
        ("verify /md5 flash:/image.bin", "md5_ok"),
        (f"verify /md5 flash:image.bin {DIGEST}", "md5_expected_match"),
        (f"verify /md5 flash:image.bin {'0' * 32}", "md5_expected_mismatch"),
        ("verify /md5 flash:/absent.bin", "md5_missing_file"),
        ("verify flash:/signed.bin", "plain_ok_iosxe"),
    ],
)
def test_verify_has_the_lines_of_captures(strangers: Strangers, console: Any, command: str, capture: str) -> None:
    """Dots, result and error of each form; the names of files and the number of dots are a device's own."""
    console.device.flash.write("image.bin", bytes(2_814_938))
    console.device.flash.write("signed.bin", sign(bytes(10_000)))
    captured = (CAPTURES / "verify" / f"{capture}.txt").read_text(encoding="utf-8")
    named = (_generic(console.show(command)), _generic(captured))
    assert strangers(*named, ("^$",)) == []
    assert strangers(*reversed(named), ("^$",)) == []


def _generic(text: str) -> str:
    """Give every file and every run of dots the same name."""
    return re.sub(r"\w*flash:/?[\w-]+(\.[\w-]+)*", "FILE", re.sub(r"\.{2,}", "..", text))


def test_an_archive_has_the_lines_of_the_capture(strangers: Strangers, console: Any) -> None:
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
    # The template for `show boot` knows switches only: it refuses the capture of an ASR1000 as well.
    switch = ("show boot", "show switch") if platform.startswith("c9300") else ()
    for command in ("dir", "show ip interface brief", "show inventory", "show file systems", "show clock", "show users",
                    "show archive", "show processes cpu", "show interfaces", *switch):  # fmt: skip
        assert _parsed(console, command), command


TEMPLATES = Path(ntc_templates.parse.__file__).parent / "templates"
REFUSED_BY_THEIR_TEMPLATES = {
    "show boot": "it knows switches only and refuses captures of routers",
    "show running-config interface": "it refuses the `end` with which a device closes the output",
    "show lldp neighbors": "it refuses the sentence of a device on which LLDP is off",
    "show processes memory sorted": "it refuses the pool `I/O` of IOS",
    "show platform": "it knows switches only and refuses captures of routers",
    "show ip mroute": "it refuses the sentence of a device without multicast routing",
    "show license": "it knows the licences of IOS 15, not smart licensing",
    **dict.fromkeys(
        ("show snmp community", "show snmp user", "show snmp group"),
        "they refuse the sentence of one without SNMP",
    ),
    "show redundancy": "it refuses the line of captures about a peer that is not there",
}
REFUSED_OF_SWITCHES_TOO = (
    "show lldp neighbors", "show ip mroute", "show license", "show snmp community", "show snmp user", "show snmp group",
)  # fmt: skip


@pytest.mark.parametrize("platform", ALL)
def test_every_template_there_is_reads_its_command(make_console: Callable[..., Any], platform: str) -> None:
    """All `show` commands of the platform that ntc-templates has a template for; none is refused."""
    console = make_console(platform)
    read = []
    for command in _show_commands(build_trees(console.device.platform)[1]):
        has_one = (TEMPLATES / f"cisco_ios_{command.replace(' ', '_')}.textfsm").exists()
        knows_switches = platform.startswith("c9300") and command not in REFUSED_OF_SWITCHES_TOO
        if has_one and (command not in REFUSED_BY_THEIR_TEMPLATES or knows_switches):
            _parsed(console, command)
            read.append(command)
    assert len(read) >= 8, read


def _show_commands(root: Node[Any], words: tuple[str, ...] = ()) -> list[str]:
    """Return the commands without parameters that print something."""
    own = [" ".join(words)] if root.action is not None and root.action.show is not None else []
    return own + [line for word, node in root.keywords.items() for line in _show_commands(node, (*words, word))]


def test_every_platform_names_its_sources_and_boots(make_console: Callable[..., Any]) -> None:
    """The list above is complete, each has sources, and the configuration that it boots with is the one it had."""
    assert data_names("flashferry.lab.standin.platforms") == ALL
    for name in ALL:
        device = make_console(name).device
        assert len(device.platform.sources) >= 2
        before = device.running.render()
        device.boot()
        assert device.running.render() == before
