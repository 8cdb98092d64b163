"""The child's side of a helper process of a world: lifeline, configuration, readiness.

A helper must not outlive its owner, not even after `kill -9`. Three things see to it: the end of the
owner's process (pidfd), the end of its pipe, and PR_SET_PDEATHSIG. The last is asked for only when
the owner's main thread started us, since the kernel ties it to the *thread* that forked (prctl(2)).
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
from typing import Any, cast

_PR_SET_PDEATHSIG = 1


def read_settings() -> dict[str, Any]:
    """Return the owner's next line from standard input; unbuffered, so that a selector sees what follows.

    Raises EOFError: the owner closed the pipe.
    """
    line = bytearray()
    while not line.endswith(b"\n"):
        byte = os.read(0, 1)
        if not byte:
            raise EOFError
        line += byte
    return cast("dict[str, Any]", json.loads(line))


def tie_to_owner(settings: dict[str, Any]) -> int:
    """Make this process end with its owner and return a descriptor that turns readable at that moment.

    Raises ProcessLookupError: the owner is gone already.
    """
    if settings["tie_to_thread"]:
        end_with_owner()
    return os.pidfd_open(int(settings["owner_pid"]))


def end_with_owner(by: signal.Signals = signal.SIGTERM) -> None:
    """Have the kernel end this process when the thread that started it ends; whatever it becomes keeps that.

    `by`: The signal; SIGKILL for a program that has nothing to finish.
    """
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, by)


def await_owner() -> None:
    """Wait until the owner closes the pipe or ends."""
    while os.read(0, 4096):
        pass


def report(**values: Any) -> None:
    """Report to the owner by one JSON line."""
    sys.stdout.write(json.dumps(values) + "\n")
    sys.stdout.flush()
