"""Run a command inside a namespace of a lab: ``python -m flashferry.lab.enter PID -- CMD...``.

PID is a process in it: `core_pid` of a world for the core, the ``pid`` of one of its depots for that host.
"""

from __future__ import annotations

import os
import sys
from typing import NoReturn

from flashferry.lab.errors import LabError
from flashferry.lab.namespaces import enter_namespace, enter_user_namespace


def enter_core(pid: int) -> None:
    """Move the calling thread, and what it starts from now on, to the network namespace of ``pid``.

    Usable as ``preexec_fn`` of a subprocess.

    Raises LabError: the process is gone, or this user may not enter.
    """
    try:
        enter_user_namespace(pid)
        enter_namespace(pid)
    except PermissionError as error:
        raise LabError(f"Entering the lab of process {pid} needs root; run it as root.") from error


def inside(pid: int) -> list[str]:
    """Return the words before a command that is to run in the namespace of ``pid``."""
    return [sys.executable, "-P", "-m", "flashferry.lab.enter", str(pid), "--"]


def main(arguments: list[str] | None = None) -> NoReturn:
    """Enter the namespace of PID and become CMD."""
    words = sys.argv[1:] if arguments is None else arguments
    if len(words) < 3 or not words[0].isdecimal() or words[1] != "--":
        sys.exit("usage: python -m flashferry.lab.enter PID -- CMD...")
    try:
        enter_core(int(words[0]))
    except LabError as error:
        sys.exit(str(error))
    try:
        os.execvp(words[2], words[2:])  # noqa: S606 - becoming the user's own command is the purpose
    except OSError as error:
        sys.exit(f"{words[2]}: {error.strerror}; give a program that can be run.")


if __name__ == "__main__":
    main()
