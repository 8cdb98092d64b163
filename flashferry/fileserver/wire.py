"""The local control channel: one JSON object per line between the parent and the serving process.

A request carries `id` and `op`; its answer carries `re` and either `ok` or `error`. What happens by itself comes as
`event`, as `pulses` (mere progress, the bulk of all that is said: those of one moment in one line, as rows without
names) or as `login_failure`. The channel is a socket pair nobody else can reach, and it never carries a password.
"""

import json
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any, Self

from flashferry.core.codec import CodecError, encode
from flashferry.fileserver.host_capabilities import HostCapabilities
from flashferry.fileserver.records import EventKind, ServerEvent, TransferProgress, TransferState
from flashferry.fileserver.settings import ServerSettings
from flashferry.tcp.sample import Sample
from flashferry.tcp.verdict import VerdictKind

# Made once: `json.dumps` with options of one's own makes one for every call.
_ENCODER = json.JSONEncoder(separators=(",", ":"))
_STATES = {state.value: state for state in TransferState}


@dataclass(frozen=True, slots=True, kw_only=True)
class Hello:
    """The first line to the serving process: how to run, and whose death ends it."""

    settings: ServerSettings
    parent_pid: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """The first line from the serving process."""

    port: int
    capabilities: HostCapabilities


@dataclass(frozen=True, slots=True, kw_only=True)
class Pulse:
    """A progress event by what changes from one to the next; the other side knows the rest."""

    ticket_id: str
    at: float
    state: TransferState
    sequence: int
    rtt_s: float | None
    bytes_acked: int
    rate_bytes_per_s: float
    congestion_control: str | None
    limited_by: VerdictKind | None = None
    sample: Sample | None = None

    @classmethod
    def of(cls, event: ServerEvent) -> Self | None:
        """Return an event as a pulse; None if it is more than mere progress."""
        progress = event.progress
        if event.kind is not EventKind.PROGRESS or progress is None:
            return None
        return cls(
            ticket_id=progress.ticket_id,
            at=event.at,
            state=progress.state,
            sequence=progress.sequence,
            rtt_s=progress.rtt_s,
            bytes_acked=progress.bytes_acked,
            rate_bytes_per_s=progress.rate_bytes_per_s,
            congestion_control=progress.congestion_control,
            limited_by=progress.limited_by,
            sample=event.sample,
        )

    def row(self) -> list[Any]:
        """Return its values in the order of the fields: hundreds of copies speak every second, and names cost time.

        A reading is a row of its own in it.
        """
        values = [getattr(self, name) for name in _FIELDS]
        values[_STATE] = self.state.value
        if self.limited_by is not None:
            values[_LIMITED_BY] = self.limited_by.value
        if self.sample is not None:
            values[_SAMPLE] = _readings_of(self.sample)
        return values

    @classmethod
    def from_row(cls, row: list[Any]) -> Self:
        """Undo `row`.

        Raises:
            CodecError: It has another number of values, or a word that is not known.
        """
        try:
            values: dict[str, Any] = dict(zip(_FIELDS, row, strict=True))
            values["state"] = _STATES[values["state"]]
            if values["limited_by"] is not None:
                values["limited_by"] = VerdictKind(values["limited_by"])
            if values["sample"] is not None:
                values["sample"] = Sample(**dict(zip(_READINGS, values["sample"], strict=True)))
            return cls(**values)
        except (KeyError, TypeError, ValueError) as error:
            raise CodecError(f"Pulse: expected {len(_FIELDS)} values, found {row!r}") from error

    def progress(self, before: TransferProgress) -> TransferProgress:
        """Return the ticket's snapshot, given its last one."""
        return replace(
            before,
            state=self.state,
            sequence=self.sequence,
            rtt_s=self.rtt_s,
            bytes_acked=self.bytes_acked,
            rate_bytes_per_s=self.rate_bytes_per_s,
            congestion_control=self.congestion_control,
            limited_by=self.limited_by,
        )

    def event(self, progress: TransferProgress) -> ServerEvent:
        """Return the event again, given the snapshot that came of it."""
        return ServerEvent(
            kind=EventKind.PROGRESS,
            at=self.at,
            text="",
            peer_address=progress.peer_address,
            progress=progress,
            sample=self.sample,
        )


_FIELDS = tuple(Pulse.__dataclass_fields__)
_STATE, _LIMITED_BY, _SAMPLE = (_FIELDS.index(name) for name in ("state", "limited_by", "sample"))
_READINGS = tuple(Sample.__dataclass_fields__)
_readings_of = attrgetter(*_READINGS)


def pulses_line(rows: list[list[Any]]) -> bytes:
    """Encode the pulses of one moment, each as `Pulse.row` gives it: plain values, which need no more looking at."""
    return _ENCODER.encode({"pulses": rows}).encode() + b"\n"


def line(**message: Any) -> bytes:
    """Encode one message."""
    return _ENCODER.encode({name: encode(value) for name, value in message.items()}).encode() + b"\n"
