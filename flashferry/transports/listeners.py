"""Listeners of our server for the transports, their ports and certificates, and messages about them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from flashferry.core.errors import ConfigInvalid
from flashferry.fileserver import ListenerSettings, SenderProfile, ServerStartFailed, SettingsInvalid, may_bind
from flashferry.transports import TRANSPORTS, USUAL
from flashferry.transports.http import HTTPS
from flashferry.transports.transport import ANY_ADDRESS, ListenOptions, Transport
from flashferry.transports.transport_selection import transport_request
from inventory.transport_policy import AS_USUAL

HOST_KEYS = "server_host_keys"
"""Folder of our SSH server's host keys in the state folder; they are generated once, for devices remember them."""

_ANY_PORT = 0

_OPTIONS = {"http": "--http-port", "https": "--https-port", "ssh": "--ssh-port"}
"""Option that sets the port, by listener; FTP's is `--port`."""


def listeners_at(
    transports: Iterable[Transport], options: ListenOptions, *, ports: Mapping[str, int | None] | None = None
) -> tuple[ListenerSettings, ...]:
    """Return the settings of listeners for several transports; those that share a listener get one.

    Args:
        transports: Transports to serve, in the order of their listeners.
        options: Settings of all listeners; the port is ignored.
        ports: Port by `Transport.listener_name`, 0 for any; with None, or missing, the well-known one is taken
            if it is permitted and free, else the first free one of the others, else any. Two servers that start at the
            same time get different ports.

    Raises:
        ConfigInvalid: An option that a protocol needs is missing.
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
    """Return the error about a port that is not available, with its transport and the option that sets another one."""
    served = tuple(served)
    meant = [one for one in served if one.name in error.transports]
    if not meant or served == (USUAL,):
        return ConfigInvalid(error.message, hint=error.hint)
    where, _, why = error.message.partition(": ")
    titles, option = " and ".join(one.title for one in meant), _OPTIONS.get(meant[0].listener_name, "--port")
    other = f"Give another port with {option}, such as {meant[0].ports.others[0]}"
    hint = f"Ports below 1024 take root or CAP_NET_BIND_SERVICE. {other}" if error.needs_right else other
    return ConfigInvalid(f"{where} for {titles}: {why}", hint=hint)


_OPTION_OF = {
    "congestion_control: ": "--congestion-control: ",
    "fixed login: expected an IP address": "--allow: expected an IP address",
    "fixed login: ": "--user: ",
    "images: ": "--image-dir: ",
    "listen_address: ": "--listen: ",
    "masquerade_address: ": "--masquerade: ",
    "passive_ports: ": "--passive-ports: ",
    "ticket: expected an IP address": "--allow: expected an IP address",
}
"""Starts of the server's error messages, and the same with the command-line option."""


def with_option(message: str) -> str:
    """Return an error message with the command-line option in place of the server's name for a setting."""
    start = next((one for one in _OPTION_OF if message.startswith(one)), None)
    return message if start is None else _OPTION_OF[start] + message.removeprefix(start)


def free_port(transport: Transport = USUAL) -> int:
    """Return the port that a server would take now by default: the well-known one, one of the others, or 0 (any).

    The port is not reserved: another server may take it first.
    """
    ports = transport.ports
    return next((port for port in (ports.well_known, *ports.others) if not may_bind(port)), _ANY_PORT)


def port_notice(port: int, transport: Transport = USUAL) -> str | None:
    """Return a message that names a port chosen by default; None if it is the well-known one."""
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


class Listening(Struct, frozen=True, kw_only=True):
    """Options of a server that runs by itself: `flashferry serve` and the depot.

    Attributes:
        transports: Names of the transports to serve, in the order of their listeners.
        port: Port of the default transport, 0 to 65535; None takes 21 if it is permitted and free, else the first free
            one from 2121 on.
        other_ports: Ports of the others, by `Transport.listener_name`; a missing one is chosen likewise.
        certificate: File of our certificate, for a transport that needs one, or None.
        key: File of its private key, or None.
        masquerade: Address to name in PASV replies behind NAT, or None.
        passive_ports: First and last port of data connections; None lets the kernel choose.
        congestion_control: `auto`, `bbr`, `cubic`, `reno` or `system`.
        dscp: DSCP of control and data, 0 to 63; 1 is lower effort.
        sessions: Most concurrent sessions, from 1; None derives it from the limit on open files.

    Raises:
        ConfigInvalid: A transport is unknown or lacks an option that it needs; or a port or a certificate is given for
            a transport that is not served.
    """

    transports: tuple[str, ...] = (USUAL.name,)
    listen: str = ANY_ADDRESS
    port: int | None = None
    other_ports: Mapping[str, int] = field(default_factory=dict)
    certificate: Path | None = None
    key: Path | None = None
    masquerade: str | None = None
    passive_ports: tuple[int, int] | None = None
    congestion_control: str = "auto"
    dscp: int = 0
    sessions: int | None = None

    def __post_init__(self) -> None:
        """Check that no two options contradict each other."""
        check_served(self.served, ports=self.other_ports, port=self.port, certificate=self.certificate, key=self.key)

    @property
    def served(self) -> tuple[Transport, ...]:
        """Return the transports to serve, each once."""
        known = {one.name: one for one in TRANSPORTS}
        if (unknown := next((name for name in self.transports if name not in known), None)) is not None:
            *others, last = known
            raise ConfigInvalid(
                f"--transports: expected {', '.join(others)} or {last}, found {unknown!r}",
                hint="Give one of these words, or several with commas between them",
            )
        return tuple(known[name] for name in dict.fromkeys(self.transports))

    @property
    def profile(self) -> SenderProfile:
        """Return the socket settings of the sender."""
        return SenderProfile(congestion_control=self.congestion_control, dscp=self.dscp)

    def listeners(self, host_keys: Path) -> tuple[ListenerSettings, ...]:
        """Return the settings of its listeners.

        Raises:
            ConfigInvalid: An option that a protocol needs is missing.
            SettingsInvalid: An option is out of its range.
        """
        where = ListenOptions(
            address=self.listen,
            passive_ports=self.passive_ports,
            masquerade_address=self.masquerade,
            certificate=self.certificate,
            key=self.key,
            host_keys=host_keys,
        )
        return listeners_at(self.served, where, ports={USUAL.listener_name: self.port, **self.other_ports})

    def port_notices(self, port_of: Callable[[str], int]) -> tuple[str, ...]:
        """Return the messages that name the ports chosen by default."""
        given = {*self.other_ports} | (set() if self.port is None else {USUAL.listener_name})
        found = {one.listener_name: one for one in reversed(self.served) if one.listener_name not in given}
        notices = (port_notice(port_of(one.name), one) for one in found.values())
        return tuple(notice for notice in notices if notice is not None)


def check_served(
    transports: tuple[Transport, ...],
    *,
    port: int | None,
    ports: Mapping[str, int],
    certificate: Path | None,
    key: Path | None,
) -> None:
    """Check that our server can serve some transports with the options given.

    Raises:
        ConfigInvalid: There is no transport, one lacks an option that it needs, or an option is given for one that is
            not served.
    """
    if not transports:
        raise ConfigInvalid("--transports: expected at least one, found none", hint=f"Give {USUAL.name}, for example")
    missing = transport_request(AS_USUAL, certificate=certificate, key=key).missing
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
    """Return whether a transport needs our certificate."""
    return transport.name == HTTPS.name


def check_files(certificate: Path, key: Path, *, addresses: tuple[str, ...] = ()) -> None:
    """Check our certificate and its key, before any device is served.

    `addresses` are the addresses or names for devices, as far as they are known: it is to have each of them.

    Raises:
        ConfigInvalid: They cannot be used: another's key, one that others can read, expired, or for another name.
    """
    # Late: who serves no HTTPS waits for no library of certificates to be imported.
    try:
        import_module("flashferry.httpserver").check_certificate(certificate, key, addresses=addresses)
    except SettingsInvalid as error:
        raise ConfigInvalid(error.message, hint=error.hint) from None


def usable_addresses(
    transport: Transport, addresses: tuple[str, ...], certificate: Path | None, key: Path | None
) -> tuple[str, ...]:
    """Return those of our addresses that a transport can use: with TLS, those that the certificate names.

    Raises:
        ConfigInvalid: The certificate names none of them, or cannot be used at all.
    """
    if transport.name != HTTPS.name or certificate is None or key is None:
        return addresses
    # Late import: a command without HTTPS starts faster without the library of certificates.
    check = import_module("flashferry.httpserver").check_certificate
    fitting: list[str] = []
    complaint: SettingsInvalid | None = None
    for address in addresses:
        try:
            check(certificate, key, addresses=(address,))
        except SettingsInvalid as error:
            complaint = error
        else:
            fitting.append(address)
    if complaint is not None and not fitting:
        raise ConfigInvalid(complaint.message, hint=complaint.hint)
    return tuple(fitting)
