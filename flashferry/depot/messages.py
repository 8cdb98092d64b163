"""The first message of a run and the depot to each other, and the depot's status; all others are in `fileserver.wire`.

Facts
-----

- Both sides first state their release. Only that message is understood across releases: all others have the fields of
  one release, so both sides have to be of the same.
- The socket is its owner's alone, and the kernel gives each side the other's user (SO_PEERCRED, unix(7)).
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version

import msgspec

from flashferry.core.value_description import counted

PRODUCT = "flashferry depot"
STATUS = "look"
"""Purpose of a client that only reads the status."""


def release() -> str:
    """Return the release of this process; `unknown` where it is not installed."""
    try:
        return version("flashferry")
    except PackageNotFoundError:
        return "unknown"


def network() -> str:
    """Return the name of this process's network namespace; empty where it is not known.

    A socket file can be shared between networks: a run in a lab's would find a depot that its devices cannot reach.
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


decode_greeting = msgspec.msgpack.Decoder(Greeting).decode
"""Decode a greeting; raises `msgspec.DecodeError` for anything else."""


def own_greeting(purpose: str = "") -> Greeting:
    """Return this process's greeting."""
    return Greeting(what=PRODUCT, release=release(), pid=os.getpid(), purpose=purpose)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSeen:
    """A run that uses the depot.

    Attributes:
        pid: Its process.
        purpose: Its verb.
        since: When it connected, seconds since the epoch.
        tickets: Its tickets that have not ended.
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
    """A site with copies, waiting copies or a cap.

    Attributes:
        site: Its name.
        copies: Slots held there, of all runs.
        waiting: Slots waited for.
        limit: The lowest limit of all runs; None without one.
        cap_bytes_per_s: The cap of all transfers there together, payload; None without one.
    """

    site: str
    copies: int
    waiting: int
    limit: int | None
    cap_bytes_per_s: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DepotView:
    """The depot's status.

    Attributes:
        release: Its release of flashferry.
        pid: Its process.
        since: When it started, seconds since the epoch.
        ports: Its ports by transport.
        runs: The runs that use it.
        sites: Sites with copies, waiting copies or a cap.
        is_ending: Whether it accepts nothing new and ends with its last transfer.
        notices: What it reported about itself; the latest 200.
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
        """Return the status in one line."""
        ports = ", ".join(f"{name} port {port}" for name, port in self.ports.items())
        copies = counted(sum(run.copies for run in self.runs), "copy", "copies")
        ending = "; it is ending" if self.is_ending else ""
        return f"process {self.pid}, {ports}; {counted(len(self.runs), 'run')} with {copies}{ending}"
