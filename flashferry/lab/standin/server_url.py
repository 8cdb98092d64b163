"""The URL that `copy` is given: whose server, which file, as whom; of every protocol that IOS copies by."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

DEFAULT_PORTS = {"ftp": 21, "http": 80, "https": 443, "rcp": 514, "scp": 22, "sftp": 22, "tftp": 69}
"""The protocols that `copy` knows, and where their servers listen."""
_URL = re.compile(
    rf"(?P<scheme>{'|'.join(DEFAULT_PORTS)}):(?://(?:(?P<user>[^:@/]*)(?::(?P<word>[^@/]*))?@)?(?P<host>[^:/]*)(?::(?P<port>\d*))?)?(?P<path>/.*)?",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerUrl:
    """What `copy ftp://user:password@host:port/path` names, and the same of the other protocols.

    ``port_is_open``: a colon without a port stands behind the host; the device then asks for the host.
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
    """Read a URL; None when it is not one of a server. ``//`` behind the host makes the path absolute."""
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
