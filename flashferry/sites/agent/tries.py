"""Decide an order's next attempt, and run each attempt as a process of its own.

Each attempt is a job, `ORDER`, `ORDER.1`, `ORDER.2` ..., whose folder exists before its process: the disk alone shows
what was tried. An agent killed at any moment finds the processes or their results again, and nothing starts twice
(`flashferry.core.jobs`).
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from enum import StrEnum
from pathlib import Path

from msgspec import Struct

from flashferry.core.jobs import JobFolder, Outcome, ProcessMark, claim, read_mark
from flashferry.core.state_folder import open_private
from flashferry.model.exit_codes import ExitCode

PAUSES_S = (0.0, 10.0, 60.0, 300.0)
"""Pauses before successive recoveries, because a device may be unreachable for a while; then people must act."""


class TryKind(StrEnum):
    """The verb of an attempt."""

    STAGE = "stage"
    RECOVER = "recover"
    RESUME = "resume"


class Try(Struct, frozen=True, kw_only=True):
    """A finished attempt.

    Attributes:
        is_dead: Whether its process died without a result.
        is_interrupted: Whether the agent ended it because the agent itself was ending.
    """

    kind: TryKind
    is_dead: bool = False
    is_interrupted: bool = False


def job_of_try(order_id: str, number: int) -> str:
    """Return the job ID of an attempt, counted from 0."""
    return f"{order_id}.{number}" if number else order_id


def next_kind(tries: Sequence[Try], *, has_run: bool, holds: bool, is_stopped: bool, resumes: int) -> TryKind | None:
    """Return the kind of the next attempt; None: the order is finished.

    Args:
        tries: Earlier attempts, the oldest first.
        has_run: Whether one entered a run in the journal; before, no device was touched.
        holds: Whether the run still holds devices.
        is_stopped: Whether the part was stopped.
        resumes: How often a run that died is resumed at most.
    """
    if not tries:
        return TryKind.STAGE
    if has_run and holds:
        return TryKind.RECOVER if recoveries_in_a_row(tries) < len(PAUSES_S) else None
    runs = [one for one in tries if one.kind is not TryKind.RECOVER]
    dead = sum(one.is_dead for one in runs)
    if not (runs[-1].is_dead or runs[-1].is_interrupted) or is_stopped or dead > resumes:
        return None
    return TryKind.RESUME if has_run else TryKind.STAGE


def recoveries_in_a_row(tries: Sequence[Try]) -> int:
    """Return the number of recoveries at the end of the list."""
    count = 0
    for one in reversed(tries):
        if one.kind is not TryKind.RECOVER:
            break
        count += 1
    return count


POLL_S = 0.5
_BEGINS_WITHIN_S = 60.0
_AGAIN_S = 2.0
_ACTOR = "actor"
_KIND = "kind"
_INTERRUPTED = "interrupted"
"""A file in the attempt's folder: the agent, ending itself, asked the process to end."""


class TryFolder(Struct, frozen=True, kw_only=True):
    """An attempt on disk."""

    job_id: str
    folder: JobFolder

    @property
    def kind(self) -> TryKind:
        """Return its kind."""
        return TryKind(json.loads(self.folder.command.read_text(encoding="utf-8"))[_KIND])

    @property
    def mark(self) -> ProcessMark | None:
        """Return its process; None: none has started."""
        return read_mark(self.folder.mark_file)

    @property
    def outcome(self) -> Outcome | None:
        """Return its result, or None."""
        return self.folder.outcome()

    def over(self) -> Try:
        """Return it as a finished attempt."""
        outcome = self.outcome
        # What had ended well before it received that was not ended by us.
        is_cut = (self.folder.path / _INTERRUPTED).exists() and (outcome is None or outcome.exit_code != ExitCode.OK)
        return Try(kind=self.kind, is_dead=outcome is None, is_interrupted=is_cut)

    def interrupt(self) -> None:
        """Ask its process to end in order, which restores devices; recorded first."""
        mark = self.mark
        if mark is None or not mark.is_alive():
            return
        note = self.folder.path / _INTERRUPTED
        if note.exists():
            return
        with open_private(note, "w"):
            pass
        with suppress(ProcessLookupError):
            os.kill(mark.pid, signal.SIGINT)


def tries_of(state: Path, order_id: str) -> Iterator[TryFolder]:
    """Yield the attempts of an order on disk, the oldest first."""
    number = 0
    while (
        one := TryFolder(job_id=job_of_try(order_id, number), folder=_folder(state, order_id, number))
    ).folder.command.exists():
        yield one
        number += 1


def plan_file(state: Path, order_id: str) -> Path:
    """Return the file of a part's plan."""
    return state / "jobs" / f"{order_id}-plan.json"


def events_file(state: Path, order_id: str, number: int) -> Path:
    """Return the event file of an attempt."""
    return _folder(state, order_id, number).events


def forget_tries(state: Path, order_id: str) -> None:
    """Remove the files of an order; the journal keeps the devices' results."""
    for one in tuple(tries_of(state, order_id)):
        shutil.rmtree(one.folder.path, ignore_errors=True)
    with suppress(OSError):
        plan_file(state, order_id).unlink(missing_ok=True)


def prepare(state: Path, order_id: str, number: int, kind: TryKind, words: Sequence[str], actor: str) -> TryFolder:
    """Write an attempt's command into its folder; nothing is started.

    Raises:
        ConfigInvalid: The folder belongs to another user.
        OSError: It cannot be written.
    """
    folder, job_id = _folder(state, order_id, number), job_of_try(order_id, number)
    folder.make()
    command = {"job": job_id, _ACTOR: actor, _KIND: kind.value, "words": list(words)}
    folder.write(folder.command, json.dumps(command, indent=1) + "\n")
    return TryFolder(job_id=job_id, folder=folder)


def carry_through(one: TryFolder, *, on_poll: Callable[[], None], ending: threading.Event) -> Try:
    """Start an attempt unless it was started, and follow it to its end.

    Args:
        one: The attempt.
        on_poll: Called now and then meanwhile, and once after its end.
        ending: Set when the agent is to end: the process is then asked to end in order, and waited for.
    """
    child, started_s, again_s = None, time.monotonic(), 0.0
    while (mark := one.mark) is None:
        if (child is None or child.poll() is not None) and time.monotonic() >= again_s:
            child, again_s = _start(one.folder), time.monotonic() + _AGAIN_S
        if time.monotonic() - started_s > _BEGINS_WITHIN_S and claim(one.folder.mark_file):
            # From here on no process can take it any more.
            return one.over()
        time.sleep(0.05)
    while mark.is_alive() and mark.pid != os.getpid():
        if child is not None:
            child.poll()
        if ending.is_set():
            one.interrupt()
        on_poll()
        # Not by the event: once it is set it would not wait any more.
        time.sleep(POLL_S)
    if child is not None:
        child.wait()
    on_poll()
    return one.over()


def _start(folder: JobFolder) -> subprocess.Popen[bytes]:
    with open_private(folder.stderr, "ab") as stderr:
        return subprocess.Popen(
            [sys.executable, "-P", "-m", "flashferry.core.jobs", str(folder.path)],
            stdin=subprocess.DEVNULL,
            stdout=stderr,
            stderr=stderr,
            start_new_session=True,
        )


def _folder(state: Path, order_id: str, number: int) -> JobFolder:
    return JobFolder.of(state, job_of_try(order_id, number))
