"""Events and metrics of a run from the command line: what cannot be had is told before any device is touched."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.patience import PATIENCE_S

pytestmark = pytest.mark.soak

HOSTS = """\
r1:
  hostname: 127.0.0.1
  port: {port}
  platform: ios
  username: someone
  password: something-Else-7
  data: {{site: berlin}}
"""


@pytest.fixture
def device() -> Iterator[socket.socket]:
    """Something that listens where a router should, and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.setblocking(False)
        yield listening


def stage(tmp_path: Path, port: int, *arguments: str) -> subprocess.CompletedProcess[str]:
    (tmp_path / "hosts.yaml").write_text(HOSTS.format(port=port))
    (tmp_path / "groups.yaml").write_text("{}\n")
    (tmp_path / "defaults.yaml").write_text("{}\n")
    (tmp_path / "image.bin").write_bytes(b"image")
    command = [sys.executable, "-P", "-m", "flashferry", "stage", "-i", str(tmp_path), "--port", "0"]
    command += ["--image", str(tmp_path / "image.bin"), "--state-dir", str(tmp_path / "state"), *arguments]
    environment = os.environ | {"FLASHFERRY_PLAIN": "1"}
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False, env=environment)


def test_a_port_in_use_is_told_before_any_device_is_touched(tmp_path: Path, device: socket.socket):
    """A usage error in one sentence; nobody knocked at the device."""
    taken = device.getsockname()[1]
    found = stage(tmp_path, taken, "--metrics", str(taken))
    assert found.returncode == 2
    assert f"--metrics {taken}: cannot listen on 127.0.0.1 port {taken}: Address already in use" in found.stderr
    with pytest.raises(BlockingIOError):
        device.accept()


def test_events_that_nobody_can_read_are_told_before_any_device_is_touched(tmp_path: Path, device: socket.socket):
    """A named pipe without a reader is refused; waiting for one would be a run that never begins."""
    os.mkfifo(tmp_path / "pipe")
    found = stage(tmp_path, device.getsockname()[1], "--events", str(tmp_path / "pipe"))
    assert found.returncode == 2
    assert "no process reads from this pipe" in found.stderr
    with pytest.raises(BlockingIOError):
        device.accept()


def test_events_on_standard_error_are_nothing_but_events(tmp_path: Path):
    """A device that refuses the connection: each line is JSON of the schema, the last of the device is its end."""
    with socket.create_server(("127.0.0.1", 0)) as gone:
        port = gone.getsockname()[1]
    found = stage(tmp_path, port, "--events", "-", "--json", "--retries", "0")
    lines = [json.loads(line) for line in found.stderr.splitlines()]
    assert {line["schema"] for line in lines} == {"flashferry.event/1"}
    (end,) = [line for line in lines if line["step"] == "device" and line["status"] != "retry"][-1:]
    assert (end["host"], end["site"], end["status"], end["outcome"]) == ("r1", "berlin", "failed", "failed")
    assert end["failure"] == "DeviceUnreachable"
    run_id = json.loads(found.stdout)["run"]["run_id"]
    assert end["run_id"] == run_id
    assert "something-Else-7" not in found.stderr + found.stdout
