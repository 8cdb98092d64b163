"""Processes identified for good: a number is given to another one later, a number with its first clock tick is not.

Linux has in field 22 of `/proc/PID/stat` how many ticks after the boot a process began (proc(5)); which boot that was
stands in `/proc/sys/kernel/random/boot_id` (random(4)).
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

from flashferry.core.state_folder import open_private

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
        behind = (_PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except OSError:
        return None
    return (behind[_STATE], behind[_BEGAN]) if len(behind) > _BEGAN else None


@cache
def _boot() -> str:
    return _BOOT.read_text(encoding="ascii").strip()
