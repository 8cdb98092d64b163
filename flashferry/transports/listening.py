"""Where our server listens for a transport, and the messages about its port."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from flashferry.core.errors import ConfigInvalid
from flashferry.fileserver import ListenerSettings, ServerStartFailed, may_bind
from flashferry.transports import USUAL
from flashferry.transports.transport import ListenOptions, Transport

HOST_KEYS = "server_host_keys"
"""Folder of our SSH server's host keys, below the state folder: made once, for devices remember them."""

_ANY_PORT = 0
_OPTIONS = {"http": "--http-port", "https": "--https-port", "ssh": "--ssh-port"}
"""With which a port is given, by listener; FTP's is the oldest, and has none of a longer name."""


def listener_at(
    address: str,
    port: int | None = None,
    *,
    transport: Transport = USUAL,
    passive_ports: tuple[int, int] | None = None,
    masquerade_address: str | None = None,
    certificate: Path | None = None,
    key: Path | None = None,
    host_keys: Path | None = None,
) -> ListenerSettings:
    """Return what the file server needs to listen for a transport.

    Args:
        address: Address to listen on.
        port: Its port, 0 for any; None: the well-known one where that is allowed and free, else the first of the
            others, else any. Two servers that start together have different ones.
        transport: For what.
        passive_ports: Range for data connections, or None: the kernel chooses.
        masquerade_address: Address to name to passive clients behind NAT; None names the one they came to.
        certificate: File with our certificate, for a protocol that shows one.
        key: File with its private key.
        host_keys: Folder of our SSH host keys, for a protocol that has them.

    Raises:
        ConfigInvalid: The protocol needs what is not given.
        SettingsInvalid: An argument is out of its range.
    """
    options = ListenOptions(
        address=address,
        passive_ports=passive_ports,
        masquerade_address=masquerade_address,
        certificate=certificate,
        key=key,
        host_keys=host_keys,
    )
    return _listener(transport, options, port)


def listeners_at(
    transports: Iterable[Transport], options: ListenOptions, *, ports: Mapping[str, int | None] | None = None
) -> tuple[ListenerSettings, ...]:
    """Return what the file server needs to listen for several protocols: one listener for those that share it.

    Args:
        transports: For what; the first one's listener comes first.
        options: Where and with what, but for the port.
        ports: Port by `Transport.listener_name`, 0 for any; one that is not named is found as by `listener_at`.

    Raises:
        ConfigInvalid: A protocol needs what the options do not have.
        SettingsInvalid: An option is out of its range.
    """
    given = ports or {}
    by_listener: dict[str, Transport] = {}
    for one in transports:
        by_listener.setdefault(one.listener_name, one)
    return tuple(_listener(transport, options, given.get(name)) for name, transport in by_listener.items())


def _listener(transport: Transport, options: ListenOptions, port: int | None) -> ListenerSettings:
    if port is not None:
        return transport.listener(replace(options, port=port))
    ports = transport.ports
    listener = transport.listener(replace(options, port=ports.well_known))
    return replace(listener, other_ports=(*ports.others, _ANY_PORT))


def listening_error(error: ServerStartFailed, served: Iterable[Transport]) -> ConfigInvalid:
    """Return the error of a port that cannot be listened on: the transport, and the option that changes it."""
    served = tuple(served)
    meant = [one for one in served if one.name in error.transports]
    if not meant or served == (USUAL,):
        return ConfigInvalid(error.message, hint=error.hint)
    where, _, why = error.message.partition(": ")
    titles, option = " and ".join(one.title for one in meant), _OPTIONS.get(meant[0].listener_name, "--port")
    other = f"Give another port with {option}, such as {meant[0].ports.others[0]}"
    hint = f"Ports below 1024 take root or CAP_NET_BIND_SERVICE. {other}" if error.needs_right else other
    return ConfigInvalid(f"{where} for {titles}: {why}", hint=hint)


def free_port(transport: Transport = USUAL) -> int:
    """Return the port that a server would have now by default: the well-known one, or another, or 0 (any).

    Nothing is held: another server may take it first. A URL without a port suits every release. The others are few, so
    that a firewall can have a rule for them.
    """
    ports = transport.ports
    return next((port for port in (ports.well_known, *ports.others) if not may_bind(port)), _ANY_PORT)


def port_notice(port: int, transport: Transport = USUAL) -> str | None:
    """Return the message about a port that was found by default; None for the well-known one."""
    usual, others = transport.ports.well_known, transport.ports.others
    if port == usual:
        return None
    first, last = others[0], others[-1]
    if port == first:
        taken = f"port {usual} is not to be had"
    elif port in others:
        taken = f"ports {usual} and {first} are not to be had"
    else:
        taken = f"port {usual} and those from {first} to {last} are not to be had"
    return (
        f"{taken}, listening on {port}; firewalls must let it through, and old IOS may not take a port in the URL. "
        f"Give one with {_OPTIONS.get(transport.listener_name, '--port')}"
    )
