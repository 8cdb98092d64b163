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

import importlib.util
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeAlias

from flashferry.core.errors import ConfigInvalid
from flashferry.fileserver import SshOffer
from flashferry.transports import PUSH, TRANSPORTS, WAYS, transport_named
from flashferry.transports.transport import Transport
from inventory.releases import read_release
from inventory.transport_policy import AS_USUAL, AUTO, TransportPolicy

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


SEPARATOR = ","

"""Between the names of transports that are asked for."""

_NEEDS_SSH = ("scp", "sftp")

_SSH_LIBRARY = "asyncssh"

_MORE_ROUND_TRIPS = {"https": 2.0, "scp": 10.0, "sftp": 10.0, "push": 10.0}

"""A TLS handshake; and an SSH login, from TCP's first packet to the first byte 0.95 to 1.04 s at 100 ms.

FTP's own login, some six round trips, is in the figures that set-up was measured with, and is not taken off: a forecast
that is too long by half a second does no harm.
"""


def more_round_trips(name: str) -> float:
    """Return how many round trips a transport's login takes beyond what set-up was measured with."""
    return _MORE_ROUND_TRIPS.get(name, 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class TransportRequest:
    """What is asked for, and what our side can do.

    Attributes:
        asked: AS_USUAL, AUTO, or the name of a transport; of several, in the order in which they are tried.
        missing: By the name of a transport: why our side cannot serve it, and what to do about that.
    """

    asked: str = AS_USUAL
    missing: Mapping[str, tuple[str, str]] = field(default_factory=dict)

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names that were given; none of AS_USUAL and AUTO."""
        return () if self.asked in (AS_USUAL, AUTO) else tuple(self.asked.split(SEPARATOR))


NotServed: TypeAlias = Mapping[str, tuple[str, str]]

"""By the name of a transport that our side does not serve: why, and what to do about that."""


def not_served_by(depot: str, served: Collection[str]) -> NotServed:
    """Return what the host's depot does not serve, by its name for errors and the transports that it serves."""
    lacking = f"expected it at {depot}, which serves {', '.join(served)}"
    hint = "Start the depot with it among --transports, or give --depot never"
    return {one.name: (lacking, hint) for one in TRANSPORTS if one.name not in served}


def transport_request(
    asked: str, *, certificate: Path | None = None, key: Path | None = None, not_served: NotServed | None = None
) -> TransportRequest:
    """Return what is asked for, with what our side can serve on this host.

    A depot that serves in our place (`not_served` has what it does not serve) has a certificate of its own.

    Raises:
        ConfigInvalid: It is no transport, or one of the files stands without the other.
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
        missing = dict.fromkeys(_NEEDS_SSH, (lacking, "Install flashferry with its extra: flashferry[scp]")) | missing
    return TransportRequest(asked=check_asked(asked), missing=missing)


def allowed(policy: TransportPolicy) -> tuple[Transport, ...]:
    """Return the transports that the inventory allows, in the order in which they are taken; push is none."""
    by_name = {one.name: one for one in TRANSPORTS}
    return tuple(by_name[name] for name in policy.names if name in by_name)


def unserved(policy: TransportPolicy, request: TransportRequest) -> tuple[str, ...]:
    """Return which transports the inventory allows a device and our side cannot serve, a sentence each."""
    lacking = [one for one in allowed(policy) if one.name in request.missing]
    reasons = {one.name: request.missing[one.name] for one in lacking}
    return tuple(f"not tried by {name}: {why}. {hint}" for name, (why, hint) in reasons.items())


def candidates(
    host: str, policy: TransportPolicy, request: TransportRequest, *, fastest: str | None = None
) -> tuple[Transport, ...]:
    """Return by which transports a device's copy is tried, in order.

    One alone, unless `auto` or several are asked for. Push is taken where it is asked for, or last by `auto`, and only
    where the inventory names it. `auto` takes the measured `fastest` one first.

    Raises:
        ConfigInvalid: What is asked for is not allowed, or our side cannot serve it.
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
    """Return a transport that our side can serve.

    Raises:
        ConfigInvalid: It cannot.
    """
    if transport.name in request.missing:
        lacking, hint = request.missing[transport.name]
        raise ConfigInvalid(f"transport {transport.name}: {lacking}", host=host, hint=hint)
    return transport


def _none_left(host: str, choice: tuple[Transport, ...], request: TransportRequest) -> ConfigInvalid:
    """Return the complaint that nothing can be tried."""
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
    """Return what is asked for, checked.

    Raises:
        ConfigInvalid: It is no transport, or one stands there twice.
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
