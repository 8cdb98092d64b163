"""Pushes of a run beside copies of others: each hears of the other, and a site's cap is divided among all."""

from __future__ import annotations

import socket

import pytest

from flashferry.fileserver import SettingsInvalid, TicketRequest, TransferState
from tests.component.depot.conftest import IMAGE, until
from tests.patience import PATIENCE_S

SITE = "AMS"
CAP = 400_000


def test_a_push_and_another_run_s_copy_share_a_cap(shared_depot):
    """Half of it each while both go on; the push is told, capped and judged by its own run, its record included."""
    depot = shared_depot
    pusher, other = depot.stranger(), depot.run()
    pusher.open((depot.image,), pushes=True)
    pusher.set_site_cap(SITE, CAP)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        ours = socket.create_connection(listener.getsockname())
        theirs, _ = listener.accept()
    with ours, theirs:
        account = pusher.open_push(TicketRequest(image_name=IMAGE, site=SITE), lambda: None)
        account.begin(ours, peer_address="127.0.0.1")
        copy = depot.ticket(other, site=SITE)
        with depot.fetching(other, copy):
            depot.until_sending(other, copy)
            until(lambda: (account.sample(), _pacing(ours))[1] == CAP // 2)
            other.revoke(copy.ticket_id)
        until(lambda: (account.sample(), _pacing(ours))[1] == CAP)
        account.conclude("the device went away")
    seen = pusher.wait_final(account.ticket_id, PATIENCE_S)
    assert (seen.state, seen.record.sender.cap_bytes_per_s) == (TransferState.FAILED, CAP)


def test_pushes_are_offered_beforehand(shared_depot):
    """A run that did not say so has no desk for them."""
    run = shared_depot.run()
    with pytest.raises(SettingsInvalid, match="expected a server that was opened for pushes"):
        run.open_push(TicketRequest(image_name=IMAGE), lambda: None)


def _pacing(connection: socket.socket) -> int:
    """Return what the kernel paces a connection at (SO_MAX_PACING_RATE, asm-generic/socket.h)."""
    return int.from_bytes(connection.getsockopt(socket.SOL_SOCKET, 47, 8), "little")
