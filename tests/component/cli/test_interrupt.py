"""Signals reach a command whatever its main thread waits for."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.patience import PATIENCE_S

WAITS = """
import signal, threading, time
from flashferry.cli.terminal.interrupt import stop_on_signals

other = threading.Thread(target=time.sleep, args=(60,), daemon=True)
other.start()
lock = threading.Lock()
lock.acquire()

def tell(first):
    print("first" if first else "second", flush=True)
    if not first:
        lock.release()

def send():
    for _ in range(2):
        time.sleep(1)
        signal.pthread_kill(other.ident, signal.{name})

with stop_on_signals(announce=tell):
    threading.Thread(target=send, daemon=True).start()
    lock.acquire()
print("over")
"""


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_a_signal_that_another_thread_was_given(name: str, tmp_path: Path):
    """A main thread that waits for a lock hears of it all the same, each time, and goes on."""
    done = subprocess.run(
        [sys.executable, "-c", WAITS.format(name=name)],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[3])},
    )
    assert (done.stdout.split(), done.returncode) == (["first", "second", "over"], 0), done.stderr
