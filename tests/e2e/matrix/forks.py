"""Processes of a cell, forked by a nursery in the world's core namespace; see `tests.e2e.matrix.nursery`."""

from __future__ import annotations

import contextlib
import json
import os
import select
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from flashferry.core.values import as_dict
from flashferry.lab.world import World
from tests.e2e.matrix.finding import Ending

_LONGEST_ACT_S = 300.0


@contextlib.contextmanager
def nursery(world: World, place: Path, module: str) -> Iterator[None]:
    """Have processes forked for as long as the block runs.

    Args:
        world: Where they are to be.
        place: The nursery's socket.
        module: Whose `play` does their jobs.
    """
    command = [sys.executable, "-P", "-m", "flashferry.lab.enter", str(world.core_pid), "--"]
    command += [sys.executable, "-P", "-m", "tests.e2e.matrix.nursery", str(place), module]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == b"ready\n", "the nursery did not start"
            yield
        finally:
            process.stdin.close()


def play(place: Path, job: Any) -> Ending:
    """Have a process do a job, which is a dataclass, and return how it ended."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(place))
        connection.sendall(json.dumps(as_dict(job), default=str).encode() + b"\n")
        stream = connection.makefile("rb")
        pid = int(stream.readline())
        if not select.select([connection], (), (), _LONGEST_ACT_S)[0]:
            os.kill(pid, 9)
            return Ending.CRASHED
        return Ending(stream.readline().decode().strip() or Ending.KILLED)
