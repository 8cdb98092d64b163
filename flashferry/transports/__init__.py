"""How a device fetches: the URL, the credentials, the questions of its copy command, and its settings.

A transport is one protocol as the client of a device speaks it, a file of this folder and a place in `TRANSPORTS`; the
server for it is elsewhere. Packages above ask for a transport by its name, or take the usual one.
"""

from __future__ import annotations

from flashferry.core.errors import ConfigInvalid
from flashferry.transports.ftp import FTP
from flashferry.transports.http import HTTP, HTTPS
from flashferry.transports.neighbour import NEIGHBOUR as NEIGHBOUR
from flashferry.transports.push import PUSH as PUSH
from flashferry.transports.scp import SCP, SFTP
from flashferry.transports.transport import Transport

TRANSPORTS: tuple[Transport, ...] = (FTP, HTTP, SCP, HTTPS, SFTP)
"""All that there are, the usual one first, each further one where those before it cannot be: HTTP needs one connection
where FTP needs two, SCP is not clear text, HTTPS needs a device that trusts us, SFTP a release that has it."""

WAYS: tuple[Transport, ...] = (*TRANSPORTS, PUSH)
"""All by which an image comes to a device: push besides, which is no fetching, and never taken unless it is allowed."""

ALL_WAYS: tuple[Transport, ...] = (*WAYS, NEIGHBOUR)
"""The same with copies from a device of the site, which the site's inventory key allows."""

USUAL: Transport = TRANSPORTS[0]
"""The default."""


def transport_named(name: str) -> Transport:
    """Return a transport by its name.

    Raises:
        ConfigInvalid: There is none of that name.
    """
    found = next((one for one in WAYS if one.name == name), None)
    if found is None:
        names = " or ".join(one.name for one in WAYS)
        raise ConfigInvalid(f"transport: expected {names}, found {name!r}", hint="Name one that there is")
    return found
