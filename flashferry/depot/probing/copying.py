"""One copy by one method, timed, with the processor time of both ends, and looked at whether it is whole."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from flashferry.depot.probing.figures import Trial
from flashferry.depot.probing.methods import Direction, Ends, Method, SshAccess, commands_of
from flashferry.depot.probing.watching import run_pipeline

LISTENING = (
    'h=$(printf ":%04X 0*:0000 0A" {port}); i=0; '
    'until grep -q "$h" /proc/net/tcp /proc/net/tcp6 2>/dev/null; do '
    "i=$((i+1)); [ $i -gt 200 ] && break; sleep 0.02; done"
)
"""Shell: wait until something listens on a port, four seconds at most (/proc/net/tcp, state 0A)."""

_MOST_SHOWN = 300


class FarSide(Protocol):
    """The far end, as copies need it.

    Attributes:
        sees_commands: Whether its processor time has that of commands that were started without a login.
    """

    sees_commands: bool

    def start(self, command: str, *, port: int) -> None:
        """Start a command that listens on a port; return when it does."""

    def cpu_s(self) -> float | None:
        """Return the processor time of all that has ended there; None: not to be seen."""

    def take_away(self, path: str) -> None:
        """Remove a file there, if it is there."""

    def size_bytes(self, path: str) -> int | None:
        """Return the size of a file there; None: there is none, or it cannot be seen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """What is copied, by the name that `Method.data` has for it.

    Attributes:
        source: Path at the end that has it.
        size_bytes: Its size.
    """

    source: str
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Copier:
    """Copies by any method but HTTP.

    Attributes:
        access: How SSH reaches the far end.
        far: That end.
        direction: Whereto is copied.
        samples: What is copied, by name; `nothing` among them.
        target: Path of the copy, at the end that gets it.
        port: A port at the far end for bare TCP; None: there is none.
        environment: Of our commands; None: ours.
        watched: Processes here whose children are the far end, where it is on this machine.
        limit_s: Longest that one copy may take.
        interrupted: Whether to break off.
    """

    access: SshAccess
    far: FarSide
    direction: Direction
    samples: Mapping[str, Sample]
    target: str
    port: int | None = None
    environment: Mapping[str, str] | None = None
    watched: Sequence[int] = ()
    limit_s: float = 300.0
    interrupted: Callable[[], bool] = field(default=lambda: False)

    def copy(self, method: Method, number: int) -> Trial:
        """Copy once; a fault is recorded in the trial, never raised."""
        sample = self.samples[method.data]
        is_pull = self.direction == "pull"
        here, far = (self.target, sample.source) if is_pull else (sample.source, self.target)
        commands = commands_of(method, self.access, Ends(here=here, far=far, direction=self.direction, port=self.port))
        self._clear()
        if commands.first_far and self.port is not None:
            self.far.start(commands.first_far, port=self.port)
        before_s = self.far.cpu_s()
        try:
            ran = run_pipeline(
                commands.pipeline,
                stdin=commands.stdin,
                environment=self.environment,
                watched=self.watched if method.by_ssh else (),
                limit_s=self.limit_s,
                interrupted=self.interrupted,
            )
        except OSError as error:
            text = f"{error.filename or method.name}: {error.strerror}"
            return Trial(key=method.key, number=number, size_bytes=sample.size_bytes, error=text)
        # The look at its size waits for what still writes there, so it comes first.
        fault = self._fault(ran.code, ran.error, sample.size_bytes)
        after_s = self.far.cpu_s()
        return Trial(
            key=method.key,
            number=number,
            size_bytes=sample.size_bytes,
            wall_s=ran.wall_s,
            here_cpu_s=ran.cpu_s,
            far_cpu_s=_less(after_s, before_s) if method.by_ssh or self.far.sees_commands else None,
            here_busy_s=ran.busy_s,
            far_busy_s=ran.watched_busy_s,
            error=fault,
        )

    def _clear(self) -> None:
        if self.direction == "pull":
            with suppress(OSError):
                Path(self.target).unlink()
        else:
            self.far.take_away(self.target)

    def _fault(self, code: int, error: str, size_bytes: int) -> str:
        """Return what went wrong in a sentence; empty: nothing."""
        if code:
            lines = [line.strip() for line in error.splitlines() if line.strip()]
            return f"ended with {code}: {lines[-1] if lines else 'no word'}"[:_MOST_SHOWN]
        there = self._size()
        if there is not None and there != size_bytes:
            return f"expected {size_bytes} bytes at the other end, found {there}"
        return ""

    def _size(self) -> int | None:
        if self.direction == "push":
            return self.far.size_bytes(self.target)
        try:
            return os.stat(self.target).st_size  # noqa: PTH116 -- a path of ours, as text
        except OSError:
            return 0


def _less(after_s: float | None, before_s: float | None) -> float | None:
    return None if after_s is None or before_s is None else max(after_s - before_s, 0.0)
