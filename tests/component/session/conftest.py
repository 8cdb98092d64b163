"""An SSH device of a few lines that plays one scene, for what no well-behaved device does."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import paramiko
import pytest

from flashferry.devices import netmiko_driver
from flashferry.devices.host_keys import HostKeys
from flashferry.devices.login import Login
from flashferry.devices.netmiko_driver import Connection
from inventory.host_key_rules import HostKeyPolicy
from tests.patience import PATIENCE_S, until

RSA_KEY = paramiko.RSAKey.generate(2048)
Scene = Callable[["Play"], None]


class Server(paramiko.ServerInterface):
    """Lets everybody in, and notes the password."""

    def __init__(self) -> None:
        self.password = ""

    def check_auth_password(self, username: str, password: str) -> int:
        self.password = password
        return paramiko.AUTH_SUCCESSFUL

    def get_allowed_auths(self, username: str) -> str:
        return "password"

    def check_channel_request(self, kind: str, chanid: int) -> int:
        return paramiko.OPEN_SUCCEEDED

    def check_channel_pty_request(self, *_: object) -> bool:
        return True

    def check_channel_shell_request(self, channel: paramiko.Channel) -> bool:
        return True


class Reader:
    """What our side of the sessions does: what it has read, how often it has looked for more, and its clock."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.read_bytes = 0
        self.looks = 0
        self.passed_s = 0.0
        clock = SimpleNamespace(monotonic=lambda: time.monotonic() + self.passed_s)
        monkeypatch.setattr(netmiko_driver, "time", clock)
        self.channel: paramiko.Channel | None = None
        recv, wait_for_text = paramiko.Channel.recv, Connection.wait_for_text

        def noted_recv(channel: paramiko.Channel, count: int) -> bytes:
            received: bytes = recv(channel, count)
            if not channel.get_transport().server_mode:
                self.read_bytes += len(received)
            return received

        def noted_wait(connection: Connection, limit_s: float, least_chars: int = 1) -> None:
            self.channel = connection._open_channel
            wait_for_text(connection, limit_s, least_chars)
            self.looks += 1

        monkeypatch.setattr(paramiko.Channel, "recv", noted_recv)
        monkeypatch.setattr(Connection, "wait_for_text", noted_wait)


class Play:
    """One session of the device: what it shows, and what was typed into what."""

    def __init__(self, channel: paramiko.Channel, typed: list[tuple[str, str]], reader: Reader) -> None:
        self.channel = channel
        self.typed = typed
        self._reader = reader
        self._shown_bytes = reader.read_bytes

    def show(self, text: str) -> None:
        self.show_bytes(text.encode())

    def show_bytes(self, data: bytes) -> None:
        self._shown_bytes += len(data)
        self.channel.sendall(data)

    def wait_until_read(self) -> None:
        """Wait until our side has read all that was shown: what is shown next is a piece of its own."""
        until(lambda: self._is_read or self.channel.closed, "all that was shown to be read")

    def wait_for_looks(self, count: int) -> None:
        """Wait until our side has read all that was shown, and then has looked for more so often and found nothing."""
        self.wait_until_read()
        before = self._reader.looks
        until(lambda: self._reader.looks >= before + count or self.channel.closed, f"{count} looks")

    def let_pass(self, seconds: float) -> None:
        """Let time pass for our side once it has read all that was shown and has found nothing more."""
        self.wait_for_looks(2)
        self._reader.passed_s += seconds

    def wait_for_a_key(self) -> None:
        """Wait until something is typed, and take nothing of it."""
        until(lambda: self.channel.recv_ready() or self.channel.closed, "a key")

    @property
    def _is_read(self) -> bool:
        return self._reader.read_bytes >= self._shown_bytes

    def line(self, into: str = "prompt", *, echo: bool = True, before_echo: str = "") -> str:
        """Return the line that is typed; `before_echo` is shown once its first key has come."""
        line = ""
        while (key := self.channel.recv(1).decode("latin-1")) not in ("\r", "\n"):
            if not key:
                if line:
                    self.typed.append((into, line))
                raise EOFError
            if before_echo:
                self.show(before_echo)
                self.wait_until_read()  # the redrawn prompt is a piece of its own, as on a slow path
                before_echo = ""
            line += key
            if echo:
                self.show(key)
        self.typed.append((into, line))
        self.show("\r\n")
        return line

    def key(self, into: str) -> None:
        """Note one key, and nothing more of what is typed."""
        self.typed.append((into, self.channel.recv(1).decode("latin-1")))

    def log_in(self) -> None:
        """Show a prompt and take what every login types."""
        self.show("\r\nr1#")
        for _ in range(3):
            self.line()
            self.show("r1#")

    def wait_for_the_end(self) -> None:
        """Note everything that is typed until the client hangs up."""
        while True:
            self.line("the end")


class Device:
    """Listens on a free loopback port; each session plays the scene."""

    def __init__(self, scene: Scene, folder: Path, reader: Reader, **transport: object) -> None:
        self.reader = reader
        self.typed: list[tuple[str, str]] = []
        self.server = Server()
        self.algorithms: list[str] = []
        self._scene, self._options = scene, transport
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._threads: list[threading.Thread] = []
        self._transports: list[paramiko.Transport] = []
        self._start(self._accept)
        self.known_hosts = folder / "known_hosts"

    @property
    def port(self) -> int:
        return int(self._listener.getsockname()[1])

    @property
    def login(self) -> Login:
        return Login(
            name="r1",
            address="127.0.0.1",
            port=self.port,
            username="admin",
            password="pässword",
            enable_secret=None,
            host_keys=HostKeys(path=self.known_hosts, policy=HostKeyPolicy.ACCEPT_NEW, device="r1"),
        )

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for transport in self._transports:
            transport.close()
        for thread in self._threads:
            thread.join(PATIENCE_S)
        assert not any(thread.is_alive() for thread in self._threads)

    def _start(self, target: Callable[..., None], *args: object) -> None:
        self._threads.append(threading.Thread(target=target, args=args, daemon=True))
        self._threads[-1].start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                self._start(self._serve, self._listener.accept()[0])

    def _serve(self, connection: socket.socket) -> None:
        transport = paramiko.Transport(connection, **self._options)  # type: ignore[arg-type] # options by name
        self._transports.append(transport)
        with suppress(EOFError, OSError, paramiko.SSHException):
            transport.add_server_key(RSA_KEY)
            transport.start_server(server=self.server)
            self.algorithms.append(transport.host_key_type)
            if (channel := transport.accept(PATIENCE_S)) is not None:
                self._scene(Play(channel, self.typed, self.reader))
        transport.close()


@pytest.fixture
def device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Device]]:
    """Make a device that plays a scene."""
    reader = Reader(monkeypatch)
    made: list[Device] = []

    def make(scene: Scene, **transport: object) -> Device:
        made.append(Device(scene, tmp_path, reader, **transport))
        return made[-1]

    yield make
    for one in made:
        one.close()
