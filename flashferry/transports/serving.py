"""What a server by itself is asked to serve: whether it can, and what devices are told of where it is."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path

from flashferry.core.errors import ConfigInvalid
from flashferry.fileserver import SettingsInvalid
from flashferry.transports import TRANSPORTS, USUAL
from flashferry.transports.choice import wish_of
from flashferry.transports.https import HTTPS
from flashferry.transports.transport import Transport
from inventory.transport_policy import AS_USUAL


def check_served(
    transports: tuple[Transport, ...],
    *,
    port: int | None,
    ports: Mapping[str, int],
    certificate: Path | None,
    key: Path | None,
) -> None:
    """Look whether our side can serve some transports with what is given.

    Args:
        transports: What is to be served.
        port: Port of the usual one, or None.
        ports: Ports of the others by `Transport.listener_name`.
        certificate: File of our certificate, or None.
        key: File of its private key, or None.

    Raises:
        ConfigInvalid: There is none to serve, one lacks what it needs, or something is given for one that is not
            served.
    """
    if not transports:
        raise ConfigInvalid("--transports: expected at least one, found none", hint=f"Give {USUAL.name}, for example")
    missing = wish_of(AS_USUAL, certificate=certificate, key=key).missing
    for one in transports:
        if one.name in missing:
            why, hint = missing[one.name]
            raise ConfigInvalid(f"{one.name}: {why}", hint=hint)
    listeners = {one.listener_name for one in transports}
    spoken: dict[str, str] = {}
    for one in TRANSPORTS:
        before = spoken.get(one.listener_name)
        spoken[one.listener_name] = one.name if before is None else f"{before} or {one.name}"
    given = {name: f"--{name}-port" for name in ports} | ({} if port is None else {USUAL.listener_name: "--port"})
    if certificate is not None:
        given.setdefault(HTTPS.listener_name, "--certificate")
    for name, option in given.items():
        if name not in listeners:
            raise ConfigInvalid(
                f"{option}: expected {spoken[name]} among the transports served, found "
                f"{', '.join(one.name for one in transports)}",
                hint=f"Leave it out, or serve {spoken[name]} too (--transports)",
            )


def is_certified(transport: Transport) -> bool:
    """Tell whether a transport shows our certificate."""
    return transport.name == HTTPS.name


def check_files(certificate: Path, key: Path, *, told: tuple[str, ...] = ()) -> None:
    """Look whether our certificate and its key will do, before anybody is served.

    Args:
        certificate: File with the certificate.
        key: File with its private key.
        told: Addresses or names that devices are told, as far as they are known: it is to have each of them.

    Raises:
        ConfigInvalid: They will not: another's key, one that others can read, expired, or for another name.
    """
    # Late: who serves no HTTPS waits for no library of certificates to be imported.
    try:
        import_module("flashferry.httpserver").check_certificate(certificate, key, told=told)
    except SettingsInvalid as error:
        raise ConfigInvalid(error.message, hint=error.hint) from None


def certified(
    transport: Transport, addresses: tuple[str, ...], certificate: Path | None, key: Path | None
) -> tuple[str, ...]:
    """Return those of our addresses that devices can be told for a transport: with TLS, names of the certificate.

    Raises:
        ConfigInvalid: The certificate is for none of them, or will not do at all.
    """
    if transport.name != HTTPS.name or certificate is None or key is None:
        return addresses
    # Late: who serves no HTTPS waits for no library of certificates to be imported.
    check = import_module("flashferry.httpserver").check_certificate
    fitting: list[str] = []
    complaint: SettingsInvalid | None = None
    for address in addresses:
        try:
            check(certificate, key, told=(address,))
        except SettingsInvalid as error:
            complaint = error
        else:
            fitting.append(address)
    if complaint is not None and not fitting:
        raise ConfigInvalid(complaint.message, hint=complaint.hint)
    return tuple(fitting)
