"""What the two processes of the server say to each other.

Facts
-----

- The serving process faces the network, and its parent holds the credentials of devices. So the parent takes what it
  says as data of stated types and unpickles nothing: who took the child over could lie about transfers, and no more.
- A message goes as msgpack behind its length, as `multiprocessing.connection` has it. The parent reads and writes by
  that; the child writes by its event loop instead, for it must never wait for a parent that reads late.
- Mere progress is the bulk of all that is said. It goes by what changes, that of one moment in one message, and without
  the names of its values: hundreds of copies speak every second.
- The channel is a socket pair that nobody else can reach, and it never carries a password.
"""

import os
from dataclasses import replace
from operator import attrgetter
from pathlib import Path
from typing import Any, Self, TypeAlias

import msgspec

from flashferry.fileserver.fixed_login import FixedGrant
from flashferry.fileserver.host_capabilities import HostCapabilities
from flashferry.fileserver.rate_limits import SiteLoad
from flashferry.fileserver.records import EventKind, LoginFailure, ServerEvent, TransferProgress, TransferState
from flashferry.fileserver.settings import ServerSettings
from flashferry.fileserver.ticket_accounts import TicketUse
from flashferry.fileserver.tickets import TicketGrant
from flashferry.tcp.sample import Sample
from flashferry.tcp.verdict import VerdictKind

LENGTH_BYTES = 4
"""A message's length stands before it, the high byte first."""

MOST_BYTES = 16 << 20
"""No message is longer; a record with all of its readings takes some 10 kB."""


class Hello(msgspec.Struct, frozen=True):
    """The first message to the serving process: how to run, whose death ends it, and whether others serve beside it."""

    settings: ServerSettings
    parent_pid: int
    is_one_of_several: bool = False


class _Request(msgspec.Struct, frozen=True, tag=True):
    """What the parent asks; `TicketService` says what comes of it."""


class AddTicket(_Request, frozen=True):
    """Take a new ticket in; the answer is its first snapshot. Of one that is shared each try waits for `DecideTry`."""

    grant: TicketGrant
    is_shared: bool = False


class Open(_Request, frozen=True):
    """Take sessions from now on: what they may log in with is known."""


class AdmitLogin(_Request, frozen=True):
    """Let a fixed login in from now on."""

    grant: FixedGrant


class Revoke(_Request, frozen=True):
    """Make a ticket worthless."""

    ticket_id: str


class SetCap(_Request, frozen=True):
    """Change a ticket's cap; None lifts it."""

    ticket_id: str
    cap_bytes_per_s: int | None


class SetSiteCap(_Request, frozen=True):
    """Change what the transfers of a site share; None lifts it."""

    site: str
    cap_bytes_per_s: int | None
    source: str


class SetSiteLink(_Request, frozen=True):
    """Tell what a site's link carries; None where that is not known any more."""

    site: str
    link_bytes_per_s: int | None


class SetElsewhere(_Request, frozen=True):
    """Take in what the other processes do at a site."""

    load: SiteLoad


class UseElsewhere(_Request, frozen=True):
    """Take in what the other processes made of a ticket: how many tries, whether one delivered, and who goes on."""

    ticket_id: str
    tries: int
    gives_way: bool = True
    is_delivered: bool = False


class DecideTry(_Request, frozen=True):
    """Take in what became of a try that waits: by now the others send nothing with the ticket, or it gives way."""

    ticket_id: str
    here: int
    goes_on: bool


class Drain(_Request, frozen=True):
    """Take no new sessions and end with the last transfer; the answer is how many are under way."""


class Stop(_Request, frozen=True):
    """End at once."""


Request: TypeAlias = (
    AddTicket
    | Open
    | AdmitLogin
    | Revoke
    | SetCap
    | SetSiteCap
    | SetSiteLink
    | SetElsewhere
    | UseElsewhere
    | DecideTry
    | Drain
    | Stop
)


class Call(msgspec.Struct, frozen=True):
    """A request with the number that its answer carries."""

    number: int
    request: Request


class _Saying(msgspec.Struct, frozen=True, tag=True):
    """What the serving process says."""


class Ready(_Saying, frozen=True):
    """It serves: at these ports, in the order of the listeners, and with what the kernel grants."""

    ports: tuple[int, ...]
    capabilities: HostCapabilities


class Answer(_Saying, frozen=True):
    """What came of the request of a number: a result, or in words why it was refused."""

    number: int
    result: msgspec.Raw = msgspec.Raw(b"\xc0")
    error: str = ""


class Happened(_Saying, frozen=True):
    """Something that is more than mere progress."""

    event: ServerEvent


class RefusedLogin(_Saying, frozen=True):
    """A login that no ticket is concerned with was refused."""

    failure: LoginFailure


class AttemptUsed(_Saying, frozen=True):
    """A try of a ticket was used here; told where others serve beside it, before anything else of the try."""

    use: TicketUse


class GaveWay(_Saying, frozen=True):
    """Nothing is sent here with a ticket any more; said after its end when another process used a newer try."""

    ticket_id: str


class SiteLoadUpdate(_Saying, frozen=True):
    """What this process does at a site; told where others serve beside it."""

    load: SiteLoad


class Beat(_Saying, frozen=True):
    """It answers; said twice a second, unless the parent has yet to read what was said before."""


class Moment(msgspec.Struct, frozen=True, array_like=True):
    """What changes of a `TransferProgress` while data flows, by the same names; the other side knows the rest."""

    ticket_id: str
    state: TransferState
    sequence: int
    rtt_s: float | None
    bytes_acked: int
    rate_bytes_per_s: float
    congestion_control: str | None
    limited_by: VerdictKind | None


class ProgressUpdate(msgspec.Struct, frozen=True, array_like=True):
    """A progress event; `sample` has the values of a reading in the order of its fields."""

    at: float
    now: Moment
    sample: tuple[float | int | bool | None, ...] | None = None

    @classmethod
    def of(cls, event: ServerEvent) -> Self | None:
        """Return an event as a pulse; None if it is more than mere progress."""
        if event.kind is not EventKind.PROGRESS or event.progress is None:
            return None
        now = msgspec.convert(event.progress, Moment, from_attributes=True)
        return cls(at=event.at, now=now, sample=None if event.sample is None else _readings_of(event.sample))

    def progress(self, before: TransferProgress) -> TransferProgress:
        """Return the ticket's snapshot, given its last one."""
        return replace(before, **msgspec.structs.asdict(self.now))

    def event(self, progress: TransferProgress) -> ServerEvent:
        """Return the event again, given the snapshot that came of it.

        Raises:
            ValueError: Its reading has another number of values than ours.
        """
        readings: Any = None if self.sample is None else dict(zip(_READINGS, self.sample, strict=True))
        return ServerEvent(
            kind=EventKind.PROGRESS,
            at=self.at,
            text="",
            peer_address=progress.peer_address,
            progress=progress,
            sample=None if readings is None else Sample(**readings),
        )


class Pulses(_Saying, frozen=True):
    """The progress of one moment."""

    pulses: list[ProgressUpdate]


Saying: TypeAlias = Ready | Answer | Happened | RefusedLogin | AttemptUsed | GaveWay | SiteLoadUpdate | Pulses | Beat

_READINGS = tuple(Sample.__dataclass_fields__)
_readings_of = attrgetter(*_READINGS)


def path_as_bytes(value: object) -> bytes:
    """Return what stands for a path in a message, which knows no paths; for msgspec's encoders."""
    # As bytes, for a folder's name need not be UTF-8.
    if isinstance(value, Path):
        return os.fsencode(value)
    raise NotImplementedError(f"no message holds a {type(value).__name__}")


def path_of_bytes(kind: type, value: Any) -> Path:
    """Return the path that bytes of a message stand for; for msgspec's decoders."""
    if issubclass(kind, Path) and isinstance(value, bytes):
        return Path(os.fsdecode(value))
    raise NotImplementedError(f"no message holds a {kind.__name__}")


_ENCODER = msgspec.msgpack.Encoder(enc_hook=path_as_bytes)
_HELLO = msgspec.msgpack.Decoder(Hello, dec_hook=path_of_bytes)
_CALL = msgspec.msgpack.Decoder(Call, dec_hook=path_of_bytes)
_SAYING = msgspec.msgpack.Decoder(Saying, dec_hook=path_of_bytes)

encode = _ENCODER.encode
"""Turn a message into bytes, without their length."""

hello_of = _HELLO.decode
"""Read a greeting; raises `msgspec.DecodeError` for anything else, as the following do."""

call_of = _CALL.decode
"""Read a call."""

saying_of = _SAYING.decode
"""Read what the serving process says."""


def answer(number: int, result: object) -> Answer:
    """Return an answer with a result."""
    return Answer(number=number, result=msgspec.Raw(encode(result)))


def framed(message: Saying) -> bytes:
    """Turn a message into bytes behind their length."""
    body = encode(message)
    return len(body).to_bytes(LENGTH_BYTES, "big") + body
