"""Transfers that this process sends to a device's own server, reported and capped like all others.

The serving processes serve devices that fetch. For a push, the sender connects to the device, and passes the connection
to `PushAccount.begin` when it is ready for the image. From then on it is a transfer like any other: a ticket for its
progress, a share of its site's cap, readings of TCP_INFO, a record and a verdict. No login uses its ticket.

Facts
-----

- An SSH connection carries more than the image: each packet also has length, padding and MAC (RFC 4253 6). So the
  acknowledged bytes are reduced by the most that packets can add, until the device confirms the file.
- The load of a serving process is reported on the thread that reads its messages. It is only queued here, and applied
  when a push is read, once a second, because two threads that wait for each other would deadlock.
"""

from __future__ import annotations

import threading
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING

from flashferry.fileserver import sockets
from flashferry.fileserver.client_session import CommandLog
from flashferry.fileserver.rate_limits import given_cap
from flashferry.fileserver.socket_tuning import Tuning, channel_limit
from flashferry.fileserver.ticket_service import TicketService
from flashferry.fileserver.transfer import Transfer, TransferStart
from flashferry.fileserver.transfer_records import EventKind, TransferState
from flashferry.fileserver.transfer_reporter import Reporter
from flashferry.fileserver.wire import EventMessage, SetLoadElsewhere, SetSiteCap, SetSiteLink, SiteLoadUpdate

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

    from flashferry.fileserver.rate_limits import Cap, SiteLoad
    from flashferry.fileserver.settings import ServerSettings
    from flashferry.fileserver.ticket_accounts import Account, TicketGrant
    from flashferry.fileserver.transfer_records import TransferProgress
    from flashferry.fileserver.wire import ForSender, Message
    from flashferry.tcp.sample import ChannelReading
    from flashferry.tcp.syn import SynOptions

TRANSPORT = "push"
"""Name of the transport in the records."""

_PACKET_BYTES = 32_768

_MOST_AROUND_A_PACKET_BYTES = 112
"""Length, padding of up to two blocks, the longest MAC (64 bytes), and the channel's own nine bytes."""


class PushAccount:
    """One image that is pushed to a device. Thread-safe.

    Args:
        service: The run's pushes.
        account: Its ticket.
        close: Ends the sender's connection; called where it has to end early.
    """

    control_syn: SynOptions | None = None

    def __init__(self, service: PushService, account: Account, close: Callable[[], None]) -> None:
        self._service, self._account, self._close = service, account, close
        self._connection: socket.socket | None = None
        self._transfer: Transfer | None = None
        self._tuning: Tuning | None = None
        self._reporter: Reporter | None = None
        self._is_confirmed = False
        self.client_address = ""
        self.command_log = CommandLog()
        self._cut_because = ""

    @property
    def ticket_id(self) -> str:
        """Id of its ticket, for its progress."""
        return self._account.grant.ticket_id

    @property
    def cut_because(self) -> str:
        """Why the push was ended early; empty if it was not."""
        return self._cut_because

    @property
    def tickets(self) -> TicketService:
        """The ticket service of all pushes."""
        return self._service.tickets

    @property
    def settings(self) -> ServerSettings:
        """The server's settings."""
        return self._service.tickets.settings

    def begin(
        self,
        connection: socket.socket,
        *,
        peer_address: str,
        cipher: str = "",
        mac: str = "",
        server: str = "",
        channel: ChannelReading | None = None,
    ) -> None:
        """Start the transfer on a connection that is ready for the image's first byte.

        Args:
            connection: The connection, logged in; congestion control and pacing are set now.
            peer_address: The device.
            cipher: Name of the cipher.
            mac: Name of the MAC; empty where the cipher authenticates by itself.
            server: Version string of the device's server.
            channel: State of the SSH channel.

        Raises:
            OSError: The connection is gone, or the push was ended.
        """
        raw_info = sockets.read_info_bytes(connection)
        if raw_info is None:
            raise OSError("the connection was lost before the first byte")
        if self._cut_because:
            raise OSError(self._cut_because)
        with self._service.lock:
            self._connection, self.client_address = connection, peer_address
            tickets = self.tickets
            start = TransferStart(
                grant=self._account.grant,
                peer_address=peer_address,
                offset_bytes=0,
                wall_s=tickets.wall(),
                now_s=tickets.clock(),
                control_syn=None,
                data_syn=None,
                cipher=cipher,
                mac=mac,
                client=server,
                transport=TRANSPORT,
            )
            self._transfer = Transfer(start, raw_info, channel, payload_of=self._payload_of)
            self._tuning = self._tune(connection, self._transfer, channel)
            self._reporter = Reporter(self, self, self._account, self._transfer, self._tuning)
            self._reporter.started()

    def wrote(self, count: int) -> None:
        """Count `count` more bytes of the image as written."""
        with self._service.lock:
            if self._transfer is not None:
                self._transfer.wrote(count, self.tickets.clock())

    def sample(self, channel: ChannelReading | None = None) -> None:
        """Read TCP_INFO and report the progress; call it about once per `ServerSettings.sample_interval_s`.

        Args:
            channel: The SSH channel at the same time.
        """
        with self._service.lock:
            self._service.read_loads()
            transfer, tuning, reporter = self._transfer, self._tuning, self._reporter
            raw_info = self._read()
            if transfer is None or tuning is None or reporter is None or reporter.concluded or raw_info is None:
                return
            now_s = self.tickets.clock()
            transfer.take(raw_info, now_s, is_sample=True, channel=channel)
            tuning.check_pace(transfer.info, now_s)
            if transfer.zero_window:
                tuning.be_patient()
            if transfer.loses_heavily(now_s, self.settings.profile.fall_back_after_s):
                tuning.give_up_bbr()
            tuning.reconsider(transfer.loss_estimate)
            reporter.progress(now_s)
            self.tickets.report_loads()

    def conclude(self, failure: str = "", channel: ChannelReading | None = None) -> None:
        """Report the end, once.

        Args:
            failure: Why it failed; empty if the device confirmed the file.
            channel: The SSH channel at the end.
        """
        with self._service.lock:
            self._is_confirmed = not failure
            reporter = self._reporter
            if reporter is None:
                self._service.give_up(self._account, failure or "no byte was sent")
            elif not reporter.concluded:
                reporter.conclude(failure, self._read(), channel)
            self._service.forget(self)

    # Called by the ticket service.

    def apply_cap(self, cap: Cap | None) -> None:
        """Set the pacing cap at once."""
        if self._tuning is not None:
            self._tuning.apply_cap(cap)

    def cut(self, reason: str) -> None:
        """End the push, with a reason, by closing the sender's connection."""
        if not self._cut_because:
            self._cut_because = reason
            self._close()

    def yield_to_newer(self, reason: str) -> None:
        """End it with a reason."""
        self.cut(reason)

    def _payload_of(self, acked_bytes: int) -> int:
        if self._is_confirmed and self._transfer is not None:
            return self._transfer.written_bytes
        return acked_bytes * _PACKET_BYTES // (_PACKET_BYTES + _MOST_AROUND_A_PACKET_BYTES)

    def _read(self) -> bytes | None:
        return None if self._connection is None else sockets.read_info_bytes(self._connection)

    def _tune(self, connection: socket.socket, transfer: Transfer, channel: ChannelReading | None) -> Tuning:
        cap = self.tickets.cap_of(self._account)
        tuning = Tuning(
            connection,
            self.settings.profile,
            transfer.info,
            cap_known=cap is not None,
            channel=channel_limit(channel, cap),
        )
        if tuning.refused:
            self.tickets.notice(f"congestion control: {tuning.refused}; going on with what is granted")
        if tuning.wants_pace:
            tuning.find_pace(self.tickets.pace_of(self._account), transfer.info, self.tickets.clock())
        return tuning


class PushService:
    """All pushes of a run.

    Args:
        settings: How the server runs.
        send: Takes the messages that a serving process would send: events, and what the pushes do at a site.
    """

    def __init__(self, settings: ServerSettings, send: Callable[[Message], None]) -> None:
        self.lock = threading.RLock()
        self.tickets = TicketService(settings, lambda event: send(EventMessage(event=event)))
        self.tickets.on_site_load = lambda load: send(SiteLoadUpdate(load=load))
        self._unread: deque[SiteLoad] = deque()
        self._pushes: dict[str, PushAccount] = {}

    def open(self, grant: TicketGrant, close: Callable[[], None]) -> tuple[PushAccount, TransferProgress]:
        """Open an account for an image that is pushed; return it and its first snapshot."""
        with self.lock:
            self.read_loads()
            first = self.tickets.add(grant)
            account = self.tickets.account(grant.ticket_id)
            assert account is not None
            push = self._pushes[grant.ticket_id] = PushAccount(self, account, close)
            return push, first

    def has(self, ticket_id: str) -> bool:
        """Return whether a ticket is that of a push that has not ended."""
        with self.lock:
            return ticket_id in self._pushes

    def revoke(self, ticket_id: str) -> None:
        """End a push, whether it is under way or not."""
        with self.lock:
            push = self._pushes.get(ticket_id)
            self.tickets.revoke(ticket_id)
            if push is not None:
                push.cut("ticket revoked")

    def take(self, request: ForSender) -> None:
        """Apply a site's cap or link, or queue the others' load there until the next reading."""
        match request:
            case SetLoadElsewhere(load):
                self._unread.append(load)
            case SetSiteCap(site, cap_bytes_per_s, source):
                with self.lock:
                    self.tickets.set_site_cap(site, given_cap(cap_bytes_per_s, source))
            case SetSiteLink(site, link_bytes_per_s):
                with self.lock:
                    self.tickets.set_site_link(site, link_bytes_per_s)

    def read_loads(self) -> None:
        """Apply the loads that were queued."""
        with suppress(IndexError):
            while True:
                self.tickets.set_elsewhere(self._unread.popleft())

    def give_up(self, account: Account, reason: str) -> None:
        """Report a push that ended before its first byte."""
        self.tickets.change(account, EventKind.FAILED, reason, state=TransferState.FAILED)
        self.tickets.settle(account)

    def forget(self, push: PushAccount) -> None:
        """Drop a push that has ended."""
        self._pushes.pop(push.ticket_id, None)
