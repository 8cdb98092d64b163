"""TFTP as a client: RFC 1350 with blocks of 512 bytes, or those of `ip tftp blocksize` where the server takes them.

A download asks for the larger blocks with the request (RFC 2348), and acknowledges the server's answer as block 0; a
server that knows nothing of that sends its first block at once, of 512 bytes.

A server that does not answer, or whose port is closed, is waited for and ends in ``Timed out``: that IOS reads no ICMP
here is an assumption. A packet is sent again once a fifth of the patience has passed without an answer.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import select
import socket
import struct
import threading
import time
from typing import TYPE_CHECKING

from flashferry.lab.standin.connections import bind_to
from flashferry.lab.standin.flash import NoSpaceError, Pace
from flashferry.lab.standin.ftp_client import AbortedError, CopyError, PullHooks, TransferRequest
from flashferry.lab.standin.server_url import PullResult

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from typing import BinaryIO

    from flashferry.lab.standin.configuration import Line
    from flashferry.lab.standin.connections import ConnectionTable
    from flashferry.lab.standin.device import Device

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
        """Send a packet until what is expected comes back; return what stands after its header."""
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

        Raises CopyError: it failed; the words are those the device prints; AbortedError: `abort` was called.
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


PORT = 69
_NOT_FOUND, _DENIED, _ILLEGAL = 1, 2, 4
_USUAL_BLOCK_BYTES, _LARGEST_BLOCK_BYTES = 512, 8192
_AGAIN_S = 1.0
_POLL_S = 0.5
_FILE_LINE = re.compile(r"tftp-server (?P<system>[\w-]+):/?(?P<name>\S+)(?: alias (?P<alias>\S+))?(?: (?P<list>\d+))?")


class TftpServer:
    """The server of one device; it listens as long as its running configuration has a line for it."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self._lock = threading.Lock()
        self._stop: threading.Event | None = None
        self.loop: asyncio.AbstractEventLoop | None = None

    def follow(self) -> None:
        """Listen, or not, as the running configuration says."""
        with contextlib.suppress(RuntimeError):  # before the devices of a site are up there is no loop
            self.loop = asyncio.get_running_loop()
        is_requested = any(_FILE_LINE.fullmatch(line.text) for line in self._device.running.lines())
        with self._lock:
            if is_requested and self._stop is None:
                self._start()
            elif not is_requested:
                self._end()

    def stop(self) -> None:
        """Stop to listen, and break off what is under way, as without power."""
        with self._lock:
            self._end()

    def _start(self) -> None:
        port = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            port.bind((self._device.settings.address, PORT))
        except OSError as error:
            port.close()
            self._device.happened.append(f"tftp: cannot listen: {error.strerror}")
            return
        self._stop = threading.Event()
        threading.Thread(target=self._listen, args=(port, self._stop), daemon=True).start()

    def _end(self) -> None:
        if self._stop is not None:
            self._stop.set()
            self._stop = None

    def _listen(self, port: socket.socket, stop: threading.Event) -> None:
        with port:
            while not stop.is_set():
                if not select.select([port], (), (), _POLL_S)[0]:
                    continue
                packet, peer = port.recvfrom(2048)
                if not stop.is_set() and packet[:2] == struct.pack("!H", _READ):
                    served = _Serving(self._device, peer, packet[2:], stop)
                    threading.Thread(target=served.run, daemon=True).start()


class _Serving:
    def __init__(self, device: Device, peer: tuple[str, int], request: bytes, stop: threading.Event) -> None:
        self._device, self._peer, self._stop = device, peer, stop
        words = [word.decode("latin-1") for word in request.split(b"\0")]
        self._name = words[0]
        self._options = {words[at].lower(): words[at + 1] for at in range(2, len(words) - 1, 2) if words[at]}
        self._block_bytes = _USUAL_BLOCK_BYTES

    def run(self) -> None:
        """Serve the file, or say why not."""
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as channel:
            try:
                channel.bind((self._device.settings.address, 0))
                self._serve(channel)
            except OSError:
                return  # the client is gone, or the device has lost its address

    def _serve(self, channel: socket.socket) -> None:
        found = self._find()
        if isinstance(found, int):
            texts = {_NOT_FOUND: b"File not found", _DENIED: b"Access violation"}
            channel.sendto(struct.pack("!HH", _ERROR, found) + texts[found] + b"\0", self._peer)
            self._device.happened.append(f"tftp: refused {self._name} to {self._peer[0]}")
            return
        self._device.happened.append(f"tftp: serves {self._name} to {self._peer[0]}")
        answered = self._answered_options(found)
        if answered and not self._sent(channel, struct.pack("!H", _OACK) + answered, 0):
            return
        self._send_file(channel, found)

    def _find(self) -> Path | int:
        """Return where the host keeps the file, or the number of the error."""
        running = self._device.running
        is_named = False
        for line in running.lines():
            found = _FILE_LINE.fullmatch(line.text)
            if found is None or self._name.lstrip("/") not in (found["alias"] or found["name"], found["name"]):
                continue
            is_named = True
            flash = self._device.file_system(found["system"])
            entry = flash.find(found["name"]) if flash is not None else None
            if entry is not None and permits(running.lines(), found["list"], self._peer[0]):
                return entry.path
        return _DENIED if is_named else _NOT_FOUND

    def _answered_options(self, path: Path) -> bytes:
        answered = b""
        asked = self._options.get("blksize", "")
        if asked.isdecimal() and int(asked) >= 8:
            self._block_bytes = min(int(asked), _LARGEST_BLOCK_BYTES)
            answered += b"blksize\0" + str(self._block_bytes).encode() + b"\0"
        if "tsize" in self._options:
            answered += b"tsize\0" + str(path.stat().st_size).encode() + b"\0"
        return answered

    def _send_file(self, channel: socket.socket, path: Path) -> None:
        faults = self._device.faults
        rate = faults.tftp_serves_bytes_per_s
        pace = Pace(rate, self._stop) if rate else None
        sent, block = 0, 0
        with path.open("rb") as file:
            while not self._stop.is_set():
                chunk = file.read(self._block_bytes)
                if faults.tftp_serves_wrong_bytes and chunk and not sent:
                    chunk = bytes([chunk[0] ^ 0xFF]) + chunk[1:]
                block = (block + 1) % 65536
                if not self._sent(channel, struct.pack("!HH", _DATA, block) + chunk, block):
                    return
                sent += len(chunk)
                if pace is not None:
                    pace.spend(len(chunk))
                if len(chunk) < self._block_bytes:
                    self._device.happened.append(f"tftp: served {sent} bytes to {self._peer[0]}")
                    return
                if self._restarts(sent):
                    return

    def _restarts(self, sent: int) -> bool:
        """Restart the device in the middle of it where that is switched on, once."""
        limit, loop = self._device.faults.tftp_reboots_after_bytes, self._device.tftp.loop
        if limit is None or sent < limit or loop is None:
            return False
        self._stop.set()
        loop.call_soon_threadsafe(self._device.restart)
        return True

    def _sent(self, channel: socket.socket, packet: bytes, block: int) -> bool:
        """Send a packet until it is acknowledged; False where the client is gone, or it is all over."""
        requested = struct.pack("!HH", _ACK, block)
        for _ in range(_TRIES):
            channel.sendto(packet, self._peer)
            until_s = time.monotonic() + _AGAIN_S
            while (left_s := until_s - time.monotonic()) > 0 and not self._stop.is_set():
                if not select.select([channel], (), (), min(left_s, _POLL_S))[0]:
                    continue
                answer, peer = channel.recvfrom(2048)
                if peer != self._peer:
                    with contextlib.suppress(OSError):
                        channel.sendto(struct.pack("!HH", _ERROR, _ILLEGAL) + b"\0", peer)
                elif answer[:4] == requested:
                    return True
                elif answer[:2] == struct.pack("!H", _ERROR):
                    return False
            if self._stop.is_set():
                return False
        return False


def permits(lines: list[Line], number: str | None, address: str) -> bool:
    """Return whether a standard list of hosts permits an address; no number and no list of it permit every host."""
    rows = [] if number is None else _rows(lines, number)
    if not rows:
        return True
    for row in rows:
        words = [word for word in row.split() if word not in {"host", "log"} and not word.isdecimal()]
        if words[0] in {"permit", "deny"} and words[1] in {"any", address}:
            return words[0] == "permit"
    return False


def _rows(lines: list[Line], number: str) -> list[str]:
    """Return what a list says, in either of the two forms that releases show."""
    flat = [line.text.split(maxsplit=2)[2] for line in lines if line.text.startswith(f"access-list {number} ")]
    heads = (line for line in lines if line.text == f"ip access-list standard {number}")
    return flat + [child.text for head in heads for child in head.children]
