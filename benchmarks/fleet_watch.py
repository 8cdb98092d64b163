"""A process that waits for a fleet, seen from outside: what it says of itself, and what the kernel says of it."""

import json
import os
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.procfs import descendants, rss_bytes
from flashferry.core.jobs import NO_THREAD_CACHE
from flashferry.lab.world import World

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_SAYING = threading.Lock()


class SubjectFailed(Exception):
    """The process under measurement did not do what it was to do; the message says what was expected."""


def own_cpu_s(pid: int) -> float:
    """Return user and system time of a process alone, its children left out, in seconds; ticks of 10 ms."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS_PER_S


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """What a fleet of waiting devices costs a process: seconds of processor per second, and bytes."""

    cpu_share: float
    child_cpu_share: float
    rss_bytes: int
    held_s: float
    threads: int


class Subject:
    """A process in front of a world that prints a line of JSON for each stage it reaches.

    Args:
        world: The world.
        arguments: Arguments of Python: `-m`, module and the module's own.
        log: Where its standard error goes.
    """

    def __init__(self, world: World, arguments: list[str], log: Path) -> None:
        inside = [sys.executable, "-P", "-m", "flashferry.lab.enter", str(world.core_pid), "--"]
        self._log = log
        with log.open("wb") as errors:
            self.process = subprocess.Popen(
                [*inside, sys.executable, "-P", *arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                env=os.environ | dict([NO_THREAD_CACHE]),
            )
        self._said: dict[str, dict[str, Any]] = {}
        self._news = threading.Condition()
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            with self._news:
                values = json.loads(line)
                self._said[values.pop("stage")] = values
                self._news.notify_all()
        with self._news:
            self._said.setdefault("over", {})
            self._news.notify_all()

    def hear(self, stage: str, timeout_s: float) -> dict[str, Any]:
        """Return what it says at a stage.

        Raises:
            SubjectFailed: It ended before, or took too long.
        """
        deadline_s = time.monotonic() + timeout_s
        with self._news:
            while stage not in self._said:
                left_s = deadline_s - time.monotonic()
                if left_s <= 0 or "over" in self._said:
                    tail = self._log.read_text(errors="replace")[-1500:]
                    raise SubjectFailed(
                        f"expected {stage!r} within {timeout_s:.0f} s, heard {list(self._said)}\n{tail}"
                    )
                self._news.wait(left_s)
            return self._said[stage]

    def has_said(self, stage: str) -> bool:
        """Tell whether it has reached a stage."""
        with self._news:
            return stage in self._said

    def go(self) -> None:
        """Have it begin."""
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def held(self, seconds: float) -> Waiting:
        """Watch it wait for so long.

        A part of a second counts like any other: what a process does in bursts is spread over the whole.
        """
        pid = self.process.pid
        children = descendants(pid)
        before_s, child_before_s, at_s = own_cpu_s(pid), sum(map(own_cpu_s, children)), time.monotonic()
        sizes = []
        while time.monotonic() - at_s < seconds:
            sizes.append(rss_bytes(pid))
            time.sleep(min(5.0, seconds))
        spent_s = time.monotonic() - at_s
        return Waiting(
            cpu_share=(own_cpu_s(pid) - before_s) / spent_s,
            child_cpu_share=(sum(map(own_cpu_s, children)) - child_before_s) / spent_s,
            rss_bytes=int(statistics.median(sizes)),
            held_s=spent_s,
            threads=len(list(Path(f"/proc/{pid}/task").iterdir())),
        )

    def close(self) -> None:
        """End it, if it has not ended by itself."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()


@contextmanager
def subject(world: World, arguments: list[str], log: Path) -> Iterator[Subject]:
    """Run a subject for as long as the block lasts."""
    started = Subject(world, arguments, log)
    try:
        yield started
    finally:
        started.close()


def say(stage: str, **values: Any) -> None:
    """Tell the measuring process that a stage is reached; the subject's side."""
    # In one piece: `print` writes the end of the line by itself, and another thread's line may come between.
    with _SAYING:
        sys.stdout.write(json.dumps({"stage": stage} | values) + "\n")
        sys.stdout.flush()


def await_go() -> None:
    """Wait until the measuring process says go; from then on this process ends with it."""
    sys.stdin.readline()
    threading.Thread(target=_end_with_input, daemon=True).start()


def _end_with_input() -> None:
    sys.stdin.readline()
    os._exit(1)
