"""The SSH server's settings, and the algorithms it offers."""

from __future__ import annotations

import os
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from flashferry.core.extras import extra_hint
from flashferry.fileserver import ListenerSettings, SettingsInvalid
from flashferry.fileserver.ticket_accounts import SshOffer
from flashferry.sshserver.host_keys import load_host_keys

PROTOCOL = "flashferry.sshserver.client:SshListener"
"""Name by which the file server imports SSH."""

TRANSPORTS = ("scp", "sftp")
"""Names of the transports served, as in tickets."""

PROCESS = "ssh"
"""Worker process of its own: asyncssh needs asyncio's loop, and encryption would delay other protocols."""


def ssh_listener(
    *,
    host_keys: Path,
    listen_address: str = "0.0.0.0",  # noqa: S104 - routers reach us by any interface; tickets decide who gets what
    port: int = 0,
) -> ListenerSettings:
    """Return a listener for SCP and SFTP; see `ListenerSettings`.

    Args:
        host_keys: Folder of the server's host keys; missing ones are generated.
        listen_address: Address to listen on.
        port: 0 takes any free one.

    Raises:
        SettingsInvalid: The extra `scp` is not installed, a key cannot be used, or an argument is out of its range.
    """
    if find_spec("asyncssh") is None:
        raise SettingsInvalid(
            "SCP and SFTP: expected the package asyncssh, found none",
            hint=extra_hint("scp"),
        )
    listener = ListenerSettings(
        protocol=PROTOCOL,
        listen_address=listen_address,
        port=port,
        transports=TRANSPORTS,
        process=PROCESS,
        # As bytes, because a folder's name need not be UTF-8.
        options={"host_keys": os.fsencode(host_keys.absolute())},
    )
    load_host_keys(host_keys)
    return listener


_MODERN_EXCHANGES = (
    "curve25519-sha256",
    "curve25519-sha256@libssh.org",
    "ecdh-sha2-nistp256",
    "ecdh-sha2-nistp384",
    "ecdh-sha2-nistp521",
    "diffie-hellman-group16-sha512",
    "diffie-hellman-group18-sha512",
    "diffie-hellman-group14-sha256",
)

_LEGACY_EXCHANGES = ("diffie-hellman-group14-sha1",)

_MODERN_GROUP_EXCHANGES = ("diffie-hellman-group-exchange-sha256",)

_LEGACY_GROUP_EXCHANGES = ("diffie-hellman-group-exchange-sha1",)

GROUP_EXCHANGES = frozenset(_MODERN_GROUP_EXCHANGES + _LEGACY_GROUP_EXCHANGES)
"""Key exchanges in which the client requests a group first; see the facts."""

_MODERN_KEYS = ("ssh-ed25519", "ecdsa-sha2-nistp256", "rsa-sha2-512", "rsa-sha2-256")

_LEGACY_KEYS = ("ssh-rsa",)

_MODERN_CIPHERS = (
    "aes128-gcm@openssh.com",
    "aes256-gcm@openssh.com",
    "chacha20-poly1305@openssh.com",
    "aes128-ctr",
    "aes192-ctr",
    "aes256-ctr",
)

_LEGACY_CIPHERS = ("aes128-cbc", "aes192-cbc", "aes256-cbc")

_NAMED_CIPHERS = ("3des-cbc",)

_MODERN_MACS = (
    "hmac-sha2-256-etm@openssh.com",
    "hmac-sha2-512-etm@openssh.com",
    "hmac-sha2-256",
    "hmac-sha2-512",
)

_LEGACY_MACS = ("hmac-sha1-etm@openssh.com", "hmac-sha1", "hmac-sha1-96")

_NAMED_MACS = ("hmac-md5",)

CIPHERS = (*_MODERN_CIPHERS, *_LEGACY_CIPHERS, *_NAMED_CIPHERS)
"""Every cipher that a ticket may name."""

MACS = (*_MODERN_MACS, *_LEGACY_MACS, *_NAMED_MACS)
"""Every MAC that a ticket may name."""

BLOCKS_OF_64_BITS = frozenset(_NAMED_CIPHERS)
"""Ciphers with 64-bit blocks, whose keys are renewed after `SHORT_REKEY_BYTES`."""

SHORT_REKEY_BYTES = 1 << 30

LONG_REKEY_BYTES = 1 << 35
"""One key may encrypt 2^32 blocks of 128 bits, 64 GB (RFC 4344 3.2). So no image makes us start a rekey during a copy,
which old devices may not support; a rekey that the device starts is done."""


@dataclass(frozen=True, slots=True)
class Algorithms:
    """Algorithms to offer, by their SSH names, and the number of bytes after which we start a rekey."""

    exchanges: tuple[str, ...]
    host_keys: tuple[str, ...]
    ciphers: tuple[str, ...]
    macs: tuple[str, ...]
    rekey_bytes: int = LONG_REKEY_BYTES


def algorithms_for(offers: tuple[SshOffer, ...], *, group_exchange: bool = False) -> Algorithms:
    """Return the algorithms to offer to an address.

    Args:
        offers: Offers of its valid tickets, the newest last. One with profile `legacy` is enough for legacy algorithms;
            of those that name ciphers or MACs the newest counts.
        group_exchange: Whether a client there had no other common key exchange.

    Raises:
        ValueError: A ticket names an unknown algorithm; the message lists the known ones.
    """
    legacy = any(offer.profile == "legacy" for offer in offers)
    ciphers = next((offer.encryption for offer in reversed(offers) if offer.encryption), None)
    macs = next((offer.mac for offer in reversed(offers) if offer.mac), None)
    ciphers = _MODERN_CIPHERS + _LEGACY_CIPHERS * legacy if ciphers is None else _known("cipher", ciphers, CIPHERS)
    exchanges = _MODERN_EXCHANGES + _LEGACY_EXCHANGES * legacy
    if group_exchange:
        exchanges += _MODERN_GROUP_EXCHANGES + _LEGACY_GROUP_EXCHANGES * legacy
    return Algorithms(
        exchanges=exchanges,
        host_keys=_MODERN_KEYS + _LEGACY_KEYS * legacy,
        ciphers=ciphers,
        macs=_MODERN_MACS + _LEGACY_MACS * legacy if macs is None else _known("MAC", macs, MACS),
        rekey_bytes=LONG_REKEY_BYTES if BLOCKS_OF_64_BITS.isdisjoint(ciphers) else SHORT_REKEY_BYTES,
    )


def _known(what: str, names: tuple[str, ...], known: tuple[str, ...]) -> tuple[str, ...]:
    strange = [name for name in names if name not in known]
    if strange:
        raise ValueError(f"expected a {what} of {', '.join(known)}, found {', '.join(strange)}")
    return names
