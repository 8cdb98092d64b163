"""A client process at the site, asked from the core: see `flashferry.lab.experiment.puller`."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

from flashferry.lab.errors import LabError

if TYPE_CHECKING:
    from flashferry.lab.world import World


class SiteClient:
    """A client at a world's first site.

    Args:
        world: The world.
    """

    def __init__(self, world: World) -> None:
        inside = [sys.executable, "-P", "-m", "flashferry.lab.enter", str(world.site_pids[0]), "--"]
        command = [*inside, sys.executable, "-P", "-m", "flashferry.lab.experiment.puller"]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def begin(self, request: dict[str, Any]) -> None:
        """Have it fetch; `result` then waits for what came of it."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()

    def result(self) -> tuple[int, float]:
        """Return the bytes it got, and its seconds.

        Raises:
            LabError: It got nothing; the reason is given.
        """
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        answer = json.loads(line) if line else {"error": "it ended"}
        if "error" in answer:
            raise LabError(f"The client at the site failed: {answer['error']}.")
        return int(answer["size_bytes"]), float(answer["seconds"])

    def close(self) -> None:
        """End it."""
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()
