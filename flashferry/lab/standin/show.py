"""The `show` commands, but for files, interfaces, routing and TCP."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import TYPE_CHECKING

from flashferry.lab.errors import LabError
from flashferry.lab.standin.configuration import banner_text, canonical_interface
from flashferry.lab.standin.hardware import as_it_stands, fields, memory_bytes, saved_files, without_away
from flashferry.lab.standin.texts_data import printed, printed_rows
from flashferry.lab.state import ask

if TYPE_CHECKING:
    from collections.abc import Iterator

    from flashferry.lab.standin.device import Device
    from flashferry.lab.standin.vty import Vty

Arguments = tuple[str, ...]


def version(vty: Vty, _: Arguments) -> str:
    """`show version`."""
    device = vty.device
    return without_away(device, as_it_stands(device, device.platform.texts["version"].format(**fields(device))))


def running_config(vty: Vty, _: Arguments) -> str:
    """`show running-config`; its byte count is that of the text below it.

    The stub of a user who may not see a configuration is that of ansible-collections/cisco.ios 709.
    """
    device = vty.device
    return _configuration(printed("restricted view") if device.faults.restricted_view else device.running_text())


def _configuration(text: str, kind: str = "", before: str = "") -> str:
    return f"Building configuration...\n\nCurrent configuration{kind} : {len(text)} bytes\n{before}{text}\n"


def running_config_all(vty: Vty, _: Arguments) -> str:
    """`show running-config all`.

    What it prints for values at their default is unconfirmed (facts 3.3), so this prints the same lines; readers
    must not depend on it.
    """
    return _configuration(vty.device.running_text(), " with default configurations exposed")


def running_config_interface(vty: Vty, arguments: Arguments) -> str:
    """`show running-config interface X`."""
    running = vty.device.running
    section = running.find(f"interface {canonical_interface(arguments[0], running)}")
    lines = [section.text, *(f" {child.text}" for child in section.children)] if section else []
    return _configuration("".join(f"{line}\n" for line in ["!", *lines, "end"]))


def startup_config(vty: Vty, _: Arguments) -> str:
    """`show startup-config`."""
    text = printed("restricted view") if vty.device.faults.restricted_view else vty.device.startup_text
    return f"Using {len(text)} out of 33554432 bytes\n{text}\n" if text else "startup-config is not present\n"


def hosts(vty: Vty, _: Arguments) -> str:
    """`show hosts`."""
    domain = vty.device.running.value("ip domain name")
    return printed("hosts", default=f"Default domain is {domain or 'not set'}")


def inventory(vty: Vty, _: Arguments) -> str:
    """`show inventory`."""
    return vty.device.platform.texts["inventory"].format(**fields(vty.device))


def boot(vty: Vty, _: Arguments) -> str:
    """`show boot`, `show bootvar`, of another layout on Catalyst switches; it follows the lines that were saved."""
    device, names = vty.device, saved_files(vty.device)
    text = "bootvar" if "bootvar" in vty.words and "bootvar" in device.platform.texts else "boot"
    shown = device.platform.texts[text].format(
        variable=f"= {''.join(f'{name},12;' for name in names)}" if names else "does not exist",
        next=f"= {';'.join(names)};" if names else "does not exist",
        current=f"= {';'.join(device.boot_files or (device.image,))};",
    )
    return without_away(device, as_it_stands(device, shown))


def issu(vty: Vty, _: Arguments) -> str:
    """`show issu state detail`: after its locks, what an ASR 1000 says of an upgrade (genieparser).

    In the recording the slot is that of the lock; of another one Genie takes no notice.
    """
    device = vty.device
    text = device.platform.texts["issu"]
    if not device.faults.issu_in_progress:
        return text
    head = text.partition("--- Starting installation")[0]
    slot = text.partition(" ---\n")[0].split()[-1]
    loaded = f"{device.now() - timedelta(minutes=5):%Y%m%d %H:%M:%S}"
    shown = printed("issu in progress", slot=slot, image=device.image, loaded=loaded)
    return head.removesuffix("No ISSU operation is in progress\n") + shown


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
    text = printed("ip ssh of IOS 15" if vty.device.platform.has_legacy_ssh else "ip ssh of IOS-XE")
    return f"{head}\n{text}\n"


def history(vty: Vty, _: Arguments) -> str:
    """`show history`."""
    return "".join(f"  {line}\n" for line in vty.history.lines)


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
    device = vty.device
    return printed("cpu history", hostname=device.hostname, now=device.clock_line(), load="4" * 60, bars=bars)


def running_config_part(vty: Vty, _: Arguments) -> str:
    """`show running-config vrf|policy-map|... [NAME]`: the lines that begin so."""
    start = " ".join(vty.words[2:]).replace("vrf ", "vrf definition ", 1)
    chosen = [line for line in vty.device.running.lines() if f"{line.text} ".startswith(f"{start} ")]
    rows = [text for line in chosen for text in (line.text, *(f" {child.text}" for child in line.children), "!")]
    return _configuration("".join(f"{row}\n" for row in (*rows, "end")), before="!\n")


_TECH_SUPPORT = (
    "show clock", "show version", "show running-config", "show stacks", "show interfaces", "show controllers",
    "show file systems", "dir all-filesystems", "show process memory", "show process cpu", "show buffers",
)  # fmt: skip


def tech_support(vty: Vty, _: Arguments) -> str:
    """`show tech-support`: one command after another, each below its name."""
    rule = "-" * 18
    return "".join(f"\n{rule} {command} {rule}\n\n{vty.text_of(command)}" for command in _TECH_SUPPORT) + "\n"


_USED_PERCENT = 22
"""How much of the memory is in use, of the processor's and of that for packets: own choice."""


def logging(vty: Vty, _: Arguments) -> str:
    """`show logging`: what was logged since it booted, as far as the buffer holds it."""
    log, running = vty.device.log, vty.device.running
    lines, filtering = [line.text.split() for line in running.lines()], f"{'':21}filtering disabled"
    hosts = [words[2] for words in lines if words[:2] == ["logging", "host"] and len(words) > 2]
    console = f"level debugging, {log.count} messages logged, xml disabled,\n{filtering}"
    return printed(
        "logging", log=log, count=log.count, filtering=filtering,
        console="disabled" if running.find("no logging console") is not None else console,
        trap="".join(printed("logging host", host=host, count=log.count) for host in hosts),
    ) + "".join(f"{line}\n" for line in log.lines())  # fmt: skip


def _pools(vty: Vty) -> list[tuple[str, int, int]]:
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


def processes_cpu(vty: Vty, _: Arguments) -> str:
    """`show processes cpu [sorted]`: shape of the capture of ntc-templates, with few processes and fixed figures."""
    rows, last_5_s = printed_rows("processes"), 6
    if "sorted" in vty.words:
        rows = tuple(sorted(rows, key=lambda row: float(row.split()[last_5_s].rstrip("%")), reverse=True))
    head = (
        "CPU utilization for five seconds: 4%/0%; one minute: 6%; five minutes: 5%",
        " PID Runtime(ms)   Invoked      uSecs   5Sec   1Min   5Min TTY Process ",
    )
    return "".join(f"{row}\n" for row in (*head, *rows))


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
    is_on = _ntp_servers(vty.device)
    return printed("ntp status", uptime=int(100 * vty.device.uptime_s)) if is_on else "%NTP is not enabled.\n"


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
    rows = "".join(_neighbor(number, name) for number, name in enumerate(names, start=1))
    return f"{printed('cdp neighbors')}{rows}\nTotal cdp entries displayed : {len(names)}\n"


def _neighbor(number: int, name: str) -> str:
    """Return a neighbour's row; a name that is longer than its column has a row of its own (captures)."""
    own = f"{name:<17}" if len(name) < 17 else f"{name}\n{' ' * 17}"
    return f"{own}Gig 1/0/{number:<10}139             R S I  WS-C3850- Gig 1/0/{number}\n"


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


def access_lists(vty: Vty, arguments: Arguments) -> str:
    """`show access-lists [NAME]`: entries numbered by ten, a standard list's with its wildcard in words."""
    lists: dict[str, tuple[bool, list[str]]] = {}
    for line in vty.device.running.lines():
        numbered = re.fullmatch(r"access-list (\d+) (.+)", line.text)
        named = re.fullmatch(r"ip access-list (standard|extended) (\S+)", line.text)
        if numbered:
            is_standard = int(numbered[1]) < 100 or 1300 <= int(numbered[1]) < 2000
            lists.setdefault(numbered[1], (is_standard, []))[1].append(numbered[2])
        elif named:
            lists[named[2]] = (named[1] == "standard", [child.text for child in line.children])
    rows: list[str] = []
    for name, (is_standard, entries) in lists.items():
        if arguments and arguments[0] != name:
            continue
        rows.append(f"{'Standard' if is_standard else 'Extended'} IP access list {name}")
        number = 0
        for entry in entries:
            own = re.match(r"(\d+) (.+)", entry)
            number, text = (int(own[1]), own[2]) if own else (number + 10, entry)
            if not text.startswith("remark"):
                rows.append(f"    {number} {_standard(text) if is_standard else text}")
    return "".join(f"{row}\n" for row in rows)


def _standard(text: str) -> str:
    words = [word for word in text.split() if word != "host"]
    if len(words) > 2 and words[2] != "log":
        words[1:3] = [f"{words[1]},", "wildcard", "bits", words[2]]
    return " ".join(words)


def banner(vty: Vty, _: Arguments) -> str:
    """`show banner motd|login|exec`."""
    text = banner_text(getattr(vty.device.running.find(f"banner {vty.words[2]}"), "text", None))
    return f"{text}\n" if text else ""


def snmp(vty: Vty, _: Arguments) -> str:
    """`show snmp location|contact|community|...`."""
    running = vty.device.running
    if not any(line.text.startswith("snmp-server ") for line in running.lines()):
        return "%SNMP agent not enabled\n"
    value = running.value(f"snmp-server {vty.words[2]}")
    return f"{value}\n" if value else ""


def _sections(vty: Vty, start: str, name: Arguments) -> Iterator[tuple[str, list[str]]]:
    for line in vty.device.running.lines():
        words = line.text.removeprefix(start)
        if line.text.startswith(start) and (not name or name[0] in words.split()):
            yield words, [child.text for child in line.children]


def class_maps(vty: Vty, arguments: Arguments) -> str:
    """`show class-map [NAME]`."""
    rows = [" Class Map match-any class-default (id 0)", "   Match any ", ""]
    for number, (words, lines) in enumerate(_sections(vty, "class-map ", arguments), start=1):
        how, _, name = words.rpartition(" ")
        rows += [f" Class Map {how or 'match-all'} {name} (id {number})"]
        rows += [f"   Match {line.removeprefix('match ')}" for line in lines if line.startswith("match ")] + [""]
    return "".join(f"{row}\n" for row in (rows if not arguments else rows[3:]))


def policy_maps(vty: Vty, arguments: Arguments) -> str:
    """`show policy-map [NAME]`."""
    rows: list[str] = []
    for name, lines in _sections(vty, "policy-map ", arguments):
        rows.append(f"  Policy Map {name}")
        for line in lines:
            is_class = line.startswith("class ")
            rows.append(f"    Class {line.removeprefix('class ')}" if is_class else f"      {line.strip()}")
    return "".join(f"{row}\n" for row in rows)


def route_maps(vty: Vty, arguments: Arguments) -> str:
    """`show route-map [NAME]`."""
    rows: list[str] = []
    for words, lines in _sections(vty, "route-map ", arguments):
        name, action, number = words.split()
        rows.append(f"route-map {name}, {action}, sequence {number}")
        for kind in ("match", "set"):
            own = [line.removeprefix(kind).strip() for line in lines if line.startswith(kind)]
            rows += [f"  {kind.capitalize()} clauses:", *(f"    {each}" for each in own)]
        rows.append("  Policy routing matches: 0 packets, 0 bytes")
    return "".join(f"{row}\n" for row in rows)


def prefix_lists(vty: Vty, arguments: Arguments) -> str:
    """`show ip prefix-list [NAME]`."""
    lists: dict[str, list[str]] = {}
    for words, _ in _sections(vty, "ip prefix-list ", arguments):
        name, _, entry = words.partition(" ")
        if not entry.startswith("description"):
            lists.setdefault(name, []).append(entry)
    rows: list[str] = []
    for name, entries in lists.items():
        rows.append(f"ip prefix-list {name}: {len(entries)} entries")
        rows += [f"   {e if e.startswith('seq') else f'seq {5 * i} {e}'}" for i, e in enumerate(entries, start=1)]
    return "".join(f"{row}\n" for row in rows)


def kron(vty: Vty, _: Arguments) -> str:
    """`show kron schedule`."""
    rows = [f"{words.split()[0]} inactive, will run again" for words, _ in _sections(vty, "kron occurrence ", ())]
    return "".join(f"{row}\n" for row in ("Kron Occurrence Schedule", *rows))
