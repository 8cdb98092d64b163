"""The configuration archive, `configure replace`, and the rollback of a change that is not confirmed.

Texts: facts 7 (a forum log of a rollback confirmed change, captures of `show archive` and of replace failures in
scrapli_cfg). The lines of `show archive config rollback timer`, and the refusal without an archive path, are those that
NAPALM reads.
"""

from __future__ import annotations

import asyncio
import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flashferry.lab.standin import clock
from flashferry.lab.standin.config_session import TAKEN, ConfigSession, may_configure, take
from flashferry.lab.standin.configuration import as_commands, contextual, incremental, parse_lines, replacing
from flashferry.lab.standin.files import RUNNING, STARTUP, content, shown_name, split_file
from flashferry.lab.standin.texts_data import printed

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from flashferry.lab.standin.configuration import Line
    from flashferry.lab.standin.device import Device
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
        return printed("rollback failed", body=body, passes=_PASSES, refused=refused)
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
        return self._line("path")

    @property
    def maximum(self) -> int:
        """How many are kept."""
        return int(self._line("maximum") or 10)

    @property
    def saves_on_write(self) -> bool:
        """Whether `write memory` also archives."""
        return self._line("write-memory") is not None

    def _line(self, key: str) -> str | None:
        section = self._device.running.find("archive")
        texts = [child.text for child in section.children if f"{child.text} ".startswith(f"{key} ")] if section else []
        return texts[0].removeprefix(key).strip() if texts else None

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
        """Remember the running configuration and restore it unless `user` confirms in time.

        With `is_idle` the time starts anew with every line that the user types. `warn` is called a minute before the
        end; not where one idle minute is all there is, or each line would warn.
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
            self.pending = dataclasses.replace(
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


Arguments = tuple[str, ...]
_ENTER = "Enter configuration commands, one per line.  End with CNTL/Z.\n"
_NO_ARCHIVE = "%Please turn config archive on before using Rollback Confirmed Change\n"
_NOTHING_PENDING = "%No Rollback Confirmed Change pending\n"


async def terminal(vty: Vty, _: Arguments) -> None:
    """`configure terminal [lock]`: with a lock no other session enters configuration mode meanwhile."""
    if may_configure(vty):
        by_hand = vty.words[-1] == "lock"
        take(vty, by_hand=by_hand)
        vty.terminal.write(TAKEN * by_hand + _ENTER)
        vty.enter_configuration()


async def transaction(vty: Vty, _: Arguments) -> None:
    """`config-transaction` of a device in controller mode: changes a copy, and `commit` makes it the configuration."""
    vty.terminal.write("\nadmin connected from 127.0.0.1 using console on " + vty.device.hostname + "\n")
    vty.enter_configuration(vty.device.running.copy())


async def ask_source(vty: Vty, arguments: Arguments) -> None:
    """`configure` alone."""
    answer = await vty.terminal.ask("Configuring from terminal, memory, or network [terminal]? ", "terminal")
    if "terminal".startswith(answer.lower()):
        await terminal(vty, arguments)


async def terminal_revert(vty: Vty, arguments: Arguments) -> None:
    """`configure terminal revert timer|idle N`: taken back unless confirmed, or when the user types nothing so long."""
    if may_configure(vty) and _arm(vty, int(arguments[0]), is_idle="idle" in vty.words):
        await terminal(vty, ())


def _arm(vty: Vty, minutes: int, *, is_idle: bool = False) -> bool:
    archive = vty.device.archive
    if archive.path is None:
        vty.terminal.write(_NO_ARCHIVE)
        return False
    if archive.pending is not None:
        vty.terminal.write("%Rollback Confirmed Change is already in progress\n")
        return False
    saved = archive.store()
    vty.terminal.write(f"Rollback Confirmed Change: Backing up current running config to {saved}\n\n")
    archive.arm(vty.user, minutes, is_idle=is_idle, warn=lambda: vty.terminal.write(printed("rollback warning")))
    return True


async def confirm(vty: Vty, _: Arguments) -> None:
    """`configure confirm`: only the user who armed it may."""
    pending = vty.device.archive.pending
    if pending is not None and pending.user != vty.user:
        vty.terminal.write(f"%Rollback Confirmed Change was started by {pending.user}\n")
    elif not vty.device.archive.confirm():
        vty.terminal.write(_NOTHING_PENDING)


async def revert_now(vty: Vty, _: Arguments) -> None:
    """`configure revert now`."""
    done = vty.device.archive.revert()
    vty.terminal.write(_NOTHING_PENDING if done is None else replace_report(done, listed=False))


async def revert_timer(vty: Vty, arguments: Arguments) -> None:
    """`configure revert timer|idle N`: from now on the pending rollback waits for so many minutes, or idle ones."""
    if vty.device.archive.pending is None:
        vty.terminal.write(_NOTHING_PENDING)
    else:
        vty.device.archive.rearm(int(arguments[0]), is_idle="idle" in vty.words)


async def replace(vty: Vty, arguments: Arguments) -> None:
    """`configure replace FILE [list] [force] [revert trigger error] [timer N]`."""
    options = arguments[1].lower().split() if len(arguments) > 1 else []
    held = content(vty, arguments[0])
    if held is None:
        flash = vty.device.file_system(split_file(arguments[0])[0])
        vty.terminal.write(f"Error: Could not open file {shown_name(flash, arguments[0])} for reading\n")
        return
    if not may_configure(vty):
        return
    if "force" not in options and (await vty.terminal.ask(printed("configure replace"), "no")).lower() not in {
        "y",
        "yes",
    }:
        return
    text = held.decode("latin-1")
    if not any(line.text.startswith("hostname ") for line in parse_lines(text)):
        vty.terminal.write("%The input file is not a valid config file.\n")
        return
    if "timer" in options and not _arm(vty, int(options[options.index("timer") + 1])):
        return
    _replace(vty, text, listed="list" in options, reverts="trigger" in options)


def _replace(vty: Vty, text: str, *, listed: bool, reverts: bool) -> None:
    device = vty.device
    before = device.running_text()
    done = replace_running(device, text)
    device.touch(vty.user)
    device.syslog(f"%PARSER-6-EXPOSEDLOCKRELEASED: Exclusive configuration lock released from terminal '{vty.number}'")
    vty.terminal.write(replace_report(done, listed=listed))
    if done.refused and reverts:
        replace_running(device, before)
        vty.terminal.write("\nThe original configuration has been successfully restored.\n")


async def archive_config(vty: Vty, _: Arguments) -> None:
    """`archive config`: save the running configuration now."""
    if vty.device.archive.store() is None:
        vty.terminal.write("% Archive feature not enabled\n")


def show_archive(vty: Vty, _: Arguments) -> str:
    """`show archive`."""
    return vty.device.archive.listing()


def show_rollback_timer(vty: Vty, _: Arguments) -> str:
    """`show archive config rollback timer`."""
    if vty.device.archive.path is None:
        return _NO_ARCHIVE
    return vty.device.archive.timer_report()


def show_differences(vty: Vty, arguments: Arguments) -> str:
    """`show archive config differences [FILE [FILE]]`: without files running against startup."""
    names = {0: (STARTUP, RUNNING), 1: (arguments[0] if arguments else "", RUNNING)}.get(len(arguments), arguments)
    texts = [content(vty, name) for name in names]
    for name, held in zip(names, texts, strict=True):
        if held is None:
            return f"%Error: Could not open file {name} for reading\n"
    old, new = (parse_lines((held or b"").decode("latin-1")) for held in texts)
    rows = contextual(old, new) or ["!No changes were found"]
    return "\n" + "".join(f"{row}\n" for row in ("!Contextual Config Diffs:", *rows)) + "\n"


def show_incremental(vty: Vty, arguments: Arguments) -> str:
    """`show archive config incremental-diffs FILE [ignorecase]`: what the file would add."""
    held = content(vty, arguments[0])
    if held is None:
        return f"%Error: Could not open file {arguments[0]} for reading\n"
    rows = incremental(vty.device.running.lines(), parse_lines(held.decode("latin-1")))
    last = () if rows else ("!No changes were found",)
    return "".join(f"{row}\n" for row in ("!List of Commands:", *rows, "end", *last))
