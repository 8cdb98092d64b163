"""Cisco IOS, and IOS-XE: IOS on Linux, with the command line of IOS in all that staging uses.

Facts
-----
* Every IOS-XE names in `show version` the Linux daemon that IOS runs in (`..._IOSD-...`) or its own family; IOS does
  neither.
* What differs by release and not by platform (`verify /sha512` from IOS-XE 16.5.1 on, selective acknowledgement by
  default from 17.10.1) is tried, and taken back where it is refused or not shown.
* TCP settings are global lines `ip tcp KEYWORD [VALUE]`, one per keyword. `window-size` takes 68 to 1073741823 (CLI
  help); 4128 is its default by Cisco's books. `timestamp` and `path-mtu-discovery` are off by default
  (IP Application Services Configuration Guide, "Configuring TCP").
* Inside an SSH channel there is a window of its own. A CSR1000V 16.8.1 prints `ip ssh window-size 8192` among its
  defaults; the line takes more since 16.6.1, and 65536 and 131072 were seen. `ip ssh bulk-mode N` is for client and
  server, off by default before 17.10.1 and on with 131072 from then on, where the default configuration has the line
  `ip ssh bulk-mode 131072`: `no` is not how it was there. 1073741824 was taken. The help of IOS 15 knows neither; what
  the window is there was not seen. `ip ssh window-size 65536` answers with a warning, which is no refusal.
* Bulk mode is known to break sessions on a Catalyst 9000v, and has selective acknowledgement on by itself.
* The questions of `copy` below are all that were seen in captures and manuals; none of the answers destroys anything:
  what exists is not overwritten, nothing is ever erased.
* Enter at `Erase flash: before copying? [confirm]` means yes and empties the flash (c3640, IOS 12.2): always `n`.
* A typed `y` at `Destination filename [x]?` becomes the file's name: Enter alone. `[confirm]` takes a single key;
  `[yes/no]` and file names want Enter.
* Only the line `N bytes copied` means success. A 2960X had I/O errors at the largest window, and copied well at a
  smaller one (austind/iosfw issue 2).
* An EXEC line ends at 254 characters; pyATS keeps to 253 on devices too.
* `/md5` and `/sha512` print one dot per 65,536 bytes, plain `verify` one per
  4,096, all on one line (captures: 43 dots for 2,814,938 bytes; 143,737 for 588,746,269).
* `delete flash:x` asks `Delete filename [x]? ` (Enter) and `Delete flash:/x? [confirm]` (Enter, a single key). With
  `/force` it asks nothing, with `/recursive` it takes whole folders: neither is ever used.
* Old flash takes 80 kB/s (IOSv in the published experiment); below 50 kB/s a copy is not worth waiting for.
* 400 MB took 12 minutes to hash on old ISR and ASR routers, 2 GB eight minutes on a Catalyst 9000
  (networktocode/pyntc#410, cisco.ios#1093); half of the slowest ends our patience.
* Without configuration, FTP clients were seen to advertise about 14.9 kB (CSR1000v 16.11) and 10 to 12 kB (IOSv 15.8).
"""

from __future__ import annotations

import re
from dataclasses import replace

from flashferry.devices.dialogue import Question
from flashferry.devices.platforms.platform import (
    ChannelWindow,
    Commands,
    CopyGrammar,
    CopyQuestion,
    Defaults,
    FileSystems,
    Offered,
    Platform,
    Setting,
    SshSettings,
    TcpSettings,
    ValueKind,
    VerifyGrammar,
)
from flashferry.devices.platforms.serving import SERVING
from flashferry.tcp.receive_window import LARGEST_WINDOW_BYTES, SMALLEST_WINDOW_BYTES

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
"""That 16.x has none is assumed; 17.9 was seen to have it."""

_SSH_WINDOW = _channel("window-size", usual=8192, largest_bytes=131_072, least_try_bytes=65_536, since=(16, 6))
"""No larger value of this one was seen anywhere, and a smaller one than was seen is hardly worth its line."""


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
        # No copy inside such a box was published: what a C2951 wrote to its flash, the slowest that was published.
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
