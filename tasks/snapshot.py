"""Step `snapshot`: what the configuration is right before we touch it. Changes nothing."""

from __future__ import annotations

import secrets
from dataclasses import dataclass

from nornir.core.task import Result, Task

from tasks.configuration import Fingerprint, fingerprint
from tasks.connection import session_of
from tasks.session import DeviceSession
from tasks.tuning import LINES_FILTER, TcpLines, tcp_lines

STEP = "snapshot"


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """A device's configuration before: the lines that staging may change as text, all of it as digests.

    Attributes:
        running: Those lines of the running configuration.
        startup: Those of the startup configuration.
        running_fingerprint: Digests of the whole running configuration.
        salt: Random text that the digests are made with.
    """

    running: TcpLines
    startup: TcpLines
    running_fingerprint: Fingerprint
    salt: str


def snapshot(task: Task) -> Result:
    """Nornir task: return a Snapshot. See `take_snapshot`."""
    return Result(host=task.host, result=take_snapshot(session_of(task)))


def take_snapshot(session: DeviceSession) -> Snapshot:
    """Read the running configuration by NAPALM and the tuned lines of the startup configuration."""
    salt = secrets.token_hex(8)
    running = session.running_config()
    return Snapshot(
        running=tcp_lines(running),
        startup=read_startup_lines(session),
        running_fingerprint=fingerprint(running, salt=salt),
        salt=salt,
    )


def read_running_lines(session: DeviceSession) -> TcpLines:
    """Return the lines that staging may change of the running configuration as they are now."""
    return tcp_lines(session.ask(f"show running-config | include {LINES_FILTER}", limit_s=60))


def read_startup_lines(session: DeviceSession) -> TcpLines:
    """Return the lines that staging may change of the startup configuration as they are now."""
    return tcp_lines(session.ask(f"show startup-config | include {LINES_FILTER}", limit_s=60))
