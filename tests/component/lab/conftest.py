"""A plain FTP server, a session and a packet listener for the tests of the lab: peers that are not ours."""

import contextlib
import functools
import logging
import random
import select
import socket
import struct
import threading
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import netmiko
import pytest

from flashferry.lab.world import DeviceAccess, DeviceSpec, World, WorldSpec, in_core, start_world

with warnings.catch_warnings():
    # On Python 3.11 pyftpdlib imports the standard library's asyncore, which warns.
    warnings.simplefilter("ignore", DeprecationWarning)
    from pyftpdlib.authorizers import DummyAuthorizer
    from pyftpdlib.handlers import DTPHandler, FTPHandler
    from pyftpdlib.ioloop import IOLoop
    from pyftpdlib.servers import FTPServer

FTP_USER, FTP_WORD = "tester", "lab9word"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainFtp:
    """A running FTP server, its folder, and the commands it got."""

    root: Path
    address: str
    port: int
    commands: list[str]

    def url(self, name: str, *, login: str = f"{FTP_USER}:{FTP_WORD}@") -> str:
        return f"ftp://{login}{self.address}:{self.port}/{name}"

    def add(self, name: str, size_bytes: int) -> bytes:
        content = random.Random(name).randbytes(size_bytes)
        (self.root / name).write_bytes(content)
        return content


def _handler(root: Path, congestion: bytes, commands: list[str]) -> type[FTPHandler]:
    class Data(DTPHandler):
        def __init__(self, sock: socket.socket, cmd_channel: Any) -> None:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, congestion)
            super().__init__(sock, cmd_channel)

    authorizer = DummyAuthorizer()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # write permission is what the uploads are about
        authorizer.add_user(FTP_USER, FTP_WORD, str(root), perm="elrw")

    class Handler(FTPHandler):
        def pre_process_command(self, line: str, cmd: str, arg: str) -> None:
            commands.append(cmd)
            super().pre_process_command(line, cmd, arg)

    Handler.authorizer, Handler.dtp_handler = authorizer, Data
    return Handler


@contextlib.contextmanager
def plain_ftp(world: World, root: Path, congestion: bytes) -> Iterator[PlainFtp]:
    """Serve a folder in the core by stock pyftpdlib; only the congestion control is chosen."""
    logging.getLogger("pyftpdlib").setLevel(logging.ERROR)
    over = threading.Event()
    loop = IOLoop()
    commands: list[str] = []
    with in_core(world):
        server = FTPServer((world.server_address, 0), _handler(root, congestion, commands), ioloop=loop)

    def serve() -> None:
        with in_core(world):
            while not over.is_set():
                loop.loop(timeout=0.05, blocking=False)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        port = server.socket.getsockname()[1]
        yield PlainFtp(root=root, address=world.server_address, port=port, commands=commands)
    finally:
        over.set()
        thread.join()
        server.close_all()


@contextlib.contextmanager
def session(world: World, device: DeviceAccess, **more: Any) -> Iterator[Any]:
    """Open a netmiko session from the core."""
    with in_core(world):
        connection = netmiko.ConnectHandler(
            device_type="cisco_xe",
            host=device.address,
            port=device.port,
            username=device.username,
            password=device.password,
            secret=device.enable_secret,
            **more,
        )
        try:
            connection.enable()
            yield connection
        finally:
            with contextlib.suppress(OSError):
                connection.disconnect()


def copy(connection: Any, command: str, *answers: tuple[str, str], timeout_s: float = 60) -> str:
    """Type a copy command, answer its questions, and return all that was shown up to the prompt."""
    connection.write_channel(command + "\n")
    shown = ""
    for question, answer in answers:
        shown += connection.read_until_pattern(question, read_timeout=timeout_s)
        connection.write_channel(answer)
    return shown + connection.read_until_pattern(rf"\n{connection.base_prompt}#", read_timeout=timeout_s)


SYN = 0x02
SSH_PORTS = {22, 2222}


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """A TCP segment as it went over the wire; options by their number, in their order."""

    source: str
    ports: tuple[int, int]
    flags: int
    window: int
    options: dict[int, bytes]
    ttl: int
    has_df: bool


class Wire:
    """Sees the packets of the core, both ways."""

    def __init__(self, world: World) -> None:
        self._core = world.server_address
        with in_core(world):
            self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(0x0800))
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
            self.socket.setblocking(False)

    def segments(self) -> list[Segment]:
        """Return what came from devices since the last call, SSH aside."""
        found = []
        while select.select([self.socket], (), (), 0)[0]:
            packet = self.socket.recv(2048)
            if packet[9] == socket.IPPROTO_TCP:
                found.append(_segment(packet))
        return [each for each in found if each.source != self._core and not SSH_PORTS & set(each.ports)]

    def syns(self) -> list[Segment]:
        """Return the SYNs of devices since the last call."""
        return [each for each in self.segments() if each.flags == SYN]


def _segment(packet: bytes) -> Segment:
    raw = packet[(packet[0] & 15) * 4 :]
    ports = struct.unpack("!HH", raw[:4])
    return Segment(
        source=socket.inet_ntoa(packet[12:16]),
        ports=(ports[0], ports[1]),
        flags=raw[13],
        window=struct.unpack("!H", raw[14:16])[0],
        options=_options(raw[20 : (raw[12] >> 4) * 4]),
        ttl=packet[8],
        has_df=bool(packet[6] & 0x40),
    )


def _options(raw: bytes) -> dict[int, bytes]:
    options, at = {}, 0
    while at < len(raw) and raw[at]:
        if raw[at] == 1:
            at += 1
            continue
        options[raw[at]] = raw[at + 2 : at + raw[at + 1]]
        at += raw[at + 1]
    return options


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    devices = (
        DeviceSpec(name="r1"),
        DeviceSpec(name="r2", privilege=1, flash_free_bytes=1_000_000),
    )
    with start_world(WorldSpec(profile="lan", devices=devices)) as started:
        yield started


@pytest.fixture
def wire(world: World) -> Iterator[Wire]:
    listener = Wire(world)
    yield listener
    listener.socket.close()


@pytest.fixture(scope="module")
def device(world: World) -> DeviceAccess:
    return world.devices[0]


@pytest.fixture
def connection(world: World, device: DeviceAccess) -> Iterator[Any]:
    with session(world, device) as opened:
        yield opened


@pytest.fixture(scope="module")
def open_session(world: World) -> Callable[..., contextlib.AbstractContextManager[Any]]:
    """Return what opens further sessions, for a with block."""
    return functools.partial(session, world)


@pytest.fixture(name="copy")
def copy_fixture() -> Callable[..., str]:
    return copy


@pytest.fixture(scope="module")
def ftp(world: World, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PlainFtp]:
    with plain_ftp(world, tmp_path_factory.mktemp("ftp"), b"bbr") as server:
        yield server
