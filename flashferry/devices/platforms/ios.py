"""The platforms IOS and IOS-XE, and how a device serves a file of its flash to its neighbours by TFTP.

Facts
-----
* `tftp-server FS:FILE [alias NAME] [N]` serves one file to the addresses that the standard access list N permits;
  without N to all (Cisco IOS Configuration Fundamentals Command Reference; `tftp-server bootflash:ztp.py alias
  ztp.py` on an IOS-XE router, `tftp-server flash:startup-config myconfig.file 11` in a published list). N is 1 to 99
  there. Named lists or higher numbers in newer releases were not seen, so a number that all support is used.
* A list that does not exist permits every address (Cisco: an access list that is applied and not defined permits all).
  So the list is typed before the line that refers to it, and removed after it.
* `no access-list N` removes the whole list, whatever follows N. The word `host` is not shown: `access-list 9 permit
  10.0.0.1`. IOS-XE 17 shows the same list as `ip access-list standard 9` with numbered lines below it; that a remark is
  shown there among them is assumed.
* Not seen on hardware: which options the server accepts (a block size other than 512 bytes, RFC 2348), how many devices
  it serves at once, how it refuses a denied address, and whether it works within a VRF.
* `ip tftp blocksize N` takes 512 to 8192 and belongs to the client; without it blocks have 512 bytes, and each needs a
  round trip. If a release does not support it, the copy is slow, but correct.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from msgspec import Struct

from flashferry.core.values import replace
from flashferry.devices.dialogue import Question
from flashferry.devices.platforms.platform import (
    ChannelWindow,
    Commands,
    CopyGrammar,
    CopyQuestion,
    Defaults,
    FileSystems,
    NamedLine,
    Offered,
    Platform,
    Setting,
    SshSettings,
    TcpSettings,
    ValueKind,
    VerifyGrammar,
    file_name,
)
from flashferry.tcp.receive_window import LARGEST_WINDOW_BYTES, SMALLEST_WINDOW_BYTES

_NUMBER = re.compile(r"(?<![\w.:/-])\d{1,2}(?![\w.:/-])")


class Serving(Struct, frozen=True, kw_only=True):
    """How a platform serves a file to neighbouring devices, and fetches one from them.

    Attributes:
        command: Start of the line that serves a file.
        numbers: Numbers of access lists to try, in order.
        blocks: Settings that enlarge the client's block size, the best first.
    """

    command: str
    file: NamedLine
    access_list: NamedLine
    numbers: tuple[int, ...]
    blocks: tuple[ChannelWindow, ...]

    @property
    def lines(self) -> tuple[NamedLine, ...]:
        """Return the kinds of lines."""
        return (self.file, self.access_list)

    def file_line(self, path: str, number: int) -> str:
        """Return the line that serves a file to the addresses that an access list permits."""
        return f"{self.command} {path} {number}"

    def list_line(self, number: int, remark: str) -> str:
        """Return the first line of an access list, a remark that names its owner."""
        return f"access-list {number} remark {remark}"

    def permit_line(self, number: int, address: str) -> str:
        """Return the line of an access list that permits one address."""
        return f"access-list {number} permit host {address}"

    def free_number(self, configuration: str) -> int | None:
        """Return the number of an access list that a configuration does not use, or None.

        A number that is only referred to counts as used, because creating the list would change what refers to it.
        """
        used = {int(one) for one in _NUMBER.findall(configuration)}
        return next((one for one in self.numbers if one not in used), None)

    def serves(self, path: str, lines: Iterable[str]) -> tuple[str, ...]:
        """Return the global lines that serve a file of that name from any file system, or a whole file system."""
        found = [line for line in lines if f"{line} ".startswith(f"{self.command} ")]
        return tuple(line for line in found if _names(line.removeprefix(self.command), file_name(path)))


def _names(served: str, name: str) -> bool:
    """Return whether what follows the command means a file of that name, or a whole file system."""
    words = served.split()
    files = [words[0], *(words[at + 1] for at, word in enumerate(words[:-1]) if word == "alias")] if words else []
    return any(one.rpartition(":")[2].rpartition("/")[2] in ("", name) for one in files)


COMMAND = "tftp-server"

SERVING = Serving(
    command=COMMAND,
    file=NamedLine(
        what="served file",
        keyword="served file {name}",
        shown_as=re.compile(rf"{COMMAND} (?P<path>[\w-]+:/?(?P<name>[^\s:/][^\s:]*))(?P<rest> .*|)"),
        off=f"no {COMMAND} {{path}}",
    ),
    access_list=NamedLine(
        what="access list",
        keyword="access list {name}",
        shown_as=re.compile(
            r"(?:access-list (?P<name>\d{1,2})(?P<rest> .*)|ip access-list standard (?P<head>\d{1,2}))"
        ),
        off="no access-list {name}",
        entries=re.compile(r"permit \d{1,3}(?:\.\d{1,3}){3}"),
    ),
    numbers=tuple(range(99, 0, -1)),
    blocks=(
        ChannelWindow(
            setting=Setting(
                keyword="tftp blocksize",
                command="ip tftp blocksize",
                tail=r"(?: \d{3,4})?",
                kind=ValueKind.BYTES,
            ),
            smallest_bytes=512,
            largest_bytes=8192,
            least_try_bytes=1024,
            since=(12, 4),
        ),
    ),
)
"""Highest numbers first, because operators usually use the low ones."""

_TAIL = r"(?: [\w-]+){0,3}"


def _tcp(keyword: str, kind: ValueKind = ValueKind.SWITCH) -> Setting:
    return Setting(keyword=keyword, command=f"ip tcp {keyword}", tail=_TAIL, kind=kind)


def _channel(
    keyword: str, *, usual: int, largest_bytes: int, least_try_bytes: int, since: tuple[int, int]
) -> ChannelWindow:
    setting = Setting(
        keyword=f"ssh {keyword}",
        command=f"ip ssh {keyword}",
        tail=r"(?: \d{1,10})?",
        kind=ValueKind.BYTES,
        usual=usual,
    )
    return ChannelWindow(
        setting=setting,
        smallest_bytes=usual,
        largest_bytes=largest_bytes,
        least_try_bytes=least_try_bytes,
        since=since,
    )


_BULK_MODE = _channel("bulk-mode", usual=131_072, largest_bytes=1_073_741_824, least_try_bytes=131_072, since=(17, 1))
"""Assumed absent in 16.x; seen in 17.9."""

_SSH_WINDOW = _channel("window-size", usual=8192, largest_bytes=131_072, least_try_bytes=65_536, since=(16, 6))
"""The largest value is the largest that was seen; values below `least_try_bytes` gain almost nothing."""


def _question(name: str, pattern: str, answer: str, *, ends_copy: bool = False) -> CopyQuestion:
    found = re.compile(pattern, re.IGNORECASE)
    return CopyQuestion(name=name, pattern=found, answer=answer, ends_copy=ends_copy)


IOS = Platform(
    name="ios",
    shown_by=re.compile(r"\bIOS\b"),
    commands=Commands(
        configure="configure terminal",
        privilege="show privilege",
        file_systems="show file systems",
        interfaces="show ip interface brief",
        addresses="show ip interface brief | exclude unassigned",
        archive="show archive",
        unsaved_lines="show archive config differences",
        pending_rollback="show archive config rollback timer",
        configuration_lock="show configuration lock",
        cpu="show processes cpu | include ^CPU utilization",
        install_summary="show install summary",
        boot="show boot",
        boot_on_routers="show bootvar",
        stack="show switch",
        redundancy="show redundancy states",
        issu="show issu state detail",
        terminal_lines="show line",
        applets="show event manager policy registered",
        routes="show ip route summary",
        install_commit="install commit",
        save="write memory",
        reload="reload",
    ),
    tcp=TcpSettings(
        family="ip tcp",
        window=_tcp("window-size", ValueKind.BYTES),
        selective_ack=_tcp("selective-ack"),
        extras={"timestamps": _tcp("timestamp"), "path-mtu-discovery": _tcp("path-mtu-discovery")},
        smallest_window_bytes=SMALLEST_WINDOW_BYTES,
        largest_window_bytes=LARGEST_WINDOW_BYTES,
    ),
    ssh=SshSettings(windows=(), default_bytes=8192),
    copying=CopyGrammar(
        questions=(
            CopyQuestion(
                name="destination",
                pattern=re.compile(r"Destination filename \[([^\]]*)\]\? ?", re.IGNORECASE),
                answer="\n",
                offers=Offered.TARGET,
            ),
            CopyQuestion(
                name="overwrite",
                pattern=re.compile(r"Do you want to over ?write\? ?\[confirm\]", re.IGNORECASE),
                answer="n",
                ends_copy=True,
                finds_file=True,
            ),
            _question("erase", r"Erase [\w-]+: ?before copying\? ?\[confirm\]", "n"),
            _question(
                "erase all",
                r"Erasing the [\w-]+ filesystem will remove all files! Continue\? ?\[confirm\]",
                "n",
                ends_copy=True,
            ),
            _question("with erase", r"WITH erase\? ?\[yes/no\]:? ?", "no\n"),
            _question("not executable", r"Abort Copy\? ?\[confirm\]", "\n", ends_copy=True),
        ),
        overload=re.compile(r"I/O error|memory|buffer", re.IGNORECASE),
        longest_command=253,
        no_file="null:",
    ),
    verifying=VerifyGrammar(
        algorithms=("sha512", "md5"),
        digest_dot_bytes=65_536,
        signature_dot_bytes=4_096,
    ),
    deleting=(
        Question(name="file name", pattern=re.compile(r"Delete filename \[([^\]]*)\]\? ?"), answer="\n"),
        Question(name="confirmation", pattern=re.compile(r"Delete (\S+?)\? ?\[confirm\]"), answer="\n"),
    ),
    neighbors={
        "cdp": "show cdp neighbors",
        "ospf": "show ip ospf neighbor",
        "bgp": "show ip bgp summary",
        "eigrp": "show ip eigrp neighbors",
    },
    file_systems=FileSystems(
        network=frozenset({"tftp", "ftp", "http", "https", "rcp", "scp", "sftp"}),
        not_flash=frozenset({"system", "tmpsys", "null", "unix", "nvram", "consolidated"}),
        aliases=frozenset({"flash", "bootflash", "flash0"}),
        member=re.compile(r"flash-?(\d+):"),
    ),
    defaults=Defaults(
        window_bytes=4128,
        flash_bytes_per_s=50_000.0,
        hash_bytes_per_s=250_000.0,
        typical_window_bytes=10_200,
        typical_hash_bytes_per_s=400e6 / 720,
        # No copy within such a device was published, so this is the slowest published write to flash, of a C2951.
        typical_flash_bytes_per_s=610_000.0,
        typical_add_bytes_per_s=610_000.0,
    ),
    serving=SERVING,
)

IOS_XE = replace(
    IOS,
    name="ios-xe",
    shown_by=re.compile(r"IOS[- ]?XE|IOSD"),
    ssh=SshSettings(windows=(_BULK_MODE, _SSH_WINDOW), default_bytes=8192),
    defaults=replace(
        IOS.defaults,
        typical_window_bytes=14_900,
        typical_hash_bytes_per_s=2e9 / 480,
        # IE3x00 and IE9x00, flash to sdflash: 11.9 to 13.7 MB/s were published.
        typical_flash_bytes_per_s=11.9e6,
        # A C8000V took 76 s for c8000v-universalk9.17.12.04a.SPA.bin.
        typical_add_bytes_per_s=861_551_227 / 76,
    ),
)
