"""Sending an image on a connection, until the client has acknowledged the last byte of it. Free of any protocol.

Facts
-----

- What the kernel has taken is not what the client has: at 100 ms and 1 MB/s nearly a megabyte was still on its way when
  the last byte was taken. So the last byte is followed by a half-close, then by waiting until all is acknowledged.
- `shutdown(SHUT_WR)` sends the FIN behind the data, so the client sees its end of file without waiting for us.
- Progress is what the client acknowledged (`tcpi_bytes_acked`), never what the kernel accepted.
- TCP_USER_TIMEOUT also ends a connection whose peer keeps its window closed although it answers every probe (Linux
  4.18 tcp_probe_timer). A router that writes slow flash does just that, so the limit is widened then.
- The kernel ends the connections of a process that is killed as any other: with FIN, which a router takes for the end
  of the file. With SO_LINGER of no time they end with RST, also then (net/ipv4/tcp.c, __tcp_close looks at the option,
  not at who closes). So it is set from the first byte on, and lifted when the last one was acknowledged: a reset behind
  that would have some clients throw away what they have not read.
"""

import errno
import os
import socket
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, Protocol

from flashferry.fileserver import sockets
from flashferry.fileserver.reporting import Reporter
from flashferry.fileserver.socket_tuning import Tuning, channel_limit, initial_pacing_piece
from flashferry.fileserver.transfer import Transfer, TransferStart
from flashferry.fileserver.transfer_monitor import Watch
from flashferry.images.files import administration, has_content_of

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
"""Errors of a send that mean the client or the path is gone, not that the image cannot be read."""

_COMES_AGAIN = frozenset({errno.EAGAIN, errno.EINTR, errno.EBUSY})
_CHUNK_BYTES = 4 << 20
_USUAL_MSS_BYTES = 1460
_PAST_RECALL_S = 2.0


class Ending(Enum):
    """How the sending of an image came to its end."""

    DELIVERED = auto()
    """The client has acknowledged the last byte."""
    LOST = auto()
    """The connection is gone."""
    CHANGED = auto()
    """The image is not any more what it was."""
    UNREADABLE = auto()
    """The image cannot be read."""
    CUT = auto()
    """It was ended on request, here."""
    SILENT = auto()
    """Nothing was acknowledged for too long."""


class Retrieval:
    """A request for an image: which account asked, and for which part of which open file.

    Args:
        account: Whose ticket it runs under.
        file: The open file.
        offset_bytes: Where in it the part begins.
        end_bytes: Where it ends, the first byte that is not of it; None: with the image.
    """

    def __init__(self, account: "Account", file: Any, offset_bytes: int, end_bytes: int | None = None) -> None:
        self.account = account
        self.file = file
        self.offset_bytes = offset_bytes
        self.end_bytes = account.grant.image.size_bytes if end_bytes is None else end_bytes
        # Not the whole status: it takes as much room as all the rest of a request.
        self._opened = administration(os.fstat(file.fileno()))

    def file_changed(self) -> bool:
        """Return whether the open file no longer has the content that was hashed."""
        return not has_content_of(self.account.grant.image.identity, self._opened, os.fstat(self.file.fileno()))

    @property
    def shortfall(self) -> str:
        """Say that this part cannot complete the image; empty if it ends where the image does."""
        size_bytes = self.account.grant.image.size_bytes
        if self.end_bytes >= size_bytes:
            return ""
        return f"only bytes {self.offset_bytes} to {self.end_bytes - 1} of {size_bytes} were asked for"


class Writer(Protocol):
    """Hands an image to the kernel: as it is, or within a protocol that adds bytes of its own."""

    may_half_close: bool
    """Whether the connection's end follows the last byte at once; else the host says later that nothing follows."""

    def send(self, file_descriptor: int, offset_bytes: int, most_bytes: int) -> int:
        """Hand over a piece of a file.

        Args:
            file_descriptor: The file.
            offset_bytes: Where the piece begins.
            most_bytes: Its greatest length, > 0.

        Returns:
            Bytes of the file that the kernel has taken; 0 where the file has none there.

        Raises:
            OSError: Nothing was taken: the connection has no room (BlockingIOError), or one of both failed.
        """

    def payload_of(self, acked_bytes: int) -> int:
        """Return how much of the file is among bytes that were acknowledged; never more than truly is.

        Args:
            acked_bytes: Of all that went over the connection since the sending began, or since `base_acked_bytes`.
        """


class PlainWriter:
    """Has the kernel copy the file to the connection by itself.

    Args:
        connection: The connection.
        lead_bytes: What went over it before the file, since `base_acked_bytes`.
    """

    may_half_close = True

    __slots__ = ("_lead_bytes", "_socket_descriptor")

    def __init__(self, connection: socket.socket, lead_bytes: int = 0) -> None:
        self._socket_descriptor = connection.fileno()
        self._lead_bytes = lead_bytes

    def send(self, file_descriptor: int, offset_bytes: int, most_bytes: int) -> int:
        """Hand over a piece, see `Writer`."""
        return os.sendfile(self._socket_descriptor, file_descriptor, offset_bytes, most_bytes)

    def payload_of(self, acked_bytes: int) -> int:
        """Return what is left of it without the lead."""
        return acked_bytes - self._lead_bytes


class SendingHost(Protocol):
    """Whose connection it is, as the event loop knows it.

    Attributes:
        socket: The connection.
        ioloop: The loop.
    """

    socket: Any
    ioloop: Any

    def await_space(self) -> None:
        """Call `ImageSending.write` when the connection has room, until `leave_loop`."""

    def leave_loop(self) -> None:
        """Hear nothing of the connection any more."""

    def handle_error(self) -> None:
        """Name an error of ours as such."""

    def sending_ended(self, ending: Ending) -> None:
        """Say so to the client where it can be said, and close the connection."""


class ImageSending:
    """Sends a part of an image, watches the kernel's account of it, and calls it delivered when it is.

    Args:
        client: Whose transfer it is.
        host: Its connection.
        retrieval: What to send.
        raw_info: TCP_INFO of the connection.
        transport: By what the client fetches: a word of `ListenerSettings.transports`.
        data_syn: The SYN of the connection; None where we are the caller.
        writer: How the image goes over the connection; None: as it is, and nothing before it.
        base_acked_bytes: What had been acknowledged when the connection was young; None: now, for nothing was sent.
        name: What the connection is called in a reason.
        cipher: The cipher in force; empty in clear text.
        client_name: What the client calls itself; empty where it says nothing.
        congestion_control: In place of the profile's; empty: that one.
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
        """Send as soon as nothing else is sent with the ticket."""
        self._client.tickets.await_turn(self.retrieval.account, self)

    def go_on(self) -> None:
        """Send from now on."""
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
        """Hand the kernel another piece of the image."""
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
        """Note that the client ended the connection, or the network did."""
        self._fail(self._words_for(self._connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)), Ending.LOST)

    def settle(self, cut_reason: str) -> None:
        """Settle the account, if that has not been done, before the connection is closed: nothing is sent any more."""
        if not self._is_over:
            self._is_over = True
            self._conclude(self.retrieval.shortfall if self._has_everything() else cut_reason)
        # The two refer to each other; left so, a session with all it holds would stay until a collection of garbage.
        self._reporter = None

    def _read_channel(self) -> "ChannelReading | None":
        """Return what a channel within the connection shows; None where the image goes straight into the socket."""
        return None

    # What the ticket service calls.

    def apply_cap(self, cap: "Cap | None") -> None:
        """Put a pacing cap in force, now."""
        if not self._is_over:
            self._tuning.apply_cap(cap)

    def cut(self, reason: str) -> None:
        """End the transfer with a reason."""
        self._fail(reason, Ending.CUT)

    def yield_to_newer(self, reason: str) -> None:
        """End the transfer for a newer one of its ticket.

        What is handed over to the kernel is not taken back: a client that has it all may take it for delivered. So one
        that has handed over its last byte has a moment for its own end.
        """
        if self.transfer.all_written and not self._is_over:
            self.call_later(_PAST_RECALL_S, lambda: self.cut(reason))
        else:
            self.cut(reason)

    # What the watch asks.

    def read(self) -> bytes | None:
        """Return the kernel's account of the connection; None where it is closed or lost."""
        return None if self._is_over else sockets.read_info_bytes(self._connection)

    def call_later(self, seconds: float, call: "Callable[[], None]") -> None:
        """Call something after some seconds; it checks by itself whether the connection is still there."""
        # Not the library's timers that closing cancels: one that is cancelled by another in the same round of its
        # scheduler fails.
        self._host.ioloop.call_later(seconds, call, _errback=self._host.handle_error)

    def fails_for_change(self) -> bool:
        """End the transfer if its image changed on disk; return whether it did."""
        if not self.retrieval.file_changed():
            return False
        self._fail("image changed on disk while it was served", Ending.CHANGED)
        return True

    def fails_for_missing(self) -> None:
        """End the transfer, for the image ends early, in the watch's words: which of both sees it first is chance."""
        if not self.fails_for_change():
            self._fail("image shrank on disk while it was served", Ending.CHANGED)

    def give_up(self, silent_s: float) -> None:
        """End a transfer of which nothing was acknowledged for so long."""
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
        """Say how the connection was lost, by its error number; 0 is an end without an error."""
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
        # A socket that can take more would wake the loop without end.
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
        # From here the socket is looked at by timer alone: a half-closed one would wake the loop without end.
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
        """Return whether the client has all it asked for, whatever else it did since."""
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
        """Settle the account once: with a record, and as delivered if the client has acknowledged everything."""
        if self._reporter is None or self._reporter.concluded:
            return
        self._reporter.conclude(failure, sockets.read_info_bytes(self._connection), self._read_channel())
        if not failure or self.transfer.all_acked:
            sockets.set_abort_on_close(self._connection, False)
