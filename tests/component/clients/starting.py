"""What real clients fetch, and how they are started and waited for."""

import os
import shutil
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.needs import lacking
from tests.patience import PATIENCE_S

SMALL, LARGE = "csr1000v-universalk9.bin", "isr4300-universalk9.bin"
HAVE_BYTES = 150_000
# It counts in pieces of 16 KiB, and fetches one anew of which it has a part.
RESUMES_AT_BYTES = {"aria2c": HAVE_BYTES // 16384 * 16384}


def start_at(home: Path, client: str, arguments: Sequence[str], *, stdin: int) -> subprocess.Popen[str]:
    """Start a client with a home of its own, so that nobody's settings matter; skip, or fail in CI, without it."""
    if shutil.which(client) is None:
        lacking(f"{client} is not installed")
    return subprocess.Popen(
        arguments,
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={"PATH": os.environ["PATH"], "HOME": str(home), "LC_ALL": "C", "TERM": "dumb"},
        cwd=home,
        start_new_session=True,
    )


def finish(process: subprocess.Popen[str]) -> str:
    """Wait for a client and return what it said."""
    try:
        return process.communicate(timeout=PATIENCE_S)[0]
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        return f"killed after 60 s: {process.communicate()[0]}"
