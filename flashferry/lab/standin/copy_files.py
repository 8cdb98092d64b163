"""The configuration archive, `configure replace`, and the rollback of a change that is not confirmed.

Texts: facts 7 (a forum log of a rollback confirmed change, captures of `show archive` and of replace failures in
scrapli_cfg); the lines of `show archive config rollback timer` are those that NAPALM reads.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import threading
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from flashferry.lab.standin import clock
from flashferry.lab.standin.config_session import ConfigSession
from flashferry.lab.standin.configuration import as_commands, parse_lines, replacing
from flashferry.lab.standin.flash import FlashWriter, NoSpaceError, Pace
from flashferry.lab.standin.hardware import MemberLeftError, leave, place_of
from flashferry.lab.standin.server_url import PullResult, result_line
from flashferry.lab.standin.show_files import content, free_bytes, shown_name, split_file
from flashferry.lab.standin.verify import aborted_copy, verify_copied

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from flashferry.lab.standin.configuration import Line
    from flashferry.lab.standin.device import Device
    from flashferry.lab.standin.flash import Flash
    from flashferry.lab.standin.vty import Vty

_PASSES = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Replaced:
    """What a replace did: the commands, and those that were refused."""

    commands: tuple[str, ...]
    refused: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingRevert:
    """An armed rollback."""

    user: str
    minutes: int
    is_idle: bool
    armed: datetime
    text: str
    warn: Callable[[], None]
    timers: tuple[asyncio.TimerHandle, ...]

    def cancel(self) -> None:
        """Stop its clock."""
        for timer in self.timers:
            timer.cancel()


def run_lines(device: Device, lines: list[Line]) -> tuple[str, list[str]]:
    """Type lines as `copy FILE running-config` does; return what is printed and the refused commands."""
    session = ConfigSession(device)
    shown, refused = "", []
    for command in as_commands(lines):
        if not command.startswith(" "):
            session.leave_section(wholly=True)
        answer = session.take(command.strip() if "\n" not in command else command.split("\n")[0])
        for row in command.split("\n")[1:]:
            answer = session.take(row)
        if not isinstance(answer, str):
            refused.append(command)
            shown += f"{command}\n ^\n% Invalid input detected at '^' marker.\n\n"
    return shown, refused


def replace_running(device: Device, target_text: str) -> Replaced:
    """Turn the running configuration into that of a file."""
    commands = replacing(device.running.lines(), parse_lines(target_text))
    refused = run_lines(device, commands)[1]
    return Replaced(commands=tuple(as_commands(commands)), refused=tuple(refused))


def replace_report(done: Replaced, *, listed: bool) -> str:
    """Return what `configure replace` prints."""
    body = "".join(f"{row}\n" for row in ("!List of Rollback Commands:", *done.commands, "end"))
    if done.refused:
        refused = "".join(f"{row}\n" for row in done.refused)
        return (
            f"The rollback configlet from the last pass is listed below:\n********\n\n{body}\n********\n\n\n"
            f"Rollback aborted after {_PASSES} passes\n"
            "The following commands are failed to apply to the IOS image.\n"
            f"********\n\n{refused}\n********\n"
        )
    passes = 1 if done.commands else 0
    shown = f"!Pass 1\n\n{body}\n\n" if listed and passes else ""
    return f"{shown}Total number of passes: {passes}\nRollback Done\n\n"


class Archive:
    """Saved configurations of a device, on the path that its configuration names."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self._names: list[str] = []
        self._count = 0
        self.pending: PendingRevert | None = None

    @property
    def path(self) -> str | None:
        """The configured path; None where the archive is not on."""
        section = self._device.running.find("archive")
        texts = [child.text for child in section.children if child.text.startswith("path ")] if section else []
        return texts[0].removeprefix("path ").strip() if texts else None

    @property
    def maximum(self) -> int:
        """How many are kept."""
        section = self._device.running.find("archive")
        texts = [child.text for child in section.children if child.text.startswith("maximum ")] if section else []
        return int(texts[0].split()[1]) if texts else 10

    @property
    def saves_on_write(self) -> bool:
        """Whether `write memory` also archives."""
        section = self._device.running.find("archive")
        return section is not None and any(child.text == "write-memory" for child in section.children)

    def store(self) -> str | None:
        """Save the running configuration; return the file's name, or None where it cannot be."""
        path = self.path
        prefix, _, name = (path or "").partition(":")
        flash = self._device.file_system(prefix)
        if path is None or flash is None:
            return None
        moment = clock.now()
        stamp = f"{moment:%b}-{moment.day:2d}-{moment:%H-%M-%S}.{moment.microsecond // 1000:03d}".replace(" ", "-")
        full = f"{name.lstrip('/')}-{stamp}-{self._count}"
        self._count += 1
        flash.write(full, self._device.running_text().encode("latin-1", "replace"))
        self._names.append(f"{prefix}:{full}")
        for old in self._names[: -self.maximum]:
            flash.delete(old.partition(":")[2])
        self._names = self._names[-self.maximum :]
        return f"{prefix}:{full}"

    def listing(self) -> str:
        """Return `show archive`."""
        if self.path is None:
            return " Archive feature not enabled\n"
        rows = [
            f"The maximum archive configurations allowed is {self.maximum}.",
            f"There are currently {len(self._names)} archive configurations saved.",
            f"The next archive file will be named {self.path}-<timestamp>-{self._count}",
            " Archive #  Name",
        ]
        for number in range(1, self.maximum + 1):
            name = self._names[number - 1] if number <= len(self._names) else ""
            rows.append(f"   {number:<8d} {name}{' <- Most Recent' if name and number == len(self._names) else ''}")
        return "".join(f"{row}\n" for row in rows)

    def arm(self, user: str, minutes: int, *, is_idle: bool, warn: Callable[[], None]) -> None:
        """Remember the running configuration and put it back unless confirmed in time.

        Args:
            user: Who arms it; only they can confirm.
            minutes: How long it waits.
            is_idle: The time begins anew with every line that the user types.
            warn: Called a minute before the end; not where one idle minute is all there is, or each line would warn.
        """
        self.pending = PendingRevert(
            user=user, minutes=minutes, is_idle=is_idle, armed=self._device.now(), text=self._device.running_text(),
            warn=warn, timers=self._timers(minutes, None if is_idle and minutes == 1 else warn),
        )  # fmt: skip
        kind, what = ("IDLETIMER", "idle ") if is_idle else ("ABSTIMER", "")
        self._device.syslog(
            f"%ARCHIVE_DIFF-5-ROLLBK_CNFMD_CHG_START_{kind}: User: {user}: Scheduled to rollback to config "
            f"{self.path} in {minutes} {what}minutes"
        )

    def rearm(self, minutes: int, *, is_idle: bool) -> None:
        """Give the pending rollback another time."""
        if self.pending is not None:
            self.pending.cancel()
            timers = self._timers(minutes, None if is_idle and minutes == 1 else self.pending.warn)
            self.pending = replace(
                self.pending, minutes=minutes, is_idle=is_idle, armed=self._device.now(), timers=timers
            )  # fmt: skip

    def note_key(self, user: str) -> None:
        """Note that a user is not idle."""
        pending = self.pending
        if pending is not None and pending.is_idle and pending.user == user:
            self.rearm(pending.minutes, is_idle=True)

    def _timers(self, minutes: int, warn: Callable[[], None] | None) -> tuple[asyncio.TimerHandle, ...]:
        loop, minute_s = asyncio.get_running_loop(), self._device.faults.seconds_per_minute
        end = loop.call_later(minutes * minute_s, self.revert)
        return (end,) if warn is None else (end, loop.call_later((minutes - 1) * minute_s, warn))

    def confirm(self) -> bool:
        """Keep the change; False when none is pending."""
        if self.pending is None:
            return False
        self.pending.cancel()
        self.pending = None
        return True

    def revert(self) -> Replaced | None:
        """Put the remembered configuration back; None when none is pending."""
        pending = self.pending
        if pending is None:
            return None
        self.confirm()
        self._device.syslog(f"%ARCHIVE_DIFF-5-ROLLBK_CNFMD_CHG_ROLLBACK_START: User: {pending.user}")
        done = replace_running(self._device, pending.text)
        self._device.touch(pending.user)
        return done

    def timer_report(self) -> str:
        """Return `show archive config rollback timer`."""
        pending = self.pending
        if pending is None:
            return "%No Rollback Confirmed Change pending\n"
        kind = "idle" if pending.is_idle else "absolute"
        return (
            f"Time configured(or reconfigured): {clock.stamp(pending.armed)}\nTimer type: {kind} timer\n"
            f"Timer value: {pending.minutes} min\nUser: {pending.user}\n"
        )


async def erase_startup(vty: Vty, _: tuple[str, ...]) -> None:
    """`write erase`, `erase startup-config`."""
    asked = "Erasing the nvram filesystem will remove all configuration files! Continue? "
    if await vty.terminal.confirm(asked):
        vty.device.startup_text = ""
        vty.terminal.write("[OK]\nErase of nvram: complete\n")
        vty.device.syslog("%SYS-7-NV_BLOCK_INIT: Initialized the geometry of nvram")


RUNNING = "system:running-config"
STARTUP = "nvram:startup-config"
_MARK_BYTES = 65536


async def write_memory(vty: Vty) -> None:
    """`write memory`."""
    if vty.device.faults.nvram_differs:
        vty.terminal.write(
            "Warning: Attempting to overwrite an NVRAM configuration previously written\n"
            "by a different version of the system image.\n"
        )
        if not await vty.terminal.confirm("Overwrite the previous NVRAM configuration?"):
            return
    vty.terminal.write("Building configuration...\n")
    vty.device.save(vty.user)
    vty.terminal.write("[OK]\n")


async def ask_name(vty: Vty, name: str) -> str:
    """Ask for the name at the destination; `file prompt quiet` does not ask."""
    if vty.device.running.value("file prompt") == "quiet":
        return name
    return (await vty.terminal.ask(f"Destination filename [{name}]? ", name)).lstrip("/")


async def may_overwrite(vty: Vty, flash: Flash, name: str) -> bool:
    """Ask before a file is overwritten, unless `file prompt quiet`."""
    if flash.find(name) is None or vty.device.running.value("file prompt") == "quiet":
        return True
    vty.terminal.write("%Warning:There is a file already existing with this name \n")
    return await vty.terminal.confirm("Do you want to over write? ")


def verifies_copies(vty: Vty, verify: bool | None) -> bool:
    """Return whether a copy to a flash is verified: by `/verify` or `/noverify`, else by `file verify auto`."""
    return vty.device.running.find("file verify auto") is not None if verify is None else verify


def merge_into_running(vty: Vty, text: str, name: str) -> str:
    """Type a file into the running configuration; return what is printed meanwhile."""
    shown, _ = run_lines(vty.device, parse_lines(text))
    vty.device.touch(vty.user)
    vty.device.syslog(f"%SYS-5-CONFIG_I: Configured from {name} by {vty.user} on vty{vty.number} ({vty.peer})")
    return shown


async def copy_local(vty: Vty, source: str, target: str, *, verify: bool | None = None) -> None:
    """Copy a file or a configuration to another; names are full, such as `RUNNING`."""
    held = b"" if source.lower().startswith("null:") else content(vty, source)
    if held is None:
        await _refuse_missing(vty, source, target, verifies=verifies_copies(vty, verify))
    elif target == RUNNING:
        await _to_running(vty, held)
    elif target == STARTUP:
        await _to_startup(vty, source, held)
    else:
        await _to_file(vty, source, target, held, verifies=verifies_copies(vty, verify))


async def _refuse_missing(vty: Vty, source: str, target: str, *, verifies: bool) -> None:
    """A source that is not there is found out after the question; `/verify` still looks for a signature (capture)."""
    prefix, name = split_file(target)
    if prefix not in {"system", "nvram", "null"}:
        name = await ask_name(vty, name or split_file(source)[1])
    vty.terminal.write(f"%Error opening {shown_name(_flash_of(vty, source), source)} (No such file or directory)\n")
    if verifies:
        shown = shown_name(_flash_of(vty, target), f"{prefix}:/{name}")
        vty.terminal.write(aborted_copy(shown, was_there=False))


def _flash_of(vty: Vty, text: str) -> Flash | None:
    return vty.device.file_system(split_file(text)[0])


async def _to_running(vty: Vty, held: bytes) -> None:
    name = await ask_name(vty, "running-config")
    started_s = time.monotonic()
    shown = merge_into_running(vty, held.decode("latin-1"), name)
    vty.terminal.write(f"{shown}{_result(held, started_s)}")


async def _to_startup(vty: Vty, source: str, held: bytes) -> None:
    name = await ask_name(vty, "startup-config")
    if name != "startup-config":
        vty.terminal.write(f"%Error copying nvram:{name} (Invalid argument)\n")
    elif source == RUNNING:
        await write_memory(vty)
    else:
        started_s = time.monotonic()
        vty.device.startup_text = held.decode("latin-1")
        vty.terminal.write(f"[OK]\n{_result(held, started_s)}")


async def _to_file(vty: Vty, source: str, target: str, held: bytes, *, verifies: bool) -> None:
    prefix, name = split_file(target)
    if prefix == "null":
        vty.terminal.write(_result(held, time.monotonic()))
        return
    flash = vty.device.file_system(prefix)
    if flash is None:
        vty.terminal.write(f"%Error opening {target} (No such device)\n")
        return
    name = await ask_name(vty, name or split_file(source)[1])
    if not await may_overwrite(vty, flash, name):
        return
    try:
        size = await _store(vty, source, held, flash, name)
    except MemberLeftError:
        leave(vty.device, place_of(flash))
        vty.device.note_guess("copy: text of a member that left")
        vty.terminal.write(f"\n%Error copying {target} (I/O error)\n")
        return
    if size is None:
        flash.delete(name)
        vty.terminal.write(f"%Error copying {target} (Not enough space on device)\n")
    elif verifies and source not in {RUNNING, STARTUP}:
        await verify_copied(vty, flash, name)


async def _store(vty: Vty, source: str, held: bytes, flash: Flash, name: str) -> int | None:
    """Write a file and print the result; return its size, or None when it does not fit."""
    rate = vty.device.faults.slow_flash_bytes_per_s or flash.figures.write_bytes_per_s
    left_bytes, loop = free_bytes(vty, flash), asyncio.get_running_loop()
    old_flash = vty.device.file_system(split_file(source)[0])
    entry = old_flash.find(split_file(source)[1]) if old_flash is not None else None

    def work() -> int:
        size = 0
        writer = FlashWriter(flash, name, Pace(rate, threading.Event()), free_bytes=left_bytes)
        with contextlib.closing(writer), entry.path.open("rb") if entry else io.BytesIO(held) as file:
            while chunk := file.read(_MARK_BYTES):
                writer.write(chunk)
                size += len(chunk)
                limit_bytes = vty.device.faults.member_leaves_after_bytes
                if limit_bytes is not None and size >= limit_bytes and place_of(flash):
                    raise MemberLeftError
                if entry:
                    loop.call_soon_threadsafe(vty.terminal.write, "C")
        return size

    if entry is not None and entry.size_bytes:
        vty.terminal.write("Copy in progress...")
    started_s = time.monotonic()
    try:
        size = await asyncio.to_thread(work)
    except NoSpaceError:
        return None
    seconds = max(0.001, time.monotonic() - started_s)
    end = "\n" if entry is not None and size else ""
    vty.terminal.write(end + result_line(PullResult(size_bytes=size, seconds=seconds)) + "\n")
    return size


def _result(held: bytes, started_s: float) -> str:
    seconds = max(0.001, time.monotonic() - started_s)
    return result_line(PullResult(size_bytes=len(held), seconds=seconds)) + "\n"
