"""Protocols by which a device copies an image: URL, credentials, questions of its copy command, and settings.

A transport describes one protocol as a device's client uses it. Each has a module here and an entry in `TRANSPORTS`;
its server is in another package. Other packages get a transport by its name, or use the default.
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
"""All transports by which a device fetches, the default first. A later one helps if those before it cannot be used:
HTTP needs one connection instead of FTP's two, SCP is encrypted, HTTPS needs a device that trusts our certificate, SFTP
a release that has it."""

WAYS: tuple[Transport, ...] = (*TRANSPORTS, PUSH)
"""The same and push, by which we write to the device; it is only used if the inventory allows it."""

ALL_WAYS: tuple[Transport, ...] = (*WAYS, NEIGHBOUR)
"""The same and copies from another device of the site, which the site's inventory key allows."""

USUAL: Transport = TRANSPORTS[0]
"""Default transport."""


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
