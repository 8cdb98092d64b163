"""A device's tickets, and the server's account of what was fetched with them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from flashferry.core.units import exact_rate
from flashferry.devices.identity import identity_of
from flashferry.devices.platforms import control_plane
from flashferry.fileserver import (
    ImageFile,
    SshOffer,
    Ticket,
    TicketRequest,
    TransferProgress,
    TransferRecord,
    TransferState,
)
from flashferry.model.link_rates import LinkCap, payload_cap_bytes_per_s
from flashferry.monitor.events import TransferEnd
from flashferry.run.context import RunContext
from flashferry.run.device.login import DeviceLogin
from flashferry.run.device.record_keeper import DeviceEvents, RecordKeeper
from flashferry.run.device.transports import DeviceTransport
from flashferry.run.device.tuning import DeviceTuning
from flashferry.store.transfer_row import STAGE, TransferEntry
from flashferry.tcp.probing import steady_bytes_per_s
from flashferry.transports.algorithms import offer_alone, ssh_offer
from inventory.host_view import HostView
from tasks.source_address import own_addresses

if TYPE_CHECKING:
    from flashferry.fileserver import PushAccount

TICKET_LIFETIME_S = 24 * 3600

RUNNING = (TransferState.TRANSFERRING, TransferState.STALLED)
"""States of a transfer that goes on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyOrder:
    """What a device is to copy.

    Attributes:
        image: The image.
        target: Where it goes, for example `bootflash:image.bin`, or `null:`.
        kind: What the copy is by the words of the store.
        kind_tuned: The same where lines are in force that change the speed.
        ssh: What the device is to be offered by SSH; None: as usual, see `DeviceTickets`.
        is_history: Whether its rate says what the next copy may be like; that of a cipher that is tried out does not.
    """

    image: ImageFile
    target: str
    kind: str = STAGE
    kind_tuned: str = STAGE
    ssh: SshOffer | None = None
    is_history: bool = True


@dataclass(slots=True, kw_only=True)
class CopyTraces:
    """What the copies of a device's run have done so far, over all its tickets.

    Attributes:
        order: The copy under way, or the last one; None before the first.
        ticket: Its ticket; those before are worthless.
        began: The device began to fetch: what is at the target is ours, until it is proven gone.
        may_be_writing: The device may still be writing to the target.
        sent_bytes: The most that a copy got from us: a larger file at the target is not ours.
        is_theirs: Somebody else's file is at the target.
        is_from_neighbour: The last copy was one from a neighbour, of which our server knows nothing.
    """

    order: CopyOrder | None = None
    ticket: Ticket | None = None
    began: bool = False
    may_be_writing: bool = False
    sent_bytes: int = 0
    is_theirs: bool = False
    is_from_neighbour: bool = False


class DeviceTickets:
    """Issues a device's tickets, and keeps what the server tells about them."""

    def __init__(
        self,
        context: RunContext,
        host: HostView,
        login: DeviceLogin,
        events: DeviceEvents,
        keeper: RecordKeeper,
        tuning: DeviceTuning,
        traces: CopyTraces,
        transport: DeviceTransport,
    ) -> None:
        self._transport = transport
        self._context, self._host, self._login = context, host, login
        self._events, self._keeper, self._tuning = events, keeper, tuning
        self._traces = traces

    def issue(self, image: ImageFile) -> Ticket:
        """Issue credentials for one transfer, bound to the device's addresses; those before are worthless."""
        self.revoke()
        self._traces.may_be_writing = True
        ticket = self._traces.ticket = self._context.server.issue_ticket(self._request(image))
        return ticket

    def open_push(self, image: ImageFile, close: Callable[[], None]) -> PushAccount:
        """Open the account of a transfer that our side sends; tickets before it are worthless.

        Args:
            image: What is sent.
            close: Ends the sender's connection.
        """
        self.revoke()
        self._traces.may_be_writing = True
        account = self._context.server.open_push(self._request(image), close)
        # Nobody logs in with it: under its name the account is asked for.
        self._traces.ticket = Ticket(ticket_id=account.ticket_id, username="", password="", image_name=image.name)
        return account

    def _request(self, image: ImageFile) -> TicketRequest:
        context, session = self._context, self._login.session()
        # A device of a site shares the site's cap with its neighbours; one without a site has its own.
        cap: LinkCap | None = None if self._host.site else context.links.cap(self._host, session.peer_address)
        link = context.links.of(self._host, session.peer_address)
        return TicketRequest(
            image_name=image.name,
            source_addresses=own_addresses(session),
            lifetime_s=TICKET_LIFETIME_S,
            tries=1,
            cap_bytes_per_s=cap.bytes_per_s if cap else None,
            site=self._host.site or "",
            link_bytes_per_s=payload_cap_bytes_per_s(link.rate_bps) if link else None,
            transports=(self._transport.current.name,),
            ssh=self._ssh_offer(),
        )

    def _ssh_offer(self) -> SshOffer | None:
        checked, transport = self._keeper.record.check, self._transport.current
        if checked is None or transport.is_clear_text:
            return None
        if self._traces.order is not None and self._traces.order.ssh is not None:
            return self._traces.order.ssh
        offer = ssh_offer(transport, checked.version.release)
        preferences = self._context.ssh_preferences
        preferred = preferences.get(checked.facts.model) if preferences else None
        if preferred is None:
            return offer
        # What a sweep found to be the fastest is offered alone: the device picks by its own order.
        return offer_alone(transport, offer, cipher=preferred.cipher, mac=preferred.mac)

    @property
    def trouble(self) -> str:
        """Return what our server last had to say of the ticket that went wrong; empty where nothing did."""
        ticket = self._traces.ticket
        return "" if ticket is None else self._context.server.progress(ticket.ticket_id).last_error

    def revoke(self) -> None:
        """Make the ticket worthless and end what is under way with it, where there is one."""
        if self._traces.ticket is not None:
            self._context.server.revoke(self._traces.ticket.ticket_id)

    def take_account(self, seen: TransferProgress) -> None:
        """Keep the server's record, and what it tells about the link."""
        traces = self._traces
        traces.began = traces.began or has_begun(seen)
        record = seen.record
        if record is not None:
            record = self._with_policer_named(record)
            traces.sent_bytes = max(traces.sent_bytes, record.bytes_sent)
            if record != self._keeper.record.transfer:
                self._context.links.note(self._host, record)
                self._tell_transfer(record)
                self._keep_transfer(record)
        self._keeper.update(transfer=record)

    def _with_policer_named(self, record: TransferRecord) -> TransferRecord:
        """Return the record; a policer that the device itself has gets its name, for the server knows no models."""
        verdict = control_plane.named(
            record.verdict,
            model=self._keeper.checked.facts.model,
            rate_bytes_per_s=record.rate_bytes_per_s,
            mss_bytes=record.mss_bytes,
        )
        return replace(record, verdict=verdict)

    def _tell_transfer(self, record: TransferRecord) -> None:
        end = TransferEnd(
            is_delivered=record.outcome == "delivered",
            verdict=record.verdict.kind.value,
            bytes_acked=record.bytes_acked,
            retransmitted_bytes=record.retransmitted_bytes,
            duration_s=record.duration_s,
            rate_bytes_per_s=record.rate_bytes_per_s,
            transport=record.transport,
        )
        text = f"{exact_rate(record.rate_bytes_per_s)} by our server, {end.verdict}"
        self._events.tell("transfer", "done" if end.is_delivered else "failed", text, transfer=end)

    def _keep_transfer(self, record: TransferRecord) -> None:
        """Keep the server's account at once: the next plan predicts from it, also where the copy failed."""
        order, is_tuned = self._traces.order, self._tuning.is_tuned
        assert order is not None
        if not order.is_history:
            return
        kept = TransferEntry(
            identity=identity_of(self._keeper.checked.facts),
            kind=order.kind_tuned if is_tuned else order.kind,
            tuned=is_tuned,
            target=order.target,
            image=order.image.name,
            record=record,
            steady_bytes_per_s=steady_bytes_per_s(record.samples),
        )
        self._context.journal.add_transfer(self._context.run_id, self._host.name, kept)


def has_begun(seen: TransferProgress) -> bool:
    """Tell whether the device began to fetch the image: then a file at the target is our copy's."""
    return seen.record is not None or seen.state in RUNNING
