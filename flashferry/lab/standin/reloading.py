"""`reload`: questions, then every session is gone until the device is back with its startup configuration.

A stack prints a line before it asks (recorded of Catalyst 9200 and 9300). With a second processor that is hot the
question is the one that unicon knows of high availability; of an ASR 1000 it was never recorded.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from flashferry.lab.standin import clock

if TYPE_CHECKING:
    from datetime import datetime

    from flashferry.lab.standin.device import Device
    from flashferry.lab.standin.vty import Vty


_STACK = "Reload command is being issued on Active unit, this will reload the whole stack\n"
_WITH_STANDBY = "This will reload the active unit and force a switch of activity "


async def reload(vty: Vty, _: tuple[str, ...]) -> None:
    """`reload`: asks to save what was changed, and for a confirmation (Cisco command reference)."""
    device = vty.device
    if device.is_modified and not await _is_save_answered(vty):
        return
    if await vty.terminal.confirm(_question(vty)):
        device.syslog(
            f"%SYS-5-RELOAD: Reload requested by {vty.user} on vty{vty.number} ({vty.peer}). "
            "Reload Reason: Reload Command."
        )
        vty.is_over = True
        device.restart()


async def _is_save_answered(vty: Vty) -> bool:
    """Ask whether to save, and save; False where the answer is neither yes nor no."""
    answer = (await vty.terminal.ask("System configuration has been modified. Save? [yes/no]: ", "")).lower()
    if answer not in {"yes", "y", "no", "n"}:
        vty.terminal.write("% Please answer 'yes' or 'no'.\n")
        return False
    if answer.startswith("y"):
        vty.terminal.write("Building configuration...\n")
        vty.device.save(vty.user)
        vty.terminal.write("[OK]\n")
    return True


def _question(vty: Vty) -> str:
    """Return what stands before the `[confirm]` of a reload."""
    platform = vty.device.platform
    if platform.install is not None and platform.install.is_stack:
        return f"{_STACK}Proceed with reload? "
    if "STANDBY HOT" in platform.outputs.get("show redundancy states", ""):
        vty.device.note_guess("reload: question with a second processor")
        return _WITH_STANDBY
    return "Proceed with reload? "


@dataclass(frozen=True, slots=True, kw_only=True)
class Scheduled:
    """A reload that waits."""

    at: datetime
    by: str
    reason: str
    timer: asyncio.TimerHandle


_NONE_SCHEDULED = "No reload is scheduled.\n"


async def reload_in(vty: Vty, arguments: tuple[str, ...]) -> None:
    """`reload in [HH:]MM [REASON]`."""
    hours, _, minutes = arguments[0].rpartition(":")
    await _schedule(vty, timedelta(hours=int(hours or 0), minutes=int(minutes)), arguments[1:])


async def reload_at(vty: Vty, arguments: tuple[str, ...]) -> None:
    """`reload at HH:MM [REASON]`: today or tomorrow, whichever comes next."""
    now = vty.device.now()
    hours, minutes = map(int, arguments[0].split(":"))
    at = now.replace(hour=hours % 24, minute=minutes % 60, second=0, microsecond=0)
    await _schedule(vty, (at if at > now else at + timedelta(days=1)) - now, arguments[1:])


async def _schedule(vty: Vty, after: timedelta, reason: tuple[str, ...]) -> None:
    """Ask as `reload` does, and reload later; the texts are those of the Cisco command reference."""
    device = vty.device
    if device.is_modified and not await _is_save_answered(vty):
        return
    at, why = device.now() + after, reason[0] if reason else "Reload Command"
    vty.terminal.write(f"Reload scheduled for {_when(at)} (in {_span(after)}) by {vty.user} on vty{vty.number} "
                       f"({vty.peer})\nReload reason: {why}\n")  # fmt: skip
    if not await vty.terminal.confirm("Proceed with reload? "):
        return
    unschedule(device)
    seconds = after.total_seconds() * device.faults.seconds_per_minute / 60
    timer = asyncio.get_running_loop().call_later(seconds, device.restart, None, why)
    by = f"{vty.user} on vty{vty.number} ({vty.peer})"
    device.scheduled_reload = Scheduled(at=at, by=by, reason=why, timer=timer)
    device.syslog(f"%SYS-5-SCHEDULED_RELOAD: Reload requested for {_when(at)} at {_when(device.now())} by {vty.user} "
                  f"on vty{vty.number} ({vty.peer}). Reload Reason: {why}.")  # fmt: skip


def unschedule(device: Device) -> bool:
    """Take a reload that waits back; False where none does."""
    if device.scheduled_reload is None:
        return False
    device.scheduled_reload.timer.cancel()
    device.scheduled_reload = None
    return True


async def cancel(vty: Vty, _: tuple[str, ...]) -> None:
    """`reload cancel`."""
    if not unschedule(vty.device):
        vty.terminal.write("%No reload is scheduled.\n")
        return
    vty.terminal.write("\n\n***\n*** --- SHUTDOWN ABORTED ---\n***\n\n")
    vty.device.syslog(f"%SYS-5-SCHEDULED_RELOAD_CANCELLED: Scheduled reload cancelled at {_when(vty.device.now())}")


def show(vty: Vty, _: tuple[str, ...]) -> str:
    """`show reload`."""
    waiting = vty.device.scheduled_reload
    if waiting is None:
        return _NONE_SCHEDULED
    left = _span(waiting.at - vty.device.now())
    return f"Reload scheduled for {_when(waiting.at)} (in {left}) by {waiting.by}\nReload reason: {waiting.reason}\n"


def _when(moment: datetime) -> str:
    return clock.stamp(moment)


def _span(after: timedelta) -> str:
    minutes = max(0, round(after.total_seconds() / 60))
    hours, minutes = divmod(minutes, 60)
    parts = [f"{hours} hour{'s' * (hours != 1)}"] if hours else []
    return " and ".join([*parts, f"{minutes} minute{'s' * (minutes != 1)}"])
