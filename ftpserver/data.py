"""The data connection: sends one image, watches the kernel's account of it, and calls it delivered when it is.

Facts
-----

- The library answers 226 when the kernel has taken the last byte; at 100 ms and 1 MB/s nearly a megabyte was still
  on its way then. Here the last byte is followed by a half-close, then by waiting until all is acknowledged.
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
from typing import TYPE_CHECKING, Any

from flashferry.fileserver import sockets
from flashferry.fileserver.reporting import Reporter
from flashferry.fileserver.sender import Tuning, initial_pacing_piece
from flashferry.fileserver.transfer import Transfer, TransferStart
from flashferry.fileserver.watch import Watch
from flashferry.images.files import administration, has_content_of
from ftpserver.base import DTPHandler, Fifo

if TYPE_CHECKING:
    from collections.abc import Callable

    from flashferry.fileserver.caps import Cap
    from flashferry.fileserver.ticket_accounts import Account
    from ftpserver.base import FtpClient

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


class Retrieval:
    """One RETR: which account asked, and from which offset of which open file."""

    def __init__(self, account: "Account", file: Any, offset_bytes: int) -> None:
        self.account = account
        self.file = file
        self.offset_bytes = offset_bytes
        # Not the whole status: it takes as much room as all the rest of a RETR.
        self._opened = administration(os.fstat(file.fileno()))

    def file_changed(self) -> bool:
        """Tell whether the open file no longer has the content that was hashed."""
        return not has_content_of(self.account.grant.image.identity, self._opened, os.fstat(self.file.fileno()))


def words_for(code: int) -> str:
    """Say how a connection was lost, by its error number; 0 is an end without an error."""
    if code in (0, errno.EPIPE):
        return "the client closed the data connection early"
    return f"data connection lost: {os.strerror(code)}"


_CHUNK_BYTES = 4 << 20
_USUAL_MSS_BYTES = 1460


class ImageChannel(DTPHandler):
    """A data connection that sends an image."""

    # The library's own timer counts bytes the kernel took; ours counts bytes the client acknowledged.
    timeout = 0

    def __init__(self, sock: socket.socket, cmd_channel: "FtpClient") -> None:
        self.retrieval: Retrieval | None = None
        self.transfer: Transfer | None = None
        self.cut_reason = "the data connection was closed"
        self._sending = False
        self._tuning: Tuning | None = None
        self._reporter: Reporter | None = None
        self._data_syn = None
        super().__init__(sock, cmd_channel)
        self.producer_fifo = Fifo()
        if self.connected:
            self._data_syn = sockets.saved_syn(self.socket)
            self.call_later(cmd_channel.settings.limits.data_connect_s, self._nothing_asked)

    # What the library calls when both the connection and the RETR are there.

    def push_with_producer(self, producer: Retrieval) -> None:
        """Start sending, if the ticket is still good: it may have waited for this connection for half a minute."""
        if producer.account.withdrawn(self.cmd_channel.tickets.clock()):
            self._resp = ("426 Transfer ended by the server.", self.cmd_channel.quiet)
            self.close()
            return
        raw_info = sockets.read_info_bytes(self.socket)
        if raw_info is None:
            self.handle_close()
            return
        sockets.set_abort_on_close(self.socket, True)
        self.retrieval = producer
        self.transfer = Transfer(self._start(producer), raw_info)
        self._offset = producer.offset_bytes
        self._tuning = self._tune(producer.account, self.transfer)
        self._reporter = Reporter(self.cmd_channel, self, producer.account, self.transfer, self._tuning)
        self._reporter.started()
        self._initialized = self._sending = True
        self.modify_ioloop_events(self.ioloop.WRITE)
        Watch(self.cmd_channel, self, self.transfer, self._tuning, self._reporter).begin()
        self.handle_write()

    def close_when_done(self) -> None:
        """Do nothing: the end of the image is seen by offset, not by a queue that ran empty."""

    def writable(self) -> bool:
        """Tell the loop whether there is more to send."""
        return self._sending

    def handle_write(self) -> None:
        """Hand the kernel another piece of the image."""
        if not self._sending or self.transfer is None:
            return
        left = self.transfer.to_send_bytes - self.transfer.written_bytes
        pacing = self._initial_pacing_piece(self.transfer)
        if left:
            try:
                most = min(left, pacing[0] if pacing else _CHUNK_BYTES)
                count = os.sendfile(self._fileno, self.file_obj.fileno(), self._offset, most)
            except OSError as error:
                self._send_failed(error)
                return
            if not count:
                self._fail("image shrank on disk while it was served", "451 Image changed on disk.")
                return
            self._offset += count
            self.tot_bytes_sent += count
            self.transfer.wrote(count, self.cmd_channel.tickets.clock())
        if self.transfer.all_written:
            self._drain()
        elif pacing:
            self._pause(pacing[1])

    def handle_close(self) -> None:
        """Note that the client ended the connection before it had everything."""
        if self._closed:
            return
        if self.transfer is None:
            self.close()
            return
        code = self.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        self._fail(words_for(code), "426 Data connection lost; transfer aborted.")

    def close(self) -> None:
        """Close, and settle the account if that has not been done."""
        if not self._closed:
            self._conclude("" if self._has_everything() else self.cut_reason)
        super().close()
        # The two refer to each other; left so, a session with all it holds would stay until a collection of garbage.
        self._reporter = None

    def handle_error(self) -> None:
        """Name an error of ours as such."""
        self.cut_reason = "internal error of the server"
        super().handle_error()

    # What the ticket service calls.

    def apply_cap(self, cap: "Cap | None") -> None:
        """Put a pacing cap in force, now."""
        if not self._closed and self._tuning is not None:
            self._tuning.apply_cap(cap)

    def cut(self, reason: str) -> None:
        """End the transfer with a reason."""
        self._fail(reason, "426 Transfer ended by the server.")

    # What the watch asks.

    def read(self) -> bytes | None:
        """Return the kernel's account of the connection; None where it is closed or lost."""
        return None if self._closed else sockets.read_info_bytes(self.socket)

    def look_in(self, seconds: float, look: "Callable[[], None]") -> None:
        """Call `look` after some seconds; it asks by itself whether the connection is still there."""
        # Not the library's timers that closing cancels: one that is cancelled by another in the same round of its
        # scheduler fails.
        self.ioloop.call_later(seconds, look, _errback=self.handle_error)

    def fails_for_change(self) -> bool:
        """End the transfer if its image changed on disk; tell whether it did."""
        if self.retrieval is None or not self.retrieval.file_changed():
            return False
        self._fail("image changed on disk while it was served", "451 Image changed on disk.")
        return True

    def give_up(self, silent_s: float) -> None:
        """End a transfer of which nothing was acknowledged for so long."""
        self._fail(f"nothing acknowledged for {silent_s:.0f} s", "426 No progress; transfer aborted.")

    # Sending.

    def _start(self, retrieval: Retrieval) -> TransferStart:
        session, tickets = self.cmd_channel, self.cmd_channel.tickets
        return TransferStart(
            grant=retrieval.account.grant,
            peer_address=session.client_address,
            offset_bytes=retrieval.offset_bytes,
            wall_s=tickets.wall(),
            now_s=tickets.clock(),
            control_syn=session.control_syn,
            data_syn=self._data_syn,
        )

    def _tune(self, account: "Account", transfer: Transfer) -> Tuning:
        session = self.cmd_channel
        cap_known = session.tickets.cap_of(account) is not None
        tuning = Tuning(self.socket, session.settings.profile, transfer.info, cap_known=cap_known)
        if tuning.refused:
            session.tickets.notice(f"congestion control: {tuning.refused}; going on with what is granted")
        if tuning.wants_pace:
            tuning.find_pace(session.tickets.pace_of(account), transfer.info, session.tickets.clock())
        return tuning

    def _send_failed(self, error: OSError) -> None:
        if error.errno in (errno.EAGAIN, errno.EINTR, errno.EBUSY):
            return
        if error.errno in PEER_GONE:
            self._fail(words_for(error.errno or 0), "426 Data connection lost; transfer aborted.")
        else:
            self._fail(f"image cannot be read: {error.strerror}", "451 Image cannot be read.")

    # The first segments, which the kernel does not pace.

    def _initial_pacing_piece(self, transfer: Transfer) -> tuple[int, float] | None:
        cap = self._tuning.cap_bytes_per_s if self._tuning is not None else None
        return initial_pacing_piece(transfer.written_bytes, transfer.info.snd_mss_bytes or _USUAL_MSS_BYTES, cap)

    def _pause(self, seconds: float) -> None:
        self._sending = False
        # A socket that can take more would wake the loop without end.
        self.del_channel()
        self.look_in(seconds, self._go_on)

    def _go_on(self) -> None:
        if self._closed:
            return
        self._sending = True
        self.add_channel(events=self.ioloop.WRITE)
        self.handle_write()

    # Waiting for the last acknowledgement.

    def _drain(self) -> None:
        self._sending = False
        try:
            self.socket.shutdown(socket.SHUT_WR)
        except OSError as error:
            self._send_failed(error)
            return
        # From here the socket is looked at by timer alone: a half-closed one would wake the loop without end.
        self.del_channel()
        self._look_for_end()

    def _look_for_end(self) -> None:
        if self._closed:
            return
        raw_info = sockets.read_info_bytes(self.socket)
        if raw_info is None or self.transfer is None:
            self._fail("the data connection was lost", "426 Data connection lost; transfer aborted.")
            return
        self.transfer.take(raw_info, self.cmd_channel.tickets.clock())
        if self.transfer.all_acked:
            self._deliver()
        elif self.transfer.info.state == sockets.STATE_CLOSE:
            code = self.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            self._fail(words_for(code), "426 Data connection lost; transfer aborted.")
        else:
            delay_s = min(0.1, max(0.002, (self.transfer.info.rtt_s or 0.0) / 4))
            self.look_in(delay_s, self._look_for_end)

    def _deliver(self) -> None:
        if self.fails_for_change():
            return
        self.transfer_finished = True
        self._conclude("")
        self._resp = ("226 Transfer complete.", self.cmd_channel.quiet)
        self.close()

    def _has_everything(self) -> bool:
        """Tell whether the client has the whole image, whatever else it did since."""
        raw_info = sockets.read_info_bytes(self.socket)
        concluded = self._reporter is None or self._reporter.concluded
        if concluded or self.transfer is None or self.retrieval is None or raw_info is None:
            return False
        self.transfer.take(raw_info, self.cmd_channel.tickets.clock())
        return self.transfer.all_acked and not self.retrieval.file_changed()

    def _nothing_asked(self) -> None:
        if self.retrieval is None:
            self.close()

    # The end.

    def _fail(self, reason: str, reply: str) -> None:
        if not self._closed:
            self._conclude(reason)
            self._resp = (reply, self.cmd_channel.quiet)
            self.close()

    def _conclude(self, failure: str) -> None:
        """Settle the account once: with a record, and as delivered if the client has acknowledged everything."""
        if self._reporter is None or self._reporter.concluded:
            return
        self._reporter.conclude(failure, sockets.read_info_bytes(self.socket))
        if not failure:
            sockets.set_abort_on_close(self.socket, False)
