"""The lock on configuration mode: one user configures, the others have to wait.

Feature "Exclusive Configuration Change Access" of Cisco IOS: with `configuration mode exclusive auto` every
`configure terminal` takes the lock, with `manual` only `configure terminal lock`; it ends with configuration mode. The
sentence for the others and the rows of `show configuration lock` are those of two public blogs that quote devices;
the rows of a free lock are unconfirmed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flashferry.lab.standin.device import Device
    from flashferry.lab.standin.vty import Vty

_PROCESS = 88
TAKEN = (
    "Configuration mode locked exclusively. The lock will be cleared once you exit out of configuration mode "
    "using end/exit\n"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigLock:
    """Who holds the lock, on which line, and by which command."""

    user: str
    line: int
    command: str


def may_configure(vty: Vty) -> bool:
    """Return whether this session may change the configuration now; if not, say who does."""
    held = lock_of(vty.device)
    if held is None or (held.line == vty.number and vty.device.faults.config_locked_by is None):
        return True
    vty.terminal.write(
        f"Configuration mode locked exclusively by user '{held.user}' process '{_PROCESS}' from terminal "
        f"'{held.line}'. Please try later.\n"
    )
    return False


def take(vty: Vty, *, by_hand: bool) -> None:
    """Take the lock where the configuration or the command says so."""
    mode = vty.device.running.value("configuration mode exclusive")
    if by_hand or mode in {"", "auto"}:
        command = "configure terminal lock" if by_hand else "configure terminal"
        vty.device.config_lock = ConfigLock(user=vty.user, line=vty.number, command=command)


def release(vty: Vty) -> None:
    """Give the lock back if this session has it."""
    held = vty.device.config_lock
    if held is not None and held.line == vty.number:
        vty.device.config_lock = None


def show_lock(vty: Vty, _: tuple[str, ...]) -> str:
    """`show configuration lock`."""
    held = lock_of(vty.device)
    head = "Parser Configure Lock\n---------------------\n"
    rows = (
        ("Owner PID", -1 if held is None else _PROCESS),
        ("User", "unknown" if held is None else held.user),
        ("TTY", -1 if held is None else held.line),
        ("Type", "NO LOCK" if held is None else "EXCLUSIVE"),
        ("State", "FREE" if held is None else "LOCKED"),
        ("Class", "unknown" if held is None else "EXPOSED"),
        ("Count", 0 if held is None else 1),
        ("Pending Requests", 0),
        ("User debug info", "" if held is None else held.command),
    )
    return head + "".join(f"{name:<18}: {value}\n" for name, value in rows)


def lock_of(device: Device) -> ConfigLock | None:
    """Return the lock; another user's, which a fault switches on, comes first."""
    other = device.faults.config_locked_by
    return device.config_lock if other is None else ConfigLock(user=other, line=15, command="configure terminal lock")
