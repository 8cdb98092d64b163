"""Sending an image through an SSH channel: what differs from a plain socket, and when it counts as delivered.

Facts
-----

- The kernel acknowledges bytes of the connection, of which SSH has added some. What is not acknowledged of all bytes
  may be of the image, so it is taken for that: progress is never ahead of what the client has.
- Within TCP's window there is the channel's. What waits for it is read with every reading of TCP_INFO, or a small
  window there would look as if this server had nothing to send.
- By SFTP the client asks for every piece. How much it asks for at a time is its own affair (IOS: unknown), and may be
  what limits a copy over a long way. What it has asked for is answered at once, so that is what is not acknowledged.
- By SCP the client says itself that the file is where it belongs, by the last byte of the dialogue. By SFTP it closes
  the file when it has read all of it, which says that it has it, as an acknowledgement does.
"""

import errno
import os
from typing import TYPE_CHECKING, Any

from flashferry.fileserver import sockets
from flashferry.fileserver.image_stream import Ending, ImageSending, Retrieval
from flashferry.tcp.info import parse_tcp_info
from flashferry.tcp.sample import ChannelReading

if TYPE_CHECKING:
    from flashferry.fileserver.image_stream import SendingHost
    from flashferry.fileserver.protocol import Client
    from flashferry.fileserver.transfer import TransferStart
    from flashferry.sshserver.connection import Channel, Connection

_MOST_PIECES = 1000

NAME = "SSH connection"
"""What it is called in a reason."""


class ChannelWriter:
    """Hands pieces of an image to a channel, and counts those that arrived; see `flashferry.fileserver.image_stream`.

    Args:
        connection: The connection.
        channel: The channel on it.
        trailer: What stands behind the last byte.
        first_window_bytes: The window that the client opened with.
    """

    may_half_close = False

    def __init__(
        self, connection: "Connection", channel: "Channel", trailer: bytes = b"", first_window_bytes: int = 0
    ) -> None:
        self._connection, self._channel, self._trailer = connection, channel, trailer
        self._window_bytes = first_window_bytes
        self._known_bytes = 0
        self.payload_bytes = 0

    @property
    def has_space(self) -> bool:
        """Whether a piece may be handed over now."""
        return self._connection.has_space and self._channel.takes_data

    def send(self, file_descriptor: int, offset_bytes: int, most_bytes: int) -> int:
        """Hand over a piece, see `Writer`."""
        if not self.has_space:
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        self._note_window()
        data = os.pread(file_descriptor, min(most_bytes, self._connection.piece_bytes(self._channel)), offset_bytes)
        if data:
            self.payload_bytes += len(data)
            self._connection.send_data(self._channel, data)
        return len(data)

    def will_send(self, payload_bytes: int) -> None:
        """Count bytes of the image that are handed over in this turn, and were not before."""
        self._note_window()
        self.payload_bytes += payload_bytes

    def finish(self) -> None:
        """Hand over what stands behind the last byte."""
        if self._trailer:
            self._connection.send_data(self._channel, self._trailer)

    def payload_of(self, acked_bytes: int) -> int:
        """Return how much of the image is among bytes of the connection that were acknowledged, at the least.

        What was known once is known still: bytes of SSH that are sent since take nothing back.
        """
        self._known_bytes = max(self._known_bytes, self.payload_bytes - (self._connection.sent_bytes - acked_bytes))
        return self._known_bytes

    def reading(self, asked_bytes: int | None = None) -> ChannelReading | None:
        """Return what the channel shows, and what the client has asked for, if it has to ask."""
        if not self._connection.is_open:
            return None
        self._note_window()
        waiting, window = self._channel.waiting_bytes, self._window_bytes or None
        return ChannelReading(waiting_bytes=waiting, window_bytes=window, asked_bytes=asked_bytes)

    def _note_window(self) -> None:
        self._window_bytes = max(self._window_bytes, self._channel.window_bytes)


class ChannelSending(ImageSending):
    """An image on its way through a channel.

    Args:
        client: Whose transfer it is.
        host: Its session.
        retrieval: What to send.
        raw_info: TCP_INFO of the connection.
        transport: `scp` or `sftp`.
        connection: The connection.
        writer: How the image goes over it.
        base_acked_bytes: What TCP_INFO said was acknowledged before the connection had sent anything.
    """

    def __init__(
        self,
        client: "Client",
        host: "SendingHost",
        retrieval: Retrieval,
        raw_info: bytes,
        *,
        transport: str,
        connection: "Connection",
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
        """Note that the client says it has all of it."""
        if not self.fails_for_change():
            self._fail("", Ending.DELIVERED)

    def refused(self, reason: str) -> None:
        """Note that the client says it could not keep it; the connection may end well all the same."""
        self._fail(reason, Ending.DELIVERED)
        self._lift_abort()

    def give_up(self, silent_s: float) -> None:
        """End a transfer of which nothing was acknowledged for so long, or that the client did not confirm."""
        if self.transfer.all_acked:
            self._fail(f"all was sent, and the client confirmed nothing for {silent_s:.0f} s", Ending.SILENT)
        else:
            super().give_up(silent_s)

    def _start(self, **given: Any) -> "TransferStart":
        return super()._start(**{**given, "mac": self._ssh.mac})

    def _drain(self) -> None:
        self._is_sending = False
        self._host.leave_loop()
        self._channel_writer.finish()

    def _has_everything(self) -> bool:
        """Return that it has not: a client that has it confirms."""
        return False

    def _read_channel(self) -> ChannelReading | None:
        return self._channel_writer.reading()

    def _read_raw(self) -> bytes | None:
        return sockets.read_info_bytes(self._connection)

    def _lift_abort(self) -> None:
        sockets.set_abort_on_close(self._connection, False)


class AnsweredSending(ChannelSending):
    """An image of which the client asks for pieces, in any order and any number of times.

    Attributes:
        _covered: Pieces that were sent, as begin and end, apart from each other and in order.
    """

    def begin(self) -> None:
        """Answer from now on."""
        self._covered: list[tuple[int, int]] = []
        super().begin()

    def write(self) -> None:
        """Do nothing by itself: the client asks."""

    def answer(self, size: int, offset_bytes: int) -> None:
        """Note that a piece is sent in this turn."""
        fresh = self._cover(offset_bytes, offset_bytes + size)
        if len(self._covered) > _MOST_PIECES:
            self._fail(f"the client asked for more than {_MOST_PIECES} pieces apart from each other", Ending.CUT)
            return
        self._channel_writer.will_send(fresh)
        self.transfer.wrote(fresh, self._client.tickets.clock())

    def closed(self) -> None:
        """Note that the client has closed the file: it has all of it, or it never will."""
        self._take_reading()
        if self.transfer.all_written:
            self.confirmed()
        else:
            size, sent = self.transfer.to_send_bytes, self.transfer.written_bytes
            self.refused(f"the client closed the file behind {sent} of {size} bytes")

    def _has_everything(self) -> bool:
        """Return whether the client has all of it, whatever else it did since."""
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
        """Note that a piece was sent; return how many bytes of it were not before."""
        before = sum(high - low for low, high in self._covered)
        merged: list[tuple[int, int]] = []
        for low, high in sorted([*self._covered, (begin, end)]):
            if merged and low <= merged[-1][1]:
                merged[-1] = (merged[-1][0], max(merged[-1][1], high))
            else:
                merged.append((low, high))
        self._covered = merged
        return sum(high - low for low, high in merged) - before
