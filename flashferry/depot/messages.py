"""Define the greeting of run and depot, and the depot's status; other messages are in `fileserver.wire`.

Facts
-----

- Both sides first state their release. Only this message is understood across releases; all others belong to one
  release, so both sides must be of the same.
- The socket is its owner's only, and the kernel gives each side the other's user (SO_PEERCRED, unix(7)).
"""

from __future__ import annotations

import os
from importlib.metadata import PackageNotFoundError, version

import msgspec
from msgspec import Struct

from flashferry.core.value_description import counted

PRODUCT = "flashferry depot"
STATUS = "look"
"""Purpose of a client that only reads the status."""


def release() -> str:
    """Return the release of this process; `unknown` if it is not installed."""
    try:
        return version("flashferry")
    except PackageNotFoundError:
        return "unknown"


def network() -> str:
    """Return the name of this process's network namespace; empty: unknown.

    Networks can share a socket file: a run in a lab's network would find a depot that its devices cannot reach.
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


class RunSeen(Struct, frozen=True, kw_only=True):
    """A run that uses the depot.

    Attributes:
        purpose: Its verb.
        since: When it connected, seconds since the epoch.
        tickets: Its unfinished tickets.
        copies: Slots that it holds.
        waiting: Slots that it waits for.
    """

    pid: int
    purpose: str
    since: float
    tickets: int
    copies: int
    waiting: int


class SiteSeen(Struct, frozen=True, kw_only=True):
    """A site with copies, waiting copies or a cap.

    Attributes:
        copies: Slots held there by all runs.
        waiting: Slots waited for.
        limit: The lowest limit of all runs, or None.
        cap_bytes_per_s: The cap of all transfers there together, payload, or None.
    """

    site: str
    copies: int
    waiting: int
    limit: int | None
    cap_bytes_per_s: int | None


class DepotView(Struct, frozen=True, kw_only=True):
    """The depot's status.

    Attributes:
        since: When it started, seconds since the epoch.
        ports: Its ports by transport.
        sites: Sites with copies, waiting copies or a cap.
        is_ending: Whether it accepts nothing new and ends with its last transfer.
        notices: Its latest 200 reports about itself.
        catalogue: The folder of images offered to other sites' depots, absolute; empty: none.
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
