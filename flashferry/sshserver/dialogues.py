"""The two dialogues by which a client gets the image: SCP's and SFTP's. What they say is in `scp` and `sftp`."""

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from flashferry.sshserver import scp, sftp
from flashferry.sshserver.sending import AnsweredSending
from flashferry.sshserver.sftp import Kind, Request, Status

if TYPE_CHECKING:
    from flashferry.fileserver.image_stream import Retrieval
    from flashferry.images.image import ImageFile
    from flashferry.sshserver.sending import ChannelSending
    from flashferry.sshserver.session import Session

_NOT_AVAILABLE = "Not available."
_MOST_WAITING_BYTES = 64 * 1024
_TURN_BYTES = 256 * 1024


class Dialogue(Protocol):
    """What is spoken on one session."""

    def begin(self) -> None:
        """Start: the client knows that it is served."""

    def take(self, data: bytes) -> None:
        """Take the client's bytes.

        Raises:
            ValueError: They are none of the protocol's.
        """

    def go_on(self) -> None:
        """Go on: the connection has room."""


class ScpDialogue:
    """`scp -f`: one file to the client, which says what became of it.

    Args:
        session: Where it is spoken.
        name: The base name that the client asked for.
    """

    def __init__(self, session: "Session", name: str) -> None:
        self._session, self._name = session, name
        self._answers = scp.Answers()
        self._retrieval: Retrieval | None = None
        self._sending: ChannelSending | None = None
        self._step: Callable[[], None] = self._ready

    def begin(self) -> None:
        """Look the image up and announce it; a request for any other gets the same answer, whatever there is."""
        session = self._session
        image = session.client.image(self._name)
        self._retrieval = session.retrieve(image, "scp") if image is not None else None
        if self._retrieval is None:
            session.channel.write(scp.complaint(f"{self._name}: {_NOT_AVAILABLE}"))
            session.channel.exit(1)
            return
        # Not only when the sink has said that it is ready: that would take a round trip more.
        session.channel.write(scp.header(self._retrieval.account.grant.image.size_bytes, self._name))
        session.client.call_later("answer", session.client.settings.limits.idle_s, self._give_up)

    def take(self, data: bytes) -> None:
        """Take the sink's answers: each that is well leads to the next step, any other is the end."""
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
        """Do nothing: what is sent calls for room by itself."""

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
    """SFTP, reading one image: there is one folder, which looks empty, and one file in it, for whom knows its name.

    Args:
        session: Where it is spoken.
    """

    def __init__(self, session: "Session") -> None:
        self._session = session
        self._requests = sftp.Requests()
        self._is_greeted = self._is_paused = False
        self._sending: AnsweredSending | None = None
        self._retrieval: Retrieval | None = None
        # Folders that are open; nothing is in them.
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
            Kind.REALPATH: lambda request: (sftp.name(request.number, sftp.real_path(request.text)),),
            Kind.READLINK: lambda request: (sftp.status(request.number, Status.NO_SUCH_FILE, _NOT_AVAILABLE),),
        }

    def begin(self) -> None:
        """Wait: the client speaks first."""

    def take(self, data: bytes) -> None:
        """Take requests in, and answer as many as there is room for."""
        self._requests.feed(data)
        self.go_on()

    def go_on(self) -> None:
        """Answer requests while there is room; a client that asks for more than that is not read from meanwhile."""
        session = self._session
        if session.has_space:
            answers = self._turn()
            if answers and session.client.connection.is_open:
                session.client.connection.send_data(session.channel, b"".join(answers))
                # There may be more of them.
                session.on_space()
        # After the end of a channel nothing is kept back: its end comes when all of it was read.
        self._pause(session.channel.is_open and self._requests.waiting_bytes > _MOST_WAITING_BYTES)

    def _turn(self) -> list[bytes]:
        """Return the answers of one turn; together they fill packets that one by one would leave half empty."""
        answers: list[bytes] = []
        size = 0
        while size < _TURN_BYTES and not self._waits and (request := self._requests.next()) is not None:
            answer = self._answer(request)
            answers += answer
            size += sum(map(len, answer)) + 1
        return answers

    @property
    def _waits(self) -> bool:
        """Whether the file is open and nothing of it may be sent yet."""
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
            return (sftp.version(),)
        answer = self._answers.get(request.kind)
        if answer is not None:
            return answer(request)
        if request.kind in sftp.WRITING:
            return (sftp.status(request.number, Status.PERMISSION_DENIED, "Nothing can be changed here."),)
        return (sftp.status(request.number, Status.UNSUPPORTED, "Not supported."),)

    def _image(self, path: bytes) -> "ImageFile | None":
        """Look a path up; nothing but its last word counts, as with SCP."""
        try:
            return self._session.client.image(sftp.real_path(path).rsplit(b"/", 1)[-1].decode())
        except UnicodeDecodeError:
            return None

    def _stat(self, request: Request) -> tuple[bytes, ...]:
        if sftp.real_path(request.text) == b"/":
            return (sftp.attributes(request.number, sftp.FOLDER),)
        image = self._image(request.text)
        if image is None:
            return (sftp.status(request.number, Status.NO_SUCH_FILE, _NOT_AVAILABLE),)
        return (sftp.attributes(request.number, sftp.image_attributes(image.size_bytes)),)

    def _open(self, request: Request) -> tuple[bytes, ...]:
        if request.length != sftp.READ_FLAG:
            return (sftp.status(request.number, Status.PERMISSION_DENIED, "Nothing can be changed here."),)
        image = self._image(request.text)
        retrieval = self._session.retrieve(image, "sftp") if image is not None else None
        self._session.client.note("open" if retrieval is not None else "open: not available")
        if retrieval is None:
            return (sftp.status(request.number, Status.NO_SUCH_FILE, _NOT_AVAILABLE),)
        sending = self._session.send(retrieval, "sftp")
        if not isinstance(sending, AnsweredSending):
            return ()
        self._retrieval, self._sending = retrieval, sending
        self._file_handle = self._new_handle()
        return (sftp.handle(request.number, self._file_handle),)

    def _new_handle(self) -> bytes:
        self._last_handle += 1
        return self._last_handle.to_bytes(4, "big")

    def _is_open(self, request: Request) -> bool:
        return self._sending is not None and request.text == self._file_handle and self._session.is_transferring

    def _read(self, request: Request) -> tuple[bytes, ...]:
        if not self._is_open(request) or self._sending is None or self._retrieval is None:
            return (sftp.status(request.number, Status.FAILURE, "Not open."),)
        size_bytes = self._retrieval.account.grant.image.size_bytes
        length = min(request.length, sftp.MOST_READ_BYTES, size_bytes - request.offset)
        if length <= 0:
            return (sftp.status(request.number, Status.EOF, "End of file."),)
        try:
            data = os.pread(self._retrieval.file.fileno(), length, request.offset)
        except OSError as error:
            self._session.cut(f"image cannot be read: {error.strerror}")
            return ()
        if not data:
            self._sending.fails_for_missing()
            return ()
        self._sending.answer(len(data), request.offset)
        return sftp.data_header(request.number, len(data)), data

    def _fstat(self, request: Request) -> tuple[bytes, ...]:
        if not self._is_open(request) or self._retrieval is None:
            return (sftp.status(request.number, Status.FAILURE, "Not open."),)
        size_bytes = self._retrieval.account.grant.image.size_bytes
        return (sftp.attributes(request.number, sftp.image_attributes(size_bytes)),)

    def _close(self, request: Request) -> tuple[bytes, ...]:
        if request.text in self._folders:
            self._folders.discard(request.text)
        elif self._is_open(request) and self._sending is not None:
            sending, self._sending, self._retrieval = self._sending, None, None
            self._session.client.note("close")
            sending.closed()
        else:
            return (sftp.status(request.number, Status.FAILURE, "Not open."),)
        return (sftp.status(request.number, Status.OK),)

    def _open_folder(self, request: Request) -> tuple[bytes, ...]:
        if sftp.real_path(request.text) != b"/" or self._folders:
            return (sftp.status(request.number, Status.NO_SUCH_FILE, _NOT_AVAILABLE),)
        folder = self._new_handle()
        self._folders.add(folder)
        return (sftp.handle(request.number, folder),)

    def _read_folder(self, request: Request) -> tuple[bytes, ...]:
        is_open = request.text in self._folders
        code, text = (Status.EOF, "Nothing to see.") if is_open else (Status.FAILURE, "Not open.")
        return (sftp.status(request.number, code, text),)
