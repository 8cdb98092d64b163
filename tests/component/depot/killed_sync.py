"""A process of its own that syncs, and is killed at the step that it is told: `python -m` with the source's words.

Each line of its input is a catalogue's folder and a number: a child syncs into the folder and is killed right before or
behind the call of the system with that number by which it changes something on disk; 0: it is not. A line tells what
became of it: `killed`, or `done` with how many steps there were.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from flashferry.depot.catalogue.folder import CatalogueFolder
from flashferry.depot.sync import filling
from flashferry.depot.sync.source import Login, Source
from flashferry.depot.sync.syncing import offered_as, sync_image

CALLS = ("pwrite", "fdatasync", "fsync", "replace", "ftruncate", "unlink", "posix_fallocate")

RECEIVE_BYTES = 12_000
"""The kernel doubles it: to a chunk of 64 KiB as its usual most, 6 MB, is to one of 16 MiB."""


class Steps:
    """Counts calls that change something on disk, and ends the process at one of them."""

    def __init__(self, last: int) -> None:
        self.count, self._last = 0, last

    def step(self) -> None:
        self.count += 1
        if self.count == self._last:
            os.kill(os.getpid(), signal.SIGKILL)

    def around(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any, **more: Any) -> Any:
            self.step()
            result = real(*given, **more)
            self.step()
            return result

        return call


def sync(source: Source, name: str, folder: Path, last: int) -> int:
    steps = Steps(last)
    for one in CALLS:
        setattr(os, one, steps.around(getattr(os, one)))
    sync_image(source, offered_as(source, name), CatalogueFolder(folder), give_up_s=60)
    return steps.count


def small_buffer(connection: socket.socket, *more: Any) -> None:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BYTES)
    connect(connection, *more)


connect = filling._await_connected


def main() -> None:
    filling._await_connected = small_buffer
    url, user, password, name = sys.argv[1:]
    source = Source(url=url, login=Login(username=user, password=password))
    for words_given in sys.stdin:
        folder, number = words_given.split()
        heard, told = os.pipe()
        if not (pid := os.fork()):
            os.write(told, str(sync(source, name, Path(folder), int(number))).encode())
            os._exit(0)
        os.close(told)
        with os.fdopen(heard) as answer:
            count = answer.read()
        _, status = os.waitpid(pid, 0)
        words = {0: f"done {count}", signal.SIGKILL: "killed"}
        print(words.get(status, f"failed {status}"), flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
