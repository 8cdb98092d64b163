"""A device's own addresses: its FTP client may come from any of them.

Facts
-----
* Without `ip ftp source-interface` a copy comes from the interface that it leaves by. A router that is managed by its
  loopback address therefore comes from another address than the one that we log in to.
"""

from __future__ import annotations

import re

from flashferry.devices.errors import DeviceRefused, OutputNotUnderstood
from flashferry.devices.session import DeviceSession

MOST_ADDRESSES = 256
"""A router of a provider has thousands of interfaces; the ticket is then bound to its first addresses."""

_ROW = re.compile(r"(?m)^[A-Za-z]\S*\s+(\d{1,3}(?:\.\d{1,3}){3})\s+(?:YES|NO)\b")


def own_addresses(session: DeviceSession) -> tuple[str, ...]:
    """Return where connections of the device may come from: the address we reach it at, then those it has.

    A device that does not list them is taken at the address that we reach it at.

    Raises:
        DeviceUnreachable: The session was lost.
    """
    reached = session.peer_address
    try:
        listed = _ROW.findall(session.ask("show ip interface brief | exclude unassigned", limit_s=60))
    except (DeviceRefused, OutputNotUnderstood):
        listed = []
    return tuple(dict.fromkeys((reached, *(one for one in listed if _is_ipv4(one)))))[:MOST_ADDRESSES]


def _is_ipv4(text: str) -> bool:
    return all(int(part) <= 255 for part in text.split(".")) and not text.startswith(("0.", "127."))
