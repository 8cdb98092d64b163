"""Step `restore`: put every line back that is still as we set it, then prove that the configuration is what it was."""

from __future__ import annotations

from dataclasses import dataclass

from nornir.core.task import Result, Task

from tasks.configuration import Difference, difference
from tasks.connection import session_of
from tasks.errors import RestoreIncomplete
from tasks.session import DeviceSession
from tasks.snapshot import Snapshot, read_running_lines, read_startup_lines
from tasks.tuning import Change, ForeignChange, TcpLines, plan_restore, tcp_lines

STEP = "restore"


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreReport:
    """What restoring did, and the proof.

    Attributes:
        commands: Lines that were sent; none where everything was as before already.
        foreign: Lines that somebody else changed meanwhile; they were left alone.
        running: The `ip tcp` lines after.
        running_difference: The whole running configuration against the snapshot, stamps left out.
        startup_changed: Whether the startup configuration's `ip tcp` lines changed: somebody saved while we were tuned.
    """

    commands: tuple[str, ...]
    foreign: tuple[ForeignChange, ...]
    running: TcpLines
    running_difference: Difference
    startup_changed: bool

    @property
    def is_proven(self) -> bool:
        """Return whether running configuration and startup lines equal the start."""
        return not self.foreign and not self.running_difference and not self.startup_changed


def restore(task: Task, before: Snapshot, changes: tuple[Change, ...]) -> Result:
    """Nornir task: return a RestoreReport. See `restore_device`."""
    report = restore_device(session_of(task), before=before, changes=changes)
    return Result(host=task.host, result=report, changed=bool(report.commands))


def restore_device(session: DeviceSession, *, before: Snapshot, changes: tuple[Change, ...]) -> RestoreReport:
    """Undo our changes as far as they are still ours, and compare the whole configuration with the snapshot.

    May be called at any time and again: what is as before is not touched.

    Raises:
        RestoreIncomplete: A line of ours is still in force after its undoing was sent.
        DeviceUnreachable: The session was lost; the journal still knows the device.
    """
    plan = plan_restore(changes, read_running_lines(session))
    if plan.commands:
        session.configure(plan.commands)
    after = session.running_config()
    running = tcp_lines(after)
    left = plan_restore(changes, running)
    if left.commands:
        needed = ", ".join(repr(line) for line in left.commands)
        raise RestoreIncomplete(
            f"sent {len(plan.commands)} lines to undo our changes, but the device still needs {needed}",
            host=session.name,
            step=STEP,
            hint="Enter these lines by hand, then run 'flashferry recover'",
        )
    return RestoreReport(
        commands=plan.commands,
        foreign=left.foreign,
        running=running,
        running_difference=difference(before.running_fingerprint, after, salt=before.salt),
        startup_changed=read_startup_lines(session) != before.startup,
    )
