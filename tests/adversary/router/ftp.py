"""A device's FTP client: a real pull over real sockets, from the device's own address."""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

REPLY_LIMIT_S = 8.0
RECEIVE_BUFFER_BYTES = 16_384
"""A small window, so that the server sees the copy advance as the flash takes it."""
PIECE_BYTES = 8_192
LEAST_BUFFER_BYTES = 2_048
"""What is not read is hardly acknowledged: with the usual buffers a small image is taken whole before it is read."""


class FtpError(Exception):
    """What a device puts into parentheses behind `%Error opening`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """What a copy command names."""

    host: str
    port: int
    path: str
    user: str = field(repr=False)
    password: str = field(repr=False)


_URL = re.compile(r"ftp://(?:([^:@/\s]+)(?::([^@/\s]*))?@)?([^:/\s]+)(?::(\d+))?/(\S+)")


def source_of(url: str) -> Source | None:
    """Return what a URL names, or None where it is none."""
    found = _URL.fullmatch(url)
    if found is None:
        return None
    user, password, host, port, path = found.groups()
    return Source(
        host=host, port=int(port or 21), path=path, user=user or "anonymous", password=password or "router@branch"
    )


class Control:
    """The control connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def reply(self) -> tuple[int, str]:
        """Return the next reply's code and last line.

        Raises:
            FtpError: None came, or the server hung up.
        """
        while True:
            try:
                async with asyncio.timeout(REPLY_LIMIT_S):
                    line = await self._reader.readline()
            except (TimeoutError, OSError):
                raise FtpError("Timed out") from None
            text = line.decode("latin-1").rstrip("\r\n")
            if not text:
                raise FtpError("Connection reset by peer")
            if re.match(r"\d{3} ", text):
                return int(text[:3]), text

    async def command(self, text: str) -> tuple[int, str]:
        """Send a command and return its reply."""
        self._writer.write(f"{text}\r\n".encode("latin-1"))
        return await self.reply()

    def close(self) -> None:
        """Hang up."""
        self._writer.close()


@asynccontextmanager
async def opened(source: Source, address: str) -> AsyncIterator[tuple[Control, int]]:
    """Log in and yield the control connection, with the size of the file that the server tells.

    Raises:
        FtpError: It came to nothing.
    """
    reader, writer = await connected(address, source.host, source.port)
    control = Control(reader, writer)
    try:
        if (await control.reply())[0] != 220:
            raise FtpError("Protocol error")
        code, _ = await control.command(f"USER {source.user}")
        if code == 331:
            code, _ = await control.command(f"PASS {source.password}")
        if code != 230:
            raise FtpError("Incorrect Login/Password")
        await control.command("TYPE I")
        code, text = await control.command(f"SIZE {source.path}")
        yield control, int(text.split()[1]) if code == 213 else 0
    finally:
        control.close()


async def pieces(
    control: Control, source: Source, address: str, *, buffer_bytes: int = RECEIVE_BUFFER_BYTES
) -> AsyncIterator[bytes]:
    """Yield the file piece by piece; whoever takes them slowly slows the transfer.

    Args:
        control: The control connection, logged in.
        source: The file.
        address: The device's own address.
        buffer_bytes: How much the device's TCP takes before it is read, about.

    Raises:
        FtpError: The server does not give it, or breaks off.
    """
    code, text = await control.command("PASV")
    found = re.search(r"\((\d+),(\d+),(\d+),(\d+),(\d+),(\d+)\)", text)
    if code != 227 or found is None:
        raise FtpError("Protocol error")
    host, port = ".".join(found.groups()[:4]), int(found[5]) * 256 + int(found[6])
    reader, writer = await connected(address, host, port, buffer_bytes=buffer_bytes)
    try:
        code, _ = await control.command(f"RETR {source.path}")
        if code not in {125, 150}:
            raise FtpError("No such file or directory" if code == 550 else "Protocol error")
        while piece := await _read(reader):
            yield piece
    finally:
        writer.close()
    code, _ = await control.reply()
    if code != 226:
        raise FtpError("Connection reset by peer")


async def _read(reader: asyncio.StreamReader) -> bytes:
    try:
        # Not `wait_for`: before Python 3.12 it may swallow the cancellation that ends a copy with its session.
        async with asyncio.timeout(REPLY_LIMIT_S):
            return await reader.read(PIECE_BYTES)
    except TimeoutError:
        raise FtpError("Timed out") from None
    except OSError:
        raise FtpError("I/O error") from None


async def connected(
    address: str, host: str, port: int, *, buffer_bytes: int = RECEIVE_BUFFER_BYTES
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connect from the device's address.

    Raises:
        FtpError: Nobody answers.
    """
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer_bytes)
    sock.setblocking(False)
    try:
        sock.bind((address, 0))
        async with asyncio.timeout(REPLY_LIMIT_S):
            await asyncio.get_running_loop().sock_connect(sock, (host, port))
        return await asyncio.open_connection(sock=sock, limit=buffer_bytes)
    except ConnectionRefusedError:
        sock.close()
        raise FtpError("Connection refused by remote host") from None
    except (OSError, TimeoutError):
        sock.close()
        raise FtpError("Timed out") from None
    except BaseException:
        sock.close()
        raise
