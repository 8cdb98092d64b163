"""What a run and the depot say to each other.

Facts
-----

- A message goes as msgpack behind its length, as `multiprocessing.connection` has it; the socket is the owner's alone,
  and each side knows by the kernel which user the other is (SO_PEERCRED, unix(7)).
- Both sides say first which release they are. Only that first message is understood across releases: all others are
  made of the values of this one, so both have to be of the same.
- What the server's own processes say to each other (`flashferry.fileserver.wire`) is said here in the same words where
  it is the same: of tickets and their events, and of what a site's transfers may take together and its link carries.
- No password crosses it: a run makes its tickets itself, and the depot has their salted hashes. A push goes from the
  run's own process; the depot hears what it moves, for the site's cap.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from flashferry.core.safe_quote import counted
from flashferry.fileserver import FileIdentity, ServerSettings
from flashferry.fileserver.rate_limits import SiteLoad
from flashferry.fileserver.wire import (
    AddTicket,
    Happened,
    Pulses,
    RefusedLogin,
    Revoke,
    SetCap,
    SetSiteCap,
    SetSiteLink,
    SiteLoadUpdate,
    path_as_bytes,
    path_of_bytes,
)

WHAT = "flashferry depot"
LOOK = "look"
"""Purpose of one who only wants to know how the depot stands."""


def release() -> str:
    """Return the release of this process; `unknown` where it is not installed."""
    try:
        return version("flashferry")
    except PackageNotFoundError:
        return "unknown"


def network() -> str:
    """Return the name of the network that this process is in, as namespaces have them; empty where none can be told.

    A socket in the file system leads from one network into another: a run in a lab's would come to a depot that its
    devices cannot come to.
    """
    try:
        return os.readlink("/proc/self/ns/net")  # noqa: PTH115 -- the link leads to no file
    except OSError:
        return ""


class Greeting(msgspec.Struct, frozen=True):
    """The first message of either side."""

    what: str
    release: str
    pid: int
    purpose: str = ""


class _Request(msgspec.Struct, frozen=True, tag=True):
    """What a run asks."""


class OfferedPath(msgspec.Struct, frozen=True):
    """An image, or a folder of images, as the run sees it; None for the identity of a folder."""

    path: Path
    identity: FileIdentity | None = None


class Offer(_Request, frozen=True):
    """Have images served, instead of those before; some may be pushed by the run itself."""

    paths: tuple[OfferedPath, ...]
    pushes: bool = False


class Digest(_Request, frozen=True):
    """Look at an image; the answer is an `ImageFile`, and may take as long as it takes to read it."""

    name: str


class StateCap(_Request, frozen=True):
    """Say what a site's transfers may take together; None: this run says nothing of it."""

    site: str
    cap_bytes_per_s: int | None
    source: str


class AskSlot(_Request, frozen=True):
    """Wait for a slot at a site; `Granted` tells that it is there."""

    number: int
    site: str | None
    limit: int | None


class ClaimSlot(_Request, frozen=True):
    """Take a slot at once, beside whoever has one."""

    number: int
    site: str | None
    limit: int | None


class FreeSlot(_Request, frozen=True):
    """Give a slot back, or stop waiting for it."""

    number: int


class Pushed(_Request, frozen=True):
    """What the run's own pushes do at a site."""

    load: SiteLoad


class Look(_Request, frozen=True):
    """Tell how the depot stands; the answer is a `DepotView`."""


Request: TypeAlias = (
    Offer
    | Digest
    | AddTicket
    | Revoke
    | SetCap
    | StateCap
    | SetSiteLink
    | AskSlot
    | ClaimSlot
    | FreeSlot
    | Pushed
    | Look
)


class Call(msgspec.Struct, frozen=True):
    """A request with the number that its answer carries; 0 where none is wanted."""

    number: int
    request: Request


class _Saying(msgspec.Struct, frozen=True, tag=True):
    """What the depot says."""


class Welcome(_Saying, frozen=True):
    """It serves: in this way, at these ports, in the order of the listeners, in this network, and with these files."""

    settings: ServerSettings
    ports: tuple[int, ...]
    network: str
    host_keys: Path
    certificate: Path | None = None
    key: Path | None = None


class Answer(_Saying, frozen=True):
    """What came of the request of a number: a result, or the kind of error, in words, and what to do."""

    number: int
    result: msgspec.Raw = msgspec.Raw(b"\xc0")
    kind: str = ""
    error: str = ""
    hint: str | None = None


class TicketsInvalidated(_Saying, frozen=True):
    """Tickets died with the process that served them."""

    ticket_ids: tuple[str, ...]
    reason: str


class Granted(_Saying, frozen=True):
    """Slots that were asked for are there."""

    numbers: tuple[int, ...]


Saying: TypeAlias = (
    Welcome
    | Answer
    | Happened
    | Pulses
    | RefusedLogin
    | TicketsInvalidated
    | Granted
    | SiteLoadUpdate
    | SetSiteCap
    | SetSiteLink
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSeen:
    """A run that uses the depot.

    Attributes:
        pid: Its process.
        purpose: Its verb.
        since: When it came, seconds since the epoch.
        tickets: Tickets of its that are not at their end.
        copies: Slots that it holds.
        waiting: Slots that it waits for.
    """

    pid: int
    purpose: str
    since: float
    tickets: int
    copies: int
    waiting: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteSeen:
    """A site that runs have to do with at present.

    Attributes:
        site: Its name.
        copies: Slots held there, of all runs.
        waiting: Slots that are waited for.
        limit: How many there may be, by the strictest run; None where nobody said.
        cap_bytes_per_s: What all transfers there may take together, payload; None where nobody said.
    """

    site: str
    copies: int
    waiting: int
    limit: int | None
    cap_bytes_per_s: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DepotView:
    """How the depot stands.

    Attributes:
        release: Its release of flashferry.
        pid: Its process.
        since: When it began, seconds since the epoch.
        ports: Its ports by transport.
        runs: Who uses it.
        sites: Where copies run or wait, or a cap holds.
        is_ending: Whether it takes nothing new in, and ends with its last transfer.
        notices: What it had to say about itself; the latest 200.
        catalogue: The folder of images that it offers to depots of other sites, absolute; empty where it offers none.
    """

    release: str
    pid: int
    since: float
    ports: dict[str, int]
    runs: tuple[RunSeen, ...] = ()
    sites: tuple[SiteSeen, ...] = ()
    is_ending: bool = False
    notices: tuple[str, ...] = ()
    catalogue: str = ""

    @property
    def in_words(self) -> str:
        """Return the same in a line."""
        ports = ", ".join(f"{name} port {port}" for name, port in self.ports.items())
        copies = counted(sum(run.copies for run in self.runs), "copy", "copies")
        ending = "; it is ending" if self.is_ending else ""
        return f"process {self.pid}, {ports}; {counted(len(self.runs), 'run')} with {copies}{ending}"


encode = msgspec.msgpack.Encoder(enc_hook=path_as_bytes).encode
"""Turn a message into bytes."""

_GREETING = msgspec.msgpack.Decoder(Greeting)
_CALL = msgspec.msgpack.Decoder(Call, dec_hook=path_of_bytes)
_SAYING = msgspec.msgpack.Decoder(Saying, dec_hook=path_of_bytes)

greeting_of = _GREETING.decode
"""Read a greeting; raises `msgspec.DecodeError` for anything else, as the following do."""

call_of = _CALL.decode
"""Read a call."""

saying_of = _SAYING.decode
"""Read what the depot says."""


def answer(number: int, result: object) -> Answer:
    """Return an answer with a result."""
    return Answer(number=number, result=msgspec.Raw(encode(result)))


def result_of(given: Answer, kind: Any) -> Any:
    """Return the result of an answer, of a kind; raises `msgspec.DecodeError` for any other."""
    return msgspec.msgpack.decode(given.result, type=kind, dec_hook=path_of_bytes)


def own_greeting(purpose: str = "") -> Greeting:
    """Return what this process greets with."""
    return Greeting(what=WHAT, release=release(), pid=os.getpid(), purpose=purpose)
