"""The messages between a run, the file server that serves it, and that server's own processes.

A run sends requests to its server: over a Unix socket to the host's shared one (`flashferry depot`), or, where the
server is its own, over a socket pair to each serving process. The same request is the same message on both.

Facts
-----

- A message is msgpack after its length, framed as `multiprocessing.connection` does. The serving process writes through
  its event loop instead: it must never wait for a parent that reads late.
- A serving process faces the network and its parent holds device credentials. So the parent decodes messages into
  stated types and unpickles nothing: a process that was taken over can lie about transfers and do no more.
- Progress is the bulk of all messages, hundreds a second. It is sent as changes, batched and without field names.
- No password is ever sent: tickets are made by the run, and the server gets salted hashes.
"""

import os
from operator import attrgetter
from pathlib import Path
from typing import Any, Self, TypeAlias

import msgspec

from flashferry.core.values import field_names, replace
from flashferry.fileserver.fixed_login import FixedGrant
from flashferry.fileserver.host_capabilities import HostCapabilities
from flashferry.fileserver.rate_limits import SiteLoad
from flashferry.fileserver.settings import ServerSettings
from flashferry.fileserver.ticket_accounts import TicketGrant
from flashferry.fileserver.transfer_records import (
    EventKind,
    LoginFailure,
    ServerEvent,
    TicketUse,
    TransferProgress,
    TransferState,
)
from flashferry.images.safe_open import FileIdentity
from flashferry.tcp.sample import Sample
from flashferry.tcp.verdict import VerdictKind

LENGTH_BYTES = 4
"""Bytes of the length that precedes a message, most significant first."""

MOST_BYTES = 16 << 20
"""Longest message accepted, in bytes; a record with all its samples takes some 10 kB."""


class Hello(msgspec.Struct, frozen=True):
    """The first message to a serving process: its settings, its parent, and whether others send beside it."""

    settings: ServerSettings
    parent_pid: int
    is_one_of_several: bool = False


class _Request(msgspec.Struct, frozen=True, tag=True):
    """A request to a server or to a serving process."""


# From a run to its server, and from a server to its processes.


class AddTicket(_Request, frozen=True):
    """Add a ticket; answers its first snapshot. Each attempt of a shared one waits for `DecideAttempt`."""

    grant: TicketGrant
    is_shared: bool = False


class Revoke(_Request, frozen=True):
    """Revoke a ticket and end its transfer."""

    ticket_id: str


class SetCap(_Request, frozen=True):
    """Change a ticket's cap, payload bytes per second; None lifts it."""

    ticket_id: str
    cap_bytes_per_s: int | None


class SetSiteCap(_Request, frozen=True):
    """Change the cap that the transfers of a site share, payload bytes per second; None lifts it."""

    site: str
    cap_bytes_per_s: int | None
    source: str

    @property
    def subject(self) -> str:
        """What the request is about: a later one about the same replaces it."""
        return self.site


class SetSiteLink(_Request, frozen=True):
    """State what a site's link carries, payload bytes per second; None where that is no longer known."""

    site: str
    link_bytes_per_s: int | None

    @property
    def subject(self) -> str:
        """What the request is about: a later one about the same replaces it."""
        return self.site


# From a server to its processes and local senders.


class Open(_Request, frozen=True):
    """Accept sessions from now on."""


class AdmitLogin(_Request, frozen=True):
    """Admit a fixed login from now on."""

    grant: FixedGrant

    @property
    def subject(self) -> str:
        """What the request is about: a later one about the same replaces it."""
        return self.grant.username


class SetLoadElsewhere(_Request, frozen=True):
    """Set what all other senders do at a site."""

    load: SiteLoad


class AttemptsElsewhere(_Request, frozen=True):
    """State how many attempts the other processes used of a ticket, whether one delivered, and who has to yield."""

    ticket_id: str
    tries: int
    yields: bool = True
    is_delivered: bool = False


class DecideAttempt(_Request, frozen=True):
    """Decide a waiting attempt: the other processes send nothing with the ticket any more, or it has to yield."""

    ticket_id: str
    here: int
    goes_on: bool


class Drain(_Request, frozen=True):
    """Accept no new sessions and end with the last transfer; answers how many are under way."""


class Stop(_Request, frozen=True):
    """End at once."""


# From a run to a shared server.


class OfferedPath(msgspec.Struct, frozen=True):
    """An image, or a folder of images, as the run sees it; `identity` is None for a folder."""

    path: Path
    identity: FileIdentity | None = None


class OfferImages(_Request, frozen=True):
    """Offer images, replacing those offered before; with `pushes` the run may push some itself."""

    paths: tuple[OfferedPath, ...]
    pushes: bool = False


class ReadImage(_Request, frozen=True):
    """Read an image; answers an `ImageFile`, after the time that hashing takes."""

    name: str


class AskSlot(_Request, frozen=True):
    """Wait for a slot at a site; `SlotsGranted` reports it."""

    number: int
    site: str | None
    limit: int | None


class ClaimSlot(_Request, frozen=True):
    """Take a slot at once, even above the limit."""

    number: int
    site: str | None
    limit: int | None


class FreeSlot(_Request, frozen=True):
    """Release a slot, or stop waiting for it."""

    number: int


class ReadStatus(_Request, frozen=True):
    """Report the server's status; answers a `DepotView`."""


class SiteLoadUpdate(_Request, frozen=True):
    """What the sender of this message moves at a site: a serving process, or a run that pushes."""

    load: SiteLoad


Lasting: TypeAlias = SetSiteCap | SetSiteLink | AdmitLogin
"""Requests that a process started later has to receive, too."""

ForSender: TypeAlias = SetSiteCap | SetSiteLink | AdmitLogin | SetLoadElsewhere
"""Requests that concern everyone who sends at a site."""

Request: TypeAlias = (
    AddTicket
    | Revoke
    | SetCap
    | SetSiteCap
    | SetSiteLink
    | Open
    | AdmitLogin
    | SetLoadElsewhere
    | AttemptsElsewhere
    | DecideAttempt
    | Drain
    | Stop
    | OfferImages
    | ReadImage
    | AskSlot
    | ClaimSlot
    | FreeSlot
    | ReadStatus
    | SiteLoadUpdate
)


class Call(msgspec.Struct, frozen=True):
    """A request and the number of its answer; 0: no answer is expected."""

    number: int
    request: Request


class _Message(msgspec.Struct, frozen=True, tag=True):
    """A message from a server or a serving process."""


class Ready(_Message, frozen=True):
    """A serving process is up: its ports in the order of the listeners, and what the kernel grants."""

    ports: tuple[int, ...]
    capabilities: HostCapabilities


class Welcome(_Message, frozen=True):
    """A shared server's first message: its settings, ports in the order of the listeners, network and key files."""

    settings: ServerSettings
    ports: tuple[int, ...]
    network: str
    host_keys: Path
    certificate: Path | None = None
    key: Path | None = None


class Answer(_Message, frozen=True):
    """The answer to a call: a result, or the kind of error, its text and what to do."""

    number: int
    result: msgspec.Raw = msgspec.Raw(b"\xc0")
    kind: str = ""
    error: str = ""
    hint: str | None = None


class EventMessage(_Message, frozen=True):
    """An event that is more than progress."""

    event: ServerEvent


class RefusedLogin(_Message, frozen=True):
    """A login without a ticket was refused."""

    failure: LoginFailure


class AttemptUsed(_Message, frozen=True):
    """An attempt of a ticket was used; sent before anything else of the attempt where others serve the ticket."""

    use: TicketUse


class Yielded(_Message, frozen=True):
    """Nothing is sent with a ticket any more; sent after the end of what another process's newer attempt ended."""

    ticket_id: str


class TicketsInvalidated(_Message, frozen=True):
    """Tickets ended with the process that served them."""

    ticket_ids: tuple[str, ...]
    reason: str


class ImageHashed(_Message, frozen=True):
    """How many bytes of an image are hashed; about once a second while `ReadImage` hashes."""

    name: str
    done_bytes: int
    size_bytes: int


class SlotsGranted(_Message, frozen=True):
    """Slots that were asked for are granted."""

    numbers: tuple[int, ...]


class Beat(_Message, frozen=True):
    """The process is alive; sent twice a second unless the parent has not read earlier messages yet."""


class ProgressChange(msgspec.Struct, frozen=True, array_like=True):
    """The fields of a `TransferProgress` that change while data flows, under the same names."""

    ticket_id: str
    state: TransferState
    sequence: int
    rtt_s: float | None
    bytes_acked: int
    rate_bytes_per_s: float
    congestion_control: str | None
    limited_by: VerdictKind | None


class ProgressUpdate(msgspec.Struct, frozen=True, array_like=True):
    """A progress event; `sample` has the values of a `Sample` in the order of its fields."""

    at: float
    now: ProgressChange
    sample: tuple[float | int | bool | None, ...] | None = None

    @classmethod
    def of(cls, event: ServerEvent) -> Self | None:
        """Return a progress event as an update; None for any other event."""
        if event.kind is not EventKind.PROGRESS or event.progress is None:
            return None
        now = msgspec.convert(event.progress, ProgressChange, from_attributes=True)
        return cls(at=event.at, now=now, sample=None if event.sample is None else _sample_values(event.sample))

    def progress(self, before: TransferProgress) -> TransferProgress:
        """Return the ticket's snapshot, given its previous one."""
        return replace(before, **msgspec.structs.asdict(self.now))

    def event(self, progress: TransferProgress) -> ServerEvent:
        """Return the event, given the new snapshot.

        Raises:
            ValueError: The sample has another number of values than `Sample` has fields.
        """
        values: Any = None if self.sample is None else dict(zip(_SAMPLE_FIELDS, self.sample, strict=True))
        return ServerEvent(
            kind=EventKind.PROGRESS,
            at=self.at,
            text="",
            peer_address=progress.peer_address,
            progress=progress,
            sample=None if values is None else Sample(**values),
        )


class ProgressUpdates(_Message, frozen=True):
    """The progress of many transfers at one moment."""

    updates: list[ProgressUpdate]


Message: TypeAlias = (
    Ready
    | Welcome
    | Answer
    | EventMessage
    | RefusedLogin
    | AttemptUsed
    | Yielded
    | SiteLoadUpdate
    | ProgressUpdates
    | Beat
    | TicketsInvalidated
    | SlotsGranted
    | ImageHashed
    | SetSiteCap
    | SetSiteLink
    | SetLoadElsewhere
)

_SAMPLE_FIELDS = field_names(Sample)
_sample_values = attrgetter(*_SAMPLE_FIELDS)


def path_as_bytes(value: object) -> bytes:
    """Return a path as bytes, for msgspec's encoders."""
    # As bytes, because a folder's name need not be UTF-8.
    if isinstance(value, Path):
        return os.fsencode(value)
    raise NotImplementedError(f"no message holds a {type(value).__name__}")


def path_of_bytes(kind: type, value: Any) -> Path:
    """Return the path that bytes stand for, for msgspec's decoders."""
    if issubclass(kind, Path) and isinstance(value, bytes):
        return Path(os.fsdecode(value))
    raise NotImplementedError(f"no message holds a {kind.__name__}")


encode = msgspec.msgpack.Encoder(enc_hook=path_as_bytes).encode
"""Encode a message, without its length."""

decode_hello = msgspec.msgpack.Decoder(Hello, dec_hook=path_of_bytes).decode
"""Decode a `Hello`; raises `msgspec.DecodeError` for anything else, as the next two do."""

decode_call = msgspec.msgpack.Decoder(Call, dec_hook=path_of_bytes).decode
"""Decode a `Call`."""

decode_message = msgspec.msgpack.Decoder(Message, dec_hook=path_of_bytes).decode
"""Decode a `Message`."""


def answer(number: int, result: object) -> Answer:
    """Return an answer with a result."""
    return Answer(number=number, result=msgspec.Raw(encode(result)))


def framed(message: Message) -> bytes:
    """Encode a message, with its length before it."""
    body = encode(message)
    return len(body).to_bytes(LENGTH_BYTES, "big") + body
