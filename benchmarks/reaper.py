"""Runs a server and inherits what it leaves behind: `python reaper.py COMMAND...`.

vsftpd's sessions are two processes each, and the one that sends is orphaned at the end: its processor time would go
to init and appear nowhere. As a child subreaper (prctl(2)) this process becomes the parent of such orphans, waits
for them, and so has the time of all of them in its own account of ended children. When the driver dies, the kernel
ends it too.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


def main(command: list[str]) -> None:
    """Start the command and reap until no child is left."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    child = os.fork()
    if not child:
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        os.execvp(command[0], command)
    while True:
        try:
            os.wait()
        except ChildProcessError:
            return


if __name__ == "__main__":
    main(sys.argv[1:])
