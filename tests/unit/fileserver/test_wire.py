"""Messages come out as they went in, and nothing else gets through."""

import os
import pickle
from pathlib import Path

import msgspec
import pytest

from flashferry.core.values import replace
from flashferry.fileserver import wire
from flashferry.fileserver.fixed_login import FixedLogin, admit
from flashferry.fileserver.rate_limits import SiteLoad
from flashferry.fileserver.settings import Limits, ListenerSettings, SenderProfile, ServerSettings
from flashferry.fileserver.ticket_accounts import SshOffer, TicketRequest, issue
from flashferry.fileserver.transfer_records import (
    EventKind,
    LoginFailure,
    ServerEvent,
    TicketUse,
    TransferProgress,
    TransferState,
)
from flashferry.images.image import ImageFile
from flashferry.images.safe_open import FileIdentity
from flashferry.tcp.sample import Sample
from flashferry.tcp.syn import SynOptions
from flashferry.tcp.verdict import VerdictKind

_SYN = SynOptions(
    ip_version=4, mss_bytes=None, window_bytes=4128, window_scale=3, sack_permitted=True, timestamps=False
)
_PROGRESS = TransferProgress(
    ticket_id="t", state=TransferState.STALLED, sequence=7, size_bytes=9, tries_left=1, control_syn=_SYN, rtt_s=0.1
)
_SAMPLE = Sample(at_s=1.0, rtt_us=9, snd_mss_bytes=1448, snd_cwnd_segments=10, unacked_segments=2, bytes_acked=5)
_IMAGE = ImageFile(
    name="a.bin",
    size_bytes=10,
    md5="",
    sha512="",
    # A folder whose name is not UTF-8.
    path=Path(os.fsdecode(b"/images/\xff/a.bin")),
    identity=FileIdentity(device=1, inode=2, size_bytes=10, mtime_ns=3, ctime_ns=4),
)
_SETTINGS = ServerSettings(
    image_paths=(Path("/a"), _IMAGE.path),
    listeners=(ListenerSettings(protocol="one:ONE", port=21, options={"ports": [5000, 6000], "name": None}),),
    profile=SenderProfile(cap_bytes_per_s=5000),
    limits=Limits(sessions=5),
)
_LOAD = SiteLoad(site="east", transfers=2, moved_bytes=5000)
_FIXED = admit(FixedLogin(username="lab", password="Bench-2026.word"), (_IMAGE,))


_REQUEST = TicketRequest(
    image_name="a.bin", source_addresses=("::1",), transports=("x",), ssh=SshOffer(profile="legacy", mac=("m", "n"))
)


def test_a_greeting_comes_out_as_it_went_in() -> None:
    """Nested values, tuples, paths and the options of a protocol are equal on the other side."""
    hello = wire.Hello(settings=_SETTINGS, parent_pid=5)
    assert wire.decode_hello(wire.encode(hello)) == hello


@pytest.mark.parametrize(
    "request_",
    [
        wire.AddTicket(grant=issue(_REQUEST, _IMAGE)[1]),
        wire.AdmitLogin(grant=_FIXED),
        wire.Revoke(ticket_id="t"),
        wire.SetCap(ticket_id="t", cap_bytes_per_s=None),
        wire.SetSiteCap(site="east", cap_bytes_per_s=5000, source="a test"),
        wire.SetSiteLink(site="east", link_bytes_per_s=5000),
        wire.SetLoadElsewhere(load=_LOAD),
        wire.AttemptsElsewhere(ticket_id="t", tries=2, yields=False, is_delivered=True),
        wire.Drain(),
        wire.OfferImages(paths=(wire.OfferedPath(path=_IMAGE.path, identity=_IMAGE.identity),), pushes=True),
        wire.AskSlot(number=1, site=None, limit=None),
        wire.SiteLoadUpdate(load=_LOAD),
        wire.Stop(),
    ],
    ids=lambda request: type(request).__name__,
)
def test_a_request_comes_out_as_it_went_in(request_: wire.Request) -> None:
    """Each with its kind, its values and its number."""
    call = wire.Call(number=3, request=request_)
    assert wire.decode_call(wire.encode(call)) == call


@pytest.mark.parametrize(
    "message",
    [
        wire.EventMessage(event=ServerEvent(kind=EventKind.STALLED, at=1.5, text="x", progress=_PROGRESS)),
        wire.RefusedLogin(failure=LoginFailure(at=1.0, peer_address="::1", username_masked="a***", reason="unknown")),
        wire.Answer(number=4, kind="ValueError", error="no", hint="retry"),
        wire.AttemptUsed(use=TicketUse(ticket_id="t", here=1, elsewhere=2)),
        wire.SiteLoadUpdate(load=_LOAD),
        wire.Welcome(settings=_SETTINGS, ports=(21,), network="net:[1]", host_keys=_IMAGE.path),
        wire.TicketsInvalidated(ticket_ids=("t",), reason="killed"),
        wire.SetSiteCap(site="east", cap_bytes_per_s=None, source=""),
    ],
    ids=lambda message: type(message).__name__,
)
def test_a_message_comes_out_as_it_went_in(message: wire.Message) -> None:
    """Each with its kind and its values; on the line its length stands before it."""
    sent = wire.framed(message)
    length, body = sent[: wire.LENGTH_BYTES], sent[wire.LENGTH_BYTES :]
    assert int.from_bytes(length, "big") == len(body)
    assert wire.decode_message(body) == message


@pytest.mark.parametrize("result", [_PROGRESS, 5, None], ids=["progress", "number", "nothing"])
def test_an_answer_carries_a_result_of_the_kind_that_was_asked_for(result: object) -> None:
    """It is read as what the asker expects, and refused as anything else."""
    read = wire.decode_message(wire.encode(wire.answer(7, result)))
    assert isinstance(read, wire.Answer)
    assert (read.number, msgspec.msgpack.decode(read.result, type=type(result))) == (7, result)
    with pytest.raises(msgspec.ValidationError):
        msgspec.msgpack.decode(read.result, type=bool)


def test_mere_progress_is_sent_by_what_changed() -> None:
    """A progress event becomes an update, comes back equal given the last snapshot, and has no addresses or SYNs."""
    before = replace(_PROGRESS, peer_address="192.0.2.1")
    after = replace(before, state=TransferState.TRANSFERRING, sequence=8, bytes_acked=5, limited_by=VerdictKind.WINDOW)
    event = ServerEvent(
        kind=EventKind.PROGRESS, at=1.5, text="", peer_address="192.0.2.1", progress=after, sample=_SAMPLE
    )
    update = wire.ProgressUpdate.of(event)
    assert update is not None
    sent = wire.encode(wire.ProgressUpdates(updates=[update]))
    assert b"syn" not in sent
    assert b"rtt" not in sent
    assert len(sent) < len(wire.encode(_SAMPLE)) / 2
    read = wire.decode_message(sent)
    assert isinstance(read, wire.ProgressUpdates)
    assert read.updates[0].event(read.updates[0].progress(before)) == event
    assert wire.ProgressUpdate.of(replace(event, kind=EventKind.STALLED)) is None


@pytest.mark.parametrize(
    "wrong",
    [
        {"type": "ProgressUpdates", "updates": [[1.5]]},
        {"type": "ProgressUpdates", "updates": [[1.5, ["t", "no such state", 3, None, 9, 2.5, None, None]]]},
        {"type": "ProgressUpdates", "updates": [[1.5, ["t", "stalled", 3, None, 9, 2.5, None, None], [{"a": 1}]]]},
        {"type": "EventMessage", "event": {"kind": "stalled", "at": "now", "text": ""}},
        {"type": "EventMessage", "event": {"kind": "stalled"}},
        {"type": "os.system", "command": "true"},
        ["Answer", 1],
        5,
    ],
    ids=str,
)
def test_other_shapes_are_refused(wrong: object) -> None:
    """A message that is none of ours, or has a value of another type, is an error and no object."""
    with pytest.raises(msgspec.DecodeError):
        wire.decode_message(msgspec.msgpack.encode(wrong))


def test_a_reading_of_another_length_is_refused() -> None:
    """A row with a value less is no reading."""
    now = wire.ProgressChange("t", TransferState.STALLED, 3, None, 9, 2.5, None, None)
    update = wire.ProgressUpdate(at=1.5, now=now, sample=(1.0, 2))
    with pytest.raises(ValueError, match="zip"):
        update.event(_PROGRESS)


def test_nothing_is_unpickled() -> None:
    """A serving process that was taken over cannot have its parent call anything."""
    with pytest.raises(msgspec.DecodeError):
        wire.decode_message(pickle.dumps(print))
