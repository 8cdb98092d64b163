"""Regions of malloc that threads share."""

import gc
import platform
import subprocess
import sys

import pytest
from nornir.core import Nornir
from nornir.core.inventory import Host, Hosts, Inventory
from nornir.core.state import GlobalState
from nornir.core.task import Result, Task

from flashferry.run.runner import GC_THRESHOLD, FleetRunner, share_arenas

_COUNTED = """
import ctypes, sys, threading
from flashferry.run.runner import share_arenas
assert share_arenas(int(sys.argv[1])) == (int(sys.argv[1]) >= 100)
together = threading.Barrier(17)
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
def work():
    for _ in range(200):
        libc.malloc(1000)  # without Python's lock
    together.wait()
    together.wait()
for _ in range(16):
    threading.Thread(target=work, daemon=True).start()
together.wait()
libc.malloc_info.argtypes = [ctypes.c_int, ctypes.c_void_p]
libc.fopen.restype = ctypes.c_void_p
libc.malloc_info(0, libc.fopen(b"/dev/stdout", b"w"))
libc.fflush(None)
together.wait()
"""


def test_a_small_run_changes_nothing() -> None:
    """A library does not touch its user's memory for a few devices."""
    assert share_arenas(99) is False


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="needs glibc")
def test_threads_of_a_large_run_share_regions() -> None:
    """However many threads allocate at once, there are no more than two regions; without it there are more."""
    counts = {}
    for devices in ("500", "1"):
        found = subprocess.run([sys.executable, "-c", _COUNTED, devices], capture_output=True, text=True, check=True)
        counts[devices] = found.stdout.count("<heap nr=")
    assert counts["500"] <= 2 < counts["1"]


def test_cycles_are_looked_for_less_often_during_a_run_alone() -> None:
    """A run holds many objects for long; the program that calls it has its own threshold back."""
    before, seen = gc.get_threshold(), []

    def look(task: Task) -> Result:
        seen.append(gc.get_threshold())
        return Result(host=task.host)

    nornir = Nornir(Inventory(hosts=Hosts(r1=Host(name="r1"))), data=GlobalState(), runner=FleetRunner(1))
    nornir.run(look)
    assert seen == [(GC_THRESHOLD, *before[1:])]
    assert gc.get_threshold() == before
