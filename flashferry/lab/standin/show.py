"""The `show` commands."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from flashferry.lab.errors import LabError
from flashferry.lab.standin import clock
from flashferry.lab.standin.hardware import as_it_stands, fields, memory_bytes, saved_files, without_away
from flashferry.lab.standin.texts_data import printed, printed_rows
from flashferry.lab.state import ask

if TYPE_CHECKING:
    from flashferry.lab.standin.device import Device
    from flashferry.lab.standin.vty import Vty

Arguments = tuple[str, ...]


def version(vty: Vty, _: Arguments) -> str:
    """`show version`."""
    device = vty.device
    return without_away(device, as_it_stands(device, device.platform.texts["version"].format(**fields(device))))


_STUB = (
    "!\n! Last configuration change at 14:03:37 EST Wed Dec 7 2022 by netops\n"
    "! NVRAM config last updated at 19:53:49 EST Mon Dec 5 2022 by netops\n!\n!\n!\n!\n!\nend\n"
)
"""What a user sees who may not see a configuration (ansible-collections/cisco.ios 709)."""


def running_config(vty: Vty, _: Arguments) -> str:
    """`show running-config`; its byte count is that of the text below it."""
    text = vty.device.running_text() if not vty.device.faults.restricted_view else _STUB
    return f"Building configuration...\n\nCurrent configuration : {len(text)} bytes\n{text}\n"


def running_config_all(vty: Vty, _: Arguments) -> str:
    """`show running-config all`.

    What it prints for values at their default is unconfirmed (facts 3.3), so this prints the same lines; readers
    must not depend on it.
    """
    text = vty.device.running_text()
    count = f"Current configuration with default configurations exposed : {len(text)} bytes"
    return f"Building configuration...\n\n{count}\n{text}\n"


def running_config_interface(vty: Vty, arguments: Arguments) -> str:
    """`show running-config interface X`."""
    from flashferry.lab.standin.configuration import canonical_interface

    running = vty.device.running
    section = running.find(f"interface {canonical_interface(arguments[0], running)}")
    lines = [section.text, *(f" {child.text}" for child in section.children)] if section else []
    text = "".join(f"{line}\n" for line in ["!", *lines, "end"])
    return f"Building configuration...\n\nCurrent configuration : {len(text)} bytes\n{text}\n"


def startup_config(vty: Vty, _: Arguments) -> str:
    """`show startup-config`."""
    text = vty.device.startup_text if not vty.device.faults.restricted_view else _STUB
    return f"Using {len(text)} out of 33554432 bytes\n{text}\n" if text else "startup-config is not present\n"


def clock_now(vty: Vty, __: Arguments) -> str:
    """`show clock`."""
    return clock.clock_line(vty.device.now()) + "\n"


def hosts(vty: Vty, _: Arguments) -> str:
    """`show hosts`."""
    domain = vty.device.running.value("ip domain name")
    default = f"Default domain is {domain}" if domain else "Default domain is not set"
    return (
        f"{default}\nName/address lookup uses static mappings\n\n"
        "Codes: u - unknown, e - expired, * - OK, ? - revalidate\n"
        "       t - temporary, p - permanent\n\n"
        "Host                      Port  Flags      Age Type   Address(es)\n"
    )


def inventory(vty: Vty, _: Arguments) -> str:
    """`show inventory`."""
    return vty.device.platform.texts["inventory"].format(**fields(vty.device))


def boot(vty: Vty, _: Arguments) -> str:
    """`show boot`: the variable follows the `boot system` lines that were saved."""
    return _boot(vty, "boot")


def bootvar(vty: Vty, _: Arguments) -> str:
    """`show bootvar`: another layout on Catalyst switches, the same on routers."""
    return _boot(vty, "bootvar" if "bootvar" in vty.device.platform.texts else "boot")


def _boot(vty: Vty, text: str) -> str:
    device, files = vty.device, saved_files(vty.device)
    names = "".join(f"{name},12;" for name in files)
    shown = device.platform.texts[text].format(
        variable=f"= {names}" if names else "does not exist",
        next=f"= {';'.join(files)};" if files else "does not exist",
        current=f"= {';'.join(device.boot_files or (device.image,))};",
    )
    return without_away(device, as_it_stands(device, shown))


def issu(vty: Vty, _: Arguments) -> str:
    """`show issu state detail`: behind its locks, what an ASR 1000 says of an upgrade (genieparser).

    In the recording the slot is that of the lock; of another one Genie takes no notice.
    """
    device = vty.device
    text = device.platform.texts["issu"]
    if not device.faults.issu_in_progress:
        return text
    head = text.partition("--- Starting installation")[0]
    slot = text.partition(" ---\n")[0].split()[-1]
    loaded = f"{device.now() - timedelta(minutes=5):%Y%m%d %H:%M:%S}"
    return head.removesuffix(f"{_NO_ISSU}\n") + _ISSU.format(slot=slot, image=device.image, loaded=loaded)


def users(vty: Vty, _: Arguments) -> str:
    """`show users`."""
    rows = ["    Line       User       Host(s)              Idle       Location"]
    for number, (user, peer) in sorted(vty.device.vtys.items()):
        mark = "*" if number == vty.number else " "
        rows.append(f"{mark} {number + 1:2d} vty {number:<5d} {user:<10} idle                 00:00:00   {peer}")
    rows += ["", "  Interface    User               Mode         Idle     Peer Address", ""]
    return "".join(f"{row}\n" for row in rows)


def ip_ssh(vty: Vty, _: Arguments) -> str:
    """`show ip ssh`: lines of the capture of IOS-XE 17 (genieparser); with legacy SSH the algorithms of IOS 15."""
    version = vty.device.running.value("ip ssh version") or "1.99"
    head = f"SSH Enabled - version {version if '.' in version else version + '.0'}"
    rows = [head, *(_OLD_SSH if vty.device.platform.has_legacy_ssh else _NEW_SSH)]
    return "".join(f"{row}\n" for row in rows)


def terminal(vty: Vty, _: Arguments) -> str:
    """`show terminal`: what matters of it here."""
    size = f"Length: {vty.rows} lines, Width: {vty.columns} columns\n"
    return (
        f'Line {vty.number + 1}, Location: "", Type: "vt100"\n{size}Editing is enabled.\n'
        f"History is enabled, history size is {vty.history.size}.\n"
    )


def history(vty: Vty, _: Arguments) -> str:
    """`show history`."""
    return "".join(f"  {line}\n" for line in vty.history.lines)


def sessions(_: Vty, __: Arguments) -> str:
    """`show sessions`: no user has called out."""
    return "% No connections open\n"


def ssh(vty: Vty, _: Arguments) -> str:
    """`show ssh`: the sessions that came in."""
    rows = ["Connection Version Mode Encryption  Hmac         State                 Username"]
    rows += [
        f"{number:<10} 2.0     {mode:<4} aes256-ctr  hmac-sha2-256 Session started       {user}"
        for number, (user, _peer) in sorted(vty.device.vtys.items()) for mode in ("IN", "OUT")
    ]  # fmt: skip
    return "".join(f"{row}\n" for row in ("%No SSHv1 server connections running.", *rows))


def cpu_history(vty: Vty, _: Arguments) -> str:
    """`show processes cpu history`: the last minute, at rest."""
    bars = "".join(f"{percent:>3}{'':60}\n" for percent in range(100, 0, -10))
    return (
        f"\n{vty.device.hostname}   {clock.clock_line(vty.device.now())}\n\n{'4' * 60:>63}\n{bars}"
        "   0....5....1....1....2....2....3....3....4....4....5....5....6\n"
        "             0    5    0    5    0    5    0    5    0    5    0\n"
        "               CPU% per second (last 60 seconds)\n\n"
    )


def running_config_part(vty: Vty, _: Arguments) -> str:
    """`show running-config vrf|policy-map|... [NAME]`: the lines that begin so."""
    start = " ".join(vty.words[2:]).replace("vrf ", "vrf definition ", 1)
    chosen = [line for line in vty.device.running.lines() if f"{line.text} ".startswith(f"{start} ")]
    rows = [text for line in chosen for text in (line.text, *(f" {child.text}" for child in line.children), "!")]
    text = "".join(f"{row}\n" for row in (*rows, "end"))
    return f"Building configuration...\n\nCurrent configuration : {len(text)} bytes\n!\n{text}\n"


_TECH_SUPPORT = (
    "show clock", "show version", "show running-config", "show stacks", "show interfaces", "show controllers",
    "show file systems", "dir all-filesystems", "show process memory", "show process cpu", "show buffers",
)  # fmt: skip


def tech_support(vty: Vty, _: Arguments) -> str:
    """`show tech-support`: one command after another, each below its name."""
    rule = "-" * 18
    return "".join(f"\n{rule} {command} {rule}\n\n{vty.text_of(command)}" for command in _TECH_SUPPORT) + "\n"


def privilege(vty: Vty, _: Arguments) -> str:
    """`show privilege`."""
    return f"Current privilege level is {vty.privilege}\n"


_NO_ISSU = "No ISSU operation is in progress"

_ISSU = printed("issu in progress")

_NEW_SSH = printed_rows("ip ssh of IOS-XE")

_OLD_SSH = printed_rows("ip ssh of IOS 15")

_USED_PERCENT = 22
"""How much of the memory is in use, of the processor's and of that for packets: own choice."""


def logging(vty: Vty, _: Arguments) -> str:
    """`show logging`: what was logged since it booted, as far as the buffer holds it."""
    device = vty.device
    count, quiet = device.log.count, device.running.find("no logging console") is not None
    console = "disabled" if quiet else f"level debugging, {count} messages logged, xml disabled,\n{_FILTERING}"
    trap = "".join(_LOG_HOST.format(host=host, count=count) for host in _log_hosts(device))
    return (
        "Syslog logging: enabled (0 messages dropped, 0 messages rate-limited, 0 flushes, 0 overruns, xml disabled, "
        "filtering disabled)\n\nNo Active Message Discriminator.\n\n\n\nNo Inactive Message Discriminator.\n\n\n"
        f"    Console logging: {console}\n"
        f"    Monitor logging: level debugging, {device.log.monitored} messages logged, xml disabled,\n{_FILTERING}\n"
        f"    Buffer logging:  level debugging, {count} messages logged, xml disabled,\n                    "
        "filtering disabled\n"
        "    Exception Logging: size (4096 bytes)\n    Count and timestamp logging messages: disabled\n"
        "    Persistent logging: disabled\n\nNo active filter modules.\n\n"
        f"    Trap logging: level informational, {count} message lines logged\n{trap}"
        "        Logging Source-Interface:       VRF Name:\n\n"
        f"Log Buffer ({device.log.size_bytes} bytes):\n\n" + "".join(f"{line}\n" for line in device.log.lines())
    )


_FILTERING = "                     filtering disabled"

_LOG_HOST = printed("logging host")


def _log_hosts(device: Device) -> list[str]:
    words = [line.text.split() for line in device.running.lines() if line.text.startswith("logging host ")]
    return [each[2] for each in words if len(each) > 2]


def _pools(vty: Vty) -> list[tuple[str, int, int]]:
    """Return the memory pools: name, size, and how much of it is in use."""
    platform = vty.device.platform
    main, packets = memory_bytes(platform.texts["version"])
    if platform.family == "IOS-XE":
        return [("Processor", main, main * _USED_PERCENT // 100), ("lsmpi_io", 3149400, 3148576)]
    pools = [("Processor", main, main * _USED_PERCENT // 100)]
    return [*pools, ("I/O", packets, packets * _USED_PERCENT // 100)] if packets else pools


def memory(vty: Vty, _: Arguments) -> str:
    """`show memory statistics`: shape of the Cisco command reference; the sizes are those of `show version`."""
    rows = ["                Head    Total(b)     Used(b)     Free(b)   Lowest(b)  Largest(b)"]
    for number, (name, size, used) in enumerate(_pools(vty)):
        free = size - used
        lowest, largest = free * 99 // 100, free * 57 // 100
        head = f"{0x7F0F85CD8010 - number * 0xB74000:X}"
        rows.append(f"{name:>9}  {head}   {size:10d}   {used:9d}  {free:10d}  {lowest:10d}  {largest:10d}")
    return "".join(f"{row}\n" for row in rows)


def processes_memory(vty: Vty, _: Arguments) -> str:
    """`show processes memory [sorted]`: few processes, which hold what is in use."""
    pools = _pools(vty)
    rows = [f"{name:>9} Pool Total: {size:10d} Used: {used:10d} Free: {size - used:10d}" for name, size, used in pools]
    rows += ["", " PID TTY  Allocated      Freed    Holding    Getbufs    Retbufs Process"]
    left = pools[0][2]
    for pid, share, name in _HOLDERS:
        holding = left if share == 100 else pools[0][2] * share // 100
        left -= holding
        rows.append(
            f"{pid:4d}   0 {holding * 5 // 4:10d} {holding // 4:10d} {holding:10d}          0          0 {name}"
        )
    rows.append(f"                            {pools[0][2]:11d} Total")
    return "".join(f"{row}\n" for row in rows)


_HOLDERS = (
    (0, 70, "*Init*          "), (1, 14, "Chunk Manager   "), (80, 9, "IOSD ipc task   "), (4, 5, "Check heaps     "),
    (0, 100, "*Dead*          "),
)  # fmt: skip


def processes_cpu(_: Vty, __: Arguments) -> str:
    """`show processes cpu`: shape of the capture of ntc-templates, with few processes and fixed figures."""
    return "".join(f"{row}\n" for row in (*_CPU_HEAD, *_PROCESSES))


def processes_cpu_sorted(_: Vty, __: Arguments) -> str:
    """`show processes cpu sorted`: the busiest of the last five seconds first."""
    rows = sorted(_PROCESSES, key=lambda row: float(row.split()[6].rstrip("%")), reverse=True)
    return "".join(f"{row}\n" for row in (*_CPU_HEAD, *rows))


_CPU_HEAD = (
    "CPU utilization for five seconds: 4%/0%; one minute: 6%; five minutes: 5%",
    " PID Runtime(ms)   Invoked      uSecs   5Sec   1Min   5Min TTY Process ",
)

_PROCESSES = printed_rows("processes")


def line(vty: Vty, _: Arguments) -> str:
    """`show line`: console, auxiliary port where there is one, and the vty lines; a star marks those in use."""
    running = vty.device.running
    rows = ["   Tty Typ     Tx/Rx    A Modem  Roty AccO AccI   Uses   Noise  Overruns   Int"]
    rows.append(_line_row(0, "CTY", "", uses=0))
    first = 1
    if running.find("line aux 0") is not None:
        rows.append(_line_row(1, "AUX", "9600/9600", uses=0))
        first = 2
    for number in range(vty.device.platform.vty_lines):
        used = number in vty.device.vtys
        rows.append(_line_row(first + number, "VTY", "", uses=int(used), used=used))
    return "".join(f"{row}\n" for row in rows) + "\n"


def _line_row(tty: int, kind: str, rate: str, *, uses: int, used: bool = False) -> str:
    return (
        f"{'*' if used else ' '}{tty:5d} {kind} {rate:>11}  -    -      -    -    -  {uses:5d}       0     0/0       -"
    )


def ntp_status(vty: Vty, _: Arguments) -> str:
    """`show ntp status`: never synchronized, for no packet of NTP is sent."""
    if not _ntp_servers(vty.device):
        return "%NTP is not enabled.\n"
    return (
        "Clock is unsynchronized, stratum 16, no reference clock\n"
        "nominal freq is 250.0000 Hz, actual freq is 250.0000 Hz, precision is 2**10\n"
        f"ntp uptime is {int(100 * vty.device.uptime_s)} (1/100 of seconds), resolution is 4000\n"
        "reference time is 00000000.00000000 (00:00:00.000 UTC Mon Jan 1 1900)\n"
        "clock offset is 0.0000 msec, root delay is 0.00 msec\n"
        "root dispersion is 0.00 msec, peer dispersion is 0.00 msec\n"
        "loopfilter state is 'FSET' (Drift set from file), drift is 0.000000000 s/s\n"
        "system poll interval is 64, never updated.\n"
    )


def ntp_associations(vty: Vty, _: Arguments) -> str:
    """`show ntp associations`: the configured servers, none of which has answered."""
    servers = _ntp_servers(vty.device)
    rows = ["", "  address         ref clock       st   when   poll reach  delay  offset   disp"]
    rows += [f" ~{host:<15}  .INIT.          16      -     64     0  0.000   0.000 15937." for host in servers]
    rows += [" * sys.peer, # selected, + candidate, - outlyer, x falseticker, ~ configured"]
    return "".join(f"{row}\n" for row in rows) if servers else "%NTP is not enabled.\n"


def _ntp_servers(device: Device) -> list[str]:
    words = [line.text.split() for line in device.running.lines() if line.text.startswith("ntp server ")]
    return [
        next(word for word in each[2:] if word[0].isdigit()) for each in words if any(w[0].isdigit() for w in each[2:])
    ]


def cdp_neighbors(vty: Vty, _: Arguments) -> str:
    """`show cdp neighbors`: those that were switched on; CDP is on by default on switches and IOS, off on IOS-XE."""
    platform, running = vty.device.platform, vty.device.running
    is_on = platform.family == "IOS" or bool(platform.cabled)
    if running.find("no cdp run") is not None or not (is_on or running.find("cdp run") is not None):
        return "% CDP is not enabled\n"
    names = vty.device.faults.cdp_neighbors[: max(0, len(vty.device.faults.cdp_neighbors) - vty.device.lost_neighbors)]
    return (
        "Capability Codes: R - Router, T - Trans Bridge, B - Source Route Bridge\n"
        "                  S - Switch, H - Host, I - IGMP, r - Repeater, P - Phone, \n"
        "                  D - Remote, C - CVTA, M - Two-port Mac Relay \n\n"
        "Device ID        Local Intrfce     Holdtme    Capability  Platform  Port ID\n"
        + "".join(_neighbor(number, name) for number, name in enumerate(names, start=1))
        + f"\nTotal cdp entries displayed : {len(names)}\n"
    )


def _neighbor(number: int, name: str) -> str:
    """Return a neighbour's row; a name that is longer than its column has a row of its own (captures)."""
    own = f"{name:<17}" if len(name) < 17 else f"{name}\n{' ' * 17}"
    return f"{own}Gig 1/0/{number:<10}139             R S I  WS-C3850- Gig 1/0/{number}\n"


def lldp_neighbors(vty: Vty, _: Arguments) -> str:
    """`show lldp neighbors`: there are none, and it is off by default."""
    if vty.device.running.find("lldp run") is None:
        return "% LLDP is not enabled\n"
    return (
        "Capability codes:\n    (R) Router, (B) Bridge, (T) Telephone, (C) DOCSIS Cable Device\n"
        "    (W) WLAN Access Point, (P) Repeater, (S) Station, (O) Other\n\n"
        "Device ID           Local Intf     Hold-time  Capability      Port ID\n\nTotal entries displayed: 0\n"
    )


_CAPTURED_RATE = 4000
_PATIENCE_S = 2.0


def cpu_policer(vty: Vty, _: tuple[str, ...]) -> str:
    """Print the queues and policers of the processor."""
    device = vty.device
    rate = device.settings.control_plane_packets_per_s or _CAPTURED_RATE
    seen = _counted(device)
    dropped = seen.get("dropped_bytes", 0), seen.get("dropped_packets", 0)
    accepted = seen.get("accepted_bytes", 0), seen.get("accepted_packets", 0)
    return device.platform.texts["cpu_policer"].format(
        forus=_queue(2, "Forus traffic", rate, *dropped),
        resolution=_queue(5, "Forus Address resolution", rate, 0, 0),
        policer=f"{14:<11}{accepted[0]:<17}{accepted[1]:<16}{dropped[0]:<14}{dropped[1]}",
    )


def _queue(number: int, name: str, rate: int, dropped_bytes: int, dropped_packets: int) -> str:
    return f"{number:<5}{14:<7}{name:<28}{'Yes':<8}{rate:<10}{rate:<9}{dropped_bytes:<13}{dropped_packets}"


def _counted(device: Device) -> dict[str, int]:
    """Ask the link for the counters of this device's policer; empty where there is no link or no policer."""
    if device.link_control is None:
        return {}
    try:
        nodes = ask(device.link_control, {"do": "counters"}, timeout_s=_PATIENCE_S)["nodes"]
    except LabError:
        return {}
    return dict(nodes.get(device.settings.address, {}))
