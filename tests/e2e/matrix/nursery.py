"""Forks a process per act from one that has all imported: `python -m tests.e2e.matrix.nursery SOCKET MODULE`.

The module's `play` takes the job, as JSON has it; a job's `folder` and `output` are its cell's, and its own.

Importing costs more than a second, forking nothing. A child tells its process id, then `done` or `crashed`; where its
end of the connection closes without either, it was killed. It ends with the nursery, and that with its standard input.
"""

from __future__ import annotations

import ctypes
import importlib
import json
import os
import select
import signal
import socket
import sys
import threading
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

Play = Callable[[dict[str, Any]], None]

_PR_SET_PDEATHSIG = 1
_LONGEST_JOB_BYTES = 65536


def main(path: str, module: str) -> None:
    """Take jobs until standard input ends."""
    play: Play = importlib.import_module(module).play
    assert threading.active_count() == 1, "a fork would copy one thread and the locks of all"
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel buries the children
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen(100)
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        inputs = (listener.fileno(), sys.stdin.fileno())
        while select.select(inputs, (), ())[0] == [listener.fileno()]:
            connection, _ = listener.accept()
            with connection:
                if os.fork() == 0:
                    listener.close()
                    _live(connection, play)


def _live(connection: socket.socket, play: Play) -> NoReturn:
    """Be the child: do what the job says, and end without what the parent would have at its end."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    try:
        connection.sendall(f"{os.getpid()}\n".encode())
        job: dict[str, Any] = json.loads(connection.makefile("rb").readline(_LONGEST_JOB_BYTES))
        _own_outputs(Path(job["output"]))
        # Known host keys too: a world's routers have new keys, at addresses that others had before.
        os.environ["FLASHFERRY_STATE_DIR"] = str(Path(job["folder"], "state"))
        play(job)
        ending = "done"
    except BaseException:  # noqa: BLE001 -- a child must not return into the nursery's loop, whatever happens
        traceback.print_exc()
        ending = "crashed"
    sys.stderr.flush()
    sys.stdout.flush()
    connection.sendall(f"{ending}\n".encode())
    os._exit(0)


def _own_outputs(folder: Path) -> None:
    folder.mkdir()
    for number, name in ((1, "stdout"), (2, "stderr")):
        file = os.open(folder / name, os.O_WRONLY | os.O_CREAT, 0o600)
        os.dup2(file, number)
        os.close(file)
    os.chdir(folder)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
