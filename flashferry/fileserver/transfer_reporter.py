"""Reports of a transfer under way and at its end, and when its interim verdict is due.

A verdict on a transfer under way takes a millisecond or two to form, so it is formed anew rarely.
"""

from typing import TYPE_CHECKING, Any
from zlib import crc32

from flashferry.fileserver.transfer_records import EventKind, TransferState
from flashferry.tcp.verdict import KnownLink, VerdictKind

if TYPE_CHECKING:
    from flashferry.fileserver.protocol import Client
    from flashferry.fileserver.socket_tuning import Tuning
    from flashferry.fileserver.ticket_accounts import Account, Channel
    from flashferry.fileserver.transfer import Transfer
    from flashferry.tcp.sample import ChannelReading

FIRST_AFTER_S = 5.0
"""Time of the first interim verdict; before, there are few readings, and a short transfer ends soon."""

_GROWTH = 1.4
_SPREAD = 0.2


class InterimVerdict:
    """Interim verdict of a running transfer, and the schedule of its updates.

    It covers the whole transfer so far, so it changes more and more slowly, and the pauses between updates grow: an
    hour has about fifteen. Transfers that started together are updated at different times.

    Args:
        ticket_id: Any text that differs from transfer to transfer.
    """

    __slots__ = ("_growth", "_next_s", "kind")

    def __init__(self, ticket_id: str) -> None:
        self.kind: VerdictKind | None = None
        self._growth = _GROWTH + _SPREAD * (crc32(ticket_id.encode()) % 100) / 100
        self._next_s = FIRST_AFTER_S * self._growth / _GROWTH

    def is_due(self, elapsed_s: float) -> bool:
        """Return whether a verdict is due now, and plan the next one."""
        if elapsed_s < self._next_s:
            return False
        self._next_s = elapsed_s * self._growth
        return True


class Reporter:
    """Reports start, progress and end of one transfer.

    Args:
        client: The client.
        channel: The running transfer, for the ticket service.
        account: Its ticket's account.
        transfer: Its statistics.
        tuning: Its socket tuning.
    """

    def __init__(
        self, client: "Client", channel: "Channel", account: "Account", transfer: "Transfer", tuning: "Tuning"
    ) -> None:
        self._client = client
        self._channel = channel
        self._account = account
        self._transfer = transfer
        self._tuning = tuning
        self._stalled = False
        self._reported: tuple[TransferState, int, float] | None = None
        self._interim = InterimVerdict(account.grant.ticket_id)
        self._site_member = client.tickets.site_member_of(account)
        self.concluded = False

    def started(self) -> None:
        """Report the start, and set the pacing cap."""
        self._client.tickets.begin(self._account, self._channel)
        self._announce(EventKind.START, "transfer started", TransferState.TRANSFERRING)

    def is_due(self, now_s: float) -> bool:
        """Return whether a stall begins or ends now, or the transfer has to be given up."""
        profile, silent_s = self._client.settings.profile, now_s - self._transfer.progressed_s
        return self._stalled is not (silent_s >= profile.stall_after_s) or silent_s >= profile.give_up_after_s

    def progress(self, now_s: float) -> None:
        """Report the progress, and a stall with its cause."""
        settings, transfer = self._client.settings, self._transfer
        self._site_member.note(transfer.acked_bytes)
        silent_s = now_s - transfer.progressed_s
        stalled, self._stalled = self._stalled, silent_s >= settings.profile.stall_after_s
        if self._stalled and not stalled:
            why = "its window is closed" if transfer.zero_window else "no acknowledgements"
            self._announce(EventKind.STALLED, f"no progress for {silent_s:.0f} s: {why}", TransferState.STALLED)
            return
        if self._interim.is_due(now_s - transfer.start.now_s):
            self._interim.kind = transfer.limited_by(self._tuning.in_force(), self._tuning.own_pace, self._link(now_s))
        state = TransferState.STALLED if self._stalled else TransferState.TRANSFERRING
        sample = transfer.sample(now_s) if settings.stream_samples else None
        news = (state, transfer.acked_bytes, transfer.rate_bytes_per_s)
        if sample is not None or news != self._reported:
            self._reported = news
            self._announce(EventKind.PROGRESS, "", state, sample=sample)

    def conclude(self, failure: str, raw_info: bytes | None, channel: "ChannelReading | None" = None) -> None:
        """Report the end with a record: delivered, or why not.

        Args:
            failure: Why it failed; empty if the client has acknowledged everything.
            raw_info: The last reading; None if the socket is gone.
            channel: The SSH channel at the end; None where there is none, or none any more.
        """
        tickets = self._client.tickets
        self.concluded = True
        self._tuning.end_pace()
        now_s = tickets.clock()
        record = self._transfer.record(
            outcome=failure or "delivered",
            raw_info=raw_info,
            now_s=now_s,
            sender=self._tuning.report(),
            commands=self._client.command_log.lines(),
            link=self._link(now_s),
            channel=channel,
        )
        self._site_member.note(self._transfer.acked_bytes)
        self._site_member.leave()
        tickets.end(self._account, self._channel)
        if failure:
            self._announce(EventKind.FAILED, failure, TransferState.FAILED, record=record)
        else:
            self._announce(EventKind.DONE, record.verdict.sentence, TransferState.DELIVERED, record=record)
        tickets.ended(self._account)

    def _link(self, now_s: float) -> KnownLink | None:
        """Return the rate of the link, and that of our other transfers over it so far; None if unknown."""
        carries = self._client.tickets.link_of(self._account)
        passed_s = now_s - self._transfer.start.now_s
        if carries is None:
            return None
        beside = self._site_member.beside_bytes / passed_s if passed_s > 0 else 0.0
        return KnownLink(bytes_per_s=carries, beside_bytes_per_s=beside)

    def _announce(self, kind: EventKind, text: str, state: TransferState, **more: Any) -> None:
        account, transfer = self._account, self._transfer
        if account.channel not in (self._channel, None):
            # Superseded: the ticket's new transfer reports now.
            return
        self._client.tickets.change(
            account,
            kind,
            text,
            state=state,
            peer_address=self._client.client_address,
            control_syn=transfer.start.control_syn,
            data_syn=transfer.start.data_syn,
            transport=transfer.start.transport,
            rtt_s=transfer.info.rtt_s,
            bytes_acked=transfer.start.offset_bytes + transfer.acked_bytes,
            # The rate of an ended transfer is 0, whatever its last second was.
            rate_bytes_per_s=0.0 if state.is_final else transfer.rate_bytes_per_s,
            congestion_control=self._tuning.in_force(),
            limited_by=self._interim.kind,
            **more,
        )
