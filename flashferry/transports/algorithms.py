"""Which SSH algorithms a device is offered. Pure.

Facts
-----
* As a client IOS chooses: the first of its own list that our server has. So what our server offers decides, and the
  device's configuration stays as it is.
* A CSR1000V 16.8.1 knows `diffie-hellman-group-exchange-sha1` and `diffie-hellman-group14-sha1` for the keys' exchange,
  and `ssh-rsa`; a C2960C with 15.2 the same, and CBC ciphers alone. The lists of 17.x as a client were not seen; those
  of its server (17.16) have neither CBC nor SHA-1 by default.
* Where nothing is in common `%SSH-3-NO_MATCH` stands in the device's log, and the copy fails before a byte came.
"""

from __future__ import annotations

from dataclasses import replace

from flashferry.fileserver import SshOffer
from flashferry.transports import TRANSPORTS
from flashferry.transports.transport import Transport
from inventory.releases import read_release

MODERN, LEGACY = "modern", "legacy"
_MODERN_FROM = 17
_SSH = "ssh"


def profile_for(release: str) -> str:
    """Return which algorithms a release is offered: LEGACY before 17, and where it is not known.

    The older ones are offered to the device's address alone, and only while its ticket is good.
    """
    found = read_release(release)
    return MODERN if found is not None and found.numbers[0] >= _MODERN_FROM else LEGACY


def ssh_offer(transport: Transport, release: str) -> SshOffer | None:
    """Return what a device is offered besides the common algorithms; None for nothing, and without SSH."""
    if transport.listener_name != _SSH or profile_for(release) == MODERN:
        return None
    return SshOffer(profile=LEGACY)


def offer_alone(transport: Transport, offer: SshOffer | None, *, cipher: str, mac: str) -> SshOffer | None:
    """Return an offer that leaves a device one cipher to pick, and one MAC where one is named."""
    if transport.listener_name != _SSH:
        return offer
    return replace(offer or SshOffer(), encryption=(cipher,), mac=(mac,) if mac else ())


def names_by_ssh() -> tuple[str, ...]:
    """Return the names of the transports that speak SSH, the usual one first."""
    return tuple(one.name for one in TRANSPORTS if one.listener_name == _SSH)
