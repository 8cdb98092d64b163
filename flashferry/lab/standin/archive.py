"""The configuration archive, `configure replace`, and the rollback of a change that is not confirmed.

Texts: facts 7 (a forum log of a rollback confirmed change, captures of `show archive` and of replace failures in
scrapli_cfg); the lines of `show archive config rollback timer` are those that NAPALM reads.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from flashferry.lab.standin import clock
from flashferry.lab.standin.config_diff import replacing
from flashferry.lab.standin.config_session import ConfigSession
from flashferry.lab.standin.config_text import as_commands, parse_lines

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from flashferry.lab.standin.configuration import Line
    from flashferry.lab.standin.device import Device

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
            session.leave_section()
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
