"""Values that cross the control channel come out as they went in, and nothing else gets through."""

import json
from dataclasses import dataclass, fields, replace
from pathlib import Path

import pytest

from flashferry.core.codec import CodecError, decode, encode
from flashferry.fileserver.records import EventKind, ServerEvent, TransferProgress, TransferState
from flashferry.fileserver.settings import Limits, SenderProfile, ServerSettings
from flashferry.fileserver.wire import Hello, Pulse, line, pulses_line
from flashferry.tcp.sample import Sample
from flashferry.tcp.syn import SynOptions
from flashferry.tcp.verdict import VerdictKind
from ftpserver.control import COMMANDS, masked_command

_SYN = SynOptions(
    ip_version=4, mss_bytes=None, window_bytes=4128, window_scale=3, sack_permitted=True, timestamps=False
)
_PROGRESS = TransferProgress(
    ticket_id="t", state=TransferState.STALLED, sequence=7, size_bytes=9, tries_left=1, control_syn=_SYN, rtt_s=0.1
)

_SAMPLE = Sample(at_s=1.0, rtt_us=9, snd_mss_bytes=1448, snd_cwnd_segments=10, unacked_segments=2, bytes_acked=5)


@pytest.mark.parametrize(
    "value",
    [
        Hello(
            settings=ServerSettings(
                image_paths=(Path("/a"), Path("/b")),
                passive_ports=(5000, 6000),
                masquerade_networks=(("10.0.0.0/8", "192.0.2.1"),),
                profile=SenderProfile(cap_bytes_per_s=5000),
                limits=Limits(sessions=5),
            ),
            parent_pid=5,
        ),
        _PROGRESS,
        ServerEvent(kind=EventKind.STALLED, at=1.5, text="x", progress=_PROGRESS),
    ],
    ids=["hello", "progress", "event"],
)
def test_values_survive_the_wire(value: object) -> None:
    """Nested values, tuples, enums, paths and None come back equal after JSON."""
    assert decode(type(value), json.loads(json.dumps(encode(value)))) == value


def _again(wire: bytes, before: TransferProgress) -> ServerEvent:
    (row,) = json.loads(wire)["pulses"]
    pulse = Pulse.from_row(row)
    return pulse.event(pulse.progress(before))


def test_mere_progress_is_sent_by_what_changed() -> None:
    """A progress event becomes a pulse, comes back equal given the last snapshot, and carries no addresses or SYNs."""
    before = replace(_PROGRESS, peer_address="192.0.2.1")
    after = replace(before, state=TransferState.TRANSFERRING, sequence=8, bytes_acked=5, congestion_control="bbr")
    event = ServerEvent(kind=EventKind.PROGRESS, at=1.5, text="", peer_address="192.0.2.1", progress=after)
    pulse = Pulse.of(event)
    assert pulse is not None
    wire = pulses_line([pulse.row()])
    assert b"syn" not in wire
    assert _again(wire, before) == event
    assert Pulse.of(replace(event, kind=EventKind.STALLED)) is None


def test_a_pulse_carries_all_of_its_values_as_a_row() -> None:
    """A pulse with a reading and a verdict comes back equal, and a row of another shape is refused."""
    pulse = Pulse(
        ticket_id="t",
        at=1.5,
        state=TransferState.TRANSFERRING,
        sequence=3,
        rtt_s=0.1,
        bytes_acked=9,
        rate_bytes_per_s=2.5,
        congestion_control=None,
        limited_by=VerdictKind.WINDOW,
        sample=_SAMPLE,
    )
    row = json.loads(json.dumps(pulse.row()))
    assert Pulse.from_row(row) == pulse
    assert len(row) == len(fields(Pulse))
    assert isinstance(row[-1], list)
    for wrong in (row[:-1], [*row, 1], [*row[:2], "no such state", *row[3:]], [*row[:-1], row[-1][1:]], [*row[:-1], 1]):
        with pytest.raises(CodecError, match="Pulse"):
            Pulse.from_row(wrong)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Simple:
    number: int
    ratio: float = 0.0
    names: tuple[str, ...] = ()


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({}, r"missing fields \['number'\]"),
        ({"number": 1, "other": 2}, r"unknown fields \['other'\]"),
        ({"number": "1"}, "expected int, found str"),
        ({"number": 1, "names": "abc"}, "expected a list, found str"),
        ([], "expected an object, found list"),
    ],
)
def test_other_shapes_are_refused(data: object, message: str) -> None:
    """Missing, unknown and mistyped fields are errors that name them."""
    with pytest.raises(CodecError, match=message):
        decode(_Simple, data)


def test_whole_numbers_may_stand_for_fractions() -> None:
    """JSON writes 1.0 as it likes; defaults fill in the rest."""
    assert decode(_Simple, {"number": 1, "ratio": 2}) == _Simple(number=1, ratio=2.0)


def test_a_message_is_one_line() -> None:
    """Newlines in values cannot break the framing."""
    assert line(text="a\nb").count(b"\n") == 1


def test_commands_are_masked_where_they_may_hold_secrets() -> None:
    """USER, PASS and everything unknown lose their argument; the rest is shown, without control characters."""
    assert masked_command("PASS", "secret") == "PASS ***"
    assert masked_command("USER", "name") == "USER ***"
    assert masked_command("HUNTER2SECRET", "x") == "HUNTER2S ***"
    assert masked_command("RETR", "a\x1b[31m.bin") == "RETR a?[31m.bin"
    assert len(masked_command("RETR", "x" * 5000)) < 120


def test_no_command_reaches_a_file_system() -> None:
    """Every command of the table works without a permission, that is without a path of the server's."""
    assert {command["perm"] for command in COMMANDS.values()} == {None}
    assert not {"STOR", "DELE", "LIST", "SITE", "STAT", "HELP"} & COMMANDS.keys()
