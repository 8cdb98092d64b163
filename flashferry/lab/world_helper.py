"""The owner's side of a helper process of a world: settings in, JSON lines out."""

from __future__ import annotations

import contextlib
import json
import os
import re
import select
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any, cast

from flashferry.lab.errors import LabError

if TYPE_CHECKING:
    from pathlib import Path

_START_TIMEOUT_S = 20.0
_STOP_TIMEOUT_S = 3.0
_LONGEST_LOG_BYTES = 2**20
_SECRET = re.compile("PASSW|SECRET|TOKEN")
"""Variables that a stand-in has no use for."""


class Helper:
    """A helper process.

    Args:
        module: What to run.
        settings: Sent as its first line, with what ties its life to ours.
        log: Where its standard error goes.
    """

    def __init__(self, module: str, settings: dict[str, Any], log: Path) -> None:
        self._log = log.open("w+b")
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", module],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log,
            # Ctrl-C is for the owner, which ends its helpers itself, also while they start.
            start_new_session=True,
            env={name: value for name, value in os.environ.items() if not _SECRET.search(name)},
        )  # fmt: skip
        in_main_thread = threading.current_thread() is threading.main_thread()
        self.send({"owner_pid": os.getpid(), "tie_to_thread": in_main_thread} | settings)

    def send(self, values: dict[str, Any]) -> None:
        """Send one line."""
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(json.dumps(values).encode() + b"\n")
            self.process.stdin.flush()

    def receive(self) -> dict[str, Any]:
        """Wait for the next report and return it. Raises LabError: it reports an error, ended, or took too long."""
        assert self.process.stdout is not None
        ready = select.select([self.process.stdout], (), (), _START_TIMEOUT_S)[0]
        line = self.process.stdout.readline() if ready else b""
        if not line:
            # By our own descriptor: a helper that ends takes the world's directory along.
            tail = os.pread(self._log.fileno(), _LONGEST_LOG_BYTES, 0).decode(errors="replace")
            last = tail.strip().rpartition("\n")[2] or "it gave no reason"
            raise LabError(f"A lab process did not start: {last}.")
        report = cast("dict[str, Any]", json.loads(line))
        if "error" in report:
            raise LabError(report["error"])
        return report

    def stop(self, timeout_s: float = _STOP_TIMEOUT_S) -> None:
        """End the process: politely by closing its pipe, then by signal."""
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()
        try:
            self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self._log.close()
