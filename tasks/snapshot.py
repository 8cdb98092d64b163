"""Step `snapshot`: read the configuration to restore; and what could restore our lines after a proven restore.

Facts
-----

* `configure terminal revert timer N` keeps the configuration of that moment and restores all of it without a
  confirmation in time: armed while our lines were in force, it restores them too.
* `show archive config rollback timer` shows a pending one (lines as NAPALM reads them); without `archive` in the
  configuration none can be armed.
* The session that holds the configuration lock may be in the middle of a rollback, and no other can undo anything.
* `archive config`, `write-memory` and `time-period` keep the configuration in a file; `configure replace` with that
  file restores our lines, and so does a reload after a save.
* Newer releases name such a file by time and number (`archive-Feb-15-15-56-38.517-1`): a name is never used again. Old
  ones use PATH-1 to PATH-14 in turn, so a name that was there before may hold what was saved since: what was saved
  while our lines were set holds the run's mark.
"""

from __future__ import annotations

import re
import secrets

from msgspec import Struct
from nornir.core.task import Result, Task

from flashferry.devices.connection import session_of
from flashferry.devices.errors import DeviceRefused
from flashferry.devices.platforms.platform import Platform
from flashferry.devices.session import DeviceSession
from tasks.applet import of_another_run
from tasks.read_config import (
    Configured,
    Fingerprint,
    ask_or_empty,
    fingerprint,
    lock_holder,
    pending_rollback,
    read_running,
    read_startup,
)
from tasks.restore_plan import LineState, line_state
from tasks.step import Step
from tasks.tcp_config import Change, TcpLines, may_be_shown, tcp_lines_of
from templates.config_sections import ConfigNotUnderstood, Configuration, lines_of, missing_of_whole, sections_of
from templates.rows import ArchiveEntry, ArchiveSection, DirError, ExclusiveMode, first, rows

_NAMED_BY_TIME = re.compile(r"-[A-Z][a-z]{2}-+\d{1,2}-\d{2}-\d{2}-\d{2}(?:\.\d+)?(?:-[A-Za-z]+)?-\d+$")

MOST_ARCHIVES = 14
"""Configurations that an archive keeps at most (Cisco command reference, `maximum`)."""


class Threat(Struct, frozen=True, kw_only=True):
    """Something that could restore our lines.

    Attributes:
        passes: Whether it ends by itself after a while.
    """

    reason: str
    hint: str
    passes: bool


def pending_change(session: DeviceSession, running: Configured) -> Threat | None:
    """Return what is about to change the whole configuration, a pending rollback or a lock, or None."""
    commands = running.commands
    if first(ArchiveSection, commands) is not None and (threat := _pending_rollback(session)) is not None:
        return threat
    return _lock(session) if first(ExclusiveMode, commands) is not None else None


def _pending_rollback(session: DeviceSession) -> Threat | None:
    armed = pending_rollback(ask_or_empty(session, session.platform.commands.pending_rollback))
    if armed is None:
        return None
    return Threat(
        reason=f"a rollback of the whole configuration is pending ({armed}), which may bring our lines back",
        hint="Have it confirmed ('configure confirm') or wait until it is over, then run 'flashferry recover'",
        passes=True,
    )


def _lock(session: DeviceSession) -> Threat | None:
    holder = lock_holder(ask_or_empty(session, session.platform.commands.configuration_lock))
    if holder is None:
        return None
    return Threat(
        reason=f"the configuration is locked by {holder}, who may be about to roll it back",
        hint="Wait until that session has left configuration mode, then run 'flashferry recover'",
        passes=True,
    )


def archives(session: DeviceSession, running: Configured) -> frozenset[str]:
    """Return the files of the archive; empty if there is no archive, or it may not be listed."""
    return _listed(session, running) or frozenset()


def _listed(session: DeviceSession, running: Configured) -> frozenset[str] | None:
    """Return the files of the archive; None if the device refuses to list them."""
    if first(ArchiveSection, running.commands) is None:
        return frozenset()
    try:
        printed = session.ask(session.platform.commands.archive, limit_s=60)
    except DeviceRefused:
        return None
    return frozenset(row.path for row in rows(ArchiveEntry, printed))


def archived_lines(
    session: DeviceSession, changes: tuple[Change, ...], running: Configured, known: frozenset[str]
) -> Threat | None:
    """Return the archive files that were made while our lines were set and hold any of them, as a threat, or None.

    A file whose name was there before (`known`) is read as well if names are reused.
    """
    now = _listed(session, running) if changes else frozenset()
    if now is None and known:
        return Threat(
            reason="the archive was listed before our lines were set, and its listing is refused now: whether a file "
            "holds our lines cannot be seen",
            hint=f"Allow '{session.platform.commands.archive}' again, then run 'flashferry recover'",
            passes=False,
        )
    now = now or frozenset()
    fresh = sorted(now - known)[-MOST_ARCHIVES:]
    holding = [path for path in fresh if _is_elsewhere(path, session.platform) or _may_hold(session, path, changes)]
    again = sorted(path for path in now & known if not _NAMED_BY_TIME.search(path))
    holding += [
        path for path in again if not _is_elsewhere(path, session.platform) and _was_written(session, path, changes)
    ]
    if not holding:
        return None
    return Threat(
        reason=f"the archive's {' and '.join(holding)} was made while our lines were set and holds them, or that "
        "cannot be excluded",
        hint=f"Delete {'it' if len(holding) == 1 else 'them'} on the device, so that it is not restored, then run "
        "'flashferry recover'",
        passes=False,
    )


def kept_meanwhile(
    session: DeviceSession,
    gone: tuple[Change, ...],
    running: Configured,
    *,
    startup_before: TcpLines | None = None,
    archives_before: frozenset[str] | None = None,
) -> Threat | None:
    """Return where lines were saved while they were set, or None; such lines stay in the journal.

    Without `startup_before` all of the startup configuration counts; without `archives_before` the archive is not
    checked.
    """
    if not gone:
        return None
    startup = read_startup(session)
    if startup.tcp != startup_before and holds_ours(gone, startup.sections, session.platform):
        return Threat(
            reason="the configuration was saved while our lines were set, so the startup configuration holds them",
            hint="Save the running configuration once the device is as it was ('write memory'), then run "
            "'flashferry recover'",
            passes=False,
        )
    return None if archives_before is None else archived_lines(session, gone, running, archives_before)


def _may_hold(session: DeviceSession, path: str, changes: tuple[Change, ...]) -> bool:
    """Return whether an archive file holds lines of ours.

    A file that may not be read, or is only shown in part, counts as one that does; one that is gone does not.
    """
    try:
        text = session.ask(session.platform.read_command(path), limit_s=60)
    except DeviceRefused:
        return True
    if (error := first(DirError, text)) is not None and "no such file" in error.reason.lower():
        return False
    return bool(missing_of_whole(text.rstrip())) or holds_ours(changes, text, session.platform)


def _was_written(session: DeviceSession, path: str, changes: tuple[Change, ...]) -> bool:
    """Return whether an archive file of a reused name was written while our lines were set.

    What was saved then holds the run's mark, of which the device may keep only the beginning; without a mark any line
    of ours counts. A file shown in part counts as written; one that the user may not read, as the one from before.
    """
    text = ask_or_empty(session, session.platform.read_command(path))
    if not text or ((error := first(DirError, text)) is not None and "no such file" in error.reason.lower()):
        return False
    marks = [change for change in changes if change.is_mark]
    lines = tcp_lines_of(tuple(line.rstrip() for line in text.splitlines()), session.platform)
    if any(mark.line_in(lines, ()) for mark in marks):
        return True
    return bool(missing_of_whole(text.rstrip())) or (not marks and holds_ours(changes, text, session.platform))


def _is_elsewhere(path: str, platform: Platform) -> bool:
    """Return whether a file is on a server: it is not fetched, and counts as made meanwhile."""
    return path.partition(":")[0] in platform.file_systems.network


def holds_ours(changes: tuple[Change, ...], configuration: Configuration, platform: Platform) -> bool:
    """Return whether a stored configuration holds lines of ours; true if it cannot be read."""
    try:
        shown = lines_of(sections_of(configuration))
    except ConfigNotUnderstood:
        return True
    lines = tcp_lines_of(shown, platform)
    return any(_is_held(change, lines, shown) for change in changes if change.shown != "")


def _is_held(change: Change, lines: TcpLines, shown: tuple[str, ...]) -> bool:
    if (kind := change.serves) is not None:
        # An entry alone proves nothing: another list may have the same one.
        return not change.is_entry and any(kind.stands_for(change.ours, line) for line in shown)
    return line_state(change, change.line_in(lines, shown)) is LineState.OURS


STEP = "snapshot"

SNAPSHOT = Step(word=STEP, label="we read the configuration that is to be restored", doing="checking", is_fatal=True)


class Snapshot(Struct, frozen=True, kw_only=True):
    """A device's configuration before a run: the lines that staging may change as text, all of it as digests.

    Attributes:
        running: Those lines of the running configuration.
        startup: Those of the startup configuration.
        running_fingerprint: Digests of the whole running configuration.
        salt: Random text that the digests are made with.
        beside: Global lines that a line of ours may remove as a side effect, as text, so that a missing one can be
            named.
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
        DeviceRefused: A rollback of the whole configuration is pending, its lock is held, or another run's mark is
            there: time may have passed since the check.
        OutputNotUnderstood: A configuration is not complete, or a text in it does not end.
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
