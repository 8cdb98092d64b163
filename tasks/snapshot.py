"""Step `snapshot`: what the configuration is right before we change it. Changes nothing."""

from __future__ import annotations

import secrets
from dataclasses import dataclass

from nornir.core.task import Result, Task

from flashferry.devices.connection import session_of
from flashferry.devices.errors import DeviceRefused
from flashferry.devices.session import DeviceSession
from tasks.applet import of_another_run
from tasks.configuration import Fingerprint, fingerprint
from tasks.read_config import Configured, read_running, read_startup
from tasks.rollback_risks import archives, pending_change
from tasks.step import Step
from tasks.tcp_config import TcpLines, may_be_shown

STEP = "snapshot"
SNAPSHOT = Step(word=STEP, label="we read the configuration that is to be restored", doing="checking", is_fatal=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """A device's configuration before: the lines that staging may change as text, all of it as digests.

    Attributes:
        running: Those lines of the running configuration.
        startup: Those of the startup configuration.
        running_fingerprint: Digests of the whole running configuration.
        salt: Random text that the digests are made with.
        beside: Global lines that a line of ours may take with it, as text: so that one that is gone can be named.
        generation: Random text that a lease gets when it is taken; empty before that.
    """

    running: TcpLines
    startup: TcpLines
    running_fingerprint: Fingerprint
    salt: str
    archives: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()
    generation: str = ""


def snapshot(task: Task) -> Result:
    """Nornir task: return a Snapshot. See `take_snapshot`."""
    return Result(host=task.host, result=take_snapshot(session_of(task)))


def take_snapshot(session: DeviceSession) -> Snapshot:
    """Read the running configuration, and the lines of the startup configuration that staging may change.

    Raises:
        DeviceRefused: A rollback of the whole configuration is pending, its lock is held, or another run's mark stands
            there: time may have passed since the check.
        OutputNotUnderstood: A configuration is not whole, or a text in it does not end.
    """
    salt = secrets.token_hex(8)
    running = read_running(session, without_syslog=True)
    _check_undisturbed(session, running)
    return Snapshot(
        running=running.tcp,
        startup=read_startup(session).tcp,
        running_fingerprint=fingerprint(running.sections, salt=salt),
        salt=salt,
        archives=tuple(sorted(archives(session, running))),
        beside=tuple(line for line in running.lines if may_be_shown(line)),
    )


def _check_undisturbed(session: DeviceSession, running: Configured) -> None:
    refusal = of_another_run(session.name, STEP, running.tcp.lines)
    if refusal is not None:
        raise refusal
    threat = pending_change(session, running)
    if threat is not None:
        raise DeviceRefused(threat.reason, host=session.name, step=STEP, hint=threat.hint)
