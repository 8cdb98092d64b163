"""How labs of ours are known from others', and which of them may be removed: by their title and their notes, both.

A title alone proves nothing: others may call their lab as we do, or keep one of ours and write their own
notes on it. So a lab is ours only by both, and to be removed only where its time is over or its run is dead. Pure, but
for what is asked of this host.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from secrets import token_hex
from socket import gethostname

from flashferry.core.codec import CodecError, decode
from flashferry.core.state_folder import make_private_directory
from flashferry.nightly.backend import Leftover
from flashferry.nightly.night import Fault, NightFault
from flashferry.store.reader import is_run_alive, lock_of, taken_lock

PREFIX = "ff-nightly-"
"""Titles of ours begin with it."""

STALE_S = 7 * 86_400.0
"""The lock of a night that was killed is kept so long: it says that the night is dead."""

ONE_JOB = "night"
"""The lock that only one night of a host may hold."""

_BOOT = Path("/proc/sys/kernel/random/boot_id")
_PROCESSES = Path("/proc/self/ns/pid")
_EXPIRES = re.compile(r'(\\?")expires(\\?":)')
_TITLE = re.compile(rf"{PREFIX}\d{{8}}T\d{{4}}-[0-9a-f]{{4}}")


@dataclass(frozen=True, slots=True, kw_only=True)
class LabNotes:
    """What a lab of ours says about itself.

    Attributes:
        run: The night's id, which is the lab's title.
        host: The host that runs it.
        pid: Its process there.
        place: Boot and container in which that number is the process's; empty: unknown.
        expires: From when on anybody may remove it: ISO 8601 with a time zone.
    """

    run: str
    host: str
    pid: int
    expires: str
    place: str = ""

    @classmethod
    def of_this_process(cls, run: str, *, expires: datetime) -> LabNotes:
        """Return the notes of a lab that this process makes."""
        ends = expires.isoformat(timespec="seconds")
        return cls(run=run, host=gethostname(), pid=os.getpid(), place=this_place(), expires=ends)

    @property
    def is_of_this_process(self) -> bool:
        """Whether this very process made the lab."""
        return (self.host, self.pid, self.place) == (gethostname(), os.getpid(), this_place())

    def text(self) -> str:
        """Return it as the lab's notes: JSON."""
        return json.dumps(asdict(self))


def this_place() -> str:
    """Return what distinguishes process numbers of this boot and this container from others'; empty: nothing."""
    try:
        return f"{_BOOT.read_text().strip()} {_PROCESSES.readlink()}"
    except OSError:
        return ""


def nobodys(topology: str) -> str:
    """Return a downloaded topology as one that is no night's any more: who imports it to look into a night keeps it."""
    return _EXPIRES.sub(r"\1expired\2", topology)


def new_title(now: datetime) -> str:
    """Return the title of a lab that begins now: 33 characters of the 64 that are allowed."""
    return f"{PREFIX}{now.astimezone(UTC):%Y%m%dT%H%M}-{token_hex(2)}"


def is_title(text: str) -> bool:
    """Return whether a text is the title of a night's lab, which is the night's id and its folder's name too."""
    return _TITLE.fullmatch(text) is not None


def read_notes(leftover: Leftover) -> LabNotes | None:
    """Return what a lab says about itself, or None where it is not ours: title and notes must agree."""
    if not is_title(leftover.title):
        return None
    try:
        notes = decode(LabNotes, json.loads(leftover.notes))
        expires = datetime.fromisoformat(notes.expires)
    except (ValueError, CodecError):
        return None
    return notes if notes.run == leftover.title and expires.tzinfo is not None else None


def why_removable(
    leftover: Leftover,
    *,
    now: datetime,
    host: str,
    is_alive: Callable[[LabNotes], bool],
    is_locked: Callable[[LabNotes], bool] = lambda _: False,
) -> str | None:
    """Return why a lab may be removed, or None where it may not: a stranger's, or one whose night still runs.

    Args:
        leftover: The lab.
        now: The present time, with a time zone.
        host: This host's name.
        is_alive: Returns whether a night of this host still runs, as far as is known.
        is_locked: Returns whether a night of this host surely runs, for its process holds its lock: a clock that
            was set meanwhile ends nothing then.
    """
    notes = read_notes(leftover)
    if notes is None or (notes.host == host and is_locked(notes)):
        return None
    if now >= datetime.fromisoformat(notes.expires):
        return f"its time ended {notes.expires}"
    if notes.host == host and not is_alive(notes):
        return f"its night on this host, process {notes.pid}, is dead"
    return None


def is_night_locked(folder: Path, notes: LabNotes) -> bool:
    """Return whether a night of this host surely runs: some process holds its lock in the folder of locks."""
    return lock_of(folder, notes.run).exists() and is_run_alive(folder, notes.run)


def is_night_alive(folder: Path, notes: LabNotes) -> bool:
    """Return whether a night of this host still runs, by its lock, or else by its process.

    Args:
        folder: Where nights keep their locks here. A night with another state folder has its lock elsewhere: then its
            process decides, so that a living night is never taken for a dead one.
        notes: What its lab says.
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
    """Hold this host's one job for the time of a block, and the lock by which others know that the night lives.

    Raises:
        NightFault: Another night runs on this host.
        ConfigInvalid: The folder is not ours alone.
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
    """Remove the locks of nights that were killed, once no lab of theirs can be there any more but an expired one."""
    for path in (folder / "runs").glob(f"{PREFIX}*.lock"):
        with suppress(OSError):
            if time.time() - path.stat().st_mtime > STALE_S and not is_run_alive(folder, path.stem):
                path.unlink()
