"""The file as it comes over SSH: paid for in time before it is written, and what a test lets go wrong meanwhile."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flashferry.lab.standin import receive_window
from flashferry.lab.standin.flash import NoSpaceError, Pace
from flashferry.lab.standin.ftp_request import AbortedError
from flashferry.lab.standin.ssh_client.scp_sink import OK, refusal

if TYPE_CHECKING:
    import socket
    import threading
    from collections.abc import Callable

    from flashferry.lab.standin.ftp_request import PullHooks, Sink, TransferRequest
    from flashferry.lab.standin.ssh_client.scp_sink import ScpHeader

NO_SPACE = "No space left on device"


@dataclass(frozen=True, slots=True, kw_only=True)
class SshFaults:
    """What goes wrong in a copy over SSH: the faults of `flashferry.lab.standin.faults` that begin with ``ssh_``."""

    channel_ends_after_bytes: int | None = None
    rekey_after_bytes: int | None = None
    breaks_on_rekey: bool = False
    bulk_mode_breaks_after_bytes: int | None = None
    sink_error: str | None = None
    crypto_bytes_per_s: float | None = None


class SinkRefusedError(Exception):
    """The sink said at the end that it does not have the file, though all of it came."""


class IncomingFile:
    """One file of a copy; implements what `scp_sink.SinkEvents` asks for.

    Args:
        request: The copy's request.
        hooks: The device's.
        announce: Shows the line that the server sent of the file.
        stop: Set where the copy is given up.
        faults: What goes wrong.
    """

    def __init__(
        self, request: TransferRequest, hooks: PullHooks, announce: Callable[[str], None], stop: threading.Event,
        faults: SshFaults,
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
        speed = self._faults.crypto_bytes_per_s or crypto_bytes_per_s
        self._socket = connection
        self._pace = Pace(speed, self._stop) if speed else None
        self.came_s = time.monotonic()

    def begin(self, header: ScpHeader) -> None:
        """Ask, announce, open."""
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
            receive_window.after_first_data(self._socket, self._request.tcp.window_bytes)
        receive_window.acknowledge(self._socket)
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
        if _crosses(self._faults.rekey_after_bytes, before_bytes, self.size_bytes):
            self.on_rekey()
        if _crosses(self._faults.channel_ends_after_bytes, before_bytes, self.size_bytes):
            self.on_channel_end()
        if _crosses(self._faults.bulk_mode_breaks_after_bytes, before_bytes, self.size_bytes):
            self.on_break()

    def end(self) -> bytes:
        """Close the file; the answer says whether it is there."""
        self.close()
        self.finished_s = time.monotonic()
        if self._faults.sink_error is not None and self._lost is None:
            is_space = "space" in self._faults.sink_error
            self._lost = NoSpaceError() if is_space else SinkRefusedError(self._faults.sink_error)
        self.on_end()
        return OK if self._lost is None else refusal(self._faults.sink_error or NO_SPACE)

    def close(self) -> None:
        """Close the file, whatever became of it."""
        if self._sink is not None:
            self._sink.close()
            self._sink = None

    def check(self) -> None:
        """Raise what the last answer was about.

        Raises:
            NoSpaceError: It did not fit.
            SinkRefusedError: It was lost for another reason.
        """
        if self._lost is not None:
            raise self._lost


def _crosses(limit: int | None, before: int, now: int) -> bool:
    return limit is not None and before < limit <= now
