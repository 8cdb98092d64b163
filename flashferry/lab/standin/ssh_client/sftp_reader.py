"""SFTP version 3 without sockets, as far as a download needs it: open, attributes, reads ahead, close.

Facts (draft-ietf-secsh-filexfer-02): a packet is its length, a type, a request's number and what belongs to it; a read
may bring less than it asked for, and status 1 is the end of the file.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from flashferry.lab.standin.ssh_client.scp_sink import SinkEvents

from flashferry.lab.standin.ssh_client.scp_sink import ScpHeader, ScpProtocolError, ScpRemoteError

_INIT, _VERSION, _OPEN, _CLOSE, _READ, _FSTAT = 1, 2, 3, 4, 5, 8
_STATUS, _HANDLE, _DATA, _ATTRS = 101, 102, 103, 105
_END_OF_FILE = 1
_HAS_SIZE, _HAS_OWNER, _HAS_MODE = 1, 2, 4
_LONGEST_PACKET_BYTES = 2**18


def _string(value: bytes) -> bytes:
    return struct.pack("!I", len(value)) + value


class SftpReader:
    """Fetches one file.

    Args:
        path: The file at the server.
        answer: Sends bytes to the server.
        events: Receives what comes; ``end`` is called when the file is closed, and its answer goes nowhere.
        requests: How many reads are under way.
        read_bytes: How much each asks for.
    """

    def __init__(
        self, path: str, answer: Callable[[bytes], None], events: SinkEvents, *, requests: int, read_bytes: int
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

        Raises:
            ScpProtocolError: It is not SFTP.
            ScpRemoteError: The server has an error of its own.
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
