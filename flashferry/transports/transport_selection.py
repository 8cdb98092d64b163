"""Choice of a device's transports, and of the SSH algorithms that our server offers it. Pure.

Facts
-----
* IOS as a client takes the first algorithm of its own list that our server offers. So our server's offer decides, and
  the device's configuration need not change.
* A CSR1000V 16.8.1 knows `diffie-hellman-group-exchange-sha1` and `diffie-hellman-group14-sha1` for the key exchange,
  and `ssh-rsa`; a C2960C with 15.2 the same, and only CBC ciphers. No capture shows the client's lists of 17.x; those
  of its server (17.16) have neither CBC nor SHA-1 by default.
* Without a common algorithm the device logs `%SSH-3-NO_MATCH`, and the copy fails before the first byte.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

from flashferry.core.errors import ConfigInvalid
from flashferry.core.extras import extra_hint
from flashferry.fileserver import SshOffer
from flashferry.transports import PUSH, TRANSPORTS, WAYS, transport_named
from flashferry.transports.transport import Transport
from inventory.releases import read_release
from inventory.transport_policy import AS_USUAL, AUTO, TransportPolicy

MODERN, LEGACY = "modern", "legacy"

_MODERN_FROM = 17

_SSH = "ssh"


def profile_for(release: str) -> str:
    """Return which algorithms to offer a release: LEGACY before 17 or if it is unknown, else MODERN.

    Legacy algorithms are offered only to the device's address, and only while its ticket is valid.
    """
    found = read_release(release)
    return MODERN if found is not None and found.numbers[0] >= _MODERN_FROM else LEGACY


def ssh_offer(transport: Transport, release: str) -> SshOffer | None:
    """Return the algorithms to offer a device besides the modern ones; None if none, or if the transport has no SSH."""
    if transport.listener_name != _SSH or profile_for(release) == MODERN:
        return None
    return SshOffer(profile=LEGACY)


def offer_alone(transport: Transport, offer: SshOffer | None, *, cipher: str, mac: str) -> SshOffer | None:
    """Return an offer restricted to one cipher and, if one is named, one MAC."""
    if transport.listener_name != _SSH:
        return offer
    return replace(offer or SshOffer(), encryption=(cipher,), mac=(mac,) if mac else ())


def ssh_transport_names() -> tuple[str, ...]:
    """Return the names of the transports that use SSH, the usual one first."""
    return tuple(one.name for one in TRANSPORTS if one.listener_name == _SSH)


SEPARATOR = ","
"""Separator of the transport names that an option lists."""

_NEEDS_SSH = ("scp", "sftp")

_SSH_LIBRARY = "asyncssh"

_MORE_ROUND_TRIPS = {"https": 2.0, "scp": 10.0, "sftp": 10.0, "push": 10.0}
"""Round trips of a TLS handshake and of an SSH login; the latter took 0.95 to 1.04 s at 100 ms, SYN to first byte.

The measured time of set-up contains FTP's login, some six round trips, which are not subtracted for the others: a
forecast that is half a second too long does no harm.
"""


def extra_round_trips(name: str) -> float:
    """Return the round trips of a transport's login that the measured time of set-up does not contain."""
    return _MORE_ROUND_TRIPS.get(name, 0.0)


class TransportRequest(Struct, frozen=True, kw_only=True):
    """Transports that the operator requested, and those that our server cannot serve.

    Attributes:
        asked: AS_USUAL, AUTO, or transport names separated by commas, in the order in which to try them.
        missing: For each transport that our server cannot serve, by name: the reason and what to do about it.
    """

    asked: str = AS_USUAL
    missing: Mapping[str, tuple[str, str]] = field(default_factory=dict)

    @property
    def names(self) -> tuple[str, ...]:
        """Return the transport names given; empty for AS_USUAL and AUTO."""
        return () if self.asked in (AS_USUAL, AUTO) else tuple(self.asked.split(SEPARATOR))


NotServed: TypeAlias = Mapping[str, tuple[str, str]]
"""For each transport that a server does not serve, by name: the reason and what to do about it."""


def not_served_by(depot: str, served: Collection[str]) -> NotServed:
    """Return the transports that this host's depot does not serve.

    Args:
        depot: The depot in words, for error messages.
        served: Names of the transports that it serves.
    """
    lacking = f"expected it at {depot}, which serves {', '.join(served)}"
    hint = "Start the depot with it among --transports, or give --depot never"
    return {one.name: (lacking, hint) for one in TRANSPORTS if one.name not in served}


def transport_request(
    asked: str, *, certificate: Path | None = None, key: Path | None = None, not_served: NotServed | None = None
) -> TransportRequest:
    """Check the requested transports, and find those that cannot be served on this host.

    Args:
        asked: As `TransportRequest.asked`.
        certificate: Our server's certificate, or None.
        key: Its private key, or None.
        not_served: If a depot serves in our place, the transports that it does not serve; it has its own certificate.

    Raises:
        ConfigInvalid: A name is no transport, or only one of certificate and key is given.
    """
    if (certificate is None) != (key is None):
        given, lacking = ("--certificate", "--key") if key is None else ("--key", "--certificate")
        raise ConfigInvalid(
            f"{given}: expected {lacking} with it, found none",
            hint="Give both, PEM files of a certificate and of its private key, or neither",
        )
    missing: dict[str, tuple[str, str]] = dict(not_served or {})
    if certificate is None and not_served is None:
        missing["https"] = (
            "expected a certificate of our server that the devices trust, found none",
            "Give it with --certificate and --key; docs/transports.md says what devices need for it",
        )
    if importlib.util.find_spec(_SSH_LIBRARY) is None:
        lacking = f"expected the package {_SSH_LIBRARY}, found none"
        missing = dict.fromkeys(_NEEDS_SSH, (lacking, extra_hint("scp"))) | missing
    return TransportRequest(asked=check_asked(asked), missing=missing)


def allowed(policy: TransportPolicy) -> tuple[Transport, ...]:
    """Return the transports that the inventory allows, in its order of preference, without push."""
    by_name = {one.name: one for one in TRANSPORTS}
    return tuple(by_name[name] for name in policy.names if name in by_name)


def unserved(policy: TransportPolicy, request: TransportRequest) -> tuple[str, ...]:
    """Return a sentence for each transport that the inventory allows a device but our server cannot serve."""
    lacking = [one for one in allowed(policy) if one.name in request.missing]
    reasons = {one.name: request.missing[one.name] for one in lacking}
    return tuple(f"not tried by {name}: {why}. {hint}" for name, (why, hint) in reasons.items())


def candidates(
    host: str, policy: TransportPolicy, request: TransportRequest, *, fastest: str | None = None
) -> tuple[Transport, ...]:
    """Return the transports to try for a device's copy, in order.

    It is a single one unless `auto` or several are requested. Push is only used if the inventory names it: on request,
    or as the last one of `auto`.

    Args:
        host: Inventory name of the device, for error messages.
        policy: Transports that the inventory allows it.
        request: The operator's request.
        fastest: Name of the transport that was measured as the fastest, which `auto` tries first; None if unknown.

    Raises:
        ConfigInvalid: A requested transport is not allowed, or our server cannot serve it.
    """
    choice = allowed(policy)
    may_push = PUSH.name in policy.names
    if request.asked == PUSH.name and may_push:
        return (PUSH,)
    if request.asked == AUTO:
        ways = (*choice, PUSH) if may_push else choice
        served = tuple(one for one in ways if one.name not in request.missing)
        if not served:
            raise _none_left(host, choice, request)
        return tuple(sorted(served, key=lambda one: one.name != fastest))
    if request.asked == AS_USUAL:
        if not choice:
            raise _none_left(host, choice, request)
        return (_served(host, choice[0], request),)
    for name in request.names:
        if (objection := policy.objection(name)) is not None:
            raise ConfigInvalid(
                f"--transport {name} {objection}",
                host=host,
                hint="Ask for one that is allowed, or change 'transports' or 'clear_text' in the inventory",
            )
    return tuple(_served(host, transport_named(name), request) for name in request.names)


def _served(host: str, transport: Transport, request: TransportRequest) -> Transport:
    """Return the transport, if our server can serve it.

    Raises:
        ConfigInvalid: It cannot.
    """
    if transport.name in request.missing:
        lacking, hint = request.missing[transport.name]
        raise ConfigInvalid(f"transport {transport.name}: {lacking}", host=host, hint=hint)
    return transport


def _none_left(host: str, choice: tuple[Transport, ...], request: TransportRequest) -> ConfigInvalid:
    """Return the error that no transport can be tried."""
    if not choice:
        return ConfigInvalid(
            "transports: expected one by which a device fetches, found push alone, which is never taken unasked",
            host=host,
            hint="Ask for it with --transport push, or name another one in the inventory's key 'transports'",
        )
    why = "; ".join(f"{one.name}: {request.missing[one.name][0]}" for one in choice if one.name in request.missing)
    hints = [request.missing[one.name][1] for one in choice if one.name in request.missing]
    return ConfigInvalid(
        f"transports: none of those that the inventory allows can be served ({why})", host=host, hint=hints[0]
    )


def check_asked(asked: str, *, option: str = "--transport") -> str:
    """Check the transports that an option names, and return them unchanged.

    Raises:
        ConfigInvalid: A name is no transport or occurs twice, or `auto` is combined with others.
    """
    names = (*(one.name for one in WAYS), AUTO)
    if asked in (AUTO, AS_USUAL):
        return asked
    given = asked.split(SEPARATOR)
    if AUTO in given:
        raise ConfigInvalid(
            f"{option}: expected {AUTO} by itself, found {AUTO!r} among others: {asked}",
            hint=f"Give {AUTO} alone, or the names of transports in the order in which they are tried",
        )
    if (unknown := next((name for name in given if name not in names), None)) is not None:
        raise ConfigInvalid(
            f"{option}: expected {', '.join(names[:-1])} or {names[-1]}, found {unknown!r}",
            hint="Give one of these words, or several with commas between them; docs/transports.md says which is when",
        )
    if twice := next((name for name in given if given.count(name) > 1), None):
        raise ConfigInvalid(f"{option}: expected each once, found {twice} twice", hint="Leave one of them out")
    return asked
