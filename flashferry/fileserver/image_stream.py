"""Sending an image on a connection until the client has acknowledged its last byte. Independent of the protocol.

Facts
-----

- Bytes taken by the kernel have not arrived yet: at 100 ms and 1 MB/s nearly a megabyte was in flight when the last
  byte was written. So after the last byte comes a half-close, and then a wait until all bytes are acknowledged.
- `shutdown(SHUT_WR)` sends the FIN after the data, so the client sees its end of file without waiting for us.
- Progress is what the client acknowledged (`tcpi_bytes_acked`), never what the kernel accepted.
- TCP_USER_TIMEOUT also ends a connection whose peer keeps its window closed although it answers every probe (Linux
  4.18 tcp_probe_timer). A router with slow flash does just that, so the limit is extended then.
- The kernel closes the connections of a killed process with FIN, which a router takes for the end of the file. With
  SO_LINGER of zero it sends RST instead (net/ipv4/tcp.c, __tcp_close). So that is set from the first byte on, and reset
  when the last one was acknowledged: an RST after that would make some clients discard unread data.
"""

import errno
import os
import socket
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, Protocol

from flashferry.fileserver import sockets
from flashferry.fileserver.socket_tuning import Tuning, channel_limit, initial_pacing_piece
from flashferry.fileserver.transfer import Transfer, TransferStart
from flashferry.fileserver.transfer_monitor import Watch
from flashferry.fileserver.transfer_reporter import Reporter
from flashferry.images.safe_open import administration, has_content_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from flashferry.fileserver.protocol import Client
    from flashferry.fileserver.rate_limits import Cap
    from flashferry.fileserver.ticket_accounts import Account
    from flashferry.tcp.sample import ChannelReading
    from flashferry.tcp.syn import SynOptions

PEER_GONE = frozenset(
    {
        errno.ECONNRESET,
        errno.EPIPE,
        errno.ETIMEDOUT,
        errno.ENOTCONN,
        errno.ECONNABORTED,
        errno.ESHUTDOWN,
        errno.EHOSTUNREACH,
        errno.ENETUNREACH,
    }
)
"""Errors of a send that mean a lost connection, and not an unreadable image."""

_COMES_AGAIN = frozenset({errno.EAGAIN, errno.EINTR, errno.EBUSY})
_CHUNK_BYTES = 4 << 20
_USUAL_MSS_BYTES = 1460
_PAST_RECALL_S = 2.0


class Ending(Enum):
    """Result of sending an image."""

    DELIVERED = auto()
    """The client has acknowledged the last byte."""
    LOST = auto()
    """The connection was lost."""
    CHANGED = auto()
    """The image has changed on disk."""
    UNREADABLE = auto()
    """The image cannot be read."""
    CUT = auto()
    """The server ended it on request."""
    SILENT = auto()
    """Nothing was acknowledged for too long."""


class Retrieval:
    """A request for a part of an open image file.

    Args:
        account: Account of its ticket.
        file: The open file.
        offset_bytes: Offset of the part.
        end_bytes: Offset of the first byte after it; None for the end of the image.
    """

    def __init__(self, account: "Account", file: Any, offset_bytes: int, end_bytes: int | None = None) -> None:
        self.account = account
        self.file = file
        self.offset_bytes = offset_bytes
        self.end_bytes = account.grant.image.size_bytes if end_bytes is None else end_bytes
        # Not the whole `stat` result, which takes as much memory as the rest of a request.
        self._opened = administration(os.fstat(file.fileno()))

    def file_changed(self) -> bool:
        """Return whether the open file no longer has the content that was hashed."""
        return not has_content_of(self.account.grant.image.identity, self._opened, os.fstat(self.file.fileno()))

    @property
    def shortfall(self) -> str:
        """Reason why this part cannot complete the image; empty if it ends at the image's end."""
        size_bytes = self.account.grant.image.size_bytes
        if self.end_bytes >= size_bytes:
            return ""
        return f"only bytes {self.offset_bytes} to {self.end_bytes - 1} of {size_bytes} were asked for"


class Writer(Protocol):
    """Writes an image to a connection: unchanged, or within a protocol that adds bytes of its own."""

    may_half_close: bool
    """Whether the connection is half-closed right after the last byte; if not, the host ends it later."""

    def send(self, file_descriptor: int, offset_bytes: int, most_bytes: int) -> int:
        """Write a piece of a file.

        Args:
            file_descriptor: The file.
            offset_bytes: Offset of the piece.
            most_bytes: Its greatest length, > 0.

        Returns:
            Bytes of the file that the kernel has taken; 0 at the end of the file.

        Raises:
            OSError: Nothing was taken: the send buffer is full (BlockingIOError), or connection or file failed.
        """

    def payload_of(self, acked_bytes: int) -> int:
        """Return a lower bound of the file's bytes among the acknowledged ones.

        Args:
            acked_bytes: Acknowledged bytes of the connection since the start of sending, or since `base_acked_bytes`.
        """


class PlainWriter:
    """Sends the file by `sendfile`, without copying it through this process.

    Args:
        connection: The connection.
        lead_bytes: Bytes sent before the file, since `base_acked_bytes`.
    """

    may_half_close = True

    __slots__ = ("_lead_bytes", "_socket_descriptor")

    def __init__(self, connection: socket.socket, lead_bytes: int = 0) -> None:
        self._socket_descriptor = connection.fileno()
        self._lead_bytes = lead_bytes

    def send(self, file_descriptor: int, offset_bytes: int, most_bytes: int) -> int:
        """Write a piece, see `Writer`."""
        return os.sendfile(self._socket_descriptor, file_descriptor, offset_bytes, most_bytes)

    def payload_of(self, acked_bytes: int) -> int:
        """Return the acknowledged bytes without the lead."""
        return acked_bytes - self._lead_bytes


class SendingHost(Protocol):
    """Interface of the connection's owner to the sender.

    Attributes:
        socket: The connection.
        ioloop: The loop.
    """

    socket: Any
    ioloop: Any

    def await_space(self) -> None:
        """Call `ImageSending.write` when the connection has room, until `leave_loop`."""

    def leave_loop(self) -> None:
        """Stop receiving events of the connection."""

    def handle_error(self) -> None:
        """Report an exception in our code, and close."""

    def sending_ended(self, ending: Ending) -> None:
        """Report the end to the client if the protocol can, and close the connection."""


class ImageSending:
    """Sends a part of an image, follows TCP_INFO, and reports the delivery when all bytes are acknowledged.

    Args:
        client: The client.
        host: Owner of its connection.
        retrieval: The part to send.
        raw_info: TCP_INFO of the connection.
        transport: Name of the transport, one of `ListenerSettings.transports`.
        data_syn: The SYN of the connection; None if we connected.
        writer: Writer of the image; None sends it unchanged, with nothing before it.
        base_acked_bytes: Acknowledged bytes at the start of the connection; None takes the present number.
        name: Name of the connection in failure reasons.
        cipher: The cipher; empty in clear text.
        client_name: Version string of the client; empty if unknown.
        congestion_control: Congestion control instead of the profile's; empty keeps the profile's.
    """

    def __init__(
        self,
        client: "Client",
        host: SendingHost,
        retrieval: Retrieval,
        raw_info: bytes,
        *,
        transport: str,
        data_syn: "SynOptions | None",
        writer: Writer | None = None,
        base_acked_bytes: int | None = None,
        name: str = "data connection",
        cipher: str = "",
        client_name: str = "",
        congestion_control: str = "",
    ) -> None:
        self._client, self._host, self.retrieval = client, host, retrieval
        self._connection: socket.socket = host.socket
        self._name = name
        self._writer = PlainWriter(self._connection) if writer is None else writer
        self._offset = retrieval.offset_bytes
        self._is_sending = self._is_over = False
        sockets.set_abort_on_close(self._connection, True)
        self.transfer = Transfer(
            self._start(transport=transport, data_syn=data_syn, cipher=cipher, client=client_name),
            raw_info,
            self._read_channel(),
            payload_of=None if writer is None else writer.payload_of,
            base_acked_bytes=base_acked_bytes,
        )
        self._tuning = self._tune(congestion_control)
        self._reporter: Reporter | None = Reporter(client, self, retrieval.account, self.transfer, self._tuning)

    def begin(self) -> None:
        """Start as soon as no other transfer of the ticket runs."""
        self._client.tickets.await_turn(self.retrieval.account, self)

    def go_on(self) -> None:
        """Start sending."""
        if self._is_over:
            return
        assert self._reporter is not None
        self._reporter.started()
        self._is_sending = True
        self._host.await_space()
        Watch(self._client, self, self.transfer, self._tuning, self._reporter, channel=self._read_channel).begin()
        self.write()

    @property
    def is_sending(self) -> bool:
        """Whether there is more to send now."""
        return self._is_sending

    def write(self) -> None:
        """Write another piece of the image."""
        if not self._is_sending or self._is_over:
            return
        transfer = self.transfer
        left = transfer.to_send_bytes - transfer.written_bytes
        pacing = self._initial_pacing_piece()
        if left:
            try:
                most = min(left, pacing[0] if pacing else _CHUNK_BYTES)
                count = self._writer.send(self.retrieval.file.fileno(), self._offset, most)
            except OSError as error:
                self._send_failed(error)
                return
            if not count:
                self.fails_for_missing()
                return
            self._offset += count
            transfer.wrote(count, self._client.tickets.clock())
        if transfer.all_written:
            self._drain()
        elif pacing:
            self._pause(pacing[1])

    def lost(self) -> None:
        """Handle a connection that was closed by the client or lost."""
        self._fail(self._words_for(self._connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)), Ending.LOST)

    def settle(self, cut_reason: str) -> None:
        """Report the end, unless that was done, before the connection is closed."""
        if not self._is_over:
            self._is_over = True
            self._conclude(self.retrieval.shortfall if self._has_everything() else cut_reason)
        # Break the reference cycle, by which only the garbage collector would free the session.
        self._reporter = None

    def _read_channel(self) -> "ChannelReading | None":
        """Return the state of a channel within the connection; None without one."""
        return None

    # Called by the ticket service.

    def apply_cap(self, cap: "Cap | None") -> None:
        """Set the pacing cap at once."""
        if not self._is_over:
            self._tuning.apply_cap(cap)

    def cut(self, reason: str) -> None:
        """End the transfer with a reason."""
        self._fail(reason, Ending.CUT)

    def yield_to_newer(self, reason: str) -> None:
        """End the transfer in favour of a newer one of its ticket.

        Bytes written to the kernel cannot be withdrawn, and a client that gets all of them takes the image for
        delivered. So a transfer that has written its last byte gets a moment to complete.
        """
        if self.transfer.all_written and not self._is_over:
            self.call_later(_PAST_RECALL_S, lambda: self.cut(reason))
        else:
            self.cut(reason)

    # Called by the monitor.

    def read(self) -> bytes | None:
        """Return TCP_INFO of the connection; None if it is closed or lost."""
        return None if self._is_over else sockets.read_info_bytes(self._connection)

    def call_later(self, seconds: float, call: "Callable[[], None]") -> None:
        """Call `call` after some seconds; it checks itself whether the connection still exists."""
        # Not a timer that is cancelled on closing: the library fails if one timer cancels another in the same round.
        self._host.ioloop.call_later(seconds, call, _errback=self._host.handle_error)

    def fails_for_change(self) -> bool:
        """End the transfer if its image changed on disk; return whether it did."""
        if not self.retrieval.file_changed():
            return False
        self._fail("image changed on disk while it was served", Ending.CHANGED)
        return True

    def fails_for_missing(self) -> None:
        """End the transfer because the file is too short, with the same reason as the monitor would report."""
        if not self.fails_for_change():
            self._fail("image shrank on disk while it was served", Ending.CHANGED)

    def give_up(self, silent_s: float) -> None:
        """End a transfer of which nothing was acknowledged for `silent_s` seconds."""
        self._fail(f"nothing acknowledged for {silent_s:.0f} s", Ending.SILENT)

    # Sending.

    def _start(self, **given: Any) -> TransferStart:
        client, tickets = self._client, self._client.tickets
        return TransferStart(
            grant=self.retrieval.account.grant,
            peer_address=client.client_address,
            offset_bytes=self.retrieval.offset_bytes,
            end_bytes=self.retrieval.end_bytes,
            wall_s=tickets.wall(),
            now_s=tickets.clock(),
            control_syn=client.control_syn,
            **given,
        )

    def _tune(self, congestion_control: str) -> Tuning:
        client, transfer, account = self._client, self.transfer, self.retrieval.account
        cap = client.tickets.cap_of(account)
        tuning = Tuning(
            self._connection,
            client.settings.profile.under(congestion_control),
            transfer.info,
            cap_known=cap is not None,
            channel=channel_limit(self._read_channel(), cap),
        )
        if tuning.refused:
            client.tickets.notice(f"congestion control: {tuning.refused}; going on with what is granted")
        if tuning.wants_pace:
            tuning.find_pace(client.tickets.pace_of(account), transfer.info, client.tickets.clock())
        return tuning

    def _send_failed(self, error: OSError) -> None:
        if error.errno in _COMES_AGAIN:
            return
        if error.errno in PEER_GONE:
            self._fail(self._words_for(error.errno or 0), Ending.LOST)
        else:
            self._fail(f"image cannot be read: {error.strerror}", Ending.UNREADABLE)

    def _words_for(self, code: int) -> str:
        """Return in words how the connection was lost, by its error number; 0 is an end without an error."""
        if code in (0, errno.EPIPE):
            return f"the client closed the {self._name} early"
        return f"{self._name} lost: {os.strerror(code)}"

    # The first segments, which the kernel does not pace.

    def _initial_pacing_piece(self) -> tuple[int, float] | None:
        transfer = self.transfer
        segment_bytes = transfer.info.snd_mss_bytes or _USUAL_MSS_BYTES
        return initial_pacing_piece(transfer.written_bytes, segment_bytes, self._tuning.cap_bytes_per_s)

    def _pause(self, seconds: float) -> None:
        self._is_sending = False
        # A writable socket would wake the loop continuously.
        self._host.leave_loop()
        self.call_later(seconds, self._send_more)

    def _send_more(self) -> None:
        if self._is_over:
            return
        self._is_sending = True
        self._host.await_space()
        self.write()

    # Waiting for the last acknowledgement.

    def _drain(self) -> None:
        self._is_sending = False
        if self._writer.may_half_close:
            try:
                self._connection.shutdown(socket.SHUT_WR)
            except OSError as error:
                self._send_failed(error)
                return
        # From here the socket is only read by timer: a half-closed one would wake the loop continuously.
        self._host.leave_loop()
        self._check_for_end()

    def _check_for_end(self) -> None:
        if self._is_over:
            return
        raw_info = sockets.read_info_bytes(self._connection)
        if raw_info is None:
            self._fail(f"the {self._name} was lost", Ending.LOST)
            return
        self.transfer.take(raw_info, self._client.tickets.clock())
        if self.transfer.all_acked:
            self._deliver()
        elif self.transfer.info.state == sockets.STATE_CLOSE:
            self.lost()
        else:
            delay_s = min(0.1, max(0.002, (self.transfer.info.rtt_s or 0.0) / 4))
            self.call_later(delay_s, self._check_for_end)

    def _deliver(self) -> None:
        if not self.fails_for_change():
            self._fail(self.retrieval.shortfall, Ending.DELIVERED)

    def _has_everything(self) -> bool:
        """Return whether the client acknowledged all that it requested, and the file is unchanged."""
        raw_info = sockets.read_info_bytes(self._connection)
        if self._reporter is None or self._reporter.concluded or raw_info is None:
            return False
        self.transfer.take(raw_info, self._client.tickets.clock())
        return self.transfer.all_acked and not self.retrieval.file_changed()

    # The end.

    def _fail(self, reason: str, ending: Ending) -> None:
        if not self._is_over:
            self._is_over, self._is_sending = True, False
            self._conclude(reason)
            self._host.sending_ended(ending)

    def _conclude(self, failure: str) -> None:
        """Report the end once, with a record: delivered if the client acknowledged everything."""
        if self._reporter is None or self._reporter.concluded:
            return
        self._reporter.conclude(failure, sockets.read_info_bytes(self._connection), self._read_channel())
        if not failure or self.transfer.all_acked:
            sockets.set_abort_on_close(self._connection, False)
