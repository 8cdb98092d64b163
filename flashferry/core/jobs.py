"""Jobs: a command-line verb as a process that outlives its parent, with a folder for its files.

A service and a site's agent start runs in this way: whichever process is killed, and when, nothing is started twice,
and the result of a process is found by its files. `python -m flashferry.core.jobs FOLDER` claims the job by a file that
only one process can create, redirects the verb's output into the folder, and executes the verb.

A PID is reused, a PID with its start time is not. Field 22 of `/proc/PID/stat` is the start time in clock ticks after
boot (proc(5)), and `/proc/sys/kernel/random/boot_id` identifies the boot (random(4)).
"""

from __future__ import annotations

import json
import os
import re
import sys
from functools import cache
from pathlib import Path
from typing import Any, NoReturn

from msgspec import Struct

from flashferry.core.files import write_whole
from flashferry.core.state_folder import make_private_directory, open_private
from flashferry.core.values import as_dict

_PROC = Path("/proc")

_BOOT = _PROC / "sys/kernel/random/boot_id"

_STATE, _BEGAN = 0, 19
"""Indexes of fields 3 (state) and 22 (start time) among the fields after the program's name."""

_GONE = frozenset({"Z", "X", "x"})

_STOPPED = frozenset({"T", "t"})


class ProcessMark(Struct, frozen=True, kw_only=True):
    """Identity of a process, which no process before or after it has.

    Attributes:
        pid: Its PID.
        started: Boot and clock tick of its start, `boot:tick`.
    """

    pid: int
    started: str

    @classmethod
    def of(cls, pid: int) -> ProcessMark | None:
        """Return the mark of a live process, or None if there is none with that PID."""
        found = _stat(pid)
        return None if found is None or found[0] in _GONE else cls(pid=pid, started=f"{_boot()}:{found[1]}")

    def is_alive(self) -> bool:
        """Return whether this very process is alive; a zombie is not."""
        return ProcessMark.of(self.pid) == self


def is_stopped(pid: int) -> bool:
    """Return whether a process is stopped by a signal such as SIGSTOP, or by a debugger."""
    found = _stat(pid)
    return found is not None and found[0] in _STOPPED


def read_mark(path: Path) -> ProcessMark | None:
    """Return the mark in a file that `claim` wrote; None if the file does not exist or has none."""
    try:
        with open_private(path, "r") as file:
            found = json.load(file)
        return ProcessMark(pid=int(found["pid"]), started=str(found["started"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def claim(path: Path) -> bool:
    """Create a file with the mark of this process; return False if the file exists already.

    The file is never partial: it is written under another name and then linked, which fails if the name is taken
    (link(2)).

    Raises:
        OSError: It cannot be written.
    """
    mine = ProcessMark.of(os.getpid())
    assert mine is not None
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    fresh.unlink(missing_ok=True)
    with open_private(fresh, "x") as file:
        json.dump(as_dict(mine), file)
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
"""Start of every JSON document of the command line (`flashferry.cli.terminal.output`)."""

_ERROR = re.compile(rf',\s*"verb":\s*{_TEXT},\s*"error":\s*({_TEXT})', re.ASCII)

_TAIL_BYTES = 4096

_PUT_ASIDE = "begun-{}.json"


class Outcome(Struct, frozen=True, kw_only=True):
    """Result of a job's verb.

    Attributes:
        exit_code: Its exit code.
        sentence: Meaning of the exit code, or the error, in one sentence.
    """

    exit_code: int
    sentence: str


class JobFolder(Struct, frozen=True, kw_only=True):
    """Folder with the files of a job.

    Attributes:
        path: `jobs/ID` in the state folder.
    """

    path: Path

    @classmethod
    def of(cls, state: Path, job_id: str) -> JobFolder:
        """Return the folder of a job, whether or not it exists."""
        return cls(path=state / "jobs" / job_id)

    @property
    def events(self) -> Path:
        """Return the path of its run's events, one JSON object per line."""
        return self.path / "events.jsonl"

    @property
    def result(self) -> Path:
        """Return the path of its verb's standard output: one JSON document, complete when the verb has ended."""
        return self.path / "result.json"

    @property
    def stderr(self) -> Path:
        """Return the path of its verb's standard error."""
        return self.path / "stderr.txt"

    @property
    def plan(self) -> Path:
        """Return the path of the plan that it executes or, for a job of kind `plan`, that it made."""
        return self.path / "plan.json"

    @property
    def rules(self) -> Path:
        """Return the path of the image rules for its plan; the file exists only if rules were given."""
        return self.path / "images.yaml"

    @property
    def command(self) -> Path:
        """Return the path of the file with the command that its process executes."""
        return self.path / "command.json"

    @property
    def mark_file(self) -> Path:
        """Return the file by which the first process of a job makes sure that it is the only one."""
        return self.path / "begun.json"

    def make(self) -> None:
        """Create the folder, private, unless it exists.

        Raises:
            ConfigInvalid: It belongs to another user, or others may write there.
            OSError: It cannot be made.
        """
        make_private_directory(self.path.parent)
        make_private_directory(self.path)

    @property
    def deaths(self) -> int:
        """Return how many dead processes of the job `put_aside` has released it from."""
        return len(list(self.path.glob(_PUT_ASIDE.format("*"))))

    def put_aside(self) -> None:
        """Release the job of a process that died before it did anything, so that another process can claim it.

        Its output is removed first and its mark last, so that no process claims the job in between. Idempotent.

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
        """Return the verb's result; None if its output is missing or incomplete.

        Only the start and the end of the file are read: parsing the output of a run of hundreds of devices would take
        many times its size in memory.
        """
        try:
            with open_private(self.result, "rb") as file:
                head = file.read(_HEAD_BYTES).decode("utf-8", "replace")
                file.seek(max(0, file.seek(0, 2) - _END_BYTES))
                # The document is indented, so only its outermost bracket starts a line.
                is_whole = file.read().rstrip().endswith(b"\n}")
        except OSError:
            return None
        found = _BEGINNING.match(head)
        if found is None or not is_whole:
            return None
        # Only right after the verb's name: output of a device may have a field `error` elsewhere.
        error = _ERROR.match(head, found.end())
        return Outcome(exit_code=int(found["code"]), sentence=str(json.loads(error[1] if error else found["meaning"])))

    def document(self, most_bytes: int = MOST_RESULT_BYTES) -> dict[str, Any]:
        """Return the JSON document that the verb printed; empty where there is none, not a whole one, or a large one.

        Args:
            most_bytes: Largest size that is parsed.
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


TAKEN = 75
"""Exit code if another process has the job: EX_TEMPFAIL of sysexits.h."""

_LOGIN = ("FLASHFERRY_USERNAME", "FLASHFERRY_PASSWORD", "FLASHFERRY_ENABLE_SECRET")
"""Variables removed because the verb looks up the devices' credentials itself."""
_FORMS = ("FLASHFERRY_JSON", "FLASHFERRY_OUTPUT", "FLASHFERRY_PLAIN")
"""Variables removed because they would change the form of the verb's output."""
_ELSEWHERE = (
    *("FLASHFERRY_SERVICE", "FLASHFERRY_SERVICE_CA", "FLASHFERRY_SERVICE_TOKEN", "FLASHFERRY_SERVICE_TOKEN_FILE"),
)
"""Variables removed because they would make the verb send the job to a service."""

NO_THREAD_CACHE = ("GLIBC_TUNABLES", "glibc.malloc.tcache_count=0")
"""Variable for glibc, read at a process's start only. Its malloc keeps freed memory for each thread: 45 kB each, and a
waiting device has two threads. Without it a run takes no more processor time (measured with 60 devices)."""


def main(arguments: list[str]) -> NoReturn:
    """Execute the verb of a job in this process; exit with `TAKEN` if another process has the job."""
    (name,) = arguments
    folder = JobFolder(path=Path(name))
    order = json.loads(folder.command.read_text(encoding="utf-8"))
    if not claim(folder.mark_file):
        sys.exit(TAKEN)
    environment = {key: value for key, value in os.environ.items() if key not in (*_LOGIN, *_FORMS, *_ELSEWHERE)}
    environment |= {"FLASHFERRY_JOB": order["job"], "FLASHFERRY_ACTOR": order["actor"]}
    environment.setdefault(*NO_THREAD_CACHE)
    with (
        open(os.devnull, "rb") as nothing,  # noqa: PTH123 -- a device, not a file
        open_private(folder.result, "ab") as result,
        open_private(folder.stderr, "ab") as stderr,
    ):
        for number, file in enumerate((nothing, result, stderr)):
            os.dup2(file.fileno(), number)
    program = [sys.executable, "-P", "-m", "flashferry", *order["words"]]
    os.execve(program[0], program, environment)  # noqa: S606 -- our own verb, without a shell


if __name__ == "__main__":
    main(sys.argv[1:])
