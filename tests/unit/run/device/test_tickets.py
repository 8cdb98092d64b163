"""A device's tickets, and the server's account of its copies."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

from flashferry.fileserver import TransferState
from flashferry.run.device.way import parts_of
from tests.unit.run.device.scripted import Steps, account, context
from tests.unit.transports.some_transports import named


@pytest.mark.parametrize(("data", "link"), [({"link_rate_bps": 16_000_000}, 1_946_666), ({}, None)])
def test_the_server_is_told_what_the_link_carries(data, link):
    """A verdict is held against the whole link, of which the cap is a share; nobody's guess where nothing is known."""
    steps = Steps()
    steps.host.data.update(data)
    parts = parts_of(steps, context())
    parts.tickets.issue(parts.context.image)
    (request,) = parts.context.server.requests
    assert request.link_bytes_per_s == link
    assert request.cap_bytes_per_s == (None if link is None else 1_557_333)


def test_a_new_ticket_makes_the_one_before_worthless():
    """And from then on the device may be writing: nothing is removed before that is known to be over."""
    parts = parts_of(Steps(), context())
    for _ in range(2):
        parts.tickets.issue(parts.context.image)
    assert parts.context.server.revoked == ["t1"]
    assert (parts.traces.ticket.ticket_id, parts.traces.may_be_writing) == ("t2", True)


def test_a_copy_that_began_once_began_for_good():
    """What an earlier ticket's copy left is ours, too, also where the next one never came to a transfer."""
    parts = parts_of(Steps(), context())
    seen = [TransferState.WAITING, TransferState.TRANSFERRING, TransferState.WAITING]
    began = []
    for state in seen:
        parts.tickets.take_account(account(state, 0))
        began.append(parts.traces.began)
    assert began == [False, True, True]


@pytest.mark.parametrize(
    ("transport", "release", "profile"),
    [
        ("ftp", "15.2(4)M", None),
        ("https", "16.11.1", None),
        ("scp", "16.11.1", "legacy"),
        ("sftp", "15.8(3)M2", "legacy"),
        ("scp", "interim", "legacy"),
        ("scp", "17.12.04a", None),
    ],
)
def test_a_ticket_is_for_one_transport_and_offers_old_algorithms_where_they_are_needed(transport, release, profile):
    """To that device's addresses alone, and for as long as the ticket is good."""
    parts = parts_of(Steps(), replace(context(), transports=named(transport)))
    parts.keeper.update(check=SimpleNamespace(version=SimpleNamespace(release=release)))
    parts.tickets.issue(parts.context.image)
    (request,) = parts.context.server.requests
    assert request.transports == (transport,)
    assert (request.ssh.profile if request.ssh else None) == profile
