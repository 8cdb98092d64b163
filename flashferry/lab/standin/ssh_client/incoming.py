"""The sink of SCP without sockets: what ``scp -f`` sends in, what a device answers out.

Facts (OpenSSH scp.c, source() and sink())
-----
The sink begins with a zero byte. The source sends ``C<mode> <size> <name>`` and a line end; after a zero byte in
answer it sends so many bytes and a zero byte; the sink's zero byte in answer to that says that it has the file. ``T``
lines carry times and are answered by a zero byte. In place of any of them a byte of 1 (warning) or 2 (fatal) and a line
of text say what is wrong, in both directions.
"""

from __future__ import annotations

import re
import struct
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flashferry.lab.standin import device_tcp
from flashferry.lab.standin.flash import NoSpaceError, Pace
from flashferry.lab.standin.ftp_client import AbortedError

if TYPE_CHECKING:
    import socket
    import threading
    from collections.abc import Callable

    from flashferry.lab.standin.faults import Faults
    from flashferry.lab.standin.ftp_client import PullHooks, Sink, TransferRequest

OK = b"\0"
_HEADER = re.compile(r"C([0-7]{3,5}) (\d{1,19}) ([^/\0]+)")
_LONGEST_LINE_BYTES = 4096


class ScpProtocolError(Exception):
    """The source said something that is not SCP."""


class ScpRemoteError(Exception):
    """The source said what is wrong on its side; ``is_late``: after the file had started."""

    def __init__(self, text: str, *, is_late: bool) -> None:
        super().__init__(text)
        self.is_late = is_late


@dataclass(frozen=True, slots=True, kw_only=True)
class ScpHeader:
    """What the source announces: its line as it stands, and what that says."""

    line: str
    size_bytes: int
    name: str


def refusal(text: str) -> bytes:
    """Return the answer of a sink that does not take a file, or has lost it."""
    return b"\1" + text.encode() + b"\n"


class ScpSink:
    """Takes one file: `answer` sends bytes to the source, `events` receives what comes."""

    def __init__(self, answer: Callable[[bytes], None], events: IncomingFile) -> None:
        self._answer = answer
        self._events = events
        self._line = b""
        self._left: int | None = None
        self.is_done = False

    def start(self) -> None:
        """Say that the sink is ready."""
        self._answer(OK)

    def refuse(self, text: str) -> None:
        """Say that the file is not taken."""
        self._answer(refusal(text))

    def feed(self, data: bytes) -> None:
        """Take what came.

        Raises ScpProtocolError: it is not SCP; ScpRemoteError: the source has an error of its own.
        """
        while data:
            if self._left is None:
                data = self._header(data)
            elif self._left:
                chunk, data = data[: self._left], data[self._left :]
                self._left -= len(chunk)
                self._events.write(chunk)
            else:
                data = self._status(data)

    def _header(self, data: bytes) -> bytes:
        line, end, rest = data.partition(b"\n")
        self._line += line
        if len(self._line) > _LONGEST_LINE_BYTES:
            raise ScpProtocolError("a line is too long")
        if not end:
            return b""
        text, self._line = self._line.decode("latin-1"), b""
        if self.is_done:
            return rest
        if text[:1] in {"\1", "\2"}:
            raise ScpRemoteError(text[1:], is_late=False)
        if text[:1] == "T":
            self._answer(OK)
            return rest
        found = _HEADER.fullmatch(text)
        if found is None:
            raise ScpProtocolError("a file's line was expected")
        self._events.begin(ScpHeader(line=text, size_bytes=int(found[2]), name=found[3]))
        self._left = int(found[2])
        self._answer(OK)
        return rest

    def _status(self, data: bytes) -> bytes:
        """Take the byte after the file: zero says that all of it was read at the source."""
        if data[:1] != OK:
            raise ScpRemoteError(data[1:].decode("latin-1").strip(), is_late=True)
        self._left = None
        self.is_done = True
        self._answer(self._events.end())
        return data[1:]


NO_SPACE = "No space left on device"


class SinkRefusedError(Exception):
    """The sink said at the end that it does not have the file, though all of it came."""


class IncomingFile:
    """One file of a copy, as the sink or the reader gets it; ends by `stop`."""

    def __init__(
        self, request: TransferRequest, hooks: PullHooks, announce: Callable[[str], None], stop: threading.Event,
        faults: Faults,
    ) -> None:  # fmt: skip
        self._request = request
        self._hooks = hooks
        self._announce = announce
        self._stop = stop
        self._faults = faults
        self._sink: Sink | None = None
        self._lost: Exception | None = None
        self._pace: Pace | None = None
        self._socket: socket.socket | None = None
        self.size_bytes = 0
        self.came_s = time.monotonic()
        self.finished_s: float | None = None
        self.on_end: Callable[[], None] = lambda: None
        self.on_rekey: Callable[[], None] = lambda: None
        self.on_channel_end: Callable[[], None] = lambda: None
        self.on_break: Callable[[], None] = lambda: None

    def comes_by(self, connection: socket.socket, crypto_bytes_per_s: float | None) -> None:
        """Say by which connection it comes, and how fast the device decrypts it; None for at once."""
        speed = self._faults.ssh_crypto_bytes_per_s or crypto_bytes_per_s
        self._socket = connection
        self._pace = Pace(speed, self._stop) if speed else None
        self.came_s = time.monotonic()

    def begin(self, header: ScpHeader) -> None:
        """Ask, announce, open; raises what refuses the file."""
        if not self._hooks.may_begin():
            raise AbortedError
        self._announce(header.line)
        self._sink = self._hooks.open_sink(header.size_bytes)
        self._stop.wait(self._request.silent_start_s)

    def write(self, chunk: bytes) -> None:
        """Decrypt, that is wait as long as that takes, and write."""
        assert self._sink is not None
        assert self._socket is not None
        if not self.size_bytes:
            device_tcp.after_first_data(self._socket, self._request.tcp.window_bytes)
        device_tcp.acknowledge(self._socket)
        if self._pace is not None:
            self._pace.spend(len(chunk))
        before_bytes, self.size_bytes = self.size_bytes, self.size_bytes + len(chunk)
        if self._lost is None:
            try:
                self._sink.write(chunk)
            except NoSpaceError as error:
                # OpenSSH's sink takes the rest too, and says at the end that it was lost; that IOS does is assumed.
                self._lost = error
        self._hooks.progress(self.size_bytes)
        self.came_s = time.monotonic()
        if self._stop.is_set():
            raise AbortedError
        if _crosses(self._faults.ssh_rekey_after_bytes, before_bytes, self.size_bytes):
            self.on_rekey()
        if _crosses(self._faults.ssh_channel_ends_after_bytes, before_bytes, self.size_bytes):
            self.on_channel_end()
        if _crosses(self._faults.ssh_bulk_mode_breaks_after_bytes, before_bytes, self.size_bytes):
            self.on_break()

    def end(self) -> bytes:
        """Close the file; return the last answer: `OK`, or `refusal` with a text."""
        self.close()
        self.finished_s = time.monotonic()
        if self._faults.ssh_sink_error is not None and self._lost is None:
            is_space = "space" in self._faults.ssh_sink_error
            self._lost = NoSpaceError() if is_space else SinkRefusedError(self._faults.ssh_sink_error)
        self.on_end()
        return OK if self._lost is None else refusal(self._faults.ssh_sink_error or NO_SPACE)

    def close(self) -> None:
        """Close the file, whatever became of it."""
        if self._sink is not None:
            self._sink.close()
            self._sink = None

    def check(self) -> None:
        """Raise what the last answer was about.

        Raises NoSpaceError: it did not fit; SinkRefusedError: it was lost for another reason.
        """
        if self._lost is not None:
            raise self._lost


def _crosses(limit: int | None, before: int, now: int) -> bool:
    return limit is not None and before < limit <= now


_INIT, _VERSION, _OPEN, _CLOSE, _READ, _FSTAT = 1, 2, 3, 4, 5, 8
_STATUS, _HANDLE, _DATA, _ATTRS = 101, 102, 103, 105
_END_OF_FILE = 1
_HAS_SIZE, _HAS_OWNER, _HAS_MODE = 1, 2, 4
_LONGEST_PACKET_BYTES = 2**18


def _string(value: bytes) -> bytes:
    return struct.pack("!I", len(value)) + value


class SftpReader:
    """Fetches one file with so many `requests` of `read_bytes` under way; `events.end` is called at its end."""

    def __init__(
        self, path: str, answer: Callable[[bytes], None], events: IncomingFile, *, requests: int, read_bytes: int
    ) -> None:  # fmt: skip
        self._path = path
        self._answer = answer
        self._events = events
        self._requests = requests
        self._read_bytes = read_bytes
        self._held = b""
        self._number = 0
        self._handle = b""
        self._asked: dict[int, tuple[int, int]] = {}
        self._early: dict[int, bytes] = {}
        self._next_read = self._next_write = 0
        self._size = 0
        self.is_done = False

    def start(self) -> None:
        """Say hello."""
        self._answer(struct.pack("!IBI", 5, _INIT, 3))

    def refuse(self, _text: str) -> None:
        """Close the file: SFTP has no word for what is wrong here."""
        self.is_done = True
        self._send(_CLOSE, self._handle)

    def feed(self, data: bytes) -> None:
        """Take what came.

        Raises ScpProtocolError: it is not SFTP; ScpRemoteError: the server has an error of its own.
        """
        self._held += data
        while len(self._held) >= 4:
            length = struct.unpack_from("!I", self._held)[0]
            if not 0 < length <= _LONGEST_PACKET_BYTES:
                raise ScpProtocolError("an SFTP packet of a wrong length")
            if len(self._held) < 4 + length:
                return
            packet, self._held = self._held[4 : 4 + length], self._held[4 + length :]
            try:
                self._packet(packet[0], packet[1:])
            except struct.error as error:
                raise ScpProtocolError("an SFTP packet that ends early") from error

    def _packet(self, kind: int, body: bytes) -> None:
        if kind == _VERSION:
            self._send(_OPEN, _string(self._path.encode("latin-1", "replace")), struct.pack("!II", 1, 0))
            return
        number = struct.unpack_from("!I", body)[0]
        body = body[4:]
        if kind == _HANDLE:
            self._handle = body
            self._send(_FSTAT, self._handle)
        elif kind == _ATTRS:
            self._attributes(body)
        elif kind == _DATA and number in self._asked:
            self._data(*self._asked.pop(number), body[4:])
        elif kind == _STATUS:
            self._status(number, struct.unpack_from("!I", body)[0], body[4:])
        else:
            raise ScpProtocolError(f"an SFTP packet of kind {kind}")

    def _attributes(self, body: bytes) -> None:
        flags = struct.unpack_from("!I", body)[0]
        if not flags & _HAS_SIZE:
            raise ScpProtocolError("a file without a size")
        self._size = struct.unpack_from("!Q", body, 4)[0]
        at = 12 + (8 if flags & _HAS_OWNER else 0)
        mode = struct.unpack_from("!I", body, at)[0] & 0o7777 if flags & _HAS_MODE else 0o644
        name = self._path.rpartition("/")[2]
        line = f"C{mode:04o} {self._size} {name}"
        self._events.begin(ScpHeader(line=line, size_bytes=self._size, name=name))
        self._ask_on()

    def _ask_on(self) -> None:
        """Keep the reads ahead; with nothing left to read, close."""
        while self._next_read < self._size and len(self._asked) < self._requests:
            length = min(self._read_bytes, self._size - self._next_read)
            self._read(self._next_read, length)
            self._next_read += length
        if self._next_write == self._size and not self._asked and not self.is_done:
            self.is_done = True
            self._events.end()
            self._send(_CLOSE, self._handle)

    def _read(self, offset: int, length: int) -> None:
        self._asked[self._number] = (offset, length)
        self._send(_READ, self._handle, struct.pack("!QI", offset, length))

    def _data(self, offset: int, requested: int, chunk: bytes) -> None:
        if not chunk or len(chunk) > requested:
            raise ScpProtocolError("a read that brought nothing or too much")
        if len(chunk) < requested:
            self._read(offset + len(chunk), requested - len(chunk))
        self._early[offset] = chunk
        while self._next_write in self._early:
            piece = self._early.pop(self._next_write)
            self._next_write += len(piece)
            self._events.write(piece)
        self._ask_on()

    def _status(self, number: int, code: int, rest: bytes) -> None:
        if self.is_done:
            return
        length = struct.unpack_from("!I", rest)[0] if len(rest) >= 4 else 0
        text = rest[4 : 4 + length].decode("utf-8", "replace")
        is_late = number in self._asked
        if code == _END_OF_FILE and is_late:
            raise ScpRemoteError("the file ends early", is_late=True)
        raise ScpRemoteError(text, is_late=is_late)

    def _send(self, kind: int, *parts: bytes) -> None:
        body = b"".join(parts)
        head = struct.pack("!BI", kind, self._number) if kind != _INIT else bytes([kind])
        self._number = (self._number + 1) % 2**32
        self._answer(struct.pack("!I", len(head) + len(body)) + head + body)
