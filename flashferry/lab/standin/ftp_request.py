"""What a transfer is asked for, what it reports, and how it fails."""

from __future__ import annotations

import errno
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from flashferry.lab.standin.ftp_protocol import FtpProtocolError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from flashferry.lab.standin.server_url import ServerUrl
    from flashferry.lab.standin.tcp_settings import TcpSettings
    from flashferry.lab.standin.wording import Wording


NO_ROUTE = (errno.ENETUNREACH, errno.EHOSTUNREACH, errno.EADDRNOTAVAIL)
"""Nothing comes back: no route, or from a source address without a route back."""


class Sink(Protocol):
    """Where the file goes."""

    def write(self, chunk: bytes) -> None:
        """Write a piece."""

    def close(self) -> None:
        """Finish the file."""


class CopyError(Exception):
    """The copy failed: the words of ``%Error VERB url (REASON)``; ``guess`` names a text never seen on a device."""

    def __init__(self, verb: str, reason: str, *, guess: str = "") -> None:
        super().__init__(f"{verb}: {reason}")
        self.verb = verb
        self.reason = reason
        self.guess = guess

    @classmethod
    def worded(cls, wording: Wording) -> CopyError:
        """Return an error whose words are data of the platform."""
        return cls(wording.verb, wording.reason, guess=wording.name if wording.unknown else "")


class AbortedError(Exception):
    """The copy was stopped from outside."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferRequest:
    """Which file, as whom, and with which TCP.

    Attributes:
        url: The file on the server.
        user: As whom.
        tcp: Window, options and patience.
        reply_timeout_s: How long a reply may take.
        passive: The server listens for the data connection, else the device does.
        extended_passive: EPSV is tried before PASV (RFC 2428).
        silent_start_s: No data is read for so long, as a fault.
        dead_control: No final reply is seen, as a fault.
        resolved: The host's address where the URL names it; empty where the URL has the address.
        texts: What the client prints where it fails, by name; empty for a client that has no such data.
        clock_offset_s: By how much the device's clock is wrong.
        trusted: The certificates (DER) of the authorities that the device trusts, for HTTPS.
        block_bytes: Size of a block that a TFTP client asks for.
        decrypts_bytes_per_s: How fast the device decrypts HTTPS, a model; None for as fast as the host.
    """

    url: ServerUrl
    user: str
    password: str = field(repr=False)
    source_address: str
    tcp: TcpSettings
    reply_timeout_s: float
    passive: bool = True
    extended_passive: bool = False
    silent_start_s: float = 0.0
    dead_control: bool = False
    resolved: str = ""
    texts: Mapping[str, Wording] = field(default_factory=dict)
    clock_offset_s: float = 0.0
    trusted: tuple[bytes, ...] = ()
    decrypts_bytes_per_s: float | None = None
    block_bytes: int = 512

    @property
    def address(self) -> str:
        """Where the server is."""
        return self.resolved or self.url.host


@dataclass(slots=True, kw_only=True)
class PullHooks:
    """What the pull reports to its device; all are called in the pull's thread.

    Attributes:
        may_begin: Called when the source is open, before the clock starts; False ends the copy.
        open_sink: Called with the announced size, or None, when the transfer begins; may raise NoSpaceError.
        progress: Called with the bytes so far.
    """

    may_begin: Callable[[], bool]
    open_sink: Callable[[int | None], Sink]
    progress: Callable[[int], None]


def as_copy_error(error: Exception) -> CopyError:
    """Return the device's words; those for refused and reset connections are unconfirmed (facts 4.4)."""
    if isinstance(error, CopyError):
        return error
    if isinstance(error, ConnectionRefusedError):
        return CopyError("opening", "Connection refused by remote host")
    if isinstance(error, TimeoutError) or getattr(error, "errno", None) in NO_ROUTE:
        return CopyError("opening", "Timed out")
    if isinstance(error, FtpProtocolError):
        return CopyError("opening", "Protocol error")
    return CopyError("reading", "I/O error")
