"""What a device reports of a copy is held against what our server delivered."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from flashferry.devices.errors import NotDelivered
from flashferry.devices.platforms.ios import IOS_XE
from flashferry.fileserver import Ticket
from flashferry.transports import transport_named
from flashferry.transports.transport import ServerView, offer_of
from tasks import copy
from tasks.copy import copy_image, copy_limits

DONE = (
    "Accessing ftp://...!!!\r\n[OK - 1000/4096 bytes]\r\n\r\n1000 bytes copied in 0.100 secs (10000 bytes/sec)\r\nr1#"
)


@pytest.fixture(autouse=True)
def short_waits(monkeypatch):
    monkeypatch.setattr(copy, "LAST_ACK_S", 0.2)


def copied(*views):
    """Copy 1000 bytes to a device that reports all of them at once; the server's views come one after the other."""
    left = list(views)
    session = SimpleNamespace(
        name="r1", prompt_pattern="r1#", platform=IOS_XE, converse=lambda command, watch, check: watch.take(DONE)
    )
    transport = transport_named("ftp")
    ticket = Ticket(ticket_id="t1", username="user", password="word", image_name="x.bin")
    return copy_image(
        session,
        offer=offer_of(transport, ticket, server="192.0.2.10", port=21),
        target="bootflash:x.bin",
        size_bytes=1000,
        limits=copy_limits(size_bytes=1000, expected_bytes_per_s=1e5),
        witness=lambda: left.pop(0) if len(left) > 1 else left[0],
    )


def seen(acked_bytes, **more):
    return ServerView(client_seen=True, logged_in=True, acked_bytes=acked_bytes, **more)


@pytest.mark.parametrize(
    ("view", "found"),
    [
        (ServerView(delivered=False), "found 0"),
        (seen(0, delivered=False, is_over=True, failure="the client left"), "found 0: the client left"),
        (seen(500, delivered=False, is_over=True), "found 500"),
        (seen(500, delivered=False), "found 500"),
        (seen(1000, delivered=False, is_over=True), "found 1000"),
    ],
    ids=["no client", "no byte", "a part", "a part, and still open", "the end of it alone"],
)
def test_a_copy_that_our_server_did_not_deliver_is_not_done(view, found):
    """However well the device reports it: the count of the server decides."""
    with pytest.raises(NotDelivered, match=f"reports 1000 bytes copied to bootflash:x.bin.*1000, {found}"):
        copied(view)


def test_the_last_acknowledgement_may_come_after_the_prompt():
    """The device is back at its prompt a moment before the server knows of the last byte."""
    assert copied(seen(900, delivered=False), seen(1000, delivered=True, is_over=True)).device.size_bytes == 1000


def test_a_copy_that_no_server_of_ours_counts_is_taken_from_the_device():
    """As one from a neighbour: its hash decides."""
    assert copied(ServerView(client_seen=True)).device.size_bytes == 1000
