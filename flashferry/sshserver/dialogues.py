"""Sending an image over an SSH channel, and the dialogue with its client."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from flashferry.fileserver import sockets
from flashferry.fileserver.image_stream import Ending, ImageSending, Retrieval
from flashferry.sshserver import scp
from flashferry.sshserver.scp import Kind, Request, Status
from flashferry.tcp.sample import ChannelReading
from flashferry.tcp.tcp_info import parse_tcp_info

if TYPE_CHECKING:
    from flashferry.fileserver.image_stream import Retrieval, SendingHost
    from flashferry.fileserver.protocol import Client
    from flashferry.fileserver.transfer import TransferStart
    from flashferry.images.image import ImageFile
    from flashferry.sshserver.connection import Channel, Connection
    from flashferry.sshserver.session import Session

_MOST_PIECES = 1000

NAME = "SSH connection"
"""Name of the connection in failure reasons."""


class ChannelWriter:
    """Writes an image to a channel, and counts acknowledged bytes; a `Writer` of `flashferry.fileserver.image_stream`.

    Args:
        connection: The connection.
        channel: The channel on it.
        trailer: Bytes that follow the image.
        first_window_bytes: The client's initial window.
    """

    may_half_close = False

    def __init__(
        self, connection: Connection, channel: Channel, trailer: bytes = b"", first_window_bytes: int = 0
    ) -> None:
        self._connection, self._channel, self._trailer = connection, channel, trailer
        self._window_bytes = first_window_bytes
        self._known_bytes = 0
        self.payload_bytes = 0

    @property
    def has_space(self) -> bool:
        """Whether a piece may be written now."""
        return self._connection.has_space and self._channel.takes_data

    def send(self, file_descriptor: int, offset_bytes: int, most_bytes: int) -> int:
        """Write a piece, see `Writer`."""
        if not self.has_space:
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        self._note_window()
        data = os.pread(file_descriptor, min(most_bytes, self._connection.piece_bytes(self._channel)), offset_bytes)
        if data:
            self.payload_bytes += len(data)
            self._connection.send_data(self._channel, data)
        return len(data)

    def will_send(self, payload_bytes: int) -> None:
        """Count bytes of the image that are sent in this turn for the first time."""
        self._note_window()
        self.payload_bytes += payload_bytes

    def finish(self) -> None:
        """Write the trailer."""
        if self._trailer:
            self._connection.send_data(self._channel, self._trailer)

    def payload_of(self, acked_bytes: int) -> int:
        """Return the least number of image bytes among the acknowledged bytes of the connection. Never decreases."""
        self._known_bytes = max(self._known_bytes, self.payload_bytes - (self._connection.sent_bytes - acked_bytes))
        return self._known_bytes

    def reading(self, asked_bytes: int | None = None) -> ChannelReading | None:
        """Return the state of the channel, with the requested bytes for SFTP; None if the connection is closed."""
        if not self._connection.is_open:
            return None
        self._note_window()
        waiting, window = self._channel.waiting_bytes, self._window_bytes or None
        return ChannelReading(waiting_bytes=waiting, window_bytes=window, asked_bytes=asked_bytes)

    def _note_window(self) -> None:
        self._window_bytes = max(self._window_bytes, self._channel.window_bytes)


class ChannelSending(ImageSending):
    """Transfer of an image through a channel.

    Args:
        client: The client.
        host: Its session.
        retrieval: The image to send.
        raw_info: TCP_INFO of the connection.
        transport: `scp` or `sftp`.
        connection: The connection.
        writer: Writer of the image to the channel.
        base_acked_bytes: Acknowledged bytes by TCP_INFO before the connection had sent anything.
    """

    def __init__(
        self,
        client: Client,
        host: SendingHost,
        retrieval: Retrieval,
        raw_info: bytes,
        *,
        transport: str,
        connection: Connection,
        writer: ChannelWriter,
        base_acked_bytes: int,
    ) -> None:
        self._ssh, self._channel_writer = connection, writer
        self._base_acked_bytes = base_acked_bytes
        super().__init__(
            client,
            host,
            retrieval,
            raw_info,
            transport=transport,
            data_syn=client.control_syn,
            writer=writer,
            base_acked_bytes=base_acked_bytes,
            name=NAME,
            cipher=connection.cipher,
            client_name=connection.client_version,
        )

    def confirmed(self) -> None:
        """End the transfer as delivered, after the client's confirmation."""
        if not self.fails_for_change():
            self._fail("", Ending.DELIVERED)

    def refused(self, reason: str) -> None:
        """End the transfer as failed, after the client reported an error; the connection may still end normally."""
        self._fail(reason, Ending.DELIVERED)
        self._lift_abort()

    def give_up(self, silent_s: float) -> None:
        """End a transfer of which nothing was acknowledged, or confirmed, for `silent_s` seconds."""
        if self.transfer.all_acked:
            self._fail(f"all was sent, and the client confirmed nothing for {silent_s:.0f} s", Ending.SILENT)
        else:
            super().give_up(silent_s)

    def _start(self, **given: Any) -> TransferStart:
        return super()._start(**{**given, "mac": self._ssh.mac})

    def _drain(self) -> None:
        self._is_sending = False
        self._host.leave_loop()
        self._channel_writer.finish()

    def _has_everything(self) -> bool:
        """Return False: a client that has the whole image confirms it."""
        return False

    def _read_channel(self) -> ChannelReading | None:
        return self._channel_writer.reading()

    def _read_raw(self) -> bytes | None:
        return sockets.read_info_bytes(self._connection)

    def _lift_abort(self) -> None:
        sockets.set_abort_on_close(self._connection, False)


class AnsweredSending(ChannelSending):
    """Transfer by SFTP: the client requests pieces of the image, in any order and repeatedly.

    Attributes:
        _covered: Disjoint ranges that were sent, sorted, as start and end.
    """

    def begin(self) -> None:
        """Start the transfer."""
        self._covered: list[tuple[int, int]] = []
        super().begin()

    def write(self) -> None:
        """Do nothing: data are sent in response to requests."""

    def answer(self, size: int, offset_bytes: int) -> None:
        """Count a piece that is sent in this turn."""
        fresh = self._cover(offset_bytes, offset_bytes + size)
        if len(self._covered) > _MOST_PIECES:
            self._fail(f"the client asked for more than {_MOST_PIECES} pieces apart from each other", Ending.CUT)
            return
        self._channel_writer.will_send(fresh)
        self.transfer.wrote(fresh, self._client.tickets.clock())

    def closed(self) -> None:
        """End the transfer when the client closes the file: delivered if all of it was sent, else failed."""
        self._take_reading()
        if self.transfer.all_written:
            self.confirmed()
        else:
            size, sent = self.transfer.to_send_bytes, self.transfer.written_bytes
            self.refused(f"the client closed the file after {sent} of {size} bytes")

    def _has_everything(self) -> bool:
        """Return whether the client acknowledged the whole image and the file is unchanged."""
        self._take_reading()
        return self.transfer.all_acked and not self.retrieval.file_changed()

    def _take_reading(self) -> None:
        raw_info = self._read_raw()
        if raw_info is not None:
            self.transfer.take(raw_info, self._client.tickets.clock())

    def _read_channel(self) -> ChannelReading | None:
        raw_info, writer = self._read_raw(), self._channel_writer
        acked = (parse_tcp_info(raw_info).bytes_acked or 0) if raw_info is not None else 0
        asked = writer.payload_bytes - writer.payload_of(max(0, acked - self._base_acked_bytes))
        return writer.reading(asked)

    def _cover(self, begin: int, end: int) -> int:
        """Add a sent range; return how many of its bytes were not sent before."""
        before = sum(high - low for low, high in self._covered)
        merged: list[tuple[int, int]] = []
        for low, high in sorted([*self._covered, (begin, end)]):
            if merged and low <= merged[-1][1]:
                merged[-1] = (merged[-1][0], max(merged[-1][1], high))
            else:
                merged.append((low, high))
        self._covered = merged
        return sum(high - low for low, high in merged) - before


_NOT_AVAILABLE = "Not available."

_MOST_WAITING_BYTES = 64 * 1024

_TURN_BYTES = 256 * 1024


class Dialogue(Protocol):
    """Dialogue of one session: SCP or SFTP."""

    def begin(self) -> None:
        """Start, after the client's request was accepted."""

    def take(self, data: bytes) -> None:
        """Handle the client's bytes.

        Raises:
            ValueError: They violate the protocol.
        """

    def go_on(self) -> None:
        """Continue: the connection has room."""


class ScpDialogue:
    """`scp -f`: sends one file to the client, which confirms it or reports an error."""

    def __init__(self, session: Session, name: str) -> None:
        self._session, self._name = session, name
        self._answers = scp.Answers()
        self._retrieval: Retrieval | None = None
        self._sending: ChannelSending | None = None
        self._step: Callable[[], None] = self._ready

    def begin(self) -> None:
        """Find the image and announce it; the reply to every other name is the same, whether or not it exists."""
        session = self._session
        image = session.client.image(self._name)
        self._retrieval = session.retrieve(image, "scp") if image is not None else None
        if self._retrieval is None:
            session.channel.write(scp.complaint(f"{self._name}: {_NOT_AVAILABLE}"))
            session.channel.exit(1)
            return
        # Sent before the sink reports that it is ready, which saves a round trip.
        session.channel.write(scp.header(self._retrieval.account.grant.image.size_bytes, self._name))
        session.client.call_later("answer", session.client.settings.limits.idle_s, self._give_up)

    def take(self, data: bytes) -> None:
        """Handle the sink's replies: each success starts the next step, an error ends the transfer."""
        for answer in self._answers.feed(data):
            if self._retrieval is None:
                return
            if not answer.is_ok:
                self._session.client.note(f"sink: {answer.text}")
                self._retrieval = None
                self._session.fail(f"the client could not keep the file: {answer.text or 'it gave no reason'}")
                self._session.channel.exit(1)
                return
            self._step()

    def go_on(self) -> None:
        """Do nothing: the transfer itself waits for room."""

    def _ready(self) -> None:
        self._step = self._send_file

    def _send_file(self) -> None:
        assert self._retrieval is not None
        self._step = self._end
        self._sending = self._session.send(self._retrieval, "scp", scp.TRAILER)

    def _end(self) -> None:
        if self._sending is None:
            return
        if not self._sending.transfer.all_written:
            raise ValueError("an answer in the middle of the file")
        self._retrieval = None
        self._session.client.note("sink: has the file")
        self._sending.confirmed()
        self._session.channel.exit(0)

    def _give_up(self) -> None:
        if self._sending is None and self._retrieval is not None:
            self._retrieval = None
            self._session.fail("the client did not answer")
            self._session.client.send_off("No answer.")


class SftpDialogue:
    """SFTP, read-only: one folder that lists as empty, in which the image can be opened by its name."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._requests = scp.Requests()
        self._is_greeted = self._is_paused = False
        self._sending: AnsweredSending | None = None
        self._retrieval: Retrieval | None = None
        # Handles of open folders, which list as empty.
        self._folders: set[bytes] = set()
        self._last_handle = 0
        self._file_handle = b""
        self._answers: dict[int, Callable[[Request], tuple[bytes, ...]]] = {
            Kind.OPEN: self._open,
            Kind.CLOSE: self._close,
            Kind.READ: self._read,
            Kind.STAT: self._stat,
            Kind.LSTAT: self._stat,
            Kind.FSTAT: self._fstat,
            Kind.OPENDIR: self._open_folder,
            Kind.READDIR: self._read_folder,
            Kind.REALPATH: lambda request: (scp.name(request.number, scp.real_path(request.text)),),
            Kind.READLINK: lambda request: (scp.status(request.number, Status.NO_SUCH_FILE, _NOT_AVAILABLE),),
        }

    def begin(self) -> None:
        """Do nothing: the client starts the dialogue."""

    def take(self, data: bytes) -> None:
        """Add requests, and answer as many as the connection has room for."""
        self._requests.feed(data)
        self.go_on()

    def go_on(self) -> None:
        """Answer requests while there is room; pause reading while too many requests wait."""
        session = self._session
        if session.has_space:
            answers = self._turn()
            if answers and session.client.connection.is_open:
                session.client.connection.send_data(session.channel, b"".join(answers))
                # More requests may wait.
                session.on_space()
        # Never pause a closed channel: asyncssh reports its end only after all input was read.
        self._pause(session.channel.is_open and self._requests.waiting_bytes > _MOST_WAITING_BYTES)

    def _turn(self) -> list[bytes]:
        """Return the responses of one turn, which are sent together to fill packets."""
        answers: list[bytes] = []
        size = 0
        while size < _TURN_BYTES and not self._waits and (request := self._requests.next()) is not None:
            answer = self._answer(request)
            answers += answer
            size += sum(map(len, answer)) + 1
        return answers

    @property
    def _waits(self) -> bool:
        """Whether the file is open but sending is not allowed yet."""
        return self._sending is not None and not self._sending.is_sending

    def _pause(self, is_to_pause: bool) -> None:
        if is_to_pause != self._is_paused:
            self._is_paused = is_to_pause
            (self._session.channel.pause_reading if is_to_pause else self._session.channel.resume_reading)()

    def _answer(self, request: Request) -> tuple[bytes, ...]:
        if not self._is_greeted:
            if request.kind != Kind.INIT:
                raise ValueError(f"expected the first request of SFTP, found one of kind {request.kind}")
            self._is_greeted = True
            return (scp.version(),)
        answer = self._answers.get(request.kind)
        if answer is not None:
            return answer(request)
        if request.kind in scp.WRITING:
            return (scp.status(request.number, Status.PERMISSION_DENIED, "Nothing can be changed here."),)
        return (scp.status(request.number, Status.UNSUPPORTED, "Not supported."),)

    def _image(self, path: bytes) -> ImageFile | None:
        """Return the image of a path, by its last component only, as with SCP; None if not allowed."""
        try:
            return self._session.client.image(scp.real_path(path).rsplit(b"/", 1)[-1].decode())
        except UnicodeDecodeError:
            return None

    def _stat(self, request: Request) -> tuple[bytes, ...]:
        if scp.real_path(request.text) == b"/":
            return (scp.attributes(request.number, scp.FOLDER),)
        image = self._image(request.text)
        if image is None:
            return (scp.status(request.number, Status.NO_SUCH_FILE, _NOT_AVAILABLE),)
        return (scp.attributes(request.number, scp.image_attributes(image.size_bytes)),)

    def _open(self, request: Request) -> tuple[bytes, ...]:
        if request.length != scp.READ_FLAG:
            return (scp.status(request.number, Status.PERMISSION_DENIED, "Nothing can be changed here."),)
        image = self._image(request.text)
        retrieval = self._session.retrieve(image, "sftp") if image is not None else None
        self._session.client.note("open" if retrieval is not None else "open: not available")
        if retrieval is None:
            return (scp.status(request.number, Status.NO_SUCH_FILE, _NOT_AVAILABLE),)
        sending = self._session.send(retrieval, "sftp")
        if not isinstance(sending, AnsweredSending):
            return ()
        self._retrieval, self._sending = retrieval, sending
        self._file_handle = self._new_handle()
        return (scp.handle(request.number, self._file_handle),)

    def _new_handle(self) -> bytes:
        self._last_handle += 1
        return self._last_handle.to_bytes(4, "big")

    def _is_open(self, request: Request) -> bool:
        return self._sending is not None and request.text == self._file_handle and self._session.is_transferring

    def _read(self, request: Request) -> tuple[bytes, ...]:
        if not self._is_open(request) or self._sending is None or self._retrieval is None:
            return (scp.status(request.number, Status.FAILURE, "Not open."),)
        size_bytes = self._retrieval.account.grant.image.size_bytes
        length = min(request.length, scp.MOST_READ_BYTES, size_bytes - request.offset)
        if length <= 0:
            return (scp.status(request.number, Status.EOF, "End of file."),)
        try:
            data = os.pread(self._retrieval.file.fileno(), length, request.offset)
        except OSError as error:
            self._session.cut(f"image cannot be read: {error.strerror}")
            return ()
        if not data:
            self._sending.fails_for_missing()
            return ()
        self._sending.answer(len(data), request.offset)
        return scp.data_header(request.number, len(data)), data

    def _fstat(self, request: Request) -> tuple[bytes, ...]:
        if not self._is_open(request) or self._retrieval is None:
            return (scp.status(request.number, Status.FAILURE, "Not open."),)
        size_bytes = self._retrieval.account.grant.image.size_bytes
        return (scp.attributes(request.number, scp.image_attributes(size_bytes)),)

    def _close(self, request: Request) -> tuple[bytes, ...]:
        if request.text in self._folders:
            self._folders.discard(request.text)
        elif self._is_open(request) and self._sending is not None:
            sending, self._sending, self._retrieval = self._sending, None, None
            self._session.client.note("close")
            sending.closed()
        else:
            return (scp.status(request.number, Status.FAILURE, "Not open."),)
        return (scp.status(request.number, Status.OK),)

    def _open_folder(self, request: Request) -> tuple[bytes, ...]:
        if scp.real_path(request.text) != b"/" or self._folders:
            return (scp.status(request.number, Status.NO_SUCH_FILE, _NOT_AVAILABLE),)
        folder = self._new_handle()
        self._folders.add(folder)
        return (scp.handle(request.number, folder),)

    def _read_folder(self, request: Request) -> tuple[bytes, ...]:
        is_open = request.text in self._folders
        code, text = (Status.EOF, "Nothing to see.") if is_open else (Status.FAILURE, "Not open.")
        return (scp.status(request.number, code, text),)
