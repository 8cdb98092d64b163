"""The device's TFTP server: it serves what `tftp-server` lines name, to whom their access lists permit.

Facts
-----
* `tftp-server FS:FILE [N]`: a client asks for FILE by its name; N is a standard list of who may (Cisco command
  reference). A list that is not defined permits everybody; one that is ends with a deny for all others.
* RFC 1350: a transfer has a port of its own at each end; an error packet ends it. RFC 2347, 2348: the server answers a
  request that asks for a block size with an OACK, and takes a smaller one than asked for where it likes.
* Assumed, for no capture shows it: that IOS's server takes `blksize` up to 8192 and `tsize`, that it answers a denied
  client with `Access violation` rather than with silence, and that a request for a file that no line names gets `File
  not found`. That it serves several at once is documented nowhere.
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

from flashferry.lab.standin.flash import Pace

if TYPE_CHECKING:
    from pathlib import Path

    from flashferry.lab.standin.configuration import Line
    from flashferry.lab.standin.device import Device

PORT = 69
_READ, _WRITE, _DATA, _ACK, _ERROR, _OACK = 1, 2, 3, 4, 5, 6
_NOT_FOUND, _DENIED, _ILLEGAL = 1, 2, 4
_USUAL_BLOCK_BYTES, _LARGEST_BLOCK_BYTES = 512, 8192
_TRIES = 5
_AGAIN_S = 1.0
_POLL_S = 0.5

_FILE_LINE = re.compile(r"tftp-server (?P<system>[\w-]+):/?(?P<name>\S+)(?: alias (?P<alias>\S+))?(?: (?P<list>\d+))?")


class TftpServer:
    """The server of one device; it listens as long as its running configuration has a line for it.

    Attributes:
        loop: The loop that the device's sessions live in, once it is known.
    """

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
    """One transfer, in a thread of its own."""

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
