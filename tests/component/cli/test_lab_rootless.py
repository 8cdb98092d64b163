"""`flashferry lab up` without root: a user namespace carries the lab, and the rung it reached is printed."""

import contextlib
import json
import os
import re
import select
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.patience import PATIENCE_S

pytestmark = [pytest.mark.lab, pytest.mark.soak]

UP = (sys.executable, "-P", "-m", "flashferry", "lab", "up", "--json")
AS_ORDINARY_USER = ("unshare", "-U", "--map-user=1000", "--map-group=1000", "--")
AS_MAPPED_ROOT = ("unshare", "-Urm", "--", "sh", "-c")


@pytest.fixture(scope="module", autouse=True)
def user_namespaces() -> None:
    """Skip, with the reason, where an ordinary user may not have a user namespace."""
    if shutil.which("unshare") is None:
        pytest.skip("unshare (util-linux) is not installed")
    tried = subprocess.run([*AS_ORDINARY_USER, "unshare", "-Ur", "true"], check=False, capture_output=True, text=True)
    if tried.returncode:
        pytest.skip(f"user namespaces are not allowed here: {tried.stderr.strip()}")


def _environment(folder: Path) -> dict[str, str]:
    return os.environ | {"XDG_RUNTIME_DIR": str(folder)}


def _told(lab: "subprocess.Popen[str]") -> dict[str, object]:
    """Return what the lab tells when it is up."""
    return dict(json.loads(_shown(lab, "\n}\n")))


def _shown(lab: "subprocess.Popen[str]", end: str) -> str:
    """Return what the lab shows up to an end; read by the descriptor, for select sees nothing of a stream's buffer."""
    text = ""
    while not text.endswith(end):
        assert select.select([lab.stdout], (), (), PATIENCE_S)[0], f"the lab did not come up: {text}"
        piece = os.read(lab.stdout.fileno(), 65536).decode()
        assert piece, lab.stderr.read()
        text += piece
    return text


@contextlib.contextmanager
def _up(folder: Path, command: Sequence[str]) -> Iterator["subprocess.Popen[str]"]:
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=folder, env=_environment(folder)
    ) as lab:
        try:
            yield lab
        finally:
            lab.send_signal(signal.SIGINT)
            try:
                assert lab.wait(timeout=PATIENCE_S) == 0
            finally:
                lab.kill()


def _inside(folder: Path, code: str) -> "subprocess.CompletedProcess[str]":
    """Run Python where the lab's routers are, from outside its user namespace."""
    command = [sys.executable, "-P", "-m", "flashferry", "lab", "exec", "--", sys.executable, "-c", code]
    return subprocess.run(
        command, check=False, capture_output=True, text=True, timeout=PATIENCE_S, cwd=folder, env=_environment(folder)
    )


def _greeting(folder: Path, told: dict[str, object]) -> str:
    """Return the first bytes of the lab's first router, asked from outside."""
    first = told["devices"][0]
    where = (first["address"], first["port"])
    code = f"import socket; print(socket.create_connection({where!r}, timeout={PATIENCE_S}).recv(4).decode())"
    return _inside(folder, code).stdout.strip()


def test_a_user_namespace_carries_the_whole_lab(tmp_path: Path) -> None:
    """User 1000 gets the WAN where /dev/net/tun may be opened, else the next rung; `lab exec` finds it from outside."""
    with _up(tmp_path, [*AS_ORDINARY_USER, *UP]) as lab:
        told = _told(lab)
        has_tun = os.access("/dev/net/tun", os.R_OK | os.W_OK)
        expected = "namespaces with an emulated WAN" if has_tun else "namespaces without a WAN"
        assert str(told["rung"]).startswith(expected)
        assert (told["reason"] is None) == has_tun
        assert _greeting(tmp_path, told) == "SSH-"
    assert list(tmp_path.glob("*.json")) == []


@pytest.mark.parametrize(
    ("taken_away", "rung", "reason"),
    [
        ("mount -t tmpfs none /dev/net", "namespaces without a WAN", r"/dev/net/tun is missing.*modprobe tun"),
        ("echo 0 >/proc/sys/user/max_net_namespaces", "plain loopback", "refused a new network namespace"),
    ],
)
def test_what_is_missing_leaves_a_lower_rung_that_says_so(
    tmp_path: Path, taken_away: str, rung: str, reason: str
) -> None:
    """Without TUN, and without namespaces, the lab still comes up; its rung and the reason are told."""
    with _up(tmp_path, [*AS_MAPPED_ROOT, f'{taken_away} && exec "$@"', "sh", *UP]) as lab:
        told = _told(lab)
        assert str(told["rung"]).startswith(rung)
        assert re.search(reason, str(told["reason"]))
        assert _greeting(tmp_path, told) == "SSH-"


def test_people_are_told_that_there_is_no_wan(tmp_path: Path) -> None:
    """The text for people names the rung first, then that no figure of this lab stands for a WAN."""
    hide = 'mount -t tmpfs none /dev/net && exec "$@"'
    with _up(tmp_path, [*AS_MAPPED_ROOT, hide, "sh", *UP[:-1]]) as lab:
        first, second = _shown(lab, "lab ssh xe1\n").splitlines()[:2]
        assert first.startswith("The lab is up: namespaces without a WAN: no round-trip time, no loss, no rate.")
        assert second.startswith("No WAN here, so no figure of this lab stands for one. /dev/net/tun is missing")


GIVEN_TO_ANOTHER_THREAD = """
import signal, sys, threading, time
from flashferry.cli.main import main
from flashferry.lab.state import read_state

def send():
    while read_state() is None:
        time.sleep(0.05)
    time.sleep(1)
    signal.pthread_kill(threading.get_ident(), signal.SIGINT)

threading.Thread(target=send, daemon=True).start()
sys.argv = ["flashferry", "lab", "up"]
main()
"""


def test_a_signal_that_the_main_thread_is_not_given_ends_the_lab_too(tmp_path: Path) -> None:
    """As one that comes in the instant before it begins to wait: it is heard of all the same."""
    done = subprocess.run(
        ["unshare", "-Ur", "--", sys.executable, "-P", "-c", GIVEN_TO_ANOTHER_THREAD],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
        cwd=tmp_path,
        env=_environment(tmp_path),
    )
    assert (done.returncode, "The lab is up" in done.stdout) == (0, True), done.stderr
    assert list(tmp_path.glob("*.json")) == []
