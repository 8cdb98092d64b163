"""A process of an experiment that takes a line of JSON at a time and answers each by one."""

from __future__ import annotations

import contextlib
import json
import subprocess
from typing import TYPE_CHECKING, Any, cast

from flashferry.lab.errors import LabError

if TYPE_CHECKING:
    from collections.abc import Sequence


class JsonChild:
    """The owner's end of such a process.

    Args:
        name: What errors call it.
        command: What to run.
    """

    def __init__(self, name: str, command: Sequence[str]) -> None:
        self._name = name
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def send(self, request: dict[str, Any]) -> None:
        """Send a request; `receive` waits for its answer."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()

    def receive(self) -> dict[str, Any]:
        """Wait for the next answer and return it. Raises LabError: it ended, or answers with an error alone."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        answer = cast("dict[str, Any]", json.loads(line)) if line else {"error": "it ended"}
        if list(answer) == ["error"]:
            raise LabError(f"{self._name} failed: {str(answer['error']).rstrip('.')}.")
        return answer

    def close(self, patience_s: float = 0.0) -> None:
        """End it: by closing its input, then after the patience by a signal."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        with contextlib.suppress(OSError):
            self.process.stdin.close()
        try:
            self.process.wait(patience_s)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()
