"""Whether a configuration is saved, and whether a lock or a rollback is pending. Pure.

Facts
-----
* `! Last configuration change at 14:23:07 UTC Sat Nov 21 2026 by bob` heads a configuration; `! NVRAM config last
  updated at ...` follows once it was saved. The stamp also moves when configuration mode is left without a change,
  so a newer stamp alone does not prove a difference: `show archive config differences` does.
* `show configuration lock` names the holder of the exclusive lock. There is one only with `configuration mode
  exclusive` (Cisco IOS "Exclusive Configuration Change Access", 12.3(14)T).
* A pending `configure terminal revert timer` replaces the whole configuration when it expires, and our lines with it.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from flashferry.core.safe_quote import counted
from templates.rows import (
    ConfigDifference,
    ConfigLock,
    ConfigStamp,
    NoDifference,
    RollbackTimer,
    SessionLock,
    Unchanged,
    first,
    rows,
)

CHANGED = "Last configuration change"
SAVED = "NVRAM config last updated"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigurationState:
    """What is known of a device's configuration as a whole; None where a device does not show it.

    Attributes:
        saved: Whether running and startup configuration agree.
        differing_lines: How many lines differ, or None where they were not compared.
        changed_at: When, as the device prints it.
        rollback: Who has armed a rollback, and until when.
    """

    saved: bool | None
    differing_lines: int | None = None
    changed_by: str | None = None
    changed_at: str | None = None
    locked_by: str | None = None
    rollback: str | None = None

    @property
    def refusal(self) -> str | None:
        """Return why the configuration must not be changed now, or None."""
        if self.locked_by is not None:
            return f"the configuration is locked by {self.locked_by}: wait until that session has left it"
        if self.rollback is not None:
            return (
                f"a rollback of the whole configuration is pending ({self.rollback}), which would take our lines with "
                "it: have it confirmed ('configure confirm') or reverted first"
            )
        return None

    @property
    def notes(self) -> tuple[str, ...]:
        """Return what the operator should know."""
        if self.saved is not False:
            return ()
        who = f"; last changed at {self.changed_at}" if self.changed_at else ""
        by = f" by {self.changed_by}" if self.changed_by else ""
        lines = f" ({counted(self.differing_lines, 'line differs', 'lines differ')})" if self.differing_lines else ""
        return (f"the running configuration is not saved{lines}{who}{by}: a reload would lose it, and we save nothing",)


def saved_by_stamps(running: str, startup: str) -> bool | None:
    """Return what the stamps say: True for saved, False for changed since, None where they do not say."""
    if first(Unchanged, running) is not None:
        return True
    changed, saved = _stamp(running, CHANGED), _stamp(running, SAVED)
    if changed is None:
        return None
    if saved is None:
        # Newer releases stamp the change only; the startup configuration then carries the stamp that it was saved with.
        saved = _stamp(startup, CHANGED)
        if saved is None:
            return None
        if _same(changed, saved):
            return True
    return _before(changed, saved)


def last_change(running: str) -> tuple[str | None, str | None]:
    """Return when and by whom a configuration was changed last."""
    stamp = _stamp(running, CHANGED)
    if stamp is None:
        return None, None
    return f"{stamp.time} {stamp.zone} {stamp.date}", stamp.user or None


def differing_lines(output: str) -> int | None:
    """Return how many lines `show archive config differences` names, or None where it is not understood."""
    if first(NoDifference, output) is not None:
        return 0
    return len(rows(ConfigDifference, output)) or None


def lock_holder(output: str) -> str | None:
    """Return who holds a lock by `show configuration lock`, or None."""
    for lock in rows(ConfigLock, output):
        if lock.state.upper() == "LOCKED":
            cause = f" ({lock.cause})" if lock.cause else ""
            return f"user '{lock.user}' on line {lock.tty}{cause}"
    session = first(SessionLock, output)
    return f"user '{session.user}' on line {session.tty}" if session is not None else None


def pending_rollback(output: str) -> str | None:
    """Return the pending rollback in `show archive config rollback timer`, or None."""
    timer = first(RollbackTimer, output)
    if timer is None:
        return None
    return f"armed by '{timer.user}' at {timer.configured}, {timer.value}"


def _stamp(text: str, event: str) -> ConfigStamp | None:
    return next((row for row in rows(ConfigStamp, text) if row.event == event), None)


def _same(one: ConfigStamp, other: ConfigStamp) -> bool:
    return (one.time, one.zone, one.date, one.user) == (other.time, other.zone, other.date, other.user)


def _before(changed: ConfigStamp, saved: ConfigStamp) -> bool | None:
    """Compare two stamps of one device; None where the time zone of its clock changed in between.

    Within one second the order is unknown, and a change that may have come last counts as one.
    """
    if changed.zone != saved.zone:
        return None
    at = [datetime.strptime(f"{one.time} {one.date}", "%H:%M:%S %a %b %d %Y") for one in (changed, saved)]
    return at[0] < at[1]
