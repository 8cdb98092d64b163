"""Processes identified for good: a number is given to another one later, a number with its first clock tick is not.

Linux has in field 22 of `/proc/PID/stat` how many ticks after the boot a process began (proc(5)); which boot that was
stands in `/proc/sys/kernel/random/boot_id` (random(4)).
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

from flashferry.core.files import write_whole
from flashferry.core.state_folder import make_private_directory, open_private

_PROC = Path("/proc")

_BOOT = _PROC / "sys/kernel/random/boot_id"

_STATE, _BEGAN = 0, 19

"""Places of fields 3 and 22 behind the program's name."""

_GONE = frozenset({"Z", "X", "x"})

_STOPPED = frozenset({"T", "t"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessMark:
    """The identity of a process among all others, those before and after it too.

    Attributes:
        pid: Its number.
        started: Boot and clock tick at which it began, `boot:tick`.
    """

    pid: int
    started: str

    @classmethod
    def of(cls, pid: int) -> ProcessMark | None:
        """Return the mark of a process that lives, or None where there is none of that number."""
        found = _stat(pid)
        return None if found is None or found[0] in _GONE else cls(pid=pid, started=f"{_boot()}:{found[1]}")

    def is_alive(self) -> bool:
        """Return whether this very process lives; one that ended and was not waited for yet does not."""
        return ProcessMark.of(self.pid) == self


def is_stopped(pid: int) -> bool:
    """Return whether a process was stopped by a signal such as SIGSTOP, or by a debugger, and has not gone on yet."""
    found = _stat(pid)
    return found is not None and found[0] in _STOPPED


def read_mark(path: Path) -> ProcessMark | None:
    """Return the mark that a process wrote into a file; None where there is none.

    Args:
        path: The file, which was put there whole by `claim`.
    """
    try:
        with open_private(path, "r") as file:
            found = json.load(file)
        return ProcessMark(pid=int(found["pid"]), started=str(found["started"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def claim(path: Path) -> bool:
    """Write the mark of this process into a file that is not there yet; return whether it was ours to write.

    The file is there with all that it says or not at all: it is written beside, and gets its name by a link, which
    fails where the name is taken (link(2)).

    Raises:
        OSError: It cannot be written.
    """
    mine = ProcessMark.of(os.getpid())
    assert mine is not None
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    fresh.unlink(missing_ok=True)
    with open_private(fresh, "x") as file:
        json.dump(asdict(mine), file)
        file.flush()
        os.fsync(file.fileno())
    try:
        os.link(fresh, path)
    except FileExistsError:
        return False
    finally:
        fresh.unlink()
    return True


def _stat(pid: int) -> tuple[str, str] | None:
    try:
        # A program's name may hold anything, brackets and blanks too: what follows the last bracket is exact.
        fields = (_PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except OSError:
        return None
    return (fields[_STATE], fields[_BEGAN]) if len(fields) > _BEGAN else None


@cache
def _boot() -> str:
    return _BOOT.read_text(encoding="ascii").strip()


MOST_RESULT_BYTES = 1 << 20

"""A result that is larger is fetched as a file."""

_HEAD_BYTES = 16384

_END_BYTES = 64

_TEXT = r'"(?:[^"\\]|\\.)*"'

_BEGINNING = re.compile(
    rf'\s*\{{\s*"schema":\s*{_TEXT},\s*"exit_code":\s*(?P<code>\d+),\s*"meaning":\s*(?P<meaning>{_TEXT})', re.ASCII
)

"""As all documents of the command line begin (`flashferry.cli.terminal.output`)."""

_ERROR = re.compile(rf',\s*"verb":\s*{_TEXT},\s*"error":\s*({_TEXT})', re.ASCII)

_TAIL_BYTES = 4096

_PUT_ASIDE = "begun-{}.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a job's verb said at its end.

    Attributes:
        exit_code: Its exit code.
        sentence: What that means, or the error in one sentence.
    """

    exit_code: int
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFolder:
    """Where a job's files are.

    Attributes:
        path: `jobs/ID` in the state folder.
    """

    path: Path

    @classmethod
    def of(cls, state: Path, job_id: str) -> JobFolder:
        """Return the folder of a job, whether or not it is there."""
        return cls(path=state / "jobs" / job_id)

    @property
    def events(self) -> Path:
        """Return the file of its run's events, one JSON object per line."""
        return self.path / "events.jsonl"

    @property
    def result(self) -> Path:
        """Return the file with what its verb printed: one JSON document, whole once the verb has ended."""
        return self.path / "result.json"

    @property
    def stderr(self) -> Path:
        """Return the file with what its verb said to people."""
        return self.path / "stderr.txt"

    @property
    def plan(self) -> Path:
        """Return the plan that it carries out or, of a job of the kind `plan`, that it made."""
        return self.path / "plan.json"

    @property
    def rules(self) -> Path:
        """Return the image rules that it plans by, where it was given some."""
        return self.path / "images.yaml"

    @property
    def command(self) -> Path:
        """Return the file that says what its process is to run."""
        return self.path / "command.json"

    @property
    def mark_file(self) -> Path:
        """Return the file by which the first process of a job makes sure that it is the only one."""
        return self.path / "begun.json"

    def make(self) -> None:
        """Make the folder, private, where it is not there.

        Raises:
            ConfigInvalid: It belongs to another user, or others may write there.
            OSError: It cannot be made.
        """
        make_private_directory(self.path.parent)
        make_private_directory(self.path)

    @property
    def deaths(self) -> int:
        """Return how many processes of the job died and were put aside by `put_aside`."""
        return len(list(self.path.glob(_PUT_ASIDE.format("*"))))

    def put_aside(self) -> None:
        """Let another process take the job, whose process is dead and has done nothing: what it printed is removed.

        The mark of the dead process is the last to go, so that no other process takes the job before. Idempotent.

        Raises:
            OSError: The folder cannot be written.
        """
        self.result.unlink(missing_ok=True)
        self.events.unlink(missing_ok=True)
        if self.mark_file.exists():
            self.mark_file.rename(self.path / _PUT_ASIDE.format(self.deaths + 1))

    def write(self, path: Path, text: str) -> None:
        """Write a file of the folder, whole, for its owner only.

        Raises:
            OSError: It cannot be written.
        """
        write_whole(path, text, is_private=True)

    def outcome(self) -> Outcome | None:
        """Return what the verb said at its end; None where it did not get to say anything, or not wholly.

        Only the beginning is read, and whether there is an end: what a run of hundreds of devices prints takes many
        times its size in memory.
        """
        try:
            with open_private(self.result, "rb") as file:
                head = file.read(_HEAD_BYTES).decode("utf-8", "replace")
                file.seek(max(0, file.seek(0, 2) - _END_BYTES))
                # Set in by two, only the outermost bracket begins a line.
                is_whole = file.read().rstrip().endswith(b"\n}")
        except OSError:
            return None
        found = _BEGINNING.match(head)
        if found is None or not is_whole:
            return None
        # Behind the verb's name, and nowhere else: a device may call anything an error.
        error = _ERROR.match(head, found.end())
        return Outcome(exit_code=int(found["code"]), sentence=str(json.loads(error[1] if error else found["meaning"])))

    def document(self, most_bytes: int = MOST_RESULT_BYTES) -> dict[str, Any]:
        """Return the JSON document that the verb printed; empty where there is none, not a whole one, or a large one.

        Args:
            most_bytes: How large it may be.
        """
        try:
            with open_private(self.result, "rb") as file:
                text = file.read(most_bytes + 1)
            found = json.loads(text) if len(text) <= most_bytes else {}
        except (OSError, ValueError, RecursionError):
            return {}
        return found if isinstance(found, dict) else {}

    def last_error_line(self) -> str:
        """Return the last line of standard error; empty where there is none."""
        try:
            with open_private(self.stderr, "rb") as file:
                file.seek(max(0, file.seek(0, 2) - _TAIL_BYTES))
                lines = file.read().decode("utf-8", "replace").splitlines()
        except OSError:
            return ""
        return next((line.strip() for line in reversed(lines) if line.strip()), "")
