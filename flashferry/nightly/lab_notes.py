"""Recognise the labs of nights by title and notes, and decide which may be removed; lock the one night of this host.

A title alone proves nothing: others may use the same title, or keep a lab of ours with notes of their own. A lab may be
removed only if its time is over or its night is dead.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from secrets import token_hex
from socket import gethostname

from msgspec import Struct

from flashferry.core.codec import CodecError, decode
from flashferry.core.state_folder import make_private_directory
from flashferry.core.values import as_dict
from flashferry.nightly.backend import Leftover
from flashferry.nightly.night import Fault, NightFault
from flashferry.store.reader import is_run_alive, lock_of, taken_lock

PREFIX = "ff-nightly-"
"""Start of all titles of nights' labs."""

STALE_S = 7 * 86_400.0
"""The lock file of a killed night is kept for this long; it shows that the night is dead."""

ONE_JOB = "night"
"""Name of the lock that only one night of a host can hold."""

_BOOT = Path("/proc/sys/kernel/random/boot_id")
_PROCESSES = Path("/proc/self/ns/pid")
_EXPIRES = re.compile(r'(\\?")expires(\\?":)')
_TITLE = re.compile(rf"{PREFIX}\d{{8}}T\d{{4}}-[0-9a-f]{{4}}")


class LabNotes(Struct, frozen=True, kw_only=True):
    """The notes on a night's lab.

    Attributes:
        run: The night's ID, which is the lab's title.
        pid: Process ID on `host`.
        place: Boot and container in which the PID is valid; empty: unknown.
        expires: From when any host may remove the lab: ISO 8601 with a time zone.
    """

    run: str
    host: str
    pid: int
    expires: str
    place: str = ""

    @classmethod
    def of_this_process(cls, run: str, *, expires: datetime) -> LabNotes:
        """Return the notes of a lab made by this process."""
        ends = expires.isoformat(timespec="seconds")
        return cls(run=run, host=gethostname(), pid=os.getpid(), place=this_place(), expires=ends)

    @property
    def is_of_this_process(self) -> bool:
        """Whether this process made the lab."""
        return (self.host, self.pid, self.place) == (gethostname(), os.getpid(), this_place())

    def text(self) -> str:
        """Return the notes as JSON."""
        return json.dumps(as_dict(self))


def this_place() -> str:
    """Return an identifier of this boot and container; empty if the system offers none.

    With it a stored PID is not confused with the same PID after a reboot or in another container.
    """
    try:
        return f"{_BOOT.read_text().strip()} {_PROCESSES.readlink()}"
    except OSError:
        return ""


def nobodys(topology: str) -> str:
    """Return a downloaded topology whose notes no longer mark it as a night's, so that an imported copy stays."""
    return _EXPIRES.sub(r"\1expired\2", topology)


def new_title(now: datetime) -> str:
    """Return the title of a new lab, 33 characters."""
    return f"{PREFIX}{now.astimezone(UTC):%Y%m%dT%H%M}-{token_hex(2)}"


def is_title(text: str) -> bool:
    """Return whether a text is the title of a night's lab."""
    return _TITLE.fullmatch(text) is not None


def read_notes(leftover: Leftover) -> LabNotes | None:
    """Return a lab's notes; None if title and notes do not show that it is a night's."""
    if not is_title(leftover.title):
        return None
    try:
        notes = decode(LabNotes, json.loads(leftover.notes))
        expires = datetime.fromisoformat(notes.expires)
    except (ValueError, CodecError):
        return None
    return notes if notes.run == leftover.title and expires.tzinfo is not None else None


def is_night_locked(folder: Path, notes: LabNotes) -> bool:
    """Return whether a process holds the lock of a night of this host."""
    return lock_of(folder, notes.run).exists() and is_run_alive(folder, notes.run)


def is_night_alive(folder: Path, notes: LabNotes) -> bool:
    """Return whether a night of this host still runs, by its lock or else by its process.

    Args:
        folder: The folder of locks. A night with another state folder has its lock elsewhere, so its process decides.
        notes: The notes on its lab.
    """
    if lock_of(folder, notes.run).exists():
        return is_run_alive(folder, notes.run)
    if notes.place and notes.place != this_place():
        # A host of the same name, as containers and copies of a machine have: its processes are not ours to ask.
        return True
    try:
        os.kill(notes.pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


@contextmanager
def only_one_night(folder: Path, title: str) -> Iterator[None]:
    """Hold the lock of this host's one night, and the lock of this night, for a block.

    Raises:
        NightFault: Another night runs on this host.
        ConfigInvalid: Another user can write to the folder.
    """
    make_private_directory(folder)
    make_private_directory(folder / "runs")
    try:
        job = taken_lock(folder, ONE_JOB)
    except BlockingIOError:
        raise NightFault(
            "another night runs on this host",
            fault=Fault.LAB,
            step="preflight",
            hint="One at a time, or they measure each other: wait for it, or give them other hours",
        ) from None
    _sweep(folder)
    with job, taken_lock(folder, title) as own:
        try:
            yield
        finally:
            Path(own.name).unlink(missing_ok=True)


def _sweep(folder: Path) -> None:
    """Remove lock files of killed nights once all their labs have expired."""
    for path in (folder / "runs").glob(f"{PREFIX}*.lock"):
        with suppress(OSError):
            if time.time() - path.stat().st_mtime > STALE_S and not is_run_alive(folder, path.stem):
                path.unlink()
