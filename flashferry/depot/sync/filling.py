"""Fetch the chunks of an image: connection, errors and progress."""

from __future__ import annotations

import errno
import http.client
import io
import os
import select
import socket
import ssl
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from enum import StrEnum
from typing import Any, ClassVar

from msgspec import Struct

from flashferry.core.errors import FlashferryError, Kind
from flashferry.depot.catalogue.part import Part
from flashferry.images.errors import ImageError
from flashferry.images.manifest import read_manifest


class SourceUnreachable(FlashferryError):
    """Report that the source does not answer, or the connection broke: worth another try.

    Attributes:
        has_answered: Whether it started to answer, so that it exists.
    """

    has_answered = False
    kind: ClassVar[Kind] = Kind.SOURCE_UNREACHABLE
    advice: ClassVar[str | None] = "Sync again once the line is there: it continues after what is verified"


class SourceRefused(FlashferryError):
    """Report that the source refuses our login or request, or we refuse its certificate or host key.

    Attributes:
        may_pass: Whether a source that has just started, and does not know its logins yet, answers so too.
    """

    kind: ClassVar[Kind] = Kind.SOURCE_REFUSED
    may_pass = False


class SourceWrong(FlashferryError):
    """Report that the source's data contradicts its manifest."""

    kind: ClassVar[Kind] = Kind.SOURCE_WRONG
    advice: ClassVar[str | None] = (
        "Check the image where it comes from ('flashferry depot verify' there), and the network path to it"
    )


class SourceChanged(FlashferryError):
    """Report that the source has another image under the name."""

    kind: ClassVar[Kind] = Kind.SOURCE_CHANGED
    advice: ClassVar[str | None] = "List its images again; if a plan names the image, make a new plan"


class SyncStopped(FlashferryError):
    """Report that the operator ended the sync."""

    kind: ClassVar[Kind] = Kind.SYNC_STOPPED
    advice: ClassVar[str | None] = "The same command continues after what is verified"


TURN_S = 0.25
"""Interval between checks whether to stop."""

LEAST_BYTES_PER_S = 10
"""A slower source counts as silent, because it would hold the catalogue's lock for ever. A modem is a hundred times as
fast.
"""

Interrupted = Callable[[], bool]


def never() -> bool:
    """Return False: nothing asks to stop."""
    return False


def check(interrupted: Interrupted) -> None:
    """Check whether to stop.

    Raises:
        SyncStopped: It was asked to stop.
    """
    if interrupted():
        raise SyncStopped("interrupted: what is verified is kept")


class Connection(http.client.HTTPConnection):
    """A connection for one request.

    Args:
        host: Name or address of the source.
        port: Its port.
        context: TLS context, which verifies the source; None: clear text.
        stall_s: How long to wait for a silent source.
        interrupted: Whether to stop.
    """

    def __init__(
        self, host: str, port: int, *, context: ssl.SSLContext | None, stall_s: float, interrupted: Interrupted
    ) -> None:
        super().__init__(host, port, timeout=stall_s)
        self._context, self._stall_s, self._interrupted = context, stall_s, interrupted

    def connect(self) -> None:
        """Connect, with the TLS handshake if it is TLS.

        Raises:
            SourceUnreachable: Nothing answers there.
            OSError: The connection breaks, or the certificate is not trusted.
            SyncStopped: It was asked to stop.
        """
        try:
            plain = _connected(self.host, self.port, self._stall_s, self._interrupted)
        except OSError as error:
            found = words_for(error)
            raise SourceUnreachable(f"expected {self.host} to answer at port {self.port}, found: {found}") from None
        try:
            plain.settimeout(self._stall_s)
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.sock = plain if self._context is None else self._context.wrap_socket(plain, server_hostname=self.host)
        except BaseException:
            plain.close()
            raise
        self.sock.settimeout(TURN_S)

    def close(self) -> None:
        """Do nothing: the library calls it before the answer is read; see `end`."""

    def end(self) -> None:
        """Close it."""
        super().close()

    def response_class(self, sock: socket.socket, **more: Any) -> http.client.HTTPResponse:  # type: ignore[override]
        """Return the library's reader for the answer."""
        lines: Any = _Lines(sock, self._stall_s, self._interrupted)
        return http.client.HTTPResponse(lines, **more)


class _Lines:
    """The socket interface that the library's reader needs."""

    def __init__(self, connection: socket.socket, stall_s: float, interrupted: Interrupted) -> None:
        self._reader = _Reader(connection, stall_s, interrupted)

    def makefile(self, _mode: str) -> io.BufferedReader:
        return io.BufferedReader(self._reader, 1 << 13)


class _Reader(io.RawIOBase):
    """Read a socket in short waits."""

    def __init__(self, connection: socket.socket, stall_s: float, interrupted: Interrupted) -> None:
        self._connection, self._stall_s, self._interrupted = connection, stall_s, interrupted
        self._waited_s, self._came_bytes = 0.0, 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while True:
            check(self._interrupted)
            asked_s, came_bytes = time.monotonic(), None
            with suppress(TimeoutError):
                came_bytes = self._connection.recv_into(buffer)
            self._note(time.monotonic() - asked_s, came_bytes or 0)
            if came_bytes is not None:
                return came_bytes

    def _note(self, waited_s: float, came_bytes: int) -> None:
        """Count bytes per waiting time; time that the disk takes does not count."""
        self._waited_s, self._came_bytes = self._waited_s + waited_s, self._came_bytes + came_bytes
        if self._waited_s < self._stall_s:
            return
        if self._came_bytes < self._stall_s * LEAST_BYTES_PER_S:
            found = f"no more than {self._came_bytes} bytes" if self._came_bytes else "nothing"
            raise SourceUnreachable(f"{found} came for {self._stall_s:.0f} s")
        self._waited_s, self._came_bytes = 0.0, 0


def words_for(error: OSError) -> str:
    """Return a system error in words."""
    if isinstance(error, TimeoutError):
        return "no answer in time"
    return (error.strerror or str(error) or type(error).__name__).lower()


def _connected(host: str, port: int, patience_s: float, interrupted: Interrupted) -> socket.socket:
    """Return a connection to the first address of a host that answers."""
    failed: OSError = OSError(errno.EHOSTUNREACH, os.strerror(errno.EHOSTUNREACH))
    for family, kind, protocol, _, address in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
        connection = socket.socket(family, kind, protocol)
        try:
            connection.setblocking(False)
            _await_connected(connection, address, patience_s, interrupted)
        except OSError as error:
            connection.close()
            failed = error
        except BaseException:
            connection.close()
            raise
        else:
            return connection
    raise failed


def _await_connected(connection: socket.socket, address: Any, patience_s: float, interrupted: Interrupted) -> None:
    until_s = time.monotonic() + patience_s
    code = connection.connect_ex(address)
    while code == errno.EINPROGRESS:
        check(interrupted)
        if select.select((), (connection,), (), TURN_S)[1]:
            code = connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            break
        if time.monotonic() >= until_s:
            code = errno.ETIMEDOUT
    if code:
        raise OSError(code, os.strerror(code))


MOST_TRIES = 3
"""How often a chunk may arrive wrong."""

MOVED_BYTES = 1000
"""Fewer bytes are no progress: a connection that brings some now and then is broken too."""

PIECE_BYTES = 256 * 1024


class SyncPhase(StrEnum):
    """The phase of a sync."""

    ASK = "asking"
    COPY = "copying"
    WAIT = "waiting"
    PROVE = "proving"


class SyncProgress(Struct, frozen=True, kw_only=True):
    """The progress of an image.

    Attributes:
        done_bytes: Bytes present; while it is proven, bytes read.
        text: An event: a broken connection, a wrong chunk; else empty.
    """

    image: str
    phase: SyncPhase
    done_bytes: int
    size_bytes: int
    text: str = ""


OnProgress = Callable[[SyncProgress], None]


def silent(progress: SyncProgress) -> None:
    """Ignore the progress."""


class Filling:
    """Fill one image.

    Args:
        part: The incomplete image.
        on_progress: Called with progress.
        interrupted: Whether to stop.
        where: The source in words, for errors.

    Attributes:
        came_bytes: Bytes received.
        moved_at_s: Time of the last progress, monotonic.
    """

    def __init__(self, part: Part, on_progress: OnProgress, interrupted: Interrupted, where: str) -> None:
        self.part, self.interrupted, self._where = part, interrupted, where
        self.came_bytes = 0
        self.moved_at_s = time.monotonic()
        self._unmoved_bytes = 0
        self._on_progress = on_progress
        self._wrong: Counter[int] = Counter()

    @property
    def wrong_chunks(self) -> int:
        """Return how often a chunk arrived wrong."""
        return self._wrong.total()

    def report(self, phase: SyncPhase, done_bytes: int, text: str = "") -> None:
        """Report the progress."""
        manifest = self.part.manifest
        self._on_progress(
            SyncProgress(
                image=manifest.name, phase=phase, done_bytes=done_bytes, size_bytes=manifest.size_bytes, text=text
            )
        )

    def take(self, read: Callable[[int], bytes], first: int, end: int) -> None:
        """Receive a span of the image.

        Args:
            read: Returns the next bytes, at most so many; empty at the end.
            first: Start of the span.
            end: End of the span, exclusive.

        Raises:
            SourceUnreachable: The data ended early.
            SourceWrong: A chunk arrived wrong for the third time.
            SyncStopped: It was asked to stop.
            CatalogueFull: The disk is full.
        """
        while first < end:
            number = first // self.part.manifest.chunk_bytes
            chunk_end = min(self.part.manifest.span(number)[1], end)
            if self.part.verified[number]:
                self._pass_over(read, first, chunk_end)
            else:
                self._take_chunk(read, number, first)
            first = chunk_end

    def _take_chunk(self, read: Callable[[int], bytes], number: int, first: int) -> None:
        part, started = self.part, self.part.manifest.span(number)[0]
        found, is_from_before = part.hash_of(started, first), first > started
        there_bytes = part.verified_bytes - started
        end = part.manifest.span(number)[1]
        while first < end:
            piece = self._piece(read, end - first)
            part.write(number, first, piece)
            found.update(piece)
            first += len(piece)
            self.report(SyncPhase.COPY, there_bytes + first)
        if found.hexdigest() == part.manifest.chunks[number]:
            part.keep(number)
        else:
            self.drop((number,), is_counted=not is_from_before)

    def _pass_over(self, read: Callable[[int], bytes], first: int, end: int) -> None:
        while first < end:
            first += len(self._piece(read, end - first))

    def _piece(self, read: Callable[[int], bytes], most_bytes: int) -> bytes:
        check(self.interrupted)
        piece = read(min(PIECE_BYTES, most_bytes))
        if not piece:
            raise SourceUnreachable(f"{self._where}: it ended before the image did")
        self.came(len(piece))
        return piece

    def came(self, size_bytes: int) -> None:
        """Count received bytes."""
        self.came_bytes += size_bytes
        self._unmoved_bytes += size_bytes
        if self._unmoved_bytes >= MOVED_BYTES:
            self._unmoved_bytes, self.moved_at_s = 0, time.monotonic()

    def drop(self, numbers: tuple[int, ...], *, is_counted: bool = True) -> None:
        """Have wrong chunks fetched again.

        Args:
            numbers: The chunks.
            is_counted: Whether all their bytes came from the source just now.

        Raises:
            SourceWrong: One arrived wrong for the third time.
        """
        self.part.drop(*numbers)
        if is_counted:
            self._wrong.update(numbers)
        manifest = self.part.manifest
        for number in numbers:
            first, end = manifest.span(number)
            if self._wrong[number] >= MOST_TRIES:
                raise SourceWrong(
                    f"{self._where}: {manifest.name}: expected chunk {number} (bytes {first}-{end - 1}) to be what "
                    f"the manifest says, found other bytes at each of {MOST_TRIES} tries"
                )
            self.report(SyncPhase.COPY, self.part.verified_bytes, f"chunk {number} is wrong; it is fetched again")

    def prove(self) -> bool:
        """Read the whole image from disk; return whether it is correct. Wrong chunks are dropped.

        Raises:
            SourceWrong: All chunks are correct and the whole is not: the manifest contradicts itself.
            SyncStopped: It was asked to stop.
        """
        manifest, path = self.part.manifest, self.part.path

        def read(done_bytes: int, _size_bytes: int) -> None:
            check(self.interrupted)
            self.report(SyncPhase.PROVE, done_bytes)

        try:
            found = read_manifest(path, name=manifest.name, chunk_bytes=manifest.chunk_bytes, on_progress=read).manifest
        except ImageError as error:
            raise SourceUnreachable(f"{manifest.name}: {error.message}") from None
        if found == manifest:
            return True
        chunks = enumerate(zip(found.chunks, manifest.chunks, strict=False))
        bad = tuple(number for number, (one, other) in chunks if one != other)
        if not bad:
            raise SourceWrong(
                f"{self._where}: {manifest.name}: expected SHA-512 {manifest.sha512[:16]}... and MD5 "
                f"{manifest.md5} of the whole, found {found.sha512[:16]}... and {found.md5}, though each chunk is "
                "what the manifest says"
            )
        self.drop(bad, is_counted=False)
        return False
