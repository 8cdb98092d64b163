"""Commands that are run and watched: what they took, what they said, and how they are ended."""

import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from flashferry.depot.probing.copying import (
    bare_tcp,
    connect_s,
    disk_here,
    has_children,
    rate_by_dd,
    reaped_s,
    run_pipeline,
)
from tests.patience import PATIENCE_S

BUSY = [sys.executable, "-c", "import time; t = time.process_time()\nwhile time.process_time() - t < 0.3: pass"]


def test_a_pipeline_hands_on_and_keeps_what_the_last_one_prints():
    """Each reads what the one before it writes, the first what it is given."""
    ran = run_pipeline([["cat"], ["tr", "a-z", "A-Z"]], stdin="words", keeps_output=True)
    assert (ran.output, ran.code, ran.error) == (b"WORDS", 0, "")


def test_processor_time_is_of_all_processes():
    """Two that end when they have taken 0.3 s each have taken 0.6 s, and how long the busiest was busy is seen."""
    ran = run_pipeline([BUSY, BUSY])
    assert ran.cpu_s >= 0.6
    assert ran.busy_s is not None


def test_the_first_failure_is_told_with_its_words():
    """Also where those behind it succeed."""
    ran = run_pipeline([["sh", "-c", "echo no room >&2; exit 3"], ["cat"]])
    assert (ran.code, ran.error.strip()) == (3, "no room")


def test_a_pipeline_ends_in_time():
    """A program that hangs is ended, with all that it started."""
    with ThreadPoolExecutor(1) as pool:
        command = ["sh", "-c", f"sleep {2 * PATIENCE_S:.0f} & wait"]
        ran = pool.submit(run_pipeline, [command, ["cat"]], limit_s=0.2).result(PATIENCE_S)
    assert ran.code < 0


def test_an_interruption_ends_it():
    """As Ctrl-C does."""
    looks = iter((False, False))
    assert run_pipeline([["sleep", f"{2 * PATIENCE_S:.0f}"]], interrupted=lambda: next(looks, True)).code < 0


def test_a_program_that_is_not_there_is_told_and_leaves_none_running():
    """The others of the pipeline are ended."""
    with pytest.raises(OSError, match="no-such-program"):
        run_pipeline([["sleep", "30"], ["no-such-program"]])


def test_a_process_that_is_gone_is_not_seen():
    """And is no error."""
    assert reaped_s(2**22 + 1) is None
    assert not has_children(2**22 + 1)


@pytest.mark.parametrize(
    ("text", "rate"),
    [
        ("64+0 records in\n64+0 records out\n67108864 bytes (67 MB, 64 MiB) copied, 0.5 s, 134 MB/s", 134217728.0),
        ("104857600 bytes (105 MB) copied, 2e-1 s, 524 MB/s", 524288000.0),
        ("67108864 bytes transferred in 0.5 secs", None),
        ("dd: failed to open", None),
    ],
)
def test_dd_tells_its_rate(text, rate):
    """GNU's; what another one says is not guessed at."""
    assert rate_by_dd(text) == rate


def test_the_disk_here_is_measured_and_left_clean(tmp_path):
    """Nothing stays in the folder."""
    wrote, read = disk_here(tmp_path, 4 << 20)
    assert wrote > 0
    assert read > 0
    assert not list(tmp_path.iterdir())


def test_a_port_that_nobody_listens_on_is_no_round_trip():
    """None, and no error."""
    assert connect_s("127.0.0.1", 1) is None


@pytest.mark.parametrize("direction", ["pull", "push"])
def test_bare_tcp_is_timed_by_its_receiver(direction):
    """Zeros over the loopback, whole."""
    import socket
    import subprocess

    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    running = []

    def start(command: str) -> None:
        running.append(subprocess.Popen(["sh", "-c", f"exec {command}"], stdout=subprocess.DEVNULL))

    rate = bare_tcp((), start, "127.0.0.1", port, size_bytes=8 << 20, direction=direction, far_python=sys.executable)
    for one in running:
        one.wait(PATIENCE_S)
    assert rate is not None
    assert rate > 0


def test_bare_tcp_that_comes_to_nothing_is_none():
    """Nobody listens at the far end."""
    assert bare_tcp((), lambda _: None, "127.0.0.1", 1, size_bytes=1000, direction="pull") is None
