"""URLs of servers, the line that ends every copy, and the words of clients, which are data."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from flashferry.lab.errors import LabError, Table, read_table

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True, kw_only=True)
class PullResult:
    """What came, by the device's own monotonic clock."""

    size_bytes: int
    seconds: float


def result_line(result: PullResult) -> str:
    """Return the ``bytes copied`` line; the rate is that of the printed seconds, rounded to nearest (17 captures)."""
    seconds = round(result.seconds, 3)
    rate = int(result.size_bytes / seconds + 0.5) if seconds else 0
    return f"{result.size_bytes} bytes copied in {seconds:.3f} secs ({rate} bytes/sec)"


DEFAULT_PORTS = {"ftp": 21, "http": 80, "https": 443, "rcp": 514, "scp": 22, "sftp": 22, "tftp": 69}
"""The protocols that `copy` knows, and where their servers listen."""

_URL = re.compile(
    rf"(?P<scheme>{'|'.join(DEFAULT_PORTS)}):(?://(?:(?P<user>[^:@/]*)(?::(?P<word>[^@/]*))?@)?(?P<host>[^:/]*)(?::(?P<port>\d*))?)?(?P<path>/.*)?",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerUrl:
    """What `copy ftp://user:password@host:port/path` names, and the same of the other protocols.

    ``port_is_open``: a colon without a port stands after the host; the device then asks for the host.
    """

    host: str
    port: int
    path: str
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    port_is_open: bool = False
    scheme: str = "ftp"

    @property
    def shown(self) -> str:
        """How the device prints it: credentials masked, only where the URL has them (captures)."""
        mask = "*:*@" if self.user is not None else ""
        port = f":{self.port}" if self.port != DEFAULT_PORTS[self.scheme] else ""
        return f"{self.scheme}://{mask}{self.host}{port}/{self.path}"

    @property
    def file_name(self) -> str:
        """The last part of the path."""
        return self.path.rpartition("/")[2]


def parse_url(text: str) -> ServerUrl | None:
    """Read a URL; None when it is not one of a server. ``//`` after the host makes the path absolute."""
    found = _URL.fullmatch(text)
    if found is None:
        return None
    return ServerUrl(
        host=found["host"] or "",
        port=int(found["port"] or DEFAULT_PORTS[found["scheme"].lower()]),
        path=(found["path"] or "")[1:],
        user=found["user"],
        password=found["word"],
        port_is_open=found["port"] == "",
        scheme=found["scheme"].lower(),
    )


_PACKAGE = "flashferry.lab.standin.texts"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wording:
    """``%Error VERB url (REASON)``.

    Attributes:
        name: By which a client asks for it, after the client's name: ``http: refused``.
        source: Where it was seen; empty for a guess.
        unknown: What is not known; empty where it was seen.
    """

    name: str
    verb: str
    reason: str
    source: str
    unknown: str


Wordings = dict[str, Wording]


@functools.cache
def base_texts(client: str) -> Mapping[str, Wording]:
    """Return what a client prints on a platform that says nothing else.

    Raises LabError: a text is incomplete; file and key are named.
    """
    return _wordings(client, read_table(_PACKAGE, client))


def platform_texts(client: str, own: Table) -> Wordings:
    """Return what a client prints, with what a platform's data file says of its own.

    Raises LabError: the platform names a text that the client does not have, or one is incomplete.
    """
    base = base_texts(client)
    own.only(*base)
    return {**base, **_wordings(client, own)}


def _wordings(client: str, table: Table) -> Wordings:
    return {name: _wording(f"{client}: {name}", table.table(name)) for name in table.values}


def _wording(name: str, table: Table) -> Wording:
    table.only("verb", "reason", "source", "unknown")
    source, unknown = table.text("source", ""), table.text("unknown", "")
    if bool(source) == bool(unknown):
        raise LabError(f"{table.where}: expected either source or unknown, found {'both' if source else 'neither'}.")
    return Wording(name=name, verb=table.text("verb"), reason=table.text("reason"), source=source, unknown=unknown)
