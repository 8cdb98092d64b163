"""TFTP as a client: RFC 1350 with blocks of 512 bytes, or those of `ip tftp blocksize` where the server takes them.

A download asks for the larger blocks with the request (RFC 2348), and acknowledges the server's answer as block 0; a
server that knows nothing of that sends its first block at once, of 512 bytes.

A server that does not answer, or whose port is closed, is waited for and ends in ``Timed out``: that IOS reads no ICMP
here is an assumption. A packet is sent again once a fifth of the patience has passed without an answer.
"""

from __future__ import annotations

import select
import socket
import struct
import threading
import time
from typing import TYPE_CHECKING

from flashferry.lab.standin.addresses import bind_to
from flashferry.lab.standin.flash import NoSpaceError
from flashferry.lab.standin.ftp_request import AbortedError, CopyError, PullHooks, TransferRequest
from flashferry.lab.standin.results import PullResult

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import BinaryIO

    from flashferry.lab.standin.connections import ConnectionTable

_READ, _WRITE, _DATA, _ACK, _ERROR, _OACK = 1, 2, 3, 4, 5, 6
_BLOCK_BYTES = 512
_TRIES = 5
_REASONS = {1: "No such file or directory", 2: "Permission denied", 3: "Not enough space on device", 6: "File exists"}


class TftpTransfer:
    """One file over TFTP, in a thread of its own; the arguments are those of an FTP transfer."""

    def __init__(self, request: TransferRequest, _connections: ConnectionTable, stop: threading.Event) -> None:
        self.request = request
        self._stop = stop
        self._peer = (request.address, request.url.port)
        self._is_answered = False
        self._block_bytes = _BLOCK_BYTES

    def abort(self) -> None:
        """Stop the transfer from another thread; its `run` then raises AbortedError."""
        self._stop.set()

    def _open(self) -> socket.socket:
        channel = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        bind_to(channel, self.request.source_address)
        return channel

    def _ask(self, channel: socket.socket, packet: bytes, requested: int, block: int, verb: str) -> bytes:
        """Send a packet until what is wanted comes back; return what stands behind its header."""
        for _ in range(_TRIES):
            self._send(channel, packet)
            until_s = time.monotonic() + self.request.reply_timeout_s / _TRIES
            while time.monotonic() < until_s:
                if self._stop.is_set():
                    raise AbortedError
                if not select.select([channel], (), (), min(0.2, max(0.0, until_s - time.monotonic())))[0]:
                    continue
                answer, peer = channel.recvfrom(65535)
                if peer[0] != self._peer[0] or (self._is_answered and peer != self._peer) or len(answer) < 4:
                    continue
                kind, number = struct.unpack("!HH", answer[:4])
                if kind == _ERROR:
                    raise CopyError(verb, _REASONS.get(number, "Undefined error"))
                if (kind, number) == (requested, block):
                    self._peer, self._is_answered = peer, True
                    return answer[4:]
                if kind == _OACK and not self._is_answered:
                    self._peer, self._is_answered = peer, True
                    self._take_options(answer[2:])
                    packet = struct.pack("!HH", _ACK, 0)
                    self._send(channel, packet)
        raise CopyError(verb if self._is_answered else "opening", "Timed out")

    def _take_options(self, options: bytes) -> None:
        words = options.split(b"\0")
        found = dict(zip(words[::2], words[1::2], strict=False))
        if found.get(b"blksize", b"").isdigit():
            self._block_bytes = int(found[b"blksize"])

    def _send(self, channel: socket.socket, packet: bytes) -> None:
        try:
            channel.sendto(packet, self._peer)
        except OSError:
            return  # no way out: nothing comes back either

    def _request(self, kind: int) -> bytes:
        packet = struct.pack("!H", kind) + self.request.url.path.encode("latin-1", "replace") + b"\0octet\0"
        if kind == _READ and self.request.block_bytes != _BLOCK_BYTES:
            packet += b"blksize\0" + str(self.request.block_bytes).encode() + b"\0"
        return packet


class TftpPull(TftpTransfer):
    """One download."""

    def run(self, hooks: PullHooks) -> PullResult:
        """Fetch the file.

        Raises:
            CopyError: It failed; the words are those the device prints.
            AbortedError: `abort` was called.
        """
        try:
            with self._open() as channel:
                return self._fetch(channel, hooks)
        except NoSpaceError as error:
            raise CopyError("copying", "Not enough space on device") from error

    def _fetch(self, channel: socket.socket, hooks: PullHooks) -> PullResult:
        chunk = self._ask(channel, self._request(_READ), _DATA, 1, "opening")
        if not hooks.may_begin():
            raise AbortedError
        started_s, size, block = time.monotonic(), 0, 1
        sink = hooks.open_sink(None)
        try:
            while True:
                sink.write(chunk)
                size += len(chunk)
                hooks.progress(size)
                acknowledgement = struct.pack("!HH", _ACK, block)
                if len(chunk) < self._block_bytes:
                    self._send(channel, acknowledgement)
                    break
                block = (block + 1) % 65536
                chunk = self._ask(channel, acknowledgement, _DATA, block, "reading")
        finally:
            sink.close()
        return PullResult(size_bytes=size, seconds=max(0.001, time.monotonic() - started_s))


class TftpPush(TftpTransfer):
    """One upload."""

    def run(self, source: BinaryIO, *, opened: Callable[[], None], progress: Callable[[int], None]) -> PullResult:
        """Store the file; arguments and errors are those of an FTP upload."""
        with self._open() as channel:
            self._ask(channel, self._request(_WRITE), _ACK, 0, "opening")
            opened()
            started_s, size, block = time.monotonic(), 0, 0
            while True:
                chunk = source.read(_BLOCK_BYTES)
                block = (block + 1) % 65536
                self._ask(channel, struct.pack("!HH", _DATA, block) + chunk, _ACK, block, "writing")
                size += len(chunk)
                progress(size)
                if len(chunk) < _BLOCK_BYTES:
                    return PullResult(size_bytes=size, seconds=max(0.001, time.monotonic() - started_s))
