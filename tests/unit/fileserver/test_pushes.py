"""Pushes: what this process sends by itself is told, capped and judged as what the serving processes send."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from flashferry.fileserver.pushes import PushAccount, PushService
from flashferry.fileserver.rate_limits import SiteLoad
from flashferry.fileserver.settings import ListenerSettings, ServerSettings
from flashferry.fileserver.ticket_accounts import TicketRequest, issue
from flashferry.fileserver.transfer_records import EventKind, ServerEvent, TransferState
from flashferry.fileserver.wire import EventMessage, Message, SetLoadElsewhere, SetSiteCap, SiteLoadUpdate
from flashferry.images.image import ImageFile
from flashferry.images.safe_open import FileIdentity
from flashferry.tcp.sample import ChannelReading

_SIZE = 200_000


class Desk:
    """A service whose words are kept, with a connection over loopback that somebody reads."""

    def __init__(self) -> None:
        self.events: list[ServerEvent] = []
        self.loads: list[SiteLoad] = []
        settings = ServerSettings(image_paths=(Path("/x"),), listeners=(ListenerSettings(protocol="a.b:C"),))
        self.service = PushService(settings, self._keep)
        with socket.create_server(("127.0.0.1", 0)) as listener:
            self.ours = socket.create_connection(listener.getsockname())
            self.theirs, _ = listener.accept()
        self.closed = 0

    def _keep(self, message: Message) -> None:
        if isinstance(message, EventMessage):
            self.events.append(message.event)
        elif isinstance(message, SiteLoadUpdate):
            self.loads.append(message.load)

    def open(self, site: str = "s1", **request: int) -> PushAccount:
        image = ImageFile(
            name="a.bin",
            size_bytes=_SIZE,
            md5="",
            sha512="",
            path=Path("/a.bin"),
            identity=FileIdentity(device=1, inode=2, size_bytes=_SIZE, mtime_ns=3, ctime_ns=4),
        )
        push, _ = self.service.open(
            issue(TicketRequest(image_name="a.bin", site=site, **request), image)[1], self.close
        )
        return push

    def begin(self, push: PushAccount) -> None:
        push.begin(
            self.ours,
            peer_address="192.0.2.1",
            cipher="aes128-ctr",
            mac="hmac-sha2-256",
            server="SSH-2.0-Cisco-1.25",
            channel=ChannelReading(waiting_bytes=0, window_bytes=8192),
        )

    def send(self, push: PushAccount, count: int) -> None:
        self.ours.sendall(os.urandom(count))
        while count:
            count -= len(self.theirs.recv(count))
        push.wrote(_SIZE)

    def close(self) -> None:
        self.closed += 1


@pytest.fixture
def at() -> Iterator[Desk]:
    service = Desk()
    yield service
    service.ours.close()
    service.theirs.close()


def test_a_push_is_told_as_any_transfer(at: Desk) -> None:
    """Start, progress and end are events; the record says push, the cipher, the server and both windows."""
    push = at.open()
    at.begin(push)
    at.send(push, _SIZE + 3000)
    push.sample(ChannelReading(waiting_bytes=7, window_bytes=131_072))
    push.conclude("", ChannelReading(waiting_bytes=0))
    kinds = [event.kind for event in at.events if event.kind is not EventKind.NOTICE]
    assert (kinds[0], kinds[-1]) == (EventKind.START, EventKind.DONE)
    progress = at.events[-1].progress
    assert progress is not None
    record = progress.record
    assert record is not None
    assert (progress.state, record.outcome, record.transport) == (TransferState.DELIVERED, "delivered", "push")
    assert (record.cipher, record.mac, record.client) == ("aes128-ctr", "hmac-sha2-256", "SSH-2.0-Cisco-1.25")
    assert (record.channel_window_bytes, record.bytes_acked) == (131_072, _SIZE)


def test_only_the_devices_word_makes_all_of_it_acknowledged(at: Desk) -> None:
    """Bytes of SSH are on the wire besides: while it goes on less is told than was acknowledged, never more."""
    push = at.open()
    at.begin(push)
    at.send(push, _SIZE)
    push.sample()
    told = at.events[-1].progress
    assert told is not None
    assert 0 < told.bytes_acked < _SIZE


def test_a_push_that_ended_before_its_first_byte_has_its_reason(at: Desk) -> None:
    """Whoever waits for it is told; there is no record of a transfer that was none."""
    push = at.open()
    push.conclude("the device's SCP server says: no")
    told = at.events[-1].progress
    assert told is not None
    assert (told.state, told.record, told.last_error) == (
        TransferState.FAILED,
        None,
        "the device's SCP server says: no",
    )
    assert not at.service.has(push.ticket_id)


def test_a_push_has_its_share_of_what_its_site_may_take(at: Desk) -> None:
    """The cap is divided among pushes and what the serving processes have under way there; what ends gives it back."""
    at.service.take(SetSiteCap(site="s1", cap_bytes_per_s=900_000, source="given"))
    at.service.take(SetLoadElsewhere(load=SiteLoad(site="s1", transfers=2, moved_bytes=0)))
    push = at.open()
    at.begin(push)
    assert at.loads[-1] == SiteLoad(site="s1", transfers=1, moved_bytes=0)
    assert push._tuning is not None
    assert push._tuning.cap_bytes_per_s == 300_000
    at.service.take(SetLoadElsewhere(load=SiteLoad(site="s1", transfers=0, moved_bytes=0)))
    push.sample()
    assert push._tuning.cap_bytes_per_s == 900_000
    push.conclude()
    assert at.loads[-1].transfers == 0


@pytest.mark.parametrize("has_begun", [True, False])
def test_revoking_closes_the_senders_connection(at: Desk, has_begun: bool) -> None:
    """Whoever ends it ends what sends; the reason stays with it, and it is told as failed."""
    push = at.open()
    if has_begun:
        at.begin(push)
    at.service.revoke(push.ticket_id)
    push.conclude(push.cut_because or "ended")
    assert at.closed == 1
    told = at.events[-1].progress
    assert told is not None
    assert told.state is TransferState.FAILED
