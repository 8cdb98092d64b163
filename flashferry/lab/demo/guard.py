"""A demo's guard: a process that outlives the demo for a moment, and ends what it left if it was killed.

Run as ``python -m flashferry.lab.demo.guard``: the lab's folder comes by the first line of standard input, and
its end is the demo's. A second line says that the demo has ended by itself, and nothing is left to do.
"""

from __future__ import annotations

import contextlib
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from flashferry.lab.demo.harness import sweep

_DONE = b"done\n"


def main() -> None:
    """Wait for the demo's end, and end what it left unless it says that nothing is."""
    for one in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(one, signal.SIG_IGN)
    folder = sys.stdin.buffer.readline().rstrip(b"\n").decode()
    if sys.stdin.buffer.readline() == _DONE or not folder:
        return
    sweep(Path(folder))
    shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def guarded(folder: Path) -> Iterator[None]:
    """Have a guard for the time of a block, and end all that has to do with a folder behind it.

    `folder`: The lab's folder; its path stands in the command line of all that is to end.
    """
    guard = subprocess.Popen(
        # The folder is not in its command line: else it would be among what it ends.
        [sys.executable, "-P", "-m", __name__],
        stdin=subprocess.PIPE,
        start_new_session=True,
    )
    assert guard.stdin is not None
    guard.stdin.write(f"{folder}\n".encode())
    guard.stdin.flush()
    try:
        yield
    finally:
        sweep(folder)
        guard.stdin.write(_DONE)
        guard.stdin.close()
        guard.wait()


if __name__ == "__main__":
    main()
