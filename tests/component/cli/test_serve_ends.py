"""How `flashferry serve` ends, and what it does where its output goes nowhere: copies end well, and it is told."""

from __future__ import annotations

import contextlib
import fcntl
import ftplib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.patience import PATIENCE_S, until

pytestmark = pytest.mark.soak

SIZE_BYTES = 300_000
WORD = "Bench-2026.word"


class Serving:
    """A running `flashferry serve` with a fixed login; what it says is read by threads, unless a test wants it not."""

    def __init__(self, folder: Path, environment: dict[str, str], stdout: int, stderr: int, *arguments: str) -> None:
        self.content = (folder / "a.bin").read_bytes()
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        command = [
            sys.executable,
            "-P",
            "-m",
            "flashferry",
            "serve",
            "--image-dir",
            str(folder),
            "--listen",
            "127.0.0.1",
        ]
        self.process = subprocess.Popen(
            [*command, "--port", str(self.port), "--user", "lab", "--json", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            text=True,
            env={**os.environ, **environment},
        )
        self.said: list[str] = []
        self.events: list[dict] = []
        reads = {self._read_errors: stderr, self._read_events: stdout}
        self._readers = [threading.Thread(target=read) for read, where in reads.items() if where == subprocess.PIPE]
        for reader in self._readers:
            reader.start()

    def _read_errors(self) -> None:
        self.said.extend(self.process.stderr)

    def _read_events(self) -> None:
        for line in self.process.stdout:
            self.events.append(json.loads(line))

    def login(self) -> ftplib.FTP:
        client = ftplib.FTP()

        def is_connected() -> bool:
            with contextlib.suppress(ConnectionRefusedError):
                return bool(client.connect("127.0.0.1", self.port, timeout=PATIENCE_S))
            return False

        until(is_connected, "the server listens")
        client.login("lab", WORD)
        return client

    def slow_copy(self) -> tuple[ftplib.FTP, socket.socket]:
        """Begin a copy that goes no further before it is read."""
        client = self.login()
        host, port = client.makepasv()
        data = socket.socket()
        data.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2304)
        data.settimeout(PATIENCE_S)
        data.connect((host, port))
        client.sendcmd("RETR a.bin")
        return client, data

    def copy(self) -> bytes:
        parts: list[bytes] = []
        with self.login() as client:
            client.retrbinary("RETR a.bin", parts.append)
        return b"".join(parts)

    def child(self) -> int:
        task = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        return int(task.read_text().split()[0])

    def ended(self) -> int:
        code = self.process.wait(timeout=PATIENCE_S)
        for reader in self._readers:
            reader.join()
        return code

    def kinds(self) -> list[str]:
        return [event["event"] for event in self.events]


def read_all(data: socket.socket) -> bytes:
    parts = []
    while part := data.recv(65536):
        parts.append(part)
    return b"".join(parts)


@pytest.fixture
def serve(tmp_path: Path) -> Iterator:
    folder = tmp_path / "images"
    folder.mkdir()
    (folder / "a.bin").write_bytes(os.urandom(SIZE_BYTES))
    environment = {"FLASHFERRY_STATE_DIR": str(tmp_path / "state"), "FLASHFERRY_SERVE_PASSWORD": WORD}
    with contextlib.ExitStack() as stack:

        def start(stdout: int = subprocess.PIPE, *arguments: str, stderr: int = subprocess.PIPE) -> Serving:
            serving = Serving(folder, environment, stdout, stderr, *arguments)

            def end() -> None:
                serving.process.kill()
                serving.ended()
                for stream in (serving.process.stdout, serving.process.stderr):
                    if stream is not None:
                        stream.close()

            stack.callback(end)
            return serving

        yield start


def test_a_server_that_is_killed_is_told_and_ends_it(serve):
    """The last event is `gone` with the reason, one sentence tells it to people, and the copy is cut, not ended."""
    serving = serve()
    client, data = serving.slow_copy()
    with contextlib.closing(client), data:
        # Under way for both sides: a server that dies before the first byte has nothing to cut, nor told of a copy.
        assert data.recv(1)
        until(lambda: "start" in serving.kinds(), "the copy starts")
        os.kill(serving.child(), signal.SIGKILL)
        assert serving.ended() == 3
        with pytest.raises(ConnectionResetError):
            read_all(data)
    gone = next(event for event in serving.events if event["event"] == "gone")
    assert gone["text"] == "the server's process ended: killed by SIGKILL"
    assert [event["text"] for event in serving.events if event["event"] == "failed"] == [gone["text"]]
    (told,) = [line for line in serving.said if "error" in line]
    assert "killed by SIGKILL; what it was sending was cut. Start it again" in told


def test_a_process_that_hangs_is_reported_and_holds_up_no_end(serve):
    """By an event with what to do; asked to end, the server kills it, says so and has status 3."""
    serving = serve()
    serving.login().close()
    os.kill(serving.child(), signal.SIGSTOP)
    until(lambda: any("has not answered" in event.get("text", "") for event in serving.events), "the notice")
    serving.process.send_signal(signal.SIGTERM)
    assert serving.ended() == 3
    assert serving.events[-1]["text"] == "the server's process ended: 'main' did not answer, and was killed"
    assert any("did not answer, and was killed; what it was sending was cut" in line for line in serving.said)


def test_every_copy_under_way_at_sigterm_has_its_record(serve):
    """A hundred copies are finished and each is told as done, before the server says that it is gone."""
    serving = serve()
    copies = [serving.slow_copy() for _ in range(100)]
    serving.process.send_signal(signal.SIGTERM)
    for client, data in copies:
        with contextlib.closing(client), data:
            assert read_all(data) == serving.content
            assert client.voidresp().startswith("226")
    assert serving.ended() == 0, serving.said
    assert serving.kinds().count("done") == 100
    assert serving.kinds()[-1] == "gone"
    assert any("waiting for 100 running transfers" in line for line in serving.said)


def test_a_second_signal_ends_the_copies(serve):
    """They are cut, each with its record, and the exit is in order."""
    serving = serve()
    client, data = serving.slow_copy()
    with contextlib.closing(client), data:
        serving.process.send_signal(signal.SIGINT)
        until(lambda: any("Ctrl-C again" in line for line in serving.said), "the first signal is answered")
        serving.process.send_signal(signal.SIGINT)
        assert serving.ended() == 0
        with pytest.raises(ConnectionResetError):
            read_all(data)
    assert [event["text"] for event in serving.events if event["event"] == "failed"] == ["the server was stopped"]


def test_a_full_disk_ends_no_copy(serve):
    """Standard output takes nothing: the copy is whole, one sentence tells, and the exit code does too."""
    with open("/dev/full", "wb") as full:  # noqa: PTH123
        serving = serve(full.fileno())
        assert serving.copy() == serving.content
        assert serving.copy() == serving.content
        serving.process.send_signal(signal.SIGTERM)
        assert serving.ended() == 1
    assert [line for line in serving.said if "standard output" in line] == [
        "flashferry: standard output: No space left on device; copies go on, what is not written is left out\n"
    ]


def test_a_reader_that_leaves_ends_no_copy(serve):
    """The pipe is closed in mid-copy: it ends well, and so does the server."""
    reading, writing = os.pipe()
    serving = serve(writing)
    os.close(writing)
    client, data = serving.slow_copy()
    os.close(reading)
    with contextlib.closing(client), data:
        assert read_all(data) == serving.content
        assert client.voidresp().startswith("226")
    serving.process.send_signal(signal.SIGTERM)
    assert serving.ended() == 0
    assert [line for line in serving.said if "standard output: Broken pipe" in line]


def test_output_that_nobody_reads_ends_no_copy(serve):
    """A pipe that is full and never read: copies go on, the signal is heard, one sentence tells, and it ends."""
    reading, writing = os.pipe()
    fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, 4096)
    with contextlib.closing(os.fdopen(reading)):
        serving = serve(writing, "--sample-hz", "20")
        os.close(writing)
        for _ in range(5):
            assert serving.copy() == serving.content
        serving.process.send_signal(signal.SIGTERM)
        assert serving.ended() == 1
    assert [line for line in serving.said if "standard output: it is not read" in line]


def test_a_terminal_that_is_closed_lets_the_copy_finish(serve):
    """SIGHUP, and neither standard output nor error to write to: the copy under way is finished, then it ends."""
    master, slave = os.openpty()
    serving = serve(slave, stderr=slave)
    os.close(slave)
    client, data = serving.slow_copy()
    os.close(master)
    serving.process.send_signal(signal.SIGHUP)
    with contextlib.closing(client), data:
        assert read_all(data) == serving.content
        assert client.voidresp().startswith("226")
    assert serving.process.wait(timeout=PATIENCE_S) == 0
