"""Ctrl-C in verbs that only look: once ends what is under way, twice ends at once; calmly, and with 130."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.patience import PATIENCE_S, until

HOSTS = """\
r1:
  hostname: 127.0.0.1
  port: {port}
  platform: ios
  username: someone
  password: something-Else-7
"""


class Silent:
    """What listens where a router should, takes a connection and never says a word."""

    def __init__(self) -> None:
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        self.reached = threading.Event()
        self._kept: list[socket.socket] = []
        threading.Thread(target=self._take, daemon=True).start()

    def _take(self) -> None:
        try:
            while True:
                self._kept.append(self._listening.accept()[0])
                self.reached.set()
        except OSError:
            return

    def close(self) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        for one in (self._listening, *self._kept):
            one.close()


@pytest.fixture
def router() -> Iterator[Silent]:
    silent = Silent()
    yield silent
    silent.close()


def test_who_speaks_no_ssh_is_told_in_a_sentence(tmp_path: Path):
    """A port that greets otherwise, as a line that is taken does: our words, and no traceback of a library."""
    with socket.create_server(("127.0.0.1", 0)) as router:

        def greet() -> None:
            with suppress(OSError):
                while True:
                    with router.accept()[0] as caller:
                        caller.sendall(b"no lines left\r\n")

        threading.Thread(target=greet, daemon=True).start()
        (tmp_path / "hosts.yaml").write_text(HOSTS.format(port=router.getsockname()[1]))
        done = subprocess.run(
            [sys.executable, "-P", "-m", "flashferry", "check", "-i", str(tmp_path), "--state-dir", str(tmp_path)],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        router.shutdown(socket.SHUT_RDWR)
    assert done.returncode == 3
    assert "r1" in done.stderr + done.stdout
    assert "Traceback" not in done.stderr + done.stdout


LOOKS = {
    "check": ((), "a check changes nothing"),
    "plan": (("--image", "image.bin"), "a plan changes nothing"),
    "stage": (("--image", "image.bin", "--dry-run"), "a dry run changes nothing"),
}


@pytest.mark.parametrize("verb", LOOKS)
def test_a_second_ctrl_c_ends_a_look_at_once(verb, router, tmp_path: Path):
    """A device that says nothing holds nobody up: the process is gone, a sentence says so, and JSON has it too."""
    more, sentence = LOOKS[verb]
    (tmp_path / "hosts.yaml").write_text(HOSTS.format(port=router.port))
    (tmp_path / "image.bin").write_bytes(b"image")
    words = [verb, "-i", ".", "--state-dir", "state", "--json", *more]
    said = tmp_path / "stderr"
    with (
        said.open("w") as stderr,
        subprocess.Popen(
            [sys.executable, "-P", "-m", "flashferry", *words],
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            cwd=tmp_path,
            env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[3])},
        ) as process,
    ):
        try:
            assert router.reached.wait(PATIENCE_S)
            process.send_signal(signal.SIGINT)
            # Two at once are one to the kernel.
            until(lambda: sentence in said.read_text(), lambda: f"the first to be answered: {said.read_text()}")
            process.send_signal(signal.SIGINT)
            out, _ = process.communicate(timeout=PATIENCE_S)
        finally:
            process.kill()
    err = said.read_text()
    assert process.returncode == 130
    assert err.count(sentence) == 2, err
    assert "interrupted again: ended at once" in err
    assert "Traceback" not in err
    found = json.loads(out)
    assert found["exit_code"] == 130
    assert found["meaning"] == "interrupted by the operator; nothing was changed"


SLOW_STATUS = """
import os, signal, sys, threading
import flashferry.store.status
def slow(*given):
    threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
    for _ in range(300):  # a signal that comes right before a wait is heard behind it
        threading.Event().wait(0.1)
flashferry.store.status.read_status = slow
sys.argv = ["flashferry", "status", "--json"]
from flashferry.cli.main import main
main()
"""


def test_ctrl_c_in_a_verb_that_waits_for_nobody_is_told_in_a_sentence():
    """`status` has no work to end: it says that it was interrupted, and what that means."""
    done = subprocess.run(
        [sys.executable, "-c", SLOW_STATUS], capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert done.returncode == 130
    assert done.stderr == "flashferry: interrupted; nothing was changed\n"
    assert json.loads(done.stdout)["meaning"] == "interrupted by the operator; nothing was changed"
