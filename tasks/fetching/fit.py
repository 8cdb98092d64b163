"""Whether a device can fetch by a protocol at all, by what it shows anyway. Pure; nothing is tried and nothing set.

Facts
-----
* HTTPS needs a certificate authority that the device trusts: a `crypto pki trustpoint`. Setting one up takes several
  lines, a pasted certificate and a right clock (pyATS does all that for each copy), so it is never done here.
* Some trustpoints are in every configuration and prove no server of ours: the device's own (`TP-self-signed-N`) and
  that of the licensing service (`SLA-TrustPoint`). Both are known from configurations at large, no capture is here.
* Whether a trustpoint is that of our certificate's authority cannot be seen: only a copy shows it.
* A Catalyst 9000 trusts servers of public authorities without any trustpoint, by its pool. A server of ours with such
  a certificate is refused here all the same: a copy that fails costs more than a line in the configuration.
* `show file systems` has a row for each protocol (`tftp: rcp: http: ftp: scp: sftp: https:`). No capture proves that a
  missing row means a missing protocol; all of ours missing while others are there does.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from flashferry.devices.platforms.platform import FileSystems
from flashferry.transports import transport_named
from flashferry.transports.transport import Transport
from tasks.fetching.ceilings import Ceiling
from templates.rows import FileSystem, PkiTrustpoint, rows

_OWN = re.compile(r"TP-self-signed-\d+|SLA-TrustPoint")


def trustpoints(running: str) -> tuple[str, ...]:
    """Return the trustpoints of a running configuration that may belong to our server."""
    return tuple(row.name for row in rows(PkiTrustpoint, running) if not _OWN.fullmatch(row.name))


def trust_refusal(transport: Transport, known: Iterable[str] | None) -> str | None:
    """Return why a device would not trust our server, or None."""
    if not transport.needs_trust or known is None or tuple(known):
        return None
    return (
        f"{transport.title} needs a trustpoint of our certificate's authority on the device, found none; none is ever "
        "set up by us"
    )


def trusting(found: Iterable[Ceiling], known: Iterable[str] | None) -> tuple[Ceiling, ...]:
    """Return the ceilings without those of protocols that the device would refuse for want of a trustpoint."""
    trusted = None if known is None else tuple(known)
    return tuple(one for one in found if trust_refusal(transport_named(one.transport), trusted) is None)


def network_protocols(listing: str, names: FileSystems) -> tuple[str, ...]:
    """Return the protocols that a device lists among its file systems, without the colon."""
    found = (name.rstrip(":") for row in rows(FileSystem, listing) for name in row.names)
    return tuple(name for name in dict.fromkeys(found) if name in names.network)


def protocols_refusal(listed: Iterable[str], wanted: Iterable[Transport]) -> str | None:
    """Return why a device cannot fetch by any of some protocols, or None."""
    there, titles = tuple(listed), [one.title for one in wanted]
    if not there or any(one.name in there for one in wanted):
        return None
    others = ", ".join(f"{name}:" for name in there)
    return (
        f"expected one of {', '.join(titles)} among the device's file systems, found {others} only; TFTP is no "
        "transport of ours: it has no login and no proof"
    )
