"""Runs `containerlab` and `docker`: with a time, without our secrets, and told in a sentence where they fail.

Facts
-----
By the source of containerlab 0.79.0; none of it was tried:

* Every flag may come from a variable that begins with `CLAB_`; so none of them is handed on. `CLAB_VERSION_CHECK` set
  to `disable` keeps it from asking the Internet for a newer version.
* What it logs goes to standard error, what it tells as JSON to standard output. It ends with 1 where it failed.
* `deploy`, `destroy` and `tools netem` need root, or the program to be root's with the set-user-id bit; `inspect`
  needs docker only.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flashferry.core.outside import masked, shown
from flashferry.nightly.deadline import Deadline
from flashferry.nightly.faults import Fault, NightFault

CONTAINERLAB, DOCKER = "containerlab", "docker"

_TICK_S = 0.2
_LONGEST = 300
_ENDED_S = 5.0
_COLOURS = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_NOT_HANDED_ON = ("CLAB_", "FLASHFERRY_", "VIRL2_", "VIRL_")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """A command that ended.

    Attributes:
        code: Its exit code.
        out: Its standard output.
        err: Its standard error.
    """

    code: int
    out: str
    err: str

    @property
    def said(self) -> str:
        """The last that it said about itself, in one line, without secrets."""
        lines = [" ".join(line.split()) for line in _COLOURS.sub("", self.err or self.out).splitlines()]
        line = " ".join([line for line in lines if line][-2:])
        return shown(masked(line))[-_LONGEST:].rstrip(".") or f"it ended with {self.code}"


class Commands:
    """Runs commands, and keeps what was run and how it ended.

    Attributes:
        trace: A line of JSON for each.
    """

    def __init__(self) -> None:
        self.trace: list[str] = []

    def told(self, *words: str, what: str, step: str, deadline: Deadline, folder: Path | None = None) -> str:
        """Run a command and return what it told.

        Args:
            words: The command.
            what: What it is for, as in "could not ...".
            step: The step of a night that it belongs to.
            deadline: It is ended then.
            folder: Where it runs.

        Raises:
            NightFault: With `Fault.LAB`: it is not there, took too long or failed.
        """
        ran = self.run(*words, what=what, step=step, deadline=deadline, folder=folder)
        if ran.code != 0:
            raise fault(f"could not {what}: {ran.said}", step=step, hint="Run the same command by hand; see its trace")
        return ran.out

    def json(self, *words: str, what: str, step: str, deadline: Deadline) -> Any:
        """Run a command and return the JSON that it told; the arguments are those of `told`.

        Raises:
            NightFault: With `Fault.LAB`: it failed, or told something else.
        """
        out = self.told(*words, what=what, step=step, deadline=deadline)
        try:
            return json.loads(out or "{}")
        except ValueError:
            raise fault(
                f"could not {what}: expected JSON, found something else",
                step=step,
                hint="Its version may be too old or too new; see docs/nightly.md",
            ) from None

    def run(self, *words: str, what: str, step: str, deadline: Deadline, folder: Path | None = None) -> Ran:
        """Run a command and return how it ended; the arguments are those of `told`.

        Raises:
            NightFault: With `Fault.LAB`: it is not there, or took too long.
        """
        began_s = deadline.clock.monotonic_s()
        process = _begun(words, what, step, folder)
        try:
            ran = _waited(process, deadline)
        except BaseException:
            _end(process)
            raise
        took_s = deadline.clock.monotonic_s() - began_s
        told = {"command": list(words), "code": None if ran is None else ran.code, "took_s": round(took_s, 3)}
        self.trace.append(masked(json.dumps(told)))
        if ran is None:
            hint = "Look at docker and at this host's load; the limits are in nightly.yaml"
            raise fault(f"could not {what}: it took longer than {took_s:.0f} s", step=step, hint=hint)
        return ran


def fault(message: str, *, step: str, hint: str, kind: Fault = Fault.LAB) -> NightFault:
    """Return a fault of the lab, or of the clean-up."""
    return NightFault(message, fault=kind, step=step, hint=hint)


def _begun(words: Sequence[str], what: str, step: str, folder: Path | None) -> subprocess.Popen[str]:
    """Begin a command in a group of its own, so that the whole of it can be ended, and no Ctrl-C reaches it alone."""
    program = shutil.which(words[0])
    if program is None:
        raise fault(
            f"could not {what}: expected the command '{words[0]}', found none",
            step=step,
            hint=f"Install {words[0]}, or have PATH lead to it",
        )
    return subprocess.Popen(
        [program, *words[1:]],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        cwd=folder,
        env=_environment(os.environ),
        start_new_session=True,
    )


def _waited(process: subprocess.Popen[str], deadline: Deadline) -> Ran | None:
    """Return how a process ended; None where it had to be ended. A night that is stopped meanwhile ends it, too."""
    while True:
        try:
            out, err = process.communicate(timeout=_TICK_S)
            return Ran(code=process.returncode, out=out, err=err)
        except subprocess.TimeoutExpired:
            if deadline.is_over:
                _end(process)
                return None
            deadline.clock.sleep(0)


def _end(process: subprocess.Popen[str]) -> None:
    """End a process and all that it began: first as one asks, then for good."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with suppress(subprocess.TimeoutExpired):
            process.communicate(timeout=_ENDED_S)
            return


def _environment(ours: Mapping[str, str], not_handed_on: Sequence[str] = _NOT_HANDED_ON) -> dict[str, str]:
    kept = {name: value for name, value in ours.items() if not name.startswith(tuple(not_handed_on))}
    return kept | {"CLAB_VERSION_CHECK": "disable", "NO_COLOR": "1"}
