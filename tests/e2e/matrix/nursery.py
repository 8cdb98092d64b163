"""Forks a process per act from one that has all imported: `python -m tests.e2e.matrix.nursery SOCKET`.

Importing costs more than a second, forking nothing. A child tells its process id, then `done` or `crashed`; where its
end of the connection closes without either, it was killed. It ends with the nursery, and that with its standard input.
"""

from __future__ import annotations

import ctypes
import json
import os
import select
import signal
import socket
import sys
import threading
import traceback
from pathlib import Path
from typing import Any, NoReturn

from tests.e2e.matrix import acts
from tests.e2e.matrix.cells import Job

_PR_SET_PDEATHSIG = 1
_LONGEST_JOB_BYTES = 65536


def main(path: str) -> None:
    """Take jobs until standard input ends."""
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
                    _live(connection)


def _live(connection: socket.socket) -> NoReturn:
    """Be the child: do what the job says, and end without what the parent would have at its end."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    try:
        connection.sendall(f"{os.getpid()}\n".encode())
        job = _job(connection.makefile("rb").readline(_LONGEST_JOB_BYTES))
        _own_outputs(job.output)
        # Known host keys too: a world's routers have new keys, at addresses that others had before.
        os.environ["FLASHFERRY_STATE_DIR"] = str(job.folder / "state")
        {"stage": acts.stage, "recover": acts.recover_all}[job.act](job)
        ending = "done"
    except BaseException:  # noqa: BLE001 -- a child must not return into the nursery's loop, whatever happens
        traceback.print_exc()
        ending = "crashed"
    sys.stderr.flush()
    sys.stdout.flush()
    connection.sendall(f"{ending}\n".encode())
    os._exit(0)


def _job(line: bytes) -> Job:
    values: dict[str, Any] = json.loads(line)
    paths = {"folder", "output", "control", "flash_file", "image", "certificate", "key", "secrets"}
    made: dict[str, Any] = {name: Path(value) if name in paths else value for name, value in values.items()}
    return Job(**made)


def _own_outputs(folder: Path) -> None:
    folder.mkdir()
    for number, name in ((1, "stdout"), (2, "stderr")):
        file = os.open(folder / name, os.O_WRONLY | os.O_CREAT, 0o600)
        os.dup2(file, number)
        os.close(file)
    os.chdir(folder)


if __name__ == "__main__":
    main(sys.argv[1])
