"""Forks a flashferry per command from a process that has all imported: `python -m tests.adversary.zygote SOCKET`.

What runs in the child is the command line as it is, from `sys.argv` to the exit code; only the second of imports and
the long waits (`limits.py`) are spared. It ends with its standard input, and its children with it.
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
from importlib import import_module
from typing import Any, NoReturn

from tests.adversary.limits import shorten

_PR_SET_PDEATHSIG = 1
_LONGEST_JOB_BYTES = 65_536
_VERBS = ("stage", "probe", "check", "recover", "report", "status")
_HEAVY = (
    "flashferry.api.checking",
    "flashferry.api.planning",
    "flashferry.api.recovering",
    "flashferry.api.reports",
    "flashferry.api.runs",
    "flashferry.cli.view.device_tables",
    "flashferry.cli.view.live",
    "napalm.ios",
    "netmiko",
    "ntc_templates.parse",
    "flashferry.devices.credentials",
    "flashferry.run.connectivity",
    "flashferry.devices.netmiko_driver",
)


def main(path: str) -> None:
    """Take jobs until standard input ends."""
    import_module("flashferry.cli.main")
    for name in (*_HEAVY, *(f"flashferry.cli.{verb}" for verb in _VERBS)):
        import_module(name)
    missing = shorten()
    assert threading.active_count() == 1, "a fork would copy one thread and the locks of all"
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel buries the children
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen(100)
        sys.stdout.write(json.dumps(missing) + "\n")
        sys.stdout.flush()
        inputs = (listener.fileno(), sys.stdin.fileno())
        while select.select(inputs, (), ())[0] == [listener.fileno()]:
            connection, _ = listener.accept()
            with connection:
                if os.fork() == 0:
                    listener.close()
                    _live(connection)


def _live(connection: socket.socket) -> NoReturn:
    """Be the child: do what the job says, tell the exit code, and end without what the parent would have at its end."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    os.setsid()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    code = 1
    try:
        connection.sendall(f"{os.getpid()}\n".encode())
        job: dict[str, Any] = json.loads(connection.makefile("rb").readline(_LONGEST_JOB_BYTES))
        _settle(job)
        code = _run(job["arguments"])
    except BaseException:  # noqa: BLE001 -- a child must not return into the loop, whatever happens
        traceback.print_exc()
    sys.stderr.flush()
    sys.stdout.flush()
    connection.sendall(f"{code}\n".encode())
    os._exit(code)


def _settle(job: dict[str, Any]) -> None:
    """Take the job's folder, outputs and environment."""
    os.chdir(job["folder"])
    os.environ.update(job["environment"])
    outputs = [(0, os.devnull, os.O_RDONLY)]
    outputs += [(number, job[name], os.O_WRONLY | os.O_CREAT) for number, name in ((1, "stdout"), (2, "stderr"))]
    for number, path, flags in outputs:
        file = os.open(path, flags, 0o600)
        os.dup2(file, number)
        os.close(file)


def _run(arguments: list[str]) -> int:
    """Run a command line as the entry point does; return its exit code."""
    sys.argv = ["flashferry", *arguments]
    try:
        import_module("flashferry.cli.main").main()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 0 if end.code is None else 1
    return 0


if __name__ == "__main__":
    main(sys.argv[1])
