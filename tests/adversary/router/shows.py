"""What `show` and `dir` print: text from a device's state, bent by its knobs."""

from __future__ import annotations

import hashlib
import random
import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from tests.adversary.router.knobs import CARET
from tests.adversary.router.storage import File, Flash, Owner

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.adversary.router.device import Device

SYSLOG = "*Nov 21 14:07:31.216: %LINK-3-UPDOWN: Interface Vlan40, changed state to up"
DIRT = "\x1b[31m\x07\x9b2J"
"""Red, a bell, and a C1 sequence that clears a screen."""


def show(device: Device, command: str, user: str) -> str | None:
    """Return the output of a `show` command, filtered as asked; None where there is no such command."""
    bare, _, pipe = command.partition("|")
    found = _SHOWS.get(" ".join(bare.split()))
    if found is None:
        return None
    text = found(device)
    if bare.split() == ["show", "users"]:
        text = text.replace("{user}", user)
    return filtered(text, pipe.strip()) if pipe.strip() else text


def filtered(text: str, pipe: str) -> str:
    """Return the lines that `include`, `exclude`, `begin` or `section` leaves."""
    kind, _, pattern = pipe.partition(" ")
    expression = re.compile(pattern.strip().replace("_", r"(?:^|$|[ ,{}()])"))
    lines = text.splitlines()
    if "include".startswith(kind):
        kept = [line for line in lines if expression.search(line)]
    elif "exclude".startswith(kind):
        kept = [line for line in lines if not expression.search(line)]
    elif "begin".startswith(kind):
        first = next((number for number, line in enumerate(lines) if expression.search(line)), len(lines))
        kept = lines[first:]
    else:
        kept = _sections(lines, expression)
    return "".join(f"{line}\n" for line in kept)


def _sections(lines: list[str], expression: re.Pattern[str]) -> list[str]:
    kept, is_in = [], False
    for line in lines:
        is_in = bool(expression.search(line)) if not line.startswith(" ") else is_in
        if is_in:
            kept.append(line)
    return kept


def stamp(moment: datetime) -> str:
    """Return a moment as IOS prints it."""
    return f"{moment:%H:%M:%S} UTC {moment:%a %b} {moment.day} {moment:%Y}"


def directory(device: Device, path: str) -> str:
    """Return what `dir` prints of a file system or a file."""
    prefix, colon, name = path.partition(":")
    if not colon:
        prefix, name = "", path
    flash = device.flash_of(prefix)
    if flash is None:
        return f"%Error opening {path}/ (Invalid argument)\n"
    shown = f"{device.shown_as(flash)}:/{name.lstrip('/')}"
    files = list(flash.files.values())
    if name.strip("/"):
        found = flash.find(name.lstrip("/"))
        if found is None:
            return f"%Error opening {shown} (No such file or directory)\n"
        files = [found]
    rows = [_row(device, file) for file in files]
    return (
        f"Directory of {shown}\n\n"
        + ("".join(rows) if rows else "No files in directory\n")
        + f"\n{flash.total_bytes} bytes total ({flash.free_now_bytes} bytes free)\n"
    )


def _row(device: Device, file: File) -> str:
    when = "Nov 21 2026 14:03:11 +00:00"
    permissions = "-rw-"
    if file.owner is not Owner.SYSTEM and device.knobs.bare_rows:
        device.strike("odd rows of dir")
        when = (
            "<no date>"
            if device.knobs.bare_rows == "no date"
            else "                "
            if device.knobs.bare_rows == "blank date"
            else when
        )
        permissions = "-rwxr-xr-x" if device.knobs.bare_rows == "odd permissions" else permissions
    row = f"{file.number:5}  {permissions}  {file.size_bytes:15}  {when}  "
    if device.knobs.wraps and file.owner is not Owner.SYSTEM:
        device.strike("listing at 80 columns")
        whole = f"{row}{file.name}"
        return f"{whole[:80]}\n{whole[80:]}\n" if device.knobs.wraps == "inside" else f"{row}\n{file.name}\n"
    return f"{row}{file.name}\n"


def _version(device: Device) -> str:
    dirty = device.knobs.dirty
    members = "\n".join(
        f"{'*' if number == device.active else ' '}    {number + 1} 28    {device.model:<18} 17.6.4            "
        "CAT9K_IOSXE           INSTALL"
        for number in range(device.platform.members)
    )
    others = "\n".join(
        f"Switch 0{number + 1}\n---------\nSwitch uptime                      : 9 weeks, 1 day, 20 hours\n\n"
        f"Model Number                       : {device.model}\nSystem Serial Number               : {serial}\n"
        for number, serial in enumerate(device.serials)
        if number != device.active
    )
    hostname, model = device.hostname, device.model
    if "hostname" in dirty:
        device.strike("control characters")
        hostname = f"{DIRT}{hostname}"
    if "model" in dirty:
        device.strike("control characters")
        model = f"{model}{DIRT}"
    return device.platform.version.format(
        hostname=hostname, model=model, serial=device.serial, members=members, other_members=others
    )


_STUB = (
    "!\n! Last configuration change at 14:03:37 EST Wed Dec 7 2022 by netops\n"
    "! NVRAM config last updated at 19:53:49 EST Mon Dec 5 2022 by netops\n!\n!\n!\n!\n!\nend\n"
)


def _stub(device: Device, head: str) -> str:
    device.strike("restricted view")
    return f"{head}\n{_STUB}"


def _running(device: Device) -> str:
    if "running" in device.knobs.restricted:
        return _stub(device, "Building configuration...\n\nCurrent configuration : 157 bytes")
    device.shown_running += 1
    lines = list(device.printed())
    knobs = device.knobs
    if knobs.reorders:
        device.strike("blocks in another order")
        lines = reordered(lines, by=device.shown_running)
    if knobs.drifting_clock:
        device.strike("drifting clock")
        drift = 17_180_000 + random.Random(device.shown_running).randrange(900)
        lines.insert(len(lines) - 2, f"ntp clock-period {drift}")
    if knobs.syslog_inside:
        device.strike("syslog inside the configuration")
        lines.insert(len(lines) * device.shown_running // (device.shown_running + 3), SYSLOG)
    body = "".join(f"{line}\n" for line in lines)
    head = "Building configuration...\n\n" + f"Current configuration : {len(body) + 120} bytes\n!\n"
    return f"{head}{_stamps(device)}!\n{body}"


def _stamps(device: Device) -> str:
    if words := device.knobs.stamp_words:
        device.strike("stamps in other words")
        return f"! {words} {stamp(datetime.now(UTC) + timedelta(seconds=device.shown_running))}\n"
    changed, saved = device.changed, device.saved
    return (
        f"! Last configuration change at {stamp(changed[0])} by {changed[1]}\n"
        f"! NVRAM config last updated at {stamp(saved[0])} by {saved[1]}\n"
    )


def reordered(lines: list[str], *, by: int) -> list[str]:
    """Return a configuration whose interfaces stand in another order for each turn: so many are moved to the end."""
    blocks: list[list[str]] = [[]]
    for line in lines:
        blocks[-1].append(line)
        if line == "!":
            blocks.append([])
    places = [place for place, block in enumerate(blocks) if block and block[0].startswith("interface ")]
    turned = [blocks[place] for place in places]
    turned = turned[by % len(turned) :] + turned[: by % len(turned)]
    for place, block in zip(places, turned, strict=True):
        blocks[place] = block
    return [line for block in blocks for line in block]


def _startup(device: Device) -> str:
    if "startup" in device.knobs.restricted:
        return _stub(device, "Using 157 out of 33554432 bytes")
    body = "".join(f"{line}\n" for line in device.startup.printed())
    head = f"Using {len(body) + 90} out of 33554432 bytes\n!\n"
    stamps = f"! Last configuration change at {stamp(device.saved[0])} by {device.saved[1]}\n!\n"
    return f"{head}{stamps}{body}"


def _file_systems(device: Device) -> str:
    rows = [
        "File Systems:\n\n       Size(b)       Free(b)      Type  Flags  Prefixes\n",
        "             -             -    opaque     rw   system:\n",
        "             -             -    opaque     rw   tmpsys:\n",
    ]
    for number, flash in enumerate(device.flashes):
        is_active = number == device.active
        names = [device.platform.flash, *device.platform.aliases] if is_active else []
        if device.platform.members > 1:
            names.append(f"{device.platform.flash}-{number + 1}")
        prefixes = " ".join(f"{name}:" for name in names)
        mark = "*" if is_active else " "
        rows.append(f"{mark}{flash.total_bytes:13} {flash.free_now_bytes:13}      disk     rw   {prefixes}\n")
    rows += [
        "             -             -    opaque     rw   null:\n",
        "      33554432      33541020     nvram     rw   nvram:\n",
        "             -             -   network     rw   tftp:\n",
        "             -             -   network     rw   ftp:\n",
    ]
    return "".join(rows)


def _interfaces(device: Device) -> str:
    rows = ["Interface              IP-Address      OK? Method Status                Protocol\n"]
    for entry in device.running.entries:
        if not entry.line.startswith("interface "):
            continue
        address = next((line.split()[2] for line in entry.below if line.startswith(" ip address ")), "unassigned")
        is_down = " shutdown" in entry.below
        state = "administratively down down" if is_down else "up                    up"
        rows.append(f"{entry.line.split()[1]:<22} {address:<15} YES NVRAM  {state}\n")
    return "".join(rows)


def _archive(device: Device) -> str:
    if device.running.find("archive") is None:
        return " Archive feature not enabled\n"
    rows = [
        "The maximum archive configurations allowed is 10.\n",
        f"There are currently {len(device.archives)} archive configurations saved.\n",
        f"The next archive file will be named {device.platform.flash}:saved-<timestamp>-{len(device.archives)}\n",
        " Archive #  Name\n",
    ]
    for number in range(1, 11):
        name = device.archives[number - 1].name if number <= len(device.archives) else ""
        recent = " <- Most Recent" if name and number == len(device.archives) else ""
        rows.append(f"   {number:<8} {name}{recent}\n")
    return "".join(rows)


def _timer(device: Device) -> str:
    if device.running.find("archive") is None:
        return "%Please turn config archive on before using Rollback Confirmed Change\n"
    if device.revert is None:
        return "%No Rollback Confirmed Change pending\n"
    pending = device.revert
    return (
        f"Time configured(or reconfigured): {stamp(pending.armed)}\nTimer type: absolute timer\n"
        f"Timer value: {pending.minutes} min\nUser: {pending.user}\n"
    )


def _differences(device: Device) -> str:
    startup, running = list(device.startup.printed()), list(device.running.printed())
    added = [f"+{line}" for line in running if line not in startup]
    gone = [f"-{line}" for line in startup if line not in running]
    if not added and not gone:
        return "!No changes were found\n"
    return "!Contextual Config Diffs:\n" + "".join(f"{line}\n" for line in (*added, *gone))


def _lock(device: Device) -> str:
    if not device.locked_by:
        return "Parser Configure Lock\n---------------------\nOwner PID         : -1\nType              : NO LOCK\n"
    return (
        "Parser Configure Lock\n---------------------\nOwner PID         : 543\n"
        f"User              : {device.locked_by}\nTTY               : 3\nType              : EXCLUSIVE\n"
        "State             : LOCKED\nClass             : EXPOSED\nCount             : 1\nPending Requests  : 0\n"
        "User debug info   : configure terminal\nSession idle state: TRUE\n"
    )


def _boot(device: Device) -> str:
    image = f"{device.platform.flash}:{device.platform.image}"
    return f"BOOT variable = {image},12;\nCONFIG_FILE variable does not exist\nConfiguration register is 0x2102\n"


def _users(device: Device) -> str:
    return (
        "    Line       User       Host(s)              Idle       Location\n"
        "*  2 vty 0     {user}     idle                 00:00:00 127.0.0.1\n"
        "   3 vty 1     colleague  idle                 00:07:12 10.20.40.77\n"
    )


def _clock(_: Device) -> str:
    now = datetime.now(UTC)
    return f"*{now:%H:%M:%S}.{now.microsecond // 1000:03} UTC {now:%a %b} {now.day} {now:%Y}\n"


def _inventory(device: Device) -> str:
    return "".join(
        f'NAME: "Chassis {number}", DESCR: "Chassis"\nPID: {device.model:<18}, VID: V01, SN: {serial}\n\n'
        for number, serial in enumerate(device.serials, start=1)
    )


def _switch(device: Device) -> str:
    if device.platform.members == 1:
        return CARET
    rows = [
        "Switch/Stack Mac Address : 0011.2233.4400 - Local Mac Address\n",
        "                                             H/W   Current\n",
        "Switch#   Role    Mac Address     Priority Version  State\n",
        "-------------------------------------------------------------------------------------\n",
    ]
    for number in range(device.platform.members):
        mark, role = ("*", "Active") if number == device.active else (" ", "Member")
        rows.append(f"{mark}{number + 1}       {role:<8} 0011.2233.440{number}     1      V01     Ready\n")
    return "".join(rows)


def _nothing(device: Device) -> str:
    return ""


_TCP = "TCB       Local Address               Foreign Address             (state)\n"

_SHOWS: dict[str, Callable[[Device], str]] = {
    "show version": _version,
    "show running-config": _running,
    "show startup-config": _startup,
    "show file systems": _file_systems,
    "show ip interface brief": _interfaces,
    "show archive": _archive,
    "show archive config rollback timer": _timer,
    "show archive config differences": _differences,
    "show configuration lock": _lock,
    "show boot": _boot,
    "show bootvar": _boot,
    "show users": _users,
    "show tcp brief": lambda _: _TCP,
    "show tcp brief numeric": lambda _: _TCP,
    "show hosts": lambda _: "Default domain is branch.example\n",
    "show clock": _clock,
    "show inventory": _inventory,
    "show switch": _switch,
    "show ip ssh": lambda _: "SSH Enabled - version 2.0\n",
    "show logging": _nothing,
}


def digest_of(flash: Flash, name: str, algorithm: str) -> str:
    """Return the digest of a file's bytes."""
    file = flash.find(name)
    assert file is not None
    return str(hashlib.new(algorithm, file.bytes_to_hash, usedforsecurity=False).hexdigest())
