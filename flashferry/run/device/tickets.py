"""A device's tickets, and the server's account of its copies."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec.structs import replace

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
from flashferry.model.link_rates import payload_cap_bytes_per_s
from flashferry.monitor.events import TransferEnd
from flashferry.run.device.device_run import DeviceRun
from flashferry.store.transfer_row import TransferEntry
from flashferry.tcp.speed_test_size import steady_bytes_per_s
from flashferry.transports.transport_selection import offer_alone, ssh_offer
from tasks.fetch_check import own_addresses

if TYPE_CHECKING:
    from flashferry.fileserver import PushAccount

TICKET_LIFETIME_S = 24 * 3600

RUNNING = (TransferState.TRANSFERRING, TransferState.STALLED)
"""States of a transfer under way."""


def issue_ticket(run: DeviceRun, image: ImageFile) -> Ticket:
    """Issue credentials for one transfer, valid from the device's addresses; earlier ones are revoked."""
    revoke_ticket(run)
    run.traces.may_be_writing = True
    ticket = run.traces.ticket = run.context.server.issue_ticket(_request(run, image))
    return ticket


def open_push(run: DeviceRun, image: ImageFile, close: Callable[[], None]) -> PushAccount:
    """Open the server's account of a push; earlier tickets are revoked. `close` ends the sender's connection."""
    revoke_ticket(run)
    run.traces.may_be_writing = True
    account = run.context.server.open_push(_request(run, image), close)
    # A ticket without a login; its identifier is the account's.
    run.traces.ticket = Ticket(ticket_id=account.ticket_id, username="", password="", image_name=image.name)
    return account


def _request(run: DeviceRun, image: ImageFile) -> TicketRequest:
    links, session = run.context.links, run.session()
    # Devices of a site share the site's cap; a device without a site has its own.
    cap = None if run.host.site else links.cap(run.host, session.peer_address)
    link = links.of(run.host, session.peer_address)
    return TicketRequest(
        image_name=image.name,
        source_addresses=own_addresses(session),
        lifetime_s=TICKET_LIFETIME_S,
        tries=1,
        cap_bytes_per_s=cap.bytes_per_s if cap else None,
        site=run.host.site or "",
        link_bytes_per_s=payload_cap_bytes_per_s(link.rate_bps) if link else None,
        transports=(run.transport.name,),
        ssh=_ssh_offer(run),
    )


def _ssh_offer(run: DeviceRun) -> SshOffer | None:
    """Return the SSH algorithms to offer: the copy's own, the fastest of a sweep, or those of the release."""
    checked, transport, order = run.record.check, run.transport, run.traces.order
    if checked is None or transport.is_clear_text:
        return None
    if order is not None and order.ssh is not None:
        return order.ssh
    offer = ssh_offer(transport, checked.version.release)
    preferences = run.context.ssh_preferences
    preferred = preferences.get(checked.facts.model) if preferences else None
    if preferred is None:
        return offer
    # The device chooses by its own order of preference, so only the fastest is offered.
    return offer_alone(transport, offer, cipher=preferred.cipher, mac=preferred.mac)


def last_server_error(run: DeviceRun) -> str:
    """Return the server's last error for the current ticket; empty if none."""
    ticket = run.traces.ticket
    return "" if ticket is None else run.context.server.progress(ticket.ticket_id).last_error


def revoke_ticket(run: DeviceRun) -> None:
    """Revoke the current ticket, if any, and end its transfer."""
    if run.traces.ticket is not None:
        run.context.server.revoke(run.traces.ticket.ticket_id)


def take_account(run: DeviceRun, seen: TransferProgress) -> None:
    """Record the server's account of a transfer, and what it shows about the link."""
    traces, record = run.traces, seen.record
    traces.began = traces.began or has_started(seen)
    if record is not None:
        record = _with_policer_named(run, record)
        traces.sent_bytes = max(traces.sent_bytes, record.bytes_sent)
        if record != run.record.transfer:
            run.context.links.note(run.host, record)
            _emit_transfer(run, record)
            _store_transfer(run, record)
    run.update(transfer=record)


def _with_policer_named(run: DeviceRun, record: TransferRecord) -> TransferRecord:
    """Return the record with the device's own policer named in the verdict; the server does not know the model."""
    verdict = control_plane.named(
        record.verdict,
        model=run.checked.facts.model,
        rate_bytes_per_s=record.rate_bytes_per_s,
        mss_bytes=record.mss_bytes,
    )
    return replace(record, verdict=verdict)


def _emit_transfer(run: DeviceRun, record: TransferRecord) -> None:
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
    run.event("transfer", "done" if end.is_delivered else "failed", text, transfer=end)


def _store_transfer(run: DeviceRun, record: TransferRecord) -> None:
    """Store the account at once, even of a failed copy: the next plan forecasts from it."""
    order, is_tuned = run.traces.order, any(change.is_tuning for change in run.in_force)
    assert order is not None
    if not order.is_history:
        return
    entry = TransferEntry(
        identity=identity_of(run.checked.facts),
        kind=order.kind_tuned if is_tuned else order.kind,
        tuned=is_tuned,
        target=order.target,
        image=order.image.name,
        record=record,
        steady_bytes_per_s=steady_bytes_per_s(record.samples),
    )
    run.context.journal.add_transfer(run.context.run_id, run.host.name, entry)


def has_started(seen: TransferProgress) -> bool:
    """Return whether the device started to fetch the image: a file at the target is then from our copy."""
    return seen.record is not None or seen.state in RUNNING
