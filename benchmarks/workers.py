"""Client processes, seen from the driver: started together, told to go together, ended whatever happens."""

import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

_CLIENT = Path(__file__).with_name("client.py")


class MeasureFailed(Exception):
    """A measurement could not be taken; the message says what was expected and what was found."""


class Worker:
    """One client process.

    Args:
        order: Its first order, see `benchmarks.client`.
        cpus: Processors it may run on; empty for any.
        script: What it runs.
    """

    def __init__(self, order: dict[str, Any], cpus: frozenset[int], script: Path = _CLIENT) -> None:
        self._process = subprocess.Popen(
            # Isolated and without site: starts in a third of the time.
            [sys.executable, "-I", "-S", str(script)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            # Ctrl-C is for the driver, which ends its workers itself.
            start_new_session=True,
        )
        if cpus:
            os.sched_setaffinity(self._process.pid, cpus)
        self._seen = b""
        self.say(order)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def say(self, order: dict[str, Any]) -> None:
        """Give an order."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(order).encode() + b"\n")
            self._process.stdin.flush()
        except OSError as error:
            raise MeasureFailed(f"a client process is gone: {error.strerror}") from error

    def hear(self, timeout_s: float) -> dict[str, Any]:
        """Return the next result.

        Raises:
            MeasureFailed: None came in time, or it tells of an error.
        """
        assert self._process.stdout is not None
        deadline_s = time.monotonic() + timeout_s
        while b"\n" not in self._seen:
            left_s = deadline_s - time.monotonic()
            if left_s <= 0 or not select.select([self._process.stdout], [], [], left_s)[0]:
                raise MeasureFailed(f"a client gave no result within {timeout_s:g} s")
            piece = os.read(self._process.stdout.fileno(), 65536)
            if not piece:
                raise MeasureFailed("a client process ended without a result")
            self._seen += piece
        text, _, self._seen = self._seen.partition(b"\n")
        result: dict[str, Any] = json.loads(text)
        if "error" in result:
            raise MeasureFailed(str(result["error"]))
        return result

    def close(self) -> None:
        """End it."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.kill()
        self._process.wait()
        self._process.stdout.close()
        try:
            self._process.stdin.close()
        except OSError:
            # An order nobody read is of no interest any more.
            return


def start_together(workers: "Sequence[Worker]", timeout_s: float) -> None:
    """Wait until all are ready, then let all go.

    Raises:
        MeasureFailed: One did not become ready.
    """
    for worker in workers:
        worker.hear(timeout_s)
    for worker in workers:
        worker.say({"go": True})
