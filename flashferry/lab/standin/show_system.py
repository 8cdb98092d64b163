"""What a device says of itself as a system: log, memory, processes, lines, clock sources and neighbours."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flashferry.lab.standin.hardware import memory_bytes

if TYPE_CHECKING:
    from flashferry.lab.standin.device import Device
    from flashferry.lab.standin.vty import Vty

Arguments = tuple[str, ...]

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
_LOG_HOST = """\
        Logging to {host}  (udp port 514, audit disabled,
              link up),
              {count} message lines logged,
              0 message lines rate-limited,
              0 message lines dropped-by-MD,
              xml disabled, sequence number disabled
              filtering disabled
"""


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
_PROCESSES = (
    "   1           0        22          0  0.00%  0.00%  0.00%   0 Chunk Manager    ",
    "   2          81    275153          0  0.00%  0.00%  0.00%   0 Load Meter       ",
    "   3           0         1          0  0.00%  0.00%  0.00%   0 Connection Mgr   ",
    "   4    12798734    606112      21116  0.00%  1.18%  0.92%   0 Check heaps      ",
    "   5           0       175          0  0.00%  0.00%  0.00%   0 Pool Manager     ",
)


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
